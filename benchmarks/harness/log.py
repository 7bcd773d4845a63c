"""The gate's log in a benchmark: it says what the table says, and beside a progress display it would only be noise.

A worker process mutes it in its main, a suite that works in its own process for as long as that takes. Nothing mutes it on import.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

NAME = "interlock"


def mute() -> None:
    """Silence it for the rest of this process."""
    logging.getLogger(NAME).setLevel(logging.CRITICAL + 1)


@contextmanager
def muted() -> Iterator[None]:
    """Silence it for a while."""
    log = logging.getLogger(NAME)
    before = log.level
    mute()
    try:
        yield
    finally:
        log.setLevel(before)
