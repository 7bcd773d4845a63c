"""A gate is closed while one call sends an effect and another is about to dispatch the same one."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock
from interlock.errors import JournalError
from interlock.journal import Journal, MemoryJournal, SQLiteJournal
from interlock.ports import Liveness


class _Service:
    """A service whose answer comes when the test lets it, and who asked it."""

    def __init__(self) -> None:
        self.landed: dict[str, str] = {}
        self.sends: list[str] = []

    def land(self, key: str, by: str) -> str:
        self.sends.append(by)
        return self.landed.setdefault(key, by)

    def find(self, idempotency_key: str) -> str | None:
        return self.landed.get(idempotency_key)


def _elsewhere(directory: Path, service: _Service) -> list[str]:
    """What another worker's recovery makes of it."""
    gate = Interlock(directory)

    @gate.effect(key=lambda order: order, lookup=service.find, settle_after=0, name="refund")
    def refund(order: str, idempotency_key: str) -> str:
        return service.land(idempotency_key, "another worker")

    outcomes = [str(outcome) for outcome in gate.recover()]
    gate.close()
    return outcomes


def test_a_call_that_is_turned_away_does_not_end_the_send_of_another(tmp_path: Path) -> None:
    """The second thread is told that the gate is closed; the first one's send stays its own, and its answer is recorded."""
    service, gate = _Service(), Interlock(tmp_path)
    sends, goes_on, reads, may_dispatch = (threading.Event() for _ in range(4))
    second = threading.local()
    told: dict[str, object] = {}

    def facts() -> dict[str, Any]:
        if getattr(second, "is_it", False):
            reads.set()
            assert may_dispatch.wait(30)
        return {}

    @gate.effect(key=lambda order: order, premises=facts, lookup=service.find, settle_after=0)
    def refund(order: str, idempotency_key: str) -> str:
        sends.set()
        assert goes_on.wait(30)
        return service.land(idempotency_key, "the first")

    def ask(who: str) -> None:
        second.is_it = who == "second"
        try:
            told[who] = str(refund("881"))
        except Exception as error:
            told[who] = type(error)

    gate.recover()
    threads = []
    for who, is_there in (("second", reads), ("first", sends)):
        threads.append(threading.Thread(target=ask, args=(who,)))
        threads[-1].start()
        assert is_there.wait(30)
    gate.close()
    may_dispatch.set()
    threads[0].join(30)
    assert _elsewhere(tmp_path, service) == ["IN_FLIGHT:sender_alive"]
    goes_on.set()
    threads[1].join(30)
    assert told == {"second": JournalError, "first": "COMMITTED"}
    assert service.sends == ["the first"]
    assert _elsewhere(tmp_path, service) == []


def test_a_task_that_is_turned_away_does_not_end_the_send_of_another(tmp_path: Path) -> None:
    """As with threads, for two tasks of one event loop."""

    async def main() -> tuple[list[object], list[str], list[str]]:
        service, gate = _Service(), Interlock(tmp_path)
        sends, goes_on, reads, may_dispatch = (asyncio.Event() for _ in range(4))

        async def facts() -> dict[str, Any]:
            if not reads.is_set():
                reads.set()
                await asyncio.wait_for(may_dispatch.wait(), 30)
            return {}

        @gate.effect(key=lambda order: order, premises=facts, lookup=service.find, settle_after=0)
        async def refund(order: str, idempotency_key: str) -> str:
            sends.set()
            await asyncio.wait_for(goes_on.wait(), 30)
            return service.land(idempotency_key, "the first")

        await gate.arecover()
        second = asyncio.ensure_future(refund("881"))
        await asyncio.wait_for(reads.wait(), 30)
        first = asyncio.ensure_future(refund("881"))
        await asyncio.wait_for(sends.wait(), 30)
        gate.close()
        may_dispatch.set()
        (refused,) = await asyncio.gather(second, return_exceptions=True)
        seen = await asyncio.to_thread(_elsewhere, tmp_path, service)
        goes_on.set()
        return [type(refused), str(await first)], seen, service.sends

    told, seen, sends = asyncio.run(main())
    assert told == [JournalError, "COMMITTED"]
    assert seen == ["IN_FLIGHT:sender_alive"]
    assert sends == ["the first"]


@pytest.mark.parametrize("kind", [SQLiteJournal, MemoryJournal])
def test_a_send_that_never_began_has_no_end(tmp_path: Path, kind: type[Journal]) -> None:
    """One `end_send` too many ends nothing, and leaves nothing behind that a later send at that place could be taken for."""
    journal = SQLiteJournal(tmp_path) if kind is SQLiteJournal else MemoryJournal()
    journal.end_send("effect", 2, answered=False, in_flight=False)
    journal.begin_send("effect", 2)
    journal.end_send("effect", 2, answered=True)
    journal.end_send("effect", 2, answered=False, in_flight=False)
    assert journal.liveness(journal.worker, "effect", 2) is Liveness.GONE
    journal.close()
