"""Decisions: which one a call stands under, and the moment that it was taken. Owns what an approval's `at` does to the facts.

    approval= answers            decision=        the decision is      and what counts as seen is
    True, None                   -                unnamed              what the first call reads
    Approval(id)                 -                the id               what the first call reads
    Approval(id, at)             -, or the id     the id               of what it reads, what was there at `at`
    any                          another          that name            what the call reads: whoever names it decides now
    any                          any, with seen=  as above             `seen`

`at` comes from the clock of whoever keeps the approval, `created` from Stripe's, in whole seconds. What has the same second counts as
made later, since it may have been: that stops what could have gone, and lets nothing go that should have been stopped. A clock that is
ahead of Stripe's hides that much; the gate cannot tell.

The moment is written beside the call as `approved`, and is no part of what the key binds:

    None                   no `at`: decided when the call was made
    {"id", "at"}           decided by this approval, at this second
    {"decision"}           decided when the call was made, by whoever named the decision
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from interlock.authority import Approval
from interlock.record import NamedTuple

SLACK_S = 86_400
"""How far Stripe's clock and ours may differ when a list is read from the moment of the decision on."""


class Decided(NamedTuple):
    """Under which decision a call stands.

    Attributes:
        name: the decision's; empty if it has none.
        approved: as it is written beside the call.
        since: where lists begin that are narrowed by time.
    """

    name: str
    approved: dict[str, Any] | None
    since: int


def decided(answer: Any, named: str, now: datetime) -> Decided:
    """Of what `approval=` answered and `decision=` named; `answer` is None if it could not be asked."""
    moment = int(now.timestamp())
    approval = answer if isinstance(answer, Approval) else None
    if named and (approval is None or named != approval.id):
        return Decided(named, {"decision": named}, moment - SLACK_S)
    if approval is None:
        return Decided("", None, moment - SLACK_S)
    if approval.at is None:
        return Decided(approval.id, None, moment - SLACK_S)
    at = second_of(approval.at)
    return Decided(approval.id, {"id": approval.id, "at": at}, min(at, moment) - SLACK_S)


def second_of(moment: datetime) -> int:
    """The whole second that it falls into."""
    return int(moment.timestamp() // 1)


def came_later(things: Iterable[Mapping[str, Any]], given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Those objects of Stripe's that came after the approval was given, or may have; none if it does not tell when that was."""
    at = (given.get("approved") or {}).get("at")
    return [] if at is None else [thing for thing in things if thing["created"] >= at]


def why_another(approval: Approval, given: Mapping[str, Any]) -> str:
    """Why an approval is not the one that a call was decided by, in one sentence; empty if it may be.

    The facts were judged as of one moment. An approval that is older than that would hide what came between the two.
    """
    recorded = given.get("approved") or {}
    if "decision" in recorded and recorded["decision"] != approval.id:
        return ""
    at = None if approval.at is None else second_of(approval.at)
    if recorded.get("id") == approval.id and at != recorded["at"]:
        told = "no time" if at is None else _shown(at)
        return (
            f"Approval {approval.id!r} was given at {_shown(recorded['at'])} when this was decided, and says {told} now. Another approval "
            "needs another id."
        )
    taken = recorded.get("at", given["since"] + SLACK_S)
    if at is not None and at < taken:
        return (
            f"Approval {approval.id!r} was given at {_shown(at)}, and this was decided on the facts of {_shown(taken)}, which it cannot "
            "have seen. If it could not be read at first, ask again; if its time was added later, it needs another id."
        )
    return ""


def _shown(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat()
