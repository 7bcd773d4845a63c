"""Several processes, threads that come and go, and a long check: none of them stands in another's way."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.effects import History
from interlock.errors import JournalUnavailable
from interlock.journal import SQLiteJournal, _sqlite
from tests.journal.worker import CHAIN, drafts, write


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SQLiteJournal]:
    journal = SQLiteJournal(tmp_path)
    yield journal
    journal.close()


def test_a_busy_neighbour_leaves_everybody_a_turn(journal: SQLiteJournal) -> None:
    """Beside a writer that holds the file nearly all the time, each append takes a moment, not the second of SQLite's own waiting."""
    other = sqlite3.connect(journal.directory / "journal.db", isolation_level=None, check_same_thread=False, timeout=30)
    done = threading.Event()

    def hog() -> None:
        while not done.is_set():
            other.execute("BEGIN IMMEDIATE")
            time.sleep(0.02)
            other.execute("ROLLBACK")
            time.sleep(0.001)

    thread = threading.Thread(target=hog)
    thread.start()
    try:
        began = time.monotonic()
        for number in range(10):
            write(journal, f"e{number}")
        took_s = time.monotonic() - began
    finally:
        done.set()
        thread.join()
        other.close()
    assert took_s < 5


def test_waiting_for_a_file_that_stays_held_is_bounded_for_a_whole_batch(
    journal: SQLiteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another program keeps the write lock, eight waiting appends are refused together, not one wait after another."""
    monkeypatch.setattr(_sqlite, "BUSY_S", 0.5)
    other = sqlite3.connect(journal.directory / "journal.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    errors: list[Exception] = []

    def append(number: int) -> None:
        try:
            journal.append(History(f"e{number}"), drafts(*CHAIN))
        except JournalUnavailable as error:
            errors.append(error)

    threads = [threading.Thread(target=append, args=(number,)) for number in range(8)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took_s = time.monotonic() - began
    other.execute("ROLLBACK")
    other.close()
    assert len(errors) == 8
    assert (
        took_s < 3
    )  # the first alone, then the others as one batch: twice the wait, where one by one it is eight times
    write(journal, "after")
    assert journal.verify().entries == len(CHAIN)


def test_a_read_waits_where_another_process_repairs_the_log(
    journal: SQLiteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer's connection does not wait for others; a read on it that would have to, waits on another connection."""
    history = write(journal, "e1")
    look = _sqlite._history
    writer = journal._writer

    def busy_on_the_writers(connection: sqlite3.Connection, effect_id: str) -> object:
        if connection is writer:
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error
        return look(connection, effect_id)

    monkeypatch.setattr(_sqlite, "_history", busy_on_the_writers)
    assert journal.load("e1") == history


def test_verify_sees_one_moment(journal: SQLiteJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written while verify reads is not taken for damage, and is counted by the next verify."""
    write(journal, "before")
    scan = SQLiteJournal._scan

    def scan_and_write(self: SQLiteJournal) -> Iterator[tuple[str, bytes, str, str]]:
        for number, row in enumerate(scan(self)):
            yield row
            if number >= len(CHAIN):
                continue  # a check that saw them would never end
            thread = threading.Thread(target=write, args=(journal, f"meanwhile{number}"))
            thread.start()
            thread.join()

    monkeypatch.setattr(SQLiteJournal, "_scan", scan_and_write)
    verification = journal.verify()
    assert verification.ok, verification.problems
    assert verification.entries == len(CHAIN)
    monkeypatch.undo()
    assert journal.verify().entries == 4 * len(CHAIN)


def test_threads_that_come_and_go_leave_no_descriptors(journal: SQLiteJournal) -> None:
    """A server that reads in a new thread for each request keeps as many connections as read at one time."""

    def read() -> None:
        assert journal._group.hold("test", 0)  # as if somebody were writing: the read needs a connection of its own
        try:
            journal.load("e1")
        finally:
            journal._group.hand_on("test")

    def run() -> None:
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()

    write(journal, "e1")
    run()
    before = len(os.listdir("/dev/fd"))
    for _ in range(50):
        run()
    assert len(os.listdir("/dev/fd")) == before


def test_a_new_directory_is_made_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each directory that is made for the journal is entered durably in the one above it; an existing one is left alone."""
    synced: list[str] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("this system does not tell a descriptor's path")
    monkeypatch.setattr(os, "fsync", watched)
    place = tmp_path / "a" / "b"
    SQLiteJournal(place).close()
    assert synced == [str(tmp_path), str(tmp_path / "a"), str(place)]
    synced.clear()
    SQLiteJournal(place).close()
    assert synced == []
