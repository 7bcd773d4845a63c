"""The case: what was asked, what the decider saw, and the back office that says who may do what.

Owns the facts every arm reads. All arms read the same facts through the same functions, so that they differ only in
when they look and in what they do about it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Self

import stripe
from pydantic import BaseModel, ConfigDict

PAID_MINOR = 10_000
APPROVED_MINOR = 2_000
REDECIDED_MINOR = 3_000
UNRELATED_MINOR = 500

CASE = "4471"


class Request(BaseModel):
    """One approved refund, as it lies in the agent's queue with the facts it was decided on."""

    model_config = ConfigDict(frozen=True)

    order: str
    payment: str
    amount: int = APPROVED_MINOR
    case: str = CASE
    approval: int = 1
    refunded_when_decided: int = 0
    tolerant: bool = False
    by_model: bool = False

    def with_amount(self, amount: int) -> Self:
        """The same approved request with another amount."""
        return self.model_copy(update={"amount": amount})

    def approved_again(self) -> Self:
        """The same case, approved once more."""
        return self.model_copy(update={"approval": self.approval + 1})


class Desk:
    """The back office: may this case be refunded, is the order eligible. One small file, as another team's system."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "desk.json"

    def may_refund(self) -> bool:
        """Whether the permission to refund the case stands."""
        return self._read()["may_refund"]

    def is_eligible(self) -> bool:
        """Whether the order is eligible for a refund."""
        return self._read()["is_eligible"]

    def change(self, **facts: bool) -> None:
        """Somebody in the back office changes a fact; the change is complete when this returns."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps({**self._read(), **facts}), encoding="utf-8")
        os.replace(fresh, self._file)

    def _read(self) -> dict[str, bool]:
        facts = {"may_refund": True, "is_eligible": True}
        if self._file.exists():
            facts.update(json.loads(self._file.read_text(encoding="utf-8")))
        return facts


def refunds_of(client: stripe.StripeClient, payment: str) -> list[stripe.Refund]:
    """Every refund of the payment, read from the service's list (which is read-your-writes)."""
    return client.v1.refunds.list({"payment_intent": payment, "limit": 100}).data


def named(refund: stripe.Refund, name: str) -> str | None:
    """One entry of a refund's metadata, or None."""
    return dict(refund.metadata.to_dict()).get(name) if refund.metadata else None


def is_own(refund: stripe.Refund, key: str) -> bool:
    """Whether this refund was made under this key."""
    return named(refund, "key") == key


def stands_in_the_way(of_case: str | None, *, case: str, tolerant: bool) -> bool:
    """The house's rule for which refunds by others stand in the way of one for this case.

    Strict: any. Tolerant: all but those that name another case. One that names no case stands in the way: it cannot be
    told apart from a refund of this very case.
    """
    return not tolerant or of_case in (None, case)


def total_in_the_way(refunds: list[stripe.Refund], request: Request) -> int:
    """How much of what was refunded stands in this refund's way."""
    return sum(
        refund.amount
        for refund in refunds
        if stands_in_the_way(named(refund, "case"), case=request.case, tolerant=request.tolerant)
    )


def shown(refund: stripe.Refund) -> dict[str, Any]:
    """What of a refund is kept as its evidence."""
    return {"id": refund.id, "amount": refund.amount}


def own_refund(client: stripe.StripeClient, payment: str, key: str) -> dict[str, Any] | None:
    """The refund that was made under this key, or None."""
    return next((shown(refund) for refund in refunds_of(client, payment) if is_own(refund, key)), None)


def refunds_by_others(client: stripe.StripeClient, payment: str, key: str) -> dict[str, list[Any]]:
    """Every refund of the payment but the one under this key: its amount and the case it names."""
    refunds = refunds_of(client, payment)
    return {refund.id: [refund.amount, named(refund, "case")] for refund in refunds if not is_own(refund, key)}


def is_harmless(seen: dict[str, list[Any]], now: dict[str, list[Any]]) -> bool:
    """The tolerant rule: all that came since name another case."""
    added = [now[refund] for refund in now if refund not in seen]
    return not any(stands_in_the_way(of_case, case=CASE, tolerant=True) for _, of_case in added)
