"""A payments server of fastmcp: its tools, with the check by hand in one of them, or as they are behind the gate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from shop import Shop

from interlock.integrations.fastmcp import protect_server

SEEN = 0  # the refunded total that the decision was made on, kept by the hand-written tool


def by_hand(shop: Shop, place: Path) -> FastMCP:
    """The check as it is written by hand, in the tool."""
    server = FastMCP("payments")

    @server.tool
    def create_refund(order_id: str, amount: int) -> dict[str, Any]:
        """Refund an order."""
        # region: hand check
        reference = f"refund-{order_id}"
        found = shop.find_refund(reference)["refund"]
        if found and found["amount"] != amount:
            raise ToolError("Refused: this order was refunded with another amount. Do not call again.")
        if found:
            return dict(found)
        if shop.get_order(order_id)["refunded_total"] != SEEN:
            raise ToolError("Refused: somebody refunded meanwhile. Do not call again.")
        try:
            return shop.create_refund(order_id, amount, reference)
        except TimeoutError:
            raise ToolError("It is unknown whether it happened. Call again to find out.") from None
        # endregion

    return server


def gated(shop: Shop, place: Path) -> FastMCP:
    """The same through the gate."""
    server = FastMCP("payments")
    for function in (shop.create_refund, shop.get_order, shop.find_refund):
        server.tool(function)
    # region: interlock
    refund = {
        "key": ["order_id"],
        "premises": {"tool": "get_order", "arguments": {"order_id": "order_id"}, "fields": ["refunded_total"]},
        "lookup": {"tool": "find_refund", "arguments": {"reference": "$effect_id"}, "found": "refund"},
        "settle_after": 1,
        "idempotency_argument": "reference",
    }
    protect_server(server, {"tools": {"create_refund": refund}}, journal=place / "journal").recover()
    # endregion
    return server
