"""What a type checker makes of the ready-made Stripe effects. Checked by pyright in strict mode, never run."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import UTC, datetime
from typing import assert_type

import stripe

from interlock import Interlock, Outcome
from interlock.effects import Proposal
from interlock.targets.stripe import Approval, StripeRefund, stripe_payout, stripe_refund

gate = Interlock(".interlock")
client = stripe.StripeClient("sk_test_1")
approval = Approval(id="ap_1", by="ann", amount_minor=2000, until=datetime.now(UTC))


def key(case: dict[str, str]) -> str:
    """The key of a case."""
    return f"refund:{case['order']}"


def approved(case: dict[str, str]) -> Approval:
    """The approval of a case."""
    return approval


refund = stripe_refund(gate, client, key=key, approval=approved, duplicates="strict", timeout=10)
assert_type(refund, StripeRefund[Outcome])
assert_type(refund({"order": "881"}, amount=2000, decision="case 4471"), Outcome)
assert_type(refund.proposal({"order": "881"}, amount=2000, reason="duplicate"), Proposal)

arefund = stripe_refund(gate, client, key=key, asynchronous=True, name="arefund")
assert_type(arefund, StripeRefund[Awaitable[Outcome]])
payout = stripe_payout(gate, client, key=key, currency="usd")
assert_type(payout({"order": "881"}, amount=2000), Outcome)

stripe_refund(gate, client, key=key, retries=2)  # pyright: ignore[reportCallIssue]
stripe_refund(gate, client, key=key, duplicates="loose")  # pyright: ignore[reportArgumentType]
refund({"order": "881"}, amount="20.00")  # pyright: ignore[reportArgumentType]
refund({"order": "881"}, amount=2000, reason="because")  # pyright: ignore[reportArgumentType]


async def main() -> None:
    """The same, on an event loop."""
    assert_type(await arefund({"order": "881"}, amount=2000), Outcome)
