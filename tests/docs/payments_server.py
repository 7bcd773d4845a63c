"""The MCP server that the reader of the page on MCP has already; its refunds are in a file of the working directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer

server = MCPServer("payments")
file = Path("refunds.json")


def refunds() -> dict[str, Any]:
    """All refunds, by reference."""
    return dict(json.loads(file.read_text())) if file.exists() else {}


@server.tool()
def create_refund(order_id: str, amount: int, reference: str = "") -> dict[str, Any]:
    """Refund an order."""
    refund = {"order_id": order_id, "amount": amount}
    file.write_text(json.dumps({**refunds(), reference: refund}))
    return refund


@server.tool()
def get_order(order_id: str) -> dict[str, Any]:
    """Look at an order."""
    return {"refunded_total": sum(one["amount"] for one in refunds().values() if one["order_id"] == order_id)}


@server.tool()
def find_refund(reference: str) -> dict[str, Any]:
    """Find a refund by its reference."""
    return {"refund": refunds().get(reference)}


if __name__ == "__main__":
    server.run("stdio")
