"""The graph around the refund: one node, and a SQLite checkpointer that outlives the process."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph


class State(TypedDict, total=False):
    """What the graph knows."""

    order_id: str
    amount: int
    seen: int  # the refunded total that the decision was made on; the hand-written node needs it
    outcome: Any


def go(node: Any, place: Path, thread: str, amount: int) -> None:
    """Begin a thread, or resume it where it was cut off."""
    graph = StateGraph(State).add_node("refund", node).add_edge(START, "refund").add_edge("refund", END)
    with SqliteSaver.from_conn_string(str(place / "checkpoints.db")) as saver:
        flow = graph.compile(checkpointer=saver)
        where: Any = {"configurable": {"thread_id": thread}}
        was_cut_off = bool(flow.get_state(where).next)
        begin = None if was_cut_off else State(order_id="881", amount=amount, seen=0)
        outcome = flow.invoke(begin, where, durability="sync")["outcome"]
    told = outcome.get("message", outcome)
    print(f"  {thread} thread, {'resumed' if was_cut_off else 'begun'}: {told}", flush=True)
