"""`protect_tools`: a `BaseTool` goes in, a `BaseTool` comes out, and only what happens at the call differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from google.adk.agents import BaseAgent
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.tool_context import ToolContext

from interlock import ConfigurationError
from interlock.extend import ProtectedTools, without_argument
from interlock.integrations.adk._adapter import as_tool
from interlock.integrations.adk._guard import Guard

if TYPE_CHECKING:
    from pathlib import Path

    from google.adk.models.llm_request import LlmRequest
    from google.genai import types

    from interlock.extend import ToolsConfig

_FACE = (
    "name",
    "description",
    "is_long_running",
    "_defers_response",
    "custom_metadata",
    "behavior",
    "response_scheduling",
)
"""What of a tool is its face to model and framework; the gated tool has the same."""


class GatedTool(BaseTool):
    """A tool behind the gate, with the face of the tool inside it.

    It stands where ADK runs a tool: after the callbacks of plugins and agents, and after a person's confirmation.

    Args:
        inner: the tool itself.
        guard: what gates it.

    Attributes:
        inner: the tool itself.
    """

    def __init__(self, inner: BaseTool, guard: Guard) -> None:
        super().__init__(name=inner.name, description=inner.description)
        for name in _FACE:
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))
        self.inner = inner
        self._guard = guard

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """Do it once, through the gate."""
        return await self._guard.run(self.inner, args, tool_context)

    async def check_require_confirmation(self, args: dict[str, Any], tool_context: ToolContext) -> bool:
        """Whether the tool inside wants a person's confirmation; if so, the facts are read that the person will confirm on."""
        asks = bool(await self.inner.check_require_confirmation(args, tool_context))
        if asks:
            await self._guard.see(self.inner, args, tool_context)
        return asks

    async def process_llm_request(self, *, tool_context: ToolContext, llm_request: LlmRequest) -> None:
        """Offer the tool to the model as the tool inside would, and stay the one that is called."""
        if type(self.inner).process_llm_request is BaseTool.process_llm_request:
            await super().process_llm_request(tool_context=tool_context, llm_request=llm_request)
            return
        await self.inner.process_llm_request(tool_context=tool_context, llm_request=llm_request)
        if self.name in llm_request.tools_dict:
            llm_request.tools_dict[self.name] = self

    def _get_declaration(self) -> types.FunctionDeclaration | None:
        declaration = self.inner._get_declaration()
        filled_in = self._guard.argument_of_gate(self.name)
        return declaration if declaration is None or filled_in is None else _without(declaration, filled_in)

    def _detect_error_in_response(self, response: Any) -> str | None:
        return "TOOL_ERROR" if isinstance(response, dict) and response.get("error") else None


def protect_tools(
    tools: Sequence[Any],
    config: ToolsConfig | Mapping[str, Any] | str | Path,
    *,
    journal: Any = None,
) -> ProtectedTools[Any]:
    """Put the tools with outside effects behind the gate, and leave the others as they are.

    Args:
        tools: the agent's tools: functions, `BaseTool`s, toolsets. Premises and look-ups that the configuration names are among them. A
            toolset's tools are known only once it is connected: hand over what its `get_tools()` gives.
        config: which tools are gated and how: a dict, a JSON or TOML file, or a `ToolsConfig` (docs/config.md).
        journal: where the journal lives, if not where the configuration says.

    Returns:
        The same tools in the same order, as a list with `recover()`.

    Raises:
        ConfigurationError: the configuration names a tool that is not there, or has an option that does not exist.
    """
    if isinstance(tools, BaseAgent):
        raise ConfigurationError(
            "protect_tools() takes a list of tools; for an agent and those below it use InterlockPlugin."
        )
    made = [tool if isinstance(tool, BaseToolset) else as_tool(tool) for tool in tools]
    twice = [tool.name for tool in made if isinstance(tool, GatedTool)]
    if twice:
        raise ConfigurationError(f"the tool {twice[0]!r} is behind a gate already.")
    guard = Guard(config, tools=made, journal=journal)
    assert guard.configured is not None  # it was just given a configuration
    return ProtectedTools(
        [GatedTool(tool, guard) if isinstance(tool, BaseTool) and guard.is_gated(tool.name) else tool for tool in made],
        guard.configured,
    )


def _without(declaration: types.FunctionDeclaration, argument: str) -> types.FunctionDeclaration:
    """A declaration without the argument that the gate fills in."""
    declaration = declaration.model_copy(deep=True)
    schema = declaration.parameters
    if schema is not None:
        if schema.properties:
            schema.properties.pop(argument, None)
        if schema.required:
            schema.required = [name for name in schema.required if name != argument] or None
    declaration.parameters_json_schema = without_argument(declaration.parameters_json_schema, argument)
    return declaration
