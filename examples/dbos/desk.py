"""The workflow, with the check by hand in its step and through the gate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dbos import DBOS
from shop import Shop

from interlock import Interlock
from interlock.integrations.dbos import launch, run_effect

SEEN = 0  # the refunded total that the decision was made on, kept by the hand-written step


def by_hand(shop: Shop, place: Path) -> Any:
    """The check as it is written by hand, in the step."""

    # region: hand check
    @DBOS.step()
    def refund(order_id: str, amount: int) -> Any:
        reference = f"refund-{order_id}"
        found = shop.find_refund(reference)["refund"]
        if found and found["amount"] != amount:
            raise ValueError("Refused: this order was refunded with another amount.")
        if found:
            return found
        if shop.get_order(order_id)["refunded_total"] != SEEN:
            raise ValueError("Refused: somebody refunded meanwhile.")
        return shop.create_refund(order_id, amount, reference)

    @DBOS.workflow(name="refund_case")
    def refund_case(order_id: str, amount: int) -> Any:
        return refund(order_id, amount)

    DBOS.launch()
    # endregion
    return refund_case


def behind_the_gate(shop: Shop, place: Path) -> Any:
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

    @DBOS.workflow(name="refund_case")
    def refund_case(order_id: str, amount: int) -> Any:
        return run_effect(refund, order_id, amount)

    launch(gate)
    # endregion
    return refund_case
