"""A journal that fails at any write, at every tier: nothing is sent without a record, and no answer is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock import EffectFunction, Interlock
from interlock.errors import JournalUnavailable
from interlock.journal import MemoryJournal
from interlock.journal._base import Prepared
from tests.unit.conftest import World

TIERS = pytest.mark.parametrize("tier", [1, 2, 3])


class FailingJournal(MemoryJournal):
    """A journal whose disk fails at chosen writes: before it stored them or, worse, after."""

    def __init__(self, world: World, *, fails_at: int, stored: bool) -> None:
        super().__init__(world.journal.store)
        self.fails_at = fails_at
        self.stored = stored
        self.writes = 0

    def _commit(self, prepared: Prepared) -> bool:
        self.writes += 1
        if self.writes != self.fails_at:
            return super()._commit(prepared)
        if self.stored:
            super()._commit(prepared)
        raise JournalUnavailable("disk full")


STORED = pytest.mark.parametrize("stored", [False, True])


def lose_first_answer(world: World) -> None:
    """The first answer is lost after it landed."""
    lost = [TimeoutError()]

    def lose() -> None:
        if lost:
            raise lost.pop()

    world.service.after = lose


@TIERS
@STORED
@pytest.mark.parametrize("fails_at", [1, 2, 3, 4])
@pytest.mark.parametrize("answer_lost", [False, True])
@pytest.mark.parametrize("by", ["the same process", "another process"])
def test_every_write_fails(world: World, tier: int, stored: bool, fails_at: int, answer_lost: bool, by: str) -> None:
    """Whichever write fails: the call says so, nothing lands twice, and asking again or recovering settles it as the tier can."""
    if answer_lost:
        lose_first_answer(world)
    journal = FailingJournal(world, fails_at=fails_at, stored=stored)
    gate = Interlock(journal=journal, clock=world.clock)
    refund = world.refund(gate, tier)
    try:
        first = str(refund("881", 2000))
    except JournalUnavailable:
        first = "error"
    if fails_at == 1:
        assert world.service.sends == []  # no record, no send
    assert first == "error" or journal.writes < fails_at
    if by == "another process":
        gate.close()
        gate = world.gate()
        refund = world.refund(gate, tier)
    gate.recover()
    again = refund("881", 2000)
    landed = len(world.service.ledger)
    assert landed <= 1
    if tier < 3:
        assert again.ok
    elif not again.ok:
        assert str(again) == "AMBIGUOUS"
    assert landed == 1 or str(again) == "AMBIGUOUS"
    if tier == 3 and fails_at == 2 and not answer_lost and by == "the same process":
        assert again.ok, "the process that knows the answer writes it when it can"
    assert gate.journal.open_effects() == []
    assert gate.journal.verify().ok


@TIERS
def test_a_refusal_that_cannot_be_written(world: World, tier: int) -> None:
    """A refusal whose record fails is an error, nothing was sent, and it is refused when the journal works again."""
    world.service.permitted = False
    gate = Interlock(journal=FailingJournal(world, fails_at=1, stored=False), clock=world.clock)
    refund = world.refund(gate, tier)
    with pytest.raises(JournalUnavailable):
        refund("881", 2000)
    assert str(refund("881", 2000)) == "REFUSED:lease"
    assert world.service.sends == []


class SlowJournal(MemoryJournal):
    """A journal whose async writes end when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.writing = asyncio.Event()
        self.go_on = asyncio.Event()
        self.slow_at = 1
        self.writes = 0

    async def _commit_async(self, prepared: Prepared) -> bool:
        self.writes += 1
        if self.writes == self.slow_at:
            self.writing.set()
            await self.go_on.wait()
        return self._commit(prepared)


def pay_on(journal: MemoryJournal, sent: list[str]) -> EffectFunction[Any]:
    """An async effect at tier 3."""

    async def pay(order: str) -> str:
        sent.append(order)
        return "paid"

    return Interlock(journal=journal).effect(key=lambda order: order)(pay)


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_cancelled_while_the_record_before_the_send_is_written(times: int) -> None:
    """Cancelled, once or more often, before anything was sent: nothing is sent afterwards, and nobody is told that it was."""
    sent: list[str] = []
    journal = SlowJournal()
    pay = pay_on(journal, sent)
    task = asyncio.ensure_future(pay("1"))
    await journal.writing.wait()
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    journal.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.01)
    assert sent == []
    again = await pay("1")  # that nothing left is on the record, so that even at tier 3 it may be sent now
    assert [str(entry.kind) for entry in again.history.entries][2:4] == ["DISPATCHED", "FAILED"]
    assert (str(again), sent) == ("COMMITTED", ["1"])


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_cancelled_while_the_answer_is_written(times: int) -> None:
    """Cancelled, once or more often, while the answer is written: the answer stands, and the next call gets it."""
    sent: list[str] = []
    journal = SlowJournal()
    journal.slow_at = 2
    pay = pay_on(journal, sent)
    task = asyncio.ensure_future(pay("1"))
    await journal.writing.wait()
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    journal.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.01)
    again = await pay("1")
    assert (str(again), again.value, sent) == ("DUPLICATE_IGNORED", "paid", ["1"])
    assert journal.open_effects() == []
