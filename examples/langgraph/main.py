"""A graph that dies right after the refund and is resumed from its SQLite checkpoint. Run it: `python examples/langgraph/main.py`.

LangGraph runs the node that was cut off again. Both nodes are killed at the same place; a new thread then asks for another amount.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from pathlib import Path
from typing import Any

from flow import State, go
from shop import Shop

from interlock import Interlock
from interlock.integrations.langgraph import effect_node


def by_hand(shop: Shop, place: Path) -> Any:
    """The check as it is written by hand, in the node."""

    # region: hand check
    def refund(state: State) -> State:
        reference = f"refund-{state['order_id']}"
        found = shop.find_refund(reference)["refund"]
        if found and found["amount"] != state["amount"]:
            return {"outcome": "Refused: this order was refunded with another amount."}
        if found:
            return {"outcome": found}
        if shop.get_order(state["order_id"])["refunded_total"] != state["seen"]:
            return {"outcome": "Refused: somebody refunded meanwhile."}
        try:
            return {"outcome": shop.create_refund(state["order_id"], state["amount"], reference)}
        except TimeoutError:
            return {"outcome": "It is unknown whether it happened."}

    return refund
    # endregion


def gated(shop: Shop, place: Path) -> Any:
    """The same through the gate."""
    # region: interlock
    gate = Interlock(place / "journal")

    @gate.effect(
        key=lambda order_id: f"refund:{order_id}",
        premises=shop.get_order,
        lookup=lambda idempotency_key: shop.find_refund(idempotency_key)["refund"],
        settle_after=1,
    )
    def refund(order_id: str, amount: int, idempotency_key: str) -> Any:
        return shop.create_refund(order_id, amount, idempotency_key)

    gate.recover()
    return effect_node(refund, arguments=lambda state: {name: state[name] for name in ("order_id", "amount")})
    # endregion


def run(arm: Any, place: Path, thread: str, amount: int, dies: bool) -> None:
    """One process."""
    shop = Shop(place)
    shop.dies = dies
    go(arm(shop, place), place, thread, amount)


if __name__ == "__main__":
    spawn, once = multiprocessing.get_context("spawn"), 0
    for arm in (by_hand, gated):
        with tempfile.TemporaryDirectory() as directory:
            print(f"{arm.__name__}:", flush=True)
            for thread, amount, dies in (("first", 20, True), ("first", 20, False), ("second", 25, False)):
                process = spawn.Process(target=run, args=(arm, Path(directory), thread, amount, dies))
                process.start()
                process.join()
            once += [refund["amount"] for refund in Shop(Path(directory)).refunds()] == [20]
    print(f"refunded exactly once: {once} of 2")
