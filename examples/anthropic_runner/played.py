"""Anthropic's client with a service that is played: it asks for the refund, and is done once it was told the result."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import httpx2
from anthropic import Anthropic


def ask(tools: Any, amount: int) -> None:
    """Let the SDK's tool runner work on one request, and print what the model is told."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        last = json.loads(request.content)["messages"][-1]["content"]
        told = [block for block in last if isinstance(block, dict) and block["type"] == "tool_result"]
        for block in told:
            print(f"  the model is told: {block['content']}", flush=True)
        call = {
            "type": "tool_use",
            "id": "toolu_1",
            "name": "create_refund",
            "input": {"order_id": "881", "amount": amount},
        }
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "played",
            "content": [{"type": "text", "text": "done"}] if told else [call],
            "stop_reason": "end_turn" if told else "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        return httpx2.Response(200, json=message)

    with Anthropic(api_key="none", http_client=httpx2.Client(transport=httpx2.MockTransport(answer))) as client:
        runner = client.beta.messages.tool_runner(
            model="played", max_tokens=100, messages=[{"role": "user", "content": "refund order 881"}], tools=tools
        )
        runner.until_done()


def as_text(function: Callable[..., Any]) -> Callable[..., str]:
    """The function as a tool of the runner has to be: one that answers with text."""

    @functools.wraps(function)
    def answer(**arguments: Any) -> str:
        return json.dumps(function(**arguments))

    return answer
