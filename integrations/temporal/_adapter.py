"""Temporal activities behind the gate: an outcome becomes a result, or the error that makes Temporal do the right thing next.

    landed, or known to have landed    the activity's result, in JSON form
    REFUSED, AMBIGUOUS                 ApplicationError, not retryable: another attempt would be told the same
    arguments that are not acceptable  ApplicationError, not retryable
    FAILED, nothing left the machine   ApplicationError, retryable
    FAILED, the service said no        ApplicationError, not retryable: the workflow decides
    IN_FLIGHT                          ApplicationError, retryable after what the gate advises

Owns that translation, heartbeats while the gate works, and the worker's recovery. A gate stands in an activity, never in a workflow:
workflow code is replayed. It must not know order, journal or clocks; those are the gate's. Retrying is Temporal's.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.plugin import SimplePlugin
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor, Worker

from interlock import (
    BadInput,
    CallbackFailed,
    ConfigurationError,
    Interlock,
    Kind,
    Outcome,
    Proposal,
    Reason,
    Status,
)
from interlock.extend import recorded_value

REFUSED = "InterlockRefused"
AMBIGUOUS = "InterlockAmbiguous"
FAILED = "InterlockFailed"
IN_FLIGHT = "InterlockInFlight"
BAD_INPUT = "InterlockBadInput"
"""Types of the `ApplicationError`s: API, for `RetryPolicy(non_retryable_error_types=...)` and for workflows that catch them."""

LONGEST_MESSAGE = 2_000
"""Of an error's message, in characters: the facts that changed are in it, and a failure has its limit in Temporal's history."""


def gated(gate: Interlock, proposal: Proposal, *, wait: float | timedelta | None = None) -> Any:
    """Do the proposed effect once, however often Temporal runs the activity.

        @activity.defn
        def refund(order: str, amount: int) -> dict:
            return gated(refund_money.gate, refund_money.proposal(order, amount))

    Args:
        gate: the gate.
        proposal: the decided call, as `fn.proposal(...)` makes it. Its key names the business request, never a workflow or run.
        wait: seconds to wait while another live sender has it, instead of asking Temporal to come again.

    Returns:
        What the effect's function returned, in JSON form, as every data converter carries it; the same in every attempt. In an async
        activity an awaitable of it, whether the effect is async or not.

    Raises:
        ApplicationError: by the table above, with the outcome as its detail.
        JournalError, CallbackFailed: as `gate.submit`; Temporal tries again.

    **Durable when** this returns: what was sent and what came back.
    **If the process dies** before that: Temporal's next attempt settles it, from the record; so does `gate.recover()` when a worker starts.
    **If the activity is cancelled** during the send: the send goes on, its answer is recorded, and what has landed is still the result.
    A cancel revokes no permission.
    """
    known = proposal._replace(origin={**(proposal.origin or {}), **_ids()})
    return _agated(gate, known, wait) if _in_a_loop() else _gated(gate, known, wait)


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _gated(gate: Interlock, proposal: Proposal, wait: float | timedelta | None) -> Any:
    return result_of(_uninterrupted(lambda: gate.submit(proposal, wait=wait)))


def _uninterrupted(do: Callable[[], Outcome]) -> Outcome:
    """Do it in a sync activity's thread, where a cancellation is thrown in wherever it stands: the gate's writes are no place for that."""
    done: list[Outcome] = []
    try:
        with (
            activity.shield_thread_cancel_exception() if activity.in_activity() else contextlib.nullcontext(),
            _heartbeat(),
            _told_bad_input(),
        ):
            done.append(do())
    except CancelledError:
        if not done:
            raise
        # What it came to is known by now, and "cancelled" would say of a refund that stands that there is none.
    return done[0]


async def _agated(gate: Interlock, proposal: Proposal, wait: float | timedelta | None) -> Any:
    async with _aheartbeat():
        with _told_bad_input():
            try:
                outcome = await gate.asubmit(proposal, wait=wait)
            except asyncio.CancelledError:
                await _ended(gate)
                if not _is_landed(gate, proposal):
                    raise
                outcome = await gate.asubmit(proposal)  # from the record: "cancelled" would say that there is none
    return result_of(outcome)


def _is_landed(gate: Interlock, proposal: Proposal) -> bool:
    return any(entry.kind is Kind.COMMITTED for entry in gate.journal.load(proposal.effect_id).entries)


def result_of(outcome: Outcome) -> Any:
    """What an activity returns for an outcome.

    Raises:
        ApplicationError: by the table above.
    """
    if outcome.ok:
        return recorded_value(outcome)
    message = f"{outcome}: {outcome.for_person}"[:LONGEST_MESSAGE]
    if outcome.status is Status.IN_FLIGHT:
        later = None if outcome.retry_after is None else timedelta(seconds=outcome.retry_after)
        raise ApplicationError(message, _detail(outcome), type=IN_FLIGHT, next_retry_delay=later)
    if outcome.status is Status.FAILED:
        raise ApplicationError(message, _detail(outcome), type=FAILED, non_retryable=not outcome.can_ask_again)
    kind = AMBIGUOUS if outcome.status is Status.AMBIGUOUS else REFUSED
    raise ApplicationError(message, _detail(outcome), type=kind, non_retryable=True)


class InterlockPlugin(SimplePlugin):
    """A worker's plugin: what a crash left open is settled before the worker takes work, and an activity may return its `Outcome` as it is.

    `Worker(..., plugins=[InterlockPlugin(gate)])`, or `Client.connect(..., plugins=[...])`. One for each gate. A replayer with this
    plugin recovers nothing.

    Args:
        gate: the gate, with its functions declared.
        recover: whether the worker's start recovers. Switch it off where one of several workers that start at once recovers, or where
            `allowed=` can only be answered by a worker that runs already.
    """

    def __init__(self, gate: Interlock, *, recover: bool = True) -> None:
        if not isinstance(gate, Interlock):
            raise ConfigurationError(f"InterlockPlugin() takes the gate, an Interlock, not {type(gate).__name__}.")
        self._gate = gate
        self._recover = recover
        super().__init__("interlock", interceptors=[_Outcomes()])

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:  # noqa: A002 - the SDK's name
        """Recover, let the worker work, and wait at its end for sends that still run."""
        if self._recover:
            await self._gate.arecover()
        try:
            await next(worker)
        finally:
            await _ended(self._gate)


class _Outcomes(Interceptor):
    """Turns the `Outcome` that an activity returns into its result, or its error."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - the SDK's name
        return _Returned(next)


class _Returned(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - the SDK's name
        if isinstance(input.executor, ThreadPoolExecutor) and _is_an_effect(input.fn):
            body = input.fn
            input.fn = lambda *args: _uninterrupted(lambda: body(*args))
        with _told_bad_input():
            returned = await self.next.execute_activity(input)
        return result_of(returned) if isinstance(returned, Outcome) else returned


def _is_an_effect(fn: Callable[..., Any]) -> bool:
    """Whether an activity says of itself that it returns an `Outcome`."""
    told = getattr(fn, "__annotations__", {}).get("return")
    return told is Outcome or (isinstance(told, str) and told.rpartition(".")[2] == "Outcome")


@contextlib.contextmanager
def _told_bad_input() -> Iterator[None]:
    """Arguments that the gate does not take will not be taken at the next attempt either; Temporal would try for ever."""
    try:
        yield
    except BadInput as error:
        if isinstance(error, CallbackFailed):
            raise  # what the key was read from may be there later
        message = f"{Status.REFUSED}:{Reason.BAD_INPUT}: {error}"[:LONGEST_MESSAGE]
        raise ApplicationError(message, type=BAD_INPUT, non_retryable=True) from error


async def _ended(gate: Interlock) -> None:
    """Wait for sends that nobody waits for: the activity of a cancelled one lasts until its answer is on the record."""
    timeouts = [effect.capabilities.timeout_s for effect in gate.effects.values()]
    await gate.adrain(wait=max(timeouts, default=0.0))


def _detail(outcome: Outcome) -> dict[str, Any]:
    """The outcome as plain data, for the workflow and for whoever reads its history."""
    return {
        "status": str(outcome),
        "effect": outcome.effect,
        "key": outcome.key,
        "effect_id": outcome.effect_id,
        "for_model": outcome.for_model,
        "retry_after": outcome.retry_after,
    }


def _ids() -> dict[str, Any]:
    """Temporal's ids of this attempt: evidence for the record, never a key."""
    if not activity.in_activity():
        return {}
    info = activity.info()
    ids = {
        "workflow_id": info.workflow_id,
        "workflow_run_id": info.workflow_run_id,
        "activity_id": info.activity_id,
        "activity_type": info.activity_type,
        "attempt": info.attempt,
        "task_queue": info.task_queue,
    }
    return {name: value for name, value in ids.items() if value not in (None, "")}


def _every_s() -> float | None:
    """How often to heartbeat: well within the activity's heartbeat timeout, if it has one."""
    if not activity.in_activity():
        return None
    timeout = activity.info().heartbeat_timeout
    return None if timeout is None else max(timeout.total_seconds() / 3, 0.05)


@contextlib.contextmanager
def _heartbeat() -> Iterator[None]:
    """Heartbeat from a thread of its own while the gate works, so that a long send is not taken for a dead worker."""
    every_s = _every_s()
    if every_s is None:
        yield
        return
    done = threading.Event()
    context = contextvars.copy_context()
    details = activity.info().heartbeat_details

    def beat() -> None:
        while not done.wait(every_s):
            # The worker may be on its way out. That must not end the send, and the next beat may get through.
            with contextlib.suppress(Exception):
                context.run(activity.heartbeat, *details)

    thread = threading.Thread(target=beat, name="interlock-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextlib.asynccontextmanager
async def _aheartbeat() -> AsyncIterator[None]:
    every_s = _every_s()
    if every_s is None:
        yield
        return

    async def beat() -> None:
        while True:
            await asyncio.sleep(every_s)
            activity.heartbeat(*activity.info().heartbeat_details)

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()
