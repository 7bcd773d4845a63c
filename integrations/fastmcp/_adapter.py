"""A fastmcp server with the gate inside: a `Middleware` whose `on_call_tool` asks the gate.

Owns the translation between fastmcp's context of a call and the gateway's `LiveCall`. It must not know what the gate decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastmcp import FastMCP
from fastmcp.exceptions import FastMCPError, NotFoundError
from fastmcp.server.middleware import Middleware, MiddlewareContext
from fastmcp.tools.base import Tool, ToolResult
from mcp.types import ContentBlock
from pydantic import TypeAdapter

from interlock import ConfigurationError, Rejected
from interlock.extend import ToolFailed
from interlock.integrations.mcp._frame import meta_of
from interlock.integrations.mcp._gateway import LiveCall
from interlock.integrations.mcp._inside import InsideServer, dumped, wait_for
from interlock.integrations.mcp._schema import misfit_of_schema

if TYPE_CHECKING:
    from pathlib import Path

    from interlock.extend import ToolsConfig


_BLOCKS: TypeAdapter[list[ContentBlock]] = TypeAdapter(list[ContentBlock])


class InterlockMiddleware(InsideServer, Middleware):
    """The gate inside a server: `server.add_middleware(gate)`, and `gate.attach(server)` once its tools are defined.

    Also in front of another server: `create_proxy(target)` is a fastmcp server like any other. Add it last, so that what other
    middleware makes of a call is what the gate judges. Until it is attached, no tool that the configuration names can be called.

    Args:
        config: which tools are gated and how: a dict, a JSON or TOML file, or a `ToolsConfig` (docs/config.md).
        journal: where the journal lives, if not where the configuration says.

    Raises:
        ConfigurationError: an option does not exist.

    **If the process dies**: `recover()`, once on start, settles what was open.
    """

    def attach(self, server: FastMCP[Any]) -> InterlockMiddleware:
        """Put the server's tools behind the gate, once they are defined.

        Raises:
            ConfigurationError: the configuration names a tool that is not there, or an argument that it does not take.
            JournalError: the journal cannot be opened.
        """
        if not isinstance(server, FastMCP):
            raise ConfigurationError(f"the middleware is for a FastMCP server, not {type(server).__name__}.")
        if self not in server.middleware:
            server.add_middleware(self)

        async def ask(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            try:
                return _result(await server.call_tool(name, arguments, run_middleware=False))
            except NotFoundError as error:
                raise Rejected(str(error), reason="no_such_tool") from error
            except FastMCPError as error:
                raise ToolFailed(str(error)) from error

        async def listed() -> Sequence[Tool]:
            return await server.list_tools(run_middleware=False)

        self._attach(
            lambda: {tool.name: dumped(tool.to_mcp_tool()) for tool in wait_for(listed)}, ask, misfit_of_schema
        )
        return self

    async def on_list_tools(self, context: Any, call_next: Any) -> Any:
        """The tools, the gated ones with their faces."""
        tools = await call_next(context)
        if self._gateway is None:
            return tools
        faces = self._gateway.faces
        return [self._shown(tool) if tool.name in faces else tool for tool in tools]

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        """One call of a tool."""
        message = context.message
        if message.name not in self._named:
            return await call_next(context)
        if self._gateway is None:
            return ToolResult(content=self._not_attached(message.name), is_error=True)
        params = dumped(message)
        raw: dict[str, Any] = {}

        async def request(params: dict[str, Any]) -> dict[str, Any]:
            asked = {name: params[name] for name in ("name", "arguments")}
            try:
                answer = await call_next(context.copy(message=message.model_copy(update=asked)))
            except NotFoundError as error:
                raise Rejected(str(error), reason="no_such_tool") from error
            except FastMCPError as error:
                raise ToolFailed(str(error)) from error
            result = _result(answer)
            if params["name"] == message.name:
                raw["result"], raw["answer"] = result, answer
            return result

        async def ask(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            return await request({"name": name, "arguments": arguments})

        live = LiveCall(tool=message.name, send=request, ask=ask, params=params)
        result = await self._gateway.call(live, {**_ids_of(context), **_progress(params)})
        if result is raw.get("result"):
            return raw["answer"]  # what the tool asks its client for, in fastmcp's own form
        return ToolResult(
            content=_content(result),
            structured_content=result.get("structuredContent"),
            meta=result.get("_meta"),
            is_error=bool(result.get("isError")),
        )

    def _shown(self, tool: Tool) -> Tool:
        assert self._gateway is not None
        shown = self._gateway.faces[tool.name].show(dumped(tool.to_mcp_tool()))
        kept = tool.to_mcp_tool()
        update: dict[str, Any] = {
            "description": shown["description"],
            "parameters": shown["inputSchema"],
            "annotations": type(kept).model_validate(shown).annotations,
            "meta": {**(tool.meta or {}), **shown["_meta"]},
        }
        if "outputSchema" not in shown:
            update["output_schema"] = None
        return tool.model_copy(update=update)


def protect_server(
    server: FastMCP[Any], config: ToolsConfig | Mapping[str, Any] | str | Path, *, journal: Any = None
) -> InterlockMiddleware:
    """Put the tools of a server with outside effects behind the gate; call `recover()` on what it returns, once on start.

    Args:
        server: with its tools defined; also what `create_proxy` gives.
        config: which tools are gated and how (docs/config.md).
        journal: where the journal lives, if not where the configuration says.

    Raises:
        ConfigurationError: the configuration cannot be kept on this server.
        JournalError: the journal cannot be opened.
    """
    return InterlockMiddleware(config, journal=journal).attach(server)


def _result(answer: Any) -> dict[str, Any]:
    """What a tool returned, in the protocol's form."""
    if not isinstance(answer, ToolResult):
        return dumped(answer)  # a request for input, or a task
    return {
        "content": [dumped(block) for block in answer.content],
        **({} if answer.structured_content is None else {"structuredContent": answer.structured_content}),
        **({} if not answer.meta else {"_meta": answer.meta}),
        "isError": bool(getattr(answer, "is_error", False)),
    }


def _content(result: Mapping[str, Any]) -> list[Any]:
    """The blocks of a result as the SDK's objects."""
    return _BLOCKS.validate_python(result["content"])


def _ids_of(context: MiddlewareContext[Any]) -> dict[str, Any]:
    """The protocol's ids of this call: evidence for the record, never a key."""
    live = context.fastmcp_context
    ids: dict[str, Any] = {}
    for name in ("request_id", "session_id"):
        try:
            ids[name] = getattr(live, name, None)
        except RuntimeError:
            ids[name] = None  # no request is going on: somebody called the tool in Python
    return ids


def _progress(params: Mapping[str, Any]) -> dict[str, Any]:
    token = meta_of(params).get("progressToken")
    return {} if token is None else {"progress_token": token}
