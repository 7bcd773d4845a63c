"""`ResponsesToolRunner` behind the gate, on the real SDK and a local service that speaks the Responses API."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI, pydantic_responses_function_tool
from openai.lib.responses_tool_runner import (
    AsyncRegisteredFunction,
    RegisteredFunction,
    ResponsesToolLedger,
    ResponsesToolRunner,
)
from pydantic import BaseModel

from interlock import BadInput, ConfigurationError
from interlock.integrations.openai import protect_functions
from interlock.testing.ledger import RefundService


class create_refund(BaseModel):
    """Refund an order."""

    order_id: str
    amount: int


class find_refund(BaseModel):
    """Find a refund."""

    reference: str


CONFIG: dict[str, Any] = {
    "tools": {
        "create_refund": {
            "key": ["order_id"],
            "lookup": {"tool": "find_refund", "arguments": {"reference": "$effect_id"}, "found": "found"},
            "settle_after": 0.05,
        }
    }
}


class Died(BaseException):
    """The process dies here, as far as the runner and the gate can tell."""


class Scripted(BaseHTTPRequestHandler):
    """Calls create_refund until an output for it is in the input; then it is done."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        outputs = [item for item in body["input"] if item.get("type") == "function_call_output"]
        item: dict[str, Any] = {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "create_refund",
            "arguments": '{"order_id": "881", "amount": 20}',
            "status": "completed",
        }
        if outputs:
            text = {"type": "output_text", "text": outputs[-1]["output"], "annotations": []}
            item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
        answer = json.dumps(
            {"id": "resp_1", "object": "response", "created_at": 0, "status": "completed", "model": "scripted", "output": [item],
             "parallel_tool_calls": False, "tool_choice": "auto", "tools": []}
        ).encode()  # fmt: skip
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


@pytest.fixture
def client() -> Iterator[OpenAI]:
    """The SDK on a scripted model."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield OpenAI(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="x")
    server.shutdown()
    server.server_close()


def functions(service: RefundService, dies: list[str] | None = None) -> list[RegisteredFunction]:
    """The runner's functions over a refund service; `dies` says where, once."""

    def refund(arguments: Any, idempotency_key: str = "") -> str:
        where = dies.pop() if dies else ""
        if where == "before":
            raise Died
        made = service.create_refund(arguments.order_id, arguments.amount, idempotency_key)
        if where == "after":
            raise Died
        return json.dumps(made)

    def find(arguments: Any) -> str:
        return json.dumps(service.find_refund(arguments.reference))

    return [
        RegisteredFunction.from_tool(pydantic_responses_function_tool(create_refund), execute=refund),
        RegisteredFunction.from_tool(pydantic_responses_function_tool(find_refund), execute=find),
    ]


def run(client: OpenAI, protected: Any, saved: list[Any], resume: Any = None) -> str:
    """Run the runner with a ledger; the final text."""
    ledger = ResponsesToolLedger(run_id="run-1", save=saved.append, resume_from=resume)
    params: Any = {"model": "scripted", "input": [{"role": "user", "content": "refund 881"}], "tools": []}
    return ResponsesToolRunner(functions=list(protected)).run(client, params, max_steps=4, ledger=ledger).output_text


def test_runner_lands_once_and_replays(client: OpenAI, tmp_path: Path) -> None:
    """A run refunds once, and a second run of the same request is told the first refund."""
    service = RefundService(tmp_path / "service")
    protected = protect_functions(functions(service), CONFIG, journal=tmp_path / "journal")
    protected.recover()
    first, second = run(client, protected, []), run(client, protected, [])
    assert first == second
    assert len(service.refunds()) == 1
    protected.close()


@pytest.mark.parametrize("where", ["before", "after"])
def test_pending_ledger_is_reconciled(where: str, client: OpenAI, tmp_path: Path) -> None:
    """A run that died in the call leaves a pending checkpoint; reconciled through the gate it resumes, and there is one refund."""
    service = RefundService(tmp_path / "service")
    saved: list[Any] = []
    protected = protect_functions(functions(service, [where]), CONFIG, journal=tmp_path / "journal")
    with pytest.raises(Died):
        run(client, protected, saved)
    protected.close()
    assert saved[-1]["phase"] == "pending"

    again = protect_functions(functions(service), CONFIG, journal=tmp_path / "journal")
    again.recover()
    with pytest.raises(ValueError, match="reconcile pending work"):
        run(client, again, [], resume=saved[-1])
    boundary = again.reconcile(saved[-1])
    assert boundary["revision"] == saved[-1]["revision"] + 1, (
        "whoever keeps checkpoints by it would take it for the old one"
    )
    text = run(client, again, [], resume=boundary)
    (refund,) = service.refunds()
    assert refund["id"] in text
    assert again.reconcile(boundary) == boundary
    again.close()


def test_unknown_function_is_refused_when_it_is_built(tmp_path: Path) -> None:
    """A gated function that was left out is refused at once."""
    with pytest.raises(ConfigurationError, match="was not handed over"):
        protect_functions(functions(RefundService(tmp_path))[1:], CONFIG, journal=tmp_path / "journal")


class Typed(BaseModel):
    """Refund an order."""

    order_id: str
    amount: int
    reference: str
    note: str = ""


CALL: dict[str, Any] = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "Typed",
    "status": "completed",
}


def pending(*calls: dict[str, Any]) -> Any:
    """A checkpoint of a run that stopped before these calls."""
    return {
        "version": 1, "run_id": "run-1", "revision": 3, "phase": "pending", "max_steps": 4, "consumed_requests": 1, "tools": [],
        "output_override_names": [], "history": [], "attempted_call_ids": [], "returned_call_ids": [],
        "pending_items": list(calls), "returned_outputs": [], "final_response": None,
    }  # fmt: skip


def typed(service: RefundService, tmp_path: Path, **options: Any) -> Any:
    """A function of a pydantic model, gated, whose `reference` the gate fills in."""

    def execute(call: Typed, cancelled: Any = None) -> Any:
        made = service.create_refund(call.order_id, call.amount, call.reference, call.note)
        return [{"type": "input_text", "text": json.dumps(made)}]

    function = RegisteredFunction.from_tool(pydantic_responses_function_tool(Typed), execute=execute)
    gated = {"key": ["order_id"], "idempotency_argument": "reference", **options}
    return protect_functions([function], {"tools": {"Typed": gated}}, journal=tmp_path / "journal")


def test_models_arguments_that_do_not_fit_are_told_and_a_fit_call_lands(tmp_path: Path) -> None:
    """Arguments that the function's model does not take are an answer for the model, not the end of the run; nothing is sent for them."""
    service = RefundService(tmp_path / "service")
    with_contents = typed(service, tmp_path)
    (function,) = with_contents
    assert set(function.tool["parameters"]["properties"]) == {"order_id", "amount", "note"}
    assert "reference" not in function.tool["parameters"]["required"]
    told = function.execute({"order_id": "881", "amount": "many"})
    assert "amount" in told
    assert "Correct the arguments" in told
    told = function.execute({"order_id": "881", "amount": 20, "urgency": "high"})
    assert "has no argument 'urgency'; it has: order_id, amount, note." in told
    assert service.refunds() == []
    first = function.execute({"order_id": "881", "amount": 20})
    again = function.execute({"order_id": "881", "amount": 20, "note": "", "reference": "of the model"})
    (refund,) = service.refunds()
    assert first == again == [{"type": "input_text", "text": json.dumps(refund)}], (
        "its output blocks, also on the replay"
    )
    assert refund["reference"] not in ("", "interlock", "of the model")
    with_contents.close()


def test_malformed_pending_call_is_told_and_a_declined_one_is_not_made(tmp_path: Path) -> None:
    """A pending call without valid JSON becomes a sentence for the model; one that a person declined is never made."""
    service = RefundService(tmp_path / "service")
    functions_ = typed(service, tmp_path)
    boundary = functions_.reconcile(pending({**CALL, "arguments": '{"order_id": '}))
    assert "not valid JSON" in boundary["history"][-1]["output"]
    wanted = pending({**CALL, "arguments": '{"order_id": "881", "amount": 20}'})
    boundary = functions_.reconcile(wanted, declined={"call_1": "No."})
    assert boundary["history"][-1] == {"type": "function_call_output", "call_id": "call_1", "output": "No."}
    assert service.arrivals("881") == 0
    with pytest.raises(BadInput, match="which is not pending"):
        functions_.reconcile(wanted, declined={"call_2": "No."})
    with pytest.raises(BadInput, match="a pending computer_call cannot be settled"):
        functions_.reconcile(pending({"type": "computer_call", "call_id": "call_9"}))
    functions_.close()


class order_total(BaseModel):
    """Look at what was refunded."""

    order_id: str


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_what_an_approver_saw_names_the_decision(is_async: bool, tmp_path: Path) -> None:
    """A call that was approved on facts that changed stays refused; the same call, approved on what they are now, is made."""
    service, total = RefundService(tmp_path / "service"), {"total": 0}

    def refund(call: Typed) -> str:
        return json.dumps(service.create_refund(call.order_id, call.amount, call.reference))

    made = protect_functions(
        [
            RegisteredFunction.from_tool(pydantic_responses_function_tool(Typed), execute=refund),
            RegisteredFunction.from_tool(pydantic_responses_function_tool(order_total), execute=lambda call: total),
        ],
        {
            "tools": {
                "Typed": {
                    "key": ["order_id"],
                    "idempotency_argument": "reference",
                    "premises": {"tool": "order_total", "arguments": {"order_id": "order_id"}, "fields": "total"},
                }
            }
        },
        journal=tmp_path / "journal",
    )
    paused = pending({**CALL, "arguments": '{"order_id": "881", "amount": 20}'})

    def told(seen: dict[str, Any]) -> str:
        settled = asyncio.run(made.areconcile(paused, seen=seen)) if is_async else made.reconcile(paused, seen=seen)
        return str(settled["history"][-1]["output"])

    before = made.see(paused)
    total["total"] = 5
    now = made.see(paused)
    assert [told(before).startswith("Refused: the facts changed") for _ in range(2)] == [True, True]
    assert service.refunds() == []
    answer = json.loads(told(now))
    assert service.refunds() == [answer]
    made.close()


async def test_pending_ledger_of_the_async_runner_is_reconciled_on_the_loop(tmp_path: Path) -> None:
    """With async functions areconcile() settles a gated call once and runs one without a gate; the ids of call and run are recorded."""
    service = RefundService(tmp_path / "service")

    async def refund(call: Typed) -> str:
        return json.dumps(await service.acreate_refund(call.order_id, call.amount, call.reference))

    async def find(call: find_refund) -> str:
        return json.dumps(service.find_refund(call.reference))

    made = protect_functions(
        [
            AsyncRegisteredFunction.from_tool(pydantic_responses_function_tool(Typed), execute=refund),
            AsyncRegisteredFunction.from_tool(pydantic_responses_function_tool(find_refund), execute=find),
        ],
        {"tools": {"Typed": {"key": ["order_id"], "idempotency_argument": "reference"}}},
        journal=tmp_path / "journal",
    )
    looked = {**CALL, "id": "fc_2", "call_id": "call_2", "name": "find_refund", "arguments": '{"reference": "r"}'}
    checkpoint = pending({**CALL, "arguments": '{"order_id": "881", "amount": 20}'}, looked)
    with pytest.raises(ConfigurationError, match="acall"):
        made.reconcile(checkpoint)
    first, again = await made.areconcile(checkpoint), await made.areconcile(checkpoint)
    (stands,) = service.refunds()
    assert first == again
    assert json.loads(first["history"][-2]["output"]) == stands
    assert json.loads(first["history"][-1]["output"]) == {"found": False, "refund": None}
    origin = made.gate.interlock.journal.load(stands["reference"]).entries[0].data["origin"]
    assert origin == {"call_id": "call_1", "run_id": "run-1"}
    made.close()
