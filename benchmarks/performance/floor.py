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
from benchmarks.performance.sample import in_us, median, spread_us
from benchmarks.performance.subject import Subject, new_order, opened

MOST_RATIO = 1.5
WARM_UP = 1500
"""Calls of each before the clock starts; the floor's log wraps after 500 of them, the gate's after `CHECKPOINT_PAGES` / 7."""


@dataclass
class Pairs:
    """Times in seconds, taken in turn."""

    floor: list[float] = field(default_factory=list)
    gated: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Of the medians."""
        return median(self.gated) / median(self.floor)


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
    for number in range(count):
        for which in ("floor", "gated") if number % 2 else ("gated", "floor"):
            order = new_order()
            began = time.perf_counter()
            if which == "floor":
                floor.call()
            else:
                subject.null(order, amount=2000)
            getattr(taken, which).append(time.perf_counter() - began)
    return taken


def measure(directory: Path, *, count: int) -> list[Measure]:
    """The floor's part of the result."""
    with bare(directory) as floor, opened(directory / "journal") as subject:
        taken = pairs(floor, subject, count)
    return [
        Measure(
            name="floor: two bare commits, median",
            value=in_us(median(taken.floor)),
            unit="us",
            details={"spread": spread_us(taken.floor), "count": count},
        ),
        Measure(
            name="one gated call, one worker, median",
            value=in_us(median(taken.gated)),
            unit="us",
            details={"spread": spread_us(taken.gated), "count": count},
        ),
        Measure(
            name="gated call to floor",
            value=round(taken.ratio, 3),
            unit="ratio",
            wanted=f"at most {MOST_RATIO}",
            holds=taken.ratio <= MOST_RATIO,
        ),
        Measure(
            name="gated call above floor",
            value=in_us(median(taken.gated) - median(taken.floor)),
            unit="us",
        ),
    ]


def commit_s(floor: Floor, count: int) -> list[float]:
    """Times of single bare commits, in seconds."""
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        floor.commit()
        taken.append(time.perf_counter() - began)
    return taken
