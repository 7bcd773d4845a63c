"""What will happen by itself, at its time on the service's clock: a refund settles or fails, a hold or a deadline runs out.

Owns the table of plans and who carries them out. Must not know what they do; a plan names a word of `Service`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping

from benchmarks.services.stripe.clock import ServiceClock
from benchmarks.services.stripe.endpoint import Call
from benchmarks.services.stripe.ledger import Ledger

SOME_TIME_S = 30.0
"""What the testing page calls some time later, in seconds of the service's clock (docs.stripe.com/testing)."""

log = logging.getLogger(__name__)

Deed = Callable[[Call, str], None]
"""Does what a plan names, to the object with this id; does nothing if something else happened to it meanwhile."""


def plan(call: Call, deed: str, subject: str, *, after_s: float = SOME_TIME_S) -> None:
    """Let something happen some time later; to be called inside the transaction that causes it."""
    due_at = call.clock.now() + after_s
    call.ledger.execute("INSERT INTO plans (deed, subject, due_at) VALUES (?, ?, ?)", (deed, subject, due_at))
    call.ledger.planned()


class Future:
    """Carries out the plans whose time has come, also those that came due while the service was not running."""

    def __init__(self, ledger: Ledger, clock: ServiceClock, deeds: Mapping[str, Deed]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._deeds = deeds
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled: wait for the next plan's time, for a new plan, or for a move of the clock."""
        self._ledger.planned = self._clock.moved = self._news.set
        while True:
            wait_s = self.catch_up()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), wait_s)
            self._news.clear()

    def catch_up(self) -> float | None:
        """Do everything that is due; returns in how many seconds the next plan is."""
        while True:
            found = self._ledger.rows("SELECT * FROM plans ORDER BY due_at, seq LIMIT 1")
            if not found:
                return None
            wait_s = float(found[0]["due_at"]) - self._clock.now()
            if wait_s > 0:
                return wait_s
            done = ("DELETE FROM plans WHERE seq = ?", (found[0]["seq"],))
            try:
                with self._ledger.transaction():
                    self._ledger.execute(*done)
                    self._deeds[found[0]["deed"]](Call(self._ledger, self._clock, {}), found[0]["subject"])
            except Exception:
                # Said loudly and undone as a whole; tried again and again it would stop everything behind it.
                log.exception("a bug of the local service: %s of %s", found[0]["deed"], found[0]["subject"])
                with self._ledger.transaction():
                    self._ledger.execute(*done)
