"""OpenAI's own tool runner, in a process that dies right after the refund. Run it: `python examples/openai_runner/main.py`.

Its ledger says that the call was begun, and the runner resumes only once somebody has said what became of it.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from pathlib import Path
from typing import Any

from by_hand import by_hand
from played import ask, registered
from shop import Shop

from interlock.integrations.openai import protect_functions


def gated(shop: Shop, place: Path) -> tuple[list[Any], Any]:
    """The same through the gate."""
    listed = [registered(shop.create_refund, order_id="string", amount="integer", reference="string")]
    listed += [registered(shop.get_order, order_id="string"), registered(shop.find_refund, reference="string")]
    # region: interlock
    refund = {
        "key": ["order_id"],
        "premises": {"tool": "get_order", "arguments": {"order_id": "order_id"}, "fields": ["refunded_total"]},
        "lookup": {"tool": "find_refund", "arguments": {"reference": "$effect_id"}, "found": "refund"},
        "settle_after": 1,
        "idempotency_argument": "reference",
    }
    functions = protect_functions(listed, {"tools": {"create_refund": refund}}, journal=place / "journal")
    functions.recover()
    return list(functions), functions.reconcile
    # endregion


def run(arm: Any, place: Path, name: str, amount: int, dies: bool) -> None:
    """One process of the agent."""
    shop = Shop(place)
    shop.dies = dies
    ask(*arm(shop, place), place / f"{name}.json", amount)


if __name__ == "__main__":
    spawn, once = multiprocessing.get_context("spawn"), 0
    for arm in (by_hand, gated):
        with tempfile.TemporaryDirectory() as directory:
            print(f"{arm.__name__}:", flush=True)
            for name, amount, dies in (("first", 20, True), ("first", 20, False), ("second", 25, False)):
                process = spawn.Process(target=run, args=(arm, Path(directory), name, amount, dies))
                process.start()
                process.join()
            once += [refund["amount"] for refund in Shop(Path(directory)).refunds()] == [20]
    print(f"refunded exactly once: {once} of 2")
