"""OpenAI's client with a service that is played: it asks for the refund, and is done once it was told the result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
from openai import OpenAI
from openai.lib.responses_tool_runner import RegisteredFunction, ResponsesToolLedger, ResponsesToolRunner


def registered(function: Any, **properties: str) -> RegisteredFunction:
    """A function of the shop, as the runner registers it."""
    schema = {"type": "object", "properties": {name: {"type": kind} for name, kind in properties.items()}}
    name = function.__name__
    tool: Any = {"type": "function", "name": name, "description": function.__doc__, "parameters": schema}
    return RegisteredFunction({**tool, "strict": False}, execute=lambda given: json.dumps(function(**given)))


def ask(functions: Any, reconcile: Any, file: Path, amount: int) -> None:
    """Let the SDK's runner work on one request, or go on from what its ledger saved before the process died."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        told = [item for item in json.loads(request.content)["input"] if item.get("type") == "function_call_output"]
        for item in told:
            print(f"  the model is told: {item['output']}", flush=True)
        call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed"}
        call |= {"name": "create_refund", "arguments": json.dumps({"order_id": "881", "amount": amount})}
        text = {"type": "output_text", "text": "done", "annotations": []}
        done = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
        response = {"id": "resp_1", "object": "response", "created_at": 0, "status": "completed", "model": "played"}
        response |= {"output": [done if told else call], "parallel_tool_calls": True, "tool_choice": "auto"}
        return httpx2.Response(200, json={**response, "tools": []})

    saved = json.loads(file.read_text()) if file.exists() else None
    ledger = ResponsesToolLedger(
        run_id=file.stem,
        save=lambda checkpoint: bool(file.write_text(json.dumps(checkpoint))),
        resume_from=reconcile(saved) if saved else None,
    )
    params: Any = {"model": "played", "input": [{"role": "user", "content": "refund order 881"}]}
    with OpenAI(api_key="none", http_client=httpx2.Client(transport=httpx2.MockTransport(answer))) as client:
        ResponsesToolRunner(functions=functions).run(client, params, max_steps=4, ledger=ledger)
