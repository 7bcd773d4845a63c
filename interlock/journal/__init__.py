"""Storage: the append-only journal. One abstract base that keeps the promises, and the backends that fill it in."""

from __future__ import annotations

from interlock.journal._base import BUDGET, Denied, Guard, Journal, Prepared, Verification
from interlock.journal._memory import MemoryJournal
from interlock.journal._sqlite import SQLiteJournal

__all__ = ["BUDGET", "Denied", "Guard", "Journal", "MemoryJournal", "Prepared", "SQLiteJournal", "Verification"]
