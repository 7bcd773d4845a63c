"""For tests of code that goes through a gate: simulated crashes, a clock to set, the contract of journals. Shipped and public."""

from __future__ import annotations

from interlock.errors import SimulatedCrash
from interlock.protocol import CRASH_POINTS
from interlock.testing.clock import SettableClock
from interlock.testing.journal import JournalContract

__all__ = ["CRASH_POINTS", "JournalContract", "SettableClock", "SimulatedCrash"]
