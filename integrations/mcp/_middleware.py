"""A server of the official SDK with the gate inside: a middleware of `MCPServer`.

Owns the translation between the SDK's context of a request and the gateway's `LiveCall`. It must not know what the gate decides.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError

from interlock import ConfigurationError
from interlock.extend import ToolFailed, ToolGate, load
from interlock.integrations.mcp._face import show_tools
from interlock.integrations.mcp._frame import RpcError, envelope_of, fate_of, is_modern, meta_of, told
from interlock.integrations.mcp._gateway import Gateway, LiveCall

if TYPE_CHECKING:
    from pathlib import Path

    from interlock import Recovery
    from interlock.extend import ToolsConfig


class InterlockMiddleware:
    """The gate inside a server: `MCPServer("payments", middleware=[gate])`, and `gate.attach(server)` once its tools are defined.

    Until it is attached, no tool that the configuration names can be called.

    Args:
        config: which tools are gated and how: a dict, a JSON or TOML file, or a `ToolsConfig` (docs/config.md).
        journal: where the journal lives, if not where the configuration says.

    Raises:
        ConfigurationError: an option does not exist.

    **If the process dies**: `recover()`, once on start, settles what was open.
    """

    def __init__(self, config: ToolsConfig | Mapping[str, Any] | str | Path, *, journal: Any = None) -> None:
        self._config = config
        self._journal = journal
        # Tools given as Python `Effect`s are no part of the schema; the gate itself looks at those when it is built.
        tools = config.get("tools", config) if isinstance(config, Mapping) else load(config).tools
        self._named = frozenset(tools)
        self._gateway: Gateway | None = None

    @property
    def gate(self) -> ToolGate:
        """The `ToolGate` behind it."""
        return self._attached().gate

    def attach(self, server: MCPServer[Any]) -> InterlockMiddleware:
        """Put the server's tools behind the gate, once they are defined.

        Raises:
            ConfigurationError: the configuration names a tool that is not there, or an argument that it does not take.
            JournalError: the journal cannot be opened.
        """
        if not isinstance(server, MCPServer):
            raise ConfigurationError(
                f"the middleware is for MCPServer of the official SDK, not {type(server).__name__}. In front of any other "
                "server there is the proxy: python -m interlock.mcp_proxy."
            )
        if self._gateway is not None:
            raise ConfigurationError("this middleware is attached to a server already.")
        if self not in server.middleware:
            server.middleware.append(self)

        async def ask(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            try:
                return _dumped(await server.call_tool(name, arguments))
            except ToolError as error:
                raise ToolFailed(str(error)) from error

        listed = _wait_for(server.list_tools)
        tools = {tool.name: _dumped(tool) for tool in listed}
        self._gateway = Gateway(self._config, tools=tools, ask=ask, journal=self._journal)
        return self

    def recover(self) -> Recovery:
        """Settle what a crash left open: once on start, before the server runs.

        **Durable when** this returns: every outcome but IN_FLIGHT.
        **If the process dies** meanwhile: the next recovery starts over from the record.
        """
        return self.gate.recover()

    async def arecover(self) -> Recovery:
        """As `recover`, where an event loop runs."""
        return await self.gate.arecover()

    def close(self) -> None:
        """Give up the gate."""
        if self._gateway is not None:
            self._gateway.gate.close()

    async def __call__(self, ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        """One message of a client's."""
        params: Mapping[str, Any] = ctx.params or {}
        if ctx.method == "tools/list" and self._gateway is not None:
            return show_tools(await call_next(ctx), self._gateway.faces)
        if ctx.method != "tools/call" or params.get("name") not in self._named:
            return await call_next(ctx)
        if self._gateway is None:
            text = f"Not done: {params['name']} stands behind a gate that was not attached to this server. An operator has to look."
            return told(text, is_error=True, modern=is_modern(params))

        async def request(params: dict[str, Any]) -> dict[str, Any]:
            try:
                result = await call_next(dataclasses.replace(ctx, params=params))
            except MCPError as error:
                raise fate_of(RpcError({"code": error.error.code, "message": error.error.message})) from error
            return _dumped(result)

        async def ask(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            envelope = envelope_of(params)
            asked: dict[str, Any] = {"name": name, "arguments": arguments}
            return await request({**asked, "_meta": envelope} if envelope else asked)

        live = LiveCall(tool=str(params["name"]), send=request, ask=ask, params=params)
        evidence = {"request_id": ctx.request_id, "progress_token": meta_of(params).get("progressToken")}
        return await self._gateway.call(live, evidence)

    def _attached(self) -> Gateway:
        if self._gateway is None:
            raise ConfigurationError("the middleware is not attached: call attach(server) once its tools are defined.")
        return self._gateway


def protect_server(
    server: MCPServer[Any], config: ToolsConfig | Mapping[str, Any] | str | Path, *, journal: Any = None
) -> InterlockMiddleware:
    """Put the tools of a server with outside effects behind the gate; call `recover()` on what it returns, once on start.

    Args:
        server: with its tools defined.
        config: which tools are gated and how (docs/config.md).
        journal: where the journal lives, if not where the configuration says.

    Raises:
        ConfigurationError: the configuration cannot be kept on this server.
        JournalError: the journal cannot be opened.
    """
    return InterlockMiddleware(config, journal=journal).attach(server)


def _dumped(model: Any) -> dict[str, Any]:
    if isinstance(model, dict):
        return model
    dumped: dict[str, Any] = model.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dumped


def _wait_for(asked: Callable[[], Awaitable[Any]]) -> Any:
    """What an async function gives, also where an event loop runs already."""

    async def ask() -> Any:
        return await asked()

    with ThreadPoolExecutor(1) as beside:
        return beside.submit(asyncio.run, ask()).result()
