"""A payments server of the official SDK, with the check by hand or without: `python server.py by_hand|plain DIRECTORY`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("payments")
arm, place = sys.argv[1], Path(sys.argv[2])
SEEN = 0  # the refunded total that the decision was made on, kept by the hand-written tool


def refunds() -> list[dict[str, Any]]:
    """All refunds; they outlive the process."""
    file = place / "refunds.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def post(order_id: str, amount: int, reference: str) -> dict[str, Any]:
    """Refund an order; the first refund is also the end of the process."""
    refund = {"order_id": order_id, "amount": amount, "reference": reference}
    with (place / "refunds.jsonl").open("a") as file:
        file.write(json.dumps(refund) + "\n")
    if len(refunds()) == 1:
        os._exit(9)
    return refund


@server.tool()
def get_order(order_id: str) -> dict[str, Any]:
    """Look at an order."""
    return {"refunded_total": sum(refund["amount"] for refund in refunds() if refund["order_id"] == order_id)}


@server.tool()
def find_refund(reference: str) -> dict[str, Any]:
    """Find a refund by its reference."""
    own = [refund for refund in refunds() if refund["reference"] == reference]
    return {"refund": own[0] if own else None}


def create_refund(order_id: str, amount: int, reference: str = "") -> dict[str, Any]:
    """Refund an order."""
    return post(order_id, amount, reference)


def create_refund_checked(order_id: str, amount: int) -> dict[str, Any]:
    """Refund an order."""
    # region: hand check
    reference = f"refund-{order_id}"
    found = find_refund(reference)["refund"]
    if found and found["amount"] != amount:
        raise ToolError("Refused: this order was refunded with another amount. Do not call again.")
    if found:
        return dict(found)
    if get_order(order_id)["refunded_total"] != SEEN:
        raise ToolError("Refused: somebody refunded meanwhile. Do not call again.")
    try:
        return post(order_id, amount, reference)
    except TimeoutError:
        raise ToolError("It is unknown whether it happened. Call again to find out.") from None
    # endregion


server.tool(name="create_refund")(create_refund_checked if arm == "by_hand" else create_refund)
server.run("stdio")
