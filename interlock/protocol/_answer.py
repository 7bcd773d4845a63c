"""From the answer to a send, in time or late, to what is recorded of it. Re-entered by `_submit` and `_recover` alike."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from interlock.effects import Draft, Entry, History, Kind
from interlock.outcomes import STATUS_OF_VIA, Outcome, Reason, Via
from interlock.ports import Clock, Target, Verdict
from interlock.protocol._outcome import outcome_from, waiting
from interlock.protocol._step import Append, Landed, Load, NotLanded, Step, Unclear
from interlock.protocol._time import Patience, rfc3339, watched
from interlock.record import NamedTuple
from interlock.rules.lifecycle import fold
from interlock.rules.recovery import Resend
from interlock.settlement import ACCEPTED


def late_answer(
    history: History, answer: Landed | NotLanded | Unclear, *, clock: Clock
) -> Generator[Step, Any, History | None]:
    """Record an answer that came after the gate had stopped waiting for it. The truth wins over what was concluded meanwhile.

    Args:
        history: the effect as it was when this send was dispatched.
        answer: what came back. That it did not land is recorded only while nobody has sent or concluded anything since.
        clock: the gate's clock.

    Returns:
        The history with the answer, or None if there was nothing to record.
    """
    while True:
        current: History = yield Load(history.effect_id)
        if isinstance(answer, Landed) and current.kind in (Kind.DISPATCHED, Kind.AMBIGUOUS, Kind.REFUSED, Kind.FAILED):
            watch = watched(answer.watch, clock)
            kind, data = Kind.COMMITTED, {"via": str(Via.LATE_ANSWER), "value": answer.value, **watch}
        elif isinstance(answer, NotLanded) and current.head == history.head and len(dispatches(history)) == 1:
            kind, data = Kind.FAILED, _failure(answer)
        else:
            return None
        written: History | None = yield Append(current, (Draft(kind, rfc3339(clock.now()), data),))
        if written is not None:
            return written


def _failure(answer: NotLanded) -> dict[str, Any]:
    """What a FAILED entry says."""
    return {"reason": answer.reason, "detail": answer.detail, "verdict": str(answer.verdict)}


def dispatches(history: History) -> list[Entry]:
    """The sends since the last decision."""
    sends: list[Entry] = []
    for entry in history.entries:
        if entry.kind is Kind.PROPOSED:
            sends.clear()
        elif entry.kind is Kind.DISPATCHED:
            sends.append(entry)
    return sends


class _Again(NamedTuple):
    """A send came to nothing certain: recover, with what it came to, after a pause."""

    resend: Resend
    detail: str
    pause_s: float


def conclude(
    history: History,
    proposed: Mapping[str, Any],
    answer: Landed | NotLanded | Unclear,
    target: Target,
    *,
    clock: Clock,
    patience: Patience,
    via: Via,
) -> Generator[Step, Any, Outcome | _Again]:
    """From the answer to a send to its outcome."""
    if isinstance(answer, Landed):
        value, raw, watch = answer
        data: dict[str, Any] = {"via": via._value_, "value": value}
        if watch is not None:
            data.update(watched(watch, clock))
        draft = Draft(Kind.COMMITTED, rfc3339(clock.now()), data)
        written: History | None = yield Append(history, (draft,))
        if written is not None:
            return Outcome(
                STATUS_OF_VIA[via],
                proposed["effect"],
                proposed["key"],
                history.effect_id,
                via=via,
                value=target.decode_value(value),
                raw=raw,
                evidence=value,
                since=history.entries[-1].at,
                settlement=ACCEPTED if watch is not None else "",
                history=written,
            )
        # Somebody who could not know that we live concluded without us. Our answer is the truth.
        written = yield from late_answer(history, answer, clock=clock)
        if written is None:
            written = yield Load(history.effect_id)
        return outcome_from(written, fold(written), target, raw=raw)
    if isinstance(answer, NotLanded):
        # It speaks for this request alone. The first request is all there is; a reapplied one followed a trusted absence; but
        # a resend was made without asking, and a request before it may have landed.
        if via is not Via.RETRY:
            draft = Draft(Kind.FAILED, rfc3339(clock.now()), _failure(answer))
            failed: History | None = yield Append(history, (draft,))
            if failed is None:
                failed = yield Load(history.effect_id)
            return outcome_from(failed, fold(failed), target)
        sent = Resend.REJECTED if answer.verdict is Verdict.REJECTED else Resend.UNANSWERED
        pause = 0.0
    elif answer.still_running:
        return waiting(history, fold(history), Reason.SENDER_ALIVE, detail=answer.detail)
    elif answer.in_use:
        poll = patience.next_poll_s(for_service=True)
        if poll is None:
            return waiting(history, fold(history), Reason.KEY_IN_USE, detail=answer.detail)
        sent, pause = Resend.NONE, poll
    else:
        sent, pause = Resend.NONE if via is Via.SEND else Resend.UNANSWERED, 0.0
    return _Again(sent, answer.detail, pause)
