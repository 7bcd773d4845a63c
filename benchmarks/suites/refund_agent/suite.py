"""`python -m benchmarks refund-agent`: plays every row with every arm and judges each cell."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.harness import meta, stripe_place
from benchmarks.harness.document import Cell, Document
from benchmarks.harness.log import muted
from benchmarks.harness.progress import Progress
from benchmarks.harness.stripe_place import StripePlace, money_of
from benchmarks.harness.suite import Options, Suite
from benchmarks.suites.refund_agent.answer import claim_of, is_true, judge
from benchmarks.suites.refund_agent.arms import COLUMNS, Column
from benchmarks.suites.refund_agent.page import measures, report
from benchmarks.suites.refund_agent.rows import ROWS, Row
from benchmarks.suites.refund_agent.stage import LATE_BY_S, SETTLE_AFTER_S, Stage
from benchmarks.suites.refund_agent.wanted import WANTED

MODES = ("simulated", "kill")


def run(options: Options, progress: Progress) -> Document:
    """Play all rows. `--quick` plays those that need no killed process, in process."""
    started = datetime.now(UTC)
    chosen: str | None = options.more.crash or ("simulated" if options.quick else None)
    only: list[str] = options.more.row or []
    cells: list[Cell] = []
    plan = [play for play in planned(chosen, quick=options.quick) if not only or play[0].name in only]
    with (
        tempfile.TemporaryDirectory(prefix="refund-agent-") as scratch,
        stripe_place.open_place(options.more) as service,
        muted(),
    ):
        left_out = [] if service.is_local else sorted({row.name for row, _, _ in plan if row.local_only})
        plan = [play for play in plan if play[0].name not in left_out]
        progress.begin("refund-agent", len(plan))
        for number, (row, column, crash) in enumerate(plan):
            progress.step(f"{row.name} {column} {crash}")
            cells.append(play_cell(service, Path(scratch) / f"cell-{number:03}", row, column, crash, number=number))
    return Document(
        name="refund-agent",
        meta=meta.describe(
            command=options.command,
            seed=options.seed,
            started=started,
            ended=datetime.now(UTC),
            settle_after_s=SETTLE_AFTER_S,
            late_by_s=LATE_BY_S,
            **service.meta(),
            **left_out_meta(left_out),
        ),
        report=report(cells),
        cells=cells,
        measures=measures(cells),
        is_whole=chosen is None and not only and service.is_local,
    )


def left_out_meta(rows: list[str]) -> dict[str, Any]:
    """The rows that a live run leaves out, and what of them only the local service has."""
    reasons = {row.name: row.local_only for row in ROWS if row.name in rows}
    return {"left_out_live": reasons} if reasons else {}


def planned(mode: str | None, *, quick: bool) -> Iterator[tuple[Row, Column, str]]:
    """Every cell of a run, in the order of the table.

    Args:
        mode: `simulated`, `kill`, or both if None. A row without a crash belongs to both.
        quick: Leave out what needs a stopped process and its long pauses.
    """
    for row in ROWS:
        for column in COLUMNS:
            for crash in row.crashes:
                played = crash in {"none", mode} or mode is None or (crash == "stop" and mode == "kill")
                if played and not (quick and crash in {"kill", "stop"} and mode == "simulated"):
                    yield row, column, crash


def play_cell(service: StripePlace, directory: Path, row: Row, column: Column, crash: str, *, number: int) -> Cell:
    """Play one row with one arm, read the ledger, and judge."""
    stage = Stage(service, directory, column, order=f"881-{number:03}", real=crash == "kill")
    try:
        answers = row.play(stage)
        refunds = stage.refunds()
        requests = stage.refund_requests() if service.is_local else None
    finally:
        stage.close()
    money_minor, count = money_of(refunds)
    own = [refund for refund in refunds if refund["metadata"].get("by") == "agent"]
    landed = [int(refund["amount"]) for refund in own]
    answer_true = all(
        is_true(answer.status, asked_minor=stage.request.amount, landed_minor=landed) for answer in answers
    )
    claim = claim_of(answers[-1].status)
    return Cell(
        row=row.name,
        arm=column.arm,
        tier=column.tier,
        crash=crash,
        outcome="+".join(answer.status for answer in answers),
        money_minor=money_minor,
        verdict=judge(money_minor=money_minor, allowed_minor=row.allowed_minor, claim=claim, answer_true=answer_true),
        answer_true=answer_true,
        wanted=WANTED.get((row.name, column)),
        details={
            "refunds": count,
            "refund_ids": [refund["id"] for refund in refunds],
            "asked_minor": stage.request.amount,
            "requests": None if requests is None else len(requests),
            "keys_sent": None if requests is None else sum(one["idempotency_key"] is not None for one in requests),
            "attempts": stage.attempts,
            "settle_s": stage.settle_s,
            "payment": stage.request.payment,
            "effect_id": answers[-1].details.get("effect_id"),
            "changed": sorted(answers[-1].details.get("changed", {})),
        },
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this suite alone."""
    parser.add_argument("--crash", choices=MODES, help="how workers die: in process, or real SIGKILL; default both")
    parser.add_argument("--row", action="append", help="play this row only; may be given more than once")
    stripe_place.add_arguments(parser)


SUITE = Suite(name="refund-agent", run=run, add_arguments=add_arguments)
