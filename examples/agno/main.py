"""An Agno agent that dies right after an approved refund, and its paused run continued. Run it: `python examples/agno/main.py`."""

from __future__ import annotations

import multiprocessing
import tempfile
from pathlib import Path
from typing import Any

from desk import ask
from shop import Shop

from interlock.tools import protect

SEEN = 0  # the refunded total that the decision was made on


def by_hand(shop: Shop, place: Path) -> Any:
    """The check as it is written by hand, inside the tool."""

    def create_refund(order_id: str, amount: int) -> str:
        """Refund an order."""
        # region: hand check
        reference = f"refund-{order_id}"
        found = shop.find_refund(reference)["refund"]
        if found and found["amount"] != amount:
            return "Refused: this order was refunded with another amount. Do not call again."
        if found:
            return str(found)
        if shop.get_order(order_id)["refunded_total"] != SEEN:
            return "Refused: somebody refunded meanwhile. Do not call again."
        try:
            return str(shop.create_refund(order_id, amount, reference))
        except TimeoutError:
            return "It is unknown whether it happened. Call again to find out."
        # endregion

    return create_refund


def gated(shop: Shop, place: Path) -> Any:
    """The same through the gate."""
    functions = (shop.create_refund, shop.get_order, shop.find_refund)

    def create_refund(order_id: str, amount: int) -> str:
        """Refund an order."""
        # region: interlock
        refund = {
            "key": ["order_id"],
            "premises": {"tool": "get_order", "arguments": {"order_id": "order_id"}, "fields": ["refunded_total"]},
            "lookup": {"tool": "find_refund", "arguments": {"reference": "$effect_id"}, "found": "refund"},
            "settle_after": 1,
            "idempotency_argument": "reference",
        }
        tools = protect(functions, {"tools": {"create_refund": refund}}, journal=place / "journal")
        tools.recover()
        return tools.call("create_refund", {"order_id": order_id, "amount": amount}).message
        # endregion

    return create_refund


def run(arm: Any, place: Path, session: str, amount: int, dies: bool) -> None:
    """One process of the agent."""
    shop = Shop(place)
    shop.dies = dies
    print(f"  the model is told: {ask(arm(shop, place), place, session, amount)}", flush=True)


if __name__ == "__main__":
    spawn, once = multiprocessing.get_context("spawn"), 0
    for arm in (by_hand, gated):
        with tempfile.TemporaryDirectory() as directory:
            print(f"{arm.__name__}:", flush=True)
            for session, amount, dies in (("first", 20, True), ("first", 20, False), ("second", 25, False)):
                process = spawn.Process(target=run, args=(arm, Path(directory), session, amount, dies))
                process.start()
                process.join()
            once += [refund["amount"] for refund in Shop(Path(directory)).refunds()] == [20]
    print(f"refunded exactly once: {once} of 2")
