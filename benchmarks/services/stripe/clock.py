"""The service's own clock: real time plus an offset that the control API moves, in either direction."""

from __future__ import annotations

import time


class ServiceClock:
    """Wall time as the service sees it. Decides when a key's window has passed, and stamps what is created."""

    def __init__(self, offset_s: float = 0.0) -> None:
        self.offset_s = offset_s

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time() + self.offset_s

    def stamp(self) -> int:
        """The same as the API shows it, in whole seconds."""
        return int(self.now())
