"""How long the rest will take, by what cells of the same framework took so far."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator, Sequence

GUESS_S = 5.0
"""What a cell takes before one was played."""


class Estimate:
    """For a plan of cells, named by their frameworks."""

    def __init__(self, plan: Sequence[str]) -> None:
        self._plan = plan
        self._took: dict[str, list[float]] = {}

    @contextlib.contextmanager
    def timed(self, framework: str) -> Iterator[None]:
        """A cell of this framework is being played."""
        begun = time.monotonic()
        yield
        self._took.setdefault(framework, []).append(time.monotonic() - begun)

    def left_s(self, number: int) -> float:
        """Seconds from the beginning of cell `number` to the end."""
        every = [took for some in self._took.values() for took in some]
        guess = sum(every) / len(every) if every else GUESS_S
        means = {name: sum(some) / len(some) for name, some in self._took.items()}
        return sum(count * means.get(name, guess) for name, count in Counter(self._plan[number:]).items())

    def left(self, number: int) -> str:
        """The same in words."""
        seconds = round(self.left_s(number))
        return f"about {seconds // 60} min {seconds % 60} s left" if seconds >= 60 else f"about {seconds} s left"
