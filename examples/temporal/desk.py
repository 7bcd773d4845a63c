"""The activity, with the check by hand and through the gate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shop import Shop
from temporalio import activity
from temporalio.exceptions import ApplicationError

from interlock import Interlock
from interlock.integrations.temporal import InterlockPlugin, gated

SEEN = 0  # the refunded total that the decision was made on, kept by the hand-written activity


def by_hand(shop: Shop, place: Path) -> dict[str, Any]:
    """The check as it is written by hand, in the activity."""

    # region: hand check
    @activity.defn
    def refund(order_id: str, amount: int) -> Any:
        reference = f"refund-{order_id}"
        found = shop.find_refund(reference)["refund"]
        if found and found["amount"] != amount:
            raise ApplicationError("Refused: this order was refunded with another amount.", non_retryable=True)
        if found:
            return found
        if shop.get_order(order_id)["refunded_total"] != SEEN:
            raise ApplicationError("Refused: somebody refunded meanwhile.", non_retryable=True)
        return shop.create_refund(order_id, amount, reference)

    return {"activities": [refund]}
    # endregion


def behind_the_gate(shop: Shop, place: Path) -> dict[str, Any]:
    """The same through the gate."""
    # region: interlock
    gate = Interlock(place / "journal")

    create_refund = gate.effect(
        key=lambda order_id: f"refund:{order_id}",
        premises=shop.get_order,
        lookup=lambda idempotency_key: shop.find_refund(idempotency_key)["refund"],
        settle_after=1,
    )(shop.create_refund)

    @activity.defn
    def refund(order_id: str, amount: int) -> Any:
        return gated(gate, create_refund.proposal(order_id, amount))

    return {"activities": [refund], "plugins": [InterlockPlugin(gate)]}
    # endregion
