"""The hand check's own record: which refunds were begun, and which were finished. On disk, as a careful engineer keeps it.

**Durable when** `begin` or `finish` returns. **If the process dies** between the two, the refund is found open.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Intent:
    """One refund that was begun."""

    amount: int
    is_finished: bool


class Intents:
    """One small file for each intent, made so that only one worker can begin it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "intents"
        self._directory.mkdir(exist_ok=True)

    def get(self, key: str) -> Intent | None:
        """What is known of this refund, or None if it was never begun."""
        try:
            amount = json.loads(self._file(key).read_text(encoding="utf-8"))["amount"]
        except FileNotFoundError:
            return None
        return Intent(amount, self._file(key, finished=True).exists())

    def begin(self, key: str, amount: int) -> bool:
        """Record the refund before it is sent; False if it had been begun before."""
        return self._create(self._file(key), {"amount": amount})

    def finish(self, key: str) -> None:
        """Record that the refund is done."""
        self._create(self._file(key, finished=True), {})

    def _file(self, key: str, *, finished: bool = False) -> Path:
        return self._directory / f"{key}.{'done' if finished else 'begun'}"

    def _create(self, file: Path, content: dict[str, int]) -> bool:
        # Whole before it has its name, and the name can be given once: a torn file is never read.
        draft = file.with_name(f"{file.name}.{os.getpid()}")
        with draft.open("w", encoding="utf-8") as out:
            out.write(json.dumps(content))
            out.flush()
            os.fsync(out.fileno())
        try:
            os.link(draft, file)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        folder = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return True
