"""`python -m benchmarks e2e --engine none`: plays every row with every arm, reads the service, and judges."""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import permutations
from pathlib import Path
from typing import Any, cast

from benchmarks.harness import meta, stripe_place
from benchmarks.harness.document import Cell, Document, Verdict, Wanted
from benchmarks.harness.progress import Progress
from benchmarks.harness.stripe_place import StripePlace, money_of
from benchmarks.harness.suite import Options, Suite, how_many
from benchmarks.suites.e2e import engines
from benchmarks.suites.e2e.case import (
    APPROVED_MINOR,
    JOURNAL,
    Answer,
    ArmName,
    ModelDoor,
)
from benchmarks.suites.e2e.engines.engine import Engine
from benchmarks.suites.e2e.models import CHOICES, open_model
from benchmarks.suites.e2e.page import measures, report
from benchmarks.suites.e2e.rows import ALL_ARMS, ROWS, Row
from benchmarks.suites.e2e.stage import Stage
from benchmarks.suites.refund_agent.answer import Claim, claim_of, is_true
from interlock import Interlock, Receipt

REPETITIONS, QUICK_REPETITIONS = 5, 1


def run(options: Options, progress: Progress) -> Document:
    """Play every cell, the arms taking turns."""
    started = datetime.now(UTC)
    more = options.more
    repetitions: int = more.reps or (QUICK_REPETITIONS if options.quick else REPETITIONS)
    only: list[str] = more.row or []
    plan = [one for one in planned(repetitions) if not only or one[0].name in only]
    name = f"e2e_{more.engine}"
    progress.begin(name, len(plan))
    cells: list[Cell] = []
    engine = engines.load(more.engine)
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(stripe_place.open_place(more))
        doors = stack.enter_context(open_model(more.model, more.model_name))
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="e2e-")))
        stack.enter_context(engine)
        for number, (row, arm, repetition) in enumerate(plan):
            progress.step(f"{row.name} {arm} {repetition + 1}")
            door = doors[repetition % len(doors)]
            cell = f"{row.name}-{arm}-{repetition}"
            cells.append(play(place, engine, scratch / f"cell-{number:03}", row, arm, cell, door, repetition))
    return Document(
        name=name,
        meta={
            **meta.describe(
                command=options.command,
                seed=options.seed,
                started=started,
                ended=datetime.now(UTC),
                engine=engine.name,
                model=more.model,
                repetitions=repetitions,
                settle_after_s=place.settle_after_s,
                **place.meta(),
            ),
            **({"engine_versions": dict(engine.versions)} if engine.versions else {}),
        },
        report=report(engine, cells),
        cells=cells,
        measures=measures(cells, repetitions, must_decide=more.model == "scripted"),
        is_whole=not only and place.is_local and more.model == "scripted",
    )


def planned(repetitions: int) -> Iterator[tuple[Row, str, int]]:
    """Every cell in the order it runs: in each row the arms follow each other, in another order in each repetition."""
    orders = list(permutations(ALL_ARMS))
    for repetition in range(repetitions):
        for row in ROWS:
            for arm in orders[repetition % len(orders)]:
                if arm in row.arms:
                    yield row, arm, repetition


def play(
    place: StripePlace,
    engine: Engine,
    directory: Path,
    row: Row,
    arm: str,
    cell: str,
    model: ModelDoor,
    repetition: int,
) -> Cell:
    """Play one cell and judge it by the service's own list of refunds."""
    stage = Stage(
        place=place,
        engine=engine,
        directory=directory,
        arm=cast(ArmName, arm),
        cell=f"{place.run}-{cell}".replace("_", "-"),
        model=model,
        can_look_up=row.can_look_up,
    )
    try:
        row.before(stage)
        undecided = stage.run_until_death(row.die)
        if undecided is None:
            row.outage(stage)
        answer = stage.run_to_the_end() if undecided is None else undecided
    finally:
        stage.close()
    is_played = undecided is None and answer.details.get("asked_minor", APPROVED_MINOR) == APPROVED_MINOR
    refunds = stage.refunds()
    money_minor, count = money_of(refunds)
    own = [one for one in refunds if one["id"] not in stage.by_hand]
    asked_minor = int(answer.details.get("asked_minor", APPROVED_MINOR))
    true = is_true(answer.status, asked_minor=asked_minor, landed_minor=[int(one["amount"]) for one in own])
    true = true and (answer.refund is None or answer.refund in {one["id"] for one in own})
    return Cell(
        row=row.name,
        arm=arm,
        crash="kill",
        outcome=answer.status,
        money_minor=money_minor,
        verdict=judge(row, money_minor, count, answer.status, true) if is_played else Verdict.UNKNOWN,
        answer_true=true,
        # Where a model decided nothing, or not what was approved, the row was not played: nothing can be said of the arm.
        wanted=wanted(row, arm) if is_played else None,
        details={
            "repetition": repetition,
            "cell": stage.cell,
            "die": str(row.die),
            "is_played": is_played,
            "refunds": count,
            "wanted_refunds": row.wanted_count,
            "attempts": stage.attempts,
            "processes": stage.attempts,
            "crash_to_closed_s": stage.closed_s,
            "wire": model.wire,
            "model": model.name,
            "payment": stage.payment,
            "refund_ids": [one["id"] for one in refunds],
            "by_hand": stage.by_hand,
            "refund": answer.refund,
            "person_sees": answer.text,
            **receipt_of(answer, directory / JOURNAL),
        },
    )


def judge(row: Row, money_minor: int, count: int, status: str, true: bool) -> Verdict:
    """Held: the money and the number of refunds are as wanted, and the answer is true and says so."""
    if row.wanted_minor is None:
        return Verdict.UNKNOWN
    if not true or (money_minor, count) != (row.wanted_minor, row.wanted_count):
        return Verdict.VIOLATED
    return Verdict.UNKNOWN if claim_of(status) is Claim.UNKNOWN else Verdict.HELD


def wanted(row: Row, arm: str) -> Wanted | None:
    """What is wanted of the gate; nothing is of the arms it is compared with."""
    if arm != "interlock" or row.wanted_minor is None:
        return None
    if row.is_ambiguous:
        return Wanted(outcome="AMBIGUOUS", money_minor=row.wanted_minor, verdict=Verdict.UNKNOWN)
    return Wanted(money_minor=row.wanted_minor, verdict=Verdict.HELD)


def receipt_of(answer: Answer, journal: Path) -> dict[str, Any]:
    """What the gate left: ids, path, and its receipt as the journal has it, verified from its JSON alone."""
    left = dict(answer.details)
    if "effect_id" in left:
        with Interlock(journal) as gate:
            told = json.loads(json.dumps(Receipt.of(gate.journal.load(left["effect_id"])).to_dict()))
        left["receipt"] = told
        left["receipt_verified"] = Receipt.from_dict(told).verify().ok
    return left


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this suite alone."""
    parser.add_argument(
        "--engine", choices=sorted(engines.ENGINES), default="none", help="what carries a case over the crash"
    )
    parser.add_argument(
        "--model", choices=CHOICES, default="scripted", help="who decides; a vendor's needs its API key"
    )
    parser.add_argument("--model-name", help="which of the vendor's models")
    parser.add_argument("--reps", type=how_many, help=f"repetitions of each cell; default {REPETITIONS}")
    parser.add_argument(
        "--row", action="append", choices=[row.name for row in ROWS], help="play this row only; may be repeated"
    )
    stripe_place.add_arguments(parser)


SUITE = Suite(name="e2e", run=run, add_arguments=add_arguments)
