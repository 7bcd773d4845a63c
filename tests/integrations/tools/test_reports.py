"""Faults that people reported, of the kind that no one framework is to blame for: approvals, caps, keys that a model makes."""

from __future__ import annotations

import hashlib
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from interlock import BadInput, ConfigurationError, Interlock, NotSent
from interlock.extend import Effect, ToolGate
from interlock.rules.canonical import derive_id
from interlock.testing import SimulatedCrash
from interlock.testing.ledger import RefundService
from interlock.tools import protect


def gate_of(service: RefundService, tmp_path: Path, **options: Any) -> ToolGate:
    """`create_refund` and `close_account` behind one gate, on one service."""

    def create_refund(arguments: dict[str, Any], context: Any, idempotency_key: str = "") -> Any:
        return service.create_refund(arguments["order_id"], arguments["amount"], idempotency_key)

    def close_account(arguments: dict[str, Any], context: Any, idempotency_key: str = "") -> Any:
        return service.create_refund(f"account-{arguments['order_id']}", arguments["amount"], idempotency_key)

    how = Effect(key=lambda order_id: f"order:{order_id}", **options)
    tools = {"create_refund": create_refund, "close_account": close_account}
    return ToolGate(dict.fromkeys(tools, how), tools=tools, journal=tmp_path / "journal")


def test_an_approval_of_one_tool_lets_no_other_through(tmp_path: Path) -> None:
    """An approval is bound to its effect's id: given to a parallel call of another tool it permits nothing (langgraph#6533)."""
    service = RefundService(tmp_path / "service")
    approved: set[str] = set()
    with gate_of(service, tmp_path, allowed=lambda idempotency_key: idempotency_key in approved) as gate:
        approved.add(derive_id("create_refund", "order:881"))
        misrouted = gate.call("close_account", {"order_id": "881", "amount": 20}, decision="approval-1")
        meant = gate.call("create_refund", {"order_id": "881", "amount": 20}, decision="approval-1")
    assert (str(misrouted.outcome), str(meant.outcome)) == ("REFUSED:lease", "COMMITTED")
    assert service.arrivals("account-881") == 0


def test_what_an_approval_refers_to_is_a_premise(tmp_path: Path) -> None:
    """A script that is changed while its approval is pending is not run: its digest is compared with the one approved (openclaw#124738)."""
    script, ran = tmp_path / "script.sh", []

    def digest(path: str) -> dict[str, str]:
        return {"sha256": hashlib.sha256(Path(path).read_bytes()).hexdigest()}

    with Interlock(tmp_path / "journal") as gate:

        @gate.effect(key=lambda path: f"run:{path}", premises=digest)
        def run(path: str, idempotency_key: str) -> str:
            ran.append(Path(path).read_text())
            return "done"

        script.write_text("echo hello")
        seen = digest(str(script))
        script.write_text("rm -r /")
        assert str(run(str(script), seen=seen)) == "REFUSED:stale_premise"
        assert ran == []
        assert str(run.submit((str(script),), decision="read again", seen=digest(str(script)))) == "COMMITTED"


def test_an_approval_is_not_used_up_by_what_was_certainly_not_sent(tmp_path: Path) -> None:
    """An approved call that never left may be made again under the same approval, and once it landed it may not (agenta#5592)."""
    sends: list[str] = []

    def create_refund(arguments: dict[str, Any], context: Any, idempotency_key: str = "") -> Any:
        sends.append(idempotency_key)
        if len(sends) == 1:
            raise NotSent("no connection")
        return {"id": "re_1"}

    how = Effect(key=lambda order_id: order_id)
    with ToolGate({"create_refund": how}, tools={"create_refund": create_refund}, journal=tmp_path / "journal") as gate:
        first, second, third = (
            gate.call("create_refund", {"order_id": "881"}, decision="approval-1") for _ in range(3)
        )
    assert str(first.outcome).startswith("FAILED")
    assert "can be tried again" in first.message
    assert (second.ok, str(third.outcome), len(sends)) == (True, "DUPLICATE_IGNORED", 2)


def test_approvals_are_single_use_time_bound_and_bound_to_parameters(tmp_path: Path) -> None:
    """One approval moves one amount, once, and not after its time (AISVS#272)."""
    service, until = RefundService(tmp_path / "service"), {"881": time.time() + 60, "882": time.time() - 1}
    with gate_of(service, tmp_path, allowed=lambda order_id: time.time() < until[order_id]) as gate:
        said = [
            str(gate.call("create_refund", {"order_id": order, "amount": amount}, decision="approval-1").outcome)
            for order, amount in (("881", 20), ("881", 20), ("881", 30), ("882", 20))
        ]
    assert said == ["COMMITTED", "DUPLICATE_IGNORED", "REFUSED:conflicting_payload", "REFUSED:lease"]
    assert [refund["amount"] for refund in service.refunds()] == [20]


def test_parallel_calls_keep_within_a_cap(tmp_path: Path) -> None:
    """Calls at the same moment cannot each find room under one cap: it is reserved before the send, not counted after it (gbrain#4365)."""
    service = RefundService(tmp_path / "service")
    for order in "1234":
        service.lay("slow", order_id=order, delay_s=0.2)

    def create_refund(arguments: dict[str, Any], context: Any, idempotency_key: str = "") -> Any:
        return service.create_refund(arguments["order_id"], arguments["amount"], idempotency_key)

    how = {"key": ["order_id"], "budget": {"key": "day", "limit": 50, "amount": "amount"}}
    tools, said = {"create_refund": create_refund}, []
    with ToolGate({"tools": {"create_refund": how}}, tools=tools, journal=tmp_path / "journal") as gate:
        threads = [
            threading.Thread(
                target=lambda order=order: said.append(gate.call("create_refund", {"order_id": order, "amount": 30}))
            )
            for order in "1234"
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert len(said) == 4
    assert sum(refund["amount"] for refund in service.refunds()) <= 50
    assert [answer.ok for answer in said].count(True) == 1
    refused = [answer for answer in said if not answer.ok]
    assert all("Do not split it up" in answer.message or "still under way" in answer.message for answer in refused)


def test_a_retried_task_with_reworded_arguments_is_one_request(tmp_path: Path) -> None:
    """A retry that rewrites the prompt, and so the arguments, is still the same request: the key is the order's (crewAI#5802)."""
    service = RefundService(tmp_path / "service")
    with gate_of(service, tmp_path, binds=["order_id", "amount"]) as gate:
        first = gate.call("create_refund", {"order_id": "881", "amount": 20, "note": "broken"})
        again = gate.call("create_refund", {"order_id": "881", "amount": 20, "note": "arrived damaged"})
    assert first.value == again.value
    assert service.arrivals("881") == 1


@pytest.mark.parametrize("made_up", [{}, {"reference": "a"}, {"reference": "b"}], ids=["left out", "one", "another"])
def test_the_gate_fills_in_the_key_whatever_a_model_makes_of_it(made_up: dict[str, str], tmp_path: Path) -> None:
    """A model leaves the key out or makes a new one with each retry: the service gets the gate's own, once (composio#3654)."""
    service = RefundService(tmp_path / "service")

    def create_refund(order_id: str, amount: int, reference: str = "") -> Any:
        return service.create_refund(order_id, amount, reference)

    config = {"tools": {"create_refund": {"key": ["order_id"], "idempotency_argument": "reference"}}}
    for given in ({}, made_up):
        tools = protect([create_refund], config, journal=tmp_path / "journal")
        tools.recover()
        assert tools["create_refund"](order_id="881", amount=20, **given)["ok"]
        tools.gate.close()
    assert [refund["reference"] for refund in service.refunds()] == [derive_id("create_refund", "881")]


@pytest.mark.parametrize(
    "since",
    [{}, {"until": -1.0}, {"revoked": True}, {"by": "mallory"}],
    ids=["still good", "expired", "revoked", "resolved by somebody else"],
)
@pytest.mark.parametrize("crashes", [False, True])
def test_an_approval_is_judged_at_the_send_and_by_who_gave_it(
    since: dict[str, Any], crashes: bool, tmp_path: Path
) -> None:
    """Validity and approver are read right before the send and after a crash, not at the decision alone (mcp-hangar#674, #665)."""
    approval: dict[str, Any] = {"by": "ann", "revoked": False, "until": 60.0}
    sent: list[str] = []

    def permitted(order: str) -> bool:
        return approval["by"] in ("ann", "bob") and not approval["revoked"] and approval["until"] > 0

    def declared() -> tuple[Interlock, Any]:
        gate = Interlock(tmp_path / "journal")

        @gate.effect(key=lambda order: order, allowed=permitted, lookup=lambda idempotency_key: None, settle_after=0)
        def refund(order: str, idempotency_key: str) -> str:
            sent.append(order)
            return "re_1"

        return gate, refund

    gate, refund = declared()
    with gate:
        proposal = refund.proposal("881", decision="approval-1")
        if crashes:
            with pytest.raises(SimulatedCrash):
                gate.submit(proposal, crash_before_effect=True)
    approval.update(since)
    gate, refund = declared()
    with gate:
        outcome = next(iter(gate.recover())) if crashes else gate.submit(proposal)
    assert outcome.ok is not bool(since)
    assert outcome.ok or str(outcome).startswith("REFUSED:lease")
    assert sent == ([] if since else ["881"])


@pytest.mark.parametrize("named", ["idempotency_key", "context"])
def test_a_key_is_not_made_of_what_a_model_or_a_framework_mints(named: str, tmp_path: Path) -> None:
    """A key that names the framework's object or the id made from it is refused at the door (composio#3654)."""
    keys = {"idempotency_key": lambda idempotency_key: idempotency_key, "context": lambda context: str(context)}
    with pytest.raises(ConfigurationError, match=f"key= names '{named}'"):
        ToolGate({"t": Effect(key=keys[named])}, tools={"t": lambda arguments, context: 1}, journal=tmp_path / "j")


def test_a_key_of_an_argument_that_is_left_out_is_told(tmp_path: Path) -> None:
    """A key that names an ignored argument which a call leaves out is the caller's to correct, in words."""
    with Interlock(tmp_path / "journal") as gate:

        @gate.effect(key=lambda order, run: f"{order}:{run}", ignore=("run",))
        def refund(order: str, idempotency_key: str, run: str = "") -> str:
            return "done"

        with pytest.raises(BadInput, match="key= names 'run', which this call leaves out"):
            refund("881")
