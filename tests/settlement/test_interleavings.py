"""Two watchers, a service that changes its mind, and a sender that still sends: every order of their steps within bounds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from interlock import Kind, Settlement
from interlock.settlement import settlement_of
from interlock.watch import Reading, ReadSettlement
from interlock.watch import resettle as steps_of
from tests.settlement.conftest import AT_RISK, REVERSED, SETTLED, World

LIVES: list[list[Settlement]] = [
    [SETTLED],
    [SETTLED, AT_RISK],
    [AT_RISK, SETTLED],
    [SETTLED, REVERSED],
    [AT_RISK, REVERSED],
]


class Walker:
    """One re-read, step by step."""

    def __init__(self, world: World, effect_id: str, bank: list[Settlement | None]) -> None:
        self.journal = world.gate().journal
        self.run = steps_of(effect_id, now=world.clock.now)
        self.bank = bank
        self.answer: Any = None
        self.done: Reading | None = None

    def step(self) -> None:
        """Take one step, if there is one left."""
        if self.done is not None:
            return
        try:
            step = self.run.send(self.answer)
        except StopIteration as stop:
            self.done = stop.value
            return
        if isinstance(step, ReadSettlement):
            self.answer = self.bank[0]
        elif hasattr(step, "drafts"):
            self.answer = self.journal.append(step.history, step.drafts)
        else:
            self.answer = self.journal.load(step.effect_id)


def orders(*counts: int) -> Iterator[tuple[int, ...]]:
    """Every order of that many moves of each actor."""
    moves = [actor for actor, count in enumerate(counts) for _ in range(count)]
    yield from sorted(set(itertools.permutations(moves)))


def test_every_order_of_two_watchers_and_a_service() -> None:
    """No change is written twice, nothing follows a reversal, and one more reading brings the record to what the service says."""
    seen = 0
    for life in LIVES:
        for order in orders(4, 4, len(life)) if len(life) == 1 else orders(3, 3, len(life)):
            seen += 1
            world = World()
            gate = world.gate()
            effect_id = world.refund(gate)("881").effect_id
            bank: list[Settlement | None] = [None]
            coming = iter(life)
            walkers = [Walker(world, effect_id, bank), Walker(world, effect_id, bank)]
            for actor in order:
                if actor == 2:
                    bank[0] = next(coming)
                else:
                    walkers[actor].step()
            for walker in walkers:
                while walker.done is None:
                    walker.step()
            last = Walker(world, effect_id, bank)
            while last.done is None:
                last.step()
            entries = gate.journal.load(effect_id).entries[4:]
            told = [(entry.kind, entry.data["reason"]) for entry in entries]
            assert all(one != other for one, other in itertools.pairwise(told)), (order, told)
            assert Kind.REVERSED not in [kind for kind, _ in told[:-1]]
            assert settlement_of(last.done.history)[0] == life[-1].state, (order, told)
            news = sum(walker.done.is_news for walker in (*walkers, last) if walker.done)
            assert news == len(entries)
            assert gate.journal.verify().problems == ()
            for journal in world.journals:
                journal.close()
    assert seen > 1000
