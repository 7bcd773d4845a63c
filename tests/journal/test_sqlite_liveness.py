"""Whether a sender is dead, asked about real processes: killed, stopped, forked, in another pid namespace."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.effects import Kind
from interlock.errors import JournalUnavailable
from interlock.journal import SQLiteJournal, liveness
from interlock.ports import Liveness
from tests.journal.worker import Remote, drafts, write


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SQLiteJournal]:
    """Return a journal that looks at others."""
    journal = SQLiteJournal(tmp_path / "journal")
    yield journal
    journal.close()


def test_a_killed_sender_is_gone_at_once(journal: SQLiteJournal) -> None:
    """After SIGKILL the very next look says GONE: nothing is timed."""
    with Remote(journal.directory) as sender:
        sender.ask("send", "e1")
        assert journal.liveness(sender.worker, "e1", 2) is Liveness.ALIVE
        sender.kill()
        assert journal.liveness(sender.worker, "e1", 2) is Liveness.GONE
    assert journal.load("e1").kind is Kind.DISPATCHED


def test_a_stopped_sender_is_alive(journal: SQLiteJournal) -> None:
    """Under SIGSTOP a sender stays ALIVE, and after SIGCONT it goes on; it is never taken for dead."""
    with Remote(journal.directory) as sender:
        sender.ask("send", "e1")
        sender.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, sender.process.pid, os.WSTOPPED | os.WNOWAIT)
        for _ in range(5):
            assert journal.liveness(sender.worker, "e1", 2) is Liveness.ALIVE
            time.sleep(0.02)
        sender.signal(signal.SIGCONT)
        sender.ask("write", "e1", "COMMITTED")
        assert journal.load("e1").kind is Kind.COMMITTED
        assert journal.liveness(sender.worker, "e1", 2) is Liveness.ALIVE


@pytest.mark.parametrize(("how", "seen"), [("in_flight", Liveness.GONE), ("ended", Liveness.ENDED)])
def test_the_end_of_a_send_is_seen_from_another_process(journal: SQLiteJournal, how: str, seen: Liveness) -> None:
    """A send that ended without an answer is told from one that runs, while the worker lives and after its death."""
    with Remote(journal.directory) as sender:
        sender.ask("send", "e1")
        sender.ask("send", "e2")
        sender.ask("end", "e1", how)
        assert journal.liveness(sender.worker, "e1", 2) is seen
        assert journal.liveness(sender.worker, "e2", 2) is Liveness.ALIVE
        sender.kill()
        assert journal.liveness(sender.worker, "e1", 2) is seen
        assert journal.liveness(sender.worker, "e2", 2) is Liveness.GONE


def test_a_closed_worker_of_a_living_process_is_gone(journal: SQLiteJournal) -> None:
    """A process that closed its journal holds nobody up, although it lives on; with a send running it does."""
    with Remote(journal.directory) as sender:
        sender.ask("send", "e1")
        sender.ask("close")
        assert journal.liveness(sender.worker, "e1", 2) is Liveness.ALIVE
        sender.ask("end", "e1", "in_flight")
        assert journal.liveness(sender.worker, "e1", 2) is Liveness.GONE


def test_two_journals_of_one_process_are_two_workers(tmp_path: Path) -> None:
    """Two journals on one directory in one process tell each other's sends apart, and one's end is not the other's."""
    first, second = SQLiteJournal(tmp_path), SQLiteJournal(tmp_path)
    first.begin_send("e1", 2)
    write(first, "e1")
    second.begin_send("e2", 2)
    write(second, "e2")
    assert second.liveness(first.worker, "e1", 2) is Liveness.ALIVE
    with Remote(tmp_path) as other:
        assert other.ask("verify") == []
    worker = first.worker
    first.end_send("e1", 2, answered=False)
    first.close()
    assert second.liveness(worker, "e1", 2) is Liveness.GONE
    assert second.liveness(second.worker, "e2", 2) is Liveness.ALIVE
    third = SQLiteJournal(tmp_path)
    assert third.liveness(second.worker, "e2", 2) is Liveness.ALIVE
    second.abandon()
    assert third.liveness(second._me.id, "e2", 2) is Liveness.ENDED
    third.close()


def test_probing_never_frees_a_lock(journal: SQLiteJournal) -> None:
    """Many looks from threads, and journals opened and closed beside it, leave a living sender ALIVE."""
    with Remote(journal.directory) as sender:
        sender.ask("send", "e1")
        seen: set[Liveness] = set()

        def look() -> None:
            for _ in range(20):
                seen.add(journal.liveness(sender.worker, "e1", 2))
            SQLiteJournal(journal.directory).close()
            seen.add(journal.liveness(sender.worker, "e1", 2))

        threads = [threading.Thread(target=look) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert seen == {Liveness.ALIVE}


def test_a_removed_lock_file_proves_nothing(journal: SQLiteJournal) -> None:
    """Without its lock file a worker is CUT_OFF to others, dead or not, and refuses to dispatch anything more itself."""
    with Remote(journal.directory) as sender:
        sender.ask("send", "e1")
        (journal.directory / "workers" / f"{sender.worker}.lock").unlink()
        assert journal.liveness(sender.worker, "e1", 2) is Liveness.CUT_OFF
        answer = sender.ask("write", "e2")
        assert answer.startswith("JournalUnavailable: the lock file of this worker is gone")
        assert journal.load("e2").kind is None
        assert sender.ask("write", "e1", "COMMITTED") is None, "an answer is recorded all the same"
        sender.kill()
        assert journal.liveness(sender.worker, "e1", 2) is Liveness.CUT_OFF


def test_a_replaced_lock_file_stops_the_worker(journal: SQLiteJournal) -> None:
    """Another file under the name of the lock is not the lock: the worker sends nothing more."""
    path = journal.directory / "workers" / f"{journal.worker}.lock"
    path.unlink()
    path.touch()
    with pytest.raises(JournalUnavailable, match="lock file of this worker is gone"):
        journal.append(journal.load("e1"), drafts("PROPOSED", "AUTHORIZED", "DISPATCHED"))
    assert journal.load("e1").kind is None


def test_a_lock_file_that_cannot_be_opened_is_not_a_death(
    journal: SQLiteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no descriptor left to look at a lock, nothing is concluded: JournalUnavailable, not GONE."""
    with Remote(journal.directory) as sender:
        sender.ask("send", "e1")
        (journal.directory / "workers" / f"{sender.worker}.lock").rename(journal.directory / "away")
        (journal.directory / "workers" / f"{sender.worker}.lock").symlink_to(f"{sender.worker}.lock")
        with pytest.raises(JournalUnavailable, match="cannot be told whether"):
            journal.liveness(sender.worker, "e1", 2)


def test_lock_files_of_the_dead_are_cleaned_unless_an_open_effect_names_them(tmp_path: Path) -> None:
    """Opening a journal removes what nobody needs any more, and keeps what still tells how a sender ended."""
    directory = tmp_path / "journal"
    with Remote(directory) as needed, Remote(directory) as done, Remote(directory) as living:
        needed.ask("send", "e1")
        done.ask("send", "e2")
        done.ask("write", "e2", "COMMITTED")
        living.ask("send", "e3")
        living.ask("write", "e3", "COMMITTED")
        needed.kill()
        done.kill()
        journal = SQLiteJournal(directory)
        names = {path.stem for path in (directory / "workers").glob("*.lock")}
        assert names == {needed.worker, living.worker, journal.worker}
        assert journal.liveness(needed.worker, "e1", 2) is Liveness.GONE
        journal.close()


def test_probers_do_not_see_each_other(journal: SQLiteJournal) -> None:
    """A dead sender is gone to everybody, also to one who asks while another process is just asking."""
    with Remote(journal.directory) as sender:
        sender.ask("send", "e1")
        sender.kill()
        with (journal.directory / "workers" / f"{sender.worker}.lock").open() as other:
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)  # as another prober does, for a moment
            assert journal.liveness(sender.worker, "e1", 2) is Liveness.GONE


def test_cleaning_comes_round_to_every_file(tmp_path: Path) -> None:
    """Files that must stay do not keep those behind them from being removed, though each round looks at a few only."""
    stay, go = {f"{number:016x}" for number in range(8)}, {f"{number:016x}" for number in range(8, 12)}
    for name in stay | go:
        (tmp_path / f"{name}.lock").touch()
    for _ in range(300):
        liveness.clean(tmp_path, lambda: stay, at_most=2)
    assert {path.stem for path in tmp_path.glob("*.lock")} == stay


def test_two_cleaners_at_once(tmp_path: Path) -> None:
    """Two processes that clean the same files at the same moment remove each once, and the lock of neither stays."""
    for number in range(6):
        (tmp_path / f"{number:016x}.lock").touch()

    def nested() -> set[str]:
        liveness.clean(tmp_path, set)
        assert not list(tmp_path.glob("*.lock"))
        return set()

    liveness.clean(tmp_path, nested)
    worker = liveness.new_worker(tmp_path)
    worker.check_held()
    worker.close()


# --- fork -----------------------------------------------------------------------------------------------------------------


def test_a_child_takes_nothing_of_its_parents(journal: SQLiteJournal) -> None:
    """A forked child is a worker of its own and can append; the parent's lock outlives the child's exit."""
    with Remote(journal.directory) as sender:
        sender.ask("send", "e1")
        child = sender.ask("fork", "0")
        sender.ask("wait", str(child))
        assert journal.liveness(sender.worker, "e1", 2) is Liveness.ALIVE
        entries = journal.load(f"child-{child}").entries
        assert len(entries) == 3
        assert entries[0].by != sender.worker
        assert journal.liveness(entries[0].by, f"child-{child}", 2) is Liveness.GONE
        assert sender.ask("write", "e1", "COMMITTED") is None


def test_a_living_child_does_not_keep_its_parent_alive(journal: SQLiteJournal) -> None:
    """After the parent's SIGKILL its sends are GONE although a forked child lives, which is ALIVE itself."""
    with Remote(journal.directory) as sender:
        sender.ask("send", "e1")
        child = sender.ask("fork", "20")
        try:
            sender.kill()
            assert journal.liveness(sender.worker, "e1", 2) is Liveness.GONE
            entries = journal.load(f"child-{child}").entries
            assert journal.liveness(entries[0].by, f"child-{child}", 2) is Liveness.ALIVE
        finally:
            os.kill(child, signal.SIGKILL)


_FORKED = """
import os, sys, threading, time
sys.path.insert(0, sys.argv[2])
from tests.journal.worker import SQLiteJournal, write
journal = SQLiteJournal(sys.argv[1])
write(journal, "before")
journal.open_effects()
appended, closed = os.pipe(), os.pipe()
if os.fork() == 0:
    write(journal, "child-1")
    os.write(appended[1], b"x")
    os.read(closed[0], 1)
    write(journal, "child-2")
    assert [name for name, _ in journal.open_effects()] == ["before", "child-1", "child-2"]
    os._exit(0)
os.read(appended[0], 1)
journal.close()
os.write(closed[1], b"x")
assert os.wait()[1] == 0
"""


def test_what_a_child_appends_outlives_the_parents_close(tmp_path: Path, root: Path) -> None:
    """A parent that closes its journal must not take away the log that its forked child writes to (SQLite's locks are per process)."""
    directory = tmp_path / "journal"
    subprocess.run([sys.executable, "-c", _FORKED, directory, root], check=True, timeout=30)
    journal = SQLiteJournal(directory)
    assert [effect_id for effect_id, _ in journal.open_effects()] == ["before", "child-1", "child-2"]
    assert journal.verify().ok
    journal.close()


_FORKED_AT_WORK = """
import os, sys, threading
sys.path.insert(0, sys.argv[2])
from tests.journal.worker import SQLiteJournal, write
journal = SQLiteJournal(sys.argv[1])
ending = threading.Event()
def work(number):
    step = 0
    while not ending.is_set():
        write(journal, f"parent-{number}-{step}")
        journal.open_effects()
        step += 1
threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
for thread in threads: thread.start()
children = []
for number in range(6):
    pid = os.fork()
    if pid == 0:
        try:
            write(journal, f"child-{number}")
            journal.load("parent-0-0")
            os._exit(0)
        finally:
            os._exit(1)
    children.append(pid)
codes = [os.waitpid(pid, 0)[1] for pid in children]
ending.set()
for thread in threads: thread.join()
assert codes == [0] * 6, codes
assert journal.verify().ok, journal.verify().problems
assert all(len(journal.load(f"child-{number}").entries) == 3 for number in range(6))
"""


def test_a_fork_in_the_middle_of_other_threads_writes(tmp_path: Path, root: Path) -> None:
    """Children forked while threads commit and read can use the journal; neither side hangs and nothing is lost."""
    subprocess.run([sys.executable, "-c", _FORKED_AT_WORK, tmp_path / "journal", root], check=True, timeout=60)


def test_a_descriptor_that_slipped_through_keeps_the_sender_alive(journal: SQLiteJournal) -> None:
    """An inherited copy of the lock makes a death late, never wrong: ALIVE until the copy is closed too."""
    other = SQLiteJournal(journal.directory)
    copy = os.dup(other._me.fd)
    worker = other.worker
    other.close()
    with Remote(journal.directory) as looker:
        del looker
        assert journal.liveness(worker, "e1", 2) is Liveness.ALIVE
    os.close(copy)
    assert journal.liveness(worker, "e1", 2) is Liveness.GONE


# --- another pid namespace --------------------------------------------------------------------------------------------------

_UNSHARE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


def _why_not_unshare() -> str:
    if os.geteuid() != 0:
        return "making a pid namespace needs root"
    try:
        done = subprocess.run([*_UNSHARE, "true"], capture_output=True, text=True, timeout=20, check=False)
    except OSError as error:
        return f"unshare cannot run: {error}"
    return "" if done.returncode == 0 else f"unshare cannot run: {done.stderr.strip()}"


def test_a_sender_in_another_pid_namespace(journal: SQLiteJournal) -> None:
    """Two containers that share the directory but not their pids: ALIVE while it lives, GONE when it was killed."""
    if reason := _why_not_unshare():
        pytest.skip(reason)
    with Remote(journal.directory, prefix=_UNSHARE) as sender:
        assert sender.pid == 1, "it is in a pid namespace of its own"
        sender.ask("send", "e1")
        assert journal.liveness(sender.worker, "e1", 2) is Liveness.ALIVE
        sender.kill()  # --kill-child: the namespace dies with it, a moment later
        until = time.monotonic() + 10
        while journal.liveness(sender.worker, "e1", 2) is Liveness.ALIVE and time.monotonic() < until:
            time.sleep(0.01)
        assert journal.liveness(sender.worker, "e1", 2) is Liveness.GONE


def test_the_lock_is_the_kernels(journal: SQLiteJournal) -> None:
    """What others look at is a flock on the worker's own file, held for its life: another program can see it too."""
    with (journal.directory / "workers" / f"{journal.worker}.lock").open() as file:
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        journal.close()
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
