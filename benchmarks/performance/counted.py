"""The process that is watched: it makes effects, and marks on a file of its own where the stretches begin and end.

    python -m benchmarks.performance.counted DIRECTORY STRETCH LONG

A mark is an fsync of a file named `mark-...`, so whoever counts fsyncs by file sees the marks in the same list.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from benchmarks.performance.subject import Subject, new_order, opened

WARM_UP = 5
"""Effects before the first mark."""


def main(directory: Path, stretch: int, long: int) -> None:
    """Make the effects of both stretches: the one without a checkpoint, and the one with checkpoints."""
    with opened(directory / "journal") as subject:
        _effects(subject, WARM_UP)
        _mark(directory, "stretch")
        _effects(subject, stretch)
        _mark(directory, "long")
        _effects(subject, long)
        _mark(directory, "end")


def _effects(subject: Subject, count: int) -> None:
    for _ in range(count):
        subject.null(new_order(), amount=2000)


def _mark(directory: Path, name: str) -> None:
    descriptor = os.open(directory / f"mark-{name}", os.O_CREAT | os.O_WRONLY, 0o600)
    os.fsync(descriptor)
    os.close(descriptor)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
