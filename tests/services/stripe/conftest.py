"""A running local service for a module, one of a test's own to kill, and an endpoint that receives webhooks."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import stripe

from benchmarks.services.stripe import LocalStripe

Pay = Callable[..., stripe.PaymentIntent]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStripe]:
    with LocalStripe(tmp_path_factory.mktemp("stripe")) as service:
        yield service


@pytest.fixture
def service(running: LocalStripe) -> LocalStripe:
    running.clear_faults()
    running.reset_clock()
    return running


@pytest.fixture
def own(tmp_path: Path) -> Iterator[LocalStripe]:
    """A service of the test's own, which it may kill."""
    with LocalStripe(tmp_path / "stripe") as service:
        yield service


@pytest.fixture
def client(service: LocalStripe) -> stripe.StripeClient:
    return service.client()


@pytest.fixture
def pay(client: stripe.StripeClient) -> Pay:
    """Pays $100.00 with a card: `pay("pm_card_visa", amount=..., client=..., **more)`."""

    def paid(card: str = "pm_card_visa", *, by: stripe.StripeClient | None = None, **more: Any) -> stripe.PaymentIntent:
        asked: Any = {
            "amount": 10_000,
            "currency": "usd",
            "payment_method": card,
            "confirm": True,
            "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
            **more,
        }
        return (by or client).v1.payment_intents.create(asked)

    return paid


class Receiver:
    """An HTTP server on loopback that keeps every webhook it gets and answers with `status`."""

    def __init__(self) -> None:
        self.got: list[tuple[bytes, str]] = []
        self.status = 200
        self.hangs = threading.Event()
        """Set: it takes no request until it is cleared."""
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.got.append((body, self.headers["stripe-signature"]))
                while receiver.hangs.is_set():
                    time.sleep(0.01)
                self.send_response(receiver.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/webhooks"

    def close(self) -> None:
        self.hangs.clear()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def events(self, secret: str) -> list[stripe.Event]:
        """What it got, verified by the SDK."""
        return [stripe.Webhook.construct_event(body, sign, secret) for body, sign in list(self.got)]

    def wait(self, number: int, *, within_s: float = 10.0) -> None:
        """Until it got so many."""
        deadline = time.monotonic() + within_s
        while len(self.got) < number:
            assert time.monotonic() < deadline, f"{len(self.got)} webhooks instead of {number} within {within_s} s"
            time.sleep(0.01)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()
