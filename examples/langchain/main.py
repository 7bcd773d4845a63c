"""A LangChain agent that dies right after the refund and is started again. Run it: `python examples/langchain/main.py`."""

from __future__ import annotations

import multiprocessing
import tempfile
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import BaseTool, StructuredTool
from scripted import Scripted
from shop import Shop

from interlock.integrations.langchain import protect_tools

SEEN = 0  # the refunded total that the decision was made on


def by_hand(shop: Shop, place: Path) -> list[BaseTool]:
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

    return [StructuredTool.from_function(create_refund)]


def gated(shop: Shop, place: Path) -> list[BaseTool]:
    """The same through the gate."""
    functions = (shop.create_refund, shop.get_order, shop.find_refund)
    listed = [StructuredTool.from_function(function, description=function.__name__) for function in functions]
    # region: interlock
    refund = {
        "key": ["order_id"],
        "premises": {"tool": "get_order", "arguments": {"order_id": "order_id"}, "fields": ["refunded_total"]},
        "lookup": {"tool": "find_refund", "arguments": {"reference": "$effect_id"}, "found": "refund"},
        "settle_after": 1,
        "idempotency_argument": "reference",
    }
    tools = protect_tools(listed, {"tools": {"create_refund": refund}}, journal=str(place / "journal"))
    tools.recover()
    # endregion
    return tools


def run(arm: Any, place: Path, amount: int, dies: bool) -> None:
    """One process of the agent."""
    shop = Shop(place)
    shop.dies, model = dies, Scripted(arguments={"order_id": "881", "amount": amount})
    state = create_agent(model, arm(shop, place)).invoke({"messages": [("user", "refund 881")]})
    print(f"  the model is told: {state['messages'][-2].content}", flush=True)


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
