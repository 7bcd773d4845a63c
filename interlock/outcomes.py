"""Outcomes: what the caller gets. Owns the status and reason words and the sentence for each; no I/O.

Status and reason texts are API and pinned by a test. Each outcome has one plain sentence for a model and one for a person, and
both say whether asking again can help.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from interlock.effects import History, Kind
from interlock.errors import OutcomeError
from interlock.record import record

if TYPE_CHECKING:
    from interlock.receipts import Receipt


class Status(StrEnum):
    """What became of the effect."""

    COMMITTED = "COMMITTED"
    COMMITTED_BY_RETRY = "COMMITTED_BY_RETRY"
    COMMITTED_ON_QUERY = "COMMITTED_ON_QUERY"
    REAPPLIED_AFTER_QUERY = "REAPPLIED_AFTER_QUERY"
    DUPLICATE_IGNORED = "DUPLICATE_IGNORED"
    REFUSED = "REFUSED"
    FAILED = "FAILED"
    AMBIGUOUS = "AMBIGUOUS"
    IN_FLIGHT = "IN_FLIGHT"


class Reason(StrEnum):
    """Why it was refused, or why it is still in flight. A FAILED effect carries the reason of its service instead."""

    CONFLICTING_PAYLOAD = "conflicting_payload"
    LEASE = "lease"
    STALE_PREMISE = "stale_premise"
    PREMISE_FALSE = "premise_false"
    OVER_LIMIT = "over_limit"
    LEASE_AT_RECOVERY = "lease_at_recovery"
    STALE_PREMISE_AT_RECOVERY = "stale_premise_at_recovery"
    SENDER_ALIVE = "sender_alive"
    KEY_IN_USE = "key_in_use"
    UNANSWERED = "unanswered"
    ABSENCE_NOT_YET_TRUSTED = "absence_not_yet_trusted"
    LOOKUP_FAILED = "lookup_failed"
    CHECK_UNREADABLE = "check_unreadable"
    RACE_LOST = "race_lost"
    NO_FUNCTION = "no_function"
    RECOVERY_ERROR = "recovery_error"
    BAD_INPUT = "bad_input"
    UNREADABLE = "unreadable"


class Via(StrEnum):
    """How a landed effect came to be known as landed."""

    SEND = "send"
    RETRY = "retry"
    QUERY = "query"
    REAPPLY = "reapply"
    LATE_ANSWER = "late_answer"


STATUS_OF_VIA: Mapping[str, Status] = {
    Via.SEND: Status.COMMITTED,
    Via.LATE_ANSWER: Status.COMMITTED,
    Via.RETRY: Status.COMMITTED_BY_RETRY,
    Via.QUERY: Status.COMMITTED_ON_QUERY,
    Via.REAPPLY: Status.REAPPLIED_AFTER_QUERY,
}

_LANDED = frozenset(
    {
        Status.COMMITTED,
        Status.COMMITTED_BY_RETRY,
        Status.COMMITTED_ON_QUERY,
        Status.REAPPLIED_AFTER_QUERY,
        Status.DUPLICATE_IGNORED,
    }
)

_PERSON: Mapping[str, str] = {
    "COMMITTED": "It was done, once, and the service's answer is on the record.",
    "COMMITTED_BY_RETRY": "A crash or a lost answer left it open; it was sent again under the same idempotency key, and the service has it "
    "once.",
    "COMMITTED_ON_QUERY": "A crash or a lost answer left it open; the service was asked and has it. Nothing was sent after that.",
    "REAPPLIED_AFTER_QUERY": "A crash or a lost answer left it open; the service was asked and did not have it, so it was sent again, and "
    "its answer is on the record.",
    "DUPLICATE_IGNORED": "It had been done before; the recorded result was returned and nothing was sent.",
    "REFUSED:conflicting_payload": "Another call with other arguments is recorded under this key. Nothing was sent for this one.",
    "REFUSED:lease": "It is not allowed (any more). Nothing was sent. Allow it first; then it may be asked for again.",
    "REFUSED:stale_premise": "A fact changed between the decision and the send. Nothing was sent. Once it has been decided again on the "
    "present facts, ask with the new decision's name (decision=...).",
    "REFUSED:premise_false": "A fact was not as it must be when this was decided. Nothing was sent. Once it is and it has been decided "
    "again, ask with the new decision's name (decision=...).",
    "REFUSED:over_limit": "It would go over a limit that it shares with other effects. Nothing was sent. It may be asked for again once "
    "one of them gives back what it holds (it certainly did not happen), or with a higher limit.",
    "REFUSED:lease_at_recovery": "The process died before it was done, and the permission was gone when it came back. It did not land.",
    "REFUSED:stale_premise_at_recovery": "The process died before it was done, and a fact had changed when it came back. It did not land.",
    "REFUSED:bad_input": "The arguments of the call cannot be taken. Nothing is on the journal and nothing was sent.",
    "REFUSED:unreadable": "What it depends on could not be read. Nothing is on the journal and nothing was sent. See to what is read, then "
    "ask again.",
    "FAILED": "It certainly did not happen. It may be asked for again; that will be a new attempt.",
    "AMBIGUOUS": "Nobody can know whether it happened: the service cannot tell, and sending it again is not safe. "
    "A person must check at the service. It will not be sent again under this key; if it did not happen and is still wanted, "
    "ask for it under another key.",
    "IN_FLIGHT:sender_alive": "Another sender is working on it and is alive. Ask again later; nothing is sent beside it. "
    "If that process hangs, end it, and its effect can be recovered.",
    "IN_FLIGHT:key_in_use": "The service is still working on a request with this key. Ask again later.",
    "IN_FLIGHT:unanswered": "It was sent and no clear answer came. Ask again later; recovery will settle it.",
    "IN_FLIGHT:absence_not_yet_trusted": "The service does not show it yet, which is too early to mean that it is absent. Ask again later.",
    "IN_FLIGHT:lookup_failed": "It could not be looked up, or the look-up gave no clear answer, which says nothing about the "
    "effect. It stays open; see to the cause, then recover again.",
    "IN_FLIGHT:check_unreadable": "Permission or facts could not be read, so nothing was sent. Ask again when they can.",
    "IN_FLIGHT:race_lost": "Another worker got in first at the same moment. Ask again to get its result.",
    "IN_FLIGHT:no_function": "An effect of this name is open, but no function of this name is registered. Register it under that name "
    "(name=...; for a tool that was renamed, 'name' in its configuration), then recover again. Until then do not ask for it under another "
    "name: that is another effect, and may do it twice.",
    "IN_FLIGHT:recovery_error": "Recovery of this effect stopped with an error; it is still open. See the detail, then recover again.",
}

_SAID_NO = "It did not happen. Calling again in the same way will not help; the cause has to be fixed first."
"""Of a FAILED effect to which the service said no."""

_NOT_KNOWN_YET = (
    "It is not known yet whether this happened; that is settled by looking again. Do not start it another way; call again {when} for the "
    "result."
)
_MODEL: Mapping[str, str] = {
    "COMMITTED": "Done.",
    "COMMITTED_BY_RETRY": "Done.",
    "COMMITTED_ON_QUERY": "Done.",
    "REAPPLIED_AFTER_QUERY": "Done.",
    "DUPLICATE_IGNORED": "Already done earlier; this is the recorded result. Do not ask again.",
    "REFUSED:conflicting_payload": "Refused: this request was already made with other arguments. Do not call again with changed arguments.",
    "REFUSED:lease": "Refused: it is not permitted. Calling again will not help until a person allows it.",
    "REFUSED:stale_premise": "Refused: the facts changed since it was decided. Calling again will not help; it needs a new decision.",
    "REFUSED:premise_false": "Refused: a required fact does not hold. Calling again will not help; it needs a new decision.",
    "REFUSED:over_limit": "Refused: it would go over a shared limit. Calling again will not help until a person frees some of it or "
    "raises it. Do not split it up.",
    "REFUSED:lease_at_recovery": "Not done: permission was withdrawn. Calling again will not help until a person allows it.",
    "REFUSED:stale_premise_at_recovery": "Not done: the facts changed. Calling again will not help; it needs a new decision.",
    "REFUSED:bad_input": "Not done: the arguments cannot be taken. Nothing was sent. Correct the arguments and call again.",
    "REFUSED:unreadable": "Not done: what it depends on could not be read, so nothing was sent. It can be tried again later.",
    "FAILED": "It did not happen. It can be tried again once the cause is fixed.",
    "AMBIGUOUS": "It is unknown whether this happened. Do not try again; a person has to check.",
    "IN_FLIGHT": "It is still under way. Do not start it another way; ask again later for the result.",
    "IN_FLIGHT:unanswered": _NOT_KNOWN_YET,
    "IN_FLIGHT:absence_not_yet_trusted": _NOT_KNOWN_YET,
    "IN_FLIGHT:lookup_failed": _NOT_KNOWN_YET,
    "IN_FLIGHT:check_unreadable": _NOT_KNOWN_YET,
    "IN_FLIGHT:recovery_error": _NOT_KNOWN_YET,
    "IN_FLIGHT:no_function": "It is still open and needs an operator. Calling again will not help.",
}


_CHANGED_AFTER = (
    " When that was found, facts had changed since it was decided. It stands all the same; see whether it should."
)
"""Of an effect that has landed, before the facts that changed."""

_NOT_DONE = "The first one was not done."
_DECIDE_AGAIN = (
    f"{_NOT_DONE} If this one is wanted instead, it needs a new decision: ask with its name (decision=...; where approval= gives an "
    "Approval, another id names it)."
)
_ANOTHER_KEY = "If both are wanted, ask for this one under another key."
_FIRST_PERSON: Mapping[Kind, str] = {
    Kind.COMMITTED: f"The first one was done. {_ANOTHER_KEY}",
    Kind.SETTLED: f"The first one was done. {_ANOTHER_KEY}",
    Kind.AT_RISK: f"The first one was done, and is at risk since. {_ANOTHER_KEY}",
    Kind.REVERSED: "The first one was done, and was reversed since.",
    Kind.AMBIGUOUS: "Nobody knows whether the first one happened; a person must check at the service.",
    Kind.DISPATCHED: "What becomes of the first one is not known yet. Until it is, nothing else is sent under this key.",
    Kind.REFUSED: _DECIDE_AGAIN,
    Kind.FAILED: _DECIDE_AGAIN,
}
"""What became of the call that was recorded first under the key of one that is refused for its other arguments."""

_FIRST_MODEL: Mapping[Kind, str] = {
    **_FIRST_PERSON,
    **dict.fromkeys((Kind.COMMITTED, Kind.SETTLED), "The first one was done."),
    Kind.AT_RISK: "The first one was done, and is at risk since.",
    Kind.DISPATCHED: "What becomes of the first one is not known yet.",
    **dict.fromkeys((Kind.REFUSED, Kind.FAILED), _NOT_DONE),
    Kind.AMBIGUOUS: "It is unknown whether the first one happened; a person has to check.",
}


_SETTLED_PERSON: Mapping[str, str] = {
    "accepted": "Whether it goes through in the end is not known yet.",
    "settled": "It has settled since.",
    "at_risk": "Since then it is at risk: somebody should look at it at the service.",
    "reversed": "Since then it was reversed, so it does not stand. It is not sent again under this key; a person decides what is "
    "to be done.",
}
"""What is known since an effect was accepted, for one that declares settlement."""


def _accepted(text: str) -> str:
    """The sentence for an effect that may still fail: accepted is all that is known of it."""
    return text.replace("It was done,", "The service accepted it,", 1).replace(
        "had been done before", "had been accepted before", 1
    )


_SETTLED_MODEL: Mapping[str, str] = {
    "accepted": "Accepted by the service; whether it goes through is not known yet. Do not ask again.",
    "settled": "Done, and it has settled. Do not ask again.",
    "at_risk": "It was accepted, but is at risk since, so do not call it final. Do not ask again; a person has to look.",
    "reversed": "It was accepted, but has been reversed since: it does not stand. Do not ask again; a person has to decide what to do.",
}


@record(frozen=True)
class Outcome:
    """What became of one effect.

    Attributes:
        status: the code without its reason.
        effect: name of the effect.
        key: business key.
        effect_id: its identity; the idempotency key of the first attempt.
        reason: why, for REFUSED, FAILED and IN_FLIGHT; empty otherwise.
        via: how a landed effect came to be known.
        value: what the function returned, in JSON form, typed by the return annotation where there is one. The same on the first call,
            on a replay and after a restart. After COMMITTED_ON_QUERY it is what the look-up found.
        raw: the live object that the function returned; only in the process and the call that sent.
        evidence: what the service showed, as it came, in JSON form.
        changes: the premises that do not hold: by name, `seen`, `now` and `rule`; of what a crash had left open and was found to have
            landed, those that did not hold when it was found. For over_limit the budgets without room: by key, `limit`,
            `amount` (asked for), `held` (by others), `left`, and `holders`: each with `effect`, `key` and `amount`.
        retry_after: seconds after which asking again can tell more, for IN_FLIGHT.
        owner: the worker that holds the claim, for IN_FLIGHT.
        since: when it was dispatched, RFC 3339, for an effect that was.
        detail: what happened in words, where there is more to say than the reason.
        can_ask_again: for FAILED, whether the very same request may go through later: nothing left this machine, or the service was
            asked and has nothing. False where the service said no.
        settlement: for an effect that declares `settlement=` and landed: `accepted` (nothing is known since), `settled`, `at_risk` or
            `reversed`; empty otherwise. `detail` is its reason then.
        history: the chain as it stood when this was answered.
    """

    status: Status
    effect: str
    key: str
    effect_id: str
    reason: str = ""
    via: Via | None = None
    value: Any = None
    raw: Any = field(default=None, repr=False, compare=False)
    evidence: Any = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    retry_after: float | None = None
    owner: str = ""
    since: str = ""
    detail: str = ""
    can_ask_again: bool = False
    settlement: str = ""
    history: History | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        """The compact code: `COMMITTED_BY_RETRY`, `REFUSED:stale_premise_at_recovery`."""
        return f"{self.status}:{self.reason}" if self.reason else str(self.status)

    @property
    def ok(self) -> bool:
        """Whether the effect has landed: now, before, or in another process."""
        return self.status in _LANDED

    @property
    def for_person(self) -> str:
        """One plain sentence or two for a person, with what changed."""
        text = _PERSON.get(str(self)) or _PERSON.get(self.status) or "It was refused. Nothing was sent."
        if self.settlement:
            text = f"{_accepted(text)} {_SETTLED_PERSON[self.settlement]}"
        if self.ok and self.changes:
            text += _CHANGED_AFTER
        for name, change in self.changes.items():
            if "holders" in change:
                continue  # a budget: `detail` says it
            now = "missing" if change.get("missing_now") else repr(change.get("now"))
            text += f" {name}: {change.get('seen')!r} before, {now} now (rule: {change.get('rule')})."
        text += self._of_first(_FIRST_PERSON)
        return f"{text} {self.detail}" if self.detail else text

    @property
    def for_model(self) -> str:
        """One plain sentence to hand back to a model: says whether asking again can help."""
        if self.settlement:
            return _SETTLED_MODEL[self.settlement]
        text = _MODEL.get(str(self)) or _MODEL.get(self.status) or "Refused. Calling again will not help."
        if self.status is Status.FAILED and not self.can_ask_again:
            text = _SAID_NO
        # What a service said no for, or which approval, is what a model can act on, or pass on.
        denied = self.reason in (Reason.LEASE, Reason.LEASE_AT_RECOVERY)
        tells = self.detail and (denied or self.status is Status.FAILED)
        when = "later" if self.retry_after is None else f"in {max(1, math.ceil(self.retry_after))} s"
        text = text.replace("{when}", when)
        # Of a first call with other arguments no more than its fate: what it was and what came back may be another person's.
        return f"{text} {self.detail}" if tells else text + self._of_first(_FIRST_MODEL)

    def _of_first(self, words: Mapping[Kind, str]) -> str:
        """What became of the call that was recorded first, for one that is refused because of it; empty for every other outcome."""
        if self.reason != Reason.CONFLICTING_PAYLOAD or not self.changes or self.history is None:
            return ""  # without changes it was the service that has something else under our mark, which `detail` says
        told = words.get(self.history.kind) if self.history.kind is not None else None
        return f" {told}" if told else ""

    def raise_for_status(self) -> Outcome:
        """Return self if the effect has landed.

        Raises:
            OutcomeError: otherwise, with the sentence for a person; carries this outcome.
        """
        if not self.ok:
            raise OutcomeError(self, f"{self.effect} {self.key!r}: {self}. {self.for_person}")
        return self

    def receipt(self) -> Receipt:
        """What the gate observed about this effect, as a hash chain that anyone can verify.

        Raises:
            ValueError: the gate did not get as far as the journal.
        """
        from interlock.receipts import Receipt

        if self.history is None or not self.history.entries:
            raise ValueError(f"{self.effect} {self.key!r}: nothing stands on the journal, so there is no receipt.")
        return Receipt.of(self.history)
