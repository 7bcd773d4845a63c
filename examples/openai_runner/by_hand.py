"""What somebody writes who does without the gate: a check in the function, and what settles the ledger after a crash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from played import registered
from shop import Shop

SEEN = 0  # the refunded total that the decision was made on, kept by the hand-written function


def by_hand(shop: Shop, place: Path) -> tuple[list[Any], Any]:
    """The check as it is written by hand, and what settles the ledger."""

    # region: hand check
    def create_refund(order_id: str, amount: int) -> Any:
        reference = f"refund-{order_id}"
        found = shop.find_refund(reference)["refund"]
        if found and found["amount"] != amount:
            return "Refused: this order was refunded with another amount. Do not call again."
        if found:
            return found
        if shop.get_order(order_id)["refunded_total"] != SEEN:
            return "Refused: somebody refunded meanwhile. Do not call again."
        try:
            return shop.create_refund(order_id, amount, reference)
        except TimeoutError:
            return "It is unknown whether it happened. Call again to find out."

    def reconcile(saved: dict[str, Any]) -> dict[str, Any]:
        if saved["phase"] != "pending":
            return saved
        calls = [item for item in saved["pending_items"] if item["type"] == "function_call"]
        calls = [item for item in calls if item["call_id"] not in saved["returned_call_ids"]]
        outputs = list(saved["returned_outputs"])
        for item in calls:
            output = json.dumps(create_refund(**json.loads(item["arguments"])))
            outputs.append({"type": "function_call_output", "call_id": item["call_id"], "output": output})
        ids = saved["returned_call_ids"] + [item["call_id"] for item in calls]
        history = saved["history"] + saved["pending_items"] + outputs
        settled = {"phase": "boundary", "revision": saved["revision"] + 1, "history": history, "pending_items": []}
        return {**saved, **settled, "attempted_call_ids": ids, "returned_call_ids": ids, "returned_outputs": []}

    return [registered(create_refund, order_id="string", amount="integer")], reconcile
    # endregion
