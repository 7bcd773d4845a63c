"""`python -m benchmarks scenario stripe_dispute`: a refund and a chargeback on one charge, in either order.

Invariant: no refund is created on a charge once it is charged back; one sent before it, exactly once; and what became of it later is
on the record, the chargeback minutes after a refund that stood too ($120 out on $100).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness.document import Document
from benchmarks.harness.listing import cut
from benchmarks.harness.stripe_place import StripePlace, as_dicts, money_of
from benchmarks.harness.stripe_wire import Death
from benchmarks.harness.suite import Options
from benchmarks.harness.truth import READERS
from benchmarks.suites.e2e.case import Answer
from benchmarks.suites.scenarios import play
from benchmarks.suites.scenarios.play import Row, Scenario, Stage

NAME = "stripe_dispute"
AMOUNT_MINOR = 2_000
HERE = Path(__file__).parent
VERBS = "a dispute or a failing refund on demand"
FIVE_MINUTES_S = 300.0


def run(options: Options) -> Document:
    """Play it."""
    return play.run(SCENARIO, options)


def set_up(place: StripePlace, cell: str, directory: Path) -> Mapping[str, str]:
    """A $100 payment and its charge."""
    payment = place.pay(cell)
    return {"order": cell, "payment_intent": str(payment.id), "charge": str(payment.latest_charge)}


def read_truth(place: StripePlace, cell: Mapping[str, Any]) -> dict[str, Any]:
    """The refunds that were created on the charge, whatever became of them, and all that went out: refunds that stand, and chargebacks."""
    refunds = place.refunds(str(cell["case_payment_intent"]))
    disputes = as_dicts(place.client.v1.disputes.list({"charge": str(cell["case_charge"]), "limit": 100}))
    taken = sum(
        int(one["amount"])
        for one in disputes
        if not str(one["status"]).startswith("warning_") and one["status"] != "won"
    )
    return {
        "money_minor": sum(int(one["amount"]) for one in refunds),
        "count": len(refunds),
        "ids": [str(one["id"]) for one in refunds],
        "refund_states": [str(one["status"]) for one in refunds],
        "disputes": [str(one["status"]) for one in disputes],
        "out_minor": money_of(refunds)[0] + taken,
    }


READERS[NAME] = read_truth


def charge_back(stage: Stage) -> None:
    """The card holder charges the payment back."""
    stage.place.local.dispute(stage.job.case["charge"])


def charge_back_later(stage: Stage, answer: Answer) -> None:
    """Five minutes after the refund, the card holder charges the payment back."""
    stage.place.local.advance(FIVE_MINUTES_S)
    charge_back(stage)


def charge_back_fails_refund(stage: Stage, answer: Answer) -> None:
    """A chargeback posts, and the refund that had been accepted fails because of it."""
    stage.place.local.dispute(stage.job.case["charge"], fails_refunds=True)


def refund_fails(stage: Stage, answer: Answer) -> None:
    """The bank cannot book the refund."""
    stage.place.local.settle_refund(str(answer.refund), "failed", failure_reason="lost_or_stolen_card")


def nothing_happens(stage: Stage, answer: Answer) -> None:
    """Nothing comes later."""


ROWS = (
    Row(
        name="nothing_later",
        what="SIGKILL after the answer arrived; nothing happens later, and that is known, too",
        die=Death.BEFORE_ACK,
        later=nothing_happens,
        wanted_minor=AMOUNT_MINOR,
        wanted_count=1,
        settlement="settled",
    ),
    Row(
        name="chargeback_during_outage",
        what="SIGKILL right before the POST; the payment is charged back meanwhile",
        die=Death.BEFORE_SEND,
        outage=charge_back,
        wanted_minor=0,
        wanted_count=0,
        local_only=VERBS,
    ),
    Row(
        name="chargeback_after_commit",
        what="SIGKILL after the answer arrived; the payment is charged back meanwhile: sent before it, once, and at risk",
        die=Death.BEFORE_ACK,
        outage=charge_back,
        later=nothing_happens,
        wanted_minor=AMOUNT_MINOR,
        wanted_count=1,
        settlement="at_risk",
        local_only=VERBS,
    ),
    Row(
        name="chargeback_after_refund_stood",
        what="SIGKILL after the answer arrived; five minutes after the case was closed the whole $100 is charged back: $120 are out",
        die=Death.BEFORE_ACK,
        later=charge_back_later,
        wanted_minor=AMOUNT_MINOR,
        wanted_count=1,
        settlement="at_risk",
        local_only=VERBS,
    ),
    Row(
        name="refund_fails_by_chargeback",
        what="SIGKILL after the answer arrived; later a chargeback posts, and the accepted refund fails because of it",
        die=Death.BEFORE_ACK,
        later=charge_back_fails_refund,
        wanted_minor=AMOUNT_MINOR,
        wanted_count=1,
        settlement="reversed",
        local_only=VERBS,
    ),
    Row(
        name="refund_fails_later",
        what="SIGKILL after the answer arrived; later the bank cannot book the refund",
        die=Death.BEFORE_ACK,
        later=refund_fails,
        wanted_minor=AMOUNT_MINOR,
        wanted_count=1,
        settlement="reversed",
        local_only=VERBS,
    ),
)

SCENARIO = Scenario(
    name=NAME,
    title="Scenario: a refund and a chargeback on one charge",
    intro=(
        "A $100 payment, one $20 refund approved. No refund may be created on a charge once it is charged back; one that was sent before "
        "it, exactly once; and what became of it later must be known. Money is what was created as refunds, by the service's list; "
        "out_minor in each cell is what really left, chargebacks included."
    ),
    amount_minor=AMOUNT_MINOR,
    dies_at="/v1/refunds",
    set_up=set_up,
    rows=ROWS,
    truth=NAME,
    listings=[
        cut(HERE / f"{NAME}_arms.py", "hand_check", title="The hand check"),
        cut(HERE / f"{NAME}_arms.py", "look_again", title="The hand check's nightly job"),
        cut(HERE / f"{NAME}_arms.py", "interlock", title="Interlock", text="Later: `gate.watch()`, in any process."),
    ],
    notes=[
        "Stripe itself refuses a refund of a charge that was charged back, so every arm holds that row; the arms differ in what they know."
    ],
)

add_arguments = play.arguments_of(SCENARIO)
