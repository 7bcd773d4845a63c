"""Budgets on disk: many processes at one cap, killed in between; what is stored beside the entries; and what an edit leaves behind."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.effects import History, Kind
from interlock.journal import Denied, SQLiteJournal
from interlock.rules.budgets import Budget, reserved
from interlock.testing.journal import dispatching, draft, guards
from tests.journal.worker import is_commit

ROOT = Path(__file__).resolve().parents[2]
CAP = Budget("cap", 10_000, 1_000)

_RACER = """
import sys
sys.path.insert(0, sys.argv[2])
from interlock.effects import Kind
from interlock.journal import Denied, SQLiteJournal
from interlock.rules.budgets import Budget
from interlock.testing.journal import dispatching, draft, guards

journal = SQLiteJournal(sys.argv[1])
cap = Budget("cap", int(sys.argv[4]), 1_000)
print("ready", flush=True)
sys.stdin.readline()
for step in range(int(sys.argv[5])):
    effect_id = f"{sys.argv[3]}-{step}"
    try:
        history = journal.append(journal.load(effect_id), dispatching(cap, key=effect_id), guards=guards(cap))
    except Denied:
        print("denied", flush=True)
        continue
    print("taken", flush=True)
    if step % 2:
        assert journal.append(history, [draft(Kind.FAILED)]) is not None
        print("given back", flush=True)
"""


def take(journal: SQLiteJournal, effect_id: str, *budgets: Budget) -> History:
    """Dispatch an effect that takes budgets; there must be room."""
    after = journal.append(journal.load(effect_id), dispatching(*budgets, key=effect_id), guards=guards(*budgets))
    assert after is not None
    return after


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SQLiteJournal]:
    """A journal."""
    journal = SQLiteJournal(tmp_path / "journal")
    yield journal
    journal.close()


class Racers:
    """Processes that take and give back, let loose at one moment."""

    def __init__(self, directory: Path, *, count: int, limit: int, steps: int) -> None:
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-u", "-c", _RACER, str(directory), str(ROOT), f"p{number}", str(limit), str(steps)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for number in range(count)
        ]

    def __enter__(self) -> Racers:
        for process in self.processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.wait(10)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def test_processes_that_race_take_what_there_is(journal: SQLiteJournal) -> None:
    """Six processes take from one cap at the same moment: as many get in as there is room for, and nobody else."""
    with Racers(journal.directory, count=6, limit=10_000, steps=1) as racers:
        outputs = [process.communicate(timeout=60)[0].split("\n") for process in racers.processes]
    assert sum(output.count("taken") for output in outputs) == 6
    with Racers(journal.directory.with_name("other"), count=6, limit=2_500, steps=1) as racers:
        outputs = [process.communicate(timeout=60)[0].split("\n") for process in racers.processes]
    assert sum(output.count("taken") for output in outputs) == 2
    assert sum(output.count("denied") for output in outputs) == 4


def test_killed_in_between_nothing_is_lost_or_taken_twice(journal: SQLiteJournal) -> None:
    """Processes that take and give back are killed one by one: the cap is never exceeded, and sums, rows and entries agree."""
    with Racers(journal.directory, count=4, limit=10_000, steps=2_000) as racers:
        for process in racers.processes:
            assert process.stdout is not None
            for _ in range(8):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
            process.wait(10)
            assert sum_of(journal) <= 10_000
            verification = journal.verify()
            assert verification.ok, verification.problems
    held = {
        effect_id: sum(reserved(journal.load(effect_id).entries).values())
        for (effect_id,) in rows(journal, "SELECT DISTINCT effect_id FROM entries")
    }
    assert sum(held.values()) == sum_of(journal) > 0


def rows(journal: SQLiteJournal, statement: str) -> list[tuple[object, ...]]:
    """What another connection reads."""
    with sqlite3.connect(journal.directory / "journal.db") as connection:
        found = connection.execute(statement).fetchall()
    connection.close()
    return found


def edit(journal: SQLiteJournal, statement: str) -> None:
    """Edit the file by hand."""
    with sqlite3.connect(journal.directory / "journal.db") as connection:
        assert connection.execute(statement).rowcount == 1
    connection.close()


def sum_of(journal: SQLiteJournal) -> int:
    """What the cap holds, as the journal keeps it."""
    return sum(int(str(held)) for (held,) in rows(journal, "SELECT held FROM budgets WHERE budget = 'cap'"))


def test_without_budgets_there_is_nothing_of_them(journal: SQLiteJournal) -> None:
    """A journal whose effects have no budget has no table of them, and writes nothing beside its entries."""
    written = journal.append(History("e1"), dispatching(key="e1"))
    assert written is not None
    journal.append(written, [draft(Kind.COMMITTED)])
    names = {name for (name,) in rows(journal, "SELECT name FROM sqlite_master")}
    assert not names & {"reservations", "budgets"}
    assert journal.verify().ok


def test_names_in_the_file(journal: SQLiteJournal) -> None:
    """The tables that the first budget makes have these names and columns, and these contents."""
    take(journal, "e1", CAP, Budget("other", 1, 1))
    assert rows(journal, "SELECT budget, amount, effect_id, name, key FROM reservations ORDER BY budget") == [
        ("cap", 1000, "e1", "pay", "e1"),
        ("other", 1, "e1", "pay", "e1"),
    ]
    assert rows(journal, "SELECT budget, held FROM budgets ORDER BY budget") == [("cap", 1000), ("other", 1)]


def test_what_is_given_back_leaves_nothing(journal: SQLiteJournal) -> None:
    """A release takes the row away, and the sum of a budget that nobody holds."""
    history = take(journal, "e1", CAP)
    journal.append(history, [draft(Kind.FAILED)])
    assert rows(journal, "SELECT * FROM reservations") == []
    assert rows(journal, "SELECT * FROM budgets") == []


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("DELETE FROM reservations WHERE effect_id = 'e1'", "no such reservation is stored"),
        ("UPDATE reservations SET amount = 1 WHERE effect_id = 'e1'", "no such reservation is stored"),
        ("UPDATE reservations SET effect_id = 'e9' WHERE effect_id = 'e1'", "does not hold it by its entries"),
        ("UPDATE reservations SET budget = 'mine' WHERE effect_id = 'e1'", "does not hold it by its entries"),
        (
            "INSERT INTO reservations (budget, amount, effect_id, name, key) VALUES ('cap', 5, 'e2', 'pay', 'e2')",
            "does not hold it by its entries",
        ),
        ("UPDATE budgets SET held = held - 1", "its reservations add up to 1000"),
        ("UPDATE budgets SET held = held + 1", "its reservations add up to 1000"),
        ("DELETE FROM budgets", "its reservations add up to 1000"),
        ("INSERT INTO budgets (budget, held) VALUES ('ghost', 7)", "its reservations add up to 0"),
    ],
)
def test_verify_notices_what_does_not_fit_the_entries(journal: SQLiteJournal, statement: str, problem: str) -> None:
    """A reservation or a sum that was edited, removed or put in is a problem in words, and the rest of the journal is still checked."""
    take(journal, "e1", CAP)
    journal.append(take(journal, "e2", CAP), [draft(Kind.FAILED)])
    assert journal.verify().ok
    edit(journal, statement)
    verification = journal.verify()
    assert any(problem in found for found in verification.problems), verification.problems
    assert (verification.entries, verification.effects) == (7, 2)


def test_an_edited_reservation_gives_no_room_that_is_not_there(journal: SQLiteJournal) -> None:
    """A row taken out by hand is not given back a second time when its effect fails: the sum stays on the safe side."""
    history = take(journal, "e1", CAP)
    take(journal, "e2", CAP)
    edit(journal, "DELETE FROM reservations WHERE effect_id = 'e1'")
    journal.append(history, [draft(Kind.FAILED)])
    assert sum_of(journal) == 2000


def test_one_batch_is_judged_in_order(journal: SQLiteJournal) -> None:
    """Dispatches that share one commit see what those before them in it took: of eight, as many pass as fit, by one fsync."""
    take(journal, "first", CAP)
    assert journal._writer is not None
    commits: list[str] = []
    writer = journal._writer
    writer.set_trace_callback(lambda statement: commits.append(statement) if is_commit(journal, statement) else None)
    journal._group.hold("test")
    results: list[object] = [None] * 8

    def work(number: int) -> None:
        try:
            results[number] = take(journal, f"e{number}", Budget("cap", 4_000, 1_000))
        except Denied as denied:
            results[number] = denied

    histories = [journal._read(f"e{number}") for number in range(8)]
    assert histories == [[]] * 8
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    while len(journal._group._queue) < 8:
        threading.Event().wait(0.001)
    journal._group.hand_on("test")
    for thread in threads:
        thread.join(30)
    writer.set_trace_callback(None)
    assert len(commits) == 1
    assert sum(isinstance(result, History) for result in results) == 3
    assert sum(isinstance(result, Denied) for result in results) == 5
    assert journal.verify().ok


def test_a_budget_costs_no_further_fsync(journal: SQLiteJournal) -> None:
    """An effect under a cap is two commits like any other: its dispatch, and its answer."""
    take(journal, "first", CAP)
    assert journal._writer is not None
    commits: list[str] = []
    writer = journal._writer
    writer.set_trace_callback(lambda statement: commits.append(statement) if is_commit(journal, statement) else None)
    history = take(journal, "e1", CAP)
    assert len(commits) == 1
    journal.append(history, [draft(Kind.FAILED)])
    writer.set_trace_callback(None)
    assert len(commits) == 2


def test_a_journal_of_before_takes_budgets(journal: SQLiteJournal) -> None:
    """Effects recorded before any budget was, or by a version that knew none, stand beside those that have one."""
    old = journal.append(History("old"), dispatching(key="old"))
    journal.close()
    again = SQLiteJournal(journal.directory)
    assert again.load("old") == old
    take(again, "e1", CAP)
    again.close()
    last = SQLiteJournal(journal.directory)
    with pytest.raises(Denied):
        take(last, "e2", Budget("cap", 1_000, 1))
    assert last.verify().ok
    last.close()
