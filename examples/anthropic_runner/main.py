"""Anthropic's own tool runner, in a process that dies right after the refund. Run it: `python examples/anthropic_runner/main.py`.

The runner keeps nothing across a crash: the request is made again. Both ways are killed at the same place and started again.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from pathlib import Path
from typing import Any

from anthropic.lib.tools import ToolError, beta_tool
from played import as_text, ask
from shop import Shop

from interlock.integrations.anthropic import protect_beta_tools

SEEN = 0  # the refunded total that the decision was made on, kept by the hand-written tool


def by_hand(shop: Shop, place: Path) -> list[Any]:
    """The check as it is written by hand, inside the tool."""

    @beta_tool
    def create_refund(order_id: str, amount: int) -> str:
        """Refund an order."""
        # region: hand check
        reference = f"refund-{order_id}"
        found = shop.find_refund(reference)["refund"]
        if found and found["amount"] != amount:
            raise ToolError("Refused: this order was refunded with another amount. Do not call again.")
        if found:
            return str(found)
        if shop.get_order(order_id)["refunded_total"] != SEEN:
            raise ToolError("Refused: somebody refunded meanwhile. Do not call again.")
        try:
            return str(shop.create_refund(order_id, amount, reference))
        except TimeoutError:
            raise ToolError("It is unknown whether it happened. Call again to find out.") from None
        # endregion

    return [create_refund]


def gated(shop: Shop, place: Path) -> list[Any]:
    """The same through the gate."""
    listed = [beta_tool(as_text(function)) for function in (shop.create_refund, shop.get_order, shop.find_refund)]
    # region: interlock
    refund = {
        "key": ["order_id"],
        "premises": {"tool": "get_order", "arguments": {"order_id": "order_id"}, "fields": ["refunded_total"]},
        "lookup": {"tool": "find_refund", "arguments": {"reference": "$effect_id"}, "found": "refund"},
        "settle_after": 1,
        "idempotency_argument": "reference",
    }
    tools = protect_beta_tools(listed, {"tools": {"create_refund": refund}}, journal=place / "journal")
    tools.recover()
    # endregion
    return list(tools)


def run(arm: Any, place: Path, amount: int, dies: bool) -> None:
    """One process of the agent."""
    shop = Shop(place)
    shop.dies = dies
    ask(arm(shop, place), amount)


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
