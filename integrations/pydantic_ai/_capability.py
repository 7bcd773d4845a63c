"""`InterlockCapability`: the gate as a capability of a Pydantic AI agent. Owns where in the agent's chain the gate stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import ToolDefinition

from interlock import ConfigurationError, NotSent
from interlock.extend import Recoverable
from interlock.integrations.pydantic_ai._adapter import (
    LIVE,
    NO_DEPS,
    Door,
    LiveCall,
    as_json,
    asks_for_approval,
    named_tools,
)

if TYPE_CHECKING:
    from pathlib import Path

    from interlock.extend import ToolGate, ToolsConfig


class InterlockCapability(Recoverable, AbstractCapability[Any]):
    """Puts the tools of an agent that have outside effects behind the gate.

        guard = InterlockCapability("interlock.json", tools=[create_refund, get_order, find_refund])
        agent = Agent(model, tools=[create_refund, get_order, find_refund], capabilities=[guard])
        guard.recover()

    Args:
        config: which tools are gated and how: a dict, a JSON or TOML file, or a `ToolsConfig` (docs/config.md).
        tools: the agent's tools, also those that premises and look-ups ask: functions, `Tool`s and toolsets. Left out, they are taken from
            the agent by `attach(agent)`, which suits `@agent.tool`.
        journal: where the journal lives, if not where the configuration says.
        deps: what tools that take a `RunContext` find as `ctx.deps` outside a run, in a recovery; a callable is called for it.
        decision: names the decision of a call from its context, such as an approval's id that was given as metadata. A refusal stands for
            its decision. By default a person's approval of one call is a decision, and all that nobody approved is another.

    Raises:
        ConfigurationError: the configuration names a tool that is not there, or has an option that does not exist.
        JournalError: the journal cannot be opened.
    """

    def __init__(
        self,
        config: ToolsConfig | Mapping[str, Any] | str | Path,
        *,
        tools: Any = None,
        journal: Any = None,
        deps: Any = NO_DEPS,
        decision: Callable[[RunContext[Any]], str] | None = None,
    ) -> None:
        super().__init__()
        self._config = config
        self._more: dict[str, Any] = {"journal": journal, "deps": deps, "decision": decision}
        self._door: Door | None = None
        self._hooks_inside = True
        if tools is not None:
            self.attach(tools)

    def attach(self, agent: Any) -> InterlockCapability:
        """Take the tools from the agent, once all of them are registered.

        Raises:
            ConfigurationError: as for the constructor; or it is done already.
            JournalError: the journal cannot be opened.
        """
        if self._door is not None:
            raise ConfigurationError("this InterlockCapability has its tools already; make one for each agent.")
        self._door = Door(self._config, named_tools(agent), **self._more)
        return self

    @property
    def gate(self) -> ToolGate:
        """The `ToolGate` behind it."""
        return self._ready.gate

    @property
    def _ready(self) -> Door:
        if self._door is None:
            raise ConfigurationError(
                "this InterlockCapability does not know the agent's tools yet: give tools=[...], or call attach(agent) once all are "
                "registered."
            )
        return self._door

    def close(self) -> None:
        """Give up the gate."""
        if self._door is not None:
            self._door.gate.close()

    # --- the framework's hooks ---------------------------------------------------------------------------------------------

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """None: a gate cannot be made from a file alone."""
        return None

    def get_ordering(self) -> CapabilityOrdering:
        """Innermost: what the gate judges is what the tool gets, and what others do around a call, they do around the gate."""
        return CapabilityOrdering(position="innermost")

    async def prepare_tools(self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]) -> list[ToolDefinition]:
        """The definitions for the model, without the arguments that the gate fills in."""
        return [self._ready.face(tool_def) for tool_def in tool_defs]

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any], handler: Any
    ) -> Any:
        """A call of a gated tool goes through the gate, any other one on."""
        door = self._ready
        if not door.gate.is_gated(call.tool_name):
            return await handler(args)
        if door.is_to_be_asked(call.tool_name, ctx) or asks_for_approval(call.tool_name, tool_def, args, ctx):
            raise await door.ask(call.tool_name, args, ctx)
        return await door.call(call.tool_name, args, ctx, handler, seen=self._hooks_inside, shown=call.args)

    async def before_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any]
    ) -> dict[str, Any]:
        """The last look before the tool: what it gets must be what was judged.

        Raises:
            NotSent: a hook has changed the arguments after the gate had judged them.
        """
        live = self._sending(ctx, call)
        if live is None:
            # Releases up to 2.x call this before wrap_tool_execute, not inside it: what comes out there is not one of these hooks' own.
            self._hooks_inside = self._hooks_inside and not self._ready.gate.is_gated(call.tool_name)
        else:
            now = {name: as_json(value) for name, value in args.items()}
            different = sorted(
                name for name in now.keys() | live.sent.keys() if now.get(name, NO_DEPS) != live.sent.get(name, NO_DEPS)
            )
            if different:
                raise NotSent(
                    f"a before_tool_execute hook changed {', '.join(different)} after the gate had judged the call. "
                    "Change arguments in after_tool_validate, which comes before it"
                )
            live.entered = True
        return args

    async def after_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any], result: Any
    ) -> Any:
        """The tool has returned: whatever other hooks make of that, it has acted."""
        live = self._sending(ctx, call)
        if live is not None:
            live.returned = True
        return result

    @staticmethod
    def _sending(ctx: RunContext[Any], call: ToolCallPart) -> LiveCall | None:
        live = LIVE.get()
        same = live is not None and live.tool == call.tool_name and live.ctx.tool_call_id == ctx.tool_call_id
        return live if same else None
