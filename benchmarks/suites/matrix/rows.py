"""The rows: what happens to a case, and what the service must hold in the end. Each is a small play; no row knows a framework."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.harness.stripe_wire import Death
from benchmarks.suites.matrix.case import AMOUNT_MINOR, CAP_MINOR, UNRELATED_MINOR
from benchmarks.suites.matrix.stage import Stage


def lost_reply(stage: Stage) -> None:
    """Killed after the service took the refund; a new worker goes on."""
    stage.crash(Death.BEFORE_ACK)
    stage.resume()


def hand_refund(stage: Stage) -> None:
    """Killed before the POST; support refunds the same by hand; a new worker goes on."""
    stage.crash(Death.BEFORE_SEND)
    stage.refund_by_hand(AMOUNT_MINOR)
    stage.resume()


def approval_revoked(stage: Stage) -> None:
    """Killed before the POST; the approval is taken back; a new worker goes on."""
    stage.crash(Death.BEFORE_SEND)
    stage.revoke()
    stage.resume()


def shared_cap(stage: Stage) -> None:
    """Two approved cases on one payment under one cap, carried out at the same time."""
    stage.approve_at_once(stage.cases)


def resumed_in_turn(stage: Stage) -> None:
    """One saved approval is delivered twice, one after the other, each to a worker of its own."""
    stage.approve()
    stage.approve()


def resumed_at_once(stage: Stage) -> None:
    """One saved approval is delivered twice, to two workers at the same time."""
    (case,) = stage.cases
    stage.approve_at_once((case, case))


def unrelated_refund(stage: Stage) -> None:
    """Killed before the POST; support refunds something else; a new worker goes on."""
    stage.crash(Death.BEFORE_SEND)
    stage.refund_by_hand(UNRELATED_MINOR)
    stage.resume()


@dataclass(frozen=True, kw_only=True)
class Row:
    """One way things go.

    Attributes:
        name: as tables head it.
        what: what happens, for the page.
        play: makes it happen.
        cases: how many approved cases the cell has.
        cap_minor: the most that agents may refund on the payment.
        wanted_minor: the money that the service must hold as refunded.
        wanted_count: in how many refunds.
        has_crash: whether a worker dies in it, so that crash to settled is measured.
    """

    name: str
    what: str
    play: Callable[[Stage], None]
    cases: int = 1
    cap_minor: int | None = None
    wanted_minor: int = AMOUNT_MINOR
    wanted_count: int = 1
    has_crash: bool = False


ROWS = (
    Row(
        name="lost_reply",
        what="SIGKILL after the service's answer arrived, before anything recorded it",
        play=lost_reply,
        has_crash=True,
    ),
    Row(
        name="hand_refund",
        what="SIGKILL right before the POST; support refunds the same $20 by hand",
        play=hand_refund,
        has_crash=True,
    ),
    Row(
        name="approval_revoked",
        what="SIGKILL right before the POST; the approval is taken back",
        play=approval_revoked,
        wanted_minor=0,
        wanted_count=0,
        has_crash=True,
    ),
    Row(
        name="shared_cap",
        what="two approvals of $20 race one cap of $30 on the payment",
        play=shared_cap,
        cases=2,
        cap_minor=CAP_MINOR,
    ),
    Row(
        name="resumed_in_turn",
        what="duplicate_resume: one saved approval is delivered twice, one after the other",
        play=resumed_in_turn,
    ),
    Row(
        name="resumed_at_once",
        what="duplicate_resume: one saved approval is delivered to two workers at the same time",
        play=resumed_at_once,
    ),
    Row(
        name="unrelated_refund",
        what="SIGKILL right before the POST; support refunds an unrelated $5; $25 in two refunds are right",
        play=unrelated_refund,
        wanted_minor=AMOUNT_MINOR + UNRELATED_MINOR,
        wanted_count=2,
        has_crash=True,
    ),
)
BY_NAME = {row.name: row for row in ROWS}
STOPPED = ("hand_refund", "approval_revoked")
"""Where the refund must not be sent any more: there the gate waits out its declared pause before it says no, so that nothing comes of the
dead worker's request after that."""

STANDING = tuple(row.name for row in ROWS if row.has_crash and row.name not in STOPPED)
"""Where the refund stands in the end."""

GROUPS = {"duplicate_resume": ("resumed_in_turn", "resumed_at_once")}
"""Names that stand for several rows, as `--row` takes them."""
