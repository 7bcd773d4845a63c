"""The reader's own world, which the README's examples call but do not define: an order system and a payment service.

Small enough to see through: a list of refunds that dedupes on the idempotency key, as the service does. `names()` is what a page's
namespace starts with. The objects that the fake service answers with are those of the real SDK.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import stripe
from stripe import Refund


@dataclass
class Shop:
    """One order system with the service behind it.

    Attributes:
        eligible: whether orders may be refunded.
        permitted: whether the agent may refund.
        refunds: what the service holds, by idempotency key.
    """

    eligible: bool = True
    permitted: bool = True
    refunds: dict[str, dict[str, Any]] = field(default_factory=dict)

    def is_eligible(self, order: str) -> bool:
        """Whether the order may be refunded."""
        return self.eligible

    def can_refund(self, order: str) -> bool:
        """Whether the agent may refund it."""
        return self.permitted

    def charge_for(self, order: str) -> str:
        """The charge of an order."""
        return f"ch_{order}"

    def refunded_total(self, order: str, *, excluding: str = "") -> int:
        """What was refunded on an order, in minor units, one refund left aside."""
        return sum(self.refund_amounts(order, excluding=excluding))

    def refund_amounts(self, order: str, *, excluding: str = "") -> list[int]:
        """The refunds of an order, oldest first, in minor units, one left aside."""
        charge = self.charge_for(order)
        return [r["amount"] for key, r in self.refunds.items() if r["charge"] == charge and key != excluding]

    def refund_exists(self, idempotency_key: str) -> Any:
        """The refund made under a key, or None."""
        found = self.refunds.get(idempotency_key)
        return Refund.construct_from(found, "sk_test") if found else None

    def create(self, *, charge: str, amount: int, idempotency_key: str) -> Any:
        """Refund, once for each key: what `stripe.Refund.create` does."""
        number = len(self.refunds) + 1
        made = {"id": f"re_{number}", "object": "refund", "charge": charge, "amount": amount, "status": "succeeded"}
        return Refund.construct_from(self.refunds.setdefault(idempotency_key, made), "sk_test")

    def sdk(self) -> ModuleType:
        """A module that stands in for `stripe`, as far as the README uses it."""
        module = ModuleType("stripe")
        # All of the real SDK but this one class: what the targets do with it goes on working.
        module.__dict__.update({**vars(stripe), "Refund": type("Refund", (), {"create": staticmethod(self.create)})})
        return module

    def names(self) -> dict[str, Any]:
        """What a page's namespace starts with."""
        shop = [self.is_eligible, self.can_refund, self.charge_for]
        service = [self.refunded_total, self.refund_amounts, self.refund_exists]
        return {"stripe": self.sdk(), **{function.__name__: function for function in [*shop, *service]}}
