"""One saved approval, resumed twice: by hand and through the gate. Run it: `python examples/pydantic_ai/main.py`."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool
from shop import Shop, model

from interlock.integrations.pydantic_ai import InterlockCapability


def by_hand(shop: Shop, place: Path) -> dict[str, Any]:
    """The check as it is written by hand: it holds in turn, and not at the same time."""

    # region: hand check
    async def create_refund(order_id: str, amount: int) -> str:
        """Refund an order."""
        reference = f"refund-{order_id}"
        found = shop.find_refund(reference)["refund"]
        if found and found["amount"] != amount:
            return "Refused: this order was refunded with another amount. Do not call again."
        if found:
            return str(found)
        if shop.get_order(order_id)["refunded_total"] != 0:
            return "Refused: somebody refunded meanwhile. Do not call again."
        try:
            return str(await shop.create_refund(order_id, amount, reference))
        except TimeoutError:
            return "It is unknown whether it happened. Call again to find out."

    return {"tools": [Tool(create_refund, requires_approval=True)]}
    # endregion


def gated(shop: Shop, place: Path) -> dict[str, Any]:
    """The same through the gate."""
    # region: interlock
    refund = {
        "key": ["order_id"],
        "premises": {"tool": "get_order", "arguments": {"order_id": "order_id"}, "fields": ["refunded_total"]},
        "lookup": {"tool": "find_refund", "arguments": {"reference": "$effect_id"}, "found": "refund"},
        "settle_after": 1,
        "idempotency_argument": "reference",
    }
    tools = [Tool(shop.create_refund, requires_approval=True), shop.get_order, shop.find_refund]
    guard = InterlockCapability({"tools": {"create_refund": refund}}, tools=tools, journal=place / "journal")
    guard.recover()
    return {"tools": tools, "capabilities": [guard]}
    # endregion


async def run(agent: Agent[None, Any]) -> None:
    """Pause for the approval, and resume what was saved twice at the same time."""
    saved = (await agent.run("Refund order 881.")).all_messages()
    yes = DeferredToolResults(approvals={"call_1": True})
    await asyncio.gather(*(agent.run(message_history=saved, deferred_tool_results=yes) for _ in range(2)))


if __name__ == "__main__":
    for arm in (by_hand, gated):
        with tempfile.TemporaryDirectory() as directory:
            shop = Shop()
            agent = Agent(model(), output_type=[str, DeferredToolRequests], **arm(shop, Path(directory)))
            asyncio.run(run(agent))
        print(f"{arm.__name__}: refunds of one approval: {len(shop.refunds)}")
