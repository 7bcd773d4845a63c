"""The reader's OpenAI client, which the page on OpenAI's runner calls but does not define; the service behind it is played.

A model that is asked "refund 20 for order 881" calls `create_refund`, and is done once it was told the result.
"""

from __future__ import annotations

import json
import re
from typing import Any

import httpx2
from openai import OpenAI


def played_client() -> OpenAI:
    """A client whose service answers in this process."""
    return OpenAI(api_key="none", http_client=httpx2.Client(transport=httpx2.MockTransport(_answer)))


def _answer(request: httpx2.Request) -> httpx2.Response:
    items = json.loads(request.content)["input"]
    asked = items if isinstance(items, str) else next(item["content"] for item in items if item.get("role") == "user")
    is_told = not isinstance(items, str) and any(item.get("type") == "function_call_output" for item in items)
    amount, order = re.findall(r"\d+", str(asked))
    arguments = json.dumps({"order_id": order, "amount": int(amount)})
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed"}
    call |= {"name": "create_refund", "arguments": arguments}
    text = {"type": "output_text", "text": "done", "annotations": []}
    done = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    response: dict[str, Any] = {"id": "resp_1", "object": "response", "created_at": 0, "status": "completed"}
    response |= {"model": "played", "output": [done if is_told else call], "parallel_tool_calls": True}
    return httpx2.Response(200, json={**response, "tool_choice": "auto", "tools": []})
