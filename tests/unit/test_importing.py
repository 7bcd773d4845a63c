"""Loading the package: the garbage collector rests meanwhile, and is afterwards as it was."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADS = """
import gc
import pydantic, rfc8785, sqlite3, asyncio, stripe  # what they cost is theirs

collected = []
gc.callbacks.append(lambda phase, info: phase == "start" and collected.append(info["generation"]))
{before}
gc.collect()
collected.clear()
import interlock
from interlock.targets.stripe import stripe_refund
print(len(collected), gc.isenabled())
"""


@pytest.mark.parametrize(("before", "is_on"), [("gc.enable()", True), ("gc.disable()", False)])
def test_no_collection_falls_into_the_import(before: str, is_on: bool) -> None:
    """Between the two imports a few may; each of them alone would need a dozen."""
    ran = subprocess.run(
        [sys.executable, "-c", LOADS.format(before=before)], capture_output=True, text=True, timeout=60, check=True
    )
    collections, after = ran.stdout.split()
    assert int(collections) <= 2
    assert after == str(is_on)
