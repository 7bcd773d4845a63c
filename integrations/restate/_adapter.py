"""Restate runs behind the gate: an outcome becomes a run's result, or the error that makes Restate do the right thing next.

    landed, or known to have landed    the run's result, in JSON form
    REFUSED, AMBIGUOUS                 TerminalError: another attempt would be told the same
    FAILED, nothing left the machine   an ordinary exception: the run's own retry policy decides
    FAILED, the service said no        TerminalError: the handler decides
    IN_FLIGHT                          RetryableError, after what the gate advises

Owns that translation, and recovery where the application starts. A gate stands inside a run, never in the handler around it: a handler is
replayed. It must not know order, journal or clocks; those are the gate's. Retrying is Restate's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol, runtime_checkable

from restate.exceptions import RetryableError, TerminalError
from restate.extensions import current_context

from interlock import BadInput, ConfigurationError, Interlock, Outcome, Status
from interlock.extend import recorded_value

REFUSED = 412
AMBIGUOUS = 409
FAILED = 422
BAD_INPUT = 400
"""Status codes of the `TerminalError`s, which the ingress hands to its caller: API. None is one that an HTTP client repeats by itself."""

Scope = Any
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger("interlock")


@runtime_checkable
class Declared(Protocol):
    """What `gated` takes: a function declared with `@gate.effect`, or a ready-made effect such as `stripe_refund(...)`."""

    name: str
    gate: Interlock

    def asubmit(
        self,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        decision: str = "",
        seen: Mapping[str, Any] | None = None,
        wait: float | timedelta | None = None,
        origin: Mapping[str, Any] | None = None,
    ) -> Awaitable[Outcome]:
        """The call, without blocking the event loop."""


def gated(
    effect: Declared,
    *,
    run: str = "",
    decision: str = "",
    seen: Mapping[str, Any] | None = None,
    wait: float | timedelta | None = None,
) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Make an effect into what `ctx.run_typed` runs: it is done once, however often Restate runs it.

        @refunds.handler()
        async def refund(ctx: restate.ObjectContext, amount: int) -> dict:
            return await ctx.run_typed("refund", gated(refund_money), order=ctx.key(), amount=amount)

    Args:
        effect: a function declared with `@gate.effect`, or a ready-made effect; what is not async is called in a thread.
        run: the run's name, for the record; Restate does not tell it.
        decision: names the decision, e.g. an approval's id. A refusal stands for its decision; a new one is judged anew.
        seen: the facts as the decider saw them, as an earlier run returned them; by default they are read now.
        wait: seconds to wait while another live sender has it, instead of asking Restate to come again.

    Returns:
        A coroutine function that takes the effect's arguments and returns what the effect's function returned, in JSON form; the same in
        every attempt and every invocation.

    Raises:
        ConfigurationError: that is no effect.

    What it returns raises, when it runs:
        TerminalError, RetryableError: by the table above, with the outcome as the terminal error's metadata.
        CallbackFailed, JournalError: as calling the effect; Restate tries those again.

    **Durable when** the run has its result: what was sent and what came back.
    **If the process dies** before that: Restate's next attempt settles it, from the record; so does recovery when the application starts.
    """
    if not isinstance(effect, Declared):
        raise ConfigurationError(
            f"gated() takes a function declared with @gate.effect, not {effect!r}. Its arguments go to ctx.run_typed(): "
            'ctx.run_typed("refund", gated(refund), order=..., amount=...).'
        )
    decided: dict[str, Any] = {"decision": decision, "seen": seen, "wait": wait}

    async def do(*args: Any, **kwargs: Any) -> Any:
        try:
            outcome = await effect.asubmit(args, kwargs, **decided, origin=_ids(run))
        except BadInput as error:  # the same arguments come again with every attempt
            raise TerminalError(f"REFUSED:bad_input: {error}", BAD_INPUT) from error
        return result_of(outcome)

    do.__name__ = do.__qualname__ = effect.name
    return do


def result_of(outcome: Outcome) -> Any:
    """What a run returns for an outcome.

    Raises:
        TerminalError, RetryableError, OutcomeError: by the table above.
    """
    if outcome.ok:
        return recorded_value(outcome)
    message = f"{outcome}: {outcome.for_person}"
    if outcome.status is Status.IN_FLIGHT:
        later = None if outcome.retry_after is None else timedelta(seconds=outcome.retry_after)
        raise RetryableError(message, retry_after=later)
    if outcome.status is Status.FAILED:
        if outcome.can_ask_again:
            # A RetryableError would leave the run's intervals (`RunOptions`) out of account.
            outcome.raise_for_status()
        raise TerminalError(message, FAILED, _detail(outcome))
    raise TerminalError(message, AMBIGUOUS if outcome.status is Status.AMBIGUOUS else REFUSED, _detail(outcome))


def recovering(app: App, gate: Interlock) -> App:
    """The application, in which what a crash left open is settled before it takes its first invocation.

        app = recovering(restate.app([refunds]), gate)

    Recovery begins when the ASGI server starts the application (its lifespan), or else with the first request; requests that come
    meanwhile wait for it. So the server listens at once, and an invocation that Restate tries again need not wait for its next try.
    Where there is no such server (`restate.connect`), `await gate.arecover()` before serving is the same.

    Args:
        app: what `restate.app(...)` returned.
        gate: the gate, with its functions declared.

    Raises:
        ConfigurationError: one of the two is something else.

    What it returns raises what `gate.arecover()` raised, for each request until that succeeds: it begins anew with the next one.

    **If the process dies** meanwhile: the next start recovers from the record.
    """
    if not isinstance(gate, Interlock):
        raise ConfigurationError(f"recovering() takes the gate, an Interlock, not {type(gate).__name__}.")
    if not callable(app):
        raise ConfigurationError(f"recovering() takes what restate.app() returned, not {app!r}.")
    recovery: asyncio.Task[Any] | None = None

    def begin() -> asyncio.Task[Any]:
        nonlocal recovery
        if recovery is None or (recovery.done() and (recovery.cancelled() or recovery.exception() is not None)):
            recovery = asyncio.ensure_future(gate.arecover())
            recovery.add_done_callback(_log_failure)
        return recovery

    async def started(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await asyncio.shield(begin())  # a request that is given up does not end it for the others
            await app(scope, receive, send)
            return
        while (await receive())["type"] != "lifespan.startup":
            pass
        begin()
        await send({"type": "lifespan.startup.complete"})
        while (await receive())["type"] != "lifespan.shutdown":
            pass
        assert recovery is not None
        await asyncio.wait({recovery})  # the last one, if a request had to begin anew
        await send({"type": "lifespan.shutdown.complete"})

    return started


def _log_failure(recovery: asyncio.Task[Any]) -> None:
    if not recovery.cancelled() and recovery.exception() is not None:
        log.error("nothing is served: what a crash left open could not be read", exc_info=recovery.exception())


def _detail(outcome: Outcome) -> dict[str, str]:
    """The outcome as a terminal error carries it: text by name."""
    return {
        "interlock.status": str(outcome),
        "interlock.effect": outcome.effect,
        "interlock.key": outcome.key,
        "interlock.effect_id": outcome.effect_id,
        "interlock.for_model": outcome.for_model,
    }


def _ids(run: str) -> dict[str, Any]:
    """Restate's ids of this invocation: evidence for the record, never a key."""
    ids: dict[str, Any] = {"run": run}
    try:
        context: Any = current_context()
    except LookupError:
        context = None
    if context is not None:
        request = context.request()
        handler = getattr(context, "handler", None)
        ids |= {"invocation_id": request.id, "idempotency_key": getattr(request, "idempotency_key", None)}
        if handler is not None:
            ids |= {"service": handler.service_tag.name, "handler": handler.name}
            if handler.service_tag.kind in ("object", "workflow"):
                ids["object_key"] = context.key()
    return {name: value for name, value in ids.items() if value not in (None, "")}
