"""The clock of a simulated world. Time passes only where the simulator says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from interlock.ports import Uptime

BEGAN = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


class VirtualClock:
    """A clock that stands where it was put."""

    def __init__(self) -> None:
        self._now_us = 0
        self._wall_offset_us = 0

    def put(self, now_us: int, wall_offset_us: int) -> None:
        """Set both clocks."""
        self._now_us = now_us
        self._wall_offset_us = wall_offset_us

    def now(self) -> datetime:
        """The wall clock; the environment may set it."""
        return BEGAN + timedelta(microseconds=self._now_us + self._wall_offset_us)

    def uptime(self) -> Uptime:
        """The clock that nobody sets."""
        return Uptime("boot", self._now_us / 1_000_000)

    def sleep(self, seconds: float) -> None:
        """Never called: the simulator performs every wait itself."""
        raise AssertionError("a simulated worker slept by itself")

    async def asleep(self, seconds: float) -> None:
        """Never called either."""
        raise AssertionError("a simulated worker slept by itself")
