"""`python -m benchmarks simulate`: everything within stated bounds at every tier, then random runs by seed."""

from __future__ import annotations

import argparse
import logging
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from benchmarks.harness import meta
from benchmarks.harness.document import Cell, Document, Measure, Report, Table, Verdict, Wanted
from benchmarks.harness.progress import Progress
from benchmarks.harness.suite import Options, Suite, how_many
from benchmarks.simulator.invariant import RULES
from benchmarks.simulator.scenario import TIERS, Scenario, named, searched, wild
from benchmarks.simulator.search import Tally, actions_of, exhaust, replay, shrink, text_of, wander, world_of
from benchmarks.simulator.state import Violation
from benchmarks.simulator.world import World
from interlock.protocol import CRASH_POINTS

WALKS = 150
QUICK_WALKS = 40
NODES = 150_000
"""A world's tree of runs is begun anew beyond this size; it is only a memory of what was computed."""
REPORTED = frozenset(CRASH_POINTS)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the gate's log out of the way: a simulation makes it speak thousands of times."""
    log = logging.getLogger("interlock")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(before)


def run(options: Options, progress: Progress) -> Document:
    """Search, wander, and say what was seen; or go one way again (`--replay`)."""
    started = datetime.now(UTC)
    more = options.more
    with quiet():
        if more.replay:
            return _replayed(options, more.replay, started)
        tiers = more.tier or list(TIERS)
        cells: list[Cell] = []
        totals = Tally()
        points: set[str] = set()
        plan = [scenario for tier in tiers for scenario in searched(tier, deep=not options.quick)]
        progress.begin("every order of events", len(plan))
        for scenario in plan:
            progress.step(scenario.name)
            world = world_of(scenario)
            tally = exhaust(world, depth=more.depth, states=more.states)
            points |= world.crash_points
            _add(totals, tally)
            cells.append(_cell(scenario, tally, "every order"))
        walks = more.walks if more.walks is not None else QUICK_WALKS if options.quick else WALKS
        random_ones = [scenario for tier in tiers for scenario in wild(tier)]
        progress.begin("random runs", len(random_ones))
        wandered = Tally()
        for scenario in random_ones:
            progress.step(scenario.name)
            tally = _wander(scenario, walks, options.seed)
            _add(wandered, tally)
            cells.append(_cell(scenario, tally, "by seed"))
    missed = sorted(REPORTED - points)
    is_whole = not more.tier and more.depth is None
    measures = [
        Measure(name="states visited", value=totals.states, unit="states"),
        Measure(name="transitions", value=totals.transitions, unit="actions"),
        Measure(name="schedules", value=totals.schedules, unit="ways to where nothing new follows"),
        Measure(name="ends played", value=totals.ends, unit="states in which nothing was under way"),
        Measure(name="longest way", value=totals.deepest, unit="actions"),
        Measure(
            name="crash points at which a worker died",
            value=len(REPORTED & points),
            unit="of the protocol's",
            wanted=f"{len(REPORTED)}" if is_whole else None,
            holds=not missed if is_whole else None,
            details={"missed": ", ".join(missed)},
        ),
        Measure(name="random runs", value=wandered.schedules, unit="runs"),
        Measure(name="transitions of random runs", value=wandered.transitions, unit="actions"),
        Measure(
            name="violations",
            value=sum(cell.verdict is Verdict.VIOLATED for cell in cells),
            unit="found",
            wanted="0",
            holds=all(cell.verdict is not Verdict.VIOLATED for cell in cells),
        ),
        Measure(
            name="exhaustive searches that were complete",
            value=sum(bool(cell.details["complete"]) for cell in cells if cell.arm == "every order"),
            unit=f"of {len(plan)}",
            wanted=f"{len(plan)}" if more.depth is None and more.states is None else None,
            holds=totals.complete if more.depth is None and more.states is None else None,
        ),
    ]
    return Document(
        name="simulator",
        meta=meta.describe(
            command=options.command,
            seed=options.seed,
            service="simulated",
            started=started,
            ended=datetime.now(UTC),
            walks=walks,
        ),
        report=_report(cells),
        cells=cells,
        measures=measures,
        is_whole=is_whole,
    )


def _wander(scenario: Scenario, walks: int, seed: int) -> Tally:
    """So many random runs; each has a seed of its own, made of the run's seed, the scenario and its number."""
    total = Tally()
    world = World(scenario)
    began = time.perf_counter()
    for number in range(walks):
        if len(world.runs) > NODES:
            world = World(scenario)
        tally = wander(world, random.Random(f"{seed}:{scenario.name}:{number}"))
        _add(total, tally)
        if tally.violation is not None:
            total.violation = tally.violation
            break
    total.seconds = time.perf_counter() - began
    return total


def _add(total: Tally, one: Tally) -> None:
    total.states += one.states
    total.transitions += one.transitions
    total.schedules += one.schedules
    total.ends += one.ends
    total.deepest = max(total.deepest, one.deepest)
    total.complete = total.complete and one.complete


def _cell(scenario: Scenario, tally: Tally, arm: str) -> Cell:
    details: dict[str, object] = {
        "states": tally.states,
        "transitions": tally.transitions,
        "schedules": tally.schedules,
        "ends": tally.ends,
        "longest": tally.deepest,
        "complete": tally.complete,
        "workers": len(scenario.workers),
        "seconds": round(tally.seconds, 1),
    }
    violation = tally.violation
    if violation is not None:
        details |= _finding(scenario, violation)
    outcome = "nothing found" if violation is None else violation.rule
    return Cell(
        row=scenario.name,
        arm=arm,
        outcome=f"{outcome} ({tally.states} states)" if arm == "every order" and violation is None else outcome,
        money_minor=0,
        verdict=Verdict.HELD if violation is None else Verdict.VIOLATED,
        wanted=Wanted(verdict=Verdict.HELD),
        details={"service_tier": scenario.capabilities.tier, **details},
    )


def _finding(scenario: Scenario, violation: Violation) -> dict[str, object]:
    """A finding, made as short as can be, printed, and kept."""
    shortest = shrink(world_of(scenario), violation)
    way = f"{scenario.name}={text_of(shortest.decisions)}"
    lines, _ = replay(world_of(scenario), shortest.decisions)
    print(f"\nVIOLATED in {scenario.name}: {shortest.rule}\n  " + "\n  ".join(lines))
    print(f"  again: python -m benchmarks simulate --replay '{way}'\n")
    return {"replay": way, "trace": lines}


def _replayed(options: Options, way: str, started: datetime) -> Document:
    name, _, decisions = way.partition("=")
    scenario = named(name)
    lines, violation = replay(world_of(scenario), actions_of(decisions))
    print("\n".join(lines))
    tally = Tally(transitions=len(lines), violation=violation, complete=False)
    cell = Cell(
        row=name,
        arm="replay",
        outcome="nothing found" if violation is None else violation.rule,
        money_minor=0,
        verdict=Verdict.HELD if violation is None else Verdict.VIOLATED,
        wanted=Wanted(verdict=Verdict.HELD),
        details={"transitions": tally.transitions},
    )
    return Document(
        name="simulator",
        meta=meta.describe(
            command=options.command, seed=options.seed, service="simulated", started=started, ended=datetime.now(UTC)
        ),
        report=_report([cell]),
        cells=[cell],
        is_whole=False,
    )


def _report(cells: list[Cell]) -> Report:
    return Report(
        title="The simulator: the real protocol against every order of events",
        intro=(
            "`protocol.submit` and `recover_one`, the rules, the journal in memory and the runner's book of sends are real. "
            "The service, the clock, the user's callbacks and death are simulated. After every action the truth in the service is held "
            "against the journal and the answers. A scenario is searched completely within its bounds, each state once; beyond them, "
            "random runs of three workers, repeated by their seed."
        ),
        findings=[f"{cell.row}: {cell.outcome}" for cell in cells if cell.verdict is Verdict.VIOLATED],
        tables=[
            Table(title="Searched completely", where={"arm": ["every order"]}),
            Table(title="Random runs", where={"arm": ["by seed"]}),
        ],
        glossary={
            "every order": "all interleavings of all workers, deaths, answers and events within the bounds of the scenario",
            "by seed": "random runs, far beyond those bounds",
            "ends": "wherever nothing is under way, faults stop, workers restart and time passes; every effect must then settle",
        },
        notes=[
            "Rules: " + "; ".join(RULES) + ".",
            "A worker that is not scheduled is a stopped one: another may run, and time may pass, for as long as the search likes.",
            "A request nobody waits for lands at any point until `settle_after` after its sender died or gave up, or never. A service "
            "that takes longer than it declared is outside of what the gate promises, and outside of this.",
            "Taken as no time: the moment between the sender's last look at the clock and the leaving of a resend. A process stopped "
            "exactly there for as long as the key window's margin can make a deduplicating service act twice; no client can rule that out.",
            "`shared`: two effects under one cap with room for one, each with a worker of its own; the service's payments are held against "
            "the cap after every action. Each keeps its entries in a journal of its own there, and what one holds is set before the other; "
            "that both stand in one write is the journals' own tests' to show.",
            "Not modelled: other dealings of several effects at once, approvals, several machines with clocks that differ, a reboot whose "
            "wall clock went back by less than the time that passed, a journal that loses what it called durable.",
            "A state is told from another by a 64-bit fingerprint, so two could be taken for one; at a million states the chance is "
            "under one in ten million.",
        ],
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this suite alone."""
    parser.add_argument(
        "--tier", action="append", choices=tuple(TIERS), help="only this one; may be given several times"
    )
    parser.add_argument("--depth", type=how_many, help="search no way further than so many actions")
    parser.add_argument("--states", type=how_many, help="stop each search after so many states")
    parser.add_argument("--walks", type=how_many, help="random runs of each scenario")
    parser.add_argument("--replay", metavar="SCENARIO=DECISIONS", help="go one way again, as a finding printed it")


SUITE = Suite(name="simulate", run=run, add_arguments=add_arguments)
