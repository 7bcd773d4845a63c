"""A server of the official SDK with the gate inside: a middleware of `MCPServer`.

Owns the translation between the SDK's context of a request and the gateway's `LiveCall`. It must not know what the gate decides.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ValidationError

from interlock import ConfigurationError
from interlock.extend import ToolFailed
from interlock.integrations.mcp._face import Face, show_tools
from interlock.integrations.mcp._frame import RpcError, envelope_of, fate_of, is_modern, meta_of, told
from interlock.integrations.mcp._gateway import LiveCall
from interlock.integrations.mcp._inside import InsideServer, dumped, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from interlock.extend import ToolsConfig


class InterlockMiddleware(InsideServer):
    """The gate inside a server: `MCPServer("payments", middleware=[gate])`, and `gate.attach(server)` once its tools are defined.

    Until it is attached, no tool that the configuration names can be called.

    Args:
        config: which tools are gated and how: a dict, a JSON or TOML file, or a `ToolsConfig` (docs/config.md).
        journal: where the journal lives, if not where the configuration says.

    Raises:
        ConfigurationError: an option does not exist.

    **If the process dies**: `recover()`, once on start, settles what was open.
    """

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
        if self not in server.middleware:
            server.middleware.append(self)

        async def ask(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            try:
                return dumped(await server.call_tool(name, arguments))
            except ToolError as error:
                raise ToolFailed(str(error)) from error

        def misfit(face: Face, given: Mapping[str, Any]) -> str:
            tool = server._tool_manager.get_tool(face.name)
            return "" if tool is None else misfit_of_model(tool.fn_metadata.arg_model, face, given)

        self._attach(lambda: {tool.name: dumped(tool) for tool in wait_for(server.list_tools)}, ask, misfit)
        return self

    async def __call__(self, ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        """One message of a client's."""
        params: Mapping[str, Any] = ctx.params or {}
        if ctx.method == "tools/list" and self._gateway is not None:
            return show_tools(await call_next(ctx), self._gateway.faces)
        if ctx.method != "tools/call" or params.get("name") not in self._named:
            return await call_next(ctx)
        if self._gateway is None:
            return told(self._not_attached(str(params["name"])), is_error=True, modern=is_modern(params))

        async def request(params: dict[str, Any]) -> dict[str, Any]:
            try:
                result = await call_next(dataclasses.replace(ctx, params=params))
            except MCPError as error:
                raise fate_of(RpcError({"code": error.error.code, "message": error.error.message})) from error
            return dumped(result)

        async def ask(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            envelope = envelope_of(params)
            asked: dict[str, Any] = {"name": name, "arguments": arguments}
            return await request({**asked, "_meta": envelope} if envelope else asked)

        live = LiveCall(tool=str(params["name"]), send=request, ask=ask, params=params)
        evidence = {"request_id": ctx.request_id, "progress_token": meta_of(params).get("progressToken")}
        return await self._gateway.call(live, evidence)


def misfit_of_model(model: type[BaseModel], face: Face, given: Mapping[str, Any]) -> str:
    """Why arguments do not fit the model by which the SDK's own tool reads them; empty if they do.

    As strictly as the tool's schema: in a text the SDK would find a number, and the same request would stand in two forms.
    """
    try:
        model.model_validate_json(json.dumps(dict(given)), strict=True)
    except ValidationError as error:
        for found in error.errors(include_url=False, include_input=False, include_context=False):
            if found["loc"][:1] != (face.own_argument,):  # which the gate fills in
                place = ".".join(map(str, found["loc"]))
                return f"{place}: {found['msg']}." if place else f"{found['msg']}."
    except Exception:  # noqa: BLE001 - a validator that fails judges nothing; the tool itself will
        return ""
    return ""


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
