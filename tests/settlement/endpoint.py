"""The webhook app behind a real HTTP server, and events signed as Stripe signs them."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import http.client
import itertools
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import uvicorn

SECRET = "whsec_for_tests"
_numbers = itertools.count(1)


@contextlib.contextmanager
def serving(app: Any) -> Iterator[str]:
    """Serve an ASGI app on loopback; gives its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


def event_about(fields: Mapping[str, Any], *, kind: str = "refund.updated") -> dict[str, Any]:
    """A snapshot event about an object."""
    return {
        "id": f"evt_{next(_numbers)}",
        "object": "event",
        "api_version": "2026-01-28.preview",
        "created": int(time.time()),
        "data": {"object": dict(fields)},
        "livemode": False,
        "pending_webhooks": 1,
        "request": {"id": None, "idempotency_key": None},
        "type": kind,
    }


def signature(body: bytes, *, secret: str = SECRET, at: float | None = None) -> str:
    """docs.stripe.com/webhooks/signature: HMAC-SHA256 over the time, a dot and the body."""
    moment = int(time.time() if at is None else at)
    digest = hmac.new(secret.encode(), f"{moment}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={moment},v1={digest}"


def post(
    url: str,
    body: bytes | Iterator[bytes],
    *,
    headers: Mapping[str, str] | None = None,
    method: str = "POST",
    timeout_s: float = 20.0,
) -> tuple[int, dict[str, Any]]:
    """Post as it is; the status and what was said."""
    host, port = url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=timeout_s)
    try:
        connection.request(method, "/", body, dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")
    finally:
        connection.close()


def deliver(url: str, event: Any, **how: Any) -> int:
    """Sign and post an event; the status."""
    body = event if isinstance(event, bytes) else json.dumps(event).encode()
    return post(url, body, headers={"Stripe-Signature": signature(body, **how)})[0]
