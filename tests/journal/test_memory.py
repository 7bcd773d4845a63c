"""The journal in memory keeps the contract."""

from __future__ import annotations

import pytest

from interlock.journal import Journal, MemoryJournal
from interlock.journal._memory import MemoryStore
from interlock.ports import Liveness
from interlock.testing.journal import JournalContract


class TestMemoryJournal(JournalContract):
    @pytest.fixture(autouse=True)
    def _place(self) -> None:
        self.store = MemoryStore()

    def make_journal(self) -> Journal:
        return MemoryJournal(self.store)

    def test_a_death_can_be_played(self) -> None:
        """A worker that died with something in flight is GONE to others."""
        sender, other = MemoryJournal(self.store), self.journal()
        sender.begin_send("e1", 2)
        sender.die()
        assert other.liveness(sender.worker, "e1", 2) is Liveness.GONE

    def test_being_cut_off_can_be_played(self) -> None:
        """A worker out of sight is CUT_OFF to others, even while it sends."""
        sender, other = MemoryJournal(self.store), self.journal()
        sender.begin_send("e1", 2)
        sender.cut_off()
        assert other.liveness(sender.worker, "e1", 2) is Liveness.CUT_OFF
