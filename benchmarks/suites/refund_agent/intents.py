"""The hand check's own record: which refunds were begun, and which were finished. A table on disk, as a careful engineer keeps it.

**Durable when** `begin` or `finish` returns. **If the process dies** between the two, the refund is found open.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Intent:
    """One refund that was begun."""

    amount: int
    is_finished: bool


class Intents:
    """A table in SQLite, with full synchronisation; only one worker can begin a refund."""

    def __init__(self, directory: Path) -> None:
        self._books = sqlite3.connect(directory / "intents.db", isolation_level=None)
        self._books.execute("PRAGMA journal_mode=WAL")
        self._books.execute("PRAGMA synchronous=FULL")
        self._books.execute(
            "CREATE TABLE IF NOT EXISTS intents (key TEXT PRIMARY KEY, amount INT, finished INT DEFAULT 0)"
        )

    def get(self, key: str) -> Intent | None:
        """What is known of this refund, or None if it was never begun."""
        found = self._books.execute("SELECT amount, finished FROM intents WHERE key = ?", (key,)).fetchone()
        return None if found is None else Intent(found[0], bool(found[1]))

    def begin(self, key: str, amount: int) -> bool:
        """Record the refund before it is sent; False if it had been begun before."""
        made = self._books.execute("INSERT OR IGNORE INTO intents (key, amount) VALUES (?, ?)", (key, amount))
        return made.rowcount == 1

    def finish(self, key: str) -> None:
        """Record that the refund is done."""
        self._books.execute("UPDATE intents SET finished = 1 WHERE key = ?", (key,))

    def close(self) -> None:
        """Close the table."""
        self._books.close()
