"""Gemini's generateContent, as far as the script needs it (ai.google.dev/api/generate-content).

PURE: a request's JSON to a turn, a reply to the answer's JSON or its events.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.services.model.script import BadRequest, Reply, Turn

Json = dict[str, Any]
_SCHEMAS = ("parameters", "parametersJsonSchema", "parameters_json_schema")
"""Where a declaration's schema stands. The API reads a field in both spellings, and the SDK writes this one in the second."""


def read(body: Json) -> Turn:
    """The request in plain form.

    Raises:
        BadRequest: It lacks what the API requires.
    """
    if not body.get("contents"):
        raise BadRequest("contents is not specified")
    texts, results = [], []
    instruction = body.get("systemInstruction") or {}
    for content in [instruction, *body["contents"]]:
        for part in content.get("parts", ()):
            if "functionResponse" in part:
                told = part["functionResponse"]["response"]
                result = told.get("result", told.get("output", told))
                results.append(
                    (part["functionResponse"]["name"], result if isinstance(result, str) else json.dumps(result))
                )
            elif "text" in part and content.get("role") != "model":
                texts.append(part["text"])
    tools = {
        one["name"]: list(_schema(one).get("properties", {}))
        for tool in body.get("tools") or ()
        for one in tool.get("functionDeclarations", ())
    }
    return Turn(text="\n".join(texts), tools=tools, results=results)


def _schema(declaration: Json) -> Json:
    for name in _SCHEMAS:
        if declaration.get(name):
            found: Json = declaration[name]
            return found
    return {}


def write(body: Json, reply: Reply) -> Json:
    """The answer."""
    part: Json = {"text": reply.text}
    if reply.tool:
        part = {"functionCall": {"name": reply.tool, "args": dict(reply.arguments)}}
    return {
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
        "modelVersion": body["model"],
        "responseId": reply.call_id,
    }


def stream(body: Json, reply: Reply) -> Iterator[str]:
    """The answer as server-sent events: one whole chunk, as Gemini sends a function call."""
    yield f"data: {json.dumps(write(body, reply))}\n\n"


def refuse(message: str) -> Json:
    """The body of a 400."""
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
