"""Behind the proxy: the server's processes, the client's and those of the proxy's own, as what the gateway calls.

Owns which process a call of the gate goes to. It must not know what is gated or what a client's lines look like.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from interlock import ConfigurationError
from interlock.extend import ToolsConfig
from interlock.integrations.mcp._frame import RpcError, UpstreamGone, envelope_of, fate_of
from interlock.integrations.mcp._gateway import Gateway, LiveCall
from interlock.integrations.mcp._schema import misfit_of_schema
from interlock.integrations.mcp._upstream import Upstream


class Behind:
    """A server that is started by a command, and its tools behind the gate.

    Args:
        command: how the server is started.

    Attributes:
        gateway: the tools behind the gate.
    """

    gateway: Gateway

    def __init__(self, command: Sequence[str]) -> None:
        self.command = list(command)
        self._spare: asyncio.Task[Upstream] | None = None

    async def open(self, config: ToolsConfig) -> None:
        """Look at the server's tools, put those that are configured behind the gate, and settle what a crash left open.

        Raises:
            ConfigurationError: the server cannot be started, or has no such tool, or the tool no such argument.
            JournalError: the journal cannot be opened.
        """
        try:
            spare = await self._borrow_spare()
            try:
                listed = await spare.tools()
            except (RpcError, UpstreamGone) as error:
                raise ConfigurationError(f"the server {self.command[0]!r} does not list its tools: {error}.") from error
            tools = {str(tool["name"]): tool for tool in listed}
            self._tools = tools
            self.gateway = Gateway(config, tools=tools, ask=self.ask, misfit=misfit_of_schema)
            await self.gateway.gate.arecover()  # which logs what it came to
        finally:
            # Before the client's process is started: not every server can run twice at the same time.
            await self._give_spare_up()

    async def close(self) -> None:
        """Give up what waits for input, the gate, and the processes of our own."""
        await self.gateway.close()
        await self._give_spare_up()

    def live_call(self, params: Mapping[str, Any], upstream: Upstream) -> LiveCall:
        """A client's call, on its own process of the server; on one of ours if that has ended."""

        async def send(params: dict[str, Any]) -> dict[str, Any]:
            if upstream.is_gone:
                return await self.ask(params["name"], params["arguments"])
            return await _request(upstream, params)

        async def ask(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            envelope = envelope_of(params)
            if not upstream.is_gone:
                with suppress(UpstreamGone):
                    asked: dict[str, Any] = {"name": name, "arguments": arguments}
                    return await upstream.request("tools/call", {**asked, "_meta": envelope} if envelope else asked)
            return await self.ask(name, arguments)

        return LiveCall(tool=str(params["name"]), send=send, ask=ask, params=params)

    def schema_of(self, name: str) -> dict[str, Any] | None:
        """What a client may give a tool."""
        if name in self.gateway.faces:
            return dict(self.gateway.faces[name].schema)
        schema = self._tools.get(name, {}).get("inputSchema")
        return schema if isinstance(schema, dict) else None

    async def ask(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Run a tool in a short-lived process of our own, apart from the client's.

        A server's pipe keeps to the era of its first message, and the client's first message is its own to choose.
        """
        return await _request(await self._borrow_spare(), {"name": name, "arguments": arguments})

    async def _borrow_spare(self) -> Upstream:
        if self._spare is None or (self._spare.done() and (self._spare.exception() or self._spare.result().is_gone)):
            self._spare = asyncio.ensure_future(self._start_spare())
        return await asyncio.shield(self._spare)

    async def _start_spare(self) -> Upstream:
        spare = await Upstream.start(self.command)
        try:
            if await spare.greet():
                return spare
            await spare.close()
            spare = await Upstream.start(self.command)
            spare.skip_greeting()
        except UpstreamGone as error:
            raise ConfigurationError(f"the server {self.command[0]!r} cannot be asked: {error}.") from error
        return spare

    async def _give_spare_up(self) -> None:
        spare, self._spare = self._spare, None
        if spare is not None:
            with suppress(Exception):
                await (await spare).close()


async def _request(upstream: Upstream, params: Mapping[str, Any]) -> dict[str, Any]:
    """Run a tool; what went wrong is told in the gate's words."""
    try:
        return await upstream.request("tools/call", params)
    except (RpcError, UpstreamGone) as error:
        raise fate_of(error) from error
