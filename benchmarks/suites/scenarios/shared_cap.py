"""`python -m benchmarks scenario shared_cap`: two approvals of $20 race one cap of $30, and the first to send is killed.

    supervisor    start A, B ---- go ----                    start A again --------- both have answered
    worker A           lock / dispatch ---- POST, SIGKILL |
    worker B           waits, or is refused ............. | .... answers
    measured                                              |<------------ settle_s ------------->|

The cap is "no more than $30 refunded on this payment". It is won by whoever gets there first, so which of the two dies is the race's to
say; that one of them does is certain. Wanted is $20: one of the two done once, the other one told so, and both answers true.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.harness import meta, stripe_place
from benchmarks.harness.document import Cell, Document, Listing, Measure, Report, Table, Verdict, Wanted, dump
from benchmarks.harness.listing import cut
from benchmarks.harness.stripe_place import StripePlace, money_of
from benchmarks.harness.stripe_wire import Death
from benchmarks.harness.suite import Options, how_many
from benchmarks.harness.supervisor import Supervisor, Worker
from benchmarks.suites.refund_agent.answer import Claim, claim_of, is_true
from benchmarks.suites.scenarios.shared_cap_worker import APPROVAL, ARMS, MODULE

NAME = "shared_cap"
REPETITIONS, QUICK_REPETITIONS = 20, 2
AMOUNT_MINOR = 2_000
LIMIT_MINOR = 3_000
POINTS = (Death.BEFORE_ACK, Death.BEFORE_SEND)
APPROVALS = ("A", "B")
MOST_RATIO = 1.1
ENOUGH = 10
"""Fewer races than this say nothing about a ratio."""
WORKER_FILE = Path(__file__).with_name("shared_cap_worker.py")


@dataclass(frozen=True)
class Case:
    """One race."""

    arm: str
    point: Death
    repetition: int

    @property
    def name(self) -> str:
        """Its name at the service, and of its directory."""
        return f"{self.arm}-{self.point}-{self.repetition:02}"


def planned(repetitions: int) -> Iterator[Case]:
    """Every race in the order it runs: the arms take turns, and who goes first changes."""
    arms = tuple(ARMS)
    for repetition in range(repetitions):
        for point in POINTS:
            for place in range(len(arms)):
                yield Case(arms[(place + repetition) % len(arms)], point, repetition)


def run(options: Options) -> Document:
    """Play every race, and compare."""
    started = datetime.now(UTC)
    repetitions: int = getattr(options.more, "reps", None) or (QUICK_REPETITIONS if options.quick else REPETITIONS)
    plan = list(planned(repetitions))
    options.progress.begin(NAME, len(plan))
    cells: list[Cell] = []
    with tempfile.TemporaryDirectory(prefix="shared-cap-") as scratch, stripe_place.open_place(options.more) as place:
        for case in plan:
            options.progress.step(case.name)
            cells.append(play(place, Path(scratch) / case.name, case))
        told = place.meta()
        is_local = place.is_local
    return Document(
        name=NAME,
        meta=meta.describe(
            command=options.command,
            seed=options.seed,
            started=started,
            ended=datetime.now(UTC),
            repetitions=repetitions,
            **told,
        ),
        report=_report(),
        cells=cells,
        measures=list(measures(cells)),
        is_whole=is_local and repetitions >= REPETITIONS,
    )


def play(place: StripePlace, directory: Path, case: Case) -> Cell:
    """One race: two workers, a death, a restart, two answers, and the service's list."""
    directory.mkdir(parents=True)
    payment = str(place.pay(case.name).id)

    def job(approval: str, die: Death | None) -> dict[str, Any]:
        return {
            "arm": case.arm,
            "door": place.door_of(case.name).model_dump(mode="json"),
            "directory": str(directory),
            "payment": payment,
            "approval": f"{case.name}-{approval}",
            "amount_minor": AMOUNT_MINOR,
            "limit_minor": LIMIT_MINOR,
            "die": die,
        }

    with Supervisor() as supervisor:
        racing = {approval: supervisor.start(MODULE) for approval in APPROVALS}
        for approval, worker in racing.items():
            worker.send(job(approval, case.point))
        for worker in racing.values():
            worker.receive()
        for worker in racing.values():
            worker.send({})
        dead, died = _first_dead(racing)
        again = supervisor.start(MODULE)
        again.send(job(dead, None))
        answers = {
            approval: (again if approval == dead else worker).receive(60.0) for approval, worker in racing.items()
        }
        settle_s = time.monotonic() - died
    return judged(place, case, payment, dead, answers, settle_s)


def _first_dead(racing: dict[str, Worker]) -> tuple[str, float]:
    """Which of the workers was killed, and when; every case has one, since one of the two sends first."""
    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline:
        for approval, worker in racing.items():
            if not worker.is_live and worker.is_killed:
                return approval, worker.wait_killed()
        time.sleep(0.001)
    raise RuntimeError("neither of the two workers died: the crash that this case is about did not happen")


def judged(
    place: StripePlace, case: Case, payment: str, dead: str, answers: dict[str, dict[str, Any]], settle_s: float
) -> Cell:
    """What came of a race, by the service's own list."""
    refunds = place.refunds(payment)
    money_minor, count = money_of(refunds)
    landed: dict[str, list[int]] = {approval: [] for approval in APPROVALS}
    for refund in refunds:
        landed[str(refund["metadata"][APPROVAL]).rpartition("-")[2]].append(int(refund["amount"]))
    statuses = {approval: str(answers[approval]["status"]) for approval in APPROVALS}
    is_all_true = all(
        is_true(status, asked_minor=AMOUNT_MINOR, landed_minor=landed[approval])
        for approval, status in statuses.items()
    )
    claims = [claim_of(status) for status in statuses.values()]
    if money_minor > LIMIT_MINOR or not is_all_true or (Claim.UNKNOWN not in claims and money_minor != AMOUNT_MINOR):
        verdict = Verdict.VIOLATED
    else:
        verdict = Verdict.UNKNOWN if Claim.UNKNOWN in claims else Verdict.HELD
    last = answers[APPROVALS[-1]]
    return Cell(
        row=NAME,
        arm=case.arm,
        crash=str(case.point),
        outcome="+".join(statuses.values()),
        money_minor=money_minor,
        verdict=verdict,
        answer_true=is_all_true,
        wanted=Wanted(money_minor=AMOUNT_MINOR, verdict=Verdict.HELD) if case.arm == "interlock" else None,
        details={
            "reader": "refunds_by_approval",
            "payment": payment,
            "limit_minor": LIMIT_MINOR,
            "repetition": case.repetition,
            "killed": dead,
            "settle_s": round(settle_s, 4),
            "refunds": count,
            "refund_ids": [str(refund["id"]) for refund in refunds],
            "approvals": sorted(str(refund["metadata"][APPROVAL]) for refund in refunds),
            "texts": [answers[approval].get("text", "") for approval in APPROVALS],
            "effect_id": last.get("effect_id"),
            "receipt": last.get("receipt"),
        },
    )


def measures(cells: Sequence[Cell]) -> Iterator[Measure]:
    """How often each arm held, how fast each settled, and the gate beside the lock."""
    medians: dict[tuple[str, str], float] = {}
    for arm in ARMS:
        own = [cell for cell in cells if cell.arm == arm]
        held = sum(cell.verdict is Verdict.HELD for cell in own)
        is_ours = arm == "interlock"
        yield Measure(
            name=f"{arm}: races in which the cap held, one refund was made, and both answers are true",
            value=held,
            unit=f"of {len(own)}",
            wanted=f"{len(own)}" if is_ours else None,
            holds=held == len(own) if is_ours else None,
        )
    for point in POINTS:
        for arm in ARMS:
            times = [cell.details["settle_s"] for cell in cells if cell.arm == arm and cell.crash == str(point)]
            medians[arm, str(point)] = statistics.median(times)
            yield Measure(
                name=f"{arm}, {point}: crash to both answered, median",
                value=round(medians[arm, str(point)], 3),
                unit="s",
                details={"least": round(min(times), 3), "most": round(max(times), 3)},
            )
        ratio = medians["interlock", str(point)] / medians["file_lock", str(point)]
        is_judged = len(times) >= ENOUGH
        yield Measure(
            name=f"{point}: interlock to file_lock, ratio of the medians",
            value=round(ratio, 3),
            unit="times",
            wanted=f"at most {MOST_RATIO}" if is_judged else None,
            holds=ratio <= MOST_RATIO if is_judged else None,
        )


def _report() -> Report:
    return Report(
        title="Two approvals, one cap",
        intro=(
            "Two refunds of $20 on one payment of $100 are approved, and no more than $30 may be refunded on it. Two worker "
            "processes begin at the same moment. The first of them to send is killed by SIGKILL, in half of the races after the "
            "service took its request and in half before the POST, and is started again at once. The truth is the service's own "
            "list of refunds."
        ),
        tables=[Table(title="What came of it", where={"row": [NAME]})],
        listings=[_listing(arm) for arm in ("file_lock", "declare")],
        glossary={
            "no_check": "sends under a stable idempotency key; nothing knows of the cap",
            "file_lock": "a lock file around a look at the service's list, the sum, and the POST; re-read under the lock after a crash",
            "interlock": "budget= of the gate: reserved in the dispatch write, kept by the dead worker's effect until it is settled",
            "before_ack": "killed after the service took the refund, before the worker could write that down",
            "before_send": "killed right before the POST",
        },
        notes=[
            "settle_s runs from the death, as the kernel reports it, to the second of the two answers; the start of the new "
            "process is in it.",
            "A lock file is as good here as it is because the lock and the list are both at hand: one machine, one service whose "
            "list shows a refund at once, and effects of one kind. Its holder's last request may still be on its way when the lock "
            "is free; neither crash point has that.",
        ],
    )


def _listing(function: str) -> Listing:
    title = "interlock" if function == "declare" else function
    return cut(WORKER_FILE, function, title=f"{title}, as the user writes it")


def main() -> int:
    """Run it on its own: `python -m benchmarks.suites.scenarios.shared_cap [--reps N] [--out FILE]`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--reps", type=how_many, default=QUICK_REPETITIONS)
    parser.add_argument("--out", type=Path)
    stripe_place.add_arguments(parser)
    more = parser.parse_args()
    document = run(Options(quick=True, seed=0, command="scenario shared_cap", more=more))
    if more.out is not None:
        more.out.write_text(dump(document.to_json()), encoding="utf-8")
    for measure in document.measures:
        print(f"{measure.name}: {measure.value} {measure.unit} {'' if measure.holds is None else measure.holds}")
    print(document.sentence)
    return 0 if document.holds else 1


if __name__ == "__main__":
    sys.exit(main())
