"""`python -m benchmarks lines`: what a user writes with the gate, beside what the same user writes by hand, counted from the examples.

A folder under `examples/` takes part if it marks two regions, each once:

    # region: hand check
    ...
    # endregion

    # region: interlock
    ...
    # endregion

Counted are lines of code: not blank, not a comment, not a docstring, as the formatter leaves them. Imports and the function's own head
stand outside, in both. Both regions are run by the example, so neither can leave out what it would need. Where the gate takes no fewer
lines than the hand check, the folder's README must say why, under a heading of its own.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import meta
from benchmarks.harness.document import Document, Listing, Measure, Report
from benchmarks.harness.listing import code_lines
from benchmarks.harness.progress import Progress
from benchmarks.harness.suite import CannotRun, Options, Suite

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
HAND, GATE = "hand check", "interlock"
BEGIN, END = "# region: ", "# endregion"
WHY_NOT = "## Why not fewer lines"
"""The heading of the section in which an example's README says why the gate takes no fewer lines there."""


class Region(NamedTuple):
    """A marked part of a file.

    Attributes:
        file: below `examples/`.
        name: of the region.
        source: its text, outdented.
        lines: how many of them are code.
    """

    file: str
    name: str
    source: str
    lines: int


class WrongMark(CannotRun):
    """A region is opened twice, never closed, or closed without being open."""


def regions(file: str, text: str) -> Iterator[Region]:
    """The marked regions of a file.

    Raises:
        WrongMark: the marks do not pair.
    """
    name, body = "", list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        mark = line.strip()
        if mark.startswith(BEGIN):
            if name:
                raise WrongMark(f"{file}:{number}: a region begins inside the region {name!r}")
            name, body = mark.removeprefix(BEGIN).strip(), []
        elif mark == END:
            if not name:
                raise WrongMark(f"{file}:{number}: no region is open here")
            source = textwrap.dedent("\n".join(body)).strip("\n")
            yield Region(file, name, source, code_lines(source))
            name = ""
        elif name:
            body.append(line)
    if name:
        raise WrongMark(f"{file}: the region {name!r} is never closed")


def pairs(examples: Path) -> dict[str, tuple[Region, Region]]:
    """For each example with both regions: the hand check's and the gate's.

    Raises:
        WrongMark: the marks do not pair, or a region is there twice or alone.
    """
    found: dict[str, tuple[Region, Region]] = {}
    for folder in sorted(path for path in examples.iterdir() if path.is_dir()):
        marked: dict[str, Region] = {}
        for path in sorted(folder.glob("*.py")):
            for region in regions(path.relative_to(examples).as_posix(), path.read_text("utf-8")):
                if region.name not in (HAND, GATE):
                    raise WrongMark(f"{region.file}: a region is named {HAND!r} or {GATE!r}, not {region.name!r}")
                if region.name in marked:
                    raise WrongMark(f"{region.file}: the region {region.name!r} is there twice")
                marked[region.name] = region
        if len(marked) == 1:
            raise WrongMark(
                f"{folder.name}: the region {next(iter(marked))!r} is alone; there is nothing to compare it with"
            )
        if marked:
            found[folder.name] = (marked[HAND], marked[GATE])
    return found


def why_not_fewer(folder: Path) -> bool:
    """Whether the README of an example has a section that says why the gate takes no fewer lines there."""
    page = folder / "README.md"
    return page.exists() and WHY_NOT in page.read_text("utf-8").splitlines()


def run(options: Options, progress: Progress) -> Document:
    """Count them."""
    started = datetime.now(UTC)
    found = pairs(EXAMPLES)
    if not found:
        raise CannotRun("no example marks the two regions")
    progress.begin("lines", len(found))
    measures: list[Measure] = []
    listings: list[Listing] = []
    for name, (hand, gate) in found.items():
        progress.step(name)
        measures.append(Measure(name=f"{name}: hand check", value=hand.lines, unit="lines"))
        told = why_not_fewer(EXAMPLES / name)
        wanted = f"fewer than the hand check's {hand.lines}" + (", or its README says why not" if told else "")
        holds = gate.lines < hand.lines or told
        measures.append(Measure(name=f"{name}: interlock", value=gate.lines, unit="lines", wanted=wanted, holds=holds))
        listings += [
            Listing(title=f"{name}: {one.name} ({one.file})", source=one.source, lines=one.lines)
            for one in (hand, gate)
        ]
    return Document(
        name="lines",
        meta=meta.describe(
            command=options.command, seed=options.seed, started=started, ended=datetime.now(UTC), service="none"
        ),
        report=Report(
            title="Lines a user writes",
            intro="The same refund, with the same accidents survived, by hand and behind the gate. Counted by a script from the "
            "marked regions of the examples: lines of code, without blanks, comments and docstrings. Both are run by the tests.",
            listings=listings,
        ),
        measures=measures,
    )


SUITE = Suite(name="lines", run=run)
