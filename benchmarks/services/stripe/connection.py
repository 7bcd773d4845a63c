"""Closing a connection with no HTTP answer, which ASGI has no word for.

Owns the seam to uvicorn: its protocol class puts a way to the transport into the scope.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_NAME = "local.abort"


class AbortableProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol; the scope's extensions hold a function that aborts the connection."""

    def on_message_begin(self) -> None:
        """A request begins: its scope is made here."""
        super().on_message_begin()
        cast(dict[str, Any], self.scope)["extensions"] = {_NAME: self.transport.abort}


class HalfResponse(Response):
    """An answer of which half leaves before the connection closes."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the head, which promises all of the body, and half of the body."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        body = bytes(self.body)
        await send({"type": "http.response.body", "body": body[: len(body) // 2], "more_body": True})
        await hang_up(scope, receive)


async def hang_up(scope: Scope, receive: Receive) -> None:
    """Close the request's TCP connection with nothing more written, and return once it is closed.

    Raises:
        RuntimeError: The application does not run under `AbortableProtocol`.
    """
    abort: Callable[[], None] | None = scope.get("extensions", {}).get(_NAME)
    if abort is None:
        raise RuntimeError("dropping connections needs AbortableProtocol; start the service by python -m")
    abort()
    # Until uvicorn has noticed, it would answer 500 for an application that returns without an answer.
    while (await receive())["type"] != "http.disconnect":
        pass
