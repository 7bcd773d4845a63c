"""The real protocol against every order of events within small bounds, and proof that the search finds what is broken.

The broken parts are real: each test replaces one function of the gate by one that is wrong in one way.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.simulator import invariant
from benchmarks.simulator.scenario import EVENTS, TIERS, TIME, Scenario, searched, wild
from benchmarks.simulator.search import actions_of, exhaust, replay, shrink, text_of, wander, world_of
from benchmarks.simulator.state import Action as Deed
from benchmarks.simulator.state import Budget
from benchmarks.simulator.world import SimulatedJournal, World
from interlock import gate
from interlock.effects import Kind
from interlock.journal import _memory
from interlock.journal._base import Prepared
from interlock.ports import Liveness
from interlock.protocol import CRASH_POINTS, Seen, _recover, _time
from interlock.rules import budgets
from interlock.rules.recovery import Action, Checks, Resend, decide

BOUND = 60_000
"""States within which a broken gate must be found out."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    log = logging.getLogger("interlock")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    yield
    log.setLevel(before)


def _lines(scenario: Scenario, decisions: tuple[Deed, ...]) -> str:
    return "\n".join(replay(world_of(scenario), decisions)[0])


SMALL = [scenario for tier in TIERS for scenario in searched(tier)]


@pytest.mark.parametrize("scenario", SMALL, ids=lambda scenario: scenario.name)
def test_every_order_of_events_keeps_the_promise(scenario: Scenario) -> None:
    """Within the bounds of the scenario, no order of steps, deaths, answers and events breaks a rule, and none was left out."""
    tally = exhaust(world_of(scenario))
    assert tally.violation is None, _lines(scenario, tally.violation.decisions)
    assert tally.complete
    assert tally.states > 300
    assert tally.ends > 20


def test_workers_die_at_every_crash_point() -> None:
    """Between them, the searches kill a worker at each point that the protocol names, and in the middle of a send."""
    points: set[str] = set()
    for tier, name in (("tier2+lag", "race"), ("tier2", "deaths"), ("tier1", "race"), ("tier2", "shared")):
        world = world_of(next(scenario for scenario in searched(tier) if scenario.name == f"{tier}/{name}"))
        exhaust(world)
        points |= world.crash_points
    assert set(CRASH_POINTS) <= points
    assert "during_send" in points


@pytest.mark.parametrize("tier", TIERS)
def test_random_runs_keep_the_promise(tier: str) -> None:
    """Three workers with many deaths, faults and jumps of the clock break no rule, whatever the seed."""
    for scenario in wild(tier):
        world = World(scenario)
        for seed in range(25):
            tally = wander(world, random.Random(seed))
            assert tally.violation is None, _lines(scenario, tally.violation.decisions)


def test_a_seed_repeats_a_run_exactly() -> None:
    """The same seed takes the same actions and ends in the same state."""

    def run() -> tuple[int, dict[str, int]]:
        world = World(wild("tier2")[0])
        tally = wander(world, random.Random("7:repeat"))
        return tally.transitions, world.outcomes

    assert run() == run()


def test_merging_places_in_a_run_hides_nothing() -> None:
    """The search reaches the same outcomes when two ways to one place in a run are kept apart."""
    scenario = replace(searched("tier1+lookup")[2], budget=Budget(1, 0, 1, 1), events=("revoke",))
    merged, apart = World(scenario), World(scenario, merge=False)
    few, many = exhaust(merged), exhaust(apart)
    assert few.complete
    assert many.complete
    assert set(merged.outcomes) == set(apart.outcomes)
    assert merged.crash_points == apart.crash_points
    assert few.states < many.states


def _found(
    tier: str,
    *,
    workers: tuple[str, ...] = ("submit", "later"),
    budget: Budget,
    faults: tuple[str, ...] = (),
    events: tuple[str, ...] = (),
    deaths: tuple[str, ...] = ("crash",),
    again: tuple[str, ...] = ("recover",),
    forgets_rejections: bool = False,
    shares: bool = False,
) -> str:
    """The rule that a search finds broken; the way there must lead there again, also from its text."""
    scenario = Scenario(
        name="broken",
        capabilities=TIERS[tier],
        workers=workers,
        budget=budget,
        faults=faults,
        events=events,
        deaths=deaths,
        again=again,
        late=True,
        forgets_rejections=forgets_rejections,
        shares=shares,
    )
    tally = exhaust(world_of(scenario), states=BOUND)
    assert tally.violation is not None, f"nothing found in {tally.states} states"
    shortest = shrink(world_of(scenario), tally.violation, tries=300)
    lines, again_found = replay(world_of(scenario), actions_of(text_of(shortest.decisions)))
    assert again_found is not None
    assert again_found.rule == tally.violation.rule
    assert lines[-1].startswith("VIOLATED")
    return tally.violation.rule


@pytest.mark.parametrize("tier", TIERS)
def test_finds_a_broken_conditional_append(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An append that never looks whether the history has moved is found at every tier."""
    real = SimulatedJournal._commit

    def always(self: SimulatedJournal, prepared: Prepared) -> bool:
        stored = self.store.effects.get(prepared.effect_id)
        return real(self, prepared._replace(expected_head=stored[-1].hash if stored else ""))

    monkeypatch.setattr(SimulatedJournal, "_commit", always)
    rule = _found(tier, workers=("submit", "submit"), budget=Budget(0, 0, 0, 0))
    assert rule in (invariant.ONE_SENDER, invariant.LATEST_CLAIM, invariant.DURABLE_FIRST, invariant.JOURNAL)


@pytest.mark.parametrize("tier", TIERS)
def test_finds_a_broken_claim(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A live sender that is taken for gone is found at every tier."""
    real = SimulatedJournal._liveness

    def gone(self: SimulatedJournal, worker: str, effect_id: str, n: int) -> Liveness:
        found = real(self, worker, effect_id, n)
        return Liveness.GONE if found is Liveness.ALIVE else found

    monkeypatch.setattr(SimulatedJournal, "_liveness", gone)
    rule = _found(tier, budget=Budget(0, 0, 2, 1), events=("rest",))
    assert rule in (invariant.TAKEN_OVER, invariant.ONE_SENDER, invariant.ONE_LANDING)


@pytest.mark.parametrize("tier", ["tier1", "tier1+lookup", "tier2"])
def test_finds_a_broken_recheck(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recovery that takes permission and facts for granted is found wherever a recovery sends."""

    def granted(*_: object) -> Iterator[object]:
        return Checks.HOLD, {}, None, None, None
        yield

    monkeypatch.setattr(_recover, "_recheck", granted)
    assert _found(tier, budget=Budget(1, 0, 1, 1), events=EVENTS) == invariant.CHECKED


@pytest.mark.parametrize("tier", ["tier2", "tier2+lag"])
def test_finds_absence_trusted_at_once(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recovery that believes the first look-up is found: the dead sender's request lands after it."""
    monkeypatch.setattr(_recover, "untrusted_s", lambda *_: 0.0)
    rule = _found(tier, budget=Budget(1, 0, 1, 0))
    assert rule == invariant.ONE_LANDING


def test_finds_a_window_that_never_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resend after the service has forgotten the key is found."""
    monkeypatch.setattr(_recover, "is_within_window", lambda state, capabilities, clock: capabilities.dedupes)
    assert _found("tier1", budget=Budget(1, 0, 1, 1), events=TIME) == invariant.ONE_LANDING


@pytest.mark.parametrize("tier", ["tier2", "tier2+lag"])
def test_finds_a_failed_look_up_taken_for_absence(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look-up that fails and is swallowed into "absent" is found."""
    monkeypatch.setattr(gate, "_lookup_failed", lambda error: Seen(found=False))
    found = _found(tier, budget=Budget(1, 1, 2, 1), faults=("failed",), events=("past_window",))
    assert found == invariant.ONE_LANDING


@pytest.mark.parametrize("tier", TIERS)
def test_finds_a_broken_budget(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dispatch that reserves without looking whether there is room is found at every tier."""
    monkeypatch.setattr(_memory, "has_room", lambda **_: True)
    assert _found(tier, workers=("submit",), budget=Budget(0, 0, 0, 0), shares=True) == invariant.WITHIN


def test_finds_a_reservation_given_back_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A budget that is free again once nobody can know what became of its effect is found: the effect had landed."""
    monkeypatch.setattr(budgets, "STANDS_AFTER", budgets.STANDS_AFTER - {Kind.AMBIGUOUS})
    found = _found("tier3", workers=("submit",), budget=Budget(0, 1, 0, 0), faults=("drop_after",), shares=True)
    assert found == invariant.WITHIN


@pytest.mark.parametrize("tier", ["tier1", "tier3"])
def test_finds_a_reservation_that_is_never_given_back(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal that keeps a budget taken after a certain failure is found."""
    real = SimulatedJournal._reserve

    def keep(self: SimulatedJournal, prepared: Prepared) -> None:
        real(self, prepared._replace(releases=()))

    monkeypatch.setattr(SimulatedJournal, "_reserve", keep)
    found = _found(tier, workers=("submit",), budget=Budget(0, 1, 0, 0), faults=("reject",), shares=True)
    assert found == invariant.HOLDS


# What the simulator found in the protocol as it was first written, each with the smallest world that shows it.


def test_a_wall_clock_set_forward_does_not_end_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender out of sight may send until its deadline by the clock that nobody sets; found with the wall clock believed."""
    world = {
        "budget": Budget(1, 0, 1, 1),
        "events": ("wall_forward",),
        "deaths": ("cut_off",),
        "again": ("recover",),
    }
    scenario = Scenario(name="fixed", capabilities=TIERS["tier2"], workers=("submit", "later"), late=True, **world)  # type: ignore[arg-type]
    tally = exhaust(World(scenario))
    assert tally.violation is None
    monkeypatch.setattr(_time, "surely_elapsed_s", _time.elapsed_s)
    assert _found("tier2", **world) == invariant.ONE_LANDING  # type: ignore[arg-type]


def test_a_resend_held_up_past_the_window_is_not_sent() -> None:
    """A worker stopped between looking at the window and its resend looks again, and does not send once the key may be forgotten."""
    scenario = replace(searched("tier1")[4], name="held-up")
    way = "step:0;step:0;step:0;step:0;step:0;answer:1:ok;crash:0;begin:1:recover;step:1;step:1;step:1;event:past_window;step:1;step:1"
    lines, violation = replay(World(scenario), actions_of(way))
    assert violation is None
    assert not any("send" in line and "w1" in line for line in lines), lines


def test_an_earlier_request_still_on_its_way_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """That the last sender has nothing on its way says nothing of the one before it; found with only the last one asked."""
    world = {
        "budget": Budget(2, 0, 2, 1),
        "events": ("revoke",),
        "deaths": ("crash", "cancel"),
        "again": ("recover",),
    }
    scenario = Scenario(
        name="fixed", capabilities=TIERS["tier1+lookup"], workers=("submit", "later"), late=True, **world
    )  # type: ignore[arg-type]
    tally = exhaust(World(scenario))
    assert tally.violation is None

    def only_last(history, sighting, capabilities, clock):  # type: ignore[no-untyped-def]
        return _recover.untrusted_s(_recover.dispatches(history)[-1], sighting, capabilities, clock)
        yield

    monkeypatch.setattr(_recover, "_unsettled_s", only_last)
    assert _found("tier1+lookup", **world) in (invariant.TRUE_REFUSAL, invariant.ONE_LANDING)  # type: ignore[arg-type]


def test_a_rejected_resend_does_not_speak_for_an_earlier_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a service forgets what it rejects, the first request may still land; found with the rejection believed."""
    world = {
        "budget": Budget(1, 2, 1, 0),
        "faults": ("reject", "drop"),
        "again": ("recover",),
        "forgets_rejections": True,
    }
    scenario = Scenario(name="fixed", capabilities=TIERS["tier1"], workers=("submit", "later"), late=True, **world)  # type: ignore[arg-type]
    tally = exhaust(World(scenario))
    assert tally.violation is None

    def believing(**known: Any) -> Action:
        return Action.FAIL if known["resend"] is Resend.REJECTED else decide(**known)

    monkeypatch.setattr(_recover, "decide", believing)
    assert _found("tier1", **world) in (invariant.TRUE_REFUSAL, invariant.TRUE_OUTCOME, invariant.ONE_LANDING)  # type: ignore[arg-type]
