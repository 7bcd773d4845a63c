"""An approved refund whose process dies, and the approval that is used again. Run it: `python examples/openai_agents/main.py`.

The run waits for a person and is saved. The process dies right after the approved refund; the next one resumes what was saved, twice.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from pathlib import Path
from typing import Any

from agents import Agent, function_tool
from shop import Shop, work

from interlock.integrations.openai_agents import protect_agent

SEEN = 0  # the refunded total that the decision was made on, kept by the hand-written check


def by_hand(shop: Shop, place: Path) -> Agent[Any]:
    """The check as it is written by hand, inside the tool."""

    @function_tool(needs_approval=True)
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

    return Agent(name="support", tools=[create_refund])


def gated(shop: Shop, place: Path) -> Agent[Any]:
    """The same through the gate."""
    agent = Agent(name="support", tools=[function_tool(shop.create_refund, needs_approval=True)])
    # region: interlock
    refund = {
        "key": ["order_id"],
        "premises": {"tool": "get_order", "arguments": {"order_id": "order_id"}, "fields": ["refunded_total"]},
        "lookup": {"tool": "find_refund", "arguments": {"reference": "$effect_id"}, "found": "refund"},
        "settle_after": 1,
        "idempotency_argument": "reference",
    }
    asks = [function_tool(shop.get_order), function_tool(shop.find_refund)]
    protect_agent(agent, {"tools": {"create_refund": refund}}, asks=asks, journal=place / "journal").recover()
    # endregion
    return agent


def run(arm: Any, place: Path, dies: bool) -> None:
    """One process of the agent."""
    shop = Shop(place)
    shop.dies = dies
    work(arm(shop, place), place / "approval.json")


if __name__ == "__main__":
    spawn, once = multiprocessing.get_context("spawn"), 0
    for arm in (by_hand, gated):
        with tempfile.TemporaryDirectory() as directory:
            print(f"{arm.__name__}:", flush=True)
            for dies in (True, False):
                process = spawn.Process(target=run, args=(arm, Path(directory), dies))
                process.start()
                process.join()
            once += [refund["amount"] for refund in Shop(Path(directory)).refunds()] == [20]
    print(f"refunded exactly once: {once} of 2")
