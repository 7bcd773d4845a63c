"""Effects a second with more than one at a time: threads, tasks, and with a service that takes a millisecond.

Every way runs a short slice in each round, the ways in turn, so a slow moment of the machine falls on all; ratios are taken within
a round, and the median of the rounds counts. The same is done on a memory file system, if there is one, where an fsync costs next
to nothing: that is what the processor alone allows.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.harness.document import Measure
from benchmarks.performance.floor import bare, commit_s
from benchmarks.performance.sample import in_us, median, spread, spread_us
from benchmarks.performance.subject import Subject, new_order, opened
from interlock.function import EffectFunction

AT_ONCE = 32
LEAST_GAIN = 3.0
LEAST_PER_S = 4000
COMMIT_S = 0.0001
"""The commit at which `LEAST_PER_S` is wanted, in seconds."""
MEMORY = Path("/dev/shm")
WARM_UP = 800


@dataclass(frozen=True)
class Way:
    """One way of making effects: how many at a time, and by what."""

    name: str
    run: Callable[[Subject, float], float]
    """Makes effects for so many seconds and returns effects a second."""
    beside: str | None = None
    """The way with one worker that it is compared with."""
    wanted: bool = False


def by_threads(effect: Callable[[Subject], EffectFunction[Any]], at_once: int) -> Callable[[Subject, float], float]:
    """Threads that call one after the other."""

    def run(subject: Subject, slice_s: float) -> float:
        made = [0] * at_once
        until = time.perf_counter() + slice_s

        def work(number: int) -> None:
            call = effect(subject)
            while time.perf_counter() < until:
                call(new_order(), amount=2000)
                made[number] += 1

        began = time.perf_counter()
        threads = [threading.Thread(target=work, args=(number,)) for number in range(at_once)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(made) / (time.perf_counter() - began)

    return run


def by_tasks(effect: Callable[[Subject], EffectFunction[Any]], at_once: int) -> Callable[[Subject, float], float]:
    """Tasks of one event loop that await one call after the other."""

    async def main(subject: Subject, slice_s: float) -> float:
        made = 0
        until = time.perf_counter() + slice_s

        async def work() -> None:
            nonlocal made
            call = effect(subject)
            while time.perf_counter() < until:
                await call(new_order(), amount=2000)
                made += 1

        began = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(at_once)))
        return made / (time.perf_counter() - began)

    return lambda subject, slice_s: asyncio.run(main(subject, slice_s))


def _null(subject: Subject) -> EffectFunction[Any]:
    return subject.null


def _null_async(subject: Subject) -> EffectFunction[Any]:
    return subject.null_async


def _slow(subject: Subject) -> EffectFunction[Any]:
    return subject.slow


def _slow_async(subject: Subject) -> EffectFunction[Any]:
    return subject.slow_async


WAYS = (
    Way("1 thread", by_threads(_null, 1)),
    Way("2 threads", by_threads(_null, 2), "1 thread"),
    Way("8 threads", by_threads(_null, 8), "1 thread"),
    Way("32 threads", by_threads(_null, AT_ONCE), "1 thread", wanted=True),
    Way("1 task", by_tasks(_null_async, 1)),
    Way("32 tasks", by_tasks(_null_async, AT_ONCE), "1 task", wanted=True),
    Way("1 thread, 1 ms send", by_threads(_slow, 1)),
    Way("32 threads, 1 ms send", by_threads(_slow, AT_ONCE), "1 thread, 1 ms send", wanted=True),
    Way("1 task, 1 ms send", by_tasks(_slow_async, 1)),
    Way("32 tasks, 1 ms send", by_tasks(_slow_async, AT_ONCE), "1 task, 1 ms send", wanted=True),
)
IN_MEMORY = tuple(way for way in WAYS if way.name in ("1 thread", "8 threads", "32 threads", "32 tasks"))


@dataclass
class Rounds:
    """Effects a second by way, one number a round; and single bare commits taken between them, in seconds."""

    per_s: dict[str, list[float]] = field(default_factory=dict)
    commits: list[float] = field(default_factory=list)

    def gain(self, way: Way) -> list[float]:
        """Against one worker, round by round."""
        assert way.beside is not None
        return [many / one for many, one in zip(self.per_s[way.name], self.per_s[way.beside], strict=True)]


def rounds(directory: Path, ways: tuple[Way, ...], *, count: int, slice_s: float) -> Rounds:
    """So many rounds of the ways, in turn, on one journal."""
    taken = Rounds({way.name: [] for way in ways})
    with bare(directory) as floor, opened(directory / "journal") as subject:
        for _ in range(WARM_UP):
            floor.call()
            subject.null(new_order(), amount=2000)
        for number in range(count):
            for way in ways if number % 2 == 0 else reversed(ways):
                taken.per_s[way.name].append(way.run(subject, slice_s))
            taken.commits.extend(commit_s(floor, 200))
    return taken


def measure(directory: Path, *, count: int, slice_s: float) -> tuple[list[Measure], str]:
    """The throughput's part of the result, and a sentence about the 4,000 a second."""
    on_disk = rounds(directory, WAYS, count=count, slice_s=slice_s)
    measures = list(_rates(on_disk, WAYS, ""))
    for way in WAYS:
        if way.beside is not None:
            gain = on_disk.gain(way)
            measures.append(
                Measure(
                    name=f"{way.name} to {way.beside}",
                    value=round(median(gain), 2),
                    unit="ratio",
                    wanted=f"at least {LEAST_GAIN:g}" if way.wanted else None,
                    holds=median(gain) >= LEAST_GAIN if way.wanted else None,
                    details={"spread": spread(gain)},
                )
            )
    with _in_memory() as memory:
        ceiling = None if memory is None else rounds(memory, IN_MEMORY, count=count, slice_s=slice_s)
    if ceiling is not None:
        measures.extend(_rates(ceiling, IN_MEMORY, "memory file system, "))
    holds, sentence = against_4000(on_disk, ceiling)
    measures.append(
        Measure(
            name="8 threads, where one commit takes 0.1 ms",
            value=round(median(on_disk.per_s["8 threads"])),
            unit=f"effects/s where it takes {median(on_disk.commits) * 1e3:.2f} ms",
            wanted=f"at least {LEAST_PER_S:,}",
            holds=holds,
        )
    )
    return measures, sentence


def against_4000(on_disk: Rounds, ceiling: Rounds | None) -> tuple[bool | None, str]:
    """Whether 4,000 a second from 8 threads hold where one commit takes 0.1 ms, without a formula.

    A disk that is slower than that and gives them proves it. A memory file system, which is faster than that, and does not give
    them disproves it. Between the two nobody has measured it, and it is unknown.
    """
    per_s, commit = median(on_disk.per_s["8 threads"]), median(on_disk.commits)
    text = f"8 threads: {per_s:,.0f} effects/s where one bare commit takes {commit * 1e3:.3f} ms"
    if ceiling is not None:
        most, least_commit = median(ceiling.per_s["8 threads"]), median(ceiling.commits)
        text += f"; {most:,.0f} on a memory file system, where it takes {least_commit * 1e3:.3f} ms"
    if per_s >= LEAST_PER_S and commit >= COMMIT_S:
        return True, f"{text}: {LEAST_PER_S:,} are reached on a disk no faster than the one that was named."
    if per_s < LEAST_PER_S and commit <= COMMIT_S:
        return False, f"{text}: {LEAST_PER_S:,} are not reached."
    if ceiling is not None and most < LEAST_PER_S and least_commit <= COMMIT_S:
        return False, f"{text}: the processor, not the disk, is what keeps it from {LEAST_PER_S:,}."
    return None, f"{text}: whether {LEAST_PER_S:,} are reached at 0.1 ms lies between the two, and is unknown here."


def _rates(taken: Rounds, ways: tuple[Way, ...], prefix: str) -> Iterator[Measure]:
    yield Measure(
        name=f"{prefix}one bare commit, median",
        value=in_us(median(taken.commits)),
        unit="us",
        details={"spread": spread_us(taken.commits), "count": len(taken.commits)},
    )
    for way in ways:
        yield Measure(
            name=f"{prefix}{way.name}",
            value=round(median(taken.per_s[way.name])),
            unit="effects/s",
            details={"spread": spread(taken.per_s[way.name], 0), "rounds": len(taken.per_s[way.name])},
        )


@contextmanager
def _in_memory() -> Iterator[Path | None]:
    """A directory on the memory file system, or None where there is none."""
    try:
        made = Path(tempfile.mkdtemp(prefix="performance-", dir=MEMORY))
    except OSError:
        yield None
        return
    try:
        yield made
    finally:
        shutil.rmtree(made)
