"""How many fsyncs an effect costs, counted where the kernel is asked: by strace, or by a shim between the process and libc.

Both give one line with the file's name for each `fsync` or `fdatasync` of every thread of the watched process. Where neither
works, the number is unknown, with the reason; it is never assumed.

    warm-up | mark | 90 effects: the log only | mark | thousands of effects: checkpoints, too | mark

A checkpoint shows by an fsync of the database file itself, so that a stretch is without one can be seen, not hoped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.document import Measure

WANTED = 2
DATABASE, LOG = "journal.db", "journal.db-wal"
STRETCH, LONG = 200, 4000
"""Effects in the stretch without a checkpoint (2,000 pages of log, three an effect, make one), and in the one with checkpoints."""

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void note(const char *call, int fd) {
    char link[64], file[4096], line[4200];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, file, sizeof file - 1);
    file[length < 0 ? 0 : length] = 0;
    int size = snprintf(line, sizeof line, "%s(%d<%s>) = 0\n", call, fd, file);
    int out = open(getenv("FSYNC_LOG"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (out < 0 || write(out, line, size) != size) abort();
    close(out);
}
int fsync(int fd) { note("fsync", fd); return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd); }
int fdatasync(int fd) { note("fdatasync", fd); return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd); }
"""


class CannotCount(Exception):
    """Nothing on this machine counts fsyncs; the message says why."""


@dataclass(frozen=True)
class Counted:
    """Names of the files that were made durable, in order."""

    way: str
    effects: tuple[int, int]
    stretch: tuple[str, ...]
    long: tuple[str, ...]

    @property
    def per_effect(self) -> float:
        """Fsyncs for each effect where no checkpoint runs."""
        return len(self.stretch) / self.effects[0]

    @property
    def per_effect_with_checkpoints(self) -> float:
        """Fsyncs for each effect, checkpoints included."""
        return len(self.long) / self.effects[1]

    @property
    def checkpoints(self) -> int:
        """How many checkpoints the long stretch had: fsyncs of the database file itself."""
        return self.long.count(DATABASE)


def count(directory: Path, *, stretch: int = STRETCH, long: int = LONG) -> Counted:
    """Run the counted process and read what the kernel was asked for.

    Raises:
        CannotCount: neither way works here.
    """
    reasons = []
    for name, way in WAYS.items():
        here = directory / name
        here.mkdir(parents=True)
        try:
            return read(name, way(here, _watched(here, stretch, long)), (stretch, long))
        except CannotCount as reason:
            reasons.append(str(reason))
    raise CannotCount("; ".join(reasons))


def measure(directory: Path) -> tuple[list[Measure], str]:
    """The fsyncs' part of the result, and a sentence about it."""
    name = "fsyncs an effect, no checkpoint"
    try:
        found = count(directory)
    except CannotCount as reason:
        # Nothing holds and nothing is violated: the verdict is unknown, and the page says so.
        unknown = Measure(name=name, value=0, unit="UNKNOWN: not counted", wanted=f"exactly {WANTED}")
        return [unknown], f"Fsyncs an effect: unknown, since {reason}."
    if DATABASE in found.stretch:
        raise RuntimeError("a checkpoint ran in the stretch that must have none: shorten STRETCH")
    extra = found.per_effect_with_checkpoints - found.per_effect
    return [
        Measure(
            name=name,
            value=found.per_effect,
            unit=f"(of {STRETCH} effects, by {found.way})",
            wanted=f"exactly {WANTED}",
            holds=found.per_effect == WANTED,
        ),
        Measure(
            name="fsyncs that checkpoints add, amortised",
            value=round(extra, 4),
            unit="an effect",
            details={
                "spread": f"{found.checkpoints} checkpoints in {LONG:,} effects",
                "effects": LONG,
                "checkpoints": found.checkpoints,
            },
        ),
    ], (
        f"Fsyncs an effect: {found.per_effect:g}, counted by {found.way}; checkpoints add {extra:.4f} an effect, "
        f"one checkpoint about every {LONG // max(1, found.checkpoints):,} effects."
    )


def read(way: str, lines: Sequence[str], effects: tuple[int, int]) -> Counted:
    """What the lines of `way` say.

    Raises:
        CannotCount: they do not hold the whole run.
    """
    parts: dict[str, list[str]] = {"start": [], "stretch": [], "long": [], "end": []}
    part = "start"
    for file in _files(lines):
        if file.startswith("mark-"):
            part = file.removeprefix("mark-")
        else:
            parts[part].append(file)
    if part != "end" or LOG not in parts["start"]:
        raise CannotCount(f"{way} saw only a part of the run")
    return Counted(way, effects, tuple(parts["stretch"]), tuple(parts["long"]))


def _files(lines: Sequence[str]) -> Iterator[str]:
    """The file of each call, from `fdatasync(5</place/journal.db-wal>) = 0`, once each."""
    for line in lines:
        _, opened, rest = line.partition("sync(")
        if opened and "resumed>" not in rest:
            yield rest.partition("<")[2].partition(">")[0].rpartition("/")[2]


def by_strace(directory: Path, watched: Sequence[str]) -> Sequence[str]:
    """Run the watched process under strace, and give its lines."""
    if shutil.which("strace") is None:
        raise CannotCount("strace is not installed")
    log = directory / "log"
    traced = ["strace", "-f", "-y", "-e", "trace=fsync,fdatasync,sync_file_range,syncfs,sync,msync", "-o", str(log)]
    return _run([*traced, *watched], log, {}, "strace")


def by_shim(directory: Path, watched: Sequence[str]) -> Sequence[str]:
    """Run the watched process with the shim loaded first, and give its lines."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        raise CannotCount("no C compiler" if compiler is None else f"no shim for {sys.platform}")
    source, library, log = directory / "shim.c", directory / "shim.so", directory / "log"
    source.write_text(SHIM, encoding="utf-8")
    built = subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], capture_output=True, text=True
    )
    if built.returncode:
        raise CannotCount("the C compiler did not build the shim")
    return _run(watched, log, {"LD_PRELOAD": str(library), "FSYNC_LOG": str(log)}, "the shim")


WAYS: dict[str, Callable[[Path, Sequence[str]], Sequence[str]]] = {"strace": by_strace, "shim": by_shim}
"""What can count, in the order it is tried."""


def _watched(directory: Path, stretch: int, long: int) -> list[str]:
    return [sys.executable, "-m", "benchmarks.performance.counted", str(directory), str(stretch), str(long)]


def _run(command: Sequence[str], log: Path, more: dict[str, str], way: str) -> Sequence[str]:
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **more}, timeout=120)
    if done.returncode or not log.exists():
        raise CannotCount(f"{way} does not work here ({(done.stderr.strip().splitlines() or ['no word'])[-1]:.120})")
    return log.read_text(encoding="utf-8").splitlines()
