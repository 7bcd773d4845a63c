"""How a result came about: the command, the versions, the machine, the moment.

Owns the `meta` object of a result. Must not record where anything lies on this machine.
"""

from __future__ import annotations

import os
import platform
import sqlite3
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = {"interlock": "interlock-gate", "stripe": "stripe"}


def describe(
    *, command: str, seed: int, service: str, started: datetime, ended: datetime, **more: Any
) -> dict[str, Any]:
    """What a reader needs to run it again and to know what it was run on.

    Args:
        command: The command line as a reader would type it.
        seed: What random choices were drawn from.
        service: `local` or `live`: where the money was.
        started: When the run began, aware.
        ended: When it ended, aware.
        more: Further facts of this suite, kept as given.
    """
    return {
        "command": command,
        "seed": seed,
        "service": service,
        "started": started.astimezone(UTC).isoformat(timespec="seconds"),
        "duration_s": round((ended - started).total_seconds(), 1),
        "versions": versions(),
        "processor": processor(),
        "cores": os.cpu_count(),
        **more,
    }


def versions() -> dict[str, str]:
    """The versions of what was measured and what it stands on."""
    found = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    for name, distribution in PACKAGES.items():
        try:
            found[name] = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            found[name] = "source tree"
    return found


def processor() -> str:
    """The processor's name as the system gives it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
