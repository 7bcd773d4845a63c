"""The scripted model's HTTP side: which path speaks which wire, whole or streamed.

Owns the routes. Holds no state at all: two requests that are the same get the same answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from benchmarks.services.model import anthropic, gemini, openai_chat, openai_responses
from benchmarks.services.model.script import BadRequest, Reply, Turn, answer

Json = dict[str, Any]


class Wire(Protocol):
    """One wire API; the modules of this folder are its implementations."""

    def read(self, body: Json) -> Turn: ...
    def write(self, body: Json, reply: Reply) -> Json: ...
    def stream(self, body: Json, reply: Reply) -> Iterator[str]: ...
    def refuse(self, message: str) -> Json: ...


async def respond(request: Request, wire: Wire, *, streamed: bool | None = None, model: str | None = None) -> Response:
    """Answer one request in its wire; what is not understood is a 400 that says why."""
    try:
        body = json.loads(await request.body())
        if not isinstance(body, dict):
            raise BadRequest("the body is not a JSON object")
        if model is not None:
            body["model"] = model
        reply = answer(wire.read(body))
    except BadRequest as error:
        return JSONResponse(wire.refuse(str(error)), 400)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return JSONResponse(wire.refuse(f"the request is not made as this API asks: {error!r}"), 400)
    if bool(body.get("stream")) if streamed is None else streamed:
        return StreamingResponse(wire.stream(body, reply), media_type="text/event-stream")
    return JSONResponse(wire.write(body, reply))


def build() -> Starlette:
    """The ASGI application."""

    async def messages(request: Request) -> Response:
        return await respond(request, anthropic)

    async def chat(request: Request) -> Response:
        return await respond(request, openai_chat)

    async def responses(request: Request) -> Response:
        return await respond(request, openai_responses)

    async def generate(request: Request) -> Response:
        name, _, verb = str(request.path_params["call"]).partition(":")
        if verb not in {"generateContent", "streamGenerateContent"}:
            return await unknown(request)
        return await respond(request, gemini, streamed=verb.startswith("stream"), model=name)

    async def unknown(request: Request) -> Response:
        message = f"the scripted model has no {request.method} {request.url.path}"
        return JSONResponse({"error": {"message": message, "type": "not_found"}}, 404)

    return Starlette(
        routes=[
            Route("/v1/messages", messages, methods=["POST"]),
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/responses", responses, methods=["POST"]),
            Route("/v1beta/models/{call}", generate, methods=["POST"]),
            Route("/v1/models/{call}", generate, methods=["POST"]),
            Route("/{rest:path}", unknown, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
        ]
    )
