"""`InterlockMiddleware`: the gate as one line of `create_agent(middleware=[...])`.

It exchanges each request's tool for the gated one, so the gate stands where the tool is run: behind what other middleware edits, behind
its retries.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from langchain.agents.middleware import AgentMiddleware, AgentState, HumanInTheLoopMiddleware
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.tools import BaseTool

from interlock import ConfigurationError
from interlock.integrations.langgraph._adapter import ToolCallGate

if TYPE_CHECKING:
    from pathlib import Path

    from interlock.extend import ToolsConfig

log = logging.getLogger("interlock")


class SeenState(AgentState[Any]):
    """The agent's state, with what the approvers of its tool calls saw."""

    interlock_seen: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]


class InterlockMiddleware(ToolCallGate, AgentMiddleware):
    """Put an agent's tools with outside effects behind the gate.

    List it last, which is innermost: a middleware behind it can still answer in the tool's stead, or exchange the tool. If it is not
    last, that is logged as a warning, once.

    Args:
        tools: the agent's tools, as `create_agent` gets them.
        config: which of them are gated and how: a dict, a JSON or TOML file, or a `ToolsConfig` (docs/config.md).
        journal: where the journal lives, if not where the configuration says.
        approvals: the tools whose calls a person approves before they run, by name, or the `HumanInTheLoopMiddleware` itself. Their facts
            are read when approval is asked for, kept with the run's checkpoint, and must still hold at the send.

    Raises:
        ConfigurationError: the configuration names a tool that is not there, or has an option that does not exist.
    """

    state_schema = SeenState
    _told = False

    def __init__(
        self,
        tools: Sequence[BaseTool],
        config: ToolsConfig | Mapping[str, Any] | str | Path,
        *,
        journal: Any = None,
        approvals: HumanInTheLoopMiddleware[Any, Any, Any] | Iterable[str] = (),
    ) -> None:
        named = approvals.interrupt_on if isinstance(approvals, HumanInTheLoopMiddleware) else approvals
        self._approved = frozenset([named] if isinstance(named, str) else named)
        super().__init__(tools, config, journal=journal)
        unknown = sorted(self._approved - {tool.name for tool in tools})
        if unknown:
            self.close()
            raise ConfigurationError(f"approvals= names the tool {unknown[0]!r}, which was not handed over.")

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Read the facts of the calls that a person will be asked for. It comes before that, since this middleware is the innermost."""
        calls = self._waiting(state)
        return self.see(calls) if calls else None

    async def aafter_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """As `after_model`, without blocking the event loop."""
        calls = self._waiting(state)
        return await self.asee(calls) if calls else None

    def _waiting(self, state: Any) -> list[Any]:
        messages = state.get("messages") or [None]
        return [call for call in getattr(messages[-1], "tool_calls", None) or () if call["name"] in self._approved]

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
