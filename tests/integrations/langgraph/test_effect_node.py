"""`effect_node`: one effect in a graph's own node, however often LangGraph runs that node."""

from __future__ import annotations

import asyncio
import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, RetryPolicy, Send, interrupt
from pydantic import BaseModel

from interlock import ConfigurationError, EffectFunction, Interlock, NotSent, Rejected
from interlock.integrations.langgraph import ROUTES, effect_node


class State(TypedDict, total=False):
    order: str
    amount: int
    outcome: dict[str, Any]
    seen: Annotated[list[str], operator.add]


class Ledger:
    """What was sent, and what the next send is to raise."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, int]] = []
        self.fails: list[BaseException] = []
        self.tried = 0

    def refund(self, order: str, amount: int) -> dict[str, Any]:
        self.tried += 1
        if self.fails:
            raise self.fails.pop(0)
        self.sent.append((order, amount))
        return {"order": order, "amount": amount}


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def gate(tmp_path: Path) -> Any:
    with Interlock(tmp_path / "journal") as gate:
        gate.recover()
        yield gate


@pytest.fixture
def refund(gate: Interlock, ledger: Ledger) -> EffectFunction[Any]:
    @gate.effect(key=lambda order: f"refund:{order}")
    def refund(order: str, amount: int) -> Any:
        return ledger.refund(order, amount)

    return refund


def arguments(state: State) -> dict[str, Any]:
    return {"order": state["order"], "amount": state["amount"]}


def graph_of(node: Any, *, retry: RetryPolicy | None = None, after: Any = None) -> Any:
    graph = StateGraph(State)
    graph.add_node("refund", node, retry_policy=retry, destinations=tuple(f"to_{route}" for route in ROUTES))
    for route in ROUTES:
        graph.add_node(f"to_{route}", lambda state, route=route: {"seen": [route]})
        graph.add_edge(f"to_{route}", END)
    if after is not None:
        graph.add_node("after", after)
        graph.add_edge("refund", "after")
    graph.add_edge(START, "refund")
    return graph.compile(checkpointer=InMemorySaver())


def thread(name: str = "t") -> Any:
    return {"configurable": {"thread_id": name}}


BY_ROUTE = {route: f"to_{route}" for route in ROUTES}
ASKED: Any = {"order": "881", "amount": 20}


def test_an_effect_that_lands_takes_its_route(refund: Any, ledger: Ledger) -> None:
    """The node does the effect once, writes its result as plain data, and goes to the node named for it."""
    state = graph_of(effect_node(refund, arguments=arguments, routes=BY_ROUTE)).invoke(ASKED, thread())
    assert ledger.sent == [("881", 20)]
    assert state["seen"] == ["landed"]
    assert state["outcome"]["status"] == "COMMITTED"
    assert state["outcome"]["value"] == {"order": "881", "amount": 20}


class Made(BaseModel):
    id: str


def test_a_typed_value_is_kept_as_plain_data(gate: Interlock) -> None:
    """What an effect returns in a class of its own stands in the state as JSON: a checkpoint needs no permission to load that class."""

    @gate.effect(key=lambda order: f"typed:{order}")
    def refund(order: str, amount: int) -> Made:
        return Made(id="re_1")

    for thread_id in ("first", "replay"):
        state = graph_of(effect_node(refund, arguments=arguments, routes=BY_ROUTE)).invoke(ASKED, thread(thread_id))
        assert state["outcome"]["value"] == {"id": "re_1"}


def test_a_refusal_has_no_value(refund: Any) -> None:
    """Other arguments under one key are refused, and what the first call returned is not told as the value of this one."""
    graph_of(effect_node(refund, arguments=arguments, routes=BY_ROUTE)).invoke(ASKED, thread("first"))
    other: Any = {"order": "881", "amount": 25}
    state = graph_of(effect_node(refund, arguments=arguments, routes=BY_ROUTE)).invoke(other, thread("second"))
    assert state["outcome"]["status"] == "REFUSED:conflicting_payload"
    assert state["outcome"]["value"] is None


@pytest.mark.parametrize(
    ("raised", "route"),
    [
        (Rejected("card_declined"), "failed"),
        (NotSent("no connection"), "failed"),
        (TimeoutError("no answer"), "ambiguous"),
    ],
)
def test_what_becomes_of_it_decides_the_route(refund: Any, ledger: Ledger, raised: Exception, route: str) -> None:
    """A failure and what nobody can know are routes, never exceptions that end the run."""
    ledger.fails = [raised]
    state = graph_of(effect_node(refund, arguments=arguments, routes=BY_ROUTE)).invoke(ASKED, thread())
    assert state["seen"] == [route]
    assert ledger.sent == []


def test_a_refusal_takes_its_route(gate: Interlock, ledger: Ledger) -> None:
    """What is not allowed is refused, nothing is sent, and "otherwise" stands for what is not named."""

    @gate.effect(key=lambda order: f"refund:{order}", allowed=lambda order: False)
    def forbidden(order: str, amount: int) -> Any:
        return ledger.refund(order, amount)

    routes = {"landed": "to_landed", "otherwise": "to_refused"}
    state = graph_of(effect_node(forbidden, arguments=arguments, routes=routes)).invoke(ASKED, thread())
    assert state["seen"] == ["refused"]
    assert ledger.sent == []


def test_without_routes_the_graphs_own_edges_decide(refund: Any) -> None:
    """Without routes the node only writes its result."""
    node = effect_node(refund, arguments=arguments, result="outcome")
    state = graph_of(node, after=lambda state: {"seen": [state["outcome"]["status"]]}).invoke(ASKED, thread())
    assert state["seen"] == ["COMMITTED"]


def test_node_retry_policy_sends_once(refund: Any, ledger: Ledger) -> None:
    """A node's own RetryPolicy finds nothing to retry: an answer that was lost is an outcome, and is not sent again (langchain#40688)."""
    ledger.fails = [TimeoutError("no answer")]
    retry = RetryPolicy(initial_interval=0.01, jitter=False, retry_on=Exception)
    state = graph_of(effect_node(refund, arguments=arguments, routes=BY_ROUTE), retry=retry).invoke(ASKED, thread())
    assert ledger.tried == 1
    assert state["seen"] == ["ambiguous"]


def test_interrupts_after_the_effect_replay_nothing(refund: Any, ledger: Ledger) -> None:
    """A node that does the effect and then interrupts three times runs four times and sends once (langgraph#7780, rancher-ai-agent#136)."""

    def node(state: State) -> Any:
        outcome = refund(**arguments(state))
        answers = [interrupt(f"question {number}") for number in range(3)]
        return {"seen": [str(outcome.value["amount"]), *answers]}

    graph = StateGraph(State).add_node("node", node).add_edge(START, "node").add_edge("node", END)
    compiled = graph.compile(checkpointer=InMemorySaver())
    state = compiled.invoke(ASKED, thread())
    for number in range(3):
        state = compiled.invoke(Command(resume=f"answer {number}"), thread())
    assert state["seen"] == ["20", "answer 0", "answer 1", "answer 2"]
    assert ledger.sent == [("881", 20)]


def test_an_old_checkpoint_resumed_twice_sends_once(refund: Any, ledger: Ledger) -> None:
    """One checkpoint that waits for an approval, resumed twice, sends once and answers the same (langgraph#6663)."""

    def approve(state: State) -> Any:
        return {"seen": [interrupt("refund it?")]}

    graph = StateGraph(State).add_node("approve", approve)
    graph.add_node("refund", effect_node(refund, arguments=arguments))
    graph.add_edge(START, "approve").add_edge("approve", "refund").add_edge("refund", END)
    compiled = graph.compile(checkpointer=InMemorySaver())
    compiled.invoke(ASKED, thread())
    frozen = compiled.get_state(thread()).config
    states = [compiled.invoke(Command(resume="yes"), frozen) for _ in range(2)]
    assert [state["outcome"]["value"] for state in states] == [{"order": "881", "amount": 20}] * 2
    assert ledger.sent == [("881", 20)]


def test_in_a_subgraph(refund: Any, ledger: Ledger) -> None:
    """The node does its effect inside a subgraph as outside one."""
    inner = StateGraph(State).add_node("refund", effect_node(refund, arguments=arguments))
    inner.add_edge(START, "refund").add_edge("refund", END)
    outer = StateGraph(State).add_node("inner", inner.compile()).add_edge(START, "inner").add_edge("inner", END)
    compiled = outer.compile(checkpointer=InMemorySaver())
    assert compiled.invoke(ASKED, thread("a"))["outcome"]["ok"]
    assert compiled.invoke(ASKED, thread("b"))["outcome"]["status"] == "DUPLICATE_IGNORED"
    assert ledger.sent == [("881", 20)]


def test_sent_to_several_at_once(refund: Any, ledger: Ledger) -> None:
    """Parallel branches (`Send`) of one order send once; those of other orders send their own."""

    def one(state: State) -> Any:
        return {"seen": [str(refund.submit(kwargs=arguments(state), wait=5.0).ok)]}

    def fan(state: State) -> list[Send]:
        return [Send("one", {"order": order, "amount": 20}) for order in ("881", "881", "882")]

    graph = StateGraph(State).add_node("one", one).add_conditional_edges(START, fan, ["one"]).add_edge("one", END)
    state = graph.compile().invoke({"order": "", "amount": 0})
    assert state["seen"] == ["True"] * 3
    assert sorted(ledger.sent) == [("881", 20), ("882", 20)]


def test_async_effect_makes_an_async_node(gate: Interlock, ledger: Ledger) -> None:
    """An async effect runs in the graph's own event loop."""

    @gate.effect(key=lambda order: f"refund:{order}")
    async def arefund(order: str, amount: int) -> Any:
        await asyncio.sleep(0)
        return ledger.refund(order, amount)

    graph = graph_of(effect_node(arefund, arguments=arguments, routes=BY_ROUTE))
    assert asyncio.run(graph.ainvoke(ASKED, thread()))["seen"] == ["landed"]
    assert ledger.sent == [("881", 20)]


def test_ids_of_the_run_are_on_the_record(refund: Any, gate: Interlock) -> None:
    """The thread and the node stand on the record as evidence; the key is the request's."""
    state = graph_of(effect_node(refund, arguments=arguments, routes=BY_ROUTE)).invoke(ASKED, thread("thread-7"))
    proposed = gate.journal.load(state["outcome"]["effect_id"]).entries[0].data
    assert proposed["key"] == "refund:881"
    assert proposed["origin"]["thread_id"] == "thread-7"
    assert proposed["origin"]["langgraph_node"] == "refund"


@pytest.mark.parametrize(
    ("routes", "said"),
    [
        ({"landed": "a", "refusd": "b", "otherwise": "c"}, "refusd"),
        ({"landed": "a"}, "refused"),
    ],
)
def test_routes_are_checked_at_the_door(refund: Any, routes: dict[str, str], said: str) -> None:
    """A route that does not exist, and an outcome without a route, are refused when the graph is made."""
    with pytest.raises(ConfigurationError, match=said):
        effect_node(refund, arguments=arguments, routes=routes)


@pytest.mark.parametrize("named", [True, False])
def test_a_refusal_stands_for_its_decision(named: bool, gate: Interlock, ledger: Ledger) -> None:
    """The node runs again under one decision, and is refused again; another decision, by its name or by what was seen, is judged anew."""
    total = {"total": 0}

    @gate.effect(key=lambda order: f"refund:{order}", premises=lambda order: dict(total))
    def refund(order: str, amount: int) -> Any:
        return ledger.refund(order, amount)

    decision: Any = (lambda state: state["approval"]) if named else None
    node = effect_node(refund, arguments=arguments, decision=decision, seen=lambda state: state["facts"])

    class Decided(State, total=False):
        approval: str
        facts: dict[str, Any]

    graph = StateGraph(Decided)
    graph.add_node("refund", node)
    graph.add_edge(START, "refund")
    graph.add_edge("refund", END)
    flow = graph.compile()
    total["total"] = 5
    stale = {"order": "881", "amount": 20, "approval": "a", "facts": {"total": 0}}
    for _ in range(2):
        assert flow.invoke(stale)["outcome"]["status"] == "REFUSED:stale_premise"
    if named:
        assert flow.invoke({**stale, "facts": {"total": 5}})["outcome"]["status"] == "REFUSED:stale_premise"
    assert flow.invoke({**stale, "approval": "b", "facts": {"total": 5}})["outcome"]["status"] == "COMMITTED"
    assert flow.invoke(stale)["outcome"]["status"] == "DUPLICATE_IGNORED"
    assert ledger.sent == [("881", 20)]


def test_a_plain_function_is_refused() -> None:
    """What was not declared as an effect cannot be a gated node."""
    with pytest.raises(ConfigurationError, match=r"gate\.effect"):
        effect_node(print, arguments=arguments)


def test_a_ready_made_effect_is_a_node(gate: Interlock, tmp_path: Path) -> None:
    """`stripe_refund` as a node refunds once, however often the graph runs."""
    from benchmarks.services.stripe import LocalStripe
    from interlock.targets.stripe import stripe_refund

    with LocalStripe(tmp_path / "stripe") as service:
        client = service.client()
        asked: Any = {
            "amount": 10000,
            "currency": "usd",
            "payment_method": "pm_card_visa",
            "confirm": True,
            "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
        }
        payment = client.v1.payment_intents.create(asked).id
        refund = stripe_refund(gate, client, key=lambda case: f"refund:{case}", name="stripe")
        node = effect_node(
            refund, arguments=lambda state: {"case": state["order"], "amount": state["amount"]}, routes=BY_ROUTE
        )
        graph = graph_of(node)
        states = [graph.invoke({"order": payment, "amount": 2000}, thread(name)) for name in ("a", "b")]
        assert [state["seen"] for state in states] == [["landed"], ["landed"]]
        assert service.refunded(payment) == (2000, 1)


def test_a_ready_made_effect_gets_decision_and_facts(gate: Interlock, tmp_path: Path) -> None:
    """Somebody refunds by hand what an approver saw unrefunded: refused. Another approval, which has seen that, is judged anew."""
    from benchmarks.services.stripe import LocalStripe
    from interlock.targets.stripe import stripe_refund

    class Decided(State, total=False):
        approval: str
        facts: Any

    with LocalStripe(tmp_path / "stripe") as service:
        client = service.client()
        asked: Any = {
            "amount": 10000,
            "currency": "usd",
            "payment_method": "pm_card_visa",
            "confirm": True,
            "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
        }
        payment = client.v1.payment_intents.create(asked).id
        refund = stripe_refund(gate, client, key=lambda case: f"refund:{case}", name="stripe")
        node = effect_node(
            refund,
            arguments=lambda state: {"case": state["order"], "amount": state["amount"]},
            decision=lambda state: state["approval"],
            seen=lambda state: state["facts"],
        )
        graph = StateGraph(Decided)
        graph.add_node("refund", node)
        graph.add_edge(START, "refund")
        graph.add_edge("refund", END)
        flow = graph.compile()
        first = refund.proposal(payment, amount=2000).seen
        client.v1.refunds.create({"payment_intent": payment, "amount": 2000})
        given = {"order": payment, "amount": 2000, "approval": "a", "facts": first}
        assert flow.invoke(given)["outcome"]["status"] == "REFUSED:stale_premise"
        second = refund.proposal(payment, amount=2000, decision="b").seen
        assert flow.invoke({**given, "facts": second})["outcome"]["status"] == "REFUSED:stale_premise"
        assert flow.invoke({**given, "approval": "b", "facts": second})["outcome"]["status"] == "COMMITTED"
        assert service.refunded(payment) == (4000, 2)
