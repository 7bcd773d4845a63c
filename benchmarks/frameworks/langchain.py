"""LangChain: an agent with the human-in-the-loop middleware, on a SQLite checkpointer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.suites.matrix import arms
from benchmarks.suites.matrix.case import TOOL, Job
from benchmarks.suites.matrix.framework import Framework

FRAMEWORK = Framework(
    name="langchain",
    title="LangChain agent",
    packages=("langchain", "langgraph", "langgraph-checkpoint-sqlite"),
    extra="langchain",
    docs="https://docs.langchain.com/oss/python/langchain/human-in-the-loop, https://docs.langchain.com/oss/python/langgraph/durable-execution",
    starts="`agent.invoke(messages, config)` with a thread id; `HumanInTheLoopMiddleware` stops it before the tool",
    approves='`agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)`, with the checkpoint at which it stopped',
    persists='a checkpoint after every step, in SQLite (`durability="sync"`)',
    resumes="`agent.invoke(None, config)` with the same thread id: the approval is kept, and the tool runs again",
    wrapper="interlock.integrations.langchain.protect_tools",
    example="langchain",
    order=45,
)


def start(job: Job) -> None:
    """Run up to the approval, and keep the checkpoint it stopped at."""
    with _agent(job) as agent:
        config = {"configurable": {"thread_id": job.case}}
        agent.invoke({"messages": [("user", f"refund {job.case}")]}, config, durability="sync")
        job.save("checkpoint", agent.get_state(config).config)


def approve(job: Job) -> Any:
    """Approve what the saved checkpoint waits for."""
    from langgraph.types import Command

    with _agent(job) as agent:
        decision: Command[Any] = Command(resume={"decisions": [{"type": "approve"}]})
        return _told(agent.invoke(decision, job.saved("checkpoint"), durability="sync"))


def resume(job: Job) -> Any:
    """Go on with the thread."""
    with _agent(job) as agent:
        return _told(agent.invoke(None, {"configurable": {"thread_id": job.case}}, durability="sync"))


def _told(state: Any) -> Any:
    return next((one.content for one in reversed(state["messages"]) if one.type == "tool"), "")


@contextmanager
def _agent(job: Job) -> Iterator[Any]:
    from langchain.agents import create_agent
    from langchain.agents.middleware import HumanInTheLoopMiddleware
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.tools import BaseTool, tool
    from langgraph.checkpoint.sqlite import SqliteSaver

    class Scripted(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return self

        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
            call = {"name": TOOL, "args": job.arguments, "id": "call_1", "type": "tool_call"}
            message = AIMessage("done") if messages[-1].type == "tool" else AIMessage("", tool_calls=[call])
            return ChatResult(generations=[ChatGeneration(message=message)])

    @tool
    def create_refund(order_id: str, amount: int, reference: str = "") -> str:
        """Refund part of a payment."""
        return arms.act(job, reference)

    tools: list[BaseTool] = [create_refund]
    if job.arm == "interlock":
        from interlock.integrations.langchain import protect_tools

        protected = protect_tools(tools, {"tools": {TOOL: arms.effect_of(job)}}, journal=job.journal)
        protected.recover()
        tools = list(protected)
    with SqliteSaver.from_conn_string(str(job.directory / "checkpoints.sqlite")) as saver:
        asks = HumanInTheLoopMiddleware(interrupt_on={TOOL: True})
        yield create_agent(Scripted(), tools, middleware=[asks], checkpointer=saver)
