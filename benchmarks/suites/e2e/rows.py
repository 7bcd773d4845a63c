"""The rows: when the worker dies, what people do around it, and what the service must hold in the end.

What is wanted comes from the scenario, never from what a model said.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.harness.stripe_wire import Death
from benchmarks.suites.e2e.case import APPROVED_MINOR, UNRELATED_MINOR
from benchmarks.suites.e2e.stage import Stage

ALL_ARMS = ("no_check", "hand_check", "interlock")
WITH_UNRELATED_MINOR = APPROVED_MINOR + UNRELATED_MINOR


def nothing(stage: Stage) -> None:
    """Nobody does anything."""


def same_by_hand(stage: Stage) -> None:
    """Support refunds the same $20 by hand."""
    stage.refund_by_hand(APPROVED_MINOR)


def unrelated(stage: Stage) -> None:
    """Support refunds $5 for another reason."""
    stage.refund_by_hand(UNRELATED_MINOR)


def revoke(stage: Stage) -> None:
    """The approval is taken back."""
    stage.approval.revoke()


def a_day_passes(stage: Stage) -> None:
    """The service forgets its keys, and 25 hours are to have passed for the next worker."""
    stage.forget_keys()


@dataclass(frozen=True, kw_only=True)
class Row:
    """One way things go wrong.

    Attributes:
        name: As the table heads it.
        what: What happens, for the page.
        die: Where the first worker kills itself.
        before: What happens before any worker runs.
        outage: What happens while none runs.
        wanted_minor: The money that the service must hold as refunded.
        wanted_count: In how many refunds.
        arms: Who plays it.
        can_look_up: Whether the arm may ask the service for refunds.
        is_ambiguous: Whether nobody can know, so that the honest answer is AMBIGUOUS.
        is_counted: Whether it is one of the seven; the others are shown for themselves.
        emulated: What of it is emulated, and where; empty if everything is real in both services.
    """

    name: str
    what: str
    die: Death
    before: Callable[[Stage], None] = nothing
    outage: Callable[[Stage], None] = nothing
    wanted_minor: int | None = APPROVED_MINOR
    wanted_count: int | None = 1
    arms: tuple[str, ...] = ALL_ARMS
    can_look_up: bool = True
    is_ambiguous: bool = False
    is_counted: bool = True
    emulated: str = ""


PRUNE = (
    "The worker's clock is moved by 25 hours. Locally the service really forgets its keys; live, where a key cannot be made to age, "
    "every arm's key is written differently on the wire after the crash, which to the service is the same."
)

ROWS = (
    Row(
        name="crash_after_commit",
        what="SIGKILL after the service's answer arrived, before anything recorded it",
        die=Death.BEFORE_ACK,
    ),
    Row(
        name="hand_refund_before_decision",
        what="support refunds an unrelated $5 before any worker runs, so the model reads a payment with $5 refunded; then the same crash",
        die=Death.BEFORE_ACK,
        before=unrelated,
        wanted_minor=WITH_UNRELATED_MINOR,
        wanted_count=2,
    ),
    Row(
        name="hand_refund_during_outage",
        what="SIGKILL right before the POST; support refunds the same $20 by hand",
        die=Death.BEFORE_SEND,
        outage=same_by_hand,
    ),
    Row(
        name="unrelated_refund_during_outage",
        what="SIGKILL right before the POST; support refunds an unrelated $5",
        die=Death.BEFORE_SEND,
        outage=unrelated,
        wanted_minor=WITH_UNRELATED_MINOR,
        wanted_count=2,
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
        name="approval_revoked_after_commit",
        what="SIGKILL after the answer arrived; the approval is revoked; it must be reported as sent",
        die=Death.BEFORE_ACK,
        outage=revoke,
    ),
    Row(
        name="key_pruned_after_24h",
        what="SIGKILL after the answer arrived; the service has forgotten the key",
        die=Death.BEFORE_ACK,
        outage=a_day_passes,
        emulated=PRUNE,
    ),
    Row(
        name="no_lookup_after_24h",
        what="as above, and the service cannot look refunds up; nobody can know, and a person must get it",
        die=Death.BEFORE_ACK,
        outage=a_day_passes,
        arms=("interlock",),
        can_look_up=False,
        is_ambiguous=True,
        is_counted=False,
        emulated=PRUNE,
    ),
    Row(
        name="price_two_separate_twenties",
        what=(
            "SIGKILL right before the POST; support refunds $20 for something else entirely, so that $40 in 2 would be right; "
            "a rule that goes by the amount cannot tell"
        ),
        die=Death.BEFORE_SEND,
        outage=same_by_hand,
        wanted_minor=None,
        wanted_count=None,
        is_counted=False,
    ),
)
COUNTED = tuple(row.name for row in ROWS if row.is_counted)
