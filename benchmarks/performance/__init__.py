"""`python -m benchmarks performance`: what the gate costs beside its floor, and whether that stays so as the journal grows.

floor.py        one gated call beside two bare commits, in turn
fsyncs.py       how often the kernel is asked to make something durable; `counted.py` is the process it watches
throughput.py   effects a second with more than one at a time
scale.py        a small and a large journal, in turn; `fill.py` makes the large one
imports.py      how long the import takes
"""

from __future__ import annotations

from benchmarks.performance.suite import SUITE

__all__ = ["SUITE"]
