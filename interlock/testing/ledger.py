"""A tiny refund service in a file: the ground truth of `IntegrationContract`.

Every refund is one appended and fsynced line, so what happened survives the SIGKILL of whoever asked for it. A fault may be laid in its
way: the caller dies before or after the line, an answer is lost, or is slow. Owns that file and those faults; it knows nothing of a gate.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

FaultAt = Literal["kill_before", "kill_after", "raise_before", "raise_after", "slow", "error_before"]
"""Where: the caller is killed before or after the refund stands; the answer is lost without or with a refund; it is slow; it is refused."""


class RefundService:
    """Refunds, orders, and a look-up, in a directory.

    Args:
        directory: made if it is not there.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    # --- what an agent's tools do ----------------------------------------------------------------------------------------

    def create_refund(self, order_id: str, amount: int, reference: str = "", note: str = "") -> dict[str, Any]:
        """Refund an order; a second request with the same reference is a second refund."""
        self._note("arrivals", {"order_id": order_id, "reference": reference, "pid": os.getpid()})
        fault = self._take_fault(order_id)
        if fault.get("at") == "slow":
            time.sleep(fault["delay_s"])
        return self._post(order_id, amount, reference, note, fault)

    async def acreate_refund(self, order_id: str, amount: int, reference: str = "", note: str = "") -> dict[str, Any]:
        """As `create_refund`, without blocking the event loop while it is slow."""
        self._note("arrivals", {"order_id": order_id, "reference": reference, "pid": os.getpid()})
        fault = self._take_fault(order_id)
        if fault.get("at") == "slow":
            await asyncio.sleep(fault["delay_s"])
        return self._post(order_id, amount, reference, note, fault)

    def get_order(self, order_id: str) -> dict[str, Any]:
        """An order: what was refunded of it, and whether it may be refunded."""
        refunds = self.refunds(order_id)
        forbidden = any(row["order_id"] == order_id for row in self._rows("forbidden"))
        return {
            "order_id": order_id,
            "refunded_total": sum(refund["amount"] for refund in refunds),
            "refundable": not forbidden,
        }

    def find_refund(self, reference: str) -> dict[str, Any]:
        """The refund that carries a reference."""
        found = [refund for refund in self.refunds() if refund["reference"] == reference]
        return {"found": bool(found), "refund": found[0] if found else None}

    # --- what a test does -------------------------------------------------------------------------------------------------

    def refunds(self, order_id: str | None = None) -> list[dict[str, Any]]:
        """The refunds that stand, of one order or of all."""
        return [refund for refund in self._rows("ledger") if order_id in (None, refund["order_id"])]

    def arrivals(self, order_id: str) -> int:
        """How many requests for a refund of this order have come in, answered or not."""
        return sum(row["order_id"] == order_id for row in self._rows("arrivals"))

    def forbid(self, order_id: str) -> None:
        """From now on the order may not be refunded."""
        self._note("forbidden", {"order_id": order_id})

    def refund_by_hand(self, order_id: str, amount: int) -> None:
        """Somebody refunds it without the agent."""
        self._note(
            "ledger",
            {"id": f"re_hand_{time.time_ns()}", "order_id": order_id, "amount": amount, "reference": "", "note": ""},
        )

    def lay(self, at: FaultAt, *, order_id: str, delay_s: float = 0.0) -> None:
        """Lay a fault in the way of the next refund of an order. It works once, also across processes."""
        (self.directory / f"fault-{order_id}.json").write_text(json.dumps({"at": at, "delay_s": delay_s}))

    def wait_for_arrival(self, order_id: str, *, count: int = 1, within_s: float = 10.0) -> None:
        """Wait until as many requests have come in.

        Raises:
            TimeoutError: they have not.
        """
        self._wait(lambda: self.arrivals(order_id) >= count, within_s, f"{count} requests for order {order_id}")

    def wait_for_refund(self, order_id: str, *, within_s: float = 10.0) -> None:
        """Wait until a refund of the order stands.

        Raises:
            TimeoutError: there is none.
        """
        self._wait(lambda: bool(self.refunds(order_id)), within_s, f"a refund of order {order_id}")

    # --- inside -----------------------------------------------------------------------------------------------------------

    @staticmethod
    def _wait(done: Callable[[], bool], within_s: float, what: str) -> None:
        until = time.monotonic() + within_s
        while not done():
            if time.monotonic() > until:
                raise TimeoutError(f"{what}: not within {within_s:g} s")
            time.sleep(0.01)

    def _post(self, order_id: str, amount: int, reference: str, note: str, fault: Mapping[str, Any]) -> dict[str, Any]:
        at = fault.get("at")
        if at == "kill_before":
            os.kill(os.getpid(), signal.SIGKILL)
        if at == "raise_before":
            raise TimeoutError("no answer from the refund service")
        if at == "error_before":
            raise ValueError("the refund service refused")
        refund = {"order_id": order_id, "amount": amount, "reference": reference, "note": note}
        stored = self._note("ledger", refund, number="re")
        if at == "kill_after":
            os.kill(os.getpid(), signal.SIGKILL)
        if at == "raise_after":
            raise TimeoutError("no answer from the refund service")
        return stored

    def _take_fault(self, order_id: str) -> dict[str, Any]:
        laid = self.directory / f"fault-{order_id}.json"
        taken = self.directory / f"fault-{order_id}.{os.getpid()}.{time.monotonic_ns()}"
        try:
            laid.rename(taken)  # atomic: one caller gets it
        except FileNotFoundError:
            return {}
        fault: dict[str, Any] = json.loads(taken.read_text())
        return fault

    def _note(self, file: str, row: Mapping[str, Any], *, number: str = "") -> dict[str, Any]:
        """Append a line and fsync it."""
        place = os.open(self.directory / f"{file}.jsonl", os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o600)
        try:
            fcntl.flock(place, fcntl.LOCK_EX)
            written = {"id": f"{number}_{len(self._rows(file)) + 1}", **row} if number else dict(row)
            os.write(place, (json.dumps(written) + "\n").encode())
            os.fsync(place)
        finally:
            os.close(place)
        return written

    def _rows(self, file: str) -> list[dict[str, Any]]:
        try:
            text = (self.directory / f"{file}.jsonl").read_text("utf-8")
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text.splitlines()]
