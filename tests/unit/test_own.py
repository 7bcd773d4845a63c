"""Facts that show the effect itself, and look-ups that find something else under its key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock, Own
from interlock.effects import Facts
from interlock.errors import PremiseUnreadable
from interlock.testing import SimulatedCrash


class World:
    """A service that has at most one payment, which facts and look-up both show."""

    def __init__(self) -> None:
        self.there: Own | None = None
        self.sent = 0

    def declare(self, gate: Interlock, **options: Any) -> Any:
        @gate.effect(
            key=lambda order: f"pay:{order}",
            premises=lambda: Facts({"open": True}, self.there),
            lookup=lambda: self.there,
            dedupes=True,
            name="pay",
            **options,
        )
        def pay(order: int, idempotency_key: str) -> str:
            self.sent += 1
            self.there = Own({"id": "p_1"})
            return "p_1"

        return pay


def test_what_the_facts_show_is_not_sent(tmp_path: Path) -> None:
    """An effect that the service already has has landed, though this journal never sent it."""
    world = World()
    world.there = Own({"id": "p_0"})
    with Interlock(tmp_path) as gate:
        pay = world.declare(gate)
        outcome = pay(1)
        assert (str(outcome), outcome.value, outcome.evidence) == ("COMMITTED_ON_QUERY", {"id": "p_0"}, {"id": "p_0"})
        assert outcome.history is not None
        assert [str(entry.kind) for entry in outcome.history.entries] == ["PROPOSED", "COMMITTED"]
        assert outcome.history.entries[0].data["seen"] == {"open": True}
        assert str(pay(1)) == "DUPLICATE_IGNORED"
        assert len(gate.recover()) == 0
        assert gate.journal.verify().ok
    assert world.sent == 0


def test_what_the_facts_show_settles_a_crash_even_without_permission(tmp_path: Path) -> None:
    """After a crash the re-check's facts are enough: it is settled as found, and neither sent nor refused for a permission withdrawn."""
    world, allowed = World(), [True]
    gate = Interlock(tmp_path)
    pay = world.declare(gate, allowed=lambda: allowed[0])
    with pytest.raises(SimulatedCrash):
        gate.submit(pay.proposal(1), crash_after_effect=True)
    allowed[0] = False
    with Interlock(tmp_path) as gate:
        world.declare(gate, allowed=lambda: allowed[0])
        (outcome,) = gate.recover()
    assert str(outcome) == "COMMITTED_ON_QUERY"
    assert world.sent == 1


def test_something_else_under_the_key(tmp_path: Path) -> None:
    """Before a send it is a conflict, told and recorded once; after one nobody can know, and a person gets the sentence."""
    world = World()
    world.there = Own({"id": "p_0"}, "p_0 is of another amount.")
    with Interlock(tmp_path) as gate:
        pay = world.declare(gate)
        first, again = pay(1), pay(1)
        assert str(first) == str(again) == "REFUSED:conflicting_payload"
        assert again.detail == "p_0 is of another amount."
        assert again.history == first.history
        world.there = None
    gate = Interlock(tmp_path)
    pay = world.declare(gate)
    with pytest.raises(SimulatedCrash):
        gate.submit(pay.proposal(2), crash_before_effect=True)
    world.there = Own({"id": "p_0"}, "p_0 is of another amount.")
    with Interlock(tmp_path) as gate:
        world.declare(gate)
        (outcome,) = gate.recover()
    assert str(outcome) == "AMBIGUOUS"
    assert outcome.detail == "p_0 is of another amount."
    assert world.sent == 0


@pytest.mark.parametrize("crash", ["", "after_dispatch", "after_send"])
def test_another_journal_had_the_key_for_other_arguments(crash: str, tmp_path: Path) -> None:
    """A service that dedupes answers with the older booking. A function and a look-up that compare leave it to a person."""
    booked: dict[str, str] = {}

    def start(directory: str) -> tuple[Interlock, Any]:
        gate = Interlock(tmp_path / directory)

        def lookup(slot: str, idempotency_key: str) -> Own | None:
            found = booked.get(idempotency_key)
            return found and Own(found, "" if found == slot else f"{found} is booked under this key.")

        @gate.effect(key=lambda patient: f"visit:{patient}", lookup=lookup, dedupes=True, window=3600)
        def book(patient: str, slot: str, idempotency_key: str) -> str:
            if booked.setdefault(idempotency_key, slot) != slot:
                raise ValueError("another slot is booked under this key")
            return slot

        return gate, book

    gate, book = start("first")
    with gate:
        assert str(book("7", "9:00")) == "COMMITTED"
    gate, book = start("second")
    if crash:
        with pytest.raises(SimulatedCrash):
            gate.submit(book.proposal("7", "10:00"), crash_at=crash)
        gate, book = start("second")
        (outcome,) = gate.recover()
    else:
        outcome = book("7", "10:00")
    assert (str(outcome), outcome.detail) == ("AMBIGUOUS", "9:00 is booked under this key.")
    assert str(book("7", "10:00")) == "AMBIGUOUS"
    gate.close()
    assert list(booked.values()) == ["9:00"]


def test_evidence_that_says_nothing_is_no_effect(tmp_path: Path) -> None:
    """Facts that name an empty object as the effect cannot be read: neither absent nor landed."""
    world = World()
    world.there = Own({})
    with Interlock(tmp_path) as gate, pytest.raises(PremiseUnreadable, match="showed the effect itself"):
        world.declare(gate)(1)
    assert world.sent == 0
