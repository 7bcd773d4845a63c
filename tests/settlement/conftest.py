"""A gate over a journal in memory, and a service that says later what became of what it accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from interlock import EffectFunction, Interlock, Settlement
from interlock.journal import MemoryJournal
from interlock.testing import SettableClock


@dataclass
class Bank:
    """A service. `paid` is its ledger, by idempotency key; `fates` what it says of each order; `reads` the orders that were read again."""

    paid: dict[str, dict[str, Any]] = field(default_factory=dict)
    fates: dict[str, Any] = field(default_factory=dict)
    reads: list[str] = field(default_factory=list)
    before_answer: Callable[[str], None] = lambda order: None

    def pay(self, order: str, key: str) -> dict[str, Any]:
        return self.paid.setdefault(key, {"id": f"re_{order}", "charge": f"ch_{order}"})

    def fate(self, order: str) -> Any:
        self.reads.append(order)
        said = self.fates.get(order)
        if isinstance(said, Exception):
            raise said
        self.before_answer(order)
        return said


class World:
    """Gates that share one journal store and one bank, as processes do."""

    def __init__(self) -> None:
        self.bank = Bank()
        self.clock = SettableClock(frozen=True)
        self.journal = MemoryJournal()
        self.journals = [self.journal]

    def gate(self) -> Interlock:
        """A new process: another worker on the same store."""
        journal = MemoryJournal(self.journal.store)
        self.journals.append(journal)
        return Interlock(journal=journal, clock=self.clock)

    def refund(self, gate: Interlock, **options: Any) -> EffectFunction[Any]:
        """The effect of these tests."""
        bank = self.bank
        declared: dict[str, Any] = {
            "key": lambda order: f"refund:{order}",
            "dedupes": True,
            "window": 86_400,
            "lookup": lambda idempotency_key: bank.paid.get(idempotency_key),
            "settlement": lambda order: bank.fate(order),
            "references": lambda value: [value["id"], value["charge"]],
        } | options

        def refund(order: str, idempotency_key: str) -> dict[str, Any]:
            return bank.pay(order, idempotency_key)

        return gate.effect(**{name: value for name, value in declared.items() if value is not None})(refund)


@pytest.fixture
def world() -> Iterator[World]:
    """A new world."""
    world = World()
    yield world
    for journal in world.journals:
        journal.close()


SETTLED = Settlement("settled")
AT_RISK = Settlement("at_risk", {"dispute": "dp_1"}, "dispute_open")
REVERSED = Settlement("reversed", {"failure_reason": "charge_for_pending_refund_disputed"}, "failed")
PENDING = Settlement("pending")
