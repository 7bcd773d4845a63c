"""Sending webhooks: signed, over loopback, tried again within a bound, with faults on demand.

Owns the wire form of a delivery (docs.stripe.com/webhooks/signature) and when it is tried again. It runs beside the
requests and never inside one: an endpoint that hangs delays nothing but itself. Must not know what events mean.

    woken -> one line per endpoint: the oldest due delivery -> [fault: hold | delay | duplicate | drop] -> POST, signed
          -> 2xx: delivered | anything else, or nothing within the time: queued again, RETRY_AFTER_S later, then failed

Real Stripe sends in no promised order. This service sends to one endpoint one after the other, in the order in which
things happened, unless it is told otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import hashlib
import hmac
import logging
import time
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from benchmarks.services.stripe import deliveries
from benchmarks.services.stripe.deliveries import Delivery
from benchmarks.services.stripe.ledger import Ledger
from benchmarks.services.stripe.webhook_endpoints import secret_of

RETRY_AFTER_S = (0.2, 0.6, 1.8)
"""Waits before the three further tries that a sandbox makes over some hours (docs.stripe.com/webhooks), shortened."""

ANSWER_WITHIN_S = 5.0

log = logging.getLogger(__name__)


class WebhookFaultKind(StrEnum):
    """What happens to a delivery on its way. The names are frozen: the control API and its clients use them."""

    DUPLICATE = "duplicate"
    """It is delivered, and then once more."""
    DELAY = "delay"
    """It waits; what came after it may overtake it."""
    HOLD = "hold"
    """It stays until it is released, in order or in reverse."""
    DROP = "drop"
    """It is never sent. Its event stays in the list."""
    LOSE_ANSWER = "lose_answer"
    """It is delivered, but the answer counts as lost: it is sent again as after a failure."""


@dataclass(kw_only=True)
class WebhookFault:
    """What strikes the next `times` deliveries whose event type matches (`*` and `?` are wildcards)."""

    type: str
    kind: WebhookFaultKind
    delay_s: float = 0.5
    times: int = 1

    def __post_init__(self) -> None:
        if self.times < 1 or self.delay_s < 0:
            raise ValueError(f"a fault strikes at least once, with no negative wait, not {self.times}, {self.delay_s}")


class WebhookFaults:
    """The faults asked for, in memory; the one asked for first strikes first, and a first attempt only."""

    def __init__(self) -> None:
        self._waiting: list[WebhookFault] = []

    def add(self, fault: WebhookFault) -> None:
        """Ask for one."""
        self._waiting.append(fault)

    def clear(self) -> None:
        """Forget all that have not struck."""
        self._waiting.clear()

    def take(self, delivery: Delivery) -> WebhookFault | None:
        """The fault that strikes this delivery, if any. One that was struck already is left alone."""
        if delivery.is_struck or delivery.attempts:
            return None
        for fault in self._waiting:
            if fnmatch.fnmatchcase(delivery.type, fault.type):
                fault.times -= 1
                if fault.times == 0:
                    self._waiting.remove(fault)
                return fault
        return None


def signature(body: str, secret: str, *, at: int) -> str:
    """The `Stripe-Signature` header: HMAC-SHA256 of "timestamp.body" under the endpoint's secret."""
    digest = hmac.new(secret.encode(), f"{at}.{body}".encode(), hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


class Courier:
    """Sends what is queued, one line per endpoint, until it is stopped.

    **If the process dies**, what was queued is sent when the service starts again; what was answered in that moment may
    be sent twice, as by the real service.
    """

    def __init__(self, ledger: Ledger, faults: WebhookFaults) -> None:
        self._ledger = ledger
        self._faults = faults
        self._lines: dict[str, asyncio.Task[None]] = {}
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Send until cancelled."""
        self._ledger.woken = self._news.set
        self._news.set()
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                for endpoint in deliveries.waiting(self._ledger):
                    line = self._lines.get(endpoint)
                    if line is None or line.done():
                        self._lines[endpoint] = asyncio.create_task(self._line(endpoint))
        finally:
            for line in self._lines.values():
                line.cancel()

    async def _line(self, endpoint: str) -> None:
        """Send to one endpoint until nothing is queued for it."""
        while True:
            delivery, due_at = deliveries.due(self._ledger, endpoint)
            if delivery is not None:
                try:
                    await self._sent(delivery)
                except Exception:
                    log.exception("a bug of the local service: the delivery of %s", delivery.event)
                    deliveries.attempted(self._ledger, delivery, told="a bug of the local service", state="failed")
            elif due_at is None:
                # Nothing is awaited between this look and the end of the task, so whoever queues next starts a new line.
                return
            else:
                # Something may be queued meanwhile that is due at once.
                await asyncio.sleep(min(0.02, max(0.0, due_at - time.time())))

    async def _sent(self, delivery: Delivery) -> None:
        fault = self._faults.take(delivery)
        kind = None if fault is None else fault.kind
        if fault is not None and kind is WebhookFaultKind.DELAY:
            deliveries.postponed(self._ledger, delivery, state="queued", due_at=time.time() + fault.delay_s)
            return
        if kind is WebhookFaultKind.HOLD:
            deliveries.postponed(self._ledger, delivery, state="held")
            return
        if kind is WebhookFaultKind.DROP:
            deliveries.attempted(self._ledger, delivery, told="dropped by a fault", state="failed")
            return
        told = await self._posted(delivery)
        is_taken = told.startswith("2") and kind is not WebhookFaultKind.LOSE_ANSWER
        if is_taken:
            deliveries.attempted(self._ledger, delivery, told=told, state="delivered")
        elif delivery.attempts < len(RETRY_AFTER_S):
            due_at = time.time() + RETRY_AFTER_S[delivery.attempts]
            deliveries.attempted(self._ledger, delivery, told=told, state="queued", due_at=due_at)
        else:
            deliveries.attempted(self._ledger, delivery, told=told, state="failed")
        if kind is WebhookFaultKind.DUPLICATE:
            deliveries.repeat(self._ledger, delivery)

    async def _posted(self, delivery: Delivery) -> str:
        """The status that the endpoint answered, or what went wrong, in words."""
        endpoint = self._ledger.find("webhook_endpoints", delivery.endpoint)
        if endpoint is None:
            return "the endpoint is gone"
        parts = urlsplit(endpoint["url"])
        body = delivery.body.encode()
        lines = (
            f"POST {parts.path or '/'}{'?' + parts.query if parts.query else ''} HTTP/1.1",
            f"Host: {parts.netloc}",
            "User-Agent: Stripe/1.0 (+https://stripe.com/docs/webhooks)",
            "Accept: */*",
            "Connection: close",
            "Content-Type: application/json; charset=utf-8",
            f"Content-Length: {len(body)}",
            # Signed when it is sent, with real time: the SDK refuses a signature that is older than five minutes.
            f"Stripe-Signature: {signature(delivery.body, secret_of(self._ledger, delivery.endpoint), at=int(time.time()))}",
            "",
            "",
        )
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                reader, writer = await asyncio.open_connection(str(parts.hostname), parts.port)
                try:
                    writer.write("\r\n".join(lines).encode() + body)
                    await writer.drain()
                    status = (await reader.readline()).split()
                    return status[1].decode() if len(status) > 1 else "closed without an answer"
                finally:
                    writer.close()
                    with contextlib.suppress(OSError):
                        await writer.wait_closed()
        except TimeoutError:
            return f"no answer within {ANSWER_WITHIN_S} s"
        except OSError as error:
            return f"not reached: {error}"
