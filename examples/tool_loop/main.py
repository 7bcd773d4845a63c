"""A tool loop whose process dies right after the refund. Run it: `python examples/tool_loop/main.py`.

Both ways of writing the tool call are killed at the same place and started again; each must refund once and tell the model so.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from pathlib import Path
from typing import Any

from shop import Shop, model

from interlock.tools import protect

SEEN = 0  # the refunded total that the decision was made on, kept by the hand-written loop with its conversation


def by_hand(shop: Shop, call: dict[str, Any], place: Path) -> dict[str, Any]:
    """The check as it is written by hand."""
    given = call["input"]
    # region: hand check
    reference = f"refund-{given['order_id']}"
    found = shop.find_refund(reference)["refund"]
    if found and found["amount"] != given["amount"]:
        text, is_error = "Refused: this order was refunded with another amount. Do not call again.", True
    elif found:
        text, is_error = str(found), False
    elif shop.get_order(given["order_id"])["refunded_total"] != SEEN:
        text, is_error = "Refused: somebody refunded meanwhile. Do not call again.", True
    else:
        try:
            text, is_error = str(shop.create_refund(**given, reference=reference)), False
        except TimeoutError:
            text, is_error = "It is unknown whether it happened. Call again to find out.", True
    return {"type": "tool_result", "tool_use_id": call["id"], "content": text, "is_error": is_error}
    # endregion


def gated(shop: Shop, call: dict[str, Any], place: Path) -> dict[str, Any]:
    """The same through the gate."""
    # region: interlock
    refund = {
        "key": ["order_id"],
        "premises": {"tool": "get_order", "arguments": {"order_id": "order_id"}, "fields": ["refunded_total"]},
        "lookup": {"tool": "find_refund", "arguments": {"reference": "$effect_id"}, "found": "refund"},
        "settle_after": 1,
        "idempotency_argument": "reference",
    }
    config = {"tools": {"create_refund": refund}}
    tools = protect([shop.create_refund, shop.get_order, shop.find_refund], config, journal=place / "journal")
    tools.recover()
    return tools.reply(call)
    # endregion


def run(arm: Any, place: Path, amount: int, dies: bool) -> None:
    """One process of the agent."""
    shop = Shop(place)
    shop.dies = dies
    result = arm(shop, model(amount), place)
    print(f"  the model is told: {result['content']}", flush=True)


if __name__ == "__main__":
    spawn, once = multiprocessing.get_context("spawn"), 0
    for arm in (by_hand, gated):
        with tempfile.TemporaryDirectory() as directory:
            print(f"{arm.__name__}:", flush=True)
            for amount, dies in ((20, True), (20, False), (25, False)):
                process = spawn.Process(target=run, args=(arm, Path(directory), amount, dies))
                process.start()
                process.join()
            once += [refund["amount"] for refund in Shop(Path(directory)).refunds()] == [20]
    print(f"refunded exactly once: {once} of 2")
