"""A cap that effects share, through the public doors: what is let through, who is told what, and when room comes back."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from interlock import (
    BadInput,
    Budget,
    BudgetUnclear,
    ConfigurationError,
    EffectFunction,
    Interlock,
    NotSent,
    Outcome,
    Rejected,
)
from interlock.authority import Approval, permission_of
from interlock.effects import Draft, Kind
from interlock.rules.budgets import GREATEST, has_room, reserved, several
from interlock.testing import SimulatedCrash
from tests.unit.conftest import World

CAP = "refunds:customer:7"


def capped(world: World, gate: Interlock, tier: int = 1, limit: int = 3000, **options: Any) -> EffectFunction[Any]:
    """The effect of these tests, under a cap."""
    return world.refund(gate, tier, budget=lambda amount: Budget(CAP, limit, amount), **options)


def entries(outcome: Outcome) -> list[tuple[str, Any]]:
    """Kind and data of what its receipt shows."""
    return [(entry["kind"], entry["data"]) for entry in outcome.receipt().entries]


# --- the words --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "limit", "amount"),
    [
        ("", 1, 1),
        ("  ", 1, 1),
        (7, 1, 1),
        (None, 1, 1),
        ("\ud800", 1, 1),
        ("cap", -1, 1),
        ("cap", True, 1),
        ("cap", 10.0, 1),
        ("cap", "10", 1),
        ("cap", GREATEST + 1, 1),
        ("cap", 10, 0),
        ("cap", 10, -1),
        ("cap", 10, True),
        ("cap", 10, 1.0),
        ("cap", 10, None),
        ("cap", 10, GREATEST + 1),
    ],
)
def test_what_is_no_budget_is_refused_at_the_door(key: Any, limit: Any, amount: Any) -> None:
    """Empty keys and anything but whole minor units in range never become a budget; the message names what was given."""
    with pytest.raises(BadInput, match="budget"):
        Budget(key, limit, amount)


def test_budgets_of_one_call() -> None:
    """None is no cap; one is one; a list is a list; one key twice and anything else is refused."""
    one, two = Budget("a", 10, 1), Budget("b", 10, 1)
    assert several(None) == several([]) == ()
    assert several(one) == (one,)
    assert several([one, two]) == (one, two)
    for wrong in ([one, Budget("a", 9, 2)], [one, None], 2000, {"key": "a"}, "a", True):
        with pytest.raises(BadInput):
            several(wrong)


def test_room_is_counted_to_the_last_unit() -> None:
    """Exactly the limit fits, one more does not, at the greatest numbers too."""
    assert has_room(limit=3000, amount=1000, held=2000)
    assert not has_room(limit=3000, amount=1001, held=2000)
    assert has_room(limit=GREATEST, amount=1, held=GREATEST - 1)
    assert not has_room(limit=GREATEST, amount=1, held=GREATEST)


def test_what_entries_reserve() -> None:
    """A reservation follows from the entries alone: the last decision's dispatch, kept by resends, gone after FAILED or REFUSED."""

    def history(*kinds: Kind, amount: int = 5) -> list[Draft]:
        told = {"budget": [{"key": "a", "limit": 9, "amount": amount}]}
        return [Draft(kind, "", told if kind is Kind.DISPATCHED else {}) for kind in kinds]

    sent = (Kind.PROPOSED, Kind.AUTHORIZED, Kind.DISPATCHED)
    assert reserved(history(*sent[:2])) == {}
    assert reserved(history(*sent)) == {"a": 5}
    assert reserved([*history(*sent), Draft(Kind.DISPATCHED, "", {})]) == {"a": 5}
    assert reserved([*history(*sent, Kind.FAILED), *history(*sent, amount=7)]) == {"a": 7}
    assert reserved([*history(*sent, Kind.FAILED, *sent[:2]), Draft(Kind.DISPATCHED, "", {})]) == {}
    for kind in Kind:
        holds = kind not in (Kind.PROPOSED, Kind.AUTHORIZED, Kind.ESCALATED, Kind.DECIDED, Kind.FAILED, Kind.REFUSED)
        assert bool(reserved(history(*sent, kind))) is holds, kind


# --- let through and refused ------------------------------------------------------------------------------------------


def test_the_second_of_two_is_told_who_holds_the_rest(world: World) -> None:
    """The loser is refused durably, nothing of it is sent, and both texts say what is left and who holds the rest."""
    refund = capped(world, world.gate())
    assert str(refund("881", 2000)) == "COMMITTED"
    outcome = refund("882", 2000)
    assert str(outcome) == "REFUSED:over_limit"
    assert not outcome.ok
    assert outcome.changes[CAP]["holders"] == [{"effect": "refund", "key": "refund:881", "amount": 2000}]
    assert (outcome.changes[CAP]["held"], outcome.changes[CAP]["left"], outcome.changes[CAP]["amount"]) == (
        2000,
        1000,
        2000,
    )
    for text in (outcome.for_person, outcome.detail):
        assert "refund 'refund:881' 2000" in text
        assert "1000 of 3000 is left" in text
    assert "limit" in outcome.for_model
    assert len(world.service.sends) == 1
    assert [kind for kind, _ in entries(outcome)] == ["PROPOSED", "REFUSED"]
    assert entries(outcome)[1][1]["over_limit"] == outcome.changes
    assert str(capped(world, world.gate())("882", 1000)) == "REFUSED:conflicting_payload"
    assert str(capped(world, world.gate())("883", 1000)) == "COMMITTED"


def test_the_receipt_shows_the_budget(world: World) -> None:
    """What was reserved stands in the DISPATCHED entry, and so on the receipt, which verifies."""
    outcome = capped(world, world.gate())("881", 2000)
    dispatched = dict(entries(outcome))["DISPATCHED"]
    assert dispatched["budget"] == [{"key": CAP, "limit": 3000, "amount": 2000}]
    assert outcome.receipt().verify().ok


def test_more_than_the_limit_alone_is_over_it(world: World) -> None:
    """An amount above the limit is refused as over_limit though nobody holds anything: an outcome, no error."""
    outcome = capped(world, world.gate(), limit=1999)("881", 2000)
    assert str(outcome) == "REFUSED:over_limit"
    assert outcome.changes[CAP]["holders"] == []
    assert str(capped(world, world.gate(), limit=0)("882", 1)) == "REFUSED:over_limit"


def test_effects_of_different_kinds_share_a_cap(world: World) -> None:
    """A budget knows no function: a refund and a credit of one customer count together."""
    gate = world.gate()
    refund = capped(world, gate)
    credit = capped(world, gate, name="credit", key=lambda order: f"credit:{order}")
    assert refund("881", 2000).ok
    outcome = credit("881", 1500)
    assert str(outcome) == "REFUSED:over_limit"
    assert credit("882", 1000).ok


def test_without_a_budget_nothing_is_capped(world: World) -> None:
    """A callback that gives None, or an empty list, caps nothing and leaves no trace of a budget."""
    refund = world.refund(world.gate(), 1, budget=lambda amount: None if amount < 100 else [])
    for number in range(3):
        outcome = refund(f"88{number}", 99 + number)
        assert outcome.ok
        assert "budget" not in dict(entries(outcome))["DISPATCHED"]
    assert world.journal.store.reservations == {}


def test_several_caps_are_taken_together(world: World) -> None:
    """Of a customer's cap and a day's cap both must have room; the one that has not is named, and the other is left as it was."""
    refund = world.refund(
        world.gate(),
        1,
        budget=lambda order, amount: [Budget(f"customer:{order[0]}", 3000, amount), Budget("day", 5000, amount)],
    )
    assert refund("a1", 2000).ok
    assert refund("b1", 2500).ok
    outcome = refund("c1", 1000)
    assert list(outcome.changes) == ["day"]
    assert list(refund("a2", 2000).changes) == ["customer:a", "day"]
    assert refund("c2", 500).ok


def test_a_higher_limit_lets_the_same_call_through(world: World) -> None:
    """The limit is the call's own: asked again with a higher one, it goes through without a new decision."""
    assert capped(world, world.gate())("881", 2000).ok
    assert not capped(world, world.gate())("882", 2000).ok
    assert capped(world, world.gate(), limit=4000)("882", 2000).ok


def test_asked_again_in_vain_writes_nothing_more(world: World) -> None:
    """The same refusal for the same holders is not written twice; a new decision's is."""
    refund = capped(world, world.gate())
    refund("881", 2000)
    first, second = refund("882", 2000), refund("882", 2000)
    assert first.history == second.history
    assert second.changes == first.changes
    third = refund("882", 2000, decision="second look")
    assert [kind for kind, _ in entries(third)] == ["PROPOSED", "REFUSED"] * 2


def test_no_budget_is_asked_for_what_is_refused_anyway(world: World) -> None:
    """Permission and facts come first, and a replay needs no room."""
    asked: list[int] = []

    def budget(amount: int) -> Budget:
        asked.append(amount)
        return Budget(CAP, 3000, amount)

    refund = world.refund(world.gate(), 1, budget=budget)
    world.service.permitted = False
    assert str(refund("881", 2000)) == "REFUSED:lease"
    assert asked == []
    world.service.permitted = True
    assert str(refund("881", 2000)) == "COMMITTED"
    assert str(refund("881", 2000)) == "DUPLICATE_IGNORED"
    assert asked == [2000]


# --- given back, or kept ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [Rejected("declined"), NotSent("no route")])
def test_what_certainly_did_not_happen_gives_back(world: World, error: Exception) -> None:
    """After FAILED the other one goes through, asked under the same decision; the next attempt of the first is judged anew."""
    refund = capped(world, world.gate())

    def fail() -> None:
        raise error

    world.service.before = fail
    assert str(refund("881", 2000)).startswith("FAILED")
    world.service.before = lambda: None
    assert str(refund("882", 2000)) == "COMMITTED"
    again = refund("881", 2000)
    assert str(again) == "REFUSED:over_limit"
    assert again.changes[CAP]["holders"][0]["key"] == "refund:882"


def test_the_next_attempt_reserves_anew(world: World) -> None:
    """Attempt 2 takes its own reservation, in place of the one given back."""
    refund = capped(world, world.gate())

    def fail() -> None:
        raise Rejected("declined")

    world.service.before = fail
    refund("881", 2000)
    world.service.before = lambda: None
    assert str(refund("881", 2000)) == "COMMITTED"
    assert not refund("882", 2000).ok
    assert refund("883", 1000).ok
    assert [holder.amount for holder in world.journal.store.reservations[CAP].values()] == [2000, 1000]


def test_refused_at_recovery_gives_back(world: World) -> None:
    """A worker died before its send, and permission was gone when it came back: what it held is free again."""
    gate = world.gate()
    refund = capped(world, gate, 2)
    with pytest.raises(SimulatedCrash):
        gate.submit(refund.proposal("881", 2000), crash_before_effect=True)
    gate = world.gate()
    refund = capped(world, gate, 2)
    assert str(refund("882", 2000)) == "REFUSED:over_limit"
    world.service.permitted = False
    assert [str(outcome) for outcome in gate.recover()] == ["REFUSED:lease_at_recovery"]
    world.service.permitted = True
    assert str(refund("882", 2000)) == "COMMITTED"


@pytest.mark.parametrize(("tier", "recovered"), [(1, "COMMITTED_BY_RETRY"), (2, "REAPPLIED_AFTER_QUERY")])
def test_a_recovery_sends_under_the_reservation_that_stands(world: World, tier: int, recovered: str) -> None:
    """A resend needs no room of its own, is not held up by the cap that it fills, and is counted once."""
    gate = world.gate()
    refund = capped(world, gate, tier, limit=2000)
    with pytest.raises(SimulatedCrash):
        gate.submit(refund.proposal("881", 2000), crash_before_effect=True)
    gate = world.gate()
    refund = capped(world, gate, tier, limit=2000)
    assert [str(outcome) for outcome in gate.recover()] == [recovered]
    assert len(world.service.ledger) == 1
    assert capped(world, world.gate(), tier, limit=3000)("882", 1000).ok
    assert not capped(world, world.gate(), tier, limit=3000)("883", 1).ok
    assert gate.journal.verify().ok


def test_what_nobody_can_know_holds_its_budget(world: World) -> None:
    """An AMBIGUOUS effect may have happened: its budget stays taken."""
    gate = world.gate()
    refund = capped(world, gate, 3)
    with pytest.raises(SimulatedCrash):
        gate.submit(refund.proposal("881", 2000), crash_before_effect=True)
    gate = world.gate()
    refund = capped(world, gate, 3)
    assert [str(outcome) for outcome in gate.recover()] == ["AMBIGUOUS"]
    outcome = refund("882", 2000)
    assert str(outcome) == "REFUSED:over_limit"
    assert outcome.changes[CAP]["holders"][0]["key"] == "refund:881"


def test_dead_before_the_dispatch_holds_nothing(world: World) -> None:
    """A worker that dies right before the dispatch write, or in the budget callback, has taken nothing."""
    for number, point in enumerate(("before_read_budgets", "after_read_budgets", "before_dispatch")):
        gate = world.gate()
        refund = capped(world, gate)
        with pytest.raises(SimulatedCrash):
            gate.submit(refund.proposal(f"88{number}", 2000), crash_at=point)
    assert world.journal.store.reservations == {}


# --- callbacks --------------------------------------------------------------------------------------------------------


def test_the_callback_gets_the_key_of_the_attempt(world: World) -> None:
    """`idempotency_key` may be asked for like in the other callbacks."""
    seen: list[str] = []

    def budget(amount: int, idempotency_key: str) -> Budget:
        seen.append(idempotency_key)
        return Budget(CAP, 3000, amount)

    world.refund(world.gate(), 1, budget=budget)("881", 2000)
    assert seen == world.service.sends


def test_async_callbacks_and_functions(world: World) -> None:
    """An async callback serves a sync function and an async one; of tasks that race, as many pass as there is room for."""

    async def budget(amount: int) -> Budget:
        await asyncio.sleep(0)
        return Budget(CAP, 3000, amount)

    gate = world.gate()
    assert world.refund(gate, 1, budget=budget, name="first")("881", 1000).ok

    @gate.effect(key=lambda order: f"credit:{order}", budget=budget, dedupes=True, window=3600)
    async def credit(order: str, amount: int, idempotency_key: str) -> str:
        await asyncio.sleep(0.001)
        return order

    async def race() -> list[Outcome]:
        return list(await asyncio.gather(*(credit(str(number), 1000) for number in range(6))))

    outcomes = [str(outcome) for outcome in asyncio.run(race())]
    assert sorted(outcomes) == ["COMMITTED"] * 2 + ["REFUSED:over_limit"] * 4


def _raise(error: Exception) -> Any:
    raise error


@pytest.mark.parametrize(
    "budget",
    [
        lambda amount: 3000,
        lambda amount: {"key": CAP, "limit": 3000, "amount": amount},
        lambda amount: [Budget(CAP, 3000, amount), Budget(CAP, 3000, amount)],
        lambda amount: Budget(CAP, 3000, amount / 1),
        lambda amount: Budget(CAP, 3000, 0),
        lambda amount: _raise(ConnectionError("the limits are down")),
    ],
)
def test_an_unclear_budget_sends_nothing(world: World, budget: Any) -> None:
    """What is no budget, or cannot be read, is never taken for "no cap": nothing is journalled or sent, and the error says why."""
    refund = world.refund(world.gate(), 1, budget=budget)
    with pytest.raises(BudgetUnclear, match="Nothing was sent"):
        refund("881", 2000)
    assert world.service.sends == []
    assert world.journal.open_effects() == []


def test_an_async_budget_that_fails_sends_nothing(world: World) -> None:
    """The same for one that fails after it was awaited."""

    async def budget(amount: int) -> Any:
        await asyncio.sleep(0)
        return amount

    with pytest.raises(BudgetUnclear):
        world.refund(world.gate(), 1, budget=budget)("881", 2000)
    assert world.service.sends == []


def test_a_budget_that_cannot_be_called_is_refused_when_declared(world: World) -> None:
    """`budget=Budget(...)` instead of a function, and a callback that asks for an unknown argument, are told at once."""
    with pytest.raises(ConfigurationError, match="budget="):
        world.refund(world.gate(), 1, budget=Budget(CAP, 3000, 2000))
    with pytest.raises(ConfigurationError, match="customer"):
        world.refund(world.gate(), 1, budget=lambda customer: None)


# --- a resend under another approval ------------------------------------------------------------------------------------


def approved(world: World, gate: Interlock, approval: list[Approval], **options: Any) -> EffectFunction[Any]:
    """The effect of these tests, under whatever approval stands at the moment."""
    return world.refund(
        gate,
        1,
        **{
            "premises": None,
            "allowed": lambda amount: permission_of(approval[0], amount_minor=amount, now=datetime.now(UTC)),
            **options,
        },
    )


def crashed_under(world: World, approval: list[Approval], *orders: str, **options: Any) -> None:
    """Refunds of 2000 that die before their send."""
    for order in orders:
        gate = world.gate()
        refund = approved(world, gate, approval, **options)
        with pytest.raises(SimulatedCrash):
            gate.submit(refund.proposal(order, 2000), crash_at="after_dispatch")


def test_a_resend_under_another_approval_is_reserved_of_that_one() -> None:
    """The old approval gets back what it gave, the new one is held; what `budget=` names is held as before."""
    world, approval = World(), [Approval(id="A", amount_minor=2000)]
    options = {"budget": lambda amount: Budget(CAP, 6000, amount)}
    crashed_under(world, approval, "1", **options)
    approval[0] = Approval(id="B", amount_minor=3000)
    gate = world.gate()
    refund = approved(world, gate, approval, **options)
    (outcome,) = gate.recover()
    assert str(outcome) == "COMMITTED_BY_RETRY"
    assert reserved(outcome.history.entries) == {"approval:B": 2000, CAP: 2000}
    assert str(refund("2", 2000)) == "REFUSED:over_limit"
    assert refund("3", 1000).ok
    approval[0] = Approval(id="A", amount_minor=2000)
    assert refund("4", 2000).ok
    assert gate.journal.verify().ok, gate.journal.verify().problems


@pytest.mark.parametrize("again", [Approval(id="A", amount_minor=2000), Approval(id="A", amount_minor=2000, by="ann")])
def test_a_resend_under_the_same_approval_leaves_its_reservation_as_it_is(again: Approval) -> None:
    """Nothing is written twice, and there is no room to be short of."""
    world, approval = World(), [Approval(id="A", amount_minor=2000)]
    crashed_under(world, approval, "1")
    approval[0] = again
    gate = world.gate()
    approved(world, gate, approval)
    (outcome,) = gate.recover()
    assert str(outcome) == "COMMITTED_BY_RETRY"
    assert ["budget" in entry.data for entry in outcome.history.entries if entry.kind is Kind.DISPATCHED] == [
        True,
        False,
    ]


@pytest.mark.parametrize(("now", "holds"), [(Approval(id="B"), {}), (True, {"approval:A": 2000})])
def test_a_permission_without_a_cap(now: Any, holds: dict[str, int]) -> None:
    """An approval without an amount gives back what the old one held; True says nothing of amounts, and what is held stays held."""
    world, approval = World(), [Approval(id="A", amount_minor=2000)]
    crashed_under(world, approval, "1")
    gate = world.gate()
    options = {"allowed": lambda: True} if now is True else {}
    approval[0] = approval[0] if now is True else now
    approved(world, gate, approval, **options)
    (outcome,) = gate.recover()
    assert str(outcome) == "COMMITTED_BY_RETRY"
    assert reserved(outcome.history.entries) == holds
    assert gate.journal.verify().ok, gate.journal.verify().problems


@pytest.mark.parametrize("looks_up", [True, False])
def test_an_approval_that_was_lowered_is_never_exceeded(looks_up: bool) -> None:
    """Two refunds of 2000 are open, and 2000 is all that may be sent now; what nobody can know is AMBIGUOUS and holds its part."""
    world, approval = World(), [Approval(id="C", amount_minor=4000)]
    options = {} if looks_up else {"lookup": None}
    crashed_under(world, approval, "1", "2", **options)
    approval[0] = Approval(id="C", amount_minor=2000)
    gate = world.gate()
    approved(world, gate, approval, **options)
    outcomes = gate.recover()
    wanted = ["REFUSED:lease_at_recovery", "COMMITTED_BY_RETRY"] if looks_up else ["AMBIGUOUS", "AMBIGUOUS"]
    assert [str(outcome) for outcome in outcomes] == wanted
    if looks_up:
        assert "Budget 'approval:C': 2000 was asked for, and 0 of 2000 is left." in outcomes[0].detail
    assert len(world.service.sends) == (1 if looks_up else 0)
    assert gate.journal.verify().ok, gate.journal.verify().problems
