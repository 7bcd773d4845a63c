"""The incident tracker: whether an incident is open. One small file, as another team's system."""

from __future__ import annotations

import os
from pathlib import Path


class Incident:
    """One incident."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "incident"

    def is_open(self) -> bool:
        """Whether it is open."""
        return self._file.read_text(encoding="utf-8") == "open"

    def open(self) -> None:
        """Somebody opens it."""
        self._write("open")

    def close(self) -> None:
        """Somebody closes it; done when this returns."""
        self._write("closed")

    def _write(self, state: str) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(state, encoding="utf-8")
        os.replace(fresh, self._file)
