"""The one shape of a result: cells and measures, what was wanted of them, and how it was measured.

Owns the JSON of `results/NAME.json` and the question "is everything as wanted?". Must not know any suite, any service,
or how a result is drawn: `benchmarks.report` renders it from the JSON alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any


class Verdict(StrEnum):
    """What a cell's money and answer say about the invariant of its row."""

    HELD = "held"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a cell must be; a field left None is not asked for."""

    outcome: str | None = None
    money_minor: int | None = None
    verdict: Verdict | None = None


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One measured case: what was answered, what the service's ledger holds, and whether that is as wanted."""

    row: str
    arm: str
    outcome: str
    money_minor: int
    verdict: Verdict
    tier: int | None = None
    crash: str = "none"
    answer_true: bool | None = None
    wanted: Wanted | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def column(self) -> str:
        """The arm with the tier it ran at, as tables head their columns."""
        return self.arm if self.tier is None else f"{self.arm}@tier{self.tier}"

    @property
    def as_wanted(self) -> bool | None:
        """Whether every field that was asked for came out so; None where nothing was asked."""
        if self.wanted is None:
            return None
        asked = (
            (self.wanted.outcome, self.outcome),
            (self.wanted.money_minor, self.money_minor),
            (self.wanted.verdict, self.verdict),
        )
        return all(want is None or want == got for want, got in asked)

    def to_json(self) -> dict[str, Any]:
        """The flat object of the result file."""
        wanted = self.wanted or Wanted()
        return {
            "row": self.row,
            "arm": self.arm,
            "tier": self.tier,
            "crash": self.crash,
            "outcome": self.outcome,
            "money_minor": self.money_minor,
            "verdict": str(self.verdict),
            "answer_true": self.answer_true,
            "wanted_outcome": wanted.outcome,
            "wanted_minor": wanted.money_minor,
            "wanted_verdict": None if wanted.verdict is None else str(wanted.verdict),
            "as_wanted": self.as_wanted,
            **self.details,
        }


@dataclass(frozen=True, kw_only=True)
class Measure:
    """One measured number, and what was wanted of it."""

    name: str
    value: float | int
    unit: str
    wanted: str | None = None
    holds: bool | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The flat object of the result file."""
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "wanted": self.wanted,
            "holds": self.holds,
            **self.details,
        }


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table to draw over some of the cells: one line a row, one column an arm."""

    title: str
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    text: str = ""

    def to_json(self) -> dict[str, Any]:
        """The part of the result file that tells the renderer which cells belong together."""
        return {
            "title": self.title,
            "text": self.text,
            "where": {name: list(some) for name, some in self.where.items()},
        }


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Source text that the report prints, with the number of its lines of code."""

    title: str
    source: str
    lines: int
    text: str = ""

    def to_json(self) -> dict[str, Any]:
        """The part of the result file that carries the source."""
        return {"title": self.title, "text": self.text, "lines": self.lines, "source": self.source}


@dataclass(frozen=True, kw_only=True)
class Report:
    """What the rendered page says around the numbers."""

    title: str
    intro: str = ""
    findings: Sequence[str] = ()
    tables: Sequence[Table] = ()
    listings: Sequence[Listing] = ()
    glossary: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """The part of the result file that the page is drawn from."""
        return {
            "title": self.title,
            "intro": self.intro,
            "findings": list(self.findings),
            "tables": [table.to_json() for table in self.tables],
            "listings": [listing.to_json() for listing in self.listings],
            "glossary": dict(self.glossary),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, kw_only=True)
class Document:
    """A whole result.

    Its `holds` is the exit code of the command: every cell something was wanted of is as wanted, and every measure
    with a wanted value holds. A document without a single wanted cell or measure does not hold: a run that checked
    nothing must not look like a pass. `is_whole` is False for a part of a suite, which must not replace a whole result.
    """

    name: str
    meta: Mapping[str, Any]
    report: Report
    cells: Sequence[Cell] = ()
    measures: Sequence[Measure] = ()
    is_whole: bool = True

    @property
    def failures(self) -> list[str]:
        """One plain line for each thing that is not as wanted."""
        return [*_cell_failures(self.cells), *_measure_failures(self.measures)]

    @property
    def checked(self) -> int:
        """How many cells and measures something was wanted of."""
        cells = sum(cell.as_wanted is not None for cell in self.cells)
        return cells + sum(measure.holds is not None for measure in self.measures)

    @property
    def holds(self) -> bool:
        """Whether everything is as wanted, and something was."""
        return self.checked > 0 and not self.failures

    @property
    def sentence(self) -> str:
        """The one line a person reads at the end."""
        failures = len(self.failures)
        if self.checked == 0:
            return f"{self.name}: nothing was checked, so nothing is shown."
        if failures:
            return f"{self.name}: {failures} of {self.checked} checked results differ from what is wanted."
        return f"{self.name}: all {self.checked} checked results are as wanted."

    def to_json(self) -> dict[str, Any]:
        """The object that is written to `results/NAME.json`."""
        return {
            "name": self.name,
            "format": FORMAT,
            "meta": dict(self.meta),
            "holds": self.holds,
            "sentence": self.sentence,
            "report": self.report.to_json(),
            "measures": [measure.to_json() for measure in self.measures],
            "cells": [cell.to_json() for cell in self.cells],
        }


FORMAT = 1
"""Version of the result file's shape."""


def dump(document: Mapping[str, Any]) -> str:
    """The text of a result file: stable, one line a cell, so that a diff shows which cells moved."""
    lines = ["{"]
    for name, value in document.items():
        if name in {"cells", "measures"}:
            lines.append(f'  "{name}": [')
            items = [json.dumps(item, ensure_ascii=False) for item in value]
            lines.extend(f"    {item}{',' if number < len(items) else ''}" for number, item in enumerate(items, 1))
            lines.append("  ],")
        else:
            text = json.dumps(value, ensure_ascii=False, indent=2).replace("\n", "\n  ")
            lines.append(f'  "{name}": {text},')
    lines[-1] = lines[-1].removesuffix(",")
    return "\n".join([*lines, "}", ""])


def load(path: Path) -> dict[str, Any]:
    """A result file as it was written."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def _cell_failures(cells: Iterable[Cell]) -> Iterable[str]:
    for cell in cells:
        if cell.as_wanted is False and cell.wanted is not None:
            wanted = cell.wanted
            yield (
                f"{cell.row}, {cell.column}, crash {cell.crash}: {cell.outcome} {cell.money_minor} {cell.verdict};"
                f" wanted {wanted.outcome} {wanted.money_minor} {wanted.verdict}"
            )


def _measure_failures(measures: Iterable[Measure]) -> Iterable[str]:
    for measure in measures:
        if measure.holds is False:
            yield f"{measure.name}: {measure.value} {measure.unit}; wanted {measure.wanted}"
