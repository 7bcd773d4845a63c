"""The gateway: a server's tools behind the gate, whichever way a client reaches them.

Owns how a gated `tools/call` becomes a call of the gate and back, what premises and look-ups ask the server, the rounds of a tool that asks
for input, and the face of a gated tool in `tools/list`. It must not know a transport of the client's, a journal, a retry or a clock.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from interlock.errors import JournalError, NotSent
from interlock.extend import Answer, ToolGate, ToolsConfig
from interlock.integrations.mcp._face import Face, check, face_of
from interlock.integrations.mcp._frame import (
    RpcError,
    UpstreamGone,
    asks_for_input,
    envelope_of,
    fate_of,
    is_modern,
    told,
    value_of,
)
from interlock.integrations.mcp._upstream import Upstream

_ROUND_S = 600.0  # how long a tool that asked for input is waited for; nothing has happened meanwhile


@dataclass(slots=True)
class LiveCall:
    """What of one call is not payload: it belongs to this connection and cannot be resumed from a journal.

    Attributes:
        tool: that was called.
        params: of the client's request, as they came.
        upstream: the connection's own server process.
        result: what the tool itself answered, in the call that ran it.
        paused: the tool asked for input; resolves with that answer of the server's.
        resumed: resolves with the client's next round.
    """

    tool: str
    params: Mapping[str, Any]
    upstream: Upstream
    result: dict[str, Any] | None = None
    paused: asyncio.Future[dict[str, Any]] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    resumed: asyncio.Future[Mapping[str, Any]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    asked: dict[str, Any] | None = None


@dataclass(slots=True)
class Paused:
    """A call whose tool waits for the client's input: one proposal, one send, however many rounds."""

    live: LiveCall
    running: asyncio.Task[Answer]


class Gateway:
    """The server's tools behind the gate.

    Args:
        command: how the server is started.

    Attributes:
        gate: the `ToolGate` behind it.
        faces: of the gated tools, by name.
    """

    gate: ToolGate
    faces: dict[str, Face]

    def __init__(self, command: Sequence[str]) -> None:
        self.command = list(command)
        self._spare: asyncio.Task[Upstream] | None = None
        self._paused: dict[str, Paused] = {}

    async def open(self, config: ToolsConfig) -> None:
        """Look at the server's tools, put those that are configured behind the gate, and settle what a crash left open.

        Raises:
            ConfigurationError: the server cannot be started, or has no such tool, or the tool no such argument.
            JournalError: the journal cannot be opened.
        """
        tools = {str(tool["name"]): tool for tool in await self._ask_spare("tools/list", {})}
        self.gate = ToolGate(config, tools={name: self._callable(name) for name in tools})
        try:
            check(self.gate, tools)
            self.faces = {name: face_of(name, self.gate) for name in self.gate.effects}
            for outcome in await self.gate.arecover():
                print(f"interlock: recovered {outcome.effect} {outcome.key!r}: {outcome}", file=sys.stderr)
        finally:
            await self._close_spare()

    async def close(self) -> None:
        """Give up what waits for input, and the gate."""
        for paused in list(self._paused.values()):
            self._abandon(paused)
        running = [paused.running for paused in self._paused.values()]
        if running:
            await asyncio.wait(running)
        await self._close_spare()
        self.gate.close()

    def is_gated(self, params: Mapping[str, Any]) -> bool:
        """Whether a `tools/call` goes through the gate."""
        name = params.get("name")
        return isinstance(name, str) and self.gate.is_gated(name)

    async def call(self, params: Mapping[str, Any], upstream: Upstream, evidence: Mapping[str, Any]) -> dict[str, Any]:
        """One `tools/call` of a gated tool, to its result in the protocol's form; a refusal is a result, too.

        Args:
            params: of the request, as they came.
            upstream: the connection's own server process.
            evidence: the protocol's ids.
        """
        name, arguments = str(params["name"]), params.get("arguments")
        modern = is_modern(params)
        if "task" in params:
            return told(
                f"Not done: {name} cannot run as a task here. Call it without one.", is_error=True, modern=modern
            )
        given: Any = {} if arguments is None else arguments
        if isinstance(given, Mapping):
            problem = self.faces[name].problem_of(given)
            if problem:
                return told(
                    f"Not done: {problem} Nothing was sent. Correct the arguments and call again.",
                    is_error=True,
                    modern=modern,
                )
        same = _identity(params)
        paused = self._paused.get(same)
        if paused is not None and self._is_next_round(paused, params):
            self._paused.pop(same)
            live, running = paused.live, paused.running
            live.params, live.upstream = params, upstream
            live.paused = asyncio.get_running_loop().create_future()
            live.resumed.set_result(params)
        else:
            if paused is not None:
                self._abandon(paused)
                await asyncio.wait({paused.running})
                self._paused.pop(same, None)
            # A round that nobody here waits for any more begins anew: its state is of a send that is over.
            fresh = {key: value for key, value in params.items() if key not in ("inputResponses", "requestState")}
            live = LiveCall(name, fresh, upstream)
            running = asyncio.ensure_future(self.gate.acall(name, given, context=live, evidence=evidence))
        try:
            return await self._first(live, running, same, modern)
        except asyncio.CancelledError:
            running.cancel()  # the gate knows what has left, and waits for that
            raise

    async def _first(self, live: LiveCall, running: asyncio.Task[Answer], same: str, modern: bool) -> dict[str, Any]:
        """The answer of the gate, or the tool's request for input, whichever comes first."""
        await asyncio.wait({running, live.paused}, return_when=asyncio.FIRST_COMPLETED)
        if live.paused.done() and not running.done():
            self._paused[same] = Paused(live, running)
            return live.paused.result()
        try:
            answer = await running
        except JournalError as error:
            print(f"interlock: {error}", file=sys.stderr)
            text = f"Stopped: the journal of the gate could not do its part, so nothing is sent that is not on it ({error}). "
            return told(f"{text}Calling again will not help; an operator has to look.", is_error=True, modern=modern)
        if live.asked is not None and not answer.ok:
            return live.asked  # asked for input where nobody could wait for it
        return self.result_of(answer, live, modern)

    def result_of(self, answer: Answer, live: LiveCall | None, modern: bool) -> dict[str, Any]:
        """An answer of the gate as a tool's result, with what stands on the record beside it."""
        if answer.ok and live is not None and live.result is not None:
            result = dict(live.result)
        else:
            value = answer.value if answer.ok else None
            result = told(answer.message, is_error=answer.is_error, modern=modern, value=value)
        result["_meta"] = {**(result.get("_meta") or {}), **record_of(answer)}
        return result

    # --- what the gate calls ----------------------------------------------------------------------------------------------

    def _callable(self, name: str) -> Any:
        async def call(arguments: Mapping[str, Any], context: Any) -> Any:
            if isinstance(context, LiveCall) and context.tool == name:
                return await self._send(name, arguments, context)
            return value_of(await self._ask(name, arguments, context))

        return call

    async def _send(self, name: str, arguments: Mapping[str, Any], live: LiveCall) -> Any:
        """The gated tool itself, with what the client's request had beside the arguments, through all its rounds."""
        while True:
            params = {**live.params, "name": name, "arguments": dict(arguments)}
            try:
                if live.upstream.is_gone:
                    result = await self._ask_spare("tools/call", {"name": name, "arguments": dict(arguments)})
                else:
                    result = await live.upstream.request("tools/call", params)
            except (RpcError, UpstreamGone) as error:
                raise fate_of(error) from error
            if not asks_for_input(result):
                value = value_of(result)
                live.result = result
                return value
            live.asked = result
            live.resumed = asyncio.get_running_loop().create_future()
            if not live.paused.done():
                live.paused.set_result(result)
            try:
                live.params = await asyncio.wait_for(live.resumed, _ROUND_S)
            except (TimeoutError, _Abandoned):
                # The tool asks before it acts: it is run from its top again with the answers.
                raise NotSent("the tool asked for input and got none", reason="input_required") from None

    async def _ask(self, name: str, arguments: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """Another tool, for a fact: on the client's connection where there is one, else on a process of our own."""
        params: dict[str, Any] = {"name": name, "arguments": dict(arguments)}
        if isinstance(context, LiveCall) and not context.upstream.is_gone:
            envelope = envelope_of(context.params)
            with suppress(UpstreamGone):
                asked = {**params, "_meta": envelope} if envelope else params
                return await context.upstream.request("tools/call", asked)
        answer = await self._ask_spare("tools/call", params)
        if asks_for_input(answer):
            raise NotSent("the tool asks for input, which a recovery has not", reason="input_required")
        return dict(answer)

    # --- a process of our own ---------------------------------------------------------------------------------------------

    async def _ask_spare(self, method: str, params: Mapping[str, Any]) -> Any:
        """Ask the server in a short-lived process of our own, apart from the client's.

        A server's pipe keeps to the era of its first message, and the client's first message is its own to choose.
        """
        if self._spare is None or (self._spare.done() and (self._spare.exception() or self._spare.result().is_gone)):
            self._spare = asyncio.ensure_future(self._greeted())
        spare = await asyncio.shield(self._spare)
        return await spare.tools() if method == "tools/list" else await spare.request(method, params)

    async def _greeted(self) -> Upstream:
        spare = await Upstream.start(self.command)
        if not await spare.greet():
            await spare.close()
            spare = await Upstream.start(self.command)
            spare.skip_greeting()
        return spare

    async def _close_spare(self) -> None:
        spare, self._spare = self._spare, None
        if spare is not None:
            with suppress(Exception):
                await (await spare).close()

    # --- rounds -----------------------------------------------------------------------------------------------------------

    @staticmethod
    def _is_next_round(paused: Paused, params: Mapping[str, Any]) -> bool:
        asked = paused.live.asked or {}
        if paused.running.done() or paused.live.resumed.done():
            return False
        return ("inputResponses" in params or "requestState" in params) and params.get("requestState") == asked.get(
            "requestState"
        )

    @staticmethod
    def _abandon(paused: Paused) -> None:
        if not paused.live.resumed.done():
            paused.live.resumed.set_exception(_Abandoned())


class _Abandoned(Exception):
    """The client will not answer what the tool asked for."""


def _identity(params: Mapping[str, Any]) -> str:
    """What the rounds of one call have in common."""
    return json.dumps([params.get("name"), params.get("arguments")], sort_keys=True)


def record_of(answer: Answer) -> dict[str, Any]:
    """What the gate says beside a result, for the client's program and not for its model: the outcome, and the receipt if there is one."""
    said = {name: value for name, value in answer.as_dict().items() if name not in ("message", "value")}
    record: dict[str, Any] = {"interlock/outcome": said}
    history = answer.outcome.history
    if history is not None and history.entries:
        record["interlock/receipt"] = answer.outcome.receipt().to_dict()
    return record
