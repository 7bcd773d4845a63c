"""Cells as they are finished, one line each in a file that only grows: what makes an interrupted run continue and a report repeatable.

    {"run": "run-1a2b", "service": "local", "ledger": ".scratch/ledgers/run-1a2b", ...}      the first line: what the cells belong to
    {"framework": "plain", "row": "lost_reply", "arm": "default", "repetition": 0, ...}      a finished cell

Owns that file. A last line that a dying harness left half-written is dropped.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.harness.suite import CannotRun

Place = tuple[str, str, str, int]
"""framework, row, arm, repetition: which cell it is."""


def place_of(cell: Mapping[str, Any]) -> Place:
    """Which cell this is."""
    return str(cell["framework"]), str(cell["row"]), str(cell["arm"]), int(cell["repetition"])


@contextmanager
def alone(file: Path) -> Iterator[None]:
    """Let no other run work on this file of cells meanwhile; one that dies lets go of it.

    Raises:
        CannotRun: another one does, or the file cannot be one of cells.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = file.with_suffix(".lock").open("a")
    except OSError as error:
        raise CannotRun(
            f"the finished cells cannot be kept in {file} ({error.strerror}); name a file with --cells"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CannotRun(
                f"another run is at work on {file}; wait for it, or name another file with --cells"
            ) from error
        yield


class Kept:
    """The file of one set of cells.

    Args:
        file: where; its folder is made.
        fresh: move away what is there, and begin anew.
        service: `local` or `live`; a file of the other one is refused.

    Raises:
        CannotRun: the file is not one, or of the other service.

    **Durable when** `add` returns: the cell.
    **If the process dies** meanwhile, or the disk is full: the half-written line is dropped, and that cell is played again.
    """

    def __init__(self, file: Path, *, fresh: bool = False, service: str = "local") -> None:
        self.file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        if fresh and file.exists():
            os.replace(file, file.with_suffix(".before.jsonl"))
        self.head: dict[str, Any] = {}
        self._cells: dict[Place, dict[str, Any]] = {}
        if file.exists():
            try:
                self._read(service)
            except OSError as error:
                raise CannotRun(f"{file} cannot be read ({error.strerror}); name another file with --cells") from error

    @property
    def cells(self) -> list[dict[str, Any]]:
        """The finished cells; of one that was played again, the last."""
        return list(self._cells.values())

    def has(self, place: Place) -> bool:
        """Whether this cell is finished."""
        return place in self._cells

    def begin(self, head: Mapping[str, Any]) -> None:
        """Say what the cells belong to; nothing if that is said already."""
        if not self.head:
            self.head = dict(head)
            self._append(self.head)

    def add(self, cell: Mapping[str, Any]) -> None:
        """A finished cell."""
        self._append(cell)
        self._cells[place_of(cell)] = dict(cell)

    def _append(self, line: Mapping[str, Any]) -> None:
        try:
            with self.file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(line, ensure_ascii=False) + "\n")
                out.flush()
                os.fsync(out.fileno())
        except OSError as error:
            raise CannotRun(
                f"{self.file} cannot be written ({error.strerror}). What is finished is kept; the same command goes on from there."
            ) from error

    def _read(self, service: str) -> None:
        whole, _, torn = self.file.read_bytes().rpartition(b"\n")
        if torn:
            with self.file.open("r+b") as out:
                out.truncate(len(whole) + 1 if whole else 0)
        try:
            lines = [json.loads(line) for line in whole.decode("utf-8").splitlines()]
            if lines:
                self.head = lines[0]
                self._cells = {place_of(cell): cell for cell in lines[1:]}
        except (ValueError, KeyError, TypeError) as error:
            raise CannotRun(
                f"{self.file} does not hold cells of this benchmark ({error}); begin anew with --fresh"
            ) from error
        if self.head and self.head.get("service") != service:
            raise CannotRun(
                f"{self.file} holds cells of the {self.head.get('service')} service; name another file with --cells, or "
                "begin anew with --fresh"
            )
