"""An effect that is taken for new without a look: old ones are answered from the record all the same."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock
from interlock.errors import JournalUnavailable
from interlock.journal import _sqlite
from interlock.journal._index import TAIL_ENTRIES


def _declared(gate: Interlock, sent: list[str]) -> Any:
    @gate.effect(key=lambda order: f"pay:{order}", dedupes=True, window=timedelta(hours=24))
    def pay(order: str, idempotency_key: str) -> str:
        sent.append(order)
        return f"paid {order}"

    return pay


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A journal in which the effect of order "old" is so old that only the index knows it."""
    gate = Interlock(tmp_path)
    gate.recover()
    pay = _declared(gate, [])
    pay("old")
    for number in range(TAIL_ENTRIES // 4 + 20):
        pay(f"later-{number}")
    gate.close()
    return tmp_path


def _reopened(place: Path, sent: list[str]) -> tuple[Interlock, Any]:
    gate = Interlock(place)
    gate.recover()
    pay = _declared(gate, sent)
    pay("first of this process")
    sent.clear()
    return gate, pay


def test_an_old_effect_is_not_sent_again(old: Path) -> None:
    """An effect that only the index knows is answered with its recorded result, and the call leaves nothing on the journal."""
    sent: list[str] = []
    gate, pay = _reopened(old, sent)
    before = gate.journal.verify().entries
    outcome = pay("old")
    assert (str(outcome), outcome.value, sent) == ("DUPLICATE_IGNORED", "paid old", [])
    assert gate.journal.verify().entries == before
    assert not gate.journal.open_effects()
    gate.close()


def test_an_old_effect_is_answered_while_nothing_can_be_written(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another process holds the file's write lock, a duplicate is answered, and a new effect is refused with nothing sent."""
    monkeypatch.setattr(_sqlite, "BUSY_S", 0.05)
    sent: list[str] = []
    gate, pay = _reopened(old, sent)
    holder = sqlite3.connect(old / "journal.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    assert str(pay("old")) == "DUPLICATE_IGNORED"
    with pytest.raises(JournalUnavailable):
        pay("new")
    assert sent == []
    holder.execute("ROLLBACK")
    holder.close()
    assert pay("new").ok
    assert sent == ["new"]
    gate.close()


def test_an_effect_of_another_process_is_not_sent_again(old: Path) -> None:
    """What another worker has just written, and this one has not seen, is answered from the record."""
    mine: list[str] = []
    theirs: list[str] = []
    gate, pay = _reopened(old, mine)
    other, other_pay = _reopened(old, theirs)
    assert other_pay("shared").ok
    outcome = pay("shared")
    assert (str(outcome), mine, theirs) == ("DUPLICATE_IGNORED", [], ["shared"])
    assert gate.journal.verify().ok
    gate.close()
    other.close()
