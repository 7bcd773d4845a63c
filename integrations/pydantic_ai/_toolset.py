"""`InterlockToolset`: the gate around one toolset of Pydantic AI. Owns where in a stack of toolsets the gate stands."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic_ai import RunContext
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import (
    AbstractToolset,
    ApprovalRequiredToolset,
    CombinedToolset,
    FunctionToolset,
    ToolsetTool,
    WrapperToolset,
)

from interlock import ConfigurationError
from interlock.extend import Recoverable
from interlock.integrations.pydantic_ai._adapter import NO_DEPS, Door, named_tools

if TYPE_CHECKING:
    from pathlib import Path

    from interlock.extend import ToolsConfig


class InterlockToolset(Recoverable, WrapperToolset[Any]):
    """Puts the tools of a toolset that have outside effects behind the gate.

        toolset = InterlockToolset(FunctionToolset([create_refund, get_order, find_refund]), "interlock.json")
        agent = Agent(model, toolsets=[toolset.approval_required()])
        toolset.recover()

    Args:
        wrapped: a toolset of functions, or several. What asks for approval, renames or filters goes around this one.
        config: which tools are gated and how: a dict, a JSON or TOML file, or a `ToolsConfig` (docs/config.md).
        tools: further tools that premises and look-ups ask and that are not in the toolset.
        journal: where the journal lives, if not where the configuration says.
        deps: what tools that take a `RunContext` find as `ctx.deps` outside a run, in a recovery; a callable is called for it.
        decision: names the decision of a call from its context. A refusal stands for its decision.

    Raises:
        ConfigurationError: the configuration names a tool that is not there, or has an option that does not exist; or the toolset inside
            asks for approval itself, so that the gate would come before the approval.
        JournalError: the journal cannot be opened.
    """

    def __init__(
        self,
        wrapped: AbstractToolset[Any],
        config: ToolsConfig | Mapping[str, Any] | str | Path,
        *,
        tools: Any = (),
        journal: Any = None,
        deps: Any = NO_DEPS,
        decision: Callable[[RunContext[Any]], str] | None = None,
    ) -> None:
        super().__init__(wrapped)
        _check(wrapped)
        self._door = Door(config, named_tools([wrapped, tools]), journal=journal, deps=deps, decision=decision)
        self._gate = self._door.gate

    # --- the framework's own -----------------------------------------------------------------------------------------------

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """The toolset's tools, without the arguments that the gate fills in."""
        tools = await self.wrapped.get_tools(ctx)
        return {
            name: dataclasses.replace(tool, tool_def=self._door.face(tool.tool_def)) for name, tool in tools.items()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """A call of a gated tool goes through the gate, any other one on."""

        async def proceed(args: dict[str, Any]) -> Any:
            return await self.wrapped.call_tool(name, args, ctx, tool)

        if not self._door.gate.is_gated(name):
            return await proceed(tool_args)
        if self._door.is_to_be_asked(name, ctx):
            raise await self._door.ask(name, tool_args, ctx)
        return await self._door.call(name, tool_args, ctx, proceed, seen=False)

    def approval_required(
        self,
        approval_required_func: Callable[[RunContext[Any], ToolDefinition, dict[str, Any]], bool] = (
            lambda ctx, tool_def, tool_args: True
        ),
    ) -> ApprovalRequiredToolset[Any]:
        """This toolset with an approval in front, as the framework's own; the question carries the facts that a person approves on."""
        return _Asking(self, approval_required_func)

    async def for_run(self, ctx: RunContext[Any]) -> AbstractToolset[Any]:
        """This toolset for one run, on the same gate."""
        return self._around(await self.wrapped.for_run(ctx))

    async def for_run_step(self, ctx: RunContext[Any]) -> AbstractToolset[Any]:
        """This toolset for one step of a run, on the same gate."""
        return self._around(await self.wrapped.for_run_step(ctx))

    def visit_and_replace(
        self, visitor: Callable[[AbstractToolset[Any]], AbstractToolset[Any]]
    ) -> AbstractToolset[Any]:
        """This toolset around another one inside, on the same gate."""
        return self._around(self.wrapped.visit_and_replace(visitor))

    def _around(self, wrapped: AbstractToolset[Any]) -> AbstractToolset[Any]:
        if wrapped is self.wrapped:
            return self
        other = copy.copy(self)
        other.wrapped = wrapped
        return other


class _Asking(ApprovalRequiredToolset[Any]):
    """Asks for approval around an `InterlockToolset`."""

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        inside = self.wrapped
        if isinstance(inside, InterlockToolset) and inside.gate.is_gated(name) and not ctx.tool_call_approved:
            if self.approval_required_func(ctx, tool.tool_def, tool_args):
                raise await inside._door.ask(name, tool_args, ctx)
            return await inside.call_tool(name, tool_args, ctx, tool)
        return await super().call_tool(name, tool_args, ctx, tool)


def _check(toolset: AbstractToolset[Any]) -> None:
    """Refuse what would make the gate come first, or what has tools that are known in a run only."""
    if isinstance(toolset, ApprovalRequiredToolset):
        raise ConfigurationError(
            "the toolset inside asks for approval, so the gate would come before it. Wrap the other way round: "
            "InterlockToolset(toolset, config).approval_required()."
        )
    if isinstance(toolset, InterlockToolset):
        raise ConfigurationError("the toolset is behind a gate already.")
    if isinstance(toolset, CombinedToolset):
        for inner in toolset.toolsets:
            _check(inner)
    elif isinstance(toolset, WrapperToolset):
        _check(toolset.wrapped)
    elif not isinstance(toolset, FunctionToolset):
        raise ConfigurationError(
            f"the tools of {toolset.label} are known in a run only, so a recovery could not ask them. Put the MCP server behind "
            "`python -m interlock.mcp_proxy`, or wrap a toolset of functions."
        )
