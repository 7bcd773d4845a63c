"""Forks that Python does not know of: the child refuses the journal, and the parent goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_HEAD = """
import ctypes, os, sys
sys.path.insert(0, sys.argv[2])
from interlock.errors import JournalUnavailable
from interlock.journal import SQLiteJournal
from tests.journal.worker import write

libc = ctypes.PyDLL(None)  # keeps the interpreter's lock over the call, as an embedding server does
journal = SQLiteJournal(sys.argv[1])
write(journal, "before")


def refused(use):
    try:
        use()
    except JournalUnavailable:
        return True
    return False
"""

_BEHIND_PYTHON = """
pid = libc.fork()
if pid == 0:
    uses = [lambda: journal.load("before"), lambda: write(journal, "child"), lambda: SQLiteJournal(sys.argv[1])]
    os._exit(sum(not refused(use) for use in uses))
"""

_CHILD_TOLD = """
pid = libc.fork()
if pid == 0:
    libc.PyOS_AfterFork_Child()
    uses = [lambda: journal.load("before"), lambda: write(journal, "child"), lambda: SQLiteJournal(sys.argv[1])]
    os._exit(sum(not refused(use) for use in uses))
"""

_TAIL = """
status = os.waitpid(pid, 0)[1]
write(journal, "after")
assert journal.verify().ok
journal.close()
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize("how", [_BEHIND_PYTHON, _CHILD_TOLD], ids=["behind-python", "only-the-child-told"])
def test_a_fork_by_somebody_else_is_refused(tmp_path: Path, how: str) -> None:
    """A child of a fork by C code, which SQLite would take for its parent, can neither read, write nor open the journal."""
    root = Path(__file__).resolve().parents[2]
    run = subprocess.run(
        [sys.executable, "-c", _HEAD + how + _TAIL, str(tmp_path), str(root)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_fork_in_the_middle_of_a_write_that_does_not_end_is_refused(tmp_path: Path) -> None:
    """Where the write under way does not end in the time a fork may wait for it, the child refuses the journal; the parent goes on."""
    root = Path(__file__).resolve().parents[2]
    script = """
from interlock.journal import _sqlite
_sqlite.BUSY_S = 0.1
assert journal._group.hold("test", 0)  # a write that hangs
pid = os.fork()
if pid == 0:
    uses = [lambda: journal.load("before"), lambda: write(journal, "child"), lambda: SQLiteJournal(sys.argv[1])]
    os._exit(sum(not refused(use) for use in uses))
journal._group.hand_on("test")
"""
    run = subprocess.run(
        [sys.executable, "-c", _HEAD + script + _TAIL, str(tmp_path), str(root)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_journal_opened_by_the_child_is_its_own(tmp_path: Path) -> None:
    """A child of os.fork opens a journal of its own beside the inherited one, and what it writes outlives the parent's close."""
    root = Path(__file__).resolve().parents[2]
    script = """
reading, writing = os.pipe()
closed, close = os.pipe()
pid = os.fork()
if pid == 0:
    os.close(close)
    own = SQLiteJournal(sys.argv[1])
    write(own, "first")
    os.write(writing, b"x")
    os.read(closed, 1)
    write(own, "second")
    os._exit(0)
os.read(reading, 1)
journal.close()
os.close(close)
assert os.waitpid(pid, 0)[1] == 0
again = SQLiteJournal(sys.argv[1])
found = [effect_id for effect_id in ("before", "first", "second") if again.load(effect_id).entries]
assert found == ["before", "first", "second"], found
assert again.verify().ok
"""
    run = subprocess.run(
        [sys.executable, "-c", _HEAD + script, str(tmp_path), str(root)], capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stdout + run.stderr
