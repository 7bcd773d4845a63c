"""The reader's Stripe account, which pages on the ready-made targets call but do not define: a client, payments, an approved case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.services.stripe import LocalStripe
from interlock.targets.stripe import Approval


@dataclass(frozen=True)
class Case:
    """What a refund is about."""

    order: str
    payment_intent: str


class StripeAccount:
    """An account at the local service."""

    def __init__(self, service: LocalStripe) -> None:
        self._service = service

    def paid(self, amount_minor: int = 10_000) -> str:
        """A card payment of this amount; its `pi_...`."""
        asked: Any = {
            "amount": amount_minor,
            "currency": "usd",
            "payment_method": "pm_card_visa",
            "confirm": True,
            "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
        }
        payment: str = self._service.client().v1.payment_intents.create(asked).id
        return payment

    def names(self) -> dict[str, Any]:
        """What a page may use without defining it."""
        payment = self.paid()
        return {
            "client": self._service.client(),
            "service": self._service,
            "paid": self.paid,
            "case": Case(payment[-8:], payment),
            "approval_for": lambda order: Approval(id=f"ap_{order}", by="ann", amount_minor=2500),
        }
