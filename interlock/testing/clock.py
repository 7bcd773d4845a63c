"""A clock that tests can set. Owns nothing else."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

from interlock.ports import Uptime


class SettableClock:
    """A clock whose wall time can be moved. Real time goes on underneath, unless it is frozen.

    Args:
        offset_s: how far the wall clock is off, in seconds; may be negative.
        frozen: time stands still but for `advance` and `sleep`, which returns at once.
        boot: names the boot; two clocks with different names are two boots of the machine.
    """

    def __init__(self, *, offset_s: float = 0.0, frozen: bool = False, boot: str = "test-boot") -> None:
        self.boot = boot
        self._wall_offset_s = offset_s
        self._uptime_offset_s = 0.0
        self._frozen_at = (datetime.now(UTC), time.monotonic()) if frozen else None

    def now(self) -> datetime:
        """The wall clock, as set."""
        base = self._frozen_at[0] if self._frozen_at else datetime.now(UTC)
        return base + timedelta(seconds=self._wall_offset_s)

    def uptime(self) -> Uptime:
        """The clock that nobody sets: moved by `advance` and `sleep`, not by `jump`."""
        base = self._frozen_at[1] if self._frozen_at else time.monotonic()
        return Uptime(self.boot, base + self._uptime_offset_s)

    def advance(self, seconds: float) -> None:
        """Let time pass, on both clocks."""
        self._wall_offset_s += seconds
        self._uptime_offset_s += seconds

    def jump(self, seconds: float) -> None:
        """Set the wall clock off by so much more; no time passes."""
        self._wall_offset_s += seconds

    def sleep(self, seconds: float) -> None:
        """Wait: really, or at once if frozen."""
        if self._frozen_at:
            self.advance(seconds)
        else:
            time.sleep(seconds)

    async def asleep(self, seconds: float) -> None:
        """Wait: really, or at once if frozen."""
        if self._frozen_at:
            self.advance(seconds)
            await asyncio.sleep(0)
        else:
            await asyncio.sleep(seconds)
