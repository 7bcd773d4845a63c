"""How the modules of this package are loaded. Owns `uncollected`, and knows none of them.

What an import makes stays: classes, functions, tables. Python counts it all the same, and every so often goes through everything the
process has loaded to see what of it is garbage; with an agent's libraries loaded that takes 20 ms and more. A process that comes back
after a crash would spend them in its first import of the gate, before it can look at what was left open.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["uncollected"]


@contextmanager
def uncollected() -> Iterator[None]:
    """Import with Python's garbage collector at rest; afterwards it is as it was."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
