"""Two calls of one process that try for the same place in an effect's history at the same moment."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from interlock import Interlock
from interlock.effects import Draft, History, Kind
from interlock.journal import MemoryJournal, SQLiteJournal
from interlock.ports import Liveness


def test_the_losers_end_is_not_the_winners(tmp_path: Path) -> None:
    """While one call of a worker sends, another's giving up at the same place leaves it alive to everybody."""
    for journal in (SQLiteJournal(tmp_path), MemoryJournal()):
        journal.begin_send("effect", 2, "winner")
        journal.begin_send("effect", 2, "loser")
        for _ in range(2):  # an interrupted call may say so twice
            journal.end_send("effect", 2, "loser", answered=True)
            journal.end_send("effect", 2, "never began", answered=False, in_flight=False)
            assert journal.liveness(journal.worker, "effect", 2) is Liveness.ALIVE
        journal.end_send("effect", 2, "winner", answered=False)
        assert journal.liveness(journal.worker, "effect", 2) is Liveness.GONE
        journal.close()


def test_what_one_call_may_have_sent_is_not_taken_back_by_another(tmp_path: Path) -> None:
    """Of two calls at one place, one may have something on its way and the other has not: something may be on its way."""
    for journal in (SQLiteJournal(tmp_path), MemoryJournal()):
        other = SQLiteJournal(tmp_path) if isinstance(journal, SQLiteJournal) else MemoryJournal(journal.store)
        for first in (True, False):
            place = ("effect", int(first))
            journal.begin_send(*place, "one")
            journal.begin_send(*place, "other")
            journal.end_send(*place, "one", answered=False, in_flight=first)
            journal.end_send(*place, "other", answered=False, in_flight=not first)
            assert other.liveness(journal.worker, *place) is Liveness.GONE
        other.close()
        journal.close()


def test_a_place_that_is_tried_for_again_is_alive_to_other_processes(tmp_path: Path) -> None:
    """After a send that ended without an answer, a new one at the same place is alive, and ends again."""
    from interlock.journal import liveness

    journal = SQLiteJournal(tmp_path)
    workers, place = tmp_path / "workers", ("effect", 2)

    def seen_by_others() -> Liveness:
        mine = liveness._local.pop(journal.worker)
        try:
            return liveness.probe(workers, journal.worker, place)
        finally:
            liveness._local[journal.worker] = mine

    journal.begin_send(*place)
    journal.end_send(*place, answered=False, in_flight=False)
    assert seen_by_others() is Liveness.ENDED
    journal.begin_send(*place)
    assert seen_by_others() is Liveness.ALIVE
    journal.end_send(*place, answered=False)
    assert seen_by_others() is Liveness.GONE
    journal.begin_send(*place)
    journal.end_send(*place, answered=True)
    assert seen_by_others() is Liveness.GONE
    journal.close()


def test_many_tasks_that_want_the_same_effects_send_each_once(tmp_path: Path) -> None:
    """Eight tasks of one event loop that ask for the same effects at once: one send for each effect."""
    gate = Interlock(tmp_path)
    sent: Counter[str] = Counter()

    @gate.effect(key=lambda order: f"refund:{order}", dedupes=True, wait=5.0)
    async def refund(order: str, idempotency_key: str) -> None:
        sent[order] += 1

    gate.recover()

    async def ask() -> None:
        for number in range(40):
            assert (await refund(str(number))).ok

    async def main() -> None:
        await asyncio.gather(*(ask() for _ in range(8)))

    asyncio.run(main())
    gate.close()
    assert set(sent.values()) == {1}
    assert len(sent) == 40


def test_a_read_does_not_hold_up_a_write_that_came_meanwhile(tmp_path: Path) -> None:
    """A write that queues while a read has the writer's connection is woken when the read is over."""
    journal = SQLiteJournal(tmp_path)
    assert journal._group.hold("test", 0)
    assert not journal._group.try_lead("another")

    async def write() -> History | None:
        draft = Draft(Kind.PROPOSED, "2026-01-01T00:00:00+00:00", {"effect": "refund"})
        task = asyncio.ensure_future(journal.append_async(History("effect"), (draft,)))
        await asyncio.sleep(0.01)
        assert not task.done()
        journal._group.hand_on("test")
        return await asyncio.wait_for(task, 5)

    assert asyncio.run(write()) is not None
    assert journal.load("effect").kind is Kind.PROPOSED
    journal.close()
