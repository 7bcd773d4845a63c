"""The handler, with the check by hand and through the gate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import restate
from shop import Shop

from interlock import Interlock
from interlock.integrations.restate import gated, recovering

SEEN = 0  # the refunded total that the decision was made on, kept by the hand-written handler


def by_hand(shop: Shop, place: Path) -> Any:
    """The check as it is written by hand, in what the run does."""
    orders = restate.VirtualObject("by_hand")

    # region: hand check
    @orders.handler()
    async def refund(ctx: restate.ObjectContext, amount: int) -> dict[str, Any]:
        return await ctx.run_typed("refund", checked_refund, order_id=ctx.key(), amount=amount)

    def checked_refund(order_id: str, amount: int) -> dict[str, Any]:
        reference = f"refund-{order_id}"
        found = shop.find_refund(reference)["refund"]
        if found and found["amount"] != amount:
            raise restate.TerminalError("Refused: this order was refunded with another amount.")
        if found:
            return dict(found)
        if shop.get_order(order_id)["refunded_total"] != SEEN:
            raise restate.TerminalError("Refused: somebody refunded meanwhile.")
        return shop.create_refund(order_id, amount, reference)

    return restate.app([orders])
    # endregion


def behind_the_gate(shop: Shop, place: Path) -> Any:
    """The same through the gate."""
    orders = restate.VirtualObject("behind_the_gate")

    # region: interlock
    gate = Interlock(place / "journal")

    @gate.effect(
        key=lambda order_id: f"refund:{order_id}",
        premises=shop.get_order,
        lookup=lambda idempotency_key: shop.find_refund(idempotency_key)["refund"],
        settle_after=1,
    )
    def create_refund(order_id: str, amount: int, idempotency_key: str) -> dict[str, Any]:
        return shop.create_refund(order_id, amount, idempotency_key)

    @orders.handler()
    async def refund(ctx: restate.ObjectContext, amount: int) -> dict[str, Any]:
        return dict(await ctx.run_typed("refund", gated(create_refund), order_id=ctx.key(), amount=amount))

    return recovering(restate.app([orders]), gate)
    # endregion
