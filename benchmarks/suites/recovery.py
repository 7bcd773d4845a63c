"""`python -m benchmarks recovery`: crash to settled, the gate beside the hand check; and the stopped sender.

    worker 1:   begin ---- SIGKILL
    supervisor:            | sees the death ---- starts worker 2 ---------------------- reads the answer |
    worker 2:                                    starts python, imports, recovers, answers
    measured:              |<------------------------------- settle_s ------------------------------->|

Both arms run the same service, the same worker module and the same kill, in turn within one run, so the ratio compares
like with like: process start, imports, reading what was open, the checks, the look-up, the send where one is due. Both
keep their intent on disk. The gate waits a declared pause before it trusts an `absent`; the hand check does not, and that
pause is inside what is measured.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.harness import meta, stripe_place
from benchmarks.harness.document import Cell, Document, Measure, Report, Verdict, Wanted
from benchmarks.harness.progress import Progress
from benchmarks.harness.stripe_place import StripePlace, money_of
from benchmarks.harness.suite import Options, Suite, how_many
from benchmarks.suites.refund_agent.answer import Answer, claim_of, is_true, judge
from benchmarks.suites.refund_agent.arms import GATE, Column
from benchmarks.suites.refund_agent.case import APPROVED_MINOR
from benchmarks.suites.refund_agent.crash import Point
from benchmarks.suites.refund_agent.stage import Stage

REPETITIONS, QUICK_REPETITIONS = 30, 4
STOPS, QUICK_STOPS = 10, 1
MOST_RATIO = 1.1
TIERS = (1, 2)
TIER_WITHOUT_HELP = 3
POINTS = (Point.BEFORE_SEND, Point.BEFORE_ACK)
ARMS = ("gate", "hand_check")

SERVICE_DELAY_S = 0.4
"""How long the service holds the stopped sender's request before it acts."""

STOPPED = "stopped_sender"


@dataclass(frozen=True)
class Case:
    """One thing to play: a crash and its recovery, or a stop."""

    row: str
    column: Column
    repetition: int
    play: Callable[[Stage], list[Answer]]

    @property
    def crash(self) -> str:
        """How the first worker is interrupted."""
        return "stop" if self.row == STOPPED else "kill"


def run(options: Options, progress: Progress) -> Document:
    """Play every case, interleaved, and compare."""
    started = datetime.now(UTC)
    repetitions: int = options.more.repetitions or (QUICK_REPETITIONS if options.quick else REPETITIONS)
    # The stopped sender needs a slow service, which only the local one is on demand.
    stops = 0 if options.more.stripe == "live" else QUICK_STOPS if options.quick else STOPS
    plan = list(planned(repetitions, stops))
    progress.begin("recovery", len(plan))
    cells: list[Cell] = []
    with (
        tempfile.TemporaryDirectory(prefix="recovery-") as scratch,
        stripe_place.open_place(options.more) as service,
    ):
        for number, case in enumerate(plan):
            progress.step(f"{case.row} {case.column} {case.repetition}")
            cells.append(_play(service, Path(scratch) / f"case-{number:03}", case, number))
    return Document(
        name="recovery",
        meta=meta.describe(
            command=options.command,
            seed=options.seed,
            started=started,
            ended=datetime.now(UTC),
            repetitions=repetitions,
            settle_after_s=service.settle_after_s,
            **service.meta(),
        ),
        report=_report(),
        cells=cells,
        measures=[
            *crash_measures(cells),
            Measure(name="declared pause before an absent is trusted", value=service.settle_after_s, unit="s"),
            *(stop_measures(cells) if stops else []),
        ],
        is_whole=service.is_local,
    )


def planned(repetitions: int, stops: int) -> Iterator[Case]:
    """Every case in the order it runs: the arms take turns, and who goes first alternates."""
    for repetition in range(repetitions):
        arms = ARMS if repetition % 2 == 0 else tuple(reversed(ARMS))
        for tier in TIERS:
            for point in POINTS:
                for arm in arms:
                    yield Case(f"crash_{point}", Column(arm, tier), repetition, _crash_at(point))
    for repetition in range(stops):
        for column in GATE:
            yield Case(STOPPED, column, repetition, _stop_in_the_send)


def _crash_at(point: Point) -> Callable[[Stage], list[Answer]]:
    def play(stage: Stage) -> list[Answer]:
        stage.deliver(die=point)
        return [stage.recover()]

    return play


def _stop_in_the_send(stage: Stage) -> list[Answer]:
    timeout_s = stage.shorten_timeout()
    stage.service.fault(method="POST", path="/v1/refunds", kind="delay_before", delay_s=SERVICE_DELAY_S, times=1)
    first = stage.ready()
    first.send({})
    stage.wait_for_request()
    first.stop()
    stopped = time.monotonic()
    second = stage.ready(waits=False)
    second.send({})
    answers = [stage.answer_of(second)]
    time.sleep(max(0.0, stopped + 1.5 * timeout_s - time.monotonic()))
    # Past every timeout the other worker is asked once more: it must still not take over.
    third = stage.ready(waits=False)
    third.send({})
    answers.append(stage.answer_of(third))
    first.resume()
    return [*answers, stage.answer_of(first)]


def _play(service: StripePlace, directory: Path, case: Case, number: int) -> Cell:
    settle_after_s = service.settle_after_s
    stage = Stage(service, directory, case.column, order=f"882-{number:03}", real=True, settle_after_s=settle_after_s)
    try:
        answers = case.play(stage)
    finally:
        stage.close()
    refunds = stage.refunds()
    landed = [int(refund["amount"]) for refund in refunds]
    true = all(is_true(answer.status, asked_minor=APPROVED_MINOR, landed_minor=landed) for answer in answers)
    return Cell(
        row=case.row,
        arm=case.column.arm,
        tier=case.column.tier,
        crash=case.crash,
        outcome="+".join(answer.status for answer in answers),
        money_minor=sum(landed),
        verdict=judge(
            money_minor=sum(landed),
            allowed_minor=(APPROVED_MINOR,),
            claim=claim_of(answers[-1].status),
            answer_true=true,
        ),
        answer_true=true,
        wanted=Wanted(
            money_minor=APPROVED_MINOR,
            # A lost answer cannot be looked up at tier 3, so a stopped sender may have to say that nobody can tell.
            verdict=None if case.column.tier == TIER_WITHOUT_HELP else Verdict.HELD,
        ),
        details={
            "repetition": case.repetition,
            "settle_s": stage.settle_s,
            "attempts": stage.attempts,
            "payment": stage.request.payment,
            "refunds": money_of(refunds)[1],
            "refund_ids": [refund["id"] for refund in refunds],
            "effect_id": answers[-1].details.get("effect_id"),
        },
    )


def crash_measures(cells: Sequence[Cell]) -> Iterator[Measure]:
    """For each tier and crash point: both arms' medians with their spread, and the ratio that must hold."""
    for tier in TIERS:
        for point in POINTS:
            row = f"crash_{point}"
            times = {arm: _times(cells, row, tier, arm) for arm in ARMS}
            for arm, taken in times.items():
                yield Measure(
                    name=f"{row}, tier {tier}: {arm}, crash to settled, median",
                    value=round(statistics.median(taken), 3),
                    unit="s",
                    details={"spread": _spread(taken), "count": len(taken)},
                )
            # Two runs back to back see the same machine; one that got slower halfway would skew two medians.
            ratios = [gate / hand for gate, hand in zip(*times.values(), strict=True)]
            ratio = statistics.median(ratios)
            yield Measure(
                name=f"{row}, tier {tier}: gate to hand check, median of the pairs",
                value=round(ratio, 3),
                unit="ratio",
                wanted=f"at most {MOST_RATIO}",
                holds=ratio <= MOST_RATIO,
                details={"spread": _spread(ratios)},
            )


def _times(cells: Sequence[Cell], row: str, tier: int, arm: str) -> list[float]:
    """Crash to settled, in the order of the repetitions."""
    return [float(cell.details["settle_s"]) for cell in cells if (cell.row, cell.tier, cell.arm) == (row, tier, arm)]


def _spread(values: Sequence[float]) -> str:
    ordered = sorted(values)
    tenth = len(ordered) // 10
    return f"{ordered[tenth]:.3f} to {ordered[-1 - tenth]:.3f}"


def stop_measures(cells: Sequence[Cell]) -> Iterator[Measure]:
    """How often the stopped sender and the one that asked meanwhile came to exactly one refund."""
    stopped = [cell for cell in cells if cell.row == STOPPED]
    once = sum(cell.money_minor == APPROVED_MINOR for cell in stopped)
    yield Measure(
        name="stopped sender: exactly one effect",
        value=once,
        unit=f"of {len(stopped)}",
        wanted=f"{len(stopped)}, every time",
        holds=bool(stopped) and once == len(stopped),
    )


def _report() -> Report:
    return Report(
        title="Recovery: crash to settled, and the stopped sender",
        intro=(
            "A worker process is killed with SIGKILL right before its request leaves, or right after the service answered; the "
            "supervisor sees the death, starts a new process, and reads its answer. The time between the two is measured, process "
            "start included, the gate and the hand check taking turns in one run against one service. Only the ratio within this "
            "run means something."
        ),
        notes=[
            "Spread: from the tenth to the ninetieth percentile. Each ratio is the median over pairs of runs that followed each other.",
            "Where the request had not left (crash_before_send) at tier 2, the gate's time holds its declared pause; the hand check "
            "trusts an absent at once, and pays twice when a request lands late (see the refund agent, late_landing).",
            "Both workers read their job through pydantic, as agents do, and keep their record in SQLite with full synchronisation. "
            "Only the gate's worker imports the gate.",
            "The stopped sender is stopped with SIGSTOP while the service holds its request, another worker asks twice, the second "
            "time after more than every declared timeout, and SIGCONT lets the first one go on.",
            "At tier 3 a stopped sender whose answer is lost may end AMBIGUOUS; the money is still one refund.",
        ],
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this suite alone."""
    parser.add_argument("--repetitions", type=how_many, help=f"of each crash and arm; default {REPETITIONS}")
    stripe_place.add_arguments(parser)


SUITE = Suite(name="recovery", run=run, add_arguments=add_arguments)
