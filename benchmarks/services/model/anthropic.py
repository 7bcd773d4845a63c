"""Anthropic's Messages API, as far as the script needs it (docs.anthropic.com/en/api/messages, .../messages-streaming).

PURE: a request's JSON to a turn, a reply to the answer's JSON or its events.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.services.model.script import BadRequest, Reply, Turn

Json = dict[str, Any]


def read(body: Json) -> Turn:
    """The request in plain form.

    Raises:
        BadRequest: It lacks what the API requires.
    """
    for name in ("model", "messages", "max_tokens"):
        if name not in body:
            raise BadRequest(f"{name}: Field required")
    texts, results, names = [_text(body.get("system", ""))], [], {}
    for message in body["messages"]:
        for block in _blocks(message["content"]):
            match block["type"]:
                case "text":
                    texts.append(block["text"])
                case "tool_use":
                    names[block["id"]] = block["name"]
                case "tool_result":
                    if block["tool_use_id"] not in names:
                        raise BadRequest(f"unexpected tool_use_id found in tool_result blocks: {block['tool_use_id']}")
                    results.append((names[block["tool_use_id"]], _text(block.get("content", ""))))
                case other:
                    raise BadRequest(f"a block of type {other!r} is not modelled")
    tools = {tool["name"]: list(tool["input_schema"].get("properties", {})) for tool in body.get("tools", [])}
    return Turn(text="\n".join(texts), tools=tools, results=results)


def write(body: Json, reply: Reply) -> Json:
    """The answer."""
    block: Json = {"type": "text", "text": reply.text}
    if reply.tool:
        block = {"type": "tool_use", "id": f"toolu_{reply.call_id}", "name": reply.tool, "input": dict(reply.arguments)}
    return {
        "id": f"msg_{reply.call_id}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [block],
        "stop_reason": "tool_use" if reply.tool else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def stream(body: Json, reply: Reply) -> Iterator[str]:
    """The answer as server-sent events."""
    whole = write(body, reply)
    block = whole["content"][0]
    yield _event("message_start", message={**whole, "content": [], "stop_reason": None})
    empty = {**block, "input": {}} if reply.tool else {**block, "text": ""}
    yield _event("content_block_start", index=0, content_block=empty)
    delta = (
        {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        if reply.tool
        else {"type": "text_delta", "text": block["text"]}
    )
    yield _event("content_block_delta", index=0, delta=delta)
    yield _event("content_block_stop", index=0)
    yield _event(
        "message_delta", delta={"stop_reason": whole["stop_reason"], "stop_sequence": None}, usage={"output_tokens": 1}
    )
    yield _event("message_stop")


def refuse(message: str) -> Json:
    """The body of a 400."""
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


def _event(kind: str, **fields: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"


def _blocks(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _text(content: Any) -> str:
    return "\n".join(block.get("text", "") for block in _blocks(content))
