"""What ADK does at the edges: confirmations, sub-agents, long-running tools, callbacks, resumes. Each must still be one effect."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.openapi.models import APIKey, APIKeyIn
from google.adk.agents import LlmAgent, RunConfig
from google.adk.agents.run_config import ToolThreadPoolConfig
from google.adk.apps import App, ResumabilityConfig
from google.adk.auth.auth_tool import AuthConfig
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.plugins import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import BaseTool, FunctionTool, LongRunningFunctionTool, ToolContext
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_toolset import BaseToolset
from google.genai import types

from interlock import ConfigurationError, Interlock
from interlock.extend import Effect
from interlock.integrations.adk import Guard, InterlockPlugin, protect_tools
from interlock.testing.integration import ModelCall, Place, run_and_die

pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL:UserWarning")

_spec = importlib.util.spec_from_file_location("adk_driver", Path(__file__).with_name("driver.py"))
assert _spec is not None
assert _spec.loader is not None
if "adk_driver" not in sys.modules:
    sys.modules["adk_driver"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["adk_driver"])
drivers: Any = sys.modules["adk_driver"]

ASKED = "adk_request_confirmation"
KEYED = {"tools": {"pay": {"key": ["order"]}}}
WAYS = ("guard", "plugin", "tools")


class Script(BaseLlm):
    """A model that makes the next of the given calls each time it is asked, then says that it is done."""

    turns: list[list[tuple[str, dict[str, Any]]]]
    at: int = 0

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        turn = self.turns[self.at] if self.at < len(self.turns) else []
        self.at += 1
        parts = [types.Part(function_call=types.FunctionCall(name=name, args=args)) for name, args in turn]
        yield LlmResponse(content=types.Content(role="model", parts=parts or [types.Part(text="done")]))


def message(*parts: types.Part) -> types.Content:
    return types.Content(role="user", parts=list(parts))


def confirmation(asked: str, *, confirmed: bool = True, payload: Any = None) -> types.Content:
    response = {"confirmed": confirmed, **({} if payload is None else {"payload": payload})}
    return message(types.Part(function_response=types.FunctionResponse(id=asked, name=ASKED, response=response)))


class Desk:
    """One agent in one process, its sessions in memory, gated in one of the ways."""

    def __init__(
        self,
        directory: Path,
        way: str,
        tools: list[Any],
        *turns: list[tuple[str, dict[str, Any]]],
        config: Any = None,
        resumable: bool = False,
        **agent: Any,
    ) -> None:
        config = config or KEYED
        journal = str(directory / "journal")
        plugins: list[Any] = []
        self.gate: Any
        if way == "guard":
            self.gate = Guard(config, tools=tools, journal=journal)
            agent["before_tool_callback"] = [*agent.get("before_tool_callback", []), self.gate.before_tool_callback]
        elif way == "plugin":
            self.gate = InterlockPlugin(config, tools=tools, journal=journal)
            plugins = [self.gate]
        else:
            self.gate = tools = protect_tools(tools, config, journal=journal)
        self.model = Script(model="s", turns=list(turns))
        self.agent = LlmAgent(name="desk", model=self.model, tools=tools, **agent)
        app = App(
            name="shop",
            root_agent=self.agent,
            plugins=plugins,
            resumability_config=ResumabilityConfig(is_resumable=True) if resumable else None,
        )
        self.runner = Runner(app=app, session_service=InMemorySessionService())
        asyncio.run(self.runner.session_service.create_session(app_name="shop", user_id="ann", session_id="s1"))
        self.gate.recover()

    async def asay(self, content: types.Content | str = "go", **given: Any) -> list[Any]:
        if isinstance(content, str):
            content = message(types.Part(text=content))
        return [e async for e in self.runner.run_async(user_id="ann", session_id="s1", new_message=content, **given)]

    def say(self, content: types.Content | str = "go", **given: Any) -> list[Any]:
        return asyncio.run(self.asay(content, **given))


def answers(events: list[Any]) -> list[dict[str, Any]]:
    """What the tools answered."""
    return [r.response or {} for event in events for r in event.get_function_responses() if r.name != ASKED]


def asked(events: list[Any]) -> str:
    """The id of the question to a person."""
    (question,) = [call.id for event in events for call in event.get_function_calls() if call.name == ASKED]
    return str(question)


@pytest.fixture
def sent() -> list[Any]:
    """What reached the service."""
    return []


@pytest.fixture
def pay(sent: list[Any]) -> Callable[..., Any]:
    def pay(order: str, amount: int) -> dict[str, Any]:
        """Pay an order."""
        sent.append((order, amount))
        return {"id": f"p{len(sent)}"}

    return pay


PAY = ("pay", {"order": "881", "amount": 20})


# --- a person's confirmation --------------------------------------------------------------------------------------------------


class Careless(BaseTool):
    """A tool of one's own that says it wants a confirmation, and does not look at it when it runs."""

    def __init__(self, sent: list[Any]) -> None:
        super().__init__(name="pay", description="Pay an order.")
        self.sent = sent

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(name="pay")

    async def check_require_confirmation(self, args: dict[str, Any], tool_context: ToolContext) -> bool:
        return True

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        self.sent.append(args)
        return {"id": "p1"}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("confirmed", [True, False])
def test_declined_custom_tool_does_not_run(tmp_path: Path, sent: list[Any], way: str, confirmed: bool) -> None:
    """google/adk-python#7148: a tool of one's own waits for a person, runs once if confirmed, and never if declined, also not later."""
    desk = Desk(tmp_path, way, [Careless(sent)], [PAY])
    first = desk.say()
    assert sent == []
    (waits,) = answers(first)
    assert "confirmation" in waits["error"]
    (told,) = answers(desk.say(confirmation(asked(first), confirmed=confirmed)))
    assert len(sent) == confirmed
    assert told == {"id": "p1"} if confirmed else "error" in told
    desk.gate.recover()
    assert len(sent) == confirmed


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("resumable", [False, True])
def test_same_confirmation_twice_in_turn(tmp_path: Path, sent: list[Any], pay: Any, way: str, resumable: bool) -> None:
    """The same confirmation is sent twice, one after the other, with and without a resumable app: one payment."""
    desk = Desk(tmp_path, way, [FunctionTool(pay, require_confirmation=True)], [PAY], resumable=resumable)
    first = desk.say()
    again = {"invocation_id": first[-1].invocation_id} if resumable else {}
    desk.say(confirmation(asked(first)), **again)
    desk.say(confirmation(asked(first)), **again)
    assert sent == [("881", 20)]


@pytest.mark.parametrize("way", WAYS)
def test_same_confirmation_twice_at_the_same_time(tmp_path: Path, sent: list[Any], pay: Any, way: str) -> None:
    """google/adk-python#7151 (comment): the same confirmation arrives twice at once. ADK runs both; one payment, both are answered."""
    config = {"tools": {"pay": {"key": ["order"], "wait": 5}}}
    desk = Desk(tmp_path, way, [FunctionTool(pay, require_confirmation=True)], [PAY], config=config)
    question = asked(desk.say())

    async def both() -> Any:
        return await asyncio.gather(desk.asay(confirmation(question)), desk.asay(confirmation(question)))

    one, other = asyncio.run(both())
    assert sent == [("881", 20)]
    told = answers(one) + answers(other)
    assert told
    assert all(answer == {"id": "p1"} for answer in told), told


@pytest.mark.parametrize("way", WAYS)
def test_tool_that_asks_in_its_own_body(tmp_path: Path, sent: list[Any], way: str) -> None:
    """A tool that asks a person in its own code has not acted yet: it is not taken for done, and acts once when it was answered."""

    def pay(order: str, amount: int, tool_context: ToolContext) -> dict[str, Any]:
        """Pay an order."""
        if tool_context.tool_confirmation is None:
            tool_context.request_confirmation(hint="how much?", payload={"amount": 0})
            return {"status": "waiting"}
        sent.append((order, tool_context.tool_confirmation.payload["amount"]))
        return {"id": "p1"}

    desk = Desk(tmp_path, way, [pay], [PAY])
    first = desk.say()
    assert answers(first) == [{"status": "waiting"}]
    (told,) = answers(desk.say(confirmation(asked(first), payload={"amount": 15})))
    assert told == {"id": "p1"}
    desk.say(confirmation(asked(first), payload={"amount": 15}))
    assert sent == [("881", 15)]


@pytest.mark.parametrize("way", WAYS)
def test_what_a_person_filled_in_stands_on_the_record(tmp_path: Path, pay: Any, way: str) -> None:
    """The payload of a confirmation is recorded beside the proposal, with the ids of the call; neither is in the key."""
    desk = Desk(tmp_path, way, [FunctionTool(pay, require_confirmation=True)], [PAY])
    first = desk.say()
    desk.say(confirmation(asked(first), payload={"amount": 15}))
    desk.gate.close() if way != "plugin" else desk.gate.guard.close()
    with Interlock(str(tmp_path / "journal")) as gate:
        (row,) = recorded(gate)
    assert row["key"] == "881"
    origin = row["data"]["origin"]
    assert origin["confirmation"] == '{"amount": 15}'
    assert origin["confirmed"] is True
    assert origin["agent_name"] == "desk"


@pytest.mark.filterwarnings("ignore:This method is deprecated:DeprecationWarning")  # ADK's own call
@pytest.mark.parametrize("way", WAYS)
def test_tool_that_asks_for_credentials(tmp_path: Path, sent: list[Any], way: str) -> None:
    """A tool that stops to ask for credentials has not acted: the next call for the same request is sent."""

    def pay(order: str, amount: int, tool_context: ToolContext) -> dict[str, Any]:
        """Pay an order."""
        if not tool_context.state.get("logged_in"):
            tool_context.state["logged_in"] = True
            scheme = APIKey(**{"in": APIKeyIn.header, "name": "key"})
            tool_context.request_credential(AuthConfig(authScheme=scheme, credentialKey="key"))
            return {"status": "waiting for a login"}
        sent.append((order, amount))
        return {"id": "p1"}

    desk = Desk(tmp_path, way, [pay], [PAY])
    assert {"status": "waiting for a login"} in answers(desk.say())
    assert sent == []
    desk.model.at = 0
    assert answers(desk.say("I have logged in"))[-1] == {"id": "p1"}
    assert sent == [("881", 20)]


@pytest.mark.parametrize("way", WAYS)
def test_confirmation_names_the_decision(tmp_path: Path, sent: list[Any], pay: Any, way: str) -> None:
    """A refusal stands for the confirmed call; a new call that a person confirms anew is a new decision, on the facts as they are then."""
    facts = {"open": False}

    def order_of(order: str) -> dict[str, Any]:
        """Look at an order."""
        return dict(facts)

    premises = {"tool": "order_of", "arguments": {"order": "order"}, "fields": ["open"]}
    config = {"tools": {"pay": {"key": ["order"], "premises": premises, "expect": {"open": True}}}}
    tools = [FunctionTool(pay, require_confirmation=True), order_of]
    desk = Desk(tmp_path, way, tools, [PAY], [], [PAY], config=config)
    first = desk.say()
    (refused,) = answers(desk.say(confirmation(asked(first))))
    assert refused["status"] == "REFUSED:premise_false"
    facts["open"] = True
    second = desk.say("try again")
    (told,) = answers(desk.say(confirmation(asked(second))))
    assert told == {"id": "p1"}
    assert sent == [("881", 20)]


# --- agents below, and other people's callbacks ---------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:The `plugins` argument:DeprecationWarning")  # ADK's own AgentTool
def test_plugin_covers_sub_agents_and_agents_as_tools(tmp_path: Path, sent: list[Any], pay: Any) -> None:
    """One plugin made from the root agent gates the tools of a sub-agent and of an agent that is used as a tool."""
    below = LlmAgent(name="below", model=Script(model="s", turns=[[PAY]]), tools=[pay], description="pays")
    inner = LlmAgent(name="inner", model=Script(model="s", turns=[[PAY]]), tools=[pay], description="pays")
    turns = [[("inner", {"request": "pay"})], [("transfer_to_agent", {"agent_name": "below"})]]
    root = LlmAgent(name="root", model=Script(model="s", turns=turns), tools=[AgentTool(inner)], sub_agents=[below])
    plugin = InterlockPlugin(KEYED, tools=root, journal=str(tmp_path / "journal"))
    runner = Runner(app=App(name="shop", root_agent=root, plugins=[plugin]), session_service=InMemorySessionService())

    async def run() -> list[Any]:
        await runner.session_service.create_session(app_name="shop", user_id="ann", session_id="s1")
        go = message(types.Part(text="go"))
        return [e async for e in runner.run_async(user_id="ann", session_id="s1", new_message=go)]

    told = answers(asyncio.run(run()))
    assert sent == [("881", 20)]
    assert {"id": "p1"} in told


@pytest.mark.parametrize("way", WAYS)
def test_agents_own_callback_comes_first(tmp_path: Path, sent: list[Any], pay: Any, way: str) -> None:
    """An agent's own callback can veto a gated call and edit another; it is asked once for each, and the edit is what is sent."""
    seen = []

    def own(tool: BaseTool, args: dict[str, Any], tool_context: ToolContext) -> dict[str, Any] | None:
        seen.append(args["order"])
        if args["order"] == "880":
            return {"error": "not this one"}
        args["amount"] = 15
        return None

    turn = [("pay", {"order": "880", "amount": 20}), PAY]
    desk = Desk(tmp_path, way, [pay], turn, before_tool_callback=[own])
    assert answers(desk.say()) == [{"error": "not this one"}, {"id": "p1"}]
    assert sent == [("881", 15)]
    assert sorted(seen) == ["880", "881"]


def test_what_stands_behind_the_gate_is_said(tmp_path: Path, pay: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A plugin or callback listed after ours is not asked about gated calls; that is logged as a warning."""

    class Late(BasePlugin):
        pass

    guard = Guard(KEYED, tools=[pay], journal=str(tmp_path / "journal"))
    plugin = InterlockPlugin(guard)
    agent = LlmAgent(name="desk", model=Script(model="s", turns=[[PAY]]), tools=[pay])
    app = App(name="shop", root_agent=agent, plugins=[plugin, Late("late")])
    runner = Runner(app=app, session_service=InMemorySessionService())

    async def run(runner: Runner) -> None:
        await runner.session_service.create_session(app_name="shop", user_id="ann", session_id="s1")
        go = message(types.Part(text="go"))
        async for _ in runner.run_async(user_id="ann", session_id="s1", new_message=go):
            pass

    with caplog.at_level(logging.WARNING, "interlock"):
        asyncio.run(run(runner))
        assert "not the last plugin: those after it (late)" in caplog.text
        late = LlmAgent(
            name="desk",
            model=Script(model="s", turns=[[PAY]]),
            tools=[pay],
            before_tool_callback=[guard.before_tool_callback, lambda tool, args, tool_context: None],
        )
        asyncio.run(run(Runner(app=App(name="shop", root_agent=late), session_service=InMemorySessionService())))
        assert "not the agent's last before_tool_callback" in caplog.text
    guard.close()


@pytest.mark.parametrize("way", WAYS)
def test_other_tools_run_as_before(tmp_path: Path, sent: list[Any], pay: Any, way: str) -> None:
    """A tool that is not gated is run by ADK itself, each time it is called."""

    def look(order: str) -> dict[str, Any]:
        """Look at an order."""
        sent.append(order)
        return {"order": order}

    desk = Desk(tmp_path, way, [pay, look], [("look", {"order": "1"})], [("look", {"order": "1"})])
    assert answers(desk.say()) == [{"order": "1"}, {"order": "1"}]
    assert sent == ["1", "1"]


def test_other_tool_of_the_same_name_is_not_run(tmp_path: Path, sent: list[Any], pay: Any) -> None:
    """A tool that merely has a gated tool's name is neither run nor taken for it."""

    def other(order: str, amount: int) -> dict[str, Any]:
        """Pay, otherwise."""
        sent.append("other")
        return {}

    other.__name__ = "pay"
    guard = Guard(KEYED, tools=[pay], journal=str(tmp_path / "journal"))
    agent = LlmAgent(
        name="desk",
        model=Script(model="s", turns=[[PAY]]),
        tools=[other],
        before_tool_callback=guard.before_tool_callback,
    )
    runner = Runner(app=App(name="shop", root_agent=agent), session_service=InMemorySessionService())

    async def run() -> list[Any]:
        await runner.session_service.create_session(app_name="shop", user_id="ann", session_id="s1")
        go = message(types.Part(text="go"))
        return [e async for e in runner.run_async(user_id="ann", session_id="s1", new_message=go)]

    (told,) = answers(asyncio.run(run()))
    assert told["status"] == "REFUSED:unknown_tool"
    assert sent == []
    guard.close()


# --- long-running tools, resumes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("resumable", [False, True])
def test_answer_to_one_long_running_tool_repeats_no_other(
    tmp_path: Path, sent: list[Any], way: str, resumable: bool
) -> None:
    """google/adk-python#5450: three long-running calls are pending and one is answered: none of the three is made again."""

    def pay(order: str) -> None:
        """Pay an order."""
        sent.append(order)

    turn = [("pay", {"order": str(number)}) for number in (1, 2, 3)]
    desk = Desk(tmp_path, way, [LongRunningFunctionTool(pay)], turn, turn, resumable=resumable)
    first = desk.say()
    assert answers(first) == [], "a long-running tool that has no answer yet gives the model none"
    ids = [call.id for event in first for call in event.get_function_calls()]
    response = types.FunctionResponse(id=ids[0], name="pay", response={"done": True})
    again = {"invocation_id": first[-1].invocation_id} if resumable else {}
    desk.say(message(types.Part(function_response=response)), **again)
    assert sorted(sent) == ["1", "2", "3"]


@pytest.mark.parametrize("way", WAYS)
def test_resume_that_runs_it_all_again(tmp_path: Path, sent: list[Any], pay: Any, way: str) -> None:
    """google/adk-python#6198: a resume runs the whole invocation anew, and the model calls again: one payment, and the first result."""
    desk = Desk(tmp_path, way, [pay], [PAY], [], [PAY], resumable=True)
    first = desk.say()
    again = desk.say("go", invocation_id=first[-1].invocation_id)
    assert sent == [("881", 20)]
    assert answers(again), "nothing was run again"
    assert all(answer == {"id": "p1"} for answer in answers(again))


def test_new_message_after_a_crash(tmp_path: Path) -> None:
    """After a kill the user writes again in the same session; ADK drops the lost call and the model calls anew: still one refund."""
    place = Place(tmp_path)
    call = ModelCall({"order_id": "881", "amount": 20})
    place.service.lay("kill_after", order_id="881")
    run_and_die(drivers.PluginDriver, place, "run", [call])
    driver = drivers.PluginDriver(place)
    driver.recover()
    (told,) = driver.run([ModelCall(call.arguments, id="call_9")])
    (refund,) = place.service.refunds("881")
    assert refund["id"] in told.text
    driver.close()


@pytest.mark.parametrize("driver", [drivers.GuardDriver, drivers.ToolDriver])
def test_confirmed_twice_at_the_same_time_without_waiting(tmp_path: Path, driver: Any) -> None:
    """Two processes are given one confirmation at once on SQLite, where ADK keeps the answer of one: one refund, and its result later."""
    place = Place(tmp_path)
    call = ModelCall({"order_id": "881", "amount": 20})
    driver(place).pause([call])
    place.service.lay("slow", order_id="881", delay_s=0.3)
    agents = [driver(place), driver(place)]
    threads = [threading.Thread(target=agent.approve, args=([call],)) for agent in agents]
    threads[0].start()
    place.service.wait_for_arrival("881", within_s=20)
    threads[1].start()
    for thread in threads:
        thread.join(60)
    (refund,) = place.service.refunds("881")
    for agent in agents:
        agent.close()
    later = driver(place)
    (told,) = later.run([ModelCall(call.arguments, id="call_9")], thread="thread-9")
    assert refund["id"] in told.text
    later.close()


# --- what tools answer ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("result", [None, "ok", 5, ["a"], {"a": 1}, {}])
def test_results_are_as_adk_gives_them(tmp_path: Path, way: str, result: Any) -> None:
    """The model is told the tool's own result in ADK's form, in the first call and on a replay."""

    def pay(order: str) -> Any:
        """Pay an order."""
        return result

    call = [("pay", {"order": "1"})]
    first, second = answers(Desk(tmp_path, way, [pay], call, call).say())
    assert first == (result if isinstance(result, dict) else {"result": result})
    assert {name: value for name, value in second.items() if name != "message"} == first


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "error", [{"error": "declined"}, {"status": "error", "error_message": "declined"}, {"isError": True}]
)
def test_error_result_is_not_taken_for_success(
    tmp_path: Path, sent: list[Any], way: str, error: dict[str, Any]
) -> None:
    """A tool that answers with an error has an unknown fate, and with `rejected_on_error` it has not happened and may be tried again."""

    def pay(order: str) -> Any:
        """Pay an order."""
        sent.append(order)
        return error if len(sent) == 1 else {"id": "p1"}

    call = [("pay", {"order": "1"})]
    (told, again) = answers(Desk(tmp_path / "unknown", way, [pay], call, call).say())
    assert told["status"].startswith("AMBIGUOUS")
    assert again["status"].startswith("AMBIGUOUS")
    assert len(sent) == 1
    sent.clear()
    config = {"tools": {"pay": {"key": ["order"], "rejected_on_error": True}}}
    (told, again) = answers(Desk(tmp_path / "rejected", way, [pay], call, call, config=config).say())
    assert told["status"].startswith("FAILED")
    assert again == {"id": "p1"}


@pytest.mark.parametrize("way", WAYS)
def test_missing_argument_costs_nothing(tmp_path: Path, sent: list[Any], pay: Any, way: str) -> None:
    """A call that lacks an argument of the function is answered so, is not on the record, and a correct one lands."""
    desk = Desk(tmp_path, way, [pay], [("pay", {"order": "881"})], [PAY])
    told, second = answers(desk.say())
    assert "'amount'" in told["error"]
    assert second == {"id": "p1"}


@pytest.mark.parametrize("way", WAYS)
def test_argument_that_the_tool_does_not_have(
    tmp_path: Path, sent: list[Any], pay: Callable[..., Any], way: str
) -> None:
    """ADK leaves out what a function does not take. An argument that a model invents is told to it, and names no other request."""
    invented = ("pay", {**PAY[1], "urgency": "high"})
    desk = Desk(tmp_path, way, [pay], [PAY], [invented], [PAY])
    _, told, again = answers(desk.say())
    assert "pay has no argument 'urgency'; it has: order, amount." in told["error"]
    assert "Nothing was sent" in told["error"]
    assert again["id"] == "p1"
    assert sent == [("881", 20)]


@pytest.mark.parametrize("way", WAYS)
def test_tool_that_raises_does_not_end_the_run(tmp_path: Path, sent: list[Any], way: str) -> None:
    """A tool that raises has an unknown fate: the model is told so in ADK's form, and the run goes on."""

    def pay(order: str) -> Any:
        """Pay an order."""
        sent.append(order)
        raise TimeoutError("no answer")

    call = [("pay", {"order": "1"})]
    told, again = answers(Desk(tmp_path, way, [pay], call, call).say())
    for answer in (told, again):
        assert answer["status"].startswith("AMBIGUOUS")
        assert "Do not try again" in answer["message"]
        assert answer["error"] == answer["message"]
    assert sent == ["1"]


def test_tool_that_needs_the_run_is_not_called_by_a_recovery(tmp_path: Path) -> None:
    """A tool that takes ADK's context cannot be called where there is no run: recover() leaves it unsent, and the resumed run sends it."""
    place = Place(tmp_path)
    call = ModelCall({"order_id": "881", "amount": 20})
    place.service.lay("kill_before", order_id="881")
    run_and_die(ContextDriver, place, "run", [call])
    driver = ContextDriver(place)
    assert [outcome.status for outcome in driver.recover()] == ["FAILED"]
    assert place.service.refunds("881") == []
    (told,) = driver.resume([call])
    (refund,) = place.service.refunds("881")
    assert refund["id"] in told.text
    driver.close()


class ContextDriver(drivers.GuardDriver):  # type: ignore[misc, name-defined]  # loaded by path
    """The contract's agent with a refund that takes ADK's context."""

    def functions(self) -> list[Any]:
        functions = self.place.functions
        create = functions["create_refund"]

        def create_refund(order_id: str, amount: int, tool_context: ToolContext, reference: str = "") -> Any:
            """Refund an order."""
            tool_context.state["refunded"] = order_id
            return create(order_id, amount, reference)

        return [create_refund, functions["get_order"], functions["find_refund"]]


# --- what the model and ADK see of a gated tool -----------------------------------------------------------------------------------


def test_gated_tool_has_the_face_of_the_tool(tmp_path: Path) -> None:
    """Name, description, declaration, long-running mark and confirmation are the tool's own; the gate's argument is not shown."""

    def create_refund(order_id: str, amount: int, reference: str) -> dict[str, Any]:
        """Refund an order."""
        return {}

    refund = LongRunningFunctionTool(create_refund)
    refund.custom_metadata = {"a": 1}
    config = {"tools": {"create_refund": {"key": ["order_id"], "idempotency_argument": "reference"}}}
    tools = protect_tools([refund], config, journal=str(tmp_path / "journal"))
    (gated,) = tools
    assert (gated.name, gated.description, gated.is_long_running) == (refund.name, refund.description, True)
    assert gated.custom_metadata == {"a": 1}
    shown, own = gated._get_declaration(), refund._get_declaration()
    assert own is not None
    assert "reference" in str(own.model_dump(exclude_none=True))
    assert "reference" not in str(shown.model_dump(exclude_none=True))
    assert shown.description == own.description
    tools.close()


def test_tool_that_edits_the_request_stays_behind_the_gate(tmp_path: Path, sent: list[Any], pay: Any) -> None:
    """A tool with its own `process_llm_request` may say what it likes to the model, but the tool that is called is the gated one."""

    class Talking(FunctionTool):
        async def process_llm_request(self, *, tool_context: ToolContext, llm_request: LlmRequest) -> None:
            llm_request.append_instructions(["be careful"])
            await super().process_llm_request(tool_context=tool_context, llm_request=llm_request)

    desk = Desk(tmp_path, "tools", [Talking(pay)], [PAY], [PAY])
    assert answers(desk.say()) == [{"id": "p1"}, {"id": "p1"}]
    assert sent == [("881", 20)]


@pytest.mark.parametrize("way", WAYS)
def test_tool_of_ones_own(tmp_path: Path, sent: list[Any], way: str) -> None:
    """A `BaseTool` that is no function, and one whose function is async, are gated as well."""

    class Own(Careless):
        async def check_require_confirmation(self, args: dict[str, Any], tool_context: ToolContext) -> bool:
            return False

    desk = Desk(tmp_path, way, [Own(sent)], [PAY], [PAY])
    assert answers(desk.say()) == [{"id": "p1"}, {"id": "p1"}]
    assert len(sent) == 1


@pytest.mark.parametrize("way", ["guard", "plugin"])
def test_tool_of_a_toolset(tmp_path: Path, sent: list[Any], way: str) -> None:
    """A toolset makes new tools for each run; handed over as what `get_tools()` gives, they are gated in every run."""

    class Own(Careless):
        async def check_require_confirmation(self, args: dict[str, Any], tool_context: ToolContext) -> bool:
            return False

    class Tools(BaseToolset):
        async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
            return [Own(sent)]

        async def close(self) -> None:
            pass

    tools = Tools()
    gate: Any = {"guard": Guard, "plugin": InterlockPlugin}[way](
        KEYED, tools=asyncio.run(tools.get_tools()), journal=str(tmp_path / "journal")
    )
    callback = {"before_tool_callback": gate.before_tool_callback} if way == "guard" else {}
    agent = LlmAgent(name="desk", model=Script(model="s", turns=[[PAY], [PAY]]), tools=[tools], **callback)
    app = App(name="shop", root_agent=agent, plugins=[gate] if way == "plugin" else [])
    runner = Runner(app=app, session_service=InMemorySessionService())

    async def run() -> list[Any]:
        await runner.session_service.create_session(app_name="shop", user_id="ann", session_id="s1")
        go = message(types.Part(text="go"))
        return [e async for e in runner.run_async(user_id="ann", session_id="s1", new_message=go)]

    assert answers(asyncio.run(run())) == [{"id": "p1"}, {"id": "p1"}]
    assert len(sent) == 1


@pytest.mark.parametrize("way", WAYS)
def test_plain_function_does_not_run_on_the_event_loop(tmp_path: Path, way: str) -> None:
    """A plain function is called in a thread where no other coroutine of the run waits for it."""
    threads = []

    def pay(order: str, amount: int) -> dict[str, Any]:
        """Pay an order."""
        threads.append(threading.get_ident())
        return {"id": "p1"}

    assert answers(Desk(tmp_path, way, [pay], [PAY]).say()) == [{"id": "p1"}]
    assert threads
    assert threads[0] != threading.get_ident()  # the loop runs in this one


@pytest.mark.parametrize("way", WAYS)
def test_adks_own_thread_pool(tmp_path: Path, sent: list[Any], pay: Any, way: str) -> None:
    """With ADK's thread pool for tools a call lands once, and is told its result."""
    desk = Desk(tmp_path, way, [pay], [PAY], [PAY])
    config = RunConfig(tool_thread_pool_config=ToolThreadPoolConfig(max_workers=2))
    assert answers(desk.say(run_config=config)) == [{"id": "p1"}, {"id": "p1"}]
    assert sent == [("881", 20)]


# --- the door -------------------------------------------------------------------------------------------------------------------


def test_mistakes_are_refused_at_the_door(tmp_path: Path, pay: Any) -> None:
    """A tool that is not there, an option that does not exist, a second gate, a generator: each is refused when the agent is made."""
    journal = str(tmp_path / "journal")
    with pytest.raises(ConfigurationError, match="did you mean 'pay'"):
        Guard({"tools": {"pai": {"key": ["order"]}}}, tools=[pay], journal=journal)
    with pytest.raises(ConfigurationError, match="did you mean 'key'"):
        protect_tools([pay], {"tools": {"pay": {"keys": ["order"]}}}, journal=journal)
    with pytest.raises(ConfigurationError, match="no tool of ADK"):
        protect_tools(["pay"], KEYED, journal=journal)
    with pytest.raises(ConfigurationError, match="use InterlockPlugin"):
        protect_tools(LlmAgent(name="a", model="m", tools=[pay]), KEYED, journal=journal)
    tools = protect_tools([pay], KEYED, journal=journal)
    with pytest.raises(ConfigurationError, match="behind a gate already"):
        protect_tools(tools, KEYED, journal=journal)
    with pytest.raises(ConfigurationError, match="behind a gate already"):
        Guard(KEYED, tools=list(tools), journal=str(tmp_path / "other"))
    tools.close()
    guard = Guard(journal=journal)
    guard.gate(pay, target_for={"key": ["order"]})
    with pytest.raises(ConfigurationError, match="behind the gate already"):
        guard.gate(pay, target_for={"key": ["order"]})

    def stream(order: str) -> Any:
        """Pay, bit by bit."""
        yield order

    with pytest.raises(ConfigurationError, match="generator"):
        guard.gate(stream, target_for={"key": ["order"]})

    def other(order: str) -> Any:
        """Pay."""

    with pytest.raises(ConfigurationError, match="say what gates it"):
        guard.gate(other)
    with pytest.raises(ConfigurationError, match=r"Guard\(journal=gate\)"):
        guard.gate(other, target_for=lambda args: None)
    other.__name__ = "pay"
    with pytest.raises(ConfigurationError, match="two tools are named 'pay'"):
        Guard(KEYED, tools=[pay, other], journal=journal)
    guard.close()


def guarded(guard: Guard, tool: Any, *turns: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    agent = LlmAgent(
        name="desk",
        model=Script(model="s", turns=list(turns)),
        tools=[tool],
        before_tool_callback=guard.before_tool_callback,
    )
    runner = Runner(app=App(name="shop", root_agent=agent), session_service=InMemorySessionService())

    async def run() -> list[Any]:
        await runner.session_service.create_session(app_name="shop", user_id="ann", session_id="s1")
        go = message(types.Part(text="go"))
        return [e async for e in runner.run_async(user_id="ann", session_id="s1", new_message=go)]

    return answers(asyncio.run(run()))


def test_target_is_an_effect(tmp_path: Path, sent: list[Any], pay: Any) -> None:
    """`target_for=` an `Effect`: the tool itself is gated, by the key that the effect or the proposal gives."""
    with_own = Guard(journal=str(tmp_path / "own"))
    with_own.gate(pay, target_for=Effect(key=lambda order: f"order:{order}"))
    assert guarded(with_own, pay, [PAY], [PAY]) == [{"id": "p1"}, {"id": "p1"}]
    with_own.close()
    sent.clear()
    guard = Guard(journal=str(tmp_path / "proposal"))
    guard.gate(
        pay,
        target_for=Effect(key=lambda order: order),
        proposal=lambda args, tool_context: f"{tool_context.user_id}:{args['order']}",
    )
    assert guarded(guard, pay, [PAY], [PAY]) == [{"id": "p1"}, {"id": "p1"}]
    assert [row["key"] for row in recorded(guard.interlock)] == ["ann:881"]
    guard.close()


def recorded(gate: Interlock) -> list[dict[str, Any]]:
    """What stands on the journal, an effect a row."""
    from interlock.rules.canonical import derive_id

    found = []
    for key in ("881", "ann:881", "order:881"):
        history = gate.journal.load(derive_id("pay", key))
        if history.entries:
            found.append({"key": key, "data": history.entries[0].data})
    return found


def test_model_cannot_name_the_key(tmp_path: Path, sent: list[Any], pay: Any) -> None:
    """The key that a proposal gives stands beside the arguments; a model that gives an argument of that name is not heard."""
    guard = Guard(journal=str(tmp_path / "journal"))
    guard.gate(pay, target_for=Effect(key=lambda order: order), proposal=lambda args, tool_context: args)
    twice = [[("pay", {"order": "881", "amount": 20, "interlock_key": key})] for key in ("mine", "another")]
    assert guarded(guard, pay, *twice) == [{"id": "p1"}, {"id": "p1"}]
    assert [row["key"] for row in recorded(guard.interlock)] == ["881"]
    guard.close()


def test_target_is_a_declared_effect(tmp_path: Path, sent: list[Any], pay: Any) -> None:
    """`target_for=` an effect declared with `@gate.effect`, or a callable that chooses one: it is done in the tool's stead, once."""
    gate = Interlock(str(tmp_path / "journal"))
    done: list[Any] = []

    @gate.effect(key=lambda order: f"small:{order}")
    def small(order: str, amount: int) -> dict[str, Any]:
        done.append(("small", order, amount))
        return {"by": "small"}

    @gate.effect(key=lambda order: f"large:{order}")
    async def large(order: str, amount: int) -> dict[str, Any]:
        done.append(("large", order, amount))
        return {"by": "large"}

    guard = Guard(journal=gate)
    guard.gate(
        pay,
        target_for=lambda args: small if args["amount"] < 100 else large,
        proposal=lambda args, tool_context: {"order": args["order"], "amount": args["amount"] * 100},
    )
    guard.recover()
    big = ("pay", {"order": "882", "amount": 500})
    odd = ("pay", {"order": "883"})
    told = guarded(guard, pay, [PAY], [PAY], [big], [odd])
    assert told[:3] == [{"by": "small"}, {"by": "small"}, {"by": "large"}]
    assert "KeyError" in told[3]["error"]
    assert done == [("small", "881", 2000), ("large", "882", 50000)]
    assert sent == [], "the tool's own function is never called"
    gate.close()


def test_a_mandate_is_redeemed_once(tmp_path: Path, sent: list[Any]) -> None:
    """google-agentic-commerce/AP2#346: one closed payment mandate, presented in two sessions, pays once; without its id it pays never."""

    def redeem(mandate: dict[str, Any]) -> dict[str, Any]:
        """Pay by a closed payment mandate."""
        sent.append(mandate["transaction_id"])
        return {"payment_id": f"pay_{len(sent)}"}

    def once(args: dict[str, Any], tool_context: ToolContext) -> str:
        return f"mandate:{args['mandate']['transaction_id']}"

    mandate = {"transaction_id": "tx_1", "payee": "shop", "payment_amount": {"amount": 2000, "currency": "USD"}}
    call = ("redeem", {"mandate": mandate})
    guard = Guard(journal=str(tmp_path / "journal"))
    guard.gate(redeem, proposal=once)
    assert guarded(guard, redeem, [call], [call]) == [{"payment_id": "pay_1"}] * 2
    assert guarded(guard, redeem, [call]) == [{"payment_id": "pay_1"}]
    (other,) = guarded(guard, redeem, [("redeem", {"mandate": {**mandate, "payee": "thief"}})])
    assert other["status"] == "REFUSED:conflicting_payload"
    (without,) = guarded(guard, redeem, [("redeem", {"mandate": {"payee": "shop"}})])
    assert without["status"] == "REFUSED:bad_input"
    assert sent == ["tx_1"]
    guard.close()


def test_parallel_mandates_at_the_same_time(tmp_path: Path, sent: list[Any]) -> None:
    """google-agentic-commerce/AP2#346: two agents redeem one mandate at the same moment: one payment, and both are told of it."""

    async def redeem(transaction_id: str) -> dict[str, Any]:
        """Pay by a closed payment mandate."""
        sent.append(transaction_id)
        await asyncio.sleep(0.05)
        return {"payment_id": f"pay_{len(sent)}"}

    config = {"tools": {"redeem": {"key": ["transaction_id"], "wait": 5}}}
    call = ("redeem", {"transaction_id": "tx_1"})
    desks = [Desk(tmp_path, "plugin", [redeem], [call], config=config) for _ in range(2)]

    async def both() -> Any:
        return await asyncio.gather(*(desk.asay() for desk in desks))

    told = [answers(events) for events in asyncio.run(both())]
    assert told == [[{"payment_id": "pay_1"}], [{"payment_id": "pay_1"}]]
    assert sent == ["tx_1"]
