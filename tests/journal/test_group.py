"""Group commit by itself: who leads, who waits, and that nobody waits for ever or is counted twice."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from interlock.effects import History
from interlock.errors import JournalError
from interlock.journal import Prepared, SQLiteJournal
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
    assert group.try_lead()
    interrupted = _Request(_prepared("interrupted"))
    assert not group._enter(interrupted)
    follower = _start(group, "follower")
    _queued(group, 2)
    group.hand_on()
    assert interrupted.is_leader
    group._leave(interrupted)  # what `write` does when its wait is interrupted
    follower.join(30)
    assert not follower.is_alive()
    assert disk.batches == [["follower"]]
    assert group.try_lead()


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
    assert not group._enter(interrupted)
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
        assert not group.try_lead()  # not before the follower has been woken
        group._leave(interrupted)
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert disk.batches == [["first"], ["leader", "interrupted", "follower"]]
    assert group.try_lead()


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
        assert group.hold(30)
        seen.append([list(batch) for batch in disk.batches])
        group.hand_on()

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
    assert not group.hold(0.05)
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
        assert group.close()
        at_close.append([list(batch) for batch in disk.batches])
        group.hand_on()

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
    assert not group.close()


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
