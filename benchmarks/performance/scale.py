"""The same call on a journal with 1,000 finished effects and on one with very many, in turn; and what recovery costs on both.

Appends and look-ups must not follow the length of the history, and `recover()` must follow what is open alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.document import Measure
from benchmarks.performance.fill import fill
from benchmarks.performance.floor import FEWEST, LONGEST_S, timed
from benchmarks.performance.sample import in_us, median, spread, spread_us
from benchmarks.performance.subject import Died, Subject, declared, new_order, opened
from interlock import Interlock

SMALL = 1_000
MOST_RATIO = 1.1
OPEN = (0, 10, 100)
WARM_UP = 600
FEWEST_ROUNDS = 3


@dataclass(frozen=True)
class Journals:
    """Two journals that differ in their length alone."""

    small: Path
    large: Path
    effects: int
    filled_s: float
    size_bytes: int


def filled(directory: Path, effects: int) -> Journals:
    """Make both. The small one is verified here; both are made by the same code."""
    began = time.perf_counter()
    fill(directory / "large", effects)
    filled_s = time.perf_counter() - began
    fill(directory / "small", SMALL)
    with opened(directory / "small") as subject:
        found = subject.gate.journal.verify()
        if not found.ok or found.effects != SMALL:
            raise RuntimeError(f"the filled journal does not verify: {found.problems[:3]}, {found.effects} effects")
    size_bytes = (directory / "large" / "journal.db").stat().st_size
    return Journals(directory / "small", directory / "large", effects, filled_s, size_bytes)


def measure(directory: Path, *, effects: int, count: int, rounds: int) -> list[Measure]:
    """The scale's part of the result."""
    journals = filled(directory, effects)
    return [
        Measure(
            name=f"filling a journal with {effects:,} finished effects",
            value=round(journals.filled_s, 1),
            unit=f"s, {journals.size_bytes / 1e9:.2f} GB",
        ),
        *_latency(journals, count),
        *_recovery(journals, rounds),
    ]


def _latency(journals: Journals, count: int) -> Iterator[Measure]:
    with opened(journals.small) as small, opened(journals.large) as large:
        sides: list[tuple[str, Subject]] = [("small", small), ("large", large)]
        for _ in range(WARM_UP):
            for _, subject in sides:
                timed(subject)
        wall: dict[str, list[float]] = {"small": [], "large": []}
        busy: dict[str, list[float]] = {"small": [], "large": []}
        until = time.perf_counter() + LONGEST_S
        for number in range(count):
            if number >= FEWEST and time.perf_counter() > until:
                break
            for name, subject in sides if number % 2 else reversed(sides):
                wall_s, busy_s = timed(subject)
                wall[name].append(wall_s)
                busy[name].append(busy_s)
    for what, taken in (("latency", wall), ("processor time", busy)):
        for name, stored in (("small", SMALL), ("large", journals.effects)):
            yield Measure(
                name=f"{what} of a gated call, {stored:,} finished effects stored, median",
                value=in_us(median(taken[name])),
                unit="us",
                details={"spread": spread_us(taken[name]), "count": len(taken[name])},
            )
        yield _ratio(f"{what}, {journals.effects:,} stored to {SMALL:,}", taken["large"], taken["small"])


def _recovery(journals: Journals, rounds: int) -> Iterator[Measure]:
    """Each round opens so many effects in both journals, and recovers them with a new gate; small and large in turn."""
    for number in OPEN:
        taken: dict[str, list[float]] = {"small": [], "large": []}
        until = time.perf_counter() + LONGEST_S
        for turn in range(rounds if number else 20 * rounds):
            if turn >= FEWEST_ROUNDS and time.perf_counter() > until:
                break
            sides = [("small", journals.small), ("large", journals.large)]
            for name, directory in sides if turn % 2 else reversed(sides):
                taken[name].append(recover_s(directory, number))
        for name, stored in (("small", SMALL), ("large", journals.effects)):
            yield Measure(
                name=f"recover() of {number} open effects, {stored:,} stored, median",
                value=round(median(taken[name]) * 1e3, 3),
                unit="ms",
                details={
                    "spread": spread([each * 1e3 for each in taken[name]], 3),
                    "rounds": len(taken[name]),
                },
            )
        yield _ratio(f"recover() of {number} open, {journals.effects:,} stored to {SMALL:,}", *_pair(taken))


def _pair(taken: dict[str, list[float]]) -> tuple[list[float], list[float]]:
    return taken["large"], taken["small"]


def recover_s(directory: Path, count: int) -> float:
    """Seconds that a new gate takes to recover so many effects, which are left open first."""
    leave_open(directory, count)
    gate = Interlock(directory)
    try:
        declared(gate, dies=False)
        began = time.perf_counter()
        report = gate.recover()
        taken = time.perf_counter() - began
    finally:
        gate.close()
    if len(report) != count or report.still_open:
        raise RuntimeError(f"{count} effects were open, and recovery says {report!r:.200}")
    return taken


def leave_open(directory: Path, count: int) -> None:
    """So many effects whose sender ended in the middle of the send, without a word."""
    with opened(directory) as subject:
        for _ in range(count):
            with suppress(Died):
                subject.dying(new_order(), amount=2000)


def _ratio(name: str, large: Sequence[float], small: Sequence[float]) -> Measure:
    ratio = median(large) / median(small)
    return Measure(
        name=name,
        value=round(ratio, 3),
        unit="ratio",
        wanted=f"at most {MOST_RATIO}",
        holds=ratio <= MOST_RATIO,
    )
