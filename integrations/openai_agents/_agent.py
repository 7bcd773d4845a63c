"""An agent behind the gate: its tools, and those of every agent that it hands off to or uses as a tool.

Owns the walk through agents. It changes them where they stand: an agent that another uses as a tool is held by a function of the SDK, so a
copy of it would leave the one that really runs without a gate. It must not know how a tool is gated (`_adapter`).
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from agents import Agent, FunctionTool, Handoff, RunContextWrapper

from interlock import ConfigurationError
from interlock.extend import Recoverable, ToolGate
from interlock.integrations.openai_agents._adapter import NOT_GIVEN, ToolTable, Where
from interlock.integrations.openai_agents._invoker import closed_over

if TYPE_CHECKING:
    from interlock.integrations.openai_agents._adapter import Config


class Protection(Recoverable):
    """An agent that was put behind the gate, with all it reaches.

    Attributes:
        agent: the agent that was handed over; the same object.
        agents: the names of all agents that were reached.
    """

    def __init__(self, agent: Agent[Any], gate: ToolGate, table: ToolTable) -> None:
        self.agent = agent
        self._gate = gate
        self.agents: list[str] = []
        self._table = table
        self._admitted: set[int] = set()
        self._kept: list[Any] = []  # so that no other object gets the id of one of them
        self._admit(agent)

    def _admit(self, agent: Agent[Any]) -> None:
        """Put the tools of an agent, and of all that it reaches, behind the gate."""
        new = [reached for reached in reachable(agent) if id(reached) not in self._admitted]
        tools = {id(reached): [self._table.protected(tool, self.gate) for tool in reached.tools] for reached in new}
        for reached in new:
            self._admitted.add(id(reached))
            self._kept.append(reached)
            self.agents.append(reached.name)
            reached.tools = tools[id(reached)]
            for handoff in reached.handoffs:
                if isinstance(handoff, Handoff):
                    self._watch(handoff)

    def _watch(self, handoff: Handoff[Any, Any]) -> None:
        """Also the agent that a handoff makes only when it is taken has no tool beside the gate."""
        if id(handoff) in self._admitted:
            return
        self._admitted.add(id(handoff))
        self._kept.append(handoff)
        take = handoff.on_invoke_handoff

        async def admitted(context: RunContextWrapper[Any], arguments: str) -> Any:
            agent = await take(context, arguments)
            self._admit(agent)
            return agent

        handoff.on_invoke_handoff = admitted


def protect_agent(
    agent: Agent[Any],
    config: Config,
    *,
    asks: Sequence[FunctionTool] = (),
    journal: Where = None,
    context: Any = NOT_GIVEN,
    seen: MutableMapping[str, Any] | None = None,
) -> Protection:
    """Put the tools of an agent behind the gate, and those of the agents that it hands off to or uses as tools.

    The agents are changed where they stand, so none is left that could be run without the gate; go on using them as before.

    Args:
        agent: the agent that `Runner.run` gets.
        config: which tools are gated and how: a dict, a JSON or TOML file, or a `ToolsConfig`. Premises and look-ups ask tools of any of
            these agents, or of `asks`.
        asks: further tools that premises and look-ups ask, and that no model gets.
        journal: where the journal lives, if not where the configuration says.
        context: for recovery, the object that `Runner.run(context=...)` gets; needed where a tool's function takes the run's context.
        seen: where what approvers saw is kept, by id of the tool call, as JSON data. Save it with the `RunState` and hand it over again. It
            is not needed where the run's context is a dict, which the SDK saves itself, nor where the approval comes in this process.

    Returns:
        The protection, with `recover()`.

    Raises:
        ConfigurationError: a gated tool was found in none of the agents, two tools have its name, or an option does not exist. No agent
            was changed then.
    """
    if not isinstance(agent, Agent):
        raise ConfigurationError(
            f"protect_agent() takes an Agent of the OpenAI Agents SDK, not {type(agent).__name__}."
        )
    agents = list(reachable(agent))
    table = ToolTable([*(tool for reached in agents for tool in reached.tools), *asks], context, seen)
    try:
        gate = table.gate(config, journal)
    except ConfigurationError as error:
        if any(reached.mcp_servers for reached in agents) and "was not handed over" in str(error):
            raise ConfigurationError(
                f"{error} A tool of an MCP server is gated in front of that server, by the MCP proxy."
            ) from None
        raise
    try:
        return Protection(agent, gate, table)
    except BaseException:
        gate.close()
        raise


def reachable(agent: Agent[Any]) -> Iterator[Agent[Any]]:
    """The agent, and every agent that it hands off to or uses as a tool, each once."""
    waiting: list[Any] = [agent]
    seen: set[int] = set()
    while waiting:
        found = waiting.pop(0)
        if not isinstance(found, Agent) or id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        waiting += [target for handoff in found.handoffs if (target := _target(handoff)) is not None]
        waiting += [getattr(tool, "_agent_instance", None) for tool in found.tools if isinstance(tool, FunctionTool)]


def _target(handoff: Any) -> Any:
    """The agent that a handoff leads to, where it is known before it is taken."""
    if not isinstance(handoff, Handoff):
        return handoff
    known = getattr(handoff, "_agent_ref", None)
    return closed_over(handoff.on_invoke_handoff, Agent) if known is None else known()
