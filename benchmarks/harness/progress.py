"""What a person sees while a suite runs: a moving display on a terminal, a few plain lines anywhere else.

Owns the choice between the two. `rich` is imported on a terminal only, so that a run without it works the same.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Protocol, Self, TextIO


class Progress(Protocol):
    """A display a suite reports to."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def begin(self, title: str, total: int) -> None:
        """A part of the run begins, with so many steps."""

    def step(self, label: str) -> None:
        """The next step is about to run."""


def choose(stream: TextIO | None = None) -> Progress:
    """A moving display if the stream is a terminal and `rich` is there, else plain lines."""
    out = sys.stderr if stream is None else stream
    if not out.isatty():
        return PlainProgress(out)
    try:
        return _RichProgress(out)
    except ImportError:
        return PlainProgress(out)


class PlainProgress:
    """One line at the start of a part and one at every tenth of it: enough for a log, never a flood."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._title, self._total, self._done = "", 0, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def begin(self, title: str, total: int) -> None:
        """A part of the run begins, with so many steps."""
        self._title, self._total, self._done = title, total, 0
        print(f"{title}: {total} to run", file=self._out, flush=True)

    def step(self, label: str) -> None:
        """The next step is about to run."""
        self._done += 1
        tenth = max(1, self._total // 10)
        if self._done % tenth == 0:
            print(f"{self._title}: {self._done} of {self._total} ({label})", file=self._out, flush=True)


class _RichProgress:
    """A bar with what is running now and how long it will take."""

    def __init__(self, out: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._bar = Progress(
            TextColumn("{task.fields[title]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=Console(file=out),
            transient=True,
        )
        self._task: Any = None

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begin(self, title: str, total: int) -> None:
        """A part of the run begins, with so many steps."""
        self._task = self._bar.add_task("", total=total, title=title)

    def step(self, label: str) -> None:
        """The next step is about to run."""
        self._bar.update(self._task, advance=1, description=label)
