"""A gate over a journal in memory, and a service whose ledger is a dict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from interlock import EffectFunction, Interlock
from interlock.journal import MemoryJournal
from interlock.testing import SettableClock


@dataclass
class Service:
    """A service. `sends` counts the calls, `ledger` is what landed, by key (or by number where it does not dedupe)."""

    ledger: dict[str, Any] = field(default_factory=dict)
    sends: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=lambda: {"others": 0})
    permitted: bool = True
    before: Callable[[], None] = lambda: None
    after: Callable[[], None] = lambda: None
    lookup: Callable[[str], Any] | None = None

    def send(self, key: str, value: Any, *, dedupes: bool) -> Any:
        self.sends.append(key)
        self.before()
        where = key if dedupes else f"{key}#{len(self.sends)}"
        self.ledger.setdefault(where, value)
        self.after()
        return self.ledger[where]

    def find(self, key: str) -> Any:
        if self.lookup is not None:
            return self.lookup(key)
        return next((value for name, value in self.ledger.items() if name.split("#")[0] == key), None)


class World:
    """Gates that share one journal store and one service, as processes that follow each other do."""

    def __init__(self) -> None:
        self.service = Service()
        self.clock = SettableClock(frozen=True)
        self.journal = MemoryJournal()
        self.journals = [self.journal]

    def gate(self) -> Interlock:
        """A new process: another worker on the same store."""
        journal = MemoryJournal(self.journal.store)
        self.journals.append(journal)
        return Interlock(journal=journal, clock=self.clock)

    def refund(self, gate: Interlock, tier: int, **options: Any) -> EffectFunction[Any]:
        """The effect of these tests, at a service of that tier."""
        service = self.service
        declared: dict[str, Any] = {
            "key": lambda order: f"refund:{order}",
            "premises": lambda: dict(service.facts),
            "allowed": lambda: service.permitted,
            "settle_after": 0.05,
        }
        if tier == 1:
            declared |= {"dedupes": True, "window": 3600}
        if tier <= 2:
            declared["lookup"] = lambda idempotency_key: service.find(idempotency_key)
        declared |= options

        def refund(order: str, amount: int, idempotency_key: str) -> Any:
            return service.send(idempotency_key, {"order": order, "amount": amount}, dedupes=tier == 1)

        return gate.effect(**declared)(refund)


@pytest.fixture
def world() -> Iterator[World]:
    """A new world."""
    world = World()
    yield world
    for journal in world.journals:
        journal.close()
