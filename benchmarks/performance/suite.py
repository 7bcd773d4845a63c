"""The suite: its parts, in order, in one run."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.harness import meta
from benchmarks.harness.document import Document, Measure, Report
from benchmarks.harness.progress import Progress
from benchmarks.harness.suite import Options, Suite
from benchmarks.performance import floor, fsyncs, imports, scale, throughput

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Amount:
    """How much of each part is run.

    Attributes:
        pairs: of the floor and of the two journals.
        rounds: of the throughput's ways; three times as many of each recovery.
        slice_s: of each way in a round.
        effects: finished effects in the large journal.
        imports: starts of Python for each module.
    """

    pairs: int
    rounds: int
    slice_s: float
    effects: int
    imports: int


WHOLE = Amount(pairs=6000, rounds=7, slice_s=1.0, effects=1_000_000, imports=15)
QUICK = Amount(pairs=1500, rounds=3, slice_s=0.25, effects=100_000, imports=4)

Part = Callable[[Path, Amount], tuple[list[Measure], str]]


def _floor(directory: Path, amount: Amount) -> tuple[list[Measure], str]:
    return floor.measure(directory, count=amount.pairs)


def _fsyncs(directory: Path, amount: Amount) -> tuple[list[Measure], str]:
    return fsyncs.measure(directory)


def _throughput(directory: Path, amount: Amount) -> tuple[list[Measure], str]:
    return throughput.measure(directory, count=amount.rounds, slice_s=amount.slice_s)


def _scale(directory: Path, amount: Amount) -> tuple[list[Measure], str]:
    return scale.measure(directory, effects=amount.effects, count=amount.pairs, rounds=3 * amount.rounds), ""


def _imports(directory: Path, amount: Amount) -> tuple[list[Measure], str]:
    return imports.measure(count=amount.imports), ""


PARTS: dict[str, Part] = {
    "floor": _floor,
    "fsyncs": _fsyncs,
    "throughput": _throughput,
    "scale": _scale,
    "imports": _imports,
}


def run(options: Options, progress: Progress) -> Document:
    """Run the parts asked for, each in a directory of its own on one file system."""
    started = datetime.now(UTC)
    amount = QUICK if options.quick else WHOLE
    chosen: Sequence[str] = options.more.part or tuple(PARTS)
    progress.begin("performance", len(chosen))
    measures: list[Measure] = []
    findings: list[str] = []
    # Not in the system's temporary directory, which may be in memory, where an fsync costs nothing.
    scratch = ROOT / ".scratch"
    scratch.mkdir(exist_ok=True)
    for name in chosen:
        progress.step(name)
        with tempfile.TemporaryDirectory(prefix=f"performance-{name}-", dir=scratch) as directory:
            found, sentence = PARTS[name](Path(directory), amount)
        measures.extend(found)
        if sentence:
            findings.append(sentence)
    return Document(
        name="performance",
        meta=meta.describe(
            command=options.command,
            seed=options.seed,
            service="none: the effects do nothing",
            started=started,
            ended=datetime.now(UTC),
            file_system=file_system(scratch),
            pairs=amount.pairs,
            rounds=amount.rounds,
            slice_s=amount.slice_s,
        ),
        report=_report(findings),
        measures=measures,
        is_whole=len(chosen) == len(PARTS),
    )


def file_system(directory: Path) -> str:
    """The kind of file system that was measured on, where the system tells."""
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    place = f"{directory.resolve()}/"
    mounts = [(point.rstrip("/") + "/", kind) for _, point, kind, *_ in (line.split(" ") for line in lines)]
    return max(((point, kind) for point, kind in mounts if place.startswith(point)), key=_length, default=("", "?"))[1]


def _length(mount: tuple[str, str]) -> int:
    return len(mount[0])


def _report(findings: Sequence[str]) -> Report:
    return Report(
        title="Performance: one gated call beside the floor",
        intro=(
            "The effects do nothing, so that what a call costs is the gate's own: a key, a payload of two arguments, a service that "
            "dedupes for a day. Everything that is compared runs in turn within one run, so that what else the machine does falls "
            "on both sides. Only ratios mean something elsewhere; a time is this machine's on this day."
        ),
        findings=findings,
        notes=[
            "Spread: times in microseconds from the tenth to the ninetieth percentile, and p99; rates and ratios from the least to "
            "the greatest round.",
            "Floor: two BEGIN IMMEDIATE / INSERT of one small row / COMMIT on a bare SQLite file in the same directory, WAL, "
            "synchronous=FULL, through the same sqlite3 module.",
            "Both sides are warmed up until their logs have wrapped: while a log still grows, each fsync also writes the file's new "
            "size, which costs about as much again on either side.",
            "Fsyncs are counted where the kernel is asked, in a process of its own, by file.",
            "The gain of many at a time is held against one worker of the same kind (thread against thread, task against task).",
            "The 4,000 effects a second are wanted where one commit takes 0.1 ms. No number is converted: they hold if a slower disk "
            "gives them, they do not if a memory file system withholds them, and between the two they are unknown.",
            "The large journal is filled through its own tables with the bytes of real effects; the small one, by the same code, is "
            "verified in the run.",
        ],
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this suite alone."""
    parser.add_argument(
        "--part", action="append", choices=tuple(PARTS), help="only this part; may be given several times"
    )


SUITE = Suite(name="performance", run=run, add_arguments=add_arguments)
