"""Where the contract runs: the local service, live test mode, or one of the doubles; and what a test asks of each.

Owns how a paid charge comes to be in each place, so that a test speaks only of what must hold afterwards.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import stripe

from benchmarks.services.stripe import LocalStripe

TAGS = {"suite": "interlock-contract"}
"""Metadata of every object that the suite makes, so that it can be found and cleaned up in a test account."""


@dataclass(frozen=True)
class Paid:
    """A successful card payment."""

    charge: str
    payment: str | None
    """Its PaymentIntent; None where there are only charges."""
    amount_minor: int
    currency: str


@dataclass(frozen=True)
class Place:
    """One service under contract."""

    name: str
    client: stripe.StripeClient
    local: LocalStripe | None = None

    @property
    def service(self) -> LocalStripe:
        """The local service's controls, for tests that are marked `local_only`."""
        assert self.local is not None, "a test that needs faults or time is marked local_only"
        return self.local

    @property
    def is_live(self) -> bool:
        """Whether it is Stripe itself."""
        return self.name == "live"

    def key(self, word: str) -> str:
        """A fresh idempotency key; a test account outlives the run that used it."""
        return f"contract-{word}-{secrets.token_hex(6)}"

    def paid(self, amount_minor: int = 10_000, currency: str = "usd", *, card: str = "pm_card_visa") -> Paid:
        """A customer has paid by card."""
        if self.name == "stateful-mock":
            token: Any = {"amount": amount_minor, "currency": currency, "source": "tok_visa", "metadata": TAGS}
            return Paid(self.client.v1.charges.create(token).id, None, amount_minor, currency)
        intent = self.intent(amount_minor, currency, card=card, confirm=True)
        assert intent.status == "succeeded"
        # One of the doubles shows the charge itself in place of its id (DISAGREEMENTS.md D8).
        charge: Any = intent.latest_charge
        return Paid(charge if isinstance(charge, str) else str(charge.id), intent.id, amount_minor, currency)

    def intent(
        self, amount_minor: int = 10_000, currency: str = "usd", *, card: str | None = None, **more: Any
    ) -> stripe.PaymentIntent:
        """A PaymentIntent for cards only; with `card` and `confirm=True` a paid one."""
        asked: Any = {"amount": amount_minor, "currency": currency, "metadata": TAGS, **more}
        if self.name != "localstripe":
            asked["automatic_payment_methods"] = {"enabled": True, "allow_redirects": "never"}
        if card is not None:
            asked["payment_method"] = card
        return self.client.v1.payment_intents.create(asked)

    def refund(
        self, paid: Paid, amount_minor: int | None = None, *, key: str | None = None, **more: Any
    ) -> stripe.Refund:
        """Refund a payment by its charge, which every place knows."""
        asked: Any = {"charge": paid.charge, **more}
        asked["metadata"] = {**TAGS, **more.get("metadata", {})}
        if amount_minor is not None:
            asked["amount"] = amount_minor
        return self.client.v1.refunds.create(asked, {} if key is None else {"idempotency_key": key})


def headers_of(answer: Any) -> dict[str, str]:
    """The headers of an answer or of an error, by lower-case name."""
    told: Any = answer.headers if isinstance(answer, stripe.StripeError) else answer.last_response.headers
    return {name.lower(): value for name, value in told.items()}


def error_of(error: stripe.StripeError) -> dict[str, Any]:
    """The `error` object of a refusal's body."""
    body: Any = error.json_body
    fields: dict[str, Any] = body["error"]
    return fields


def refusal(do: Callable[[], object], kind: type[stripe.StripeError] = stripe.InvalidRequestError) -> Any:
    """The error that a request must be refused with."""
    with pytest.raises(kind) as caught:
        do()
    return caught.value


def eventually(condition: Callable[[], bool], *, within_s: float = 10.0) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not so within {within_s} s"
        time.sleep(0.02)


def connected_account(place: Place) -> str:
    """A connected account that can be transferred to and pays out: made here, or the one that STRIPE_CONNECT_ACCOUNT names.

    Live without one, the test is skipped, since not every test account is a Connect platform.
    """
    if place.is_live:
        named = os.environ.get("STRIPE_CONNECT_ACCOUNT", "")
        if not named:
            pytest.skip("live: STRIPE_CONNECT_ACCOUNT=acct_... names no connected account to transfer to")
        return named
    return str(place.client.v1.accounts.create(CONNECTED).id)


CONNECTED: Any = {
    "type": "custom",
    "country": "US",
    "capabilities": {"transfers": {"requested": True}},
    "tos_acceptance": {"date": 1_700_000_000, "ip": "127.0.0.1"},
    "external_account": {
        "object": "bank_account",
        "country": "US",
        "currency": "usd",
        "account_number": "000123456789",
        "routing_number": "110000000",
    },
    "metadata": TAGS,
}
"""What a connected account is made with; the numbers are those of docs.stripe.com/connect/testing."""
