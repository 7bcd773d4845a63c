"""What an approver of a graph's own saw must still hold when the graph goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

from interlock import Interlock
from interlock.integrations.langgraph import ToolCallGate, effect_node

ORDER = {"refunded": 0}
SENT: list[Any] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    SENT.clear()
    ORDER["refunded"] = 0


@tool
def refund(order: str, amount: int, reference: str) -> str:
    """Refund an order."""
    SENT.append((order, amount))
    return f"refunded {amount}"


@tool
def get_order(order: str) -> dict[str, Any]:
    """Show an order."""
    return dict(ORDER)


CONFIG: dict[str, Any] = {
    "tools": {
        "refund": {
            "key": ["order"],
            "premises": {"tool": "get_order", "arguments": {"order": "order"}, "fields": ["refunded"]},
            "idempotency_argument": "reference",
        }
    }
}


def reviewed(gate: ToolCallGate) -> Any:
    """A graph whose model makes one call, for which a person is asked."""

    class State(TypedDict, total=False):
        messages: Annotated[list[AnyMessage], add_messages]
        interlock_seen: dict[str, Any]

    call = {"name": "refund", "args": {"order": "881", "amount": 20}, "id": "call_1", "type": "tool_call"}
    graph = StateGraph(State)
    graph.add_node("model", lambda state: {"messages": [AIMessage("", tool_calls=[call])]})
    graph.add_node("see", lambda state: gate.see(state["messages"][-1].tool_calls))
    graph.add_node("ask", lambda state: interrupt("may it?") and {})
    graph.add_node("tools", ToolNode([refund, get_order], wrap_tool_call=gate.wrap_tool_call))
    for before, after in zip(
        [START, "model", "see", "ask", "tools"], ["model", "see", "ask", "tools", END], strict=True
    ):
        graph.add_edge(before, after)
    return graph.compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize("changed", [True, False])
def test_a_tool_node_behind_an_approval(changed: bool, tmp_path: Path) -> None:
    """`see` in front of the node that asks: what it read stands in the checkpoint, and a change of it until the resume refuses the call."""
    gate = ToolCallGate([refund, get_order], CONFIG, journal=str(tmp_path / "journal"))
    gate.recover()

    flow = reviewed(gate)
    run: Any = {"configurable": {"thread_id": "1"}}
    seen = flow.invoke({"messages": []}, run)["interlock_seen"]
    assert seen == {"call_1": {"effect": "refund", "key": "881", "facts": {"refunded": 0}}}
    if changed:
        ORDER["refunded"] = 5
    told = flow.invoke(Command(resume=True), run)["messages"][-1]
    assert (told.status, SENT) == (("error", []) if changed else ("success", [("881", 20)]))
    assert [(one.name, list(one.args)) for one in gate.offered] == [
        ("refund", ["order", "amount"]),
        ("get_order", ["order"]),
    ]
    gate.close()


def test_a_thread_that_goes_back_to_before_the_question_is_decided_anew(tmp_path: Path) -> None:
    """An approval that is refused for changed facts stays refused; asked again from before, under the same call id, it is a new one."""
    gate = ToolCallGate([refund, get_order], CONFIG, journal=str(tmp_path / "journal"))
    gate.recover()
    flow = reviewed(gate)
    run: Any = {"configurable": {"thread_id": "1"}}
    flow.invoke({"messages": []}, run)
    (asked,) = (state for state in flow.get_state_history(run) if state.next == ("ask",))
    (before,) = (state for state in flow.get_state_history(run) if state.next == ("see",))
    ORDER["refunded"] = 5
    for _ in range(2):
        told = flow.invoke(Command(resume=True), asked.config)["messages"][-1]
        assert (told.status, SENT) == ("error", [])
    assert flow.invoke(None, before.config)["interlock_seen"]["call_1"]["facts"] == {"refunded": 5}
    assert flow.invoke(Command(resume=True), run)["messages"][-1].content == "refunded 20"
    assert flow.invoke(Command(resume=True), asked.config)["messages"][-1].content == "refunded 20"
    assert SENT == [("881", 20)]
    gate.close()


@pytest.mark.parametrize("changed", [True, False])
def test_an_effect_node_behind_an_approval(changed: bool, tmp_path: Path) -> None:
    """`seen=` of `effect_node` hands over what a node in front of the approval read."""
    gate = Interlock(tmp_path / "journal")

    @gate.effect(key=lambda order: f"refund:{order}", premises=lambda order: dict(ORDER))
    def refunded(order: str) -> str:
        SENT.append(order)
        return order

    class State(TypedDict, total=False):
        order: str
        seen: dict[str, Any]
        outcome: dict[str, Any]

    graph = StateGraph(State)
    graph.add_node("see", lambda state: {"seen": dict(refunded.proposal(state["order"]).seen or {})})
    graph.add_node("ask", lambda state: interrupt("may it?") and {})
    node = effect_node(refunded, arguments=lambda state: {"order": state["order"]}, seen=lambda state: state["seen"])
    graph.add_node("refund", node)
    for before, after in zip([START, "see", "ask", "refund"], ["see", "ask", "refund", END], strict=True):
        graph.add_edge(before, after)
    flow = graph.compile(checkpointer=InMemorySaver())
    run: Any = {"configurable": {"thread_id": "1"}}
    flow.invoke({"order": "881"}, run)
    if changed:
        ORDER["refunded"] = 5
    outcome = flow.invoke(Command(resume=True), run)["outcome"]["status"]
    assert (outcome, SENT) == (("REFUSED:stale_premise", []) if changed else ("COMMITTED", ["881"]))
    gate.close()
