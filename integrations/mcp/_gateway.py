"""The gateway: a server's tools behind the gate, whichever way a client reaches them.

Owns how a gated `tools/call` becomes a call of the gate and back, and the rounds of a tool that asks for input. It must not know a
transport, a server, a journal, a retry or a clock.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from interlock import JournalError, NotSent, Reason
from interlock.extend import Answer, Parameters, ToolGate
from interlock.integrations.mcp._face import Face, Misfit, face_of
from interlock.integrations.mcp._frame import as_given, asks_for_input, data_of, is_modern, kept_of, told, value_of

if TYPE_CHECKING:
    from interlock.extend import ToolsConfig

log = logging.getLogger("interlock")

Result = dict[str, Any]
Ask = Callable[[str, dict[str, Any]], Awaitable[Result]]
"""Call a tool by name with arguments, past the gate, and give its result in the protocol's form."""

_ROUND_S = 600.0  # how long a tool that asked for input is waited for; nothing has happened meanwhile


def _future() -> Any:
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True)
class LiveCall:
    """What of one call is not payload: it belongs to this connection and cannot be resumed from a journal.

    Attributes:
        tool: that was called.
        send: makes the server run it, with these parameters and with what else belongs to this request.
        ask: makes the server run another tool, for a fact, on this connection.
        params: of the client's request, as they came.
        result: what the tool itself answered, in the call that ran it.
        asked: what the tool asked for, as it was last answered.
        paused: resolves with that; is for the request that waits now.
        resumed: resolves when the client's next round has come.
    """

    tool: str
    send: Callable[[dict[str, Any]], Awaitable[Result]]
    ask: Ask
    params: Mapping[str, Any]
    result: Result | None = None
    asked: Result | None = None
    paused: asyncio.Future[Result] = field(default_factory=_future)
    resumed: asyncio.Future[None] = field(default_factory=_future)

    def next_round(self, of: LiveCall) -> None:
        """Go on with what a further request of the client's brings."""
        self.params, self.send, self.ask = of.params, of.send, of.ask
        self.paused = _future()
        self.resumed.set_result(None)

    def is_answered_by(self, params: Mapping[str, Any]) -> bool:
        """Whether a request is the next round of this one."""
        asked = self.asked or {}
        has_answers = "inputResponses" in params or "requestState" in params
        return has_answers and not self.resumed.done() and params.get("requestState") == asked.get("requestState")

    def abandon(self) -> None:
        """The client will not answer what the tool asked for."""
        if not self.resumed.done():
            self.resumed.set_exception(_Abandoned())


class _Abandoned(Exception):
    """The client will not answer what the tool asked for."""


class Gateway:
    """The server's tools behind the gate.

    Args:
        config: which tools are gated and how.
        tools: of the server, as `tools/list` has them, by name.
        ask: runs a tool where there is no client: in recovery.
        misfit: says why arguments do not fit a tool.
        journal: instead of the one that the configuration names.

    Attributes:
        gate: the `ToolGate` behind it.
        faces: of the gated tools, by name.

    Raises:
        ConfigurationError: the configuration cannot be kept, or the server has no such tool, or the tool no such argument.
        JournalError: the journal cannot be opened.
    """

    def __init__(
        self,
        config: ToolsConfig | Any,
        *,
        tools: Mapping[str, Mapping[str, Any]],
        ask: Ask,
        misfit: Misfit,
        journal: Any = None,
    ) -> None:
        self._ask_alone = ask
        self._misfit = misfit
        self._paused: dict[str, tuple[LiveCall, asyncio.Task[Answer]]] = {}
        self.gate = ToolGate(
            config,
            tools={name: self._callable(name) for name in tools},
            journal=journal,
            parameters={
                name: Parameters.of_schema(tool.get("inputSchema"), answer=tool.get("outputSchema"))
                for name, tool in tools.items()
            },
            value_of=data_of,
        )
        self.faces: dict[str, Face] = {name: face_of(name, self.gate, tools[name]) for name in self.gate.effects}

    async def close(self) -> None:
        """Give up what waits for input, and the gate."""
        paused = list(self._paused.values())
        for live, _ in paused:
            live.abandon()
        if paused:
            await asyncio.wait([running for _, running in paused])
        self.gate.close()

    def is_gated(self, params: Mapping[str, Any]) -> bool:
        """Whether a `tools/call` goes through the gate."""
        name = params.get("name")
        return isinstance(name, str) and self.gate.is_gated(name)

    async def call(self, live: LiveCall, evidence: Mapping[str, Any]) -> Result:
        """One `tools/call` of a gated tool, to its result in the protocol's form; a refusal is a result, too.

        Args:
            live: the call.
            evidence: the protocol's ids.
        """
        params, modern = live.params, is_modern(live.params)
        given: Any = {} if params.get("arguments") is None else params["arguments"]
        problem = self.faces[live.tool].problem_of(given, self._misfit)
        if "task" in params:
            problem = "it cannot run as a task here; call it without one."
        if problem:
            text = f"Not done: {problem} Nothing was sent. Correct the call and make it again."
            return told(text, is_error=True, modern=modern)
        same = json.dumps([live.tool, given], sort_keys=True)  # what the rounds of one call have in common
        waiting, running = self._paused.pop(same, (None, None))
        if waiting is not None and running is not None and waiting.is_answered_by(params):
            waiting.next_round(live)
            live = waiting
        else:
            if waiting is not None and running is not None:
                waiting.abandon()
                await asyncio.wait({running})
            # A round that nobody here waits for any more begins anew: what it answers belongs to a send that is over.
            live.params = {name: value for name, value in params.items() if name not in _ROUND}
            running = asyncio.ensure_future(self.gate.acall(live.tool, given, context=live, evidence=evidence))
        try:
            return await self._first(live, running, same, modern)
        except asyncio.CancelledError:
            running.cancel()  # the gate knows what has left, and sees to that
            raise

    async def _first(self, live: LiveCall, running: asyncio.Task[Answer], same: str, modern: bool) -> Result:
        """The answer of the gate, or what the tool asks for, whichever comes first."""
        first: set[asyncio.Future[Any]] = {running, live.paused}
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            self._paused[same] = live, running
            return live.paused.result()
        try:
            answer = running.result()
        except JournalError as error:
            log.error("%s", error)
            text = (
                f"Stopped: the gate's journal could not do its part, and nothing is sent that is not on it ({error}). "
            )
            return told(f"{text}Calling again will not help; an operator has to look.", is_error=True, modern=modern)
        return result_of(answer, live, modern)

    def _callable(self, name: str) -> Any:
        async def call(arguments: Mapping[str, Any], context: Any) -> Any:
            live = context if isinstance(context, LiveCall) else None
            if live is not None and live.tool == name:
                return await self._send(live, arguments)
            result = await (self._ask_alone if live is None else live.ask)(name, dict(arguments))
            if asks_for_input(result):
                raise NotSent(f"{name!r} asks for input, and nobody is there to give it", reason="input_required")
            return value_of(result)

        return call

    async def _send(self, live: LiveCall, arguments: Mapping[str, Any]) -> Any:
        """The gated tool itself, through all its rounds: one proposal and one send, however often the client is asked."""
        while True:
            result = await live.send({**live.params, "name": live.tool, "arguments": dict(arguments)})
            if not asks_for_input(result):
                value = kept_of(result)
                live.result = result
                return value
            live.asked, live.resumed = result, _future()
            if not live.paused.done():
                live.paused.set_result(result)
            try:
                await asyncio.wait_for(live.resumed, _ROUND_S)
            except (TimeoutError, _Abandoned):
                # A tool asks before it acts, since it is run from its top again with the answers.
                raise NotSent("the tool asked for input and got none", reason="input_required") from None


_ROUND = ("inputResponses", "requestState")


def result_of(answer: Answer, live: LiveCall, modern: bool) -> Result:
    """An answer of the gate as a tool's result, with what stands on the record beside it."""
    if answer.ok and live.result is not None:
        result = dict(live.result)
    elif answer.ok:
        result = as_given(answer.value, answer.message, modern=modern)
    else:
        result = told(answer.message, is_error=True, modern=modern)
    result["_meta"] = {**(result.get("_meta") or {}), **record_of(answer)}
    return result


def record_of(answer: Answer) -> dict[str, Any]:
    """What the gate says beside a result, for the client's program and not for its model: the outcome, and the receipt if there is one.

    A call that is refused for its other arguments has none: what stands under its key is another call's, and maybe another customer's.
    """
    said = {name: value for name, value in answer.as_dict().items() if name not in ("message", "value")}
    record: dict[str, Any] = {"interlock/outcome": said}
    history = answer.outcome.history
    if history is not None and history.entries and answer.outcome.reason != Reason.CONFLICTING_PAYLOAD:
        record["interlock/receipt"] = answer.outcome.receipt().to_dict()
    return record
