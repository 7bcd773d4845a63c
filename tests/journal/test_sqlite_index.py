"""The index of a SQLite journal, which lags behind its entries: nothing is missed, by whomever it is read and written."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from interlock.effects import History, Kind
from interlock.errors import JournalCorrupt, JournalError
from interlock.journal import MemoryJournal, SQLiteJournal, _index, _sqlite
from tests.journal.worker import CHAIN, Remote, drafts, write


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the index be brought up to date every few entries, and little of others be taken in one by one."""
    monkeypatch.setattr(_index, "TAIL_ENTRIES", 7)
    monkeypatch.setattr(_sqlite, "TAIL_ENTRIES", 7)
    monkeypatch.setattr(_index, "ABSENT_IDS", 3)
    monkeypatch.setattr(_index, "MOST_NEWER", 12)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[SQLiteJournal]]:
    """Return three journals of one directory, as three processes have them."""
    journals = [SQLiteJournal(tmp_path) for _ in range(3)]
    yield journals
    for journal in journals:
        journal.close()


def query(directory: Path, statement: str) -> list[tuple[object, ...]]:
    """Look into the file, or change it."""
    with closing(sqlite3.connect(directory / "journal.db", isolation_level=None)) as connection:
        return connection.execute(statement).fetchall()


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("seed", range(12))
def test_many_see_one_journal(three: list[SQLiteJournal], seed: int) -> None:
    """Whoever of several writes or reads, leading or not, at whatever state of the index, each sees what a plain list would hold."""
    rng = random.Random(seed)
    model = MemoryJournal()
    stale: list[tuple[str, History]] = []
    for _ in range(400):
        journal = three[min(int(rng.expovariate(1.0)), 2)]
        effect_id = f"e{rng.randrange(40)}"
        with contextlib.ExitStack() as held:
            if rng.random() < 0.3 and journal._group.hold("test", 0):  # as while somebody else commits
                held.callback(journal._group.hand_on, "test")
            history = journal.load(effect_id)
        expected = model.load(effect_id)
        assert [entry.kind for entry in history.entries] == [entry.kind for entry in expected.entries]
        kinds = {None: CHAIN, Kind.DISPATCHED: ("COMMITTED",), Kind.COMMITTED: ("SETTLED",)}.get(
            history.kind, ("AT_RISK",)
        )
        if rng.random() < 0.7:
            after = journal.append(history, drafts(*kinds))
            assert after is not None
            assert journal.load(effect_id) == after
            assert model.append(expected, drafts(*kinds)) is not None
            stale.append((kinds[0], history))
        if stale and rng.random() < 0.2:
            kind, old = rng.choice(stale)
            assert rng.choice(three).append(old, drafts(kind)) is None, "a history that has moved was appended to"
        if rng.random() < 0.05:
            assert sorted(journal.open_effects()) == sorted(model.open_effects())
            assert journal.verify().problems == ()
    assert query(three[0].directory, "SELECT seq FROM indexed") > [(0,)]
    assert [effect_id for effect_id, _ in three[1].open_effects()] == [
        effect_id for effect_id, _ in model.open_effects()
    ]
    assert three[2].verify().ok


@pytest.mark.usefixtures("short")
def test_what_is_indexed_while_a_late_reader_starts_anew_is_not_missed(three: list[SQLiteJournal]) -> None:
    """Of more new entries than are read at once, one that the index takes over between two statements is neither absent nor new."""
    writer, reader, _ = three
    reader.load("e-nothing")  # from here on it has seen nothing
    for number in range(6):
        write(writer, f"e{number}")  # two entries each: twelve are read at once, and the thirteenth is not
    write(writer, "e-last")
    assert reader._group.hold("test", 0)
    try:
        connection, calls = reader._writer or reader._connect_writer(), []

        def execute(*statement: object) -> object:
            answer = connection.execute(*statement)  # type: ignore[arg-type]
            calls.append(statement)
            if len(calls) == 1:
                rows = answer.fetchall()
                writer._index_all()
                return _Fetched(rows)
            return answer

        tail = reader._tail
        assert tail is not None
        head, _ = tail.lead(execute, "e-last")  # type: ignore[arg-type]
    finally:
        reader._group.hand_on("test")
    assert head == writer.load("e-last").head
    assert "e-last" not in tail.absent


class _Fetched:
    """An answer whose rows have been read."""

    def __init__(self, rows: list[object]) -> None:
        self._rows = rows

    def fetchall(self) -> list[object]:
        return self._rows


@pytest.mark.usefixtures("short")
def test_threads_read_while_the_index_moves(three: list[SQLiteJournal]) -> None:
    """A reader that does not lead sees what was acknowledged before, also while the index is brought up to date."""
    failures: list[str] = []

    def work(number: int) -> None:
        journal = three[number % 2]
        for step in range(60):
            effect_id = f"e{number}-{step}"
            write(journal, effect_id)
            if (
                journal.load(effect_id).kind is not Kind.DISPATCHED
                or len(write(journal, effect_id, "COMMITTED").entries) != 4
            ):
                failures.append(effect_id)
            if three[2].load(effect_id).kind is not Kind.COMMITTED:
                failures.append(effect_id)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []
    verification = three[2].verify()
    assert verification.ok
    assert verification.entries == 6 * 60 * 4


def test_a_commit_touches_the_entries_alone(tmp_path: Path) -> None:
    """Between two times that the index is brought up to date, it is not written; closing leaves it up to date."""
    journal = SQLiteJournal(tmp_path)
    for number in range(20):
        write(journal, f"e{number}")
    assert query(tmp_path, "SELECT count(*) FROM heads") == [(0,)]
    assert len(journal.open_effects()) == 20
    journal.close()
    assert query(tmp_path, "SELECT count(*), sum(is_open), max(name) FROM heads") == [(20, 20, "pay")]
    assert query(tmp_path, "SELECT seq FROM indexed") == [(60,)]


def test_the_index_is_brought_up_to_date_without_another_file(tmp_path: Path) -> None:
    """However many pages of a large index change at once, SQLite opens no file for that: none is free, and every write holds."""
    rng = random.Random(7)
    with closing(SQLiteJournal(tmp_path)) as journal:
        for _ in range(1200):
            write(journal, rng.randbytes(12).hex())
        indexed = query(tmp_path, "SELECT seq FROM indexed")
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with open(os.devnull) as last:
            resource.setrlimit(resource.RLIMIT_NOFILE, (last.fileno(), hard))
        try:
            for _ in range(300):
                write(journal, rng.randbytes(12).hex())
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert query(tmp_path, "SELECT seq FROM indexed") > indexed
        assert journal.verify().ok


def test_what_a_killed_writer_left_is_read_from_the_entries(tmp_path: Path) -> None:
    """A writer that was killed leaves the index behind: the next one knows all that it wrote, and lists what is open."""
    with Remote(tmp_path) as writer:
        for number in range(5):
            writer.ask("write", f"e{number}")
        writer.kill()
    assert query(tmp_path, "SELECT count(*) FROM heads") == [(0,)]
    journal = SQLiteJournal(tmp_path)
    assert [effect_id for effect_id, _ in journal.open_effects()] == [f"e{number}" for number in range(5)]
    assert journal.append(History("e3"), drafts("PROPOSED")) is None
    write(journal, "e3", "COMMITTED")
    assert journal.verify().ok
    journal.close()


def test_entries_taken_out_stop_everybody(tmp_path: Path) -> None:
    """Where entries that the index does not know are missing, nothing is sent any more, and verify says so."""
    with Remote(tmp_path) as writer:
        for number in range(5):
            writer.ask("write", f"e{number}")
        writer.kill()
    query(tmp_path, "DELETE FROM entries WHERE seq IN (4, 5, 6)")
    journal = SQLiteJournal(tmp_path)
    for use in (lambda: journal.load("e1"), lambda: journal.append(History("new"), drafts(*CHAIN))):
        with pytest.raises(JournalCorrupt, match="missing"):
            use()
    assert not journal.verify().ok
    journal.close()


def test_an_index_ahead_of_the_entries_is_found(tmp_path: Path) -> None:
    """Where the last entries were taken out of a journal that was closed, nothing is sent any more, and verify says so."""
    journal = SQLiteJournal(tmp_path)
    write(journal, "e1")
    journal.close()
    query(tmp_path, "DELETE FROM entries WHERE seq = 3")
    journal = SQLiteJournal(tmp_path)
    with pytest.raises(JournalError, match="does not hold the entries"):
        journal.append(History("e2"), drafts(*CHAIN))
    assert any("does not end at an entry" in problem for problem in journal.verify().problems)
    journal.close()


def test_a_process_of_the_first_layout_stops(tmp_path: Path) -> None:
    """A process that still runs the version before, over a journal that was since carried over, can neither read nor write it."""
    golden = Path(__file__).parents[1] / "golden" / "journal_v1.sql"
    with closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as old:
        old.executescript(golden.read_text(encoding="utf-8"))
        assert old.execute("SELECT count(*) FROM effects").fetchone() == (4,)
        journal = SQLiteJournal(tmp_path)
        assert journal.verify().ok
        for statement in ("SELECT head FROM effects", "UPDATE effects SET is_open = 0"):
            with pytest.raises(sqlite3.OperationalError, match="no such table"):
                old.execute(statement)
        write(journal, "new")
        assert journal.verify().ok
        journal.close()
