"""An MCP server that dies right after a refund, and a client that calls again. Run it: `python examples/mcp_proxy/main.py`.

By hand the server itself is changed. Behind the proxy it stays as it is, and so does the client, but for the command that it starts.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

SERVER = str(Path(__file__).with_name("server.py"))
ROOT = str(Path(__file__).parents[2])


def by_hand(place: Path) -> list[str]:
    """The server's command, with the check in its tool."""
    return [SERVER, "by_hand", str(place)]


def gated(place: Path) -> list[str]:
    """The same server as it is, behind the proxy."""
    # region: interlock
    refund = {
        "key": ["order_id"],
        "premises": {"tool": "get_order", "arguments": {"order_id": "order_id"}, "fields": ["refunded_total"]},
        "lookup": {"tool": "find_refund", "arguments": {"reference": "$effect_id"}, "found": "refund"},
        "settle_after": 1,
        "idempotency_argument": "reference",
    }
    config = place / "interlock.mcp.json"
    config.write_text(json.dumps({"journal": str(place / "journal"), "tools": {"create_refund": refund}}))
    return ["-m", "interlock.mcp_proxy", "--config", str(config), "--", sys.executable, SERVER, "plain", str(place)]
    # endregion


async def call(command: list[str], amount: int) -> str:
    """What a client is told in one connection."""
    server = StdioServerParameters(command=sys.executable, args=command, env={"PYTHONPATH": ROOT})
    with Path(os.devnull).open("w") as nowhere:  # noqa: ASYNC230 - opens nothing that could block
        try:
            async with Client(stdio_client(server, errlog=nowhere)) as client:
                await client.list_tools()
                result = await client.call_tool("create_refund", {"order_id": "881", "amount": amount})
                return result.content[0].text.replace("\n", "")[:80]
        except Exception as error:  # noqa: BLE001 - the connection ended, in one of several forms
            return f"no answer: {type(error).__name__}"


if __name__ == "__main__":
    once = 0
    for arm in (by_hand, gated):
        with tempfile.TemporaryDirectory() as directory:
            place = Path(directory)
            for amount in (20, 20, 25):
                print(f"{arm.__name__}: {asyncio.run(call(arm(place), amount))}")
            refunds = [json.loads(line) for line in (place / "refunds.jsonl").read_text().splitlines()]
            once += [refund["amount"] for refund in refunds] == [20]
    print(f"refunded exactly once: {once} of 2")
