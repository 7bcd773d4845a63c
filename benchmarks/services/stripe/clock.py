"""The service's own clock: real time plus an offset that the control API moves, in either direction."""

from __future__ import annotations

import time
from collections.abc import Callable


class ServiceClock:
    """Wall time as the service sees it. Decides when a key's window has passed, and stamps what is created."""

    def __init__(self, offset_s: float = 0.0) -> None:
        self._offset_s = offset_s
        self.moved: Callable[[], None] = lambda: None
        """Called when the offset changes; the one who waits for a moment sets it."""

    @property
    def offset_s(self) -> float:
        """How far it is ahead of real time."""
        return self._offset_s

    @offset_s.setter
    def offset_s(self, offset_s: float) -> None:
        self._offset_s = offset_s
        self.moved()

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time() + self.offset_s

    def stamp(self) -> int:
        """The same as the API shows it, in whole seconds."""
        return int(self.now())
