"""A resumable ADK agent whose process dies right after the refund. Run it: `python examples/adk/main.py`.

Both agents are killed at the same place and resumed, which runs the tool again; then the user asks for another amount.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
from pathlib import Path
from typing import Any

from desk import LlmAgent, Played, ask
from shop import Shop

from interlock.integrations.adk import Guard

SEEN = 0  # the refunded total that the decision was made on, kept by the hand-written tool


def by_hand(shop: Shop, model: Played, place: Path) -> LlmAgent:
    """The check as it is written by hand."""

    # region: hand check
    def create_refund(order_id: str, amount: int) -> dict[str, Any]:
        reference = f"refund-{order_id}"
        found = shop.find_refund(reference)["refund"]
        if found and found["amount"] != amount:
            return {"error": "Refused: this order was refunded with another amount. Do not call again."}
        if found:
            return dict(found)
        if shop.get_order(order_id)["refunded_total"] != SEEN:
            return {"error": "Refused: somebody refunded meanwhile. Do not call again."}
        try:
            return shop.create_refund(order_id, amount, reference)
        except TimeoutError:
            return {"error": "It is unknown whether it happened. Call again to find out."}

    return LlmAgent(name="desk", model=model, tools=[create_refund])
    # endregion


def gated(shop: Shop, model: Played, place: Path) -> LlmAgent:
    """The same through the gate."""
    # region: interlock
    refund = {
        "key": ["order_id"],
        "premises": {"tool": "get_order", "arguments": {"order_id": "order_id"}, "fields": ["refunded_total"]},
        "lookup": {"tool": "find_refund", "arguments": {"reference": "$effect_id"}, "found": "refund"},
        "settle_after": 1,
        "idempotency_argument": "reference",
    }
    tools = [shop.create_refund, shop.get_order, shop.find_refund]
    guard = Guard({"tools": {"create_refund": refund}}, tools=tools, journal=place / "journal")
    guard.recover()
    return LlmAgent(name="desk", model=model, tools=tools, before_tool_callback=guard.before_tool_callback)
    # endregion


def run(arm: Any, place: Path, amount: int, dies: bool, resumes: bool) -> None:
    """One process of the agent."""
    shop = Shop(place)
    shop.dies = dies
    asyncio.run(ask(arm(shop, Played(model="played", amount=amount), place), place, resumes))


if __name__ == "__main__":
    spawn, once = multiprocessing.get_context("spawn"), 0
    for arm in (by_hand, gated):
        with tempfile.TemporaryDirectory() as directory:
            print(f"{arm.__name__}:", flush=True)
            for amount, dies, resumes in ((20, True, False), (20, False, True), (25, False, False)):
                process = spawn.Process(target=run, args=(arm, Path(directory), amount, dies, resumes))
                process.start()
                process.join()
            once += [refund["amount"] for refund in Shop(Path(directory)).refunds()] == [20]
    print(f"refunded exactly once: {once} of 2")
