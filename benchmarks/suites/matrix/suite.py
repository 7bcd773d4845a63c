"""`python -m benchmarks matrix`: the same rows in every framework with every arm; plays what is missing, reports on what is kept.

A run that was interrupted continues: asked again, it plays the cells that are not in its file yet. Asked for what is all there, it only
draws the report again.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import permutations
from pathlib import Path
from typing import Any, cast

from benchmarks.harness import meta, stripe_place
from benchmarks.harness.document import Cell, Document, Verdict, Wanted
from benchmarks.harness.progress import Progress
from benchmarks.harness.stripe_place import ROOT, StripePlace, money_of
from benchmarks.harness.stripe_wire import SETTLE_AFTER_S, Service
from benchmarks.harness.suite import CannotRun, Options, Suite, how_many
from benchmarks.suites.matrix.arms import APPROVAL
from benchmarks.suites.matrix.case import AMOUNT_MINOR, ARMS, Answer, ArmName
from benchmarks.suites.matrix.estimate import Estimate
from benchmarks.suites.matrix.framework import Framework, frameworks, open_beside
from benchmarks.suites.matrix.kept import Kept, alone, place_of
from benchmarks.suites.matrix.page import measures, report
from benchmarks.suites.matrix.picture import draw
from benchmarks.suites.matrix.rows import BY_NAME, GROUPS, ROWS, Row
from benchmarks.suites.matrix.stage import NotPlayed, Stage
from benchmarks.suites.refund_agent.answer import Claim, claim_of, is_true
from interlock import Receipt

NAME = "matrix"
REPETITIONS, QUICK_REPETITIONS = 5, 1
QUICK_FRAMEWORK = "plain"
MOST_TRIES = 2
"""A cell that could not be brought to its beginning is tried again once; then the run ends with what happened."""


def run(options: Options, progress: Progress) -> Document:
    """Play what is missing of what is asked, and report on everything that is kept."""
    started, more = datetime.now(UTC), options.more
    repetitions: int = more.reps or (QUICK_REPETITIONS if options.quick else REPETITIONS)
    known = frameworks()
    # A quick run stays quick: one framework, unless others are named.
    names = more.framework or ([QUICK_FRAMEWORK] if options.quick else known)
    chosen = [known[name] for name in dict.fromkeys(names)]
    arms = [arm for arm in ARMS if arm in (more.arm or ARMS)]
    skipped = {one.name: why for one in known.values() if (why := one.why_not)}
    if more.framework and (missing := [one for one in chosen if one.name in skipped]):
        raise CannotRun("; ".join(f"{one.name}: {skipped[one.name]}" for one in missing))
    chosen = [one for one in chosen if one.name not in skipped]
    file = more.cells or (
        Path(tempfile.mkdtemp(prefix="matrix-")) / "cells.jsonl" if options.quick else _default_file(more.stripe)
    )
    with alone(file):
        kept = Kept(file, fresh=more.fresh, service=more.stripe)
        plan = [one for one in planned(chosen, rows_of(more.row), arms, repetitions) if not kept.has(one)]
        if plan:
            play_all(plan, known, kept, more, progress)
    told = dict(kept.head)
    told.pop("started", None)
    cells = [cell_from(one) for one in ordered(kept.cells, known) if one["framework"] in known]
    if not cells:
        raise CannotRun("nothing was played, and nothing is kept")
    fewest = min(int(count) for count in _repetitions(cells).values())
    return Document(
        name=NAME,
        meta=meta.describe(
            command=options.command,
            seed=options.seed,
            started=datetime.fromisoformat(kept.head.get("started", started.isoformat())),
            ended=datetime.now(UTC),
            repetitions=fewest,
            settle_after_s=SETTLE_AFTER_S[Service(more.stripe)],
            framework_versions=_versions(cells, known),
            sources=" and ".join(sorted({str(cell.details["source"]).partition("-")[0] for cell in cells})),
            **told,
        ),
        report=report(cells, known, skipped),
        cells=cells,
        measures=measures(cells, known),
        is_whole=is_whole(cells, known, skipped),
    )


def play_all(
    plan: Sequence[tuple[str, str, str, int]],
    known: Mapping[str, Framework],
    kept: Kept,
    more: argparse.Namespace,
    progress: Progress,
) -> None:
    """Play these cells and keep each as it is finished. Whatever ends this, no process is left."""
    progress.begin(NAME, len(plan))
    estimate = Estimate([framework for framework, *_ in plan])
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(_place(kept, more))
        kept.begin({**place.meta(), "started": datetime.now(UTC).isoformat(timespec="seconds")})
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="matrix-")))
        beside: dict[str, Mapping[str, str]] = {}
        for number, (framework, row, arm, repetition) in enumerate(plan):
            progress.step(f"{framework} {row} {arm} {repetition + 1}, {estimate.left(number)}")
            if framework not in beside:
                # A server lives while its framework is played: the plan goes framework by framework within a repetition.
                directory = scratch / f"beside-{framework}"
                directory.mkdir()
                beside[framework] = stack.enter_context(open_beside(framework, directory))
            with estimate.timed(framework):
                cell = play_once(
                    place,
                    scratch / f"cell-{number:04}",
                    known[framework],
                    BY_NAME[row],
                    arm,
                    repetition,
                    beside[framework],
                )
            kept.add(cell.to_json())


def play_once(
    place: StripePlace,
    directory: Path,
    framework: Framework,
    row: Row,
    arm: str,
    repetition: int,
    beside: Mapping[str, str],
) -> Cell:
    """Play one cell; once more if it did not come to where its row begins.

    Raises:
        CannotRun: it did not come there again.
    """
    for attempt in range(MOST_TRIES):
        try:
            return play(place, directory / str(attempt), framework, row, arm, repetition, beside)
        except NotPlayed as error:
            reason = str(error)
    raise CannotRun(
        f"{framework.name}, {row.name}, {arm}: {reason}. What is finished is kept; the same command goes on from there."
    )


def play(
    place: StripePlace,
    directory: Path,
    framework: Framework,
    row: Row,
    arm: str,
    repetition: int,
    beside: Mapping[str, str],
) -> Cell:
    """Play one cell and judge it by the service's own list of refunds."""
    # A cell that was begun before and never finished has used its keys; this one gets its own.
    once = secrets.token_hex(3)
    cell = f"{place.run}-{framework.name}-{row.name}-{arm}-{repetition}-{once}".replace("_", "-")
    cases = [cell] if row.cases == 1 else [f"{cell}-{letter}" for letter in "ab"[: row.cases]]
    with Stage(
        place=place,
        directory=directory,
        framework=framework.name,
        arm=cast(ArmName, arm),
        cell=cell,
        cases=cases,
        cap_minor=row.cap_minor,
        beside=beside,
    ) as stage:
        row.play(stage)
    refunds = stage.refunds()
    money_minor, count = money_of(refunds)
    answers = [(case, readable(answer)) for case, answer in stage.answers]
    true = all(_is_true(case, answer, refunds, stage.by_hand) for case, answer in answers)
    statuses = [answer.status for _, answer in answers]
    last = answers[-1][1]
    return Cell(
        row=row.name,
        arm=arm,
        crash="kill" if row.has_crash else "none",
        outcome="+".join(statuses),
        money_minor=money_minor,
        verdict=judge(row, money_minor, count, statuses, true),
        answer_true=true,
        wanted=Wanted(money_minor=row.wanted_minor, verdict=Verdict.HELD) if arm == "interlock" else None,
        details={
            "framework": framework.name,
            "repetition": repetition,
            "reader": "refunds" if row.cases == 1 else "refunds_by_approval",
            "cell": cell,
            "payment": stage.payment,
            "refunds": count,
            "wanted_refunds": row.wanted_count,
            "refund_ids": [str(one["id"]) for one in refunds],
            "approvals": sorted(str((one.get("metadata") or {}).get(APPROVAL)) for one in refunds),
            "by_hand": stage.by_hand,
            "asked_minor": AMOUNT_MINOR,
            "settle_s": stage.settle_s,
            "workers": stage.workers,
            "apart_ms": stage.apart_ms,
            "told": [answer.text for _, answer in answers],
            "effect_id": last.details.get("effect_id"),
            "path": last.details.get("path"),
            "receipt": last.details.get("receipt"),
            "receipt_verified": _verified(last),
            "versions": framework.versions,
            "source": source_of(framework),
        },
    )


def readable(answer: Answer) -> Answer:
    """The answer, or one that claims nothing where its status is no word that anybody knows."""
    try:
        claim_of(answer.status)
    except KeyError:
        return answer.model_copy(update={"status": "UNCLEAR", "text": f"{answer.status}: {answer.text}"})
    return answer


def _is_true(case: str, answer: Answer, refunds: Iterable[Mapping[str, Any]], by_hand: Sequence[str]) -> bool:
    own = [
        one
        for one in refunds
        if one["id"] not in by_hand and (one.get("metadata") or {}).get(APPROVAL) == case and one["status"] != "failed"
    ]
    if answer.refund is not None and answer.refund not in {one["id"] for one in own}:
        return False
    return is_true(answer.status, asked_minor=AMOUNT_MINOR, landed_minor=[int(one["amount"]) for one in own])


def judge(row: Row, money_minor: int, count: int, statuses: Sequence[str], true: bool) -> Verdict:
    """Held: the money and the number of refunds are as wanted, and the answers are true and say so."""
    if not true or (money_minor, count) != (row.wanted_minor, row.wanted_count):
        return Verdict.VIOLATED
    return Verdict.UNKNOWN if any(claim_of(one) is Claim.UNKNOWN for one in statuses) else Verdict.HELD


def _verified(answer: Answer) -> bool | None:
    told = answer.details.get("receipt")
    return Receipt.from_dict(json.loads(json.dumps(told))).verify().ok if told else None


def planned(
    chosen: Sequence[Framework], rows: Sequence[Row], arms: Sequence[str], repetitions: int
) -> Iterator[tuple[str, str, str, int]]:
    """Every cell in the order it runs: in each row the arms follow each other, in another order in each repetition.

    Over six repetitions of three arms each stands in each place twice, and goes before each other one three times.
    """
    orders = list(permutations(arms))
    for repetition in range(repetitions):
        order = orders[repetition % len(orders)]
        for framework in chosen:
            for row in rows:
                if row.name in framework.impossible:
                    continue
                for arm in order:
                    yield framework.name, row.name, arm, repetition


def rows_of(names: Sequence[str] | None) -> list[Row]:
    """The rows that `--row` names; all of them without it."""
    asked = [one for name in names or BY_NAME for one in GROUPS.get(name, (name,))]
    return [row for row in ROWS if row.name in asked]


def ordered(cells: Iterable[dict[str, Any]], known: Mapping[str, Framework]) -> list[dict[str, Any]]:
    """Cells in the order of the report, whatever order they were played in."""
    frameworks_, rows = list(known), list(BY_NAME)

    def place(cell: Mapping[str, Any]) -> tuple[int, int, int, int]:
        framework, row, arm, repetition = place_of(cell)
        at = frameworks_.index(framework) if framework in known else len(known)
        return at, rows.index(row), ARMS.index(cast(ArmName, arm)), repetition

    return sorted((cell for cell in cells if cell["row"] in BY_NAME), key=place)


def cell_from(told: Mapping[str, Any]) -> Cell:
    """A kept cell as it was."""
    fields = dict(told)
    wanted = {name: fields.pop(f"wanted_{name}") for name in ("outcome", "minor", "verdict")}
    fields.pop("as_wanted")
    own = {
        name: fields.pop(name)
        for name in ("row", "arm", "tier", "crash", "outcome", "money_minor", "verdict", "answer_true")
    }
    asked = Wanted(
        outcome=wanted["outcome"],
        money_minor=wanted["minor"],
        verdict=None if wanted["verdict"] is None else Verdict(wanted["verdict"]),
    )
    return Cell(
        **{**own, "verdict": Verdict(own["verdict"])}, wanted=None if asked == Wanted() else asked, details=fields
    )


def is_whole(cells: Sequence[Cell], known: Mapping[str, Framework], skipped: Mapping[str, str]) -> bool:
    """Whether every framework that can be run has every row and arm, often enough, at the local service."""
    found = _repetitions(cells)
    places = planned([one for one in known.values() if one.name not in skipped], ROWS, ARMS, 1)
    return all(found.get((framework, row, arm), 0) >= REPETITIONS for framework, row, arm, _ in places)


def _repetitions(cells: Iterable[Cell]) -> dict[tuple[str, str, str], int]:
    found: dict[tuple[str, str, str], int] = {}
    for cell in cells:
        place = (str(cell.details["framework"]), cell.row, cell.arm)
        found[place] = found.get(place, 0) + 1
    return found


def _versions(cells: Iterable[Cell], known: Mapping[str, Framework]) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for cell in cells:
        for package, version in cell.details["versions"].items():
            found.setdefault(package, set()).add(version)
    return {package: " and ".join(sorted(some)) for package, some in sorted(found.items())}


def source_of(framework: Framework) -> str:
    """A fingerprint of the code that decides a cell: the gate, the wrappers, the arms, the harness, and the framework's own files."""
    if not _GATE:
        _GATE.append(
            _fingerprint(
                [
                    *(ROOT / "interlock").rglob("*.py"),
                    *(ROOT / "integrations").rglob("*.py"),
                    *Path(__file__).parent.glob("*.py"),
                    *(ROOT / "benchmarks" / "harness").glob("*.py"),
                ]
            )
        )
    named = (ROOT / "benchmarks" / "frameworks" / f"{prefix}{framework.name}.py" for prefix in ("", "_"))
    own = _fingerprint(file for file in named if file.exists())
    return f"{_GATE[0]}-{own}"


_GATE: list[str] = []


def _fingerprint(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in sorted({one.resolve() for one in files}):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:8]


def _place(kept: Kept, more: argparse.Namespace) -> StripePlace:
    """The service: that of the kept cells, if there are some, so that all of them can be audited against one ledger."""
    if not kept.head:
        return stripe_place.open_place(more)
    directory = more.service_dir
    if directory is None and kept.head.get("ledger"):
        directory = ROOT / kept.head["ledger"]
    return StripePlace(more.stripe, directory=directory, run=str(kept.head["run"]))


def _default_file(service: str) -> Path:
    return ROOT / ".scratch" / NAME / service / "cells.jsonl"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this suite alone."""
    parser.add_argument("--framework", action="append", choices=list(frameworks()), help="only this one; repeatable")
    parser.add_argument("--arm", action="append", choices=ARMS, help="only this arm; repeatable")
    parser.add_argument("--row", action="append", choices=[*BY_NAME, *GROUPS], help="only this row; repeatable")
    parser.add_argument("--reps", type=how_many, help=f"repetitions of each cell; default {REPETITIONS}")
    parser.add_argument(
        "--cells", type=Path, help="the file of finished cells; default one for each service in .scratch/"
    )
    parser.add_argument("--fresh", action="store_true", help="move finished cells away and begin anew")
    stripe_place.add_arguments(parser)


def pictures(content: Mapping[str, Any]) -> Mapping[str, str]:
    """What is drawn beside the page."""
    return {".svg": draw(content)}


SUITE = Suite(name=NAME, run=run, add_arguments=add_arguments, pictures=pictures)
