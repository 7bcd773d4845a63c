"""DBOS steps behind the gate: an outcome becomes a step's result, or the error that makes DBOS do the right thing next.

    landed, or known to have landed    the step's result
    REFUSED                            Refused:   `should_retry` says no, another attempt would be told the same
    AMBIGUOUS                          Ambiguous: likewise; a person has to look
    FAILED, nothing left the machine   Failed:    `should_retry` says yes
    FAILED, the service said no        Failed:    `should_retry` says no: the workflow decides
    IN_FLIGHT                          InFlight:  `should_retry` says yes; in a workflow, `run_effect` sleeps durably and asks again

Owns that translation, and the order of recovery and launch. It must not know order, journal or clocks; those are the gate's.
Retrying and sleeping are DBOS's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Protocol

from dbos import DBOS, StepOptions

from interlock import BadInput, ConfigurationError, Interlock, Outcome, Proposal, Recovery, Status
from interlock.extend import recorded_value

SOON_TRIES = 5
LONGEST_PAUSE_S = 60.0
"""From the fifth question on the pause doubles, up to this: each question is two rows in DBOS's tables."""

Answer = Mapping[str, Any]
"""An outcome as plain JSON data, which every serializer of DBOS takes: what a step returns, and what an error carries."""


class Declared(Protocol):
    """An effect that `run_effect` takes: what `@gate.effect` makes, or a ready-made one such as `stripe_refund`'s."""

    gate: Interlock
    name: str

    @property
    def proposal(self) -> Callable[..., Proposal]:
        """Decides a call."""


class EffectNotDone(Exception):
    """The effect did not land, or nobody knows. Survives DBOS's serialization, with the outcome attached.

    Attributes:
        data: the outcome as plain data: `status`, `effect`, `key`, `effect_id`, `for_model`, `for_person`, `detail`,
            `can_ask_again` and `retry_after`. Under this name DBOS's portable JSON format keeps it, too.
    """

    def __init__(self, message: str, data: Answer) -> None:
        super().__init__(message, data)
        self.data = data

    def __str__(self) -> str:
        return str(self.args[0])

    @property
    def status(self) -> str:
        """The outcome's compact code, such as `REFUSED:lease_at_recovery`."""
        return str(self.data["status"])


class Refused(EffectNotDone):
    """It may not be done, or no longer: nothing was sent by this call."""


class Ambiguous(EffectNotDone):
    """Nobody can know whether it landed. It is never sent again under this key."""


class Failed(EffectNotDone):
    """It certainly did not happen."""


class InFlight(EffectNotDone):
    """It is still under way, or cannot be told yet; `data["retry_after"]` says when to ask again, None that asking does not help."""


def should_retry(error: BaseException) -> bool:
    """For `@DBOS.step(retries_allowed=True, should_retry=should_retry)`: whether the same step, run again, can come to something else.

    Not for REFUSED, AMBIGUOUS, a failure that the service meant, and arguments that cannot be taken; yes for all else, as DBOS without it.
    """
    if isinstance(error, InFlight):
        return error.data["retry_after"] is not None
    if isinstance(error, Failed):
        return bool(error.data["can_ask_again"])
    return not isinstance(error, EffectNotDone | BadInput | ConfigurationError)


def gated(gate: Interlock, proposal: Proposal, *, wait: float | timedelta | None = None) -> Any:
    """Do the proposed effect once, however often DBOS runs the step.

        @DBOS.step(retries_allowed=True, max_attempts=60, backoff_rate=1, should_retry=should_retry)
        def refund(order: str, amount: int) -> dict:
            return gated(refund_money.gate, refund_money.proposal(order, amount))

    Args:
        gate: the gate.
        proposal: the decided call, as `fn.proposal(...)` makes it. Its key names the business request, never a workflow or a step.
        wait: seconds to wait inside the step while another live sender has it, before that is an error.

    Returns:
        What the effect's function returned, the same in every attempt. Of an `async def` effect, an awaitable of it.

    Raises:
        EffectNotDone: by the table above.
        BadInput, CallbackFailed, JournalError: as `gate.submit`.

    **Durable when** this returns: what was sent and what came back.
    **If the process dies** before that: the step that DBOS runs again settles it, from the record; so does `launch(gate)`.
    """
    known = _with_ids(proposal)
    effect = gate.effects.get(proposal.effect)
    if effect is not None and effect.is_coroutine:
        return _agated(gate, known, wait)
    return result_of(gate.submit(known, wait=wait))


async def _agated(gate: Interlock, proposal: Proposal, wait: float | timedelta | None) -> Any:
    return result_of(await gate.asubmit(proposal, wait=wait))


def result_of(outcome: Outcome) -> Any:
    """What a step returns for an outcome.

    Raises:
        EffectNotDone: by the table above.
    """
    if outcome.ok:
        return outcome.value
    raise _error(_answer(outcome))


def run_effect(
    effect: Declared,
    *args: Any,
    options: StepOptions | None = None,
    wait: float | timedelta | None = None,
    **kwargs: Any,
) -> Any:
    """Do an effect once from a workflow, as two steps: decide, then send. While it is in flight, sleep durably and ask again.

        @DBOS.workflow()
        def refund_case(order: str, amount: int) -> dict:
            return run_effect(refund_money, order, amount)

    The first step records the proposal, with the facts as they were read then. So a workflow that is picked up later, by whatever
    version of the program, is judged against the facts of its decision: changed ones refuse it.

    Args:
        effect: a function declared with `@gate.effect`, or a ready-made effect; an `async def` one is run on an event loop of its own.
        args: its arguments.
        options: of the sending step, as `DBOS.run_step` takes them. By default a failure before the send is tried three times.
        wait: seconds of sleep after which it stops asking and raises `InFlight`; by default it goes on until it is settled.
        kwargs: its arguments, and `decision=`, `seen=` as `fn.proposal(...)` takes them.

    Returns:
        What the effect's function returned, typed by its annotation; the same in every run and in every workflow that asks for it.

    Raises:
        EffectNotDone: by the table above; a workflow may catch it.
        ConfigurationError: it does not stand in a workflow.
        BadInput, CallbackFailed, JournalError: as `gate.submit`.

    **Durable when** this returns: what was sent and what came back, in the gate's journal and in DBOS's step.
    **If the process dies** before that: DBOS runs the sending step again, which settles it from the record.
    """
    _needs_workflow("run_effect")
    most_s = _seconds(wait)
    told: Answer = DBOS.run_step(_options(f"{effect.name}.decide"), _decide, effect, args, kwargs)
    slept_s, tries = 0.0, 0
    while True:
        answer = DBOS.run_step(_options(effect.name, options), _send, effect, told)
        pause_s = _pause_s(answer, tries, slept_s, most_s)
        if pause_s is None:
            return _result(effect, answer)
        DBOS.sleep(pause_s)
        slept_s, tries = slept_s + pause_s, tries + 1


async def run_effect_async(
    effect: Declared,
    *args: Any,
    options: StepOptions | None = None,
    wait: float | timedelta | None = None,
    **kwargs: Any,
) -> Any:
    """As `run_effect`, in an async workflow; a plain function is then called in a thread."""
    _needs_workflow("run_effect_async")
    most_s = _seconds(wait)
    told: Answer = await DBOS.run_step_async(_options(f"{effect.name}.decide"), _adecide, effect, args, kwargs)
    slept_s, tries = 0.0, 0
    while True:
        answer = await DBOS.run_step_async(_options(effect.name, options), _asend, effect, told)
        pause_s = _pause_s(answer, tries, slept_s, most_s)
        if pause_s is None:
            return _result(effect, answer)
        await DBOS.sleep_async(pause_s)
        slept_s, tries = slept_s + pause_s, tries + 1


def launch(gate: Interlock, *, recover: bool = True) -> Recovery | None:
    """Settle what a crash left open, then `DBOS.launch()`.

    In this order: `DBOS.launch()` itself starts the threads that run the workflows of a dead process again, so afterwards each of them
    would meet its own effect while it is being recovered, and wait. Settled before, its step gets the recorded result at once. What DBOS
    does not run again is settled too: workflows of another application version, cancelled ones, and effects outside workflows.

    Args:
        gate: the gate, with its functions declared.
        recover: switch it off where several processes start at once and one of them recovers; steps settle their own effects anyway. Off,
            too, after an `await gate.arecover()`, which an event loop that runs already needs for async effects.

    Returns:
        What `gate.recover()` reports; None without it.

    Raises:
        ConfigurationError: an event loop runs, and an effect is async.
        JournalError: as `gate.recover`.

    **Durable when** this returns: every outcome but IN_FLIGHT.
    **If the process dies** meanwhile: the next launch starts over from the record.
    """
    if not isinstance(gate, Interlock):
        raise ConfigurationError(f"launch() takes the gate, an Interlock, not {type(gate).__name__}.")
    settled = gate.recover() if recover else None
    DBOS.launch()
    return settled


# --- the two steps ---------------------------------------------------------------------------------------------------------


def _decide(effect: Declared, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Answer:
    return effect.proposal(*args, **kwargs)._asdict()


async def _adecide(effect: Declared, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Answer:
    # Without blocking the loop where the effect can; a ready-made one is asked in a thread.
    aproposal = getattr(effect, "aproposal", None)
    decided: Proposal = await (
        asyncio.to_thread(effect.proposal, *args, **kwargs) if aproposal is None else aproposal(*args, **kwargs)
    )
    return decided._asdict()


def _send(effect: Declared, told: Answer) -> Answer:
    return _recorded(effect, effect.gate.submit(_with_ids(Proposal(**told))))


async def _asend(effect: Declared, told: Answer) -> Answer:
    return _recorded(effect, await effect.gate.asubmit(_with_ids(Proposal(**told))))


def _recorded(effect: Declared, outcome: Outcome) -> Answer:
    """What the step returns, so that DBOS keeps it as its result; or an error, where DBOS has an attempt left that may help."""
    answer = _answer(outcome)
    status = DBOS.step_status
    if outcome.status is Status.FAILED and status is not None and status.max_attempts is not None:
        error = _error(answer)
        if should_retry(error) and (status.current_attempt or 0) + 1 < status.max_attempts:
            raise error
    return {
        **answer,
        "ok": outcome.ok,
        "value": recorded_value(outcome),
    }


def _result(effect: Declared, answer: Answer) -> Any:
    if answer["ok"]:
        return effect.gate.effects[effect.name].decode_value(answer["value"])
    raise _error({name: value for name, value in answer.items() if name not in ("ok", "value")})


def _options(name: str, given: StepOptions | None = None) -> StepOptions:
    own: StepOptions = {"name": name, "retries_allowed": True, "should_retry": should_retry}
    return {**own, **(given or {})}


def _pause_s(answer: Answer, tries: int, slept_s: float, most_s: float | None) -> float | None:
    """How long to sleep before asking again; None if there is nothing to wait for. Goes by what is recorded, so a replay is the same."""
    after_s = answer["retry_after"]
    if after_s is None or (most_s is not None and slept_s >= most_s):
        return None
    pause_s = float(after_s)
    if tries >= SOON_TRIES:
        pause_s = max(pause_s, min(pause_s * 2.0 ** min(tries - SOON_TRIES + 1, 32), LONGEST_PAUSE_S))
    return pause_s if most_s is None else min(pause_s, most_s - slept_s)


# --- words -----------------------------------------------------------------------------------------------------------------

_ERRORS: Mapping[Status, type[EffectNotDone]] = {
    Status.REFUSED: Refused,
    Status.AMBIGUOUS: Ambiguous,
    Status.FAILED: Failed,
    Status.IN_FLIGHT: InFlight,
}


def _error(answer: Answer) -> EffectNotDone:
    code = str(answer["status"])
    kind = _ERRORS[Status(code.partition(":")[0])]
    return kind(f"{code}: {answer['for_person']}", answer)


def _answer(outcome: Outcome) -> Answer:
    return {
        "status": str(outcome),
        "effect": outcome.effect,
        "key": outcome.key,
        "effect_id": outcome.effect_id,
        "for_model": outcome.for_model,
        "for_person": outcome.for_person,
        "detail": outcome.detail,
        "can_ask_again": outcome.can_ask_again,
        "retry_after": outcome.retry_after,
    }


def _with_ids(proposal: Proposal) -> Proposal:
    """With DBOS's ids of this attempt: evidence for the record, never a key."""
    status = DBOS.step_status
    ids = {
        "workflow_id": DBOS.workflow_id,
        "step_id": DBOS.step_id,
        "attempt": None if status is None else status.current_attempt,
        "application_version": DBOS.application_version,
        "executor_id": DBOS.executor_id,
    }
    known = {name: value for name, value in ids.items() if value not in (None, "")} if ids["workflow_id"] else {}
    return proposal._replace(origin={**(proposal.origin or {}), **known} or None)


def _needs_workflow(name: str) -> None:
    if DBOS.workflow_id is None or DBOS.step_id is not None:
        raise ConfigurationError(
            f"{name}() stands in a workflow. In a step use gated(); elsewhere call the function itself."
        )


def _seconds(wait: float | timedelta | None) -> float | None:
    if wait is None:
        return None
    seconds = wait.total_seconds() if isinstance(wait, timedelta) else float(wait)
    if not seconds >= 0:
        raise ConfigurationError(f"wait= is a number of seconds, not {wait!r}.")
    return seconds
