"""A Restate worker that dies right after the refund, and the next attempt. Run it: `python examples/restate/main.py`, after `make restate`.

Restate's own server runs beside it, and tries the invocation again once the second worker listens. Then somebody asks for another amount.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
import threading
from pathlib import Path
from typing import Any

from desk import behind_the_gate, by_hand
from engine import ask, free_port, server, work
from shop import Shop


def run(arm: Any, place: Path, port: int, dies: bool) -> None:
    """A worker process."""
    shop = Shop(place)
    shop.dies = dies
    asyncio.run(work(arm(shop, place), port))


def story(arm: Any, place: Path, doors: dict[str, str]) -> None:
    """An invocation whose first worker dies, and one that wants another amount."""
    port = free_port()
    first, second = (spawn.Process(target=run, args=(arm, place, port, dies)) for dies in (True, False))
    first.start()
    ask(f"{doors['admin']}/deployments", {"uri": f"http://127.0.0.1:{port}"})

    def restart() -> None:
        first.join()
        second.start()

    refund = f"{doors['ingress']}/{arm.__name__}/881/refund"
    watching = threading.Thread(target=restart)
    watching.start()
    for amount in (20, 25):
        print(f"  the caller is told: {ask(refund, amount)}", flush=True)
    watching.join()
    second.kill()
    second.join()


if __name__ == "__main__":
    spawn, once = multiprocessing.get_context("spawn"), 0
    with tempfile.TemporaryDirectory() as elsewhere, server(Path(elsewhere)) as doors:
        for arm in (by_hand, behind_the_gate):
            with tempfile.TemporaryDirectory() as directory:
                print(f"{arm.__name__}:", flush=True)
                story(arm, Path(directory), doors)
                once += [refund["amount"] for refund in Shop(Path(directory)).refunds()] == [20]
    print(f"refunded exactly once: {once} of 2")
