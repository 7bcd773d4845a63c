"""A server of the official SDK whose refund asks its client first: `python payments_asking.py DIRECTORY`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

from interlock.testing.driver import Place

server = MCPServer("payments")
place = Place(Path(sys.argv[1]), is_async=True)


class Answer(BaseModel):
    sure: bool


@server.tool()
async def create_refund(order_id: str, amount: int, ctx: Context, reference: str = "") -> dict[str, Any]:
    """Refund an order, once the client says that it is sure."""
    answer = await ctx.elicit(f"Refund {amount} of {order_id}?", Answer)
    if answer.action != "accept" or not answer.data.sure:
        raise ValueError("not confirmed")
    return await place.service.acreate_refund(order_id, amount, reference)


for name in ("get_order", "find_refund"):
    server.tool()(place.functions[name])

if __name__ == "__main__":
    server.run("stdio")
