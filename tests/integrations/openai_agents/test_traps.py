"""What the OpenAI Agents SDK does that a gate must be right under: approvals, a model that calls on, time-outs, cancellation."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunState,
    ToolGuardrailFunctionOutput,
    function_tool,
    tool_input_guardrail,
)
from agents.tool_context import ToolContext
from openai_agents_driver import Scripted, run_sync, told, tools_of

from interlock.integrations.openai_agents import protect_tools
from interlock.rules.canonical import derive_id
from interlock.testing.driver import ModelCall, Place, gating

TELLS_CONFIG = "run_config" in ToolContext.__dataclass_fields__
"""Whether this release of the SDK tells a tool the configuration of its run."""

REFUND = ModelCall({"order_id": "881", "amount": 20}, id="call_1")


def asked(call_id: str, amount: int = 20, **more: Any) -> ModelCall:
    return ModelCall({"order_id": "881", "amount": amount, **more}, id=call_id)


def one(result: Any, call: ModelCall = REFUND) -> str:
    """What the model was told in answer to a call."""
    answers = told(result, [call])
    assert len(answers) == 1, answers
    return answers[0].text


def recorded(desk: Desk) -> Any:
    """What the journal holds about the refund of order 881."""
    return desk.tools.gate.interlock.journal.load(derive_id("create_refund", "881"))


class Desk:
    """An agent whose refunds are gated, on a place."""

    def __init__(self, place: Place, **options: Any) -> None:
        self.place = place
        tools = tools_of(place)
        self.refund = tools[0]
        for name, value in options.items():
            setattr(self.refund, name, value)
        self.tools = protect_tools(tools, place.config, journal=place.journal)
        self.tools.recover()
        self.agent: Agent[Any] = Agent(name="support", tools=self.tools)

    def close(self) -> None:
        self.tools.close()

    def saying(self, *answers: Sequence[ModelCall]) -> Agent[Any]:
        self.agent.model = Scripted(*answers)
        return self.agent

    async def state(self, text: str) -> RunState[Any]:
        return await RunState.from_string(self.agent, text)


@pytest.fixture
def desk(place: Place) -> Iterator[Desk]:
    with closing(Desk(place)) as made:
        yield made


# --- what the model and the SDK see of a tool ----------------------------------------------------------------------------------


def test_face_of_the_tool_is_kept(place: Place) -> None:
    """Name, description, approval and guardrails stay; of the schema only the argument that the gate fills in is gone."""
    with closing(Desk(place, needs_approval=True)) as desk:
        gated = desk.tools[0]
        assert isinstance(gated, FunctionTool)
        assert (gated.name, gated.description) == ("create_refund", desk.refund.description)
        assert callable(gated.needs_approval), "it asks as the tool does, and reads the facts for whoever is asked"
        assert set(gated.params_json_schema["properties"]) == {"order_id", "amount", "note"}
        assert "reference" not in gated.params_json_schema["required"]
        assert "reference" in desk.refund.params_json_schema["properties"], "the tool itself was changed"
        assert dataclasses.replace(gated, description="other").on_invoke_tool is gated.on_invoke_tool


def test_what_an_input_guardrail_rejects_never_comes_to_the_gate(place: Place) -> None:
    """A call that an input guardrail rejects is not journalled and not sent."""

    @tool_input_guardrail
    def never(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content("house rule: no refunds")

    with closing(Desk(place, tool_input_guardrails=[never])) as desk:
        result = run_sync(desk.saying([REFUND]), "refund it")
        assert "house rule" in one(result)
        assert place.service.arrivals("881") == 0
        assert not recorded(desk).entries


@pytest.mark.parametrize("formatter", [None, lambda context, error: "please try again"])
def test_a_failed_function_is_not_taken_for_done(place: Place, formatter: Any) -> None:
    """Whatever formats a tool's failures for the model, the gate sees the failure itself: nobody knows, so nothing says done."""
    place.config = gating(lookup=None)
    place.service.lay("raise_after", order_id="881")
    refund = function_tool(place.functions["create_refund"], failure_error_function=formatter)
    with closing(protect_tools([refund, *tools_of(place)[1:]], place.config, journal=place.journal)) as tools:
        agent = Agent(name="support", tools=tools, model=Scripted([REFUND]))
        assert "Do not try again" in one(run_sync(agent, "refund it"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"order_id": "881", "amount": ', "give them by name"),
        ("[1, 2]", "give them by name"),
        ({"order_id": "881", "amount": "a lot"}, "amount"),
        ({"order_id": "881"}, "amount"),
        ('{"order_id": "881", "amount": NaN}', "amount"),
    ],
)
def test_arguments_that_cannot_be_taken_are_told(desk: Desk, arguments: Any, said: str) -> None:
    """Arguments that are no JSON or do not fit the function leave nothing on the journal; corrected, the request lands."""
    told_no = one(run_sync(desk.saying([ModelCall(arguments)]), "refund it"))
    assert said in told_no
    assert "Nothing was sent" in told_no
    assert desk.place.service.arrivals("881") == 0
    assert "re_1" in one(run_sync(desk.saying([REFUND]), "refund it"))


@pytest.mark.parametrize("answer", ["text", "dict", "none"])
def test_a_replay_reads_like_the_first_answer(place: Place, answer: str) -> None:
    """What the model is told on a replay is the same text as the first time; where the tool says nothing, that it is done."""
    said = {"text": '{"id": "re_1", "ok": true}', "dict": {"id": "re_1", "ok": True}, "none": None}[answer]

    @function_tool(name_override="create_refund")
    async def refund(order_id: str, amount: int, reference: str) -> Any:
        return said

    config = gating(premises=None, allowed=None, lookup=None)
    with closing(protect_tools([refund], config, journal=place.journal)) as tools:
        agent = Agent(name="support", tools=tools)
        texts = []
        for _ in range(2):
            agent.model = Scripted([REFUND])
            texts.append(one(run_sync(agent, "refund it")))
    assert texts[0] == texts[1] or answer == "none"
    assert "Already done" in texts[1] or "re_1" in texts[1]


def test_ids_of_trace_group_and_workflow_are_recorded(desk: Desk) -> None:
    """The names of a run's configuration stand on the record beside the call's id."""
    config = RunConfig(workflow_name="refund desk", group_id="chat-7", tracing_disabled=True)
    run_sync(desk.saying([REFUND]), "refund it", run_config=config)
    origin = recorded(desk).entries[0].data["origin"]
    assert origin["tool_call_id"] == "call_1"
    if TELLS_CONFIG:
        assert (origin["workflow_name"], origin["group_id"]) == ("refund desk", "chat-7")


# --- approvals ------------------------------------------------------------------------------------------------------------------


def paused(desk: Desk, *answers: Sequence[ModelCall], context: Any = None) -> str:
    """A run that waits for a person, saved."""
    result = run_sync(desk.saying(*answers), "refund it", context=context)
    assert result.interruptions
    text: str = result.to_state().to_string()
    return text


def approve(desk: Desk, saved: str, *answers: Sequence[ModelCall], always: bool = False, **options: Any) -> Any:
    """Load a saved run, approve all that waits in it, and run on."""

    async def resume() -> Any:
        agent = desk.saying(*(answers or ([REFUND],)))
        state = await desk.state(saved)
        for item in state.get_interruptions():
            state.approve(item, always_approve=always)
        return await Runner.run(agent, state, **options)

    return asyncio.run(resume())


@pytest.fixture
def reviewed(place: Place) -> Iterator[Desk]:
    """A desk whose refunds a person approves."""
    with closing(Desk(place, needs_approval=True)) as made:
        yield made


def test_stale_approval_is_judged_on_present_facts(reviewed: Desk) -> None:
    """openai-agents-python#4896: an approval was given, then the order was blocked; the resumed run is refused and nothing is sent."""
    saved = paused(reviewed, [REFUND])
    reviewed.place.service.forbid("881")
    assert "not permitted" in one(approve(reviewed, saved))
    assert reviewed.place.service.arrivals("881") == 0


def test_sticky_approval_does_not_let_changed_facts_through(place: Place) -> None:
    """openai-agents-python#4896: under always_approve nobody is asked again; each call is still judged on the facts at its send."""
    place.config = gating(expect={"refunded_total": 0})
    other = ModelCall({"order_id": "882", "amount": 30}, id="call_2")
    with closing(Desk(place, needs_approval=True)) as desk:
        saved = paused(desk, [REFUND])
        place.service.refund_by_hand("882", 30)
        result = approve(desk, saved, [other], [], always=True)
        assert "re_" in one(result)
        assert "a required fact does not hold" in one(result, other)
    assert place.service.arrivals("882") == 0


def test_approval_given_with_another_context_object(reviewed: Desk) -> None:
    """openai-agents-python#4244: a resume with a context object of its own may ask again; it never sends before, and once in the end."""
    saved = paused(reviewed, [REFUND], context={"user": "ann"})
    result = approve(reviewed, saved, context={"user": "ann"})
    if result.interruptions:
        assert reviewed.place.service.arrivals("881") == 0
        result = approve(reviewed, result.to_state().to_string())
    assert "re_" in one(result)
    assert reviewed.place.service.arrivals("881") == 1


def test_consecutive_approvals_are_answered_each_with_its_own(reviewed: Desk) -> None:
    """openai-agents-js#1435: two calls approved one after the other are each told their own refund, not the first one's."""
    other = ModelCall({"order_id": "882", "amount": 30}, id="call_2")
    first = approve(reviewed, paused(reviewed, [REFUND]), [other], [])
    assert first.interruptions
    second = approve(reviewed, first.to_state().to_string(), [])
    assert "881" in one(first)
    assert "882" in one(second, other)
    assert [refund["order_id"] for refund in reviewed.place.service.refunds()] == ["881", "882"]


def test_a_new_approval_is_a_new_decision(place: Place) -> None:
    """A refusal stands for its decision: the same saved approval is refused again once the facts are right, a new one is judged anew."""
    place.config = gating(expect={"refunded_total": 0}, key=["order_id"])
    service = place.service
    with closing(Desk(place, needs_approval=True)) as desk:
        service.refund_by_hand("881", 5)
        saved = paused(desk, [REFUND])
        assert "a required fact does not hold" in one(approve(desk, saved))
        (service.directory / "ledger.jsonl").unlink()  # the refund by hand is undone
        assert "a required fact does not hold" in one(approve(desk, saved))
        again = asked("call_9")
        assert "re_" in one(approve(desk, paused(desk, [again]), [again]), again)
    assert len(service.refunds("881")) == 1


def test_a_standing_approval_is_no_new_decision(place: Place) -> None:
    """Under always_approve a model that calls again under a new id is refused again: nobody decided anew."""
    place.config = gating(expect={"refunded_total": 0})
    with closing(Desk(place, needs_approval=True)) as desk:
        place.service.refund_by_hand("881", 5)
        saved = paused(desk, [REFUND])
        again = asked("call_2")
        result = approve(desk, saved, [again], [], always=True)
        (place.service.directory / "ledger.jsonl").unlink()
        result = approve(desk, saved, [again], [], always=True)
        assert "a required fact does not hold" in one(result, again)
    assert place.service.arrivals("881") == 0


def test_policy_is_asked_and_what_it_cannot_see_needs_a_person(place: Place) -> None:
    """An approval policy still decides; a call whose arguments the function would complete or convert is not let by unseen."""
    asked_of: list[Any] = []

    async def large(context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
        asked_of.append(arguments)
        return bool(arguments["amount"] > 100)

    with closing(Desk(place, needs_approval=large)) as desk:
        small = asked("call_1", note="broken")
        assert not run_sync(desk.saying([small]), "refund it").interruptions
        assert asked_of
        assert asked_of[0]["amount"] == 20
        big = ModelCall({"order_id": "882", "amount": 500, "note": "broken"}, id="call_2")
        assert run_sync(desk.saying([big]), "refund it").interruptions
        converted = ModelCall({"order_id": "883", "amount": "20", "note": "broken"}, id="call_3")
        assert run_sync(desk.saying([converted]), "refund it").interruptions
    assert place.service.arrivals("882") == place.service.arrivals("883") == 0


# --- loops, time-outs, cancellation ---------------------------------------------------------------------------------------------


def test_model_that_calls_on_with_new_bodies(desk: Desk) -> None:
    """openai-agents-python#981: a model repeats a call that went through, each time worded anew: one refund, and it is told of that one."""
    calls = [asked(f"call_{number}", note=f"wording {number}") for number in (1, 2, 3)]
    result = run_sync(desk.saying(*([call] for call in calls), []), "refund it")
    assert desk.place.service.arrivals("881") == 1
    for call in calls[1:]:
        text = one(result, call)
        assert "Do not call again with changed arguments" in text
        assert "The first one was done." in text, "the model is not told what the first call came to"


async def slow_refund(place: Place, **options: Any) -> tuple[Any, Agent[Any]]:
    """A desk whose refund is async, with options of the tool's own."""
    refund = function_tool(place.functions["create_refund"], **options)
    tools = protect_tools([refund, *tools_of(place)[1:]], place.config, journal=place.journal)
    await tools.arecover()
    return tools, Agent(name="support", tools=tools)


@pytest.mark.skipif(
    not hasattr(FunctionTool, "timeout_seconds"), reason="this release of the SDK has no time-out of a tool"
)
@pytest.mark.parametrize("behavior", ["error_as_result", "raise_exception"])
def test_tool_timed_out_and_landed_later(place: Place, behavior: Any) -> None:
    """The SDK stops waiting for a tool, which lands later: the model is told not to try another way, and later gets that result."""
    place.is_async = True
    place.service.lay("slow", order_id="881", delay_s=0.6)

    async def go() -> None:
        tools, agent = await slow_refund(place, timeout=0.2, timeout_behavior=behavior)
        agent.model = Scripted([REFUND])
        if behavior == "raise_exception":
            with pytest.raises(Exception, match="timed out"):
                await Runner.run(agent, "refund it")
        else:
            first = one(await Runner.run(agent, "refund it"))
            assert "timed out after 0.2 seconds" in first
            assert "Do not start it another way" in first
        await asyncio.to_thread(place.service.wait_for_refund, "881")
        await asyncio.sleep(0.3)
        agent.model = Scripted([asked("call_2")])
        assert "re_1" in one(await Runner.run(agent, "refund it"), asked("call_2"))
        tools.close()

    asyncio.run(go())
    assert place.service.arrivals("881") == 1


def test_streamed_run_cancelled_in_the_middle_of_a_send(place: Place) -> None:
    """openai-agents-js#1521: a cancelled run does not stop a tool that has begun; what it did counts, and nobody sends it again."""
    place.is_async = True
    place.service.lay("slow", order_id="881", delay_s=0.5)

    async def go() -> None:
        tools, agent = await slow_refund(place)
        agent.model = Scripted([REFUND])
        result = Runner.run_streamed(agent, "refund it")

        async def read() -> None:
            async for _ in result.stream_events():
                pass

        reading = asyncio.ensure_future(read())
        await asyncio.to_thread(place.service.wait_for_arrival, "881")
        result.cancel()
        await asyncio.wait({reading}, timeout=5)
        await asyncio.to_thread(place.service.wait_for_refund, "881")
        await asyncio.sleep(0.3)
        agent.model = Scripted([asked("call_2")])
        assert "re_1" in one(await Runner.run(agent, "refund it"), asked("call_2"))
        tools.close()

    asyncio.run(go())
    assert place.service.arrivals("881") == 1
