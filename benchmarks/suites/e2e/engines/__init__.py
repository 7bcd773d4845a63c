"""What carries a case over a crash. One file an engine: how its workers are started and started again; nothing else is its own."""

from __future__ import annotations

import importlib

from benchmarks.suites.e2e.engines.engine import Engine

ENGINES = {
    "dbos": "benchmarks.suites.e2e.engines.dbos",
    "none": "benchmarks.suites.e2e.engines.none",
    "restate": "benchmarks.suites.e2e.engines.restate",
    "temporal": "benchmarks.suites.e2e.engines.temporal",
}
"""By the name that `--engine` takes; each module has an `ENGINE` class."""


def load(name: str) -> Engine:
    """The engine of this name, not started yet."""
    made: Engine = importlib.import_module(ENGINES[name]).ENGINE()
    return made
