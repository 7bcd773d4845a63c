"""A LangGraph of one's own under the contract: a model node, a review node that interrupts, and a `ToolNode` with the gate's functions."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, RetryPolicy, interrupt

from interlock.integrations.langgraph import ToolCallGate
from interlock.testing.driver import IntegrationDriver, ModelCall, Place, Told


def tools_of(place: Place) -> list[BaseTool]:
    """The contract's functions as LangChain tools."""
    return [
        StructuredTool.from_function(**{"coroutine" if place.is_async else "func": function}, name=name)
        for name, function in place.functions.items()
    ]


class State(MessagesState, total=False):
    interlock_seen: dict[str, Any]


class LangGraphDriver(IntegrationDriver):
    """`ToolNode(tools, wrap_tool_call=..., awrap_tool_call=...)`."""

    evidence: ClassVar[tuple[str, ...]] = ("tool_call_id", "thread_id", "langgraph_node")

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.tools = tools_of(place)
        self.calls = ToolCallGate(self.tools, place.config, journal=place.journal)

    def recover(self) -> Sequence[Any]:
        return self.calls.recover()

    def close(self) -> None:
        self.calls.close()

    def graph(self, calls: Sequence[ModelCall], saver: Any, *, review: bool = False, retry: bool = False) -> Any:
        def model(state: MessagesState) -> dict[str, Any]:
            if isinstance(state["messages"][-1], ToolMessage):
                return {"messages": [AIMessage("done")]}
            made = [{"name": call.tool, "args": dict(call.arguments), "id": call.id} for call in calls]
            return {"messages": [AIMessage("", tool_calls=made)]}

        def reviewer(state: MessagesState) -> Command[str]:
            answer = interrupt("refund it?") if review else {"type": "approve"}
            asked = state["messages"][-1]
            assert isinstance(asked, AIMessage)
            if answer["type"] == "reject":
                said = [ToolMessage("declined", tool_call_id=call["id"], status="error") for call in asked.tool_calls]
                return Command(update={"messages": said}, goto="model")
            if answer["type"] == "edit":
                edited = [{**call, "args": answer["args"]} for call in asked.tool_calls]
                return Command(update={"messages": [AIMessage("", tool_calls=edited, id=asked.id)]}, goto="tools")
            return Command(goto="tools")

        node = ToolNode(
            self.tools, wrap_tool_call=self.calls.wrap_tool_call, awrap_tool_call=self.calls.awrap_tool_call
        )
        graph = StateGraph(State)
        graph.add_node("model", model)
        graph.add_node("see", lambda state: self.calls.see(state["messages"][-1].tool_calls))
        graph.add_node("review", reviewer, destinations=("tools", "model"))
        graph.add_edge("see", "review")
        policy = RetryPolicy(initial_interval=0.01, jitter=False) if retry else None
        graph.add_node("tools", node, retry_policy=policy)
        graph.add_edge(START, "model")
        graph.add_conditional_edges(
            "model", lambda state: "see" if state["messages"][-1].tool_calls else END, ["see", END]
        )
        graph.add_edge("tools", "model")
        return graph.compile(checkpointer=saver)

    @contextlib.contextmanager
    def saver(self) -> Iterator[SqliteSaver]:
        file = self.place.state / "checkpoints.db"
        with contextlib.closing(sqlite3.connect(file, check_same_thread=False, timeout=30)) as connection:
            yield SqliteSaver(connection)

    def config(self, thread: str, checkpoint: str = "") -> dict[str, Any]:
        return {"configurable": {"thread_id": thread, **({"checkpoint_id": checkpoint} if checkpoint else {})}}

    @property
    def question(self) -> dict[str, Any]:
        return {"messages": [HumanMessage("refund it")]}

    def go(
        self, given: Any, calls: Sequence[ModelCall], thread: str, *, checkpoint: str = "", **options: bool
    ) -> dict[str, Any]:
        with self.saver() as saver:
            graph = self.graph(calls, saver, **options)
            return graph.invoke(given, self.config(thread, checkpoint), durability="sync")

    def told(self, state: Mapping[str, Any], calls: Sequence[ModelCall]) -> list[Told]:
        messages = [message for message in state["messages"] if isinstance(message, ToolMessage)][-len(calls) :]
        return [Told(str(message.content), is_error=message.status == "error") for message in messages]

    def run(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        if self.place.is_async:
            return asyncio.run(self.arun(calls, thread=thread))
        return self.told(self.go(self.question, calls, thread), calls)

    async def arun(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        async with AsyncSqliteSaver.from_conn_string(str(self.place.state / "checkpoints.db")) as saver:
            graph = self.graph(calls, saver)
            return self.told(await graph.ainvoke(self.question, self.config(thread), durability="sync"), calls)

    def stream(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        with self.saver() as saver:
            *_, state = self.graph(calls, saver).stream(self.question, self.config(thread), stream_mode="values")
        return self.told(state, calls)

    def resume(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        return self.told(self.go(None, calls, thread), calls)

    def run_with_retry(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        return self.told(self.go(self.question, calls, thread, retry=True), calls)

    def pause(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> None:
        assert self.go(self.question, calls, thread, review=True)["__interrupt__"]
        with self.saver() as saver:
            frozen = self.graph(calls, saver, review=True).get_state(self.config(thread)).config
        (self.place.state / f"{thread}.json").write_text(json.dumps(frozen["configurable"]["checkpoint_id"]))

    def approve(
        self, calls: Sequence[ModelCall], *, thread: str = "thread-1", edited: Mapping[str, Any] | None = None
    ) -> list[Told]:
        answer = {"type": "approve"} if edited is None else {"type": "edit", "args": dict(edited)}
        return self._answer(answer, calls, thread)

    def decline(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        return self._answer({"type": "reject"}, calls, thread)

    def _answer(self, answer: dict[str, Any], calls: Sequence[ModelCall], thread: str) -> list[Told]:
        checkpoint = json.loads((self.place.state / f"{thread}.json").read_text())
        state = self.go(Command(resume=answer), calls, thread, checkpoint=checkpoint, review=True)
        return self.told(state, calls)
