"""A worker process with a gated effect, and a service whose ledger is a file. Run by the tests; dies where it is told to.

    python worker.py DIRECTORY TIER COMMAND [ORDER ...]

The commands: `submit`, `recover`; with `KILL=before_send|after_send` in the environment the process kills itself with SIGKILL there, with
`HOLD=seconds` it waits in its send, and prints `sending` first. With `LIMIT=n` at most n of all refunds are let through.
What it reports is printed, a line for each outcome.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from interlock import Budget, Interlock


class Service:
    """A service whose ledger is a file: append and fsync, under a lock of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def entries(self) -> list[dict[str, Any]]:
        """What landed."""
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def refund(self, order: str, key: str, *, dedupes: bool) -> dict[str, Any]:
        """Do it, once for each key if it dedupes."""
        with self.path.open("a") as ledger:
            fcntl.lockf(ledger, fcntl.LOCK_EX)
            if dedupes:
                for entry in self.entries():
                    if entry["key"] == key:
                        return entry
            entry = {"order": order, "key": key}
            ledger.write(json.dumps(entry) + "\n")
            ledger.flush()
            os.fsync(ledger.fileno())
            return entry


def declare(gate: Interlock, service: Service, tier: int) -> Any:
    """The effect of these tests."""
    options: dict[str, Any] = {"key": lambda order: f"refund:{order}", "settle_after": 0.05, "wait": 20}
    if tier == 1:
        options |= {"dedupes": True, "window": 3600}
    if tier == 2:
        options["lookup"] = lambda idempotency_key: next(
            (e for e in service.entries() if e["key"] == idempotency_key), None
        )

    if limit := os.environ.get("LIMIT"):
        options["budget"] = lambda: Budget("refunds", int(limit), 1)

    @gate.effect(**options)
    def refund(order: str, idempotency_key: str) -> dict[str, Any]:
        if os.environ.get("KILL") == "before_send":
            os.kill(os.getpid(), signal.SIGKILL)
        print("sending", flush=True)
        time.sleep(float(os.environ.get("HOLD", "0")))
        entry = service.refund(order, idempotency_key, dedupes=tier == 1)
        if os.environ.get("KILL") == "after_send":
            os.kill(os.getpid(), signal.SIGKILL)
        return entry

    return refund


def main() -> None:
    """Do as told."""
    directory, tier, command, *orders = sys.argv[1:]
    logging.disable(logging.WARNING)
    gate = Interlock(Path(directory) / "journal")
    refund = declare(gate, Service(Path(directory) / "ledger"), int(tier))
    if command == "recover":
        for outcome in gate.recover(wait=20):
            print(outcome, flush=True)
    for order in orders:
        print(refund(order), flush=True)


if __name__ == "__main__":
    main()
