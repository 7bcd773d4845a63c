"""`InterlockMiddleware`: the gate as one line of `create_agent(middleware=[...])`.

It exchanges each request's tool for the gated one, so the gate stands where the tool is run: behind what other middleware edits, behind
its retries.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware

from interlock.integrations.langgraph._adapter import ToolCallGate

log = logging.getLogger("interlock")


class InterlockMiddleware(ToolCallGate, AgentMiddleware):
    """Put an agent's tools with outside effects behind the gate.

    List it last, which is innermost: a middleware behind it can still answer in the tool's stead, or exchange the tool. If it is not
    last, that is logged as a warning, once.

    Args:
        tools: the agent's tools, as `create_agent` gets them.
        config: which of them are gated and how: a dict, a JSON or TOML file, or a `ToolsConfig` (docs/config.md).
        journal: where the journal lives, if not where the configuration says.

    Raises:
        ConfigurationError: the configuration names a tool that is not there, or has an option that does not exist.
    """

    _told = False

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Show the model the gated tools, which lack the argument that the gate fills in."""
        return handler(self._shown(request))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """As `wrap_model_call`, without blocking the event loop."""
        return await handler(self._shown(request))

    def _shown(self, request: Any) -> Any:
        tools = [self._gated.get(getattr(tool, "name", ""), tool) for tool in request.tools]
        return request.override(tools=tools)

    def _exchange(self, request: Any, handler: Callable[..., Any]) -> Any:
        if not self._told and getattr(handler, "__name__", "") == "call_inner":
            self._told = True
            log.warning(
                "InterlockMiddleware is not the last of the middleware: what is listed after it runs between the gate and the tool, "
                "and can answer in the tool's stead or exchange it. List InterlockMiddleware last."
            )
        return super()._exchange(request, handler)
