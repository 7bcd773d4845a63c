"""What the tests of the Stripe targets share: the local service, gates on one directory, and a case."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import stripe

from benchmarks.services.stripe import LocalStripe
from interlock import Interlock
from interlock.ports import SystemClock


@dataclass(frozen=True)
class Case:
    """What a refund is about."""

    order: str
    payment_intent: str


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
def client(service: LocalStripe) -> stripe.StripeClient:
    return service.client(timeout_s=5.0)


@pytest.fixture
def open_gate(tmp_path: Path) -> Iterator[Callable[..., Interlock]]:
    """Open the gate as a new process would; all are closed at the end."""
    opened: list[Interlock] = []

    def open_one(clock: Any = None) -> Interlock:
        opened.append(Interlock(tmp_path / "gate", clock=clock))
        return opened[-1]

    yield open_one
    for gate in opened:
        gate.close()


@pytest.fixture
def gate(open_gate: Callable[..., Interlock]) -> Interlock:
    opened = open_gate()
    opened.recover()
    return opened


def pay(client: stripe.StripeClient, amount: int = 10_000, **more: Any) -> stripe.PaymentIntent:
    """A card payment that succeeded, unless told otherwise."""
    asked: Any = {
        "amount": amount,
        "currency": "usd",
        "payment_method": "pm_card_visa",
        "confirm": True,
        "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
        **more,
    }
    return client.v1.payment_intents.create(asked)


@pytest.fixture
def case(client: stripe.StripeClient) -> Case:
    payment = pay(client).id
    return Case(payment[-6:], payment)  # the service is shared, and an idempotency key must be nobody else's


def by_order(case: Case) -> str:
    """The key of a refund."""
    return f"refund:{case.order}"


class Later:
    """The machine's clocks, some time later."""

    def __init__(self, by: timedelta) -> None:
        self._real, self._by = SystemClock(), by

    def now(self) -> datetime:
        return self._real.now() + self._by

    def uptime(self) -> Any:
        real = self._real.uptime()
        return real._replace(seconds=real.seconds + self._by.total_seconds())

    def sleep(self, seconds: float) -> None:
        self._real.sleep(seconds)

    async def asleep(self, seconds: float) -> None:
        await self._real.asleep(seconds)
