"""OpenAI's Responses API, as far as the script needs it (platform.openai.com/docs/api-reference/responses).

PURE: a request's JSON to a turn, a reply to the answer's JSON or its events. `previous_response_id` is refused: this model keeps
nothing, so the whole conversation comes with each request.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.services.model.openai_chat import refuse as refuse
from benchmarks.services.model.openai_chat import text_of
from benchmarks.services.model.script import BadRequest, Reply, Turn

Json = dict[str, Any]


def read(body: Json) -> Turn:
    """The request in plain form.

    Raises:
        BadRequest: It lacks what the API requires, or relies on a stored conversation.
    """
    if "model" not in body:
        raise BadRequest("Missing required parameter: 'model'.")
    if body.get("previous_response_id") or body.get("conversation"):
        raise BadRequest("this model keeps no conversation; send the whole input instead of previous_response_id")
    given = body.get("input", "")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    texts, results, names = [body.get("instructions") or ""], [], {}
    for item in items:
        match item.get("type", "message"):
            case "message":
                if item["role"] != "assistant":
                    texts.append(text_of(item["content"]))
            case "function_call":
                names[item["call_id"]] = item["name"]
            case "function_call_output":
                if item["call_id"] not in names:
                    raise BadRequest(f"No tool call found for function call output with call_id {item['call_id']}.")
                results.append((names[item["call_id"]], text_of(item["output"])))
            case "reasoning":
                pass
            case other:
                raise BadRequest(f"an input item of type {other!r} is not modelled")
    tools = {
        tool["name"]: list(tool["parameters"].get("properties", {}))
        for tool in body.get("tools") or ()
        if tool["type"] == "function"
    }
    return Turn(text="\n".join(texts), tools=tools, results=results)


def write(body: Json, reply: Reply) -> Json:
    """The answer."""
    return _response(body, reply, status="completed", output=[_item(reply)])


def stream(body: Json, reply: Reply) -> Iterator[str]:
    """The answer as server-sent events."""
    item, number = _item(reply), 0

    def event(kind: str, **fields: Any) -> str:
        nonlocal number
        number += 1
        return f"event: {kind}\ndata: {json.dumps({'type': kind, 'sequence_number': number - 1, **fields})}\n\n"

    place = {"output_index": 0, "item_id": item["id"]}
    yield event("response.created", response=_response(body, reply, status="in_progress", output=[]))
    if reply.tool:
        begun = {**item, "arguments": "", "status": "in_progress"}
        yield event("response.output_item.added", output_index=0, item=begun)
        yield event("response.function_call_arguments.delta", **place, delta=item["arguments"])
        yield event("response.function_call_arguments.done", **place, name=item["name"], arguments=item["arguments"])
    else:
        part = item["content"][0]
        yield event("response.output_item.added", output_index=0, item={**item, "content": [], "status": "in_progress"})
        yield event("response.content_part.added", **place, content_index=0, part={**part, "text": ""})
        yield event("response.output_text.delta", **place, content_index=0, delta=reply.text, logprobs=[])
        yield event("response.output_text.done", **place, content_index=0, text=reply.text, logprobs=[])
        yield event("response.content_part.done", **place, content_index=0, part=part)
    yield event("response.output_item.done", output_index=0, item=item)
    yield event("response.completed", response=write(body, reply))


def _item(reply: Reply) -> Json:
    if reply.tool:
        return {
            "type": "function_call",
            "id": f"fc_{reply.call_id}",
            "call_id": f"call_{reply.call_id}",
            "name": reply.tool,
            "arguments": json.dumps(dict(reply.arguments)),
            "status": "completed",
        }
    part = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
    return {
        "type": "message",
        "id": f"msg_{reply.call_id}",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def _response(body: Json, reply: Reply, *, status: str, output: list[Json]) -> Json:
    return {
        "id": f"resp_{reply.call_id}",
        "object": "response",
        "created_at": 0,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": {},
        "model": body["model"],
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": body.get("tools") or [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": 1,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2,
        },
    }
