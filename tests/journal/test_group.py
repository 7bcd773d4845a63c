"""Group commit by itself: who leads, who waits, and that nobody waits for ever or is counted twice."""

from __future__ import annotations

import dis
import functools
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from interlock.effects import History
from interlock.errors import JournalError, JournalUnavailable
from interlock.journal import Prepared, SQLiteJournal, _group
from interlock.journal._group import GroupCommit, _Request
from tests.journal.worker import CHAIN, drafts


def _prepared(name: str) -> Prepared:
    return Prepared(name, "pay", "", (), is_open=True)


class _Disk:
    """Stores nothing, remembers the batches, and can be made to take as long as the test wants."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.is_writing = threading.Event()

    def commit(self, batch: Sequence[Prepared]) -> list[bool | Exception]:
        self.batches.append([prepared.effect_id for prepared in batch])
        self.is_writing.set()
        assert self.goes_on.wait(30)
        return [True] * len(batch)


def _queued(group: GroupCommit, count: int) -> None:
    """Wait until so many writes stand in the queue."""
    for _ in range(3000):
        if len(group._queue) == count:
            return
        threading.Event().wait(0.01)
    raise AssertionError("the writes did not queue")


def _start(group: GroupCommit, name: str) -> threading.Thread:
    thread = threading.Thread(target=group.write, args=(_prepared(name),), daemon=True)
    thread.start()
    return thread


def test_what_comes_meanwhile_is_one_batch() -> None:
    """While one write is under way the others gather, and the next transaction holds all of them."""
    disk = _Disk()
    group = GroupCommit(disk.commit)
    disk.goes_on.clear()
    threads = [_start(group, "first")]
    assert disk.is_writing.wait(30)
    for number in range(5):
        threads.append(_start(group, f"e{number}"))
        _queued(group, number + 1)
    disk.goes_on.set()
    for thread in threads:
        thread.join(30)
    assert disk.batches == [["first"], ["e0", "e1", "e2", "e3", "e4"]]


def test_a_waiter_that_is_interrupted_as_it_should_lead_hands_on() -> None:
    """A write that was about to lead and is given up takes itself out, and those behind it are written."""
    disk = _Disk()
    group = GroupCommit(disk.commit)
    assert group.hold("test")
    interrupted = _Request(_prepared("interrupted"))
    group._enter(interrupted)
    follower = _start(group, "follower")
    _queued(group, 2)
    group.hand_on("test")
    assert interrupted.is_leader
    group._leave(interrupted)  # what `write` does when its wait is interrupted
    follower.join(30)
    assert not follower.is_alive()
    assert disk.batches == [["follower"]]
    assert group.try_lead("test")


@pytest.mark.parametrize("when", ["while it is written", "once it is woken"])
def test_a_waiter_that_is_interrupted_does_not_hold_up_the_rest_of_its_batch(when: str) -> None:
    """Those of a batch are woken one by the other; one that is interrupted meanwhile still lets the next one go on, and others lead."""
    disk = _Disk()
    group = GroupCommit(disk.commit)
    disk.goes_on.clear()
    threads = [_start(group, "first")]
    assert disk.is_writing.wait(30)
    threads.append(_start(group, "leader"))
    _queued(group, 1)
    interrupted = _Request(_prepared("interrupted"))
    group._enter(interrupted)
    threads.append(_start(group, "follower"))
    _queued(group, 3)
    if when == "while it is written":
        store = group._commit

        def interrupt(batch: Sequence[Prepared]) -> list[bool | Exception]:
            group._leave(interrupted)  # what `write` does when its wait is interrupted
            return store(batch)

        group._commit = interrupt
    disk.goes_on.set()
    if when == "once it is woken":
        assert interrupted._done.acquire(timeout=30)
        assert group._leader is interrupted  # nobody else before the follower has been woken
        group._leave(interrupted)
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert disk.batches == [["first"], ["leader", "interrupted", "follower"]]
    assert group.try_lead("test")


def test_whoever_must_keep_commits_away_is_next() -> None:
    """A fork waits for the batch under way and not for the queue behind it, however full that stays."""
    disk = _Disk()
    group = GroupCommit(disk.commit)
    disk.goes_on.clear()
    threads = [_start(group, "first")]
    assert disk.is_writing.wait(30)
    threads.append(_start(group, "second"))
    _queued(group, 1)
    seen: list[list[list[str]]] = []

    def hold() -> None:
        assert group.hold("test", 30)
        seen.append([list(batch) for batch in disk.batches])
        group.hand_on("test")

    holder = threading.Thread(target=hold)
    holder.start()
    for _ in range(3000):
        if group._holders:
            break
        threading.Event().wait(0.01)
    disk.goes_on.set()
    for thread in (holder, *threads):
        thread.join(30)
        assert not thread.is_alive()
    assert seen == [[["first"]]]
    assert disk.batches == [["first"], ["second"]]


def test_a_hold_that_takes_too_long_gives_up_and_leaves_nothing_behind() -> None:
    """Where the write under way does not end in time, the hold is refused, and the next write is served as ever."""
    disk = _Disk()
    group = GroupCommit(disk.commit)
    disk.goes_on.clear()
    thread = _start(group, "first")
    assert disk.is_writing.wait(30)
    assert not group.hold("test", 0.05)
    disk.goes_on.set()
    thread.join(30)
    assert group.write(_prepared("second"))


def test_close_serves_what_has_come_and_refuses_what_comes_later() -> None:
    """Writes that queue when the group is closed are stored before close comes back; a later one is an error."""
    disk = _Disk()
    group = GroupCommit(disk.commit)
    disk.goes_on.clear()
    threads = [_start(group, "first")]
    assert disk.is_writing.wait(30)
    threads.append(_start(group, "queued"))
    _queued(group, 1)
    at_close: list[list[list[str]]] = []

    def close() -> None:
        assert group.close("test")
        at_close.append([list(batch) for batch in disk.batches])
        group.hand_on("test")

    closer = threading.Thread(target=close)
    closer.start()
    for _ in range(3000):
        if group._holders:
            break
        threading.Event().wait(0.01)
    disk.goes_on.set()
    for thread in (closer, *threads):
        thread.join(30)
        assert not thread.is_alive()
    assert at_close == [[["first"], ["queued"]]]
    with pytest.raises(JournalError):
        group.write(_prepared("late"))
    assert not group.close("again")


def test_two_writes_of_one_batch_on_one_head(tmp_path: Path) -> None:
    """Two appends to one effect on the same head that share a transaction: the first holds, the second does not."""
    journal = SQLiteJournal(tmp_path)
    for batch in ("unknown before", "known before"):
        head = journal.load("e1")
        kinds = CHAIN if batch == "unknown before" else ("DISPATCHED",)
        racing = [journal._prepare(head, drafts(*kinds), ()) for _ in range(3)]
        assert journal._store(racing) == [True, False, False]
        assert journal.load("e1").head == racing[0].entries[-1].hash
    assert journal.load("e1").entries[-1].n == len(CHAIN)
    assert journal.append(History("e1"), drafts(*CHAIN)) is None
    assert journal.verify().ok
    journal.close()


# --- a lead that was lost ---------------------------------------------------------------------------------------------


def _lost_by(how: str, group: GroupCommit, lead: object) -> None:
    """Let a thread take the lead and go away without a word: by ending, or by going on with something else."""
    goes_on, has_it = threading.Event(), threading.Event()

    def take() -> None:
        assert group.try_lead(lead)
        has_it.set()
        if how == "lives on":
            goes_on.wait(60)

    threading.Thread(target=take, daemon=True).start()
    assert has_it.wait(30)


@pytest.mark.parametrize("how", ["has ended", "lives on"])
@pytest.mark.parametrize("when", ["before it took the queue", "while it committed", "before it woke the rest"])
def test_a_lead_that_was_lost_is_taken_over(how: str, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the thread that led is no longer in here, those who wait go on; what it may have stored is told as unknown."""
    monkeypatch.setattr(_group, "LOOK_S", 0.02)
    disk = _Disk()
    group = GroupCommit(disk.commit)
    lead = object()
    _lost_by(how, group, lead)
    told: dict[str, object] = {}

    def write(name: str) -> None:
        try:
            told[name] = group.write(_prepared(name))
        except JournalError as error:
            told[name] = type(error)

    threads = [threading.Thread(target=write, args=(name,), daemon=True) for name in ("first", "second")]
    with group._lock:  # nobody looks meanwhile
        threads[0].start()
        if when != "before it took the queue":
            taken = _Request(_prepared("taken"))
            if when == "while it committed":
                group._taken = [taken]
            else:
                taken.result = True
                group._passing.append(taken)
    threads[1].start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert told == {"first": True, "second": True}
    if when == "while it committed":
        assert isinstance(taken.result, JournalUnavailable)


def test_a_leader_that_takes_long_is_not_robbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often those who wait look, a thread that is still committing leads on."""
    monkeypatch.setattr(_group, "LOOK_S", 0.001)
    disk = _Disk()
    group = GroupCommit(disk.commit)
    disk.goes_on.clear()
    threads = [_start(group, "first")]
    assert disk.is_writing.wait(30)
    threads += [_start(group, "second"), _start(group, "third")]
    _queued(group, 2)
    looked = threading.Event()
    look, count = group._look, iter(range(50))

    def counted() -> None:
        look()
        if next(count, None) is None:
            looked.set()

    monkeypatch.setattr(group, "_look", counted)
    threads.append(_start(group, "fourth"))
    assert looked.wait(30)
    assert disk.batches == [["first"]]
    disk.goes_on.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert sorted(name for batch in disk.batches for name in batch) == ["first", "fourth", "second", "third"]


def test_a_write_in_the_middle_of_a_write_is_refused() -> None:
    """What a signal handler writes while its own thread commits would wait for itself: an error, and nothing written."""
    stored: list[str] = []

    def commit(batch: Sequence[Prepared]) -> list[bool | Exception]:
        stored.extend(prepared.effect_id for prepared in batch)
        if stored == ["outer"]:
            handler()
        return [True] * len(batch)

    def handler() -> None:
        with pytest.raises(JournalUnavailable, match="cannot wait for itself"):
            group.write(_prepared("inner"))
        assert not group.try_lead(object())
        assert not group.hold(object(), 30)

    group = GroupCommit(commit)
    assert group.write(_prepared("outer"))
    assert group.write(_prepared("after"))
    assert stored == ["outer", "after"]


_INTERRUPTIBLE = frozenset({"RESUME", "CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD"})
"""After these the interpreter looks whether a signal has come."""


class _Interrupt(BaseException):
    """A Ctrl-C."""


def _interrupted_at(point: int, what: Callable[[], object]) -> bool:
    """Run it, with an interrupt at the n-th place in `_group` where one can come. Whether there are so many."""
    left = point
    before: dict[FrameType, str] = {}

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename != _group.__file__ or left < 0:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            last, before[frame] = before.get(frame), dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if last in _INTERRUPTIBLE:
                left -= 1
                if left < 0:
                    raise _Interrupt
        return trace

    earlier = sys.gettrace()
    sys.settrace(trace)
    try:
        what()
    except (_Interrupt, JournalUnavailable):
        pass
    finally:
        sys.settrace(earlier)
    return left < 0


def test_an_interrupt_anywhere_in_a_lone_write_leaves_no_lead_behind() -> None:
    """Wherever Ctrl-C comes in a write, the next one finds nobody leading."""
    disk = _Disk()
    for point in range(1000):
        group = GroupCommit(disk.commit)
        if not _interrupted_at(point, functools.partial(group.write, _prepared("interrupted"))):
            break
        assert group._leader is None, point
    assert 5 < point < 999


@pytest.mark.parametrize("place", ["alone in the next batch", "leads the next batch", "is woken in the next batch"])
def test_an_interrupt_anywhere_in_a_write_among_others_holds_up_nobody(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever Ctrl-C comes in a write that waits, leads, or wakes another, all others are answered, and nobody leads afterwards."""
    monkeypatch.setattr(_group, "LOOK_S", 0.02)
    for point in range(1000):
        round_ = _Round(place)
        goes_further = _interrupted_at(point, functools.partial(round_.group.write, _prepared("interrupted")))
        round_.check()
        if not goes_further:
            break
    assert 10 < point < 999


class _Round:
    """Writes of other threads around one that is interrupted: the first is under way, one may be queued before it, one behind it."""

    def __init__(self, place: str) -> None:
        self.disk = _Disk()
        self.group = GroupCommit(self.disk.commit)
        self.told: dict[str, object] = {}
        self.threads: list[threading.Thread] = []
        self.disk.goes_on.clear()
        self._start("first")
        assert self.disk.is_writing.wait(30)
        if place == "is woken in the next batch":
            self._start("leader")
            _queued(self.group, 1)
        self._has_follower = place != "alone in the next batch"
        self._ahead = len(self.group._queue)
        self._helper = threading.Thread(target=self._go_on, daemon=True)
        self._helper.start()

    def _start(self, name: str) -> None:
        self.threads.append(threading.Thread(target=self._write, args=(name,), daemon=True))
        self.threads[-1].start()

    def _write(self, name: str) -> None:
        try:
            self.told[name] = self.group.write(_prepared(name))
        except JournalUnavailable:
            self.told[name] = "unknown"

    def _go_on(self) -> None:
        self._wait_for(self._ahead + 1)  # the one that is interrupted may not come so far
        if self._has_follower:
            self._start("follower")
            self._wait_for(self._ahead + 2)
        self.disk.goes_on.set()

    def _wait_for(self, count: int) -> None:
        for _ in range(20):
            if len(self.group._queue) >= count:
                return
            threading.Event().wait(0.001)

    def check(self) -> None:
        """Everybody has been answered, by what is true, and nobody leads."""
        self._helper.join(30)
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive()
        assert self.group.hold(object(), 30)
        written = [name for batch in self.disk.batches for name in batch]
        assert len(self.told) == len(self.threads)
        assert all(written.count(name) == 1 for name, answer in self.told.items() if answer is True)
        assert len(set(written)) == len(written)
