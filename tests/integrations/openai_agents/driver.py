"""Agents of the OpenAI Agents SDK under the contract: a scripted model, sessions and run states on disk."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, ClassVar

from agents import (
    Agent,
    FunctionTool,
    RunContextWrapper,
    Runner,
    RunState,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.tool_context import ToolContext
from agents.usage import Usage
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from interlock.integrations.openai_agents import protect_agent, protect_tool, protect_tools
from interlock.testing.driver import IntegrationDriver, ModelCall, Place, Told

set_tracing_disabled(True)

AGENT = (
    ("agent",) if "agent" in ToolContext.__dataclass_fields__ else ()
)  # the oldest releases do not tell a tool its agent


class Scripted(Model):
    """A model that makes the given calls in one answer, and finishes once it is told their results.

    With several answers given, each is made in turn; what the model was told is in `told`.
    """

    def __init__(self, *answers: Sequence[ModelCall]) -> None:
        self.answers = list(answers)
        self.told: list[dict[str, Any]] = []

    def answer(self, given: Any) -> list[Any]:
        items = given if isinstance(given, list) else []
        self.told = [item for item in items if isinstance(item, dict) and item.get("type") == "function_call_output"]
        asked = bool(items) and isinstance(items[-1], dict) and items[-1].get("type") == "function_call_output"
        if not self.answers or (asked and len(self.answers) == 1):
            text = ResponseOutputText(type="output_text", text="done", annotations=[])
            return [ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])]
        calls = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [
            ResponseFunctionToolCall(
                type="function_call",
                id=f"fc_{call.id}",
                call_id=call.id,
                name=call.tool,
                arguments=call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments),
            )
            for call in calls
        ]

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        return ModelResponse(output=self.answer(input), usage=Usage(), response_id=None)

    async def stream_response(
        self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any
    ) -> AsyncIterator[Any]:
        response = Response(
            id="resp",
            created_at=0,
            model="scripted",
            object="response",
            output=self.answer(input),
            tool_choice="auto",
            tools=[],
            parallel_tool_calls=True,
        )
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=0)


def run_sync(*args: Any, **kwargs: Any) -> Any:
    """`Runner.run_sync`, which leaves this thread's event loop open; a test closes what it opens."""
    try:
        return Runner.run_sync(*args, **kwargs)
    finally:
        asyncio.get_event_loop_policy().get_event_loop().close()
        asyncio.set_event_loop(None)


def tools_of(place: Place) -> list[FunctionTool]:
    """The contract's functions as function tools."""
    return [function_tool(function, name_override=name) for name, function in place.functions.items()]


def tools_with_context(place: Place) -> list[FunctionTool]:
    """The same, with a refund that takes the run's context and notes who it is for."""
    service = place.service

    def create_refund(context: RunContextWrapper[str], order_id: str, amount: int, reference: str) -> Any:
        """Refund an order."""
        return service.create_refund(order_id, amount, reference, context.context)

    return [function_tool(create_refund), *tools_of(place)[1:]]


def told(result: Any, calls: Sequence[ModelCall]) -> list[Told]:
    """What the model was told in answer to the calls, in their order. The SDK has no error form but the text itself."""
    outputs = [item.raw_item for item in result.new_items if item.type == "tool_call_output_item"]
    by_id = {output["call_id"]: output["output"] for output in outputs}
    return [Told(by_id[call.id], None) for call in calls if call.id in by_id]


class ToolsDriver(IntegrationDriver):
    """`protect_tools`, with a SQLite session: after a kill the model is asked again."""

    evidence: ClassVar[tuple[str, ...]] = ("tool_call_id", "tool_call_item", *AGENT)
    not_applicable: ClassVar[Mapping[str, str]] = {
        "retry": "the SDK retries calls of the model, never a tool",
        "edit": "RunState.approve takes the call as it is and has no way to change its arguments",
    }

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.agent = Agent(name="support")
        self.seen: dict[str, Any] = {}
        self.behind: Any = self.protect(tools_of(place))

    def protect(self, tools: list[FunctionTool]) -> Any:
        """Give the agent its tools; what recovers."""
        protected = protect_tools(tools, self.place.config, journal=self.place.journal, seen=self.seen)
        self.agent.tools = protected
        return protected

    def recover(self) -> Sequence[Any]:
        return self.behind.recover()

    def close(self) -> None:
        self.behind.close()

    def given(self, calls: Sequence[ModelCall], *, reviewed: bool = False) -> Agent[Any]:
        self.agent.model = Scripted(calls)
        for tool in self.agent.tools:
            if tool.name == "create_refund":
                tool.needs_approval = reviewed
        return self.agent

    def session(self, thread: str) -> Any:
        return contextlib.closing(SQLiteSession(thread, self.place.state / "sessions.db"))

    def run(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        with self.session(thread) as session:
            return told(run_sync(self.given(calls), "refund it", session=session), calls)

    async def arun(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        with self.session(thread) as session:
            return told(await Runner.run(self.given(calls), "refund it", session=session), calls)

    def stream(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        async def read() -> list[Told]:
            with self.session(thread) as session:
                result = Runner.run_streamed(self.given(calls), "refund it", session=session)
                async for _ in result.stream_events():
                    pass
                return told(result, calls)

        return asyncio.run(read())

    def resume(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        return self.run(calls, thread=thread)

    # --- approvals ---------------------------------------------------------------------------------------------------------

    def pause(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> None:
        result = run_sync(self.given(calls, reviewed=True), "refund it")
        assert result.interruptions
        (self.place.state / f"{thread}.json").write_text(result.to_state().to_string())
        (self.place.state / f"seen-{thread}.json").write_text(json.dumps(self.seen))

    def approve(
        self, calls: Sequence[ModelCall], *, thread: str = "thread-1", edited: Mapping[str, Any] | None = None
    ) -> list[Told]:
        return self._decide(calls, thread, approved=True)

    def decline(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        return self._decide(calls, thread, approved=False)

    def _decide(self, calls: Sequence[ModelCall], thread: str, *, approved: bool) -> list[Told]:
        async def decide() -> list[Told]:
            agent = self.given(calls, reviewed=True)
            self.seen.update(json.loads((self.place.state / f"seen-{thread}.json").read_text()))
            state = await RunState.from_string(agent, (self.place.state / f"{thread}.json").read_text())
            for item in state.get_interruptions():
                state.approve(item) if approved else state.reject(item)
            return told(await Runner.run(agent, state), calls)

        return asyncio.run(decide())


class RunStateDriver(ToolsDriver):
    """`protect_agent`; every run is saved at its approval, and a run that a kill ended is resumed from there."""

    evidence: ClassVar[tuple[str, ...]] = ("tool_call_id", "tool_call_item", "approved", *AGENT)

    def protect(self, tools: list[FunctionTool]) -> Any:
        self.agent.tools = list(tools)
        return protect_agent(self.agent, self.place.config, journal=self.place.journal, seen=self.seen)

    def run(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        self.pause(calls, thread=thread)
        return self.approve(calls, thread=thread)

    def resume(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        return self.approve(calls, thread=thread)


class ToolDriver(ToolsDriver):
    """`protect_tool` for the one tool with an outside effect."""

    def protect(self, tools: list[FunctionTool]) -> Any:
        refund, *others = tools
        protected = protect_tool(refund, self.place.config, asks=others, journal=self.place.journal, seen=self.seen)
        self.agent.tools = [protected, *others]
        return protected


class ContextDriver(ToolsDriver):
    """Tools that take the run's context, which belongs to a run."""

    not_applicable: ClassVar[Mapping[str, str]] = {
        **ToolsDriver.not_applicable,
        "defaults": "its refund takes no argument with a default, and so no note",
        "types": "its refund takes no note; the other drivers' does",
    }

    def protect(self, tools: list[FunctionTool]) -> Any:
        return super().protect(tools_with_context(self.place))

    def run(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        return told(run_sync(self.given(calls), "refund it", context="ann"), calls)
