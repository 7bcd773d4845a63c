"""No room for a word in a worker's lock file: a send whose beginning cannot be told is not begun, one whose end cannot is alive."""

from __future__ import annotations

import contextlib
import resource
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock import Interlock
from interlock.errors import JournalUnavailable
from interlock.journal import SQLiteJournal, _sqlite, liveness
from interlock.ports import Liveness

PLACE = ("effect", 2)


@contextlib.contextmanager
def _room_for(count: int, journal: SQLiteJournal) -> Iterator[None]:
    """Let the kernel take so many more bytes into the lock file, the largest that is written meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (journal._me.path.stat().st_size + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _seen_by_others(journal: SQLiteJournal, place: tuple[str, int] = PLACE) -> Liveness:
    mine = liveness._local.pop(journal.worker)
    try:
        return liveness.probe(journal.directory / "workers", journal.worker, place)
    finally:
        liveness._local[journal.worker] = mine


@pytest.mark.parametrize("room", [0, 5, len("effect 2 begun")])
def test_a_send_whose_beginning_cannot_be_told_is_not_begun(tmp_path: Path, room: int) -> None:
    """Where others would go on taking it for over, nothing is sent; with room again it begins, and is alive to them."""
    journal = SQLiteJournal(tmp_path)
    journal.begin_send(*PLACE)
    journal.end_send(*PLACE, answered=False, in_flight=False)
    with _room_for(room, journal), pytest.raises(JournalUnavailable, match="Nothing was sent"):
        journal.begin_send(*PLACE)
    assert journal.liveness(journal.worker, *PLACE) is Liveness.ENDED
    journal.begin_send(*PLACE)
    assert _seen_by_others(journal) is Liveness.ALIVE
    journal.end_send(*PLACE, answered=False)
    assert _seen_by_others(journal) is Liveness.GONE
    journal.close()


@pytest.mark.parametrize("room", [0, 5, len("effect 2 ended")])
@pytest.mark.parametrize("again", [False, True])
def test_an_end_that_cannot_be_told_is_none_to_others(tmp_path: Path, room: int, again: bool) -> None:
    """They take the send for alive while this process lives; what is told later is read as if nothing had gone wrong."""
    journal = SQLiteJournal(tmp_path)
    journal.begin_send(*PLACE)
    if again:
        journal.end_send(*PLACE, answered=False, in_flight=False)
        journal.begin_send(*PLACE)
    with _room_for(room, journal):
        journal.end_send(*PLACE, answered=False)
    assert _seen_by_others(journal) is Liveness.ALIVE
    assert journal.liveness(journal.worker, *PLACE) is Liveness.GONE
    journal.begin_send("other", 7)
    journal.end_send("other", 7, answered=False, in_flight=False)
    assert _seen_by_others(journal, ("other", 7)) is Liveness.ENDED
    assert _seen_by_others(journal) in (Liveness.ALIVE, Liveness.GONE)
    worker = journal.worker
    journal.close()
    assert liveness.probe(tmp_path / "workers", worker, PLACE) is Liveness.GONE


def test_a_gate_that_cannot_say_that_it_sends_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first try found the journal busy, and ended; the next cannot say that it begins: an error, nothing sent, nothing held."""
    monkeypatch.setattr(_sqlite, "BUSY_S", 0.05)
    sent: list[str] = []
    gate = Interlock(tmp_path)
    journal = gate.journal
    assert isinstance(journal, SQLiteJournal)

    @gate.effect(key=lambda order: order)
    def refund(order: str) -> None:
        sent.append(order)

    gate.recover()
    with contextlib.closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalUnavailable):
            refund("881")
    with _room_for(0, journal), pytest.raises(JournalUnavailable, match="take it for over"):
        refund("881")
    assert sent == []
    assert str(refund("881")) == "COMMITTED"
    assert sent == ["881"]
    assert not journal._me.sending
    gate.close()
