"""A Temporal worker that dies right after the refund, and the next attempt. Run it: `python examples/temporal/main.py`.

Temporal's development server runs beside it. The second worker gets the activity's second attempt, and then a workflow with another amount.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
from pathlib import Path
from typing import Any

from desk import behind_the_gate, by_hand
from flow import Refund, connected, server, work
from shop import Shop
from temporalio.client import WorkflowFailureError


def run(arm: Any, place: Path, address: str, dies: bool) -> None:
    """A worker process."""
    shop = Shop(place)
    shop.dies = dies
    asyncio.run(work(address, arm.__name__, **arm(shop, place)))


async def story(arm: Any, place: Path, address: str) -> None:
    """A workflow whose first worker dies, and one that wants another amount."""
    client = await connected(address)
    first, second = (spawn.Process(target=run, args=(arm, place, address, dies)) for dies in (True, False))
    first.start()
    for name, amount in (("first", 20), ("second", 25)):
        workflow = await client.start_workflow(
            Refund.run, args=["881", amount], id=f"{arm.__name__}-{name}", task_queue=arm.__name__
        )
        if amount == 20:
            await asyncio.to_thread(first.join)
            second.start()
        try:
            print(f"  the workflow gets: {await workflow.result()}", flush=True)
        except WorkflowFailureError as error:
            print(f"  the workflow is told: {error.cause.__cause__}", flush=True)
    second.kill()
    second.join()


if __name__ == "__main__":
    spawn, once = multiprocessing.get_context("spawn"), 0
    with tempfile.TemporaryDirectory() as elsewhere, server(Path(elsewhere)) as address:
        for arm in (by_hand, behind_the_gate):
            with tempfile.TemporaryDirectory() as directory:
                print(f"{arm.__name__}:", flush=True)
                asyncio.run(story(arm, Path(directory), address))
                once += [refund["amount"] for refund in Shop(Path(directory)).refunds()] == [20]
    print(f"refunded exactly once: {once} of 2")
