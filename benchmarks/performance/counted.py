"""The process that is watched: it makes effects, and marks on a file of its own where the stretches begin and end.

    python -m benchmarks.performance.counted DIRECTORY

A mark is an fsync of a file named `mark-...`, so whoever counts fsyncs by file sees the marks in the same list.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from benchmarks.performance.subject import new_order, opened

WARM_UP, STRETCH, LONG = 5, 200, 4000
"""Effects before the first mark, in the stretch without a checkpoint, and in the one with checkpoints."""


def main(directory: Path) -> None:
    """Make the effects of both stretches."""
    with opened(directory / "journal") as subject:

        def effects(count: int) -> None:
            for _ in range(count):
                subject.null(new_order(), amount=2000)

        effects(WARM_UP)
        _mark(directory, "stretch")
        effects(STRETCH)
        _mark(directory, "long")
        effects(LONG)
        _mark(directory, "end")


def _mark(directory: Path, name: str) -> None:
    descriptor = os.open(directory / f"mark-{name}", os.O_CREAT | os.O_WRONLY, 0o600)
    os.fsync(descriptor)
    os.close(descriptor)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
