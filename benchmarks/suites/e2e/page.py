"""What the report of the crash rows says: computed from the cells. Where another arm is as good, it says so first."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.harness.document import Cell, Measure, Report, Table, Verdict
from benchmarks.harness.listing import cut
from benchmarks.suites.e2e.engines.engine import Engine
from benchmarks.suites.e2e.rows import ALL_ARMS, COUNTED, ROWS

HERE = Path(__file__).parent
MOST_RATIO = 1.1
FEWEST_TO_JUDGE = 3
MOST_ATTEMPTS_WANTED = 2


def report(engine: Engine, cells: Sequence[Cell]) -> Report:
    """The page around the cells."""
    idle = [cell for cell in cells if not cell.details["is_played"]]
    cells = played(cells)
    emulated = [f"Emulated, {row.name}: {row.emulated}" for row in ROWS if row.emulated]
    return Report(
        title=f"Real crashes in the middle of a refund, engine: {engine.name}",
        intro=(
            "A $100 payment, one $20 refund approved, a model that reads the payment through a tool and decides, and a worker process "
            "that kills itself with SIGKILL in the middle of the refund. People act in the outage; a new worker process finishes. "
            f"Money and counts are read from the payment service's own list of refunds. {engine.what}"
        ),
        findings=[
            *findings(cells),
            *price(cells),
            *(
                [f"In {len(idle)} cells the model decided something else (asked_minor); they are not counted."]
                if idle
                else []
            ),
        ],
        tables=[
            Table(title="The seven rows", where={"row": list(COUNTED)}),
            Table(
                title="Shown for themselves",
                text=(
                    "Where nobody can know, and what the declared rule costs. Nothing is wanted here but the honest AMBIGUOUS; the price's "
                    "cells are not judged, and their sign says no more than that."
                ),
                where={"row": [row.name for row in ROWS if not row.is_counted]},
            ),
        ],
        glossary={row.name: f"{row.what}." for row in ROWS},
        listings=[
            cut(HERE / "arms.py", "hand_check", title="The hand check"),
            cut(HERE / "arms.py", "no_check", title="No check"),
            cut(HERE / "gated.py", "declare", title="Interlock"),
        ],
        notes=[
            "crash_to_closed_s counts from the kernel's report of the worker's death to the answer of the worker that closed the case: "
            "what people do in the outage, the new process's start and its imports are in it, for every arm.",
            "attempts are those at the refund, by the engine's own count where it keeps one, else the worker processes.",
            "Where a check fails at recovery the gate does not trust an absent refund at once; its declared pause is in the time.",
            "Every object at the service carries the run and the cell in its metadata. No arm reads these.",
            *emulated,
        ],
    )


def findings(cells: Sequence[Cell]) -> list[str]:
    """Each arm's count, ties first."""
    lost = {arm: rows_played(cells, arm) - rows_held(cells, arm) for arm in ALL_ARMS}
    lines = []
    for arm in ("hand_check", "no_check"):
        ahead = lost["interlock"] - lost[arm]
        verb = "ties with" if ahead == 0 else "is ahead of" if ahead > 0 else "is behind"
        lines.append(
            f"{arm} {verb} interlock on what the service holds ({_count(cells, arm)}; {_count(cells, 'interlock')})."
        )
    lines.extend(_faster(cells))
    for arm in ALL_ARMS:
        counted = [cell for cell in cells if cell.arm == arm and cell.row in COUNTED]
        wrong = sorted({cell.row for cell in counted if cell.verdict is not Verdict.HELD})
        true = f"answers true in {rows_true(cells, arm)} of {rows_played(cells, arm)}"
        lines.append(f"{arm}: {_count(cells, arm)} in every repetition, {true}{_named('; not held: ', wrong)}.")
    return lines


def _faster(cells: Sequence[Cell]) -> Iterator[str]:
    """Which arm without a gate closes a case sooner, by the median of the rows."""
    gate = closed_s(cells, "interlock")
    for arm in ("hand_check", "no_check"):
        taken = closed_s(cells, arm)
        if gate and taken and statistics.median(taken) < statistics.median(gate):
            yield (
                f"{arm} closes faster after the crash, by the median: {statistics.median(taken):.3f} s, interlock "
                f"{statistics.median(gate):.3f} s."
            )


def closed_s(cells: Sequence[Cell], arm: str) -> list[float]:
    """Every time from a crash to the closed case in the counted rows, in order."""
    return sorted(float(cell.details["crash_to_closed_s"]) for cell in cells if cell.arm == arm and cell.row in COUNTED)


def _count(cells: Sequence[Cell], arm: str) -> str:
    return f"{rows_held(cells, arm)} of {rows_played(cells, arm)} rows as wanted"


def _named(before: str, names: Sequence[str]) -> str:
    return before + ", ".join(names) if names else ""


def price(cells: Sequence[Cell]) -> list[str]:
    """What the declared rule costs where it is wrong, and what the person then reads."""
    told = [cell for cell in cells if cell.row == "price_two_separate_twenties" and cell.arm == "interlock"]
    if not told:
        return []
    return [
        f"The price: two separate $20 refunds cannot be told from one paid twice. interlock ends {told[0].outcome} with "
        f'${told[0].money_minor // 100} refunded where $40 were right, and the person reads: "{told[0].details["person_sees"]}"'
    ]


def measures(cells: Sequence[Cell], repetitions: int, *, must_decide: bool = True) -> list[Measure]:
    """The numbers that are wanted, and those beside them."""
    happened = Measure(
        name="cells in which the worker died in its refund",
        value=len(played(cells)),
        unit=f"of {len(cells)}",
        wanted=str(len(cells)) if must_decide else None,
        holds=len(played(cells)) == len(cells) if must_decide else None,
    )
    cells = played(cells)
    found: list[Measure] = [happened]
    for arm in ALL_ARMS:
        ours = arm == "interlock"
        rows = rows_played(cells, arm)
        for name, value in (("rows held", rows_held(cells, arm)), ("answers true", rows_true(cells, arm))):
            found.append(
                Measure(
                    name=f"{arm}: {name}, in every repetition",
                    value=value,
                    unit=f"of {rows}",
                    wanted=str(rows) if ours else None,
                    holds=value == rows if ours else None,
                )
            )
    found.extend(_attempts(cells))
    found.extend(_receipts(cells))
    found.extend(_times(cells, repetitions))
    return found


def played(cells: Sequence[Cell]) -> list[Cell]:
    """Those in which the approved refund was decided and a worker died in it."""
    return [cell for cell in cells if cell.details["is_played"]]


def rows_played(cells: Sequence[Cell], arm: str) -> int:
    """How many of the counted rows the arm played."""
    return _rows(cells, arm, lambda cell: True)


def rows_held(cells: Sequence[Cell], arm: str) -> int:
    """In how many of the counted rows every repetition held."""
    return _rows(cells, arm, lambda cell: cell.verdict is Verdict.HELD)


def rows_true(cells: Sequence[Cell], arm: str) -> int:
    """In how many of the counted rows every answer was true."""
    return _rows(cells, arm, lambda cell: cell.answer_true is True)


def _rows(cells: Sequence[Cell], arm: str, good: object) -> int:
    assert callable(good)
    own = [cell for cell in cells if cell.arm == arm and cell.row in COUNTED]
    return sum(all(good(cell) for cell in own if cell.row == row) for row in {cell.row for cell in own})


def _attempts(cells: Sequence[Cell]) -> Iterator[Measure]:
    for arm in ALL_ARMS:
        own = [int(cell.details["attempts"]) for cell in cells if cell.arm == arm]
        if own:
            ours = arm == "interlock"
            yield Measure(
                name=f"{arm}: attempts at the refund of a case, at most",
                value=max(own),
                unit="attempts",
                wanted=str(MOST_ATTEMPTS_WANTED) if ours else None,
                holds=max(own) == MOST_ATTEMPTS_WANTED if ours else None,
            )


def _receipts(cells: Sequence[Cell]) -> Iterator[Measure]:
    ours = [cell for cell in cells if cell.arm == "interlock"]
    good = sum(cell.details.get("receipt_verified") is True for cell in ours)
    if ours:
        yield Measure(
            name="interlock: receipts that verify from the JSON alone",
            value=good,
            unit=f"of {len(ours)}",
            wanted=str(len(ours)),
            holds=good == len(ours),
        )


def _times(cells: Sequence[Cell], repetitions: int) -> Iterator[Measure]:
    medians: dict[str, float] = {}
    for arm in ALL_ARMS:
        taken = closed_s(cells, arm)
        if taken:
            medians[arm] = statistics.median(taken)
            yield Measure(
                name=f"{arm}: crash to closed, median",
                value=round(medians[arm], 3),
                unit="s",
                details={"spread": f"{taken[0]:.3f} to {taken[-1]:.3f}", "count": len(taken)},
            )
    if {"interlock", "hand_check"} <= medians.keys():
        ratio = medians["interlock"] / medians["hand_check"]
        enough = repetitions >= FEWEST_TO_JUDGE
        yield Measure(
            name="crash to closed, interlock to hand_check, ratio of the medians",
            value=round(ratio, 3),
            unit="ratio",
            wanted=f"at most {MOST_RATIO}" if enough else None,
            holds=ratio <= MOST_RATIO if enough else None,
            details={} if enough else {"spread": f"shown only; judged from {FEWEST_TO_JUDGE} repetitions on"},
        )
