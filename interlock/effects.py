"""Words: what an effect, a proposal, an entry and a history are. No I/O, no rules.

A `Proposal` is the decided call. A `History` is what the journal holds about one effect: its `Entry` list in order.
An `Entry` keeps its bytes as they were stored, because those are what is hashed; reading and writing back changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from interlock.errors import BadInput
from interlock.record import NamedTuple

FORMAT_VERSION = 1
"""The version that every stored entry carries (`v`). A journal with a higher one is refused."""


class Kind(StrEnum):
    """The kinds of entry. The stored text is API: pinned by a test, never renamed."""

    PROPOSED = "PROPOSED"
    ESCALATED = "ESCALATED"
    DECIDED = "DECIDED"
    AUTHORIZED = "AUTHORIZED"
    DISPATCHED = "DISPATCHED"
    COMMITTED = "COMMITTED"
    REFUSED = "REFUSED"
    FAILED = "FAILED"
    AMBIGUOUS = "AMBIGUOUS"
    RESOLVED = "RESOLVED"
    SETTLED = "SETTLED"
    REVERSED = "REVERSED"
    AT_RISK = "AT_RISK"


class Draft(NamedTuple):
    """An entry that is not written yet.

    Attributes:
        kind: what happened.
        at: when, RFC 3339 text in UTC, by the gate's clock. For reports and windows only.
        data: JSON content of this kind of entry; becomes part of the hashed bytes.
    """

    kind: Kind
    at: str
    data: Mapping[str, Any]


class Entry(NamedTuple):
    """One stored entry.

    Attributes:
        effect_id: the effect it belongs to.
        n: its place in that effect's history, from 0.
        kind: what happened.
        at: when, by the writer's clock.
        by: the worker that wrote it.
        data: the content of this kind of entry, read-only by convention.
        body: the bytes as stored; `hash` is over exactly these.
        hash: SHA-256 of `body`, lower-case hex. `body` names the hash of the effect's entry before it (`prev`).
    """

    effect_id: str
    n: int
    kind: Kind
    at: str
    by: str
    data: Mapping[str, Any]
    body: bytes
    hash: str


class History(NamedTuple):
    """All that the journal holds about one effect, in order. An effect nobody has proposed has no entries."""

    effect_id: str
    entries: tuple[Entry, ...] = ()

    @property
    def head(self) -> str:
        """The hash of the last entry; empty for an unknown effect. What a conditional append compares."""
        return self.entries[-1].hash if self.entries else ""

    @property
    def kind(self) -> Kind | None:
        """The kind of the last entry, None for an unknown effect."""
        return self.entries[-1].kind if self.entries else None


class Own(NamedTuple):
    """The effect itself, as the service already has it. A look-up may answer with one, and facts may carry one.

    Give one where what stands under the key may be another request's: after a crash, or where no answer came, something that differs
    is AMBIGUOUS and a person gets the sentence. "Absent" would let it be sent again, and the object alone would count as done.

    Attributes:
        evidence: what the service shows: the object, or True.
        differs: in what it is not what was asked for, in one sentence; empty if it is that.
    """

    evidence: Any
    differs: str = ""


class Facts(dict[str, Any]):
    """What a `premises=` callback may answer with, where reading the facts showed the effect itself among them.

    Then it is not sent: it has landed, even if this journal knows nothing of it, because it was lost or another one sent it.

    Args:
        facts: the named facts.
        own: the effect; None if it is not there, which says no more than that it was not seen.
        before: those facts that were otherwise when it was decided, where the call is younger than the decision and the service tells.
    """

    def __init__(
        self, facts: Mapping[str, Any], own: Own | None = None, before: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(facts)
        self.own: Any = own
        self.before: Mapping[str, Any] = before or {}


def as_decided(facts: Any) -> Any:
    """Facts that were just read, as they were when it was decided."""
    before = facts.before if isinstance(facts, Facts) else {}
    return {**facts, **before} if before else facts


class Proposal(NamedTuple):
    """The decided call: what will be sent, and what the decider saw. Plain data; it may be kept, copied and resumed.

    Attributes:
        effect: name of the effect.
        key: business key, as the key callback gave it.
        effect_id: identity derived from `effect` and `key`.
        payload: the arguments in their JSON form, by parameter name, in the form `values` encodes.
        digest: fingerprint of the bound arguments (`binds=`); another digest under the same key is a conflict.
        seen: the facts the decider saw, in encoded form; None when no premises are declared or `fresh`.
        fresh: the decision is made in the very call that submits, which reads the facts once, as seen and as present.
        decision: names the decision; a refusal stands for its decision.
        origin: where the call came from, such as a framework's ids. On the record beside the proposal; no part of identity or digest.
    """

    effect: str
    key: str
    effect_id: str
    payload: Mapping[str, Any]
    digest: str
    seen: Mapping[str, Any] | None = None
    fresh: bool = False
    decision: str = ""
    origin: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON form, to keep until it is submitted: the facts as the decider saw them are in it.

        It is not signed: whoever can write where it is kept can write another one.
        """
        told = self._asdict()
        del told["fresh"]
        return {"interlock_proposal": FORMAT_VERSION, **told}

    @classmethod
    def from_dict(cls, document: Any) -> Proposal:
        """A proposal from its JSON form, for `gate.submit`.

        Raises:
            BadInput: it is not one, or of a newer version.
        """
        version = document.get("interlock_proposal") if isinstance(document, Mapping) else None
        if version != FORMAT_VERSION:
            raise BadInput(f"not a proposal of version {FORMAT_VERSION}, as to_dict() gives it: {document!r:.200}")
        told = {name: value for name, value in document.items() if name != "interlock_proposal"}
        if told.keys() != _KEPT.keys():
            names = ", ".join(sorted(map(str, told.keys() ^ _KEPT.keys())))
            raise BadInput(
                f"a kept proposal has all its parts and no others; this is about {names}. Make a new proposal."
            )
        for name, kinds in _KEPT.items():
            if not isinstance(told[name], kinds):
                raise BadInput(f"a proposal's {name} cannot be {told[name]!r:.200}. Make a new proposal.")
        return cls(**told)


_KEPT: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("effect", "key", "effect_id", "digest", "decision"), (str,)),
    "payload": (Mapping,),
    **dict.fromkeys(("seen", "origin"), (Mapping, type(None))),
}
"""What is kept of a proposal, and what it may be."""
