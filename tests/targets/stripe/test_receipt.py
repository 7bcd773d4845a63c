"""A receipt as a person reads it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import stripe

from interlock import Interlock, Receipt
from interlock.targets.stripe import Approval, stripe_refund
from interlock.testing import SimulatedCrash
from tests.targets.stripe.conftest import Case, by_order


def test_a_receipt_reads_as_lines(gate: Interlock, client: stripe.StripeClient, case: Case) -> None:
    """One line for the effect and one for each entry: when, what, its hash, who allowed it, what it holds, and what Stripe made."""
    approval = Approval(id=f"ap_{case.order}", by="ann", amount_minor=2000)
    outcome = stripe_refund(gate, client, key=by_order, approval=lambda case: approval)(case, amount=2000)
    head, *lines = str(outcome.receipt()).splitlines()
    assert head == f"receipt of {outcome.effect_id}: stripe_refund 'refund:{case.order}'"
    assert [line.split()[3] for line in lines] == ["PROPOSED", "AUTHORIZED", "DISPATCHED", "COMMITTED"]
    assert all(re.match(r"  \d  \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ  [A-Z]+ +#[0-9a-f]{8}", line) for line in lines)
    assert f"allowed, approval ap_{case.order}" in lines[1]
    assert f"attempt 1, holds 2000 of approval:ap_{case.order}" in lines[2]
    assert lines[3].endswith(f"via send, {outcome.value.id}")
    assert max(map(len, lines)) < 140


def test_a_refusal_reads_as_a_reason(
    open_gate: Callable[..., Interlock], client: stripe.StripeClient, case: Case
) -> None:
    """A refusal at recovery says what did not hold."""
    gate = open_gate()
    refund = stripe_refund(gate, client, key=by_order, settle_after=0)
    with pytest.raises(SimulatedCrash):
        gate.submit(refund.proposal(case, amount=2000), crash_before_effect=True)
    client.v1.refunds.create({"payment_intent": case.payment_intent, "amount": 2000})
    gate = open_gate()
    stripe_refund(gate, client, key=by_order, settle_after=0)
    (outcome,) = gate.recover()
    last = str(outcome.receipt()).splitlines()[-1]
    assert "reason stale_premise_at_recovery" in last
    assert "lookup absent" in last
    assert "premise others does not hold" in last


def test_a_forged_receipt_is_still_a_text() -> None:
    """Printing never raises: what cannot be read is said."""
    assert "cannot be read" in str(Receipt("e1", ("no JSON",), ("h",)))
    assert str(Receipt("e1", (), ())) == "receipt of e1: ? '?'"
