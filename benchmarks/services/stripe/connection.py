"""Closing a connection with no HTTP answer, which ASGI has no word for.

Owns the seam to uvicorn: its protocol class puts a way to the transport into the scope.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from starlette.types import Receive, Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_NAME = "local.abort"


class AbortableProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol; the scope's extensions hold a function that aborts the connection."""

    def on_message_begin(self) -> None:
        """A request begins: its scope is made here."""
        super().on_message_begin()
        cast(dict[str, Any], self.scope)["extensions"] = {_NAME: self.transport.abort}


async def hang_up(scope: Scope, receive: Receive) -> None:
    """Close the request's TCP connection with nothing written, and return once it is closed.

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
