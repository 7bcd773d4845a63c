"""Words and rules of settlement: what became of an effect that the service has accepted. Pure; no I/O, no clock.

    COMMITTED (accepted) ----> SETTLED <----> AT_RISK ----> REVERSED (the end)
         |                        |              ^
         +------------------------+--------------+  each may also come first: a refund that fails without ever having settled

A re-read of the service gives a `Settlement`; `entry_for` says whether that is news. It is when the state or its reason changed, never
when only the evidence did, so reading the same thing twice writes nothing. `pending` and "nothing known yet" write nothing either.

Which effects are still watched is decided by the record: the COMMITTED entry carries a `Watch`, with the day on which watching ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from interlock.effects import Entry, History, Kind
from interlock.errors import BadInput
from interlock.record import NamedTuple, record

WATCH_FOR_S = 120 * 86_400.0
"""How long an accepted effect is watched by default, in seconds: for that long card networks take most chargebacks; for some reasons
up to 540 days (docs.chargeflow.io/docs/reference/concepts/network-timelines)."""
LONGEST_PAUSE_S = 86_400.0
"""No effect that is watched is left alone for longer than this, in seconds."""


class SettlementState(StrEnum):
    """What a service says about an effect that it has accepted. The texts are API: pinned by a test."""

    PENDING = "pending"
    SETTLED = "settled"
    AT_RISK = "at_risk"
    REVERSED = "reversed"


ACCEPTED = "accepted"
"""What `Outcome.settlement` says of an effect that landed and of which nothing is known since."""

KIND_OF: Mapping[str, Kind] = {
    SettlementState.SETTLED: Kind.SETTLED,
    SettlementState.AT_RISK: Kind.AT_RISK,
    SettlementState.REVERSED: Kind.REVERSED,
}
STATE_OF: Mapping[Kind, str] = {kind: str(state) for state, kind in KIND_OF.items()}


@record(frozen=True)
class Settlement:
    """What a re-read of the service gave.

    Attributes:
        state: `"pending"`, `"settled"`, `"at_risk"` or `"reversed"`. Reversed is final: the effect was undone and stays so.
        evidence: what the service showed; kept in JSON form.
        reason: a short, stable text that says why, for the record and for people. A new reason is news, so nothing that changes from
            one reading to the next belongs into it (a time, a counter).

    Raises:
        BadInput: another state, or a reason that is no text.
    """

    state: str
    evidence: Any = None
    reason: str = ""

    def __post_init__(self) -> None:
        if self.state not in list(SettlementState):
            raise BadInput(f"a settlement's state is one of {', '.join(SettlementState)}, not {self.state!r:.100}.")
        if not isinstance(self.reason, str):
            raise BadInput(f"a settlement's reason is a text, not {self.reason!r:.100}.")
        object.__setattr__(self, "state", str(self.state))


class Watch(NamedTuple):
    """What the COMMITTED entry of an effect that declares settlement says (`data["watch"]`).

    Attributes:
        until: when watching ends, RFC 3339 text in UTC.
        references: the service's ids under which an event can find the effect.
    """

    until: str
    references: tuple[str, ...] = ()


class Watched(NamedTuple):
    """A row of the journal's list of effects that are still within their horizon.

    Attributes:
        effect_id: the effect.
        name: name of the effect, so that its function can be found.
        until: when watching ends.
        state: `accepted`, or the state that was recorded last.
        since: when that was recorded.
    """

    effect_id: str
    name: str
    until: str
    state: str
    since: str


def watch_of(entry: Entry) -> Watch | None:
    """The watch that an entry begins, or None."""
    written = entry.data.get("watch") if entry.kind is Kind.COMMITTED else None
    if not isinstance(written, Mapping) or not isinstance(until := written.get("until"), str) or not until:
        return None
    references = written.get("references")
    listed = references if isinstance(references, list | tuple) else ()
    return Watch(until, tuple(dict.fromkeys(reference for reference in listed if isinstance(reference, str))))


def settlement_of(history: History) -> tuple[str, str]:
    """What is on the record about an effect's settlement, and why; empty for one that declares none, or has not landed."""
    last = history.entries[-1] if history.entries else None
    if last is None:
        return "", ""
    if last.kind in STATE_OF:
        return STATE_OF[last.kind], str(last.data.get("reason", ""))
    return (ACCEPTED if watch_of(last) is not None else ""), ""


def entry_for(history: History, now: Settlement | None) -> Kind | None:
    """The kind of entry that a reading calls for, or None if it is no news. What is reversed stays so."""
    if now is None or now.state == SettlementState.PENDING or history.kind is Kind.REVERSED:
        return None
    return None if settlement_of(history) == (now.state, now.reason) else KIND_OF[now.state]


def pause_s(state: str, *, quiet_s: float, every_s: float) -> float:
    """How long to leave a watched effect alone, in seconds: longer the longer nothing has happened, and longer once it has settled.

    Args:
        state: what is recorded of it.
        quiet_s: since when, in seconds.
        every_s: the shortest pause.
    """
    if state == SettlementState.SETTLED:
        return max(every_s, min(max(10 * every_s, quiet_s / 4), LONGEST_PAUSE_S))
    return max(every_s, min(quiet_s / 8, LONGEST_PAUSE_S))
