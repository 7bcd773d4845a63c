"""LangChain agents under the contract: a scripted model, `create_agent`, a SQLite checkpointer."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ToolRetryMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from interlock.integrations.langchain import InterlockMiddleware, protect_tools
from interlock.testing.driver import IntegrationDriver, ModelCall, Place, Told


class ScriptedModel(BaseChatModel):
    """A model that makes the given calls in one answer, and finishes once it is told their results."""

    calls: list[dict[str, Any]]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> ScriptedModel:
        return self

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        told = messages and isinstance(messages[-1], ToolMessage)
        message = AIMessage("done") if told else AIMessage("", tool_calls=self.calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


def scripted(calls: Sequence[ModelCall]) -> ScriptedModel:
    return ScriptedModel(
        calls=[{"name": call.tool, "args": dict(call.arguments), "id": call.id, "type": "tool_call"} for call in calls]
    )


def tools_of(place: Place) -> list[BaseTool]:
    """The contract's functions as LangChain tools."""
    return [
        StructuredTool.from_function(**{"coroutine" if place.is_async else "func": function}, name=name)
        for name, function in place.functions.items()
    ]


def told(state: Mapping[str, Any], calls: Sequence[ModelCall]) -> list[Told]:
    """What the model was told in answer to the calls, in their order."""
    messages = [message for message in state["messages"] if isinstance(message, ToolMessage)][-len(calls) :]
    answers = []
    for message in sorted(messages, key=lambda message: [call.id for call in calls].index(message.tool_call_id)):
        text = message.content if isinstance(message.content, str) else json.dumps(message.content)
        answers.append(Told(text, is_error=message.status == "error"))
    return answers


class LangChainDriver(IntegrationDriver):
    """`protect_tools` in `create_agent`."""

    evidence: ClassVar[tuple[str, ...]] = ("tool_call_id", "thread_id")
    durability: ClassVar[str] = "sync"
    hitl: ClassVar[Mapping[str, Any]] = {}
    not_applicable: ClassVar[Mapping[str, str]] = {
        "seen": "protect_tools gates tools alone, which are not asked before the call; InterlockMiddleware(approvals=) is"
    }

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.tools, self.middleware, self.behind = self.wrap()

    def wrap(self) -> tuple[list[BaseTool], list[Any], Any]:
        """The agent's tools, the wrapper's middleware, and what recovers."""
        protected = protect_tools(tools_of(self.place), self.place.config, journal=self.place.journal)
        return protected, [], protected

    def recover(self) -> Sequence[Any]:
        return self.behind.recover()

    def close(self) -> None:
        self.behind.close()

    def agent(self, calls: Sequence[ModelCall], saver: Any, *middleware: Any) -> Any:
        return create_agent(scripted(calls), self.tools, middleware=[*middleware, *self.middleware], checkpointer=saver)

    @contextlib.contextmanager
    def saver(self) -> Iterator[SqliteSaver]:
        with contextlib.closing(
            sqlite3.connect(self.place.state / "checkpoints.db", check_same_thread=False, timeout=30)
        ) as connection:
            yield SqliteSaver(connection)

    def go(
        self,
        given: Any,
        calls: Sequence[ModelCall],
        thread: str,
        *middleware: Any,
        checkpoint: str = "",
    ) -> dict[str, Any]:
        with self.saver() as saver:
            agent = self.agent(calls, saver, *middleware)
            return agent.invoke(given, self.config(thread, checkpoint), durability=self.durability)

    def config(self, thread: str, checkpoint: str = "") -> dict[str, Any]:
        return {"configurable": {"thread_id": thread, **({"checkpoint_id": checkpoint} if checkpoint else {})}}

    @property
    def question(self) -> dict[str, Any]:
        return {"messages": [HumanMessage("refund it")]}

    def run(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        if self.place.is_async:
            import asyncio

            return asyncio.run(self.arun(calls, thread=thread))
        return told(self.go(self.question, calls, thread), calls)

    async def arun(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        async with AsyncSqliteSaver.from_conn_string(str(self.place.state / "checkpoints.db")) as saver:
            agent = self.agent(calls, saver)
            return told(await agent.ainvoke(self.question, self.config(thread), durability=self.durability), calls)

    def stream(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        with self.saver() as saver:
            agent = self.agent(calls, saver)
            *_, state = agent.stream(self.question, self.config(thread), stream_mode="values")
        return told(state, calls)

    def resume(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        return told(self.go(None, calls, thread), calls)

    def run_with_retry(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        return told(self.go(self.question, calls, thread, ToolRetryMiddleware(initial_delay=0.01, jitter=False)), calls)

    # --- approvals ---------------------------------------------------------------------------------------------------------

    @property
    def reviewer(self) -> HumanInTheLoopMiddleware:
        return HumanInTheLoopMiddleware(interrupt_on={"create_refund": True}, **self.hitl)

    def pause(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> None:
        paused = self.go(self.question, calls, thread, self.reviewer)
        assert paused["__interrupt__"]
        with self.saver() as saver:
            frozen = self.agent(calls, saver, self.reviewer).get_state(self.config(thread)).config
        (self.place.state / f"{thread}.json").write_text(json.dumps(frozen["configurable"]["checkpoint_id"]))

    def approve(
        self, calls: Sequence[ModelCall], *, thread: str = "thread-1", edited: Mapping[str, Any] | None = None
    ) -> list[Told]:
        if edited is None:
            return self._decide({"type": "approve"}, calls, thread)
        action = {"name": calls[0].tool, "args": dict(edited)}
        return self._decide({"type": "edit", "edited_action": action}, calls, thread)

    def decline(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        return self._decide({"type": "reject"}, calls, thread)

    def _decide(self, decision: dict[str, Any], calls: Sequence[ModelCall], thread: str) -> list[Told]:
        checkpoint = json.loads((self.place.state / f"{thread}.json").read_text())
        per_call = self.hitl.get("interrupt_mode") == "per_call"
        answer = Command(resume=decision if per_call else {"decisions": [decision] * len(calls)})
        return told(self.go(answer, calls, thread, self.reviewer, checkpoint=checkpoint), calls)


class MiddlewareDriver(LangChainDriver):
    """`InterlockMiddleware` in `create_agent`."""

    not_applicable: ClassVar[Mapping[str, str]] = {}

    def wrap(self) -> tuple[list[BaseTool], list[Any], Any]:
        tools = tools_of(self.place)
        middleware = InterlockMiddleware(
            tools, self.place.config, journal=self.place.journal, approvals=["create_refund"]
        )
        return tools, [middleware], middleware


class ExitDriver(LangChainDriver):
    """As `LangChainDriver`, with the durability that keeps nothing of a run that was killed."""

    durability: ClassVar[str] = "exit"
    resume = IntegrationDriver.resume
    not_applicable: ClassVar[Mapping[str, str]] = {
        **LangChainDriver.not_applicable,
        "resume": 'durability="exit" writes nothing before the run ends, so LangGraph has nothing to resume',
    }


class AsyncDurabilityDriver(MiddlewareDriver):
    """As `MiddlewareDriver`, with the default durability, which may lose the last step."""

    durability: ClassVar[str] = "async"


class PerCallDriver(LangChainDriver):
    """As `LangChainDriver`, with approvals asked call by call."""

    hitl: ClassVar[Mapping[str, Any]] = {"interrupt_mode": "per_call"}
