"""The SQLite journal keeps the contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.journal import Journal, SQLiteJournal
from interlock.testing.journal import JournalContract


class TestSQLiteJournal(JournalContract):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.directory = tmp_path / "journal"

    def make_journal(self) -> Journal:
        return SQLiteJournal(self.directory)
