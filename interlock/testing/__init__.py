"""For tests of code that goes through a gate: simulated crashes and a clock that tests can set. Shipped and public."""

from __future__ import annotations

from interlock.errors import SimulatedCrash
from interlock.protocol import CRASH_POINTS
from interlock.testing.clock import SettableClock

__all__ = ["CRASH_POINTS", "SettableClock", "SimulatedCrash"]
