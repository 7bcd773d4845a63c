"""`InterlockPlugin`: the gate for every agent of a runner, as one line of `plugins=[...]`."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from google.adk.plugins import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext

from interlock.integrations.adk._guard import Guard

if TYPE_CHECKING:
    from pathlib import Path

    from google.adk.agents import BaseAgent

    from interlock import Recovery
    from interlock.extend import ToolsConfig

log = logging.getLogger("interlock")


class InterlockPlugin(BasePlugin):
    """Put the tools with outside effects of all agents of a runner behind the gate, those of sub-agents and of agents as tools, too.

    A plugin's answer to a call leaves out the agent's own `before_tool_callback`. So the plugin asks those callbacks first, as ADK would:
    what one answers stands, and what one edits is what the gate judges. Plugins that are listed after this one are not asked about
    gated calls: list it last. If it is not, that is logged as a warning, once.

    Args:
        config: which tools are gated and how: a dict, a JSON or TOML file, or a `ToolsConfig` (docs/config.md); or a `Guard`.
        tools: the tools, or the root agent, which stands for its tools and those of all agents below it. Premises and look-ups that the
            configuration names are among them.
        journal: where the journal lives, if not where the configuration says.
        name: of the plugin.

    Attributes:
        guard: the `Guard` behind it. The plugin outlives a runner; give it up by `guard.close()`.

    Raises:
        ConfigurationError: the configuration names a tool that is not there, or has an option that does not exist.
    """

    def __init__(
        self,
        config: Guard | ToolsConfig | Mapping[str, Any] | str | Path,
        *,
        tools: Sequence[Any] | BaseAgent = (),
        journal: Any = None,
        name: str = "interlock",
    ) -> None:
        super().__init__(name=name)
        self.guard = config if isinstance(config, Guard) else Guard(config, tools=tools, journal=journal)
        self._told = False

    def recover(self) -> Recovery:
        """Settle what a crash left open: once on start, before the runner runs, where no event loop runs.

        **Durable when** this returns: every outcome but IN_FLIGHT.
        **If the process dies** meanwhile: the next recovery starts over from the record.
        """
        return self.guard.recover()

    async def arecover(self) -> Recovery:
        """As `recover`, without blocking the event loop."""
        return await self.guard.arecover()

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Answer the call of a gated tool; ADK calls this."""
        if not self.guard.gates(tool):
            return None
        invocation: Any = tool_context._invocation_context
        plugins = invocation.plugin_manager.plugins
        if not self._told and plugins and plugins[-1] is not self:
            self._told = True
            log.warning(
                "InterlockPlugin is not the last plugin: those after it (%s) are not asked before a gated tool is called. List it last.",
                ", ".join(plugin.name for plugin in plugins[plugins.index(self) + 1 :]) if self in plugins else "?",
            )
        for callback in getattr(invocation.agent, "canonical_before_tool_callbacks", ()):
            if callback == self.guard.before_tool_callback:
                continue
            answer = callback(tool=tool, args=tool_args, tool_context=tool_context)
            if inspect.isawaitable(answer):
                answer = await answer
            if answer is not None:
                given: dict[str, Any] = answer
                return given
        return await self.guard.answer(tool, tool_args, tool_context)
