"""Charges: docs.stripe.com/api/charges. A charge is made by a payment intent (payments.py); here it is read and annotated.

Owns how a charge comes to be, how it is captured, and what its `amount_refunded` is: the sum of the refunds that stand.
"""

from __future__ import annotations

from typing import Any

from benchmarks.services.stripe import balance_transactions, events
from benchmarks.services.stripe.cards import Card
from benchmarks.services.stripe.endpoint import PAGING, Call, Endpoint, updated_metadata
from benchmarks.services.stripe.errors import refused
from benchmarks.services.stripe.ledger import Json
from benchmarks.services.stripe.objects import charge
from benchmarks.services.stripe.params import Parameters, metadata, text, texts

AVAILABLE_AFTER_S = 2 * 24 * 60 * 60
"""When the money of a payment becomes available (docs.stripe.com/payouts: two days for most)."""


def make(call: Call, intent: Json, card: Card, *, payment_method: str) -> Json:
    """Charge the card of a payment intent, and record what came of it."""
    made = charge(intent, card=card, payment_method=payment_method, created=call.clock.stamp())
    if made["captured"]:
        _enter(call, made, card)
    call.ledger.add("charges", made)
    events.record(call, "charge.succeeded" if made["paid"] else "charge.failed", made)
    return made


def capture(call: Call, charged: Json, amount: int | None, card: Card) -> Json:
    """Take what was authorised, or a part of it; the rest is released.

    Raises:
        ApiError: More is asked than was authorised.
    """
    asked = charged["amount"] if amount is None else amount
    if asked > charged["amount"]:
        raise refused(
            "The requested capture amount is greater than the amount you can capture for this charge.",
            code="amount_too_large",
            param="amount_to_capture",
        )
    charged.update(captured=True, amount_captured=asked)
    _enter(call, charged, card)
    call.ledger.replace("charges", charged)
    events.record(call, "charge.captured", charged)
    return charged


def release(call: Call, charged: Json, kind: str) -> None:
    """Give an authorisation back that was never captured; `kind` is the event that says so."""
    before = dict(charged)
    charged.update(amount_refunded=charged["amount"], refunded=True)
    call.ledger.replace("charges", charged)
    previous = events.changed(before, charged) if kind == "charge.refunded" else None
    events.record(call, kind, charged, previous=previous)


def recount(call: Call, charged: Json) -> tuple[Json, dict[str, Any]]:
    """Bring what a charge says about its refunds in line with them; returns it, and what it said before of what changed."""
    before = dict(charged)
    charged["amount_refunded"] = call.ledger.refunded_minor(charged["id"])
    charged["refunded"] = charged["amount_refunded"] == charged["amount_captured"]
    call.ledger.replace("charges", charged)
    return charged, events.changed(before, charged)


def fee_minor(amount: int) -> int:
    """Stripe's price for a domestic card in the United States: 2.9 % and 30 cents (stripe.com/pricing)."""
    return round(amount * 29 / 1000) + 30


def _enter(call: Call, charged: Json, card: Card) -> None:
    amount, now = charged["amount_captured"], call.clock.stamp()
    charged["balance_transaction"] = balance_transactions.enter(
        call,
        "charge",
        amount,
        charged,
        fee=min(amount, fee_minor(amount)),
        available_on=now if card.is_available else now + AVAILABLE_AFTER_S,
    )


def _update(call: Call) -> Json:
    found = call.find("charges", call.identifier, param="id")
    before = dict(found)
    found["metadata"] = updated_metadata(found["metadata"], call.params.get("metadata"))
    for name in ("description", "transfer_group"):
        if name in call.params:
            found[name] = call.params[name]
    call.ledger.replace("charges", found)
    events.record(call, "charge.updated", found, previous=events.changed(before, found))
    return call.shown(found)


ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/charges/{id}",
        Parameters(
            takes={"metadata": metadata, "description": text, "transfer_group": text, "expand": texts},
            unmodelled=frozenset({"customer", "fraud_details", "receipt_email", "shipping"}),
        ),
        _update,
    ),
    Endpoint(
        "GET",
        "/v1/charges/{id}",
        Parameters(takes={"expand": texts}),
        lambda call: call.shown(call.find("charges", call.identifier, param="id")),
    ),
    Endpoint(
        "GET",
        "/v1/charges",
        Parameters(takes={**PAGING, "customer": text, "payment_intent": text, "transfer_group": text}),
        lambda call: call.listed("charges", "customer", "payment_intent", "transfer_group"),
    ),
)
