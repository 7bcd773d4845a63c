"""Storage: the append-only journal. One abstract base that keeps the promises, and the backends that fill it in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.journal._base import BUDGET, Denied, Guard, Journal, Prepared, Verification
from interlock.journal._sqlite import SQLiteJournal

if TYPE_CHECKING:
    from interlock.journal._memory import MemoryJournal

__all__ = ["BUDGET", "Denied", "Guard", "Journal", "MemoryJournal", "Prepared", "SQLiteJournal", "Verification"]


def __getattr__(name: str) -> Any:
    """What only tests need is imported when it is first asked for: how fast a crash is recovered from begins with the import."""
    if name == "MemoryJournal":
        from interlock.journal._memory import MemoryJournal

        return MemoryJournal
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
