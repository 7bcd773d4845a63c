"""What goes wrong in Pydantic AI by itself, and what a tool may ask of the framework, behind the gate."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
    Tool,
    ToolApproved,
)
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import CallDeferred
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from interlock import ConfigurationError
from interlock.integrations.pydantic_ai import InterlockCapability, InterlockToolset
from interlock.testing.driver import Place, gating

from .test_contract import drivers

REFUND = {"order_id": "881", "amount": 20}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def model(*answers: list[ToolCallPart]) -> FunctionModel:
    """A model that makes these calls, answer by answer, and then finishes."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        said = sum(isinstance(message, ModelResponse) for message in messages)
        return ModelResponse(answers[said] if said < len(answers) else [TextPart("done")])

    return FunctionModel(answer)


def refund_call(id: str = "call_1", **more: Any) -> ToolCallPart:
    return ToolCallPart("create_refund", {**REFUND, **more}, tool_call_id=id)


def answers(result: Any) -> list[str]:
    """What the model was told, in order."""
    parts = [part for message in result.all_messages() for part in message.parts if hasattr(part, "tool_call_id")]
    return [str(part.content) for part in parts if part.part_kind in ("tool-return", "retry-prompt")]


def guarded(place: Place, refund: Any, *, deps: Any = None, **options: Any) -> tuple[InterlockCapability, list[Any]]:
    tools = [refund, place.functions["get_order"], place.functions["find_refund"]]
    more = {} if deps is None else {"deps": deps}
    return InterlockCapability(gating(**options), tools=tools, journal=place.journal, **more), tools


def run(agent: Agent[Any, Any], *args: Any, **more: Any) -> Any:
    return drivers.run_sync(agent, *args, **more)


def kinds(place: Place) -> list[str]:
    return [str(entry.kind) for entry in drivers_history(place)]


def drivers_history(place: Place) -> Any:
    from interlock.testing.integration import IntegrationContract

    return IntegrationContract.history(place, "881").entries


def test_one_saved_approval_at_the_same_time_in_one_loop(place: Place) -> None:
    """pydantic-ai#5536: an approval is a plain yes that can be handed in twice; both resumes in one process make one refund."""
    guard, tools = guarded(place, place.functions["create_refund"])
    agent = Agent(
        model([refund_call()]),
        tools=[Tool(tools[0], requires_approval=True), *tools[1:]],
        capabilities=[guard],
        output_type=[str, DeferredToolRequests],
    )

    async def twice() -> list[Any]:
        paused = await agent.run("refund it")
        yes = DeferredToolResults(approvals={"call_1": True})
        history = paused.all_messages()
        return await asyncio.gather(
            *(agent.run(message_history=history, deferred_tool_results=yes) for _ in range(2)),
        )

    assert [result.output for result in asyncio.run(twice())] == ["done", "done"]
    assert len(place.service.refunds("881")) == 1
    guard.close()
    origin = drivers_history(place)[0].data["origin"]
    assert origin["tool_call_approved"] is True
    assert origin["tool_call_id"] == "call_1"


def test_hook_that_changes_arguments_after_the_judgement(place: Place) -> None:
    """pydantic-ai#6968: a hook changes the amount after it was shown and judged; nothing is sent, and the model is told."""

    class Doubling(AbstractCapability[Any]):
        async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
            return {**args, "amount": args["amount"] * 2} if call.tool_name == "create_refund" else args

    guard, tools = guarded(place, place.functions["create_refund"])
    agent = Agent(model([refund_call()]), tools=tools, capabilities=[Doubling(), guard])
    told = answers(run(agent, "refund it"))
    guard.close()
    amounts = [refund["amount"] for refund in place.service.refunds("881")]
    recorded = drivers_history(place)[0].data["payload"]["arguments"]["amount"]
    # Where the framework runs such hooks before the gate, what they made of it is what is judged and sent.
    assert amounts in ([], [recorded]), (amounts, recorded, told)
    if not amounts:
        assert "changed amount" in told[0]


@pytest.mark.parametrize("override", [None, {"order_id": "881", "amount": 15}], ids=["as asked", "edited"])
@pytest.mark.parametrize("doubles", [False, True])
def test_what_a_person_was_shown_is_what_is_sent(place: Place, doubles: bool, override: Any) -> None:
    """pydantic-ai#6968: where a hook makes an approved call another one than was shown, nothing is sent."""

    class Hook(AbstractCapability[Any]):
        async def after_tool_validate(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
            return {**args, "amount": args["amount"] * (2 if doubles else 1)}

    guard, tools = guarded(place, place.functions["create_refund"])
    agent = Agent(
        model([ToolCallPart("create_refund", '{"order_id": "881", "amount": "20"}', tool_call_id="call_1")]),
        tools=[Tool(tools[0], requires_approval=True), *tools[1:]],
        capabilities=[Hook(), guard],
        output_type=[str, DeferredToolRequests],
    )
    paused = run(agent, "refund it")
    (shown,) = paused.output.approvals
    assert shown.args_as_dict()["amount"] == "20", "the question shows what the model wrote"
    yes = DeferredToolResults(approvals={"call_1": ToolApproved(override_args=override)})
    told = answers(run(agent, message_history=paused.all_messages(), deferred_tool_results=yes))
    guard.close()
    assert [refund["amount"] for refund in place.service.refunds()] == ([] if doubles else [15 if override else 20])
    assert not doubles or "amount was changed after a person had approved" in told[-1]


class Request(BaseModel):
    order_id: str
    amount: int
    reference: str = ""


def test_an_approved_tool_with_one_model_as_its_argument(place: Place) -> None:
    """A tool that takes one model is compared by the model's fields with what was shown, and is sent."""

    def create_refund(request: Request) -> dict[str, Any]:
        """Refund an order."""
        return place.service.create_refund(request.order_id, request.amount, request.reference)

    config = {"tools": {"create_refund": {"key": ["request.order_id"]}}}
    tool = Tool(create_refund, requires_approval=True)
    guard = InterlockCapability(config, tools=[tool], journal=place.journal)
    agent = Agent(model([refund_call()]), tools=[tool], capabilities=[guard], output_type=[str, DeferredToolRequests])
    paused = run(agent, "refund it")
    yes = DeferredToolResults(approvals={"call_1": True})
    told = answers(run(agent, message_history=paused.all_messages(), deferred_tool_results=yes))
    guard.close()
    assert [refund["amount"] for refund in place.service.refunds("881")] == [20], told


def test_one_call_id_for_two_requests_and_one_approval(place: Place) -> None:
    """pydantic-ai#5761: two calls under one id and one approval: no more is refunded than what one call asks for, for each order."""
    guard, tools = guarded(place, place.functions["create_refund"])
    agent = Agent(
        model([refund_call(), refund_call()]),
        tools=[Tool(tools[0], requires_approval=True), *tools[1:]],
        capabilities=[guard],
        output_type=[str, DeferredToolRequests],
    )
    try:
        paused = run(agent, "refund it")
        yes = DeferredToolResults(approvals={"call_1": True})
        run(agent, message_history=paused.all_messages(), deferred_tool_results=yes)
    except Exception as error:
        assert "call_1" in str(error) or "tool_call_id" in str(error), error  # noqa: PT017
    guard.close()
    assert len(place.service.refunds("881")) <= 1


def test_history_that_ends_in_a_call_nobody_approved(place: Place) -> None:
    """pydantic-ai#3350: a history that ends in a call that waits for approval is no approval; resumed without one, nothing is sent."""
    guard, tools = guarded(place, place.functions["create_refund"])
    agent = Agent(
        model([refund_call()]),
        tools=[Tool(tools[0], requires_approval=True), *tools[1:]],
        capabilities=[guard],
        output_type=[str, DeferredToolRequests],
    )
    paused = run(agent, "refund it")
    again = run(agent, message_history=paused.all_messages())
    assert isinstance(again.output, DeferredToolRequests)
    guard.close()
    assert place.service.arrivals("881") == 0


@pytest.mark.parametrize("signal", [ApprovalRequired, CallDeferred])
def test_tool_that_asks_or_defers_has_done_nothing(place: Place, signal: Any) -> None:
    """A tool raises ApprovalRequired or CallDeferred: the run pauses as ever; approved with an edit, that is what is sent."""
    service = place.service

    def create_refund(ctx: RunContext[None], order_id: str, amount: int, reference: str = "") -> dict[str, Any]:
        if not ctx.tool_call_approved:
            raise signal
        return service.create_refund(order_id, amount, reference)

    guard, tools = guarded(place, create_refund)
    agent = Agent(model([refund_call()]), tools=tools, capabilities=[guard], output_type=[str, DeferredToolRequests])
    paused = run(agent, "refund it")
    assert isinstance(paused.output, DeferredToolRequests)
    assert place.service.arrivals("881") == 0
    if signal is ApprovalRequired:
        from pydantic_ai import ToolApproved

        edited = DeferredToolResults(approvals={"call_1": ToolApproved(override_args={**REFUND, "amount": 15})})
        run(agent, message_history=paused.all_messages(), deferred_tool_results=edited)
        assert [refund["amount"] for refund in place.service.refunds("881")] == [15]
    guard.close()


@pytest.mark.parametrize("way", ["capability", "toolset"])
def test_correction_by_the_tool_is_handed_on(place: Place, way: str) -> None:
    """A tool that asks for a correction before it acts is asked again, and the corrected call lands."""
    service = place.service

    def create_refund(order_id: str, amount: int, reference: str = "") -> dict[str, Any]:
        if amount > 10_000:
            raise ModelRetry("the amount is in dollars")
        return service.create_refund(order_id, amount, reference)

    script = model([refund_call(amount=20_000)], [refund_call("call_2", amount=20_000, order_id="882")], [])
    tools = [create_refund, place.functions["get_order"], place.functions["find_refund"]]
    if way == "capability":
        guard: Any = InterlockCapability(gating(), tools=tools, journal=place.journal)
        agent = Agent(script, tools=[Tool(tool, max_retries=3) for tool in tools], capabilities=[guard])
    else:
        guard = InterlockToolset(FunctionToolset(tools, max_retries=3), gating(), journal=place.journal)
        agent = Agent(script, toolsets=[guard])
    told = answers(run(agent, "refund it"))
    assert all("in dollars" in text for text in told[:2]), told
    assert place.service.arrivals("881") == 0
    guard.close()


def test_correction_asked_over_a_lost_answer_is_no_correction(place: Place) -> None:
    """A tool turns its time-out into `ModelRetry`, as many do: it is looked up, not sent again, and the model gets the result."""
    service = place.service

    def create_refund(order_id: str, amount: int, reference: str = "") -> dict[str, Any]:
        try:
            return service.create_refund(order_id, amount, reference)
        except TimeoutError as error:
            raise ModelRetry("the service did not answer, try again") from error

    place.service.lay("raise_after", order_id="881")
    guard, tools = guarded(place, create_refund)
    agent = Agent(model([refund_call()], [refund_call("call_2")]), tools=tools, capabilities=[guard])
    told = answers(run(agent, "refund it"))
    assert place.service.arrivals("881") == 1
    assert all("re_1" in text for text in told), told
    guard.close()


def test_time_out_of_the_framework_is_no_correction(place: Place) -> None:
    """The framework's own `timeout=` of a tool strikes after the request has left: it counts, and is not sent again."""
    place.is_async = True
    place.service.lay("slow", order_id="881", delay_s=0.6)
    guard, tools = guarded(place, place.functions["create_refund"], lookup=None)
    agent = Agent(
        model([refund_call()], [refund_call("call_2")]),
        tools=[Tool(tools[0], timeout=0.2, max_retries=3), *tools[1:]],
        capabilities=[guard],
    )
    told = answers(run(agent, "refund it"))
    assert place.service.arrivals("881") == 1
    assert all("Do not try again" in text for text in told), told
    guard.close()


def test_hook_that_turns_a_call_down_before_the_tool(place: Place) -> None:
    """A hook asks for a correction before the tool is reached, over an error of its own: nothing was sent, and the next call lands."""

    class Guard(AbstractCapability[Any]):
        turned_down = False

        async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
            if call.tool_name == "create_refund" and not self.turned_down:
                self.turned_down = True
                try:
                    {}["limit"]
                except KeyError as error:
                    raise ModelRetry("ask a person first") from error
            return args

    guard, tools = guarded(place, place.functions["create_refund"], lookup=None)
    agent = Agent(
        model([refund_call()], [refund_call("call_2")]),
        tools=[Tool(tool, max_retries=3) for tool in tools],
        capabilities=[Guard(), guard],
    )
    told = answers(run(agent, "refund it"))
    assert "ask a person first" in told[0]
    assert place.service.refunds()[0]["id"] in told[1]
    assert place.service.arrivals("881") == 1
    guard.close()


def test_hook_that_dislikes_the_result_does_not_undo_it(place: Place) -> None:
    """A hook after the tool asks for a retry: the refund stands, is not made again, and what the hook held back is not told."""

    class Guard(AbstractCapability[Any]):
        async def after_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, result: Any) -> Any:
            if call.tool_name == "create_refund":
                raise ModelRetry("not like this")
            return result

    guard, tools = guarded(place, place.functions["create_refund"])
    agent = Agent(
        model([refund_call()], [refund_call("call_2")]),
        tools=[Tool(tool, max_retries=3) for tool in tools],
        capabilities=[Guard(), guard],
    )
    told = answers(run(agent, "refund it"))
    assert place.service.arrivals("881") == 1
    assert "not like this" in told[0]
    assert kinds(place) == ["PROPOSED", "AUTHORIZED", "DISPATCHED", "COMMITTED"]
    guard.close()


@pytest.mark.parametrize("with_deps", [True, False])
def test_tool_with_a_context_in_a_recovery(place: Place, with_deps: bool) -> None:
    """A tool that takes a RunContext is recovered with the given deps; without them nothing is sent, and it says what to do."""
    service = place.service
    place.service.lay("kill_before", order_id="881")
    drivers_module = sys.modules[drivers.CapabilityDriver.__module__]
    from interlock.testing.driver import ModelCall, run_and_die

    run_and_die(drivers_module.CapabilityDriver, place, "run", [ModelCall(REFUND)])

    def create_refund(ctx: RunContext[Any], order_id: str, amount: int, reference: str = "", note: str = "") -> Any:
        return ctx.deps.create_refund(order_id, amount, reference, note)

    guard, _ = guarded(place, create_refund, deps=(lambda: service) if with_deps else None)
    report = [str(outcome) for outcome in guard.recover()]
    guard.close()
    if with_deps:
        assert report == ["REAPPLIED_AFTER_QUERY"]
        assert len(place.service.refunds("881")) == 1
    else:
        assert place.service.refunds("881") == []
        assert report != ["REAPPLIED_AFTER_QUERY"]


def test_model_does_not_see_the_argument_of_the_gate(place: Place) -> None:
    """The idempotency argument is not offered to the model, by either way in."""
    seen: list[set[str]] = []

    def look(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        tool = next(tool for tool in info.function_tools if tool.name == "create_refund")
        seen.append(set(tool.parameters_json_schema["properties"]))
        return ModelResponse([TextPart("done")])

    guard, tools = guarded(place, place.functions["create_refund"])
    run(Agent(FunctionModel(look), tools=tools, capabilities=[guard]), "hello")
    guard.close()
    toolset = InterlockToolset(FunctionToolset(tools), gating(), journal=place.journal)
    run(Agent(FunctionModel(look), toolsets=[toolset]), "hello")
    toolset.close()
    assert seen == [{"order_id", "amount", "note"}] * 2


def test_attach_takes_the_tools_from_the_agent(place: Place) -> None:
    """With `@agent.tool`, tools come after the agent: `attach(agent)` takes them, and before it nothing runs unguarded."""
    guard = InterlockCapability(gating(), journal=place.journal)
    agent = Agent(model([refund_call()]), capabilities=[guard])
    for function in place.functions.values():
        agent.tool_plain(function)
    with pytest.raises(ConfigurationError, match="attach"):
        run(agent, "refund it")
    assert place.service.arrivals("881") == 0
    guard.attach(agent)
    guard.recover()
    run(agent, "refund it")
    assert len(place.service.refunds("881")) == 1
    guard.close()


def test_door(place: Place) -> None:
    """A gate before the approval, a tool that is not there, and a required argument of the gate are refused when it is built."""
    functions = list(place.functions.values())
    with pytest.raises(ConfigurationError, match="other way round"):
        InterlockToolset(FunctionToolset(functions).approval_required(), gating(), journal=place.journal)
    with pytest.raises(ConfigurationError, match="find_refund"):
        InterlockCapability(gating(), tools=functions[:2], journal=place.journal)

    def create_refund(order_id: str, amount: int, reference: str) -> str:
        return "done"

    with pytest.raises(ConfigurationError, match="default"):
        InterlockCapability(gating(), tools=[create_refund, *functions[1:]], journal=place.journal)
