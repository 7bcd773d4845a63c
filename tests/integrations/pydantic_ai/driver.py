"""Pydantic AI agents under the contract: a scripted model, deferred approvals saved as JSON, message histories saved as they grow."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool, ToolApproved, exceptions
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from interlock.integrations.pydantic_ai import InterlockCapability, InterlockToolset
from interlock.testing.driver import IntegrationDriver, ModelCall, Place, Told

HAS_ERROR_FORM = hasattr(exceptions, "ToolFailed")


def is_answered(messages: Sequence[ModelMessage]) -> bool:
    """Whether the model was told the results of its calls."""
    last = messages[-1]
    return isinstance(last, ModelRequest) and any(hasattr(part, "tool_call_id") for part in last.parts)


def scripted(calls: Sequence[ModelCall]) -> FunctionModel:
    """A model that makes the given calls in one answer, and finishes once it is told their results."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if is_answered(messages):
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart(call.tool, dict(call.arguments), tool_call_id=call.id) for call in calls])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> Any:
        if is_answered(messages):
            yield "done"
            return
        for number, call in enumerate(calls):
            yield {number: DeltaToolCall(call.tool, json.dumps(dict(call.arguments)), tool_call_id=call.id)}

    return FunctionModel(answer, stream_function=stream)


@contextlib.contextmanager
def own_loop() -> Iterator[None]:
    """An event loop for `run_sync`, which takes the thread's own and would leave open one that it has to make."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        asyncio.set_event_loop(None)


def run_sync(agent: Agent[None, Any], *args: Any, **more: Any) -> Any:
    """The framework's sync entry."""
    with own_loop():
        return agent.run_sync(*args, **more)


def told(messages: Sequence[ModelMessage], calls: Sequence[ModelCall]) -> list[Told]:
    """What the model was told in answer to the calls, in their order."""
    parts = [
        part
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if hasattr(part, "tool_call_id")
    ][-len(calls) :]
    order = [call.id for call in calls]
    answers = []
    for part in sorted(parts, key=lambda part: order.index(part.tool_call_id)):
        text = part.model_response_str() if hasattr(part, "model_response_str") else part.model_response()
        failed = getattr(part, "outcome", "retried") != "success"
        answers.append(Told(text, is_error=failed if HAS_ERROR_FORM else None))
    return answers


class CapabilityDriver(IntegrationDriver):
    """`InterlockCapability` in an agent."""

    evidence: ClassVar[tuple[str, ...]] = ("tool_call_id", "conversation_id", "run_id")

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.wrap()

    def wrap(self) -> None:
        self.functions = list(self.place.functions.values())
        self.guard: Any = InterlockCapability(self.place.config, tools=self.functions, journal=self.place.journal)

    def recover(self) -> Sequence[Any]:
        return list(self.guard.recover())

    def close(self) -> None:
        self.guard.close()

    def agent(self, calls: Sequence[ModelCall], *, approval: bool = False, retries: int = 1) -> Agent[None, Any]:
        tools = [Tool(function, requires_approval=approval, max_retries=retries) for function in self.functions]
        return Agent(scripted(calls), tools=tools, capabilities=[self.guard], output_type=[str, DeferredToolRequests])

    def run(self, calls: Sequence[ModelCall], *, thread: str = "thread-1", retries: int = 1) -> list[Told]:
        agent = self.agent(calls, retries=retries)
        return asyncio.run(self._keeping_history(agent, calls, thread))

    async def arun(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        result = await self.agent(calls).run("refund it", conversation_id=thread)
        return told(result.all_messages(), calls)

    async def _keeping_history(self, agent: Agent[None, Any], calls: Sequence[ModelCall], thread: str) -> list[Told]:
        """Run node by node and save the history before each, as one who wants to resume does."""
        async with agent.iter("refund it", conversation_id=thread) as run:
            async for _ in run:
                self._save(thread, run.all_messages())
        assert run.result is not None
        return told(run.result.all_messages(), calls)

    def _save(self, thread: str, messages: list[ModelMessage], calls: Any = None) -> None:
        history = ModelMessagesTypeAdapter.dump_json(messages)
        (self.place.state / f"{thread}.json").write_bytes(history)

    def _load(self, thread: str) -> list[ModelMessage]:
        return ModelMessagesTypeAdapter.validate_json((self.place.state / f"{thread}.json").read_bytes())

    def stream(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        async def read() -> list[Told]:
            async with self.agent(calls).run_stream("refund it", conversation_id=thread) as result:
                assert "".join([text async for text in result.stream_text(delta=True)]) == "done"
                return told(result.all_messages(), calls)

        return asyncio.run(read())

    def resume(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        """The framework runs the calls that end a history when it is given that history and no new prompt."""
        result = run_sync(self.agent(calls), message_history=self._load(thread))
        return told(result.all_messages(), calls)

    def run_with_retry(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        return self.run(calls, thread=thread, retries=3)

    # --- approvals ---------------------------------------------------------------------------------------------------------

    def pause(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> None:
        paused = run_sync(self.agent(calls, approval=True), "refund it", conversation_id=thread)
        assert isinstance(paused.output, DeferredToolRequests)
        assert paused.output.approvals
        self._save(thread, paused.all_messages())
        (self.place.state / f"metadata-{thread}.json").write_text(json.dumps(paused.output.metadata))

    def approve(
        self, calls: Sequence[ModelCall], *, thread: str = "thread-1", edited: Mapping[str, Any] | None = None
    ) -> list[Told]:
        answer: Any = True if edited is None else ToolApproved(override_args=dict(edited))
        return self._decide(answer, calls, thread)

    def decline(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        return self._decide(False, calls, thread)

    def _decide(self, answer: Any, calls: Sequence[ModelCall], thread: str) -> list[Told]:
        metadata = json.loads((self.place.state / f"metadata-{thread}.json").read_text())
        approvals = dict.fromkeys((call.id for call in calls), answer)
        results = DeferredToolResults(approvals=approvals, metadata=metadata)
        result = run_sync(
            self.agent(calls, approval=True), message_history=self._load(thread), deferred_tool_results=results
        )
        return told(result.all_messages(), calls)


class ToolsetDriver(CapabilityDriver):
    """`InterlockToolset` in an agent, and around it, where a person is asked, `approval_required()`."""

    def wrap(self) -> None:
        self.guard = InterlockToolset(
            FunctionToolset(list(self.place.functions.values()), max_retries=3),
            self.place.config,
            journal=self.place.journal,
        )

    def agent(self, calls: Sequence[ModelCall], *, approval: bool = False, retries: int = 1) -> Agent[None, Any]:
        toolset = self.guard
        if approval:
            toolset = toolset.approval_required(lambda ctx, tool_def, args: tool_def.name == "create_refund")
        return Agent(scripted(calls), toolsets=[toolset], output_type=[str, DeferredToolRequests])


class AskingToolsetDriver(CapabilityDriver):
    """`InterlockCapability` in an agent whose toolset asks for approval by itself, at the call."""

    def agent(self, calls: Sequence[ModelCall], *, approval: bool = False, retries: int = 1) -> Agent[None, Any]:
        toolset: Any = FunctionToolset(self.functions, max_retries=3)
        if approval:
            toolset = toolset.approval_required(lambda ctx, tool_def, args: tool_def.name == "create_refund")
        return Agent(
            scripted(calls), toolsets=[toolset], capabilities=[self.guard], output_type=[str, DeferredToolRequests]
        )
