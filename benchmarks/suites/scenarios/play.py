"""How a scenario is played: rows by arms, a worker that really dies, people in the outage, a new worker, and what came later.

Owns the stage, the verdict and the measures of every scenario but `shared_cap`, whose workers race. What is done, what the service
must hold in the end and how it is read come with the scenario.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from benchmarks.harness import meta, stripe_place
from benchmarks.harness.document import Cell, Document, Listing, Measure, Report, Table, Verdict, Wanted
from benchmarks.harness.stripe_place import StripePlace
from benchmarks.harness.stripe_wire import Death
from benchmarks.harness.suite import Options
from benchmarks.harness.supervisor import Supervisor, WorkerError
from benchmarks.harness.truth import READERS
from benchmarks.suites.e2e.case import Answer, Approvals
from benchmarks.suites.refund_agent.answer import Claim, claim_of, is_true
from benchmarks.suites.scenarios.job import Job
from benchmarks.suites.scenarios.worker import MODULE
from interlock import Receipt

ARMS = ("no_check", "hand_check", "interlock")
REPETITIONS, QUICK_REPETITIONS = 5, 1
HOURS_25_S = 25 * 3600.0
MOST_ATTEMPTS = 8


@dataclass
class Stage:
    """One cell being played."""

    place: StripePlace
    job: Job
    cell: str
    supervisor: Supervisor
    by_hand: list[str] = field(default_factory=list)
    died_at: float | None = None
    attempts: int = 0

    @property
    def approvals(self) -> Approvals:
        """The back office's record of who allowed it."""
        return Approvals(self.job.directory)

    def a_day_passes(self) -> None:
        """The service forgets its keys, and the next worker's clock says that 25 hours have passed."""
        door = self.place.forget_keys(self.job.door)
        self.job = self.job.model_copy(update={"door": door, "passed_s": self.job.passed_s + HOURS_25_S})

    def run_until_death(self, die: Death) -> None:
        """The first worker begins, and kills itself.

        Raises:
            WorkerError: It did not.
        """
        self.attempts += 1
        worker = self.supervisor.start(MODULE)
        worker.send(self.job.model_copy(update={"die": die, "attempt": self.attempts}).model_dump(mode="json"))
        self.died_at = worker.wait_killed(60.0)

    def run_to_the_end(self) -> Answer:
        """New workers, until one of them closes the case."""
        answer = Answer(status="UNCLEAR")
        while self.attempts < MOST_ATTEMPTS:
            self.attempts += 1
            try:
                answer = self._ask(self.job.model_copy(update={"attempt": self.attempts}))
            except WorkerError as error:
                answer = Answer(status="ERROR", text=str(error))
                continue
            if answer.retry_after_s is None:
                break
            time.sleep(answer.retry_after_s)
        return answer

    def look_again(self, answer: Answer) -> Answer:
        """A worker of the next day: what the arm does about what was accepted."""
        return self._ask(self.job.model_copy(update={"action": "later", "done": answer.refund}))

    def _ask(self, job: Job) -> Answer:
        worker = self.supervisor.start(MODULE)
        worker.send(job.model_dump(mode="json"))
        return Answer.model_validate(worker.receive(90.0))


def nothing(stage: Stage) -> None:
    """Nobody does anything."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One way things go.

    Attributes:
        name: As the table heads it.
        what: What happens, for the page.
        die: Where the first worker kills itself.
        outage: What people do while none runs.
        later: What happens after the case was closed, before the arm looks again; None: nothing, and it does not look.
        wanted_minor: The money that must have moved.
        wanted_count: In how many objects.
        settlement: What must be known in the end of the money that moved; None where nothing came later.
        local_only: What of it only the local service has; left out live.
    """

    name: str
    what: str
    die: Death
    outage: Callable[[Stage], None] = nothing
    later: Callable[[Stage, Answer], None] | None = None
    wanted_minor: int
    wanted_count: int
    settlement: str | None = None
    local_only: str = ""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What is played.

    Attributes:
        name: Of its module, its arms' module (`NAME_arms`) and its result.
        title: Heads the page.
        intro: What the agent does, and the invariant.
        amount_minor: What is approved.
        dies_at: The path of the POST.
        set_up: Makes what the case is about at the service; answers the case and the ids of what others had done when it was decided.
        rows: What happens.
        truth: The name of its reader (`harness.truth`), which answers `money_minor`, `count` and `ids` at least.
        listings: The code that is compared.
        notes: For the foot of the page.
    """

    name: str
    title: str
    intro: str
    amount_minor: int
    dies_at: str
    set_up: Callable[[StripePlace, str, Path], Mapping[str, str]]
    rows: Sequence[Row]
    truth: str
    listings: Sequence[Listing] = ()
    notes: Sequence[str] = ()


def run(scenario: Scenario, options: Options) -> Document:
    """Play every row with every arm, the arms taking turns."""
    started = datetime.now(UTC)
    repetitions: int = options.more.reps or (QUICK_REPETITIONS if options.quick else REPETITIONS)
    only: list[str] = options.more.row or []
    cells: list[Cell] = []
    with tempfile.TemporaryDirectory(prefix="scenario-") as scratch, stripe_place.open_place(options.more) as place:
        left_out = {} if place.is_local else {row.name: row.local_only for row in scenario.rows if row.local_only}
        plan = [one for one in planned(scenario.rows, repetitions) if one[0].name not in left_out]
        plan = [one for one in plan if not only or one[0].name in only]
        options.progress.begin(scenario.name, len(plan))
        for number, (row, arm, repetition) in enumerate(plan):
            options.progress.step(f"{row.name} {arm} {repetition + 1}")
            cells.append(play(scenario, place, Path(scratch) / f"cell-{number:03}", row, arm, repetition))
        told = {**place.meta(), **({"left_out_live": left_out} if left_out else {})}
        settle_after_s = place.settle_after_s
    return Document(
        name=scenario.name,
        meta=meta.describe(
            command=options.command,
            seed=options.seed,
            started=started,
            ended=datetime.now(UTC),
            repetitions=repetitions,
            settle_after_s=settle_after_s,
            **told,
        ),
        report=report(scenario, cells),
        cells=cells,
        measures=list(measures(scenario, cells)),
        is_whole=told["service"] == "local" and not only and repetitions >= REPETITIONS,
    )


def arguments_of(scenario: Scenario) -> Callable[[argparse.ArgumentParser], None]:
    """The options of a scenario alone."""

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        names = [row.name for row in scenario.rows]
        parser.add_argument("--row", action="append", choices=names, help="play this row only; may be repeated")

    return add_arguments


def planned(rows: Sequence[Row], repetitions: int) -> Iterator[tuple[Row, str, int]]:
    """Every cell in the order it runs: who goes first changes with the repetition."""
    for repetition in range(repetitions):
        turn = repetition % len(ARMS)
        for row in rows:
            for arm in (*ARMS[turn:], *ARMS[:turn]):
                yield row, arm, repetition


def play(scenario: Scenario, place: StripePlace, directory: Path, row: Row, arm: str, repetition: int) -> Cell:
    """Play one cell, and judge it by the service's own state."""
    directory.mkdir(parents=True)
    cell = f"{place.run}-{row.name}-{arm}-{repetition}".replace("_", "-")
    Approvals(directory).give(scenario.amount_minor)
    case = dict(scenario.set_up(place, cell, directory))
    job = Job(
        scenario=scenario.name,
        arm=cast(Any, arm),
        door=place.door_of(cell),
        directory=directory,
        case=case,
        amount_minor=scenario.amount_minor,
        settle_after_s=place.settle_after_s,
        dies_at=scenario.dies_at,
    )
    settle_s, known = None, None
    with Supervisor(limit=MOST_ATTEMPTS + 1) as supervisor:
        stage = Stage(place, job, cell, supervisor)
        stage.run_until_death(row.die)
        row.outage(stage)
        answer = stage.run_to_the_end()
        if stage.died_at is not None:
            settle_s = round(time.monotonic() - stage.died_at, 3)
        final = answer
        if row.later is not None:
            row.later(stage, answer)
            final = stage.look_again(answer)
            known = final.details.get("settlement") or "unknown"
    details = {"reader": scenario.truth, "cell": cell, **{f"case_{name}": value for name, value in case.items()}}
    told = READERS[scenario.truth](place, {**details, "cell": cell})
    own = [one for one in told["ids"] if one not in stage.by_hand]
    # What others made by hand is of the same amount, so only which object it is tells whose it is.
    landed = [scenario.amount_minor] * len(own)
    true = is_true(answer.status, asked_minor=scenario.amount_minor, landed_minor=landed)
    true = true and (answer.refund is None or answer.refund in own)
    kept = {**answer.details, **final.details}
    return Cell(
        row=row.name,
        arm=arm,
        crash="kill",
        outcome=answer.status,
        money_minor=int(told["money_minor"]),
        verdict=judge(row, told, answer.status, true),
        answer_true=true,
        wanted=Wanted(money_minor=row.wanted_minor, verdict=Verdict.HELD) if arm == "interlock" else None,
        details={
            **details,
            **told,
            "repetition": repetition,
            "wanted_count": row.wanted_count,
            "by_hand": stage.by_hand,
            "asked_minor": scenario.amount_minor,
            "refund": answer.refund,
            "attempts": stage.attempts,
            "settle_s": settle_s,
            "known": known,
            "wanted_known": row.settlement,
            "person_sees": final.text,
            "record": record_of(kept, answer, own),
            "effect_id": kept.get("effect_id"),
            "receipt": kept.get("receipt"),
        },
    )


def judge(row: Row, told: Mapping[str, Any], status: str, true: bool) -> Verdict:
    """Held: what moved is as wanted, and the answer is true and says so."""
    if not true or (told["money_minor"], told["count"]) != (row.wanted_minor, row.wanted_count):
        return Verdict.VIOLATED
    return Verdict.UNKNOWN if claim_of(status) is Claim.UNKNOWN else Verdict.HELD


def record_of(kept: Mapping[str, Any], answer: Answer, own: Sequence[str]) -> str:
    """What the arm left for a third person: nothing, or a receipt that verifies from its JSON alone and agrees with the service."""
    if not kept.get("receipt"):
        return "none"
    receipt = Receipt.from_dict(json.loads(json.dumps(kept["receipt"])))
    if not receipt.verify().ok:
        return "broken"
    landed = any(entry.get("kind") == "COMMITTED" for entry in receipt.entries)
    agrees = landed == bool(own) and all(one in json.dumps(receipt.entries) for one in own)
    return "agrees" if agrees else "disagrees"


def report(scenario: Scenario, cells: Sequence[Cell]) -> Report:
    """The page around the cells; ties first."""
    return Report(
        title=scenario.title,
        intro=scenario.intro,
        findings=findings(scenario, cells),
        tables=[Table(title="What the service holds in the end")],
        glossary={row.name: f"{row.what}." for row in scenario.rows},
        listings=scenario.listings,
        notes=[
            "settle_s counts from the kernel's report of the worker's death to the answer that closed the case, process start included.",
            "record: what the arm left for a third person. A receipt is a hash chain; without a key that the writer does not hold it shows "
            "accidents and edits, and not a forgery by the writer.",
            *scenario.notes,
            *(f"Local only, {row.name}: {row.local_only}." for row in scenario.rows if row.local_only),
        ],
    )


def findings(scenario: Scenario, cells: Sequence[Cell]) -> list[str]:
    """Each arm's count."""
    lines = []
    held = {arm: _held(cells, arm) for arm in ARMS}
    total = len({cell.row for cell in cells})
    for arm in ("hand_check", "no_check"):
        difference = held[arm] - held["interlock"]
        verb = "ties with" if not difference else "is ahead of" if difference > 0 else "is behind"
        lines.append(
            f"{arm} {verb} interlock on what the service holds: {held[arm]} and {held['interlock']} of {total} rows."
        )
    for arm in ARMS:
        asked = [cell for cell in cells if cell.arm == arm and cell.details["wanted_known"]]
        known = sum(cell.details["known"] == cell.details["wanted_known"] for cell in asked)
        if asked:
            lines.append(f"{arm} knew in {known} of {len(asked)} cases what became of the money later.")
    return lines


def measures(scenario: Scenario, cells: Sequence[Cell]) -> Iterator[Measure]:
    """What is wanted of the gate, and the same numbers of the others beside it."""
    total = len({cell.row for cell in cells})
    for arm in ARMS:
        held = _held(cells, arm)
        yield _counted(f"{arm}: rows held in every repetition", held, total, ours=arm == "interlock")
    for arm in ARMS:
        own = [cell for cell in cells if cell.arm == arm]
        asked = [cell for cell in own if cell.details["wanted_known"]]
        if asked:
            known = sum(cell.details["known"] == cell.details["wanted_known"] for cell in asked)
            yield _counted(f"{arm}: final state of the money known", known, len(asked), ours=arm == "interlock")
        agrees = sum(cell.details["record"] == "agrees" for cell in own)
        name = f"{arm}: cells with a record that verifies and agrees with the service"
        yield _counted(name, agrees, len(own), ours=arm == "interlock")
        taken = sorted(float(cell.details["settle_s"]) for cell in own if cell.details["settle_s"] is not None)
        if taken:
            yield Measure(
                name=f"{arm}: crash to settled, median",
                value=round(statistics.median(taken), 3),
                unit="s",
                details={"spread": f"{taken[0]:.3f} to {taken[-1]:.3f}"},
            )


def _counted(name: str, value: int, total: int, *, ours: bool) -> Measure:
    return Measure(
        name=name,
        value=value,
        unit=f"of {total}",
        wanted=str(total) if ours else None,
        holds=value == total if ours else None,
    )


def _held(cells: Sequence[Cell], arm: str) -> int:
    own = [cell for cell in cells if cell.arm == arm]
    return sum(
        all(cell.verdict is Verdict.HELD for cell in own if cell.row == row) for row in {cell.row for cell in own}
    )
