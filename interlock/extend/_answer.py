"""Answers: what became of one call of a gated tool, and the sentence that goes back to the model.

Owns the words for a model. It must not know how a tool is called.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from typing import Any

from interlock.effects import Kind
from interlock.errors import BadInput, CallbackFailed, PremiseUnfit, PremiseUnreadable
from interlock.naming import NotAsConfigured
from interlock.outcomes import Outcome, Reason, Status

log = logging.getLogger("interlock")

_OPERATOR = "an operator has to look at the gate's configuration. Calling again will not help until then."


class NotSeen(PremiseUnreadable):
    """The facts could not be read when a person was asked to approve the call."""

    for_model = (
        "what it depends on could not be read when approval was asked for, so nobody has approved on it, and nothing was sent. Call again, "
        "which asks for approval anew."
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What became of one call of a gated tool, ready to be told in a framework's own form.

    Attributes:
        outcome: the gate's own account. For a call that could not be taken as it stands, REFUSED with `bad_input` or `unreadable`, and
            nothing on the journal.
        message: for the model: what the tool returned, as text; or a sentence that says what happened and whether asking again can help.
    """

    outcome: Outcome
    message: str

    @property
    def ok(self) -> bool:
        """Whether the effect has landed: now or before."""
        return self.outcome.ok

    @property
    def is_error(self) -> bool:
        """Whether the framework's own error form is due."""
        return not self.outcome.ok

    @property
    def value(self) -> Any:
        """What the tool returned, in JSON form; the same in the first call, on a replay and after a restart."""
        return self.outcome.value

    @property
    def raw(self) -> Any:
        """The tool's live result; None but in the call that sent."""
        return self.outcome.raw

    def as_dict(self) -> dict[str, Any]:
        """The answer as plain JSON data."""
        document = {
            "status": str(self.outcome),
            "ok": self.ok,
            "message": self.message,
            "value": recorded_value(self.outcome),
            "effect_id": self.outcome.effect_id,
            "key": self.outcome.key,
        }
        if self.outcome.retry_after is not None:
            document["retry_after"] = self.outcome.retry_after
        return document


def answer_of(outcome: Outcome, *, is_misconfigured: bool = False) -> Answer:
    """An outcome for a model.

    Args:
        outcome: of the call.
        is_misconfigured: whether what was asked for it has not the form that the configuration says.
    """
    if is_misconfigured and outcome.reason in (Reason.LOOKUP_FAILED, Reason.CHECK_UNREADABLE):
        return Answer(outcome, f"It is not known yet whether it happened; {_OPERATOR}")
    if not outcome.ok:
        return Answer(outcome, outcome.for_model)
    value = outcome.value
    if value is None or value is True:
        return Answer(outcome, outcome.for_model)
    return Answer(outcome, value if isinstance(value, str) else _text(value))


def recorded_value(outcome: Outcome) -> Any:
    """What the effect returned, as it stands on the record: plain JSON, for what keeps or carries it; None if it has not landed."""
    if not outcome.ok:
        return None  # what another call under the same key returned is not this one's
    entries = outcome.history.entries if outcome.history is not None else ()
    landed = (entry.data["value"] for entry in reversed(entries) if entry.kind is Kind.COMMITTED)
    return next(landed, outcome.value)


def not_taken(name: str, error: BadInput | CallbackFailed) -> Answer:
    """The answer to a call that could not be taken: nothing was journalled and nothing sent, and the model is told what to do."""
    cause: BaseException | None = error
    while cause is not None and isinstance(cause.__cause__, BadInput):
        cause = cause.__cause__
    if isinstance(error, NotSeen):
        reason, message = Reason.UNREADABLE, f"Not done: {NotSeen.for_model}"
    elif isinstance(cause, BadInput):
        said = str(cause).replace(" Nothing was sent.", "")
        reason, message = Reason.BAD_INPUT, f"Not done: {said} Nothing was sent. Correct the arguments and call again."
    else:
        log.warning("tool %r: %s", name, error)
        reason = Reason.UNREADABLE
        message = "Not done: what it depends on could not be read, so nothing was sent. It can be tried again later."
        while cause is not None:
            if isinstance(cause, NotAsConfigured | PremiseUnfit):
                message = f"Not done: what it depends on could not be read, so nothing was sent; {_OPERATOR}"
            cause = cause.__cause__
    return Answer(Outcome(Status.REFUSED, name, "", "", reason=reason, detail=str(error)), message)


def _text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(value)
