"""The shop's tools: refunds, orders, and a look-up."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class Shop:
    """Refunds in a file, which outlive the process."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "refunds.jsonl"
        self.dies = False

    def create_refund(self, order_id: str, amount: int, idempotency_key: str = "") -> dict[str, Any]:
        """Refund an order."""
        refund = {"order_id": order_id, "amount": amount, "reference": idempotency_key}
        with self.file.open("a") as file:
            file.write(json.dumps(refund) + "\n")
        if self.dies:
            os._exit(9)
        return refund

    def get_order(self, order_id: str) -> dict[str, Any]:
        """Look at an order."""
        return {"refunded_total": sum(refund["amount"] for refund in self.refunds() if refund["order_id"] == order_id)}

    def find_refund(self, reference: str) -> dict[str, Any]:
        """Find a refund by its reference."""
        own = [refund for refund in self.refunds() if refund["reference"] == reference]
        return {"found": bool(own), "refund": own[0] if own else None}

    def refunds(self) -> list[dict[str, Any]]:
        """All of them."""
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []
