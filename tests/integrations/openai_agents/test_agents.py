"""`protect_agent`: every agent that a run can come to is behind the gate, and what does not fit is refused before any is changed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import closing
from typing import Any

import pytest
from agents import Agent, Handoff, Runner, RunState, WebSearchTool, handoff
from agents.mcp import MCPServerStdio
from openai_agents_driver import ContextDriver, Scripted, run_sync, told, tools_of, tools_with_context

from interlock import ConfigurationError
from interlock.integrations.openai_agents import GatedTool, Protection, protect_agent, protect_tool, protect_tools
from interlock.testing.driver import ModelCall, Place, gating, run_and_die

REFUND = ModelCall({"order_id": "881", "amount": 20})
AGAIN = ModelCall({"order_id": "881", "amount": 20}, id="call_2")


def gated(agent: Agent[Any]) -> list[str]:
    return [tool.name for tool in agent.tools if isinstance(tool, GatedTool)]


def protected(agent: Agent[Any], place: Place, **options: Any) -> Protection:
    made = protect_agent(agent, place.config, journal=place.journal, **options)
    made.recover()
    return made


@pytest.mark.parametrize("how", ["agent", "handoff"])
def test_agents_that_are_handed_off_to(place: Place, how: str) -> None:
    """The tools of an agent that another hands off to are gated, also where the two hand back and forth."""
    refunds = Agent(name="refunds", tools=tools_of(place), model=Scripted([REFUND]))
    desk = Agent(
        name="desk",
        handoffs=[refunds if how == "agent" else handoff(refunds)],
        model=Scripted([ModelCall({}, tool="transfer_to_refunds", id="call_0")]),
    )
    refunds.handoffs = [desk]
    protection = protected(desk, place)
    assert protection.agents == ["desk", "refunds"]
    assert gated(refunds) == ["create_refund"]
    for number in (1, 2):
        refunds.model = Scripted([ModelCall(REFUND.arguments, id=f"call_{number}")], [])
        desk.model = Scripted([ModelCall({}, tool="transfer_to_refunds", id="call_0")], [])
        result = run_sync(desk, "refund it")
        assert "re_1" in told(result, [ModelCall(REFUND.arguments, id=f"call_{number}")])[0].text
    assert place.service.arrivals("881") == 1
    protection.close()


def test_handoff_whose_agent_is_made_when_it_is_taken(place: Place) -> None:
    """A handoff may make its agent only when it is taken: a tool of ours in it is gated then, too."""
    tools = tools_of(place)

    async def make(context: Any, arguments: str) -> Agent[Any]:
        return Agent(name="made", tools=[tools[0]], model=Scripted([REFUND], []))

    late = Handoff(
        tool_name="to_made",
        tool_description="",
        input_json_schema={},
        on_invoke_handoff=make,
        agent_name="made",
    )
    desk = Agent(name="desk", tools=list(tools), handoffs=[late])
    protection = protected(desk, place)
    for _ in range(2):
        desk.model = Scripted([ModelCall({}, tool="to_made", id="call_0")], [])
        run_sync(desk, "refund it")
    assert place.service.arrivals("881") == 1
    protection.close()


def test_handoff_to_a_stranger_with_a_gated_name_is_refused(place: Place) -> None:
    """An agent that turns up in a run with another tool of a gated name does not get past the gate: the run ends with an error."""

    async def make(context: Any, arguments: str) -> Agent[Any]:
        return Agent(name="made", tools=tools_of(place), model=Scripted([REFUND], []))

    late = Handoff(
        tool_name="to_made",
        tool_description="",
        input_json_schema={},
        on_invoke_handoff=make,
        agent_name="made",
    )
    desk = Agent(name="desk", tools=tools_of(place), handoffs=[late])
    protection = protected(desk, place)
    desk.model = Scripted([ModelCall({}, tool="to_made", id="call_0")], [])
    with pytest.raises(ConfigurationError, match="two tools are named 'create_refund'"):
        run_sync(desk, "refund it")
    assert place.service.arrivals("881") == 0
    protection.close()


def nested(place: Place, **options: Any) -> tuple[Agent[Any], Agent[Any], Protection]:
    """A desk that uses an agent with refunds as a tool."""
    tools = tools_of(place)
    for name, value in options.items():
        setattr(tools[0], name, value)
    refunds = Agent(name="refunds", tools=list(tools))
    desk = Agent(name="desk", tools=[refunds.as_tool("refund_desk", "Refunds.")])
    return desk, refunds, protected(desk, place)


def test_agents_that_are_used_as_tools(place: Place) -> None:
    """The tools of an agent that another uses as a tool are gated, and asking that tool again sends nothing again."""
    desk, refunds, protection = nested(place)
    assert gated(refunds) == ["create_refund"]
    for number in (1, 2):
        refunds.model = Scripted([ModelCall(REFUND.arguments, id=f"inner_{number}")], [])
        outer = ModelCall({"input": "refund 881"}, tool="refund_desk", id=f"outer_{number}")
        desk.model = Scripted([outer], [])
        assert told(run_sync(desk, "refund it"), [outer])
    assert place.service.arrivals("881") == 1
    protection.close()


def test_approval_inside_an_agent_that_is_a_tool(place: Place) -> None:
    """One saved approval of a refund inside an agent that is a tool, resumed twice: one refund."""
    desk, refunds, protection = nested(place, needs_approval=True)
    outer = ModelCall({"input": "refund 881"}, tool="refund_desk", id="outer_1")
    desk.model, refunds.model = Scripted([outer], []), Scripted([REFUND], [])
    paused = run_sync(desk, "refund it")
    assert [item.name for item in paused.interruptions] == ["create_refund"]
    assert place.service.arrivals("881") == 0
    saved = paused.to_state().to_string()

    async def resume() -> None:
        state = await RunState.from_string(desk, saved)
        for item in state.get_interruptions():
            state.approve(item)
        desk.model, refunds.model = Scripted([outer], []), Scripted([REFUND], [])
        await Runner.run(desk, state)

    for _ in range(2):
        asyncio.run(resume())
    assert place.service.arrivals("881") == 1
    protection.close()


# --- refused at the door --------------------------------------------------------------------------------------------------------


def refused(agent: Agent[Any], place: Place, match: str) -> None:
    before = list(agent.tools)
    with pytest.raises(ConfigurationError, match=match):
        protect_agent(agent, place.config, journal=place.journal)
    assert agent.tools == before


def test_gated_tool_that_no_agent_has(place: Place) -> None:
    """A gated tool that is found in none of the agents is refused, and no agent is changed."""
    refused(Agent(name="desk", tools=tools_of(place)[1:]), place, "'create_refund', which was not handed over")


def test_gated_tool_of_an_mcp_server(place: Place) -> None:
    """Where the agents have MCP servers, the refusal says where a tool of those is gated."""
    server = MCPServerStdio(params={"command": sys.executable, "args": []})
    agent = Agent(name="desk", tools=tools_of(place)[1:], mcp_servers=[server])
    refused(agent, place, "by the MCP proxy")


def test_two_tools_of_one_gated_name(place: Place) -> None:
    """Two agents with tools of their own under a gated name are refused; which one to call could not be told."""
    other = Agent(name="other", tools=tools_of(place)[:1])
    refused(Agent(name="desk", tools=tools_of(place), handoffs=[other]), place, "two tools are named 'create_refund'")


def test_two_tools_of_one_name_that_is_asked(place: Place) -> None:
    """The same for a tool that premises ask."""
    other = Agent(name="other", tools=tools_of(place)[1:2])
    refused(Agent(name="desk", tools=tools_of(place), handoffs=[other]), place, "two tools are named 'get_order'")


def test_one_tool_of_two_agents_is_one(place: Place) -> None:
    """One tool that two agents share is gated in both."""
    tools = tools_of(place)
    other = Agent(name="other", tools=[tools[0]])
    desk = Agent(name="desk", tools=tools, handoffs=[other])
    protected(desk, place).close()
    assert gated(desk) == gated(other) == ["create_refund"]
    assert not isinstance(tools[0], GatedTool), "the list that the agent was made from was changed"


def test_protected_twice(place: Place) -> None:
    """An agent that is behind a gate is not put behind a second one."""
    agent = Agent(name="desk", tools=tools_of(place))
    protected(agent, place).close()
    refused(agent, place, "behind a gate already")


def test_misspelt_option(place: Place) -> None:
    """A misspelt option is refused, and no agent is changed."""
    place.config = gating(looukp="find_refund")
    refused(Agent(name="desk", tools=tools_of(place)), place, "looukp")


def test_agent_as_the_gated_tool(place: Place) -> None:
    """A tool that runs an agent may pause in its middle, so it is not one effect: it is refused, with what to gate instead."""
    inner = Agent(name="inner", tools=tools_of(place)[1:])
    tool = inner.as_tool("create_refund", "Refunds.")
    refused(Agent(name="desk", tools=[tool]), place, "Gate the tools of that agent instead")


def test_what_is_no_agent_or_no_tool(place: Place) -> None:
    """A function that was never made a tool, and what is no agent, are refused with what to do."""
    with pytest.raises(ConfigurationError, match="function_tool"):
        protect_tools([place.functions["create_refund"]], place.config, journal=place.journal)
    with pytest.raises(ConfigurationError, match="takes an Agent"):
        protect_agent(tools_of(place), place.config)  # type: ignore[arg-type]


def test_hosted_tools_stay(place: Place) -> None:
    """A hosted tool of the SDK stays in the list as it is."""
    search = WebSearchTool()
    tools = protect_tools([search, *tools_of(place)], place.config, journal=place.journal)
    assert tools[0] is search
    tools.close()


def test_protect_tool_gates_one(place: Place) -> None:
    """`protect_tool` refuses a configuration that gates more than the tool it is given."""
    refund, *others = tools_of(place)
    config = gating(premises=None, allowed=None)
    config["tools"]["get_order"] = {"key": ["order_id"]}
    with pytest.raises(ConfigurationError, match="Use protect_tools"):
        protect_tool(refund, config, asks=others, journal=place.journal)


def test_argument_that_the_tool_does_not_have(place: Place) -> None:
    """The SDK leaves out what a function does not take. What a model invents is told to it, and names no other request."""
    invented = ModelCall({**REFUND.arguments, "urgency": "high"}, id="call_3")
    agent = Agent(name="desk", tools=tools_of(place), model=Scripted([invented], [REFUND], [AGAIN], []))
    protection = protected(agent, place)
    first, second, _ = (answer.text for answer in told(run_sync(agent, "refund it"), [invented, REFUND, AGAIN]))
    assert "create_refund has no argument 'urgency'; it has: order_id, amount" in first
    assert "Nothing was sent" in first
    assert "reference" not in first
    assert "re_1" in second
    assert place.service.arrivals("881") == 1
    protection.close()


def test_missing_package_is_named() -> None:
    """Without the SDK, importing the wrapper says what to install."""
    code = (
        "import sys; sys.modules['agents'] = None\n"
        "try:\n    import interlock.integrations.openai_agents\n"
        "except Exception as error:\n    print(type(error).__name__, error)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("ConfigurationError")
    assert 'pip install "interlock-gate[openai-agents]"' in ended.stdout


# --- recovery without a run -----------------------------------------------------------------------------------------------------


def test_recovery_of_a_tool_that_takes_the_context(place: Place) -> None:
    """Recovery has no run: a tool that takes the run's context is not called without one; the next run that asks for it settles it."""
    place.service.lay("kill_before", order_id="881")
    run_and_die(ContextDriver, place, "run", [REFUND])
    with closing(ContextDriver(place)) as driver:
        assert [str(outcome) for outcome in driver.recover()] == ["FAILED:not_sent"]
        assert place.service.arrivals("881") == 1
        assert "re_1" in driver.run([AGAIN])[0].text
    assert [refund["note"] for refund in place.service.refunds("881")] == ["ann"]


def test_recovery_with_the_context_handed_over(place: Place) -> None:
    """With `context=` recovery calls the tool with it."""
    place.service.lay("kill_before", order_id="881")
    run_and_die(ContextDriver, place, "run", [REFUND])
    with closing(
        protect_tools(tools_with_context(place), place.config, journal=place.journal, context="night")
    ) as tools:
        assert [str(outcome) for outcome in tools.recover()] == ["REAPPLIED_AFTER_QUERY"]
    assert [refund["note"] for refund in place.service.refunds("881")] == ["night"]
