"""OpenAI's Chat Completions API, as far as the script needs it (platform.openai.com/docs/api-reference/chat).

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
    for name in ("model", "messages"):
        if name not in body:
            raise BadRequest(f"Missing required parameter: '{name}'.")
    texts, results, names = [], [], {}
    for message in body["messages"]:
        for call in message.get("tool_calls") or ():
            names[call["id"]] = call["function"]["name"]
        if message["role"] == "tool":
            if message["tool_call_id"] not in names:
                raise BadRequest(
                    "messages with role 'tool' must be a response to a preceding message with 'tool_calls'."
                )
            results.append((names[message["tool_call_id"]], text_of(message["content"])))
        elif message["role"] != "assistant":
            texts.append(text_of(message["content"]))
    tools = {
        tool["function"]["name"]: list(tool["function"].get("parameters", {}).get("properties", {}))
        for tool in body.get("tools") or ()
    }
    return Turn(text="\n".join(texts), tools=tools, results=results)


def write(body: Json, reply: Reply) -> Json:
    """The answer."""
    message: Json = {"role": "assistant", "content": None if reply.tool else reply.text, "refusal": None}
    if reply.tool:
        message["tool_calls"] = [_call(reply)]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(reply)}
    return {**_head(body, reply, "chat.completion"), "choices": [choice], "usage": _USAGE}


def stream(body: Json, reply: Reply) -> Iterator[str]:
    """The answer as server-sent events."""
    head = _head(body, reply, "chat.completion.chunk")

    def chunk(delta: Json, reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return _event({**head, "choices": [choice]})

    yield chunk({"role": "assistant", "content": None if reply.tool else ""})
    if reply.tool:
        call = _call(reply)
        yield chunk({"tool_calls": [{"index": 0, **call, "function": {**call["function"], "arguments": ""}}]})
        yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": call["function"]["arguments"]}}]})
    else:
        yield chunk({"content": reply.text})
    yield chunk({}, _reason(reply))
    if (body.get("stream_options") or {}).get("include_usage"):
        yield _event({**head, "choices": [], "usage": _USAGE})
    yield "data: [DONE]\n\n"


def refuse(message: str) -> Json:
    """The body of a 400."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}


def text_of(content: Any) -> str:
    """The words of a message, whose content is a text or a list of parts."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part.get("text", "") for part in content)


_USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def _head(body: Json, reply: Reply, kind: str) -> Json:
    return {"id": f"chatcmpl-{reply.call_id}", "object": kind, "created": 0, "model": body["model"]}


def _call(reply: Reply) -> Json:
    function = {"name": reply.tool, "arguments": json.dumps(dict(reply.arguments))}
    return {"id": f"call_{reply.call_id}", "type": "function", "function": function}


def _reason(reply: Reply) -> str:
    return "tool_calls" if reply.tool else "stop"


def _event(fields: Json) -> str:
    return f"data: {json.dumps(fields)}\n\n"
