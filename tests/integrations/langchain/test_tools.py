"""What LangChain's own features and traps come to with tools behind the gate."""

from __future__ import annotations

import asyncio
import inspect
import logging
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, ToolRetryMiddleware
from langchain.tools import ToolRuntime
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import (
    BaseTool,
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    Tool,
    ToolException,
    tool,
)
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, interrupt
from pydantic import BaseModel, ConfigDict, Field, field_validator

from interlock import ConfigurationError
from interlock.integrations.langchain import InterlockMiddleware, ProtectedTools, protect_tools
from interlock.langchain_tools import protect_tools as forwarded


class Model(BaseChatModel):
    """Calls a tool once, then finishes."""

    name_of_tool: str
    arguments: dict[str, Any]
    times: int = 1

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Model:
        return self

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        told = sum(isinstance(message, ToolMessage) for message in messages)
        call = {"name": self.name_of_tool, "args": self.arguments, "id": f"call_{told + 1}"}
        message = AIMessage("done") if told >= self.times else AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


SENT: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    SENT.clear()


def config(**more: Any) -> dict[str, Any]:
    return {"tools": {"refund": {"key": ["order"], **more}}}


def protected(tools: list[BaseTool], tmp_path: Path, **more: Any) -> ProtectedTools[BaseTool]:
    made = protect_tools(tools, config(**more), journal=str(tmp_path / "journal"))
    made.recover()
    return made


def answers(state: dict[str, Any]) -> list[ToolMessage]:
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


def ask(tools: list[BaseTool], *middleware: AgentMiddleware, times: int = 1, **arguments: Any) -> list[ToolMessage]:
    given = arguments or {"order": "881", "amount": 20}
    agent = create_agent(Model(name_of_tool="refund", arguments=given, times=times), tools, middleware=middleware)
    return answers(agent.invoke({"messages": [HumanMessage("refund it")]}))


@tool
def refund(order: str, amount: int) -> str:
    """Refund an order."""
    SENT.append((order, amount))
    return f"refunded {amount}"


@tool
def weather(city: str) -> str:
    """Say the weather."""
    return f"rain in {city}"


def test_forwarder_is_the_same_function() -> None:
    """`interlock.langchain_tools` is another name of the wrapper."""
    assert forwarded is protect_tools


def test_a_tool_keeps_its_face(tmp_path: Path) -> None:
    """Model and framework see the gated tool as they saw the tool; what is not gated is the very same object."""
    gated, other = protected([refund, weather], tmp_path)
    assert convert_to_openai_tool(gated) == convert_to_openai_tool(refund)
    assert gated.name == "refund"
    assert other is weather


def test_a_tool_keeps_what_its_framework_reads_of_it(tmp_path: Path) -> None:
    """Each option of a tool stands on the gated one; a `return_direct` tool still ends the agent's run."""
    own: dict[str, Any] = {
        "return_direct": True,
        "response_format": "content_and_artifact",
        "tags": ["money"],
        "metadata": {"team": "shop"},
        "callbacks": [],
        "verbose": True,
        "handle_tool_error": "no",
        "handle_validation_error": "no",
        "extras": {"defer_loading": True},
    }

    def with_artifact(order: str, amount: int) -> tuple[str, int]:
        """Refund an order."""
        return f"refunded {amount}", amount

    options = {name: value for name, value in own.items() if name in StructuredTool.model_fields}
    plain = StructuredTool.from_function(with_artifact, name="refund", **options)
    (gated,) = protected([plain], tmp_path)
    assert {name: getattr(gated, name) for name in options} == options
    agent = create_agent(Model(name_of_tool="refund", arguments={"order": "881", "amount": 20}), [gated])
    last = agent.invoke({"messages": [HumanMessage("refund it")]})["messages"][-1]
    assert (last.content, last.artifact) == ("refunded 20", 20)


def test_called_by_hand_it_answers_as_the_tool_does(tmp_path: Path) -> None:
    """Called without a tool call it gives the bare value, the first time and on a replay."""
    (gated,) = protected([refund], tmp_path)
    assert [gated.invoke({"order": "881", "amount": 20}) for _ in range(2)] == ["refunded 20"] * 2
    assert asyncio.run(gated.ainvoke({"order": "881", "amount": 20})) == "refunded 20"
    assert SENT == [("881", 20)]

    @tool("refund")
    def as_data(order: str, amount: int) -> dict[str, Any]:
        """Refund an order."""
        return {"order": order, "amount": amount}

    (gated,) = protected([as_data], tmp_path / "data")
    assert [gated.invoke({"order": "881", "amount": 20}) for _ in range(2)] == [{"order": "881", "amount": 20}] * 2


def test_there_is_no_way_past_the_gate(tmp_path: Path) -> None:
    """`run` and `arun`, which go past `invoke`, are refused."""
    (gated,) = protected([refund], tmp_path)
    for call in (
        lambda: gated.run({"order": "1", "amount": 1}),
        lambda: asyncio.run(gated.arun({"order": "1", "amount": 1})),
    ):
        with pytest.raises(ConfigurationError, match="past the gate"):
            call()
    assert SENT == []


def test_injected_arguments_are_no_payload(tmp_path: Path) -> None:
    """What the framework injects reaches the tool and never the record, so another run with another state gets the recorded result."""

    @tool("refund")
    def with_injected(
        order: str,
        amount: int,
        runtime: ToolRuntime,
        call_id: Annotated[str, InjectedToolCallId],
        messages: Annotated[list[Any], InjectedState("messages")],
    ) -> str:
        """Refund an order."""
        SENT.append((order, amount, runtime.tool_call_id, call_id, len(messages)))
        return f"refunded {amount}"

    tools = protected([with_injected], tmp_path)
    first, second = ask(tools), ask(tools, times=2)
    assert SENT == [("881", 20, "call_1", "call_1", 2)]
    assert [message.content for message in (*first, *second)] == ["refunded 20"] * 3


def test_recovery_leaves_what_needs_a_run_to_the_run(tmp_path: Path) -> None:
    """A tool that takes the runtime is not called by a recovery, which has none; the resumed run settles it with one send."""
    lost = [True]

    @tool("refund")
    def with_runtime(order: str, amount: int, runtime: ToolRuntime, reference: str = "") -> str:
        """Refund an order."""
        if lost:
            lost.clear()
            raise TimeoutError("no answer")
        SENT.append((order, amount, reference))
        return f"refunded {amount}"

    @tool
    def find(reference: str) -> dict[str, Any]:
        """Find a refund."""
        return {"found": any(row[2] == reference for row in SENT)}

    lookup = {"tool": "find", "arguments": {"reference": "$effect_id"}, "found": "found"}
    tools = protected(
        [with_runtime, find], tmp_path, lookup=lookup, idempotency_argument="reference", settle_after=0.01
    )
    assert [message.content for message in ask(tools)] == ["refunded 20"]
    assert len(SENT) == 1


def test_a_recovery_says_that_it_has_no_run(tmp_path: Path) -> None:
    """What a process left open of a tool that takes the runtime certainly does not happen in a recovery; the resumed run then sends it."""
    dies = [True]

    @tool("refund")
    def with_runtime(order: str, amount: int, runtime: ToolRuntime, reference: str = "") -> str:
        """Refund an order."""
        if dies.pop() if dies else False:
            raise KeyboardInterrupt
        SENT.append((order, amount, reference))
        return f"refunded {amount}"

    @tool
    def find(reference: str) -> dict[str, Any]:
        """Find a refund."""
        return {"found": any(row[2] == reference for row in SENT)}

    how: dict[str, Any] = {
        "lookup": {"tool": "find", "arguments": {"reference": "$effect_id"}, "found": "found"},
        "idempotency_argument": "reference",
        "settle_after": 0.01,
    }
    before = protect_tools([with_runtime, find], config(**how), journal=str(tmp_path / "journal"))
    with pytest.raises(KeyboardInterrupt):
        ask(before)
    before.close()
    after = protect_tools([with_runtime, find], config(**how), journal=str(tmp_path / "journal"))
    (found,) = after.recover()
    assert str(found) == "FAILED:not_sent"
    assert "takes runtime from a run of the framework" in found.for_person
    assert [message.content for message in ask(after)] == ["refunded 20"]
    assert len(SENT) == 1


def test_an_interrupt_in_a_tool_pauses_the_run(tmp_path: Path) -> None:
    """A tool that asks a person before it acts pauses the run through the gate, and acts once when it is resumed, also twice."""

    @tool("refund")
    def asks_first(order: str, amount: int) -> str:
        """Refund an order."""
        if interrupt("refund it?") != "yes":
            return "declined"
        SENT.append((order, amount))
        return f"refunded {amount}"

    tools = protected([asks_first], tmp_path)
    model = Model(name_of_tool="refund", arguments={"order": "881", "amount": 20})
    agent = create_agent(model, tools, checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "t"}}
    assert agent.invoke({"messages": [HumanMessage("refund it")]}, thread)["__interrupt__"]
    frozen = agent.get_state(thread).config
    states = [agent.invoke(Command(resume="yes"), frozen) for _ in range(2)]
    assert [answers(state)[-1].content for state in states] == ["refunded 20"] * 2
    assert SENT == [("881", 20)]


def test_tool_retry_middleware_does_not_send_again(tmp_path: Path) -> None:
    """A lost answer is not retried by ToolRetryMiddleware, and the model is told not to try again (langchain#40688)."""

    @tool("refund")
    def times_out(order: str, amount: int) -> str:
        """Refund an order."""
        SENT.append((order, amount))
        raise TimeoutError("no answer")

    retry = ToolRetryMiddleware(initial_delay=0.01, jitter=False)
    for place, order in enumerate(([retry], [retry, "gate"], ["gate", retry])):
        SENT.clear()
        journal = str(tmp_path / str(place))
        gate = InterlockMiddleware([times_out], config(), journal=journal)
        tools: list[BaseTool] = (
            [times_out] if "gate" in order else protect_tools([times_out], config(), journal=journal + "t")
        )
        (message,) = ask(tools, *(gate if step == "gate" else step for step in order))
        assert len(SENT) == 1, order
        assert message.status == "error"
        assert "Do not try again" in str(message.content)
        gate.close()


def test_middleware_that_is_not_last_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A middleware listed after the gate's is told of, once; listed last it is silent."""

    class Other(AgentMiddleware):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            return handler(request)

    gate = InterlockMiddleware([refund], config(), journal=str(tmp_path / "journal"))
    gate.recover()
    with caplog.at_level(logging.WARNING, "interlock"):
        ask([refund], Other(), gate)
        assert not caplog.records
        ask([refund], gate, Other(), times=2)
    assert [record.getMessage()[:51] for record in caplog.records] == [
        "InterlockMiddleware is not the last of the middlewa"
    ]
    assert SENT == [("881", 20)]


def test_edits_by_an_inner_middleware_are_what_is_judged(tmp_path: Path) -> None:
    """The gate stands where the tool is run, so what a middleware behind it makes of the arguments is what is judged and recorded."""

    class Edit(AgentMiddleware):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(tool_call={**request.tool_call, "args": {"order": "881", "amount": 7}}))

    gate = InterlockMiddleware([refund], config(), journal=str(tmp_path / "journal"))
    gate.recover()
    ask([refund], gate, Edit())
    proposed = gate.gate.call("refund", {"order": "881", "amount": 7}).outcome.history
    assert proposed is not None
    assert proposed.entries[0].data["payload"]["arguments"] == {"order": "881", "amount": 7}
    assert SENT == [("881", 7)]


def test_an_error_that_the_tool_handles_is_not_success(tmp_path: Path) -> None:
    """A tool that turns its exception into an answer is not taken for one that acted; declared so, it certainly did not."""

    @tool("refund")
    def declines(order: str, amount: int) -> str:
        """Refund an order."""
        raise ToolException("card declined")

    declines.handle_tool_error = True
    (unknown,) = ask(protected([declines], tmp_path / "a"))
    assert unknown.artifact["interlock"]["status"] == "AMBIGUOUS"
    (failed,) = ask(protected([declines], tmp_path / "b", rejected_on_error=True))
    assert failed.artifact["interlock"]["status"].startswith("FAILED")
    assert failed.status == "error"


def test_artifact_of_the_first_answer_is_kept(tmp_path: Path) -> None:
    """A tool with an artifact gives it in the call that ran it; a replay has the content."""

    @tool("refund", response_format="content_and_artifact")
    def with_artifact(order: str, amount: int) -> tuple[str, dict[str, Any]]:
        """Refund an order."""
        return f"refunded {amount}", {"order": order}

    tools = protected([with_artifact], tmp_path)
    first, second = ask(tools, times=2)
    assert first.artifact == {"order": "881"}
    assert [first.content, second.content] == ["refunded 20"] * 2


def test_an_answer_that_updates_the_state_is_handed_on(tmp_path: Path) -> None:
    """A tool that answers with a Command updates the state; a replay gives the model its message."""

    @tool("refund")
    def updates(order: str, amount: int, call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Refund an order."""
        SENT.append((order, amount))
        return Command(update={"messages": [ToolMessage(f"refunded {amount}", tool_call_id=call_id)]})

    first, second = ask(protected([updates], tmp_path), times=2)
    assert [first.content, second.content] == ["refunded 20"] * 2
    assert SENT == [("881", 20)]


@pytest.mark.parametrize(
    ("tools", "configured", "said"),
    [
        ([refund], {"tools": {"refnud": {"key": ["order"]}}}, "refund"),
        ([refund], {"tools": {"refund": {"key": ["order"], "premise": {}}}}, "premises"),
        ([refund], {"tools": {}}, "gates no tool"),
        ([refund, refund], config(), "two tools"),
        ([lambda order: order], config(), "LangChain tools"),
    ],
)
def test_mistakes_are_refused_at_the_door(
    tools: list[Any], configured: dict[str, Any], said: str, tmp_path: Path
) -> None:
    """A misspelt tool or option switches nothing off: the list is not made (langchain#38838)."""
    for make in (protect_tools, InterlockMiddleware):
        with pytest.raises(ConfigurationError, match=said):
            make(tools, configured, journal=str(tmp_path / "journal"))


def test_a_gated_tool_is_not_gated_twice(tmp_path: Path) -> None:
    """Protecting what is protected is refused."""
    tools = protected([refund], tmp_path)
    with pytest.raises(ConfigurationError, match="behind a gate already"):
        protect_tools(tools, config(), journal=str(tmp_path / "other"))


REFERENCED = {"idempotency_argument": "reference", "dedupes": True}


@tool("refund")
def referenced(order: str, amount: int, reference: str) -> str:
    """Refund an order under a reference."""
    SENT.append((order, amount, reference))
    return f"refunded {amount}"


def test_the_model_does_not_see_the_gates_own_argument(tmp_path: Path) -> None:
    """The idempotency argument is in no schema that a model gets, for a Python tool and one with a JSON Schema; the send fills it in."""
    schema = {
        "type": "object",
        "properties": {"order": {"type": "string"}, "amount": {"type": "integer"}, "reference": {"type": "string"}},
        "required": ["order", "amount", "reference"],
    }
    plain = StructuredTool.from_function(referenced.func, name="refund", description="Refund.", args_schema=schema)
    for number, made in enumerate((referenced, plain)):
        (gated,) = protected([made], tmp_path / str(number), **REFERENCED)
        shown = convert_to_openai_tool(gated)["function"]["parameters"]
        assert list(shown["properties"]) == shown["required"] == ["order", "amount"]
        assert list(gated.args) == ["order", "amount"]
        assert ask([gated], order=f"88{number}", amount=20)[0].content == "refunded 20"
    assert [(order, amount) for order, amount, _ in SENT] == [("880", 20), ("881", 20)]
    assert all(reference for _, _, reference in SENT)


def test_the_middleware_hides_the_gates_own_argument(tmp_path: Path) -> None:
    """`InterlockMiddleware` gives the model the tool without the idempotency argument, sync and async."""
    shown: list[Any] = []

    class Watching(Model):
        def bind_tools(self, tools: Any, **kwargs: Any) -> Model:
            shown.append([convert_to_openai_tool(each)["function"]["parameters"] for each in tools])
            return self

    for number, is_async in enumerate((False, True)):
        gate = InterlockMiddleware([referenced, weather], config(**REFERENCED), journal=str(tmp_path / str(number)))
        gate.recover()
        model = Watching(name_of_tool="refund", arguments={"order": f"88{number}", "amount": 20})
        agent = create_agent(model, [referenced, weather], middleware=[gate])
        given: Any = {"messages": [HumanMessage("refund it")]}
        state = asyncio.run(agent.ainvoke(given)) if is_async else agent.invoke(given)
        assert answers(state)[0].status == "success"
    assert shown
    assert all(list(refund["properties"]) == ["order", "amount"] for refund, _ in shown)
    assert [order for order, _, _ in SENT] == ["880", "881"]


def test_the_gate_may_fill_in_an_injected_argument(tmp_path: Path) -> None:
    """An argument that is marked as injected, so that no model ever saw it, can carry the idempotency key."""

    @tool("refund")
    def hidden(order: str, amount: int, reference: Annotated[str, InjectedToolArg]) -> str:
        """Refund an order under a reference."""
        SENT.append((order, amount, reference))
        return f"refunded {amount}"

    (gated,) = protected([hidden], tmp_path, **REFERENCED)
    assert gated.invoke({"order": "881", "amount": 20}) == "refunded 20"
    ((_, _, reference),) = SENT
    assert reference


ORDER = {"refunded": 0}


@tool
def get_order(order: str) -> dict[str, Any]:
    """Show an order."""
    return dict(ORDER)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_what_has_changed_since_the_approval_was_asked_for_is_seen(mode: str, is_async: bool, tmp_path: Path) -> None:
    """The facts are read when a person is asked, kept in the checkpoint, and compared at the send, in a later process of the agent, too."""
    premises = {"tool": "get_order", "arguments": {"order": "order"}, "fields": ["refunded"]}
    has_modes = "interrupt_mode" in inspect.signature(HumanInTheLoopMiddleware).parameters
    if mode == "per_call" and not has_modes:
        pytest.skip("this release of langchain asks for all approvals of a turn at once")
    how: Any = {"interrupt_mode": mode} if has_modes else {}

    def decided(
        thread: str, *, changed: bool, order: str, edited: dict[str, Any] | None = None, seen: int = 0
    ) -> ToolMessage:
        saver = InMemorySaver()
        run: Any = {"configurable": {"thread_id": thread}}

        def agent() -> tuple[Any, InterlockMiddleware]:  # one for each process
            asking = HumanInTheLoopMiddleware(interrupt_on={"refund": True}, **how)
            gate = InterlockMiddleware(
                [refund, get_order], config(premises=premises), journal=str(tmp_path / "journal"), approvals=asking
            )
            gate.recover()
            model = Model(name_of_tool="refund", arguments={"order": order, "amount": 20})
            return create_agent(model, [refund, get_order], middleware=[asking, gate], checkpointer=saver), gate

        def go(made: Any, given: Any) -> dict[str, Any]:
            state: dict[str, Any] = asyncio.run(made.ainvoke(given, run)) if is_async else made.invoke(given, run)
            return state

        ORDER["refunded"] = seen
        made, gate = agent()
        paused = go(made, {"messages": [HumanMessage("refund it")]})
        assert paused["__interrupt__"]
        assert "interlock_seen" not in paused
        gate.close()
        if changed:
            ORDER["refunded"] = seen + 5
        decision: dict[str, Any] = {"type": "approve"}
        if edited is not None:
            decision = {"type": "edit", "edited_action": {"name": "refund", "args": edited}}
        made, gate = agent()
        answer = answers(go(made, Command(resume=decision if mode == "per_call" else {"decisions": [decision]})))[-1]
        gate.close()
        return answer

    stale = decided("one", changed=True, order="881")
    assert (stale.status, SENT) == ("error", [])
    assert "facts changed" in stale.content
    assert decided("edited", changed=True, order="882", edited={"order": "882", "amount": 9}).status == "error"
    assert SENT == []
    assert decided("two", changed=False, order="881").status == "success", "a new approval is judged anew"
    assert decided("stale", changed=True, order="885").status == "error"
    assert decided("again", changed=False, order="885", seen=5).status == "success", "on what this approver saw"
    assert decided("other", changed=True, order="883", edited={"order": "884", "amount": 9}).status == "success"
    assert SENT == [("881", 20), ("885", 20), ("884", 9)]


def test_approvals_that_name_no_tool_are_refused(tmp_path: Path) -> None:
    """A misspelt name in approvals= would leave the facts unread, so it refuses to start."""
    with pytest.raises(ConfigurationError, match="approvals= names the tool 'refnd'"):
        InterlockMiddleware([refund], config(), journal=str(tmp_path / "journal"), approvals=["refnd"])


# --- what the tool's own model makes of the arguments ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (None, "Not done: amount: Input should be a valid integer"),
        ("Give whole cents.", "Give whole cents."),
        (lambda error: f"{error.error_count()} wrong", "1 wrong"),
    ],
    ids=["none", "text", "function"],
)
def test_a_tool_says_in_its_own_words_what_it_does_not_take(own: Any, said: str, tmp_path: Path) -> None:
    """Arguments of the wrong type are told as the tool says it, and cost nothing: the corrected call is the first one on the record."""
    strict = StructuredTool.from_function(refund.func, name="refund", handle_validation_error=own)
    tools = protected([strict], tmp_path)
    (told,) = ask(tools, order="881", amount="twenty")
    assert told.content.startswith(said)
    assert told.status == "error"
    (told,) = ask(tools, order="881", amount=20)
    assert told.content == "refunded 20"
    assert SENT == [("881", 20)]


def test_a_missing_argument_is_told_by_any_of_its_names(tmp_path: Path) -> None:
    """LangChain shows a model the fields of a tool's own model, and that model tells of what is missing by the alias."""

    class Named(BaseModel):
        model_config = ConfigDict(populate_by_name=True)
        order: str
        amount: int = Field(alias="amountMinor")

    @tool("refund", args_schema=Named)
    def aliased(order: str, amount: int) -> str:
        """Refund an order."""
        return f"refunded {amount}"

    (gated,) = protected([aliased], tmp_path)
    assert gated.invoke({"order": "881"}).startswith("Not done: amountMinor: Field required.")
    assert gated.invoke({"order": "881", "amount": 20}) == "refunded 20"


def test_what_only_a_run_has_is_no_mistake_of_the_models(tmp_path: Path) -> None:
    """Called by hand, without what a run would inject, a tool is not said to have got wrong arguments."""

    @tool("refund")
    def with_state(order: str, amount: int, state: Annotated[Any, InjectedState]) -> str:
        """Refund an order."""
        return "refunded"

    (gated,) = protected([with_state], tmp_path)
    assert "Input should be a valid integer" in gated.invoke({"order": "881", "amount": "twenty"})
    assert "Correct the arguments" not in gated.invoke({"order": "881", "amount": 20})


def test_two_spellings_are_told_apart_by_the_tools_own_model(tmp_path: Path) -> None:
    """What a validator of the tool's makes of a text decides: "20" may be dollars where 20 is cents."""

    class Priced(BaseModel):
        order: str
        amount: int

        @field_validator("amount", mode="before")
        @classmethod
        def _in_cents(cls, given: Any) -> Any:
            return int(given) * 100 if isinstance(given, str) else given

    @tool("refund", args_schema=Priced)
    def priced(order: str, amount: int, runtime: Annotated[Any, InjectedToolArg] = None) -> str:
        """Refund an order."""
        return f"refunded {amount}"

    (gated,) = protected([priced], tmp_path)
    assert gated.invoke({"order": "881", "amount": 20}) == "refunded 20"
    assert "other arguments" in gated.invoke({"order": "881", "amount": "20"})
    assert gated.invoke({"order": "882", "amount": "20"}) == "refunded 2000"
    assert gated.invoke({"order": "882", "amount": 2000}) == "refunded 2000"


def test_a_tool_of_one_text_is_gated_by_it(tmp_path: Path) -> None:
    """A tool of the old kind has no schema; LangChain shows its one text to a model as `__arg1`, and that can name the request."""
    cancel = Tool(name="cancel", description="Cancel an order.", func=lambda order: SENT.append(order) or "cancelled")
    shown = convert_to_openai_tool(cancel)
    del shown["function"]["parameters"]["properties"]["__arg1"]["title"]
    made = protect_tools([cancel], {"tools": {"cancel": {"key": "__arg1"}}}, journal=str(tmp_path / "journal"))
    (gated,) = made
    assert convert_to_openai_tool(gated) == shown
    call = {"name": "cancel", "args": {"__arg1": "881"}, "id": "call_1", "type": "tool_call"}
    assert [gated.invoke("881"), gated.invoke({"__arg1": "881"}), gated.invoke(call).content] == ["cancelled"] * 3
    assert gated.invoke("882") == "cancelled"
    assert SENT == ["881", "882"]
    assert asyncio.run(gated.ainvoke("883")) == "cancelled"
