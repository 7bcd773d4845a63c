"""LangGraph: a graph with an approval node and a refund node, on a SQLite checkpointer, `durability="sync"`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypedDict

from benchmarks.suites.matrix import arms
from benchmarks.suites.matrix.case import Job
from benchmarks.suites.matrix.framework import Framework

FRAMEWORK = Framework(
    name="langgraph",
    title="LangGraph",
    packages=("langgraph", "langgraph-checkpoint-sqlite"),
    extra="langgraph",
    docs="https://docs.langchain.com/oss/python/langgraph/interrupts (approve or reject), durable-execution",
    starts="`graph.invoke(state, config)` with a thread id; the approval node calls `interrupt()`",
    approves="`graph.invoke(Command(resume=True), config)`, with the checkpoint at which it stopped",
    persists='a checkpoint after every node, in SQLite (`durability="sync"`)',
    resumes="`graph.invoke(None, config)` with the same thread id: the node that did not finish runs again",
    wrapper="interlock.integrations.langgraph.effect_node",
    example="langgraph",
    order=40,
)


class State(TypedDict, total=False):
    """The graph's state."""

    amount: int
    told: Any


def start(job: Job) -> None:
    """Run up to the interrupt, and keep the checkpoint it stopped at."""
    with _graph(job) as graph:
        config = {"configurable": {"thread_id": job.case}}
        graph.invoke({"amount": job.amount_minor}, config, durability="sync")
        job.save("checkpoint", graph.get_state(config).config)


def approve(job: Job) -> Any:
    """Answer the interrupt of the saved checkpoint."""
    from langgraph.types import Command

    with _graph(job) as graph:
        return graph.invoke(Command(resume=True), job.saved("checkpoint"), durability="sync")["told"]


def resume(job: Job) -> Any:
    """Go on with the thread."""
    with _graph(job) as graph:
        return graph.invoke(None, {"configurable": {"thread_id": job.case}}, durability="sync")["told"]


@contextmanager
def _graph(job: Job) -> Iterator[Any]:
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import Command, interrupt

    def approval(state: State) -> Command[Any]:
        answer = interrupt({"refund": state["amount"]})
        return Command(goto="refund" if answer else END)

    def refund(state: State) -> State:
        return {"told": arms.act(job)}

    graph = StateGraph(State).add_node("approval", approval, destinations=("refund", END)).add_edge(START, "approval")
    with SqliteSaver.from_conn_string(str(job.directory / "checkpoints.sqlite")) as saver:
        if job.arm != "interlock":
            yield graph.add_node("refund", refund).compile(checkpointer=saver)
            return
        from interlock import Interlock
        from interlock.integrations.langgraph import effect_node

        with Interlock(job.journal) as gate:
            effect = arms.refund_of(gate, job)
            node = effect_node(
                effect, arguments=lambda state: {"case": arms.case_of(job), "amount": state["amount"]}, result="told"
            )
            gate.recover()
            yield graph.add_node("refund", node).compile(checkpointer=saver)
