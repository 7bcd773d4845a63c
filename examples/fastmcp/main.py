"""A fastmcp server that dies right after a refund, and a client that calls again. Run it: `python examples/fastmcp/main.py`.

Client and server share a process here, and die together; the next process is a new server and a new client.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
from pathlib import Path
from typing import Any

from fastmcp import Client
from server import by_hand, gated
from shop import Shop


async def call(server: Any, amount: int) -> str:
    """What a client is told."""
    async with Client(server) as client:
        result = await client.call_tool("create_refund", {"order_id": "881", "amount": amount}, raise_on_error=False)
        return str(result.content[0].text)


def run(arm: Any, place: Path, amount: int, dies: bool) -> None:
    """One process."""
    shop = Shop(place)
    shop.dies = dies
    print(f"  the client is told: {asyncio.run(call(arm(shop, place), amount))}", flush=True)


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
