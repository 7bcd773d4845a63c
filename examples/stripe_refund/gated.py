"""The same refund behind the gate. `python -m benchmarks lines` counts the marked region."""

from __future__ import annotations

import logging
from pathlib import Path

import stripe
from desk import Case, Desk

from interlock import Interlock
from interlock.targets.stripe import Approval, stripe_refund

logging.getLogger("interlock").setLevel(logging.ERROR)


def refund_case(client: stripe.StripeClient, desk: Desk, case: Case, *, amount: int, directory: Path) -> str:
    """Refund it once; says what became of it."""
    # region: interlock
    with Interlock(directory / "gate") as gate:
        refund = stripe_refund(
            gate,
            client,
            key=lambda case: f"refund:{case.order}",
            approval=lambda case: (found := desk.approval(case.order)) and Approval(**found),
            settle_after=1,
        )
        gate.recover(wait=5)
        return str(refund(case, amount=amount))
    # endregion
