"""How long `import interlock` takes beside `import pydantic`, which it brings. Reported only."""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks.harness.document import Measure
from benchmarks.performance.sample import median, spread

MODULES = ("nothing", "pydantic", "interlock")


def measure(*, count: int) -> list[Measure]:
    """Starts of Python with one import each, in turn; the start without any is taken off."""
    taken: dict[str, list[float]] = {module: [] for module in MODULES}
    for number in range(count + 1):
        for module in MODULES:
            code = "pass" if module == "nothing" else f"import {module}"
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            if number:  # the first one finds cold files
                taken[module].append((time.perf_counter() - began) * 1e3)
    start = median(taken["nothing"])
    return [
        Measure(
            name=f"import {module}, median",
            value=round(median(taken[module]) - start, 1),
            unit="ms",
            details={"spread": spread([each - start for each in taken[module]], 1), "count": count},
        )
        for module in MODULES[1:]
    ]
