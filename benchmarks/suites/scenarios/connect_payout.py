"""`python -m benchmarks scenario connect_payout`: one payout per approved case, from a connected account's balance.

Live it needs a test account that is a Connect platform, and STRIPE_CONNECT_ACCOUNT=acct_... of it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness.document import Document
from benchmarks.harness.listing import cut
from benchmarks.harness.stripe_place import CELL_TAG, StripePlace, as_dicts
from benchmarks.harness.stripe_wire import Death
from benchmarks.harness.suite import CannotRun, Options
from benchmarks.harness.truth import READERS
from benchmarks.suites.e2e.case import Answer
from benchmarks.suites.scenarios import play
from benchmarks.suites.scenarios.connect_payout_arms import UNDONE
from benchmarks.suites.scenarios.play import Row, Scenario, Stage

NAME = "connect_payout"
AMOUNT_MINOR = 5_000
BALANCE_MINOR = 20_000
ACCOUNT_VARIABLE = "STRIPE_CONNECT_ACCOUNT"
HERE = Path(__file__).parent
BANK = "a bank that says at once what became of a payout"

CONNECTED: Any = {
    "type": "custom",
    "country": "US",
    "capabilities": {"transfers": {"requested": True}},
    "tos_acceptance": {"date": 1_700_000_000, "ip": "127.0.0.1"},
    "external_account": {
        "object": "bank_account",
        "country": "US",
        "currency": "usd",
        "account_number": "000123456789",
        "routing_number": "110000000",
    },
}
"""What a connected account is made with; the numbers are those of docs.stripe.com/connect/testing."""


def run(options: Options) -> Document:
    """Play it."""
    return play.run(SCENARIO, options)


def set_up(place: StripePlace, cell: str, directory: Path) -> Mapping[str, str]:
    """A connected account with $200 in its balance; live the one that is named, with as much put into it.

    Raises:
        CannotRun: Live, none is named.
    """
    client = place.client_of(cell)
    account = os.environ.get(ACCOUNT_VARIABLE, "")
    if place.is_local:
        account = str(client.v1.accounts.create(CONNECTED).id)
    elif not account:
        raise CannotRun(f"live, connect_payout needs {ACCOUNT_VARIABLE}=acct_... of a Connect platform's test account")
    place.pay(cell, BALANCE_MINOR, card="pm_card_bypassPending")
    client.v1.transfers.create({"amount": BALANCE_MINOR // 2, "currency": "usd", "destination": account})
    return {"order": cell, "account": account}


def read_truth(place: StripePlace, cell: Mapping[str, Any]) -> dict[str, Any]:
    """The payouts that this cell made from the account, by agent and by hand; one that failed went out and came back."""
    page = place.client.v1.payouts.list({"limit": 100}, {"stripe_account": str(cell["case_account"])})
    payouts = [one for one in as_dicts(page) if (one.get("metadata") or {}).get(CELL_TAG) == cell["cell"]]
    return {
        "money_minor": sum(int(one["amount"]) for one in payouts),
        "count": len(payouts),
        "ids": [str(one["id"]) for one in payouts],
        "arrived_minor": sum(int(one["amount"]) for one in payouts if one["status"] not in UNDONE),
    }


READERS[NAME] = read_truth


def revoke(stage: Stage) -> None:
    """The approval is taken back."""
    stage.approvals.revoke()


def pay_by_hand(stage: Stage) -> None:
    """Somebody pays the same $50 out by hand."""
    made = stage.place.client_of(stage.cell).v1.payouts.create(
        {"amount": AMOUNT_MINOR, "currency": "usd"}, {"stripe_account": stage.job.case["account"]}
    )
    stage.by_hand.append(str(made.id))


def a_day_passes(stage: Stage) -> None:
    """The service forgets its keys."""
    stage.a_day_passes()


def arrives(stage: Stage, answer: Answer) -> None:
    """The bank books it."""
    stage.place.local.arrive(str(answer.refund), "paid")


def bounces(stage: Stage, answer: Answer) -> None:
    """The bank sends it back."""
    stage.place.local.arrive(str(answer.refund), "failed", failure_code="account_closed")


ROWS = (
    Row(
        name="crash_before_send",
        what="SIGKILL right before the POST; nothing happens meanwhile",
        die=Death.BEFORE_SEND,
        wanted_minor=AMOUNT_MINOR,
        wanted_count=1,
    ),
    Row(
        name="crash_after_commit",
        what="SIGKILL after the answer arrived; later the bank books the payout",
        die=Death.BEFORE_ACK,
        later=arrives,
        wanted_minor=AMOUNT_MINOR,
        wanted_count=1,
        settlement="settled",
        local_only=BANK,
    ),
    Row(
        name="approval_revoked_during_outage",
        what="SIGKILL right before the POST; the approval is revoked",
        die=Death.BEFORE_SEND,
        outage=revoke,
        wanted_minor=0,
        wanted_count=0,
    ),
    Row(
        name="paid_by_hand_during_outage",
        what="SIGKILL right before the POST; somebody pays the same $50 out by hand",
        die=Death.BEFORE_SEND,
        outage=pay_by_hand,
        wanted_minor=AMOUNT_MINOR,
        wanted_count=1,
    ),
    Row(
        name="key_pruned_after_24h",
        what="SIGKILL after the answer arrived; a day later the service has forgotten the key (live: emulated on the wire)",
        die=Death.BEFORE_ACK,
        outage=a_day_passes,
        wanted_minor=AMOUNT_MINOR,
        wanted_count=1,
    ),
    Row(
        name="payout_bounces",
        what="SIGKILL after the answer arrived; later the bank sends the payout back",
        die=Death.BEFORE_ACK,
        later=bounces,
        wanted_minor=AMOUNT_MINOR,
        wanted_count=1,
        settlement="reversed",
        local_only=BANK,
    ),
)

SCENARIO = Scenario(
    name=NAME,
    title="Scenario: one payout per approved case",
    intro=(
        "A connected account with a balance, one $50 payout approved. One payout per approved case, none once the approval is revoked or "
        "somebody paid it out by hand. Money is the payouts that were created, by the service's list."
    ),
    amount_minor=AMOUNT_MINOR,
    dies_at="/v1/payouts",
    set_up=set_up,
    rows=ROWS,
    truth=NAME,
    listings=[
        cut(HERE / f"{NAME}_arms.py", "hand_check", title="The hand check"),
        cut(HERE / f"{NAME}_arms.py", "look_again", title="The hand check's nightly job"),
        cut(HERE / f"{NAME}_arms.py", "interlock", title="Interlock", text="Later: `gate.watch()`, in any process."),
    ],
)

add_arguments = play.arguments_of(SCENARIO)
