"""What may follow what, and what a history adds up to.

    nothing -> PROPOSED -> AUTHORIZED -> DISPATCHED -> COMMITTED | REFUSED | FAILED | AMBIGUOUS
                  |            |             |  ^           |
                  |            +-> REFUSED   +--+ resend    +-> SETTLED <-> AT_RISK -> REVERSED, the end
                  +-> REFUSED
                  +-> COMMITTED: the service has it already, and this journal did not send it

Theory of operation. An effect's history is a list of entries; its state is the fold of that list and nothing else.
DISPATCHED is the point of no return: from there on, silence is not "no effect". A worker that finds an effect DISPATCHED
and its sender gone appends a DISPATCHED of its own before it sends again, so the last DISPATCHED names who holds the
claim, and the conditional append makes sure that there is one such entry, not two.

REFUSED and FAILED end a decision, not an effect: a new PROPOSED may follow. After FAILED (certainly not landed) the next
dispatch is a new attempt with an idempotency key of its own, because services replay a remembered failure.

SETTLED and AT_RISK follow one another as often as the service says so, each anew for a new reason. REVERSED says that the effect was
undone for good: nothing follows it.

A late answer counts: a send that its own gate had stopped waiting for may still say COMMITTED after the effect was judged
AMBIGUOUS or REFUSED by others. The truth wins, and the chain shows both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.effects import Entry, History, Kind
from interlock.errors import IllegalTransition
from interlock.record import NamedTuple

_SETTLEMENT = frozenset({Kind.SETTLED, Kind.REVERSED, Kind.AT_RISK})

TRANSITIONS: Mapping[Kind | None, frozenset[Kind]] = {
    None: frozenset({Kind.PROPOSED}),
    Kind.PROPOSED: frozenset({Kind.AUTHORIZED, Kind.REFUSED, Kind.ESCALATED, Kind.COMMITTED}),
    Kind.ESCALATED: frozenset({Kind.DECIDED, Kind.REFUSED}),
    Kind.DECIDED: frozenset({Kind.AUTHORIZED, Kind.REFUSED}),
    Kind.AUTHORIZED: frozenset({Kind.DISPATCHED, Kind.REFUSED}),
    Kind.DISPATCHED: frozenset({Kind.DISPATCHED, Kind.COMMITTED, Kind.REFUSED, Kind.FAILED, Kind.AMBIGUOUS}),
    Kind.COMMITTED: _SETTLEMENT,
    Kind.REFUSED: frozenset({Kind.PROPOSED, Kind.COMMITTED}),
    Kind.FAILED: frozenset({Kind.PROPOSED, Kind.COMMITTED}),
    Kind.AMBIGUOUS: frozenset({Kind.RESOLVED, Kind.COMMITTED}),
    Kind.RESOLVED: frozenset({Kind.COMMITTED}) | _SETTLEMENT,
    Kind.SETTLED: _SETTLEMENT,
    Kind.REVERSED: frozenset(),
    Kind.AT_RISK: _SETTLEMENT,
}
"""For each last entry, the kinds that may follow it. The journal asserts this on write and again on read."""

OPEN = frozenset({Kind.PROPOSED, Kind.ESCALATED, Kind.DECIDED, Kind.AUTHORIZED, Kind.DISPATCHED})
"""An effect whose last entry is one of these still needs somebody; `recover()` looks at exactly these."""

LANDED = frozenset({Kind.COMMITTED, Kind.SETTLED, Kind.REVERSED, Kind.AT_RISK})
"""Last entries of an effect that the service has accepted."""


def check_transition(before: Kind | None, after: Kind, *, effect_id: str) -> None:
    """Refuse an entry that may not follow the one before it.

    Raises:
        IllegalTransition: with the effect and both kinds.
    """
    if after not in TRANSITIONS[before]:
        raise IllegalTransition(
            f"effect {effect_id}: {after} may not follow {before or 'nothing'}. The journal was edited, or an adapter "
            "wrote past the gate; run `gate.journal.verify()` and restore the journal from a copy that verifies."
        )


class State(NamedTuple):
    """The fold of one history.

    Attributes:
        kind: kind of the last entry, None for an unknown effect.
        proposed: data of the last PROPOSED entry (payload, digest, seen, decision, effect, key).
        attempt: 1-based number of the idempotency key in use; grows only after FAILED.
        first_dispatch: the first DISPATCHED entry of this attempt: when the service first could have learned the key.
        dispatch: the last DISPATCHED entry of the last proposal: who holds the claim; None when it was never dispatched.
        last: data of the last entry.
    """

    kind: Kind | None
    proposed: Mapping[str, Any]
    attempt: int
    first_dispatch: Entry | None
    dispatch: Entry | None
    last: Mapping[str, Any]

    @property
    def is_open(self) -> bool:
        """Whether somebody still has to act on it."""
        return self.kind in OPEN

    @property
    def has_landed(self) -> bool:
        """Whether the service has accepted it, as far as the journal knows."""
        return self.kind in LANDED


class Request(NamedTuple):
    """What was sent once or more under one idempotency key.

    Attributes:
        proposed: data of the PROPOSED entry that it followed.
        key: the idempotency key.
    """

    proposed: Mapping[str, Any]
    key: str

    @property
    def payload(self) -> Mapping[str, Any]:
        """The arguments."""
        payload: Mapping[str, Any] = self.proposed["payload"]
        return payload

    @property
    def digest(self) -> str:
        """The fingerprint of the arguments that count."""
        return str(self.proposed["digest"])


ABSENT = "absent"
"""The reason, and the verdict, of an effect that failed because a trusted look-up did not find it: nobody said no to it."""


def uncertain(history: History) -> list[Request]:
    """The requests that may land yet: sent, and no answer to them says that they did not. The last one first.

    An answer speaks for the request that it came to. Of one that came back without any, not even a trusted look-up proves more than that
    it was not there then. So a decision's requests are certain only where it sent a single one, and that one was answered.
    """
    found: dict[tuple[str, str], Request] = {}
    proposed: Mapping[str, Any] = {}
    sent: list[Request] = []
    for entry in history.entries:
        if entry.kind is Kind.PROPOSED:
            found.update(((request.key, request.digest), request) for request in sent)
            proposed, sent = entry.data, []
        elif entry.kind is Kind.DISPATCHED:
            sent.append(Request(proposed, entry.data["key"]))
        elif entry.kind is Kind.FAILED and len(sent) == 1 and entry.data.get("verdict", entry.data["reason"]) != ABSENT:
            sent = []
    found.update(((request.key, request.digest), request) for request in sent)
    return list(found.values())[::-1]


_NOTHING: Mapping[str, Any] = {}
UNKNOWN = State(None, _NOTHING, 1, None, None, _NOTHING)


def fold(history: History) -> State:
    """What a history adds up to.

    Raises:
        IllegalTransition: an entry follows one that it may not follow.
    """
    if not history.entries:
        return UNKNOWN
    proposed: Mapping[str, Any] = _NOTHING
    attempt = 1
    first: Entry | None = None
    dispatch: Entry | None = None
    before: Kind | None = None
    for entry in history.entries:
        kind = entry.kind
        if kind not in TRANSITIONS[before]:
            check_transition(before, kind, effect_id=history.effect_id)
        if kind is Kind.PROPOSED:
            if before is Kind.FAILED:
                attempt += 1
                first = None
            proposed = entry.data
            dispatch = None
        elif kind is Kind.DISPATCHED:
            dispatch = entry
            if first is None:
                first = entry
        before = kind
    return State(before, proposed, attempt, first, dispatch, history.entries[-1].data)
