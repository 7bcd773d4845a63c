"""One gated call beside the floor: two bare SQLite commits, which is what "durable before and after the send" costs at the least.

    floor   BEGIN IMMEDIATE, one small row, COMMIT; twice
    gated   one call of a null function through the gate
    order   floor, gated, gated, floor, floor, gated, ...: each pair of neighbours is compared with itself

Both write to files of their own in one directory, in WAL mode with synchronous=FULL. Both are warmed up until their logs have wrapped:
a log that still grows costs more for each fsync, on either side.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness.document import Measure
from benchmarks.performance.sample import in_us, median, quantile, spread_us
from benchmarks.performance.subject import Subject, new_order, opened

MOST_RATIO = 1.5
WARM_UP = 800
"""Calls of each before the clock starts; the floor's log wraps after 500 of them, the gate's after `CHECKPOINT_PAGES` / 3.1."""
LONGEST_S = 12.0
"""A part of the run ends after this, if it has `FEWEST` samples: on a disk that others keep busy a commit may take 4 ms."""
FEWEST = 300


@dataclass
class Pairs:
    """Times in seconds, taken in turn."""

    floor: list[float] = field(default_factory=list)
    gated: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    """Of each gated call, the processor time of its thread."""

    @property
    def ratio(self) -> float:
        """Of the medians."""
        return median(self.gated) / median(self.floor)

    @property
    def is_disturbed(self) -> bool:
        """Whether others kept the disk busy: the floor itself took more than twice as long as it does when left alone.

        The ratio says nothing then, and looks better than it is: whatever the gate adds is small beside such a floor.
        """
        return median(self.floor) > 2 * quantile(self.floor, 0.1)

    @property
    def holds(self) -> bool | None:
        """Whether the ratio is as wanted; None if it could not be told."""
        return None if self.is_disturbed else self.ratio <= MOST_RATIO

    @property
    def sentence(self) -> str:
        """What the ratio depends on."""
        added, commit = median(self.gated) - median(self.floor), median(self.floor) / 2
        text = (
            f"The gate adds {added * 1e6:,.0f} us to two commits of {commit * 1e6:,.0f} us each. So {MOST_RATIO} of the floor "
            f"holds on a disk where one commit takes {added * 1e6:,.0f} us or more."
        )
        return f"{text} Others kept the disk busy in this run: no verdict." if self.is_disturbed else text


class Floor:
    """Two bare commits, again and again."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute

    def commit(self) -> None:
        """One small row, durable."""
        self._execute("BEGIN IMMEDIATE")
        self._execute("INSERT INTO floor (body) VALUES (?)", (ROW,))
        self._execute("COMMIT")

    def call(self) -> None:
        """What a gated call stands beside."""
        self.commit()
        self.commit()


ROW = b"x" * 64


@contextmanager
def bare(directory: Path) -> Iterator[Floor]:
    """A bare SQLite file in that directory, with the journal's two settings and SQLite's own defaults for the rest."""
    directory.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(directory / "floor.db", isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE IF NOT EXISTS floor (id INTEGER PRIMARY KEY, body BLOB NOT NULL)")
        yield Floor(connection)
    finally:
        connection.close()


def pairs(floor: Floor, subject: Subject, count: int, *, warm_up: int = WARM_UP) -> Pairs:
    """So many of each, in turn; who goes first alternates."""
    for _ in range(warm_up):
        floor.call()
        subject.null(new_order(), amount=2000)
    taken = Pairs()
    until = time.perf_counter() + LONGEST_S
    for number in range(count):
        if number >= FEWEST and time.perf_counter() > until:
            break
        for which in ("floor", "gated") if number % 2 else ("gated", "floor"):
            if which == "floor":
                began = time.perf_counter()
                floor.call()
                taken.floor.append(time.perf_counter() - began)
            else:
                wall_s, busy_s = timed(subject)
                taken.gated.append(wall_s)
                taken.busy.append(busy_s)
    return taken


def timed(subject: Subject) -> tuple[float, float]:
    """One gated call of a new effect: seconds by the clock, and seconds of the processor."""
    order = new_order()
    busy, began = time.thread_time(), time.perf_counter()
    subject.null(order, amount=2000)
    return time.perf_counter() - began, time.thread_time() - busy


def measure(directory: Path, *, count: int) -> tuple[list[Measure], str]:
    """The floor's part of the result, and a sentence about it."""
    with bare(directory) as floor, opened(directory / "journal") as subject:
        taken = pairs(floor, subject, count)
    return [
        Measure(
            name="floor: two bare commits, median",
            value=in_us(median(taken.floor)),
            unit="us",
            details={"spread": spread_us(taken.floor), "count": len(taken.floor)},
        ),
        Measure(
            name="one gated call, one worker, median",
            value=in_us(median(taken.gated)),
            unit="us",
            details={"spread": spread_us(taken.gated), "count": len(taken.gated)},
        ),
        Measure(
            name="gated call to floor",
            value=round(taken.ratio, 3),
            unit="ratio",
            wanted=f"at most {MOST_RATIO}",
            holds=taken.holds,
        ),
        Measure(
            name="gated call above floor",
            value=in_us(median(taken.gated) - median(taken.floor)),
            unit="us",
        ),
        Measure(
            name="one gated call, processor time, median",
            value=in_us(median(taken.busy)),
            unit="us",
            details={"spread": spread_us(taken.busy)},
        ),
    ], taken.sentence


def commit_s(floor: Floor, count: int) -> list[float]:
    """Times of single bare commits, in seconds."""
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        floor.commit()
        taken.append(time.perf_counter() - began)
    return taken
