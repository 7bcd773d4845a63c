"""What was acknowledged is there, whoever is killed; many processes; and one fsync for all that commit at one time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from interlock.effects import Draft, History, Kind
from interlock.errors import JournalError
from interlock.journal import SQLiteJournal
from interlock.journal._base import Prepared
from tests.journal.worker import AT, CHAIN, Remote, drafts, is_commit, write

_HEAD = "import os, sys, threading\nsys.path.insert(0, sys.argv[2])\nfrom tests.journal.worker import *\n"


def start(program: str, directory: Path, *words: object) -> subprocess.Popen[str]:
    """Start a process that knows the names of `worker`."""
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", _HEAD + program, str(directory), str(root), *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    _started.append(process)
    return process


_started: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    yield
    while _started:
        process = _started.pop()
        process.kill()
        process.wait(10)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):  # the process ended before it had read all
                    pipe.close()


def finish(process: subprocess.Popen[str], answer: str = "") -> str:
    """Let it end; what it printed."""
    out, err = process.communicate(answer, timeout=60)
    assert process.returncode == 0, err
    return out


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SQLiteJournal]:
    """Return a journal."""
    journal = SQLiteJournal(tmp_path / "journal")
    yield journal
    journal.close()


# --- killed writers -----------------------------------------------------------------------------------------------------------

_WRITER = """
journal = SQLiteJournal(sys.argv[1])
def work(number):
    step = 0
    while True:
        effect_id = f"{sys.argv[3]}-{number}-{step}"
        write(journal, effect_id)
        write(journal, effect_id, "COMMITTED") if step % 3 == 0 else None
        os.write(1, (effect_id + "\\n").encode())
        step += 1
for number in range(3):
    threading.Thread(target=work, args=(number,)).start()
"""


def test_acknowledged_is_durable(tmp_path: Path) -> None:
    """A writer killed in a loop, at any moment: every append it acknowledged is there whole, none is there in part, and all verifies."""
    directory = tmp_path / "journal"
    SQLiteJournal(directory).close()
    acknowledged: list[str] = []
    for round_number in range(10):
        writer = start(_WRITER, directory, round_number)
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(3 + 4 * round_number)]
        time.sleep(0.003 * round_number)
        writer.kill()
        lines += writer.communicate(timeout=10)[0].splitlines(keepends=True)
        acknowledged += [line.strip() for line in lines if line.endswith("\n")]
        journal = SQLiteJournal(directory)
        verification = journal.verify()
        assert verification.ok, verification.problems
        for effect_id in acknowledged:
            expected = CHAIN if int(effect_id.rsplit("-", 1)[1]) % 3 else (*CHAIN, "COMMITTED")
            assert tuple(entry.kind for entry in journal.load(effect_id).entries) == expected
        assert all(len(journal.load(effect_id).entries) == 3 for effect_id, _ in journal.open_effects())
        journal.close()
    assert len(acknowledged) > 100


def test_a_death_in_the_middle_of_a_commit_leaves_nothing(tmp_path: Path) -> None:
    """Killed between the statements of a transaction: none of its entries is there, and nobody has to wait."""
    program = """
import signal
from interlock.journal import _index, _sqlite
_index.TAIL_ENTRIES = _sqlite.TAIL_ENTRIES = int(sys.argv[5])
journal = SQLiteJournal(sys.argv[1])
write(journal, "before")
journal._is_alone = sys.argv[4] == "True"  # else each statement by itself
def die(statement):
    if statement.startswith(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
journal._writer.set_trace_callback(die)
write(journal, "e1")
"""
    for number, (moment, is_alone, tail) in enumerate(
        (
            ("INSERT INTO entries", True, 512),
            ("BEGIN", False, 512),
            ("INSERT INTO entries", False, 512),
            ("COMMIT", False, 512),
            ("WITH newer", True, 1),
            ("UPDATE indexed", True, 1),
            ("COMMIT", True, 1),
        )
    ):
        directory = tmp_path / str(number)
        writer = start(program, directory, moment, is_alone, tail)
        writer.communicate(timeout=30)
        assert writer.returncode == -signal.SIGKILL
        journal = SQLiteJournal(directory)
        assert journal.load("e1") == History("e1")
        assert journal.verify().entries == 3
        assert journal.verify().ok
        write(journal, "e1")
        journal.close()


# --- many processes -----------------------------------------------------------------------------------------------------------


def test_eight_processes_make_one_journal_at_once(tmp_path: Path) -> None:
    """Processes that open a directory that is not there at the same moment: all can use it, and it is one journal."""
    program = """
print("ready")
sys.stdin.readline()
journal = SQLiteJournal(sys.argv[1])
write(journal, f"e{sys.argv[3]}")
journal.close()
"""
    directory = tmp_path / "new" / "journal"
    processes = [start(program, directory, number) for number in range(8)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        finish(process)
    journal = SQLiteJournal(directory)
    assert {effect_id for effect_id, _ in journal.open_effects()} == {f"e{number}" for number in range(8)}
    assert journal.verify().ok
    journal.close()


def test_processes_race_for_effects(tmp_path: Path) -> None:
    """Four processes that all want each of 40 effects: each is won once, and every winner knows it."""
    program = """
journal = SQLiteJournal(sys.argv[1])
print("ready")
sys.stdin.readline()
for number in range(40):
    history = History(f"e{number}")
    if journal.append(history, drafts(*CHAIN)) is not None:
        print(history.effect_id)
"""
    directory = tmp_path / "journal"
    processes = [start(program, directory) for _ in range(4)]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    won = [effect_id for process in processes for effect_id in finish(process).split()]
    assert sorted(won) == sorted(f"e{number}" for number in range(40))
    journal = SQLiteJournal(directory)
    assert journal.verify().ok
    assert journal.verify().entries == 120
    journal.close()


def test_a_stopped_writer_holds_nobody_up(journal: SQLiteJournal) -> None:
    """A process stopped between its writes does not keep others from writing."""
    with Remote(journal.directory) as other:
        other.ask("write", "e1")
        other.signal(signal.SIGSTOP)
        started = time.monotonic()
        write(journal, "e2")
        assert time.monotonic() - started < 5
        other.signal(signal.SIGCONT)


# --- group commit ---------------------------------------------------------------------------------------------------------------


def count(journal: SQLiteJournal, *, pause_s: float = 0.0) -> list[str]:
    """Note each commit of the writer from now on; each takes at least so long, as on a slow disk."""
    commits: list[str] = []
    assert journal._writer is not None

    def note(statement: str) -> None:
        if is_commit(journal, statement):
            commits.append(statement)
            time.sleep(pause_s)

    journal._writer.set_trace_callback(note)
    return commits


def in_threads(number: int, work: Callable[[int], object]) -> list[object]:
    """Run it in that many threads; what each gave or raised."""
    results: list[object] = [None] * number

    def run(place: int) -> None:
        try:
            results[place] = work(place)
        except BaseException as error:
            results[place] = error

    threads = [threading.Thread(target=run, args=(place,), daemon=True) for place in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "a write did not come back"
    return results


def test_concurrent_threads_share_commits(journal: SQLiteJournal) -> None:
    """32 appends from 32 threads need a few transactions, not 32."""
    commits = count(journal, pause_s=0.01)
    results = in_threads(32, lambda number: journal.append(History(f"e{number}"), drafts(*CHAIN)))
    assert all(isinstance(result, History) for result in results)
    assert len(commits) <= 12
    assert journal.verify().ok


def test_concurrent_tasks_share_commits(journal: SQLiteJournal) -> None:
    """32 appends from 32 tasks need a few transactions, not 32."""
    commits = count(journal, pause_s=0.01)

    async def scenario() -> Sequence[History | None]:
        return await asyncio.gather(*(journal.append_async(History(f"e{n}"), drafts(*CHAIN)) for n in range(32)))

    assert all(result is not None for result in asyncio.run(scenario()))
    assert len(commits) <= 8
    assert journal.verify().ok


def test_one_writer_needs_one_commit_each(journal: SQLiteJournal) -> None:
    """Appends after each other are a transaction each: none is delayed in the hope of company."""
    commits = count(journal)
    for number in range(5):
        write(journal, f"e{number}")
    assert len(commits) == 5


def test_a_failing_write_does_not_fail_its_neighbours(journal: SQLiteJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a batch with a write that cannot be stored, that one raises, and all others are stored."""
    batches: list[int] = []
    store = journal._transaction

    def transaction(batch: Sequence[Prepared]) -> list[bool]:
        batches.append(len(batch))
        time.sleep(0.02)
        if any(prepared.effect_id == "e7" for prepared in batch):
            journal._reset_writer()
            raise ValueError("no place for e7")
        return store(batch)

    monkeypatch.setattr(journal, "_transaction", transaction)
    results = in_threads(16, lambda number: journal.append(History(f"e{number}"), drafts(*CHAIN)))
    assert max(batches) > 1, "there was a batch"
    assert [number for number, result in enumerate(results) if not isinstance(result, History)] == [7]
    assert isinstance(results[7], ValueError)
    assert journal.verify().effects == 15
    assert journal.verify().ok


def test_losers_and_winners_in_one_batch(journal: SQLiteJournal) -> None:
    """Writes of one batch on the same head: the first holds, the others are told so, and other effects are not touched."""
    history = write(journal, "e0", "PROPOSED", "AUTHORIZED")

    async def scenario() -> Sequence[History | None]:
        writes = []
        for number in range(1, 9):
            writes.append(journal.append_async(history, [Draft(Kind.DISPATCHED, AT, {"racer": number})]))
            writes.append(journal.append_async(History(f"e{number}"), drafts(*CHAIN)))
        return await asyncio.gather(*writes)

    commits = count(journal)
    results = asyncio.run(scenario())
    assert sum(result is not None for result in results[0::2]) == 1
    assert all(result is not None for result in results[1::2])
    assert len(commits) < 8
    assert len(journal.load("e0").entries) == 3
    assert journal.verify().ok


def test_a_batch_larger_than_a_statement_takes(journal: SQLiteJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of hundreds of writes is stored whole, whatever number of rows one statement takes."""
    entered = threading.Event()
    gate = threading.Event()
    store = journal._transaction

    def transaction(batch: Sequence[Prepared]) -> list[bool]:
        entered.set()
        gate.wait(10)
        return store(batch)

    monkeypatch.setattr(journal, "_transaction", transaction)

    async def scenario() -> Sequence[History | None]:
        writes = [asyncio.ensure_future(journal.append_async(History(f"e{n}"), drafts(*CHAIN))) for n in range(333)]
        await asyncio.to_thread(entered.wait, 10)
        await asyncio.sleep(0.05)
        gate.set()
        return await asyncio.gather(*writes)

    assert all(result is not None for result in asyncio.run(scenario()))
    verification = journal.verify()
    assert verification.ok
    assert (verification.entries, verification.effects) == (999, 333)


def test_a_cancelled_append_holds_nobody_up(journal: SQLiteJournal) -> None:
    """Tasks cancelled while they wait leave the others' writes alone; what was cancelled is there whole or not at all."""
    count(journal, pause_s=0.02)

    async def scenario() -> list[object]:
        tasks = [asyncio.ensure_future(journal.append_async(History(f"e{n}"), drafts(*CHAIN))) for n in range(12)]
        await asyncio.sleep(0.005)
        for task in tasks[::3]:
            task.cancel()
        return list(await asyncio.gather(*tasks, return_exceptions=True))

    results = asyncio.run(scenario())
    for number, result in enumerate(results):
        if number % 3:
            assert isinstance(result, History)
        assert len(journal.load(f"e{number}").entries) in ((3,) if number % 3 else (0, 3))
    write(journal, "after")
    assert journal.verify().ok


def test_a_loop_that_ends_early_holds_nobody_up(journal: SQLiteJournal) -> None:
    """An event loop that is closed before its append came back does not keep the journal from others."""
    commits = count(journal, pause_s=0.05)

    async def leave() -> None:
        task = asyncio.ensure_future(journal.append_async(History("left"), drafts(*CHAIN)))
        await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(leave())
    write(journal, "after")
    assert commits
    assert journal.verify().ok


class _Interrupt(BaseException):
    """Stands for KeyboardInterrupt, which pytest would take for its own."""


def test_an_interrupt_in_a_commit_holds_nobody_up(journal: SQLiteJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the thread that commits: it gets it, whoever shared the batch gets a clear error, and the journal goes on."""
    store = journal._transaction
    leading = threading.Event()

    def transaction(batch: Sequence[Prepared]) -> list[bool]:
        if any(prepared.effect_id == "first" for prepared in batch):
            leading.set()
            time.sleep(0.2)
            raise _Interrupt
        return store(batch)

    monkeypatch.setattr(journal, "_transaction", transaction)

    def work(number: int) -> Any:
        if number:
            leading.wait(10)
        return journal.append(History("first" if number == 0 else f"e{number}"), drafts(*CHAIN))

    results = in_threads(4, work)
    assert isinstance(results[0], _Interrupt)
    assert all(isinstance(result, History) for result in results[1:])
    assert journal.load("first") == History("first")
    write(journal, "first-again")
    assert journal.verify().ok


def test_who_shares_an_interrupted_batch_is_told(journal: SQLiteJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write in a batch whose committing thread was interrupted raises JournalUnavailable: it does not wait for ever."""
    store = journal._transaction
    busy = threading.Event()

    def transaction(batch: Sequence[Prepared]) -> list[bool]:
        if len(batch) == 1 and not busy.is_set():
            busy.set()
            time.sleep(0.2)
            return store(batch)
        if len(batch) > 1:
            raise _Interrupt
        return store(batch)

    monkeypatch.setattr(journal, "_transaction", transaction)

    def work(number: int) -> Any:
        if number:
            busy.wait(10)
        return journal.append(History(f"e{number}"), drafts(*CHAIN))

    results = in_threads(4, work)
    assert isinstance(results[0], History)
    assert sorted(type(result).__name__ for result in results[1:]) == [
        "JournalUnavailable",
        "JournalUnavailable",
        "_Interrupt",
    ]
    assert write(journal, "after").kind is Kind.DISPATCHED


def test_an_interrupt_while_waiting_holds_nobody_up(tmp_path: Path) -> None:
    """Ctrl-C in a thread that waits for another's commit: it comes back with it, and the journal goes on."""
    program = """
import signal, time
journal = SQLiteJournal(sys.argv[1])
journal._writer.set_trace_callback(lambda statement: time.sleep(0.5) if is_commit(journal, statement) else None)
other = threading.Thread(target=write, args=(journal, "e1"))
other.start()
time.sleep(0.2)
signal.setitimer(signal.ITIMER_REAL, 0.1)
def interrupt(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
try:
    journal.append(History("e2"), drafts(*CHAIN))
    raise SystemExit("not interrupted")
except KeyboardInterrupt:
    pass
assert other.is_alive()
write(journal, "e3")
other.join()
assert journal.load("e1").kind is Kind.DISPATCHED
assert len(journal.load("e2").entries) in (0, 3)
journal.close()
"""
    finish(start(program, tmp_path / "journal"))


def test_close_waits_for_writes_under_way(journal: SQLiteJournal) -> None:
    """Closing from one thread while others write: each write is acknowledged and there, or refused and not there."""
    count(journal, pause_s=0.01)
    done: dict[str, bool] = {}

    def work(number: int) -> None:
        if number == 0:
            time.sleep(0.03)
            journal.close()
            return
        for step in range(100):
            effect_id = f"e{number}-{step}"
            done[effect_id] = False
            try:
                done[effect_id] = journal.append(History(effect_id), drafts(*CHAIN)) is not None
            except JournalError:
                return

    assert in_threads(6, work) == [None] * 6
    again = SQLiteJournal(journal.directory)
    assert {effect_id: again.load(effect_id).kind is Kind.DISPATCHED for effect_id in done} == done
    assert sorted(set(done.values())) == [False, True]
    assert again.verify().ok
    again.close()


def test_an_error_in_the_file_does_not_stay(journal: SQLiteJournal) -> None:
    """After a write that failed in the middle, nothing of it stays and the next one works."""
    assert journal._writer is not None
    journal._writer.set_authorizer(lambda action, *_: 1 if action == 18 else 0)  # INSERT is denied
    with pytest.raises(JournalError):
        write(journal, "e1")
    assert write(journal, "e2").kind is Kind.DISPATCHED
    assert journal.load("e1") == History("e1")
    assert journal.verify().entries == 3


def test_an_answer_after_close_is_recorded_by_tasks(journal: SQLiteJournal) -> None:
    """The gate is closed while an async send runs: the late answer is stored, then the connections are closed."""

    async def scenario() -> History | None:
        journal.begin_send("e1", 2)
        history = await journal.append_async(History("e1"), drafts(*CHAIN))
        assert history is not None
        journal.close()
        await asyncio.sleep(0.01)
        late = await journal.append_async(history, drafts("COMMITTED"))
        assert journal._writer is not None
        journal.end_send("e1", 2, answered=True)
        return late

    late = asyncio.run(scenario())
    assert late is not None
    assert journal._writer is None
    assert journal._opened == []
    assert os.listdir(journal.directory / "workers") == [f"{late.entries[-1].by}.lock"]
    again = SQLiteJournal(journal.directory)
    assert again.load("e1") == late
    again.close()


def test_an_async_append_while_the_interpreter_ends(tmp_path: Path, root: Path) -> None:
    """What an exit handler appends by a task is stored, and closing the journal afterwards comes back."""
    script = (
        _HEAD
        + """
import asyncio, atexit
journal = SQLiteJournal(sys.argv[1])

def leave():
    assert asyncio.run(journal.append_async(History("e1"), drafts(*CHAIN))) is not None
    journal.close()
    os.write(1, b"done")

atexit.register(leave)
"""
    )
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), str(root)], capture_output=True, text=True, timeout=60
    )
    assert run.stdout == "done", run.stderr
    journal = SQLiteJournal(tmp_path)
    assert len(journal.load("e1").entries) == len(CHAIN)
    journal.close()
