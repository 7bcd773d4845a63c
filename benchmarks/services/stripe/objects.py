"""The shapes of what the API returns: every field that Stripe's OpenAPI fixtures have, with the value it has for a card payment.

Pure: values in, JSON out. Must not know what is stored or asked.
"""

from __future__ import annotations

import secrets
import string
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

_ALPHABET = string.ascii_letters + string.digits
_SYMBOLS = {"usd": "$", "eur": "€", "gbp": "£", "jpy": "¥", "cad": "CA$", "aud": "A$", "chf": "CHF "}
_WITHOUT_DECIMALS = frozenset({"jpy"})

CURRENCIES = tuple(sorted(_SYMBOLS))

API_VERSION = "2026-10-28.endive"
"""The version whose shapes these are."""


@dataclass(frozen=True)
class Card:
    """A test card behind a `pm_card_...` name (docs.stripe.com/testing); declined with `decline` if that is set."""

    brand: str
    last4: str
    code: str | None = None
    decline: str | None = None


CARDS = {
    "pm_card_visa": Card("visa", "4242"),
    "pm_card_visa_debit": Card("visa", "5556"),
    "pm_card_mastercard": Card("mastercard", "4444"),
    "pm_card_amex": Card("amex", "8431"),
    "pm_card_visa_chargeDeclined": Card("visa", "0002", "card_declined", "generic_decline"),
    "pm_card_chargeDeclined": Card("visa", "0002", "card_declined", "generic_decline"),
    "pm_card_chargeDeclinedInsufficientFunds": Card("visa", "9995", "card_declined", "insufficient_funds"),
    "pm_card_chargeDeclinedExpiredCard": Card("visa", "0069", "expired_card", None),
}
"""The payment methods the service knows."""


def new_id(prefix: str, length: int = 24) -> str:
    """An identifier nobody has used."""
    return f"{prefix}_{''.join(secrets.choice(_ALPHABET) for _ in range(length))}"


def money(amount_minor: int, currency: str) -> str:
    """An amount as Stripe's messages show it: `$20.00`."""
    symbol = _SYMBOLS.get(currency, f"{currency.upper()} ")
    return f"{symbol}{amount_minor:,}" if currency in _WITHOUT_DECIMALS else f"{symbol}{amount_minor / 100:,.2f}"


def payment_intent(
    *,
    amount: int,
    currency: str,
    created: int,
    metadata: dict[str, str],
    description: str | None,
    payment_method: str | None,
    payment_method_types: list[str] | None,
    allow_redirects: str,
    capture_method: str,
) -> Json:
    """A payment intent nobody has confirmed. `payment_method_types` None: those that the account has switched on."""
    identifier = new_id("pi")
    automatic = payment_method_types is None
    return {
        "id": identifier,
        "object": "payment_intent",
        "amount": amount,
        "amount_capturable": 0,
        "amount_details": {"tip": {}},
        "amount_received": 0,
        "application": None,
        "application_fee_amount": None,
        "automatic_payment_methods": {"allow_redirects": allow_redirects, "enabled": True} if automatic else None,
        "canceled_at": None,
        "cancellation_reason": None,
        "capture_method": capture_method,
        "client_secret": f"{identifier}_secret_{new_id('x', 25)[2:]}",
        "confirmation_method": "automatic",
        "created": created,
        "currency": currency,
        "customer": None,
        "customer_account": None,
        "description": description,
        "excluded_payment_method_types": None,
        "last_payment_error": None,
        "latest_charge": None,
        "livemode": False,
        "managed_payments": {"enabled": False},
        "metadata": metadata,
        "next_action": None,
        "on_behalf_of": None,
        "payment_method": payment_method,
        "payment_method_configuration_details": {"id": "pmc_local", "parent": None} if automatic else None,
        "payment_method_options": {
            "card": {"installments": None, "network": None, "request_three_d_secure": "automatic"}
        },
        "payment_method_types": payment_method_types or ["card"],
        "processing": None,
        "receipt_email": None,
        "review": None,
        "setup_future_usage": None,
        "shipping": None,
        "source": None,
        "statement_descriptor": None,
        "statement_descriptor_suffix": None,
        "status": "requires_confirmation" if payment_method else "requires_payment_method",
        "transfer_data": None,
        "transfer_group": None,
    }


def charge(intent: Json, *, card: Card, payment_method: str, created: int) -> Json:
    """The charge a confirmed payment intent makes: captured, or failed if the card is one that is declined."""
    identifier = new_id("ch")
    is_paid = card.code is None
    address = dict.fromkeys(("city", "country", "line1", "line2", "postal_code", "state"))
    return {
        "id": identifier,
        "object": "charge",
        "amount": intent["amount"],
        "amount_captured": intent["amount"] if is_paid else 0,
        "amount_refunded": 0,
        "application": None,
        "application_fee": None,
        "application_fee_amount": None,
        "balance_transaction": new_id("txn") if is_paid else None,
        "billing_details": {"address": address, "email": None, "name": None, "phone": None, "tax_id": None},
        "calculated_statement_descriptor": "INTERLOCK LOCAL",
        "captured": is_paid,
        "created": created,
        "currency": intent["currency"],
        "customer": None,
        "description": intent["description"],
        "disputed": False,
        "failure_balance_transaction": None,
        "failure_code": card.code,
        "failure_message": None if is_paid else "Your card was declined.",
        "fraud_details": {},
        "livemode": False,
        "metadata": dict(intent["metadata"]),
        "on_behalf_of": None,
        "outcome": {
            "advice_code": None,
            "network_advice_code": None,
            "network_decline_code": None,
            "network_status": "approved_by_network" if is_paid else "declined_by_network",
            "reason": card.decline or card.code,
            "risk_level": "normal",
            "seller_message": "Payment complete." if is_paid else "The bank did not return any further details.",
            "type": "authorized" if is_paid else "issuer_declined",
        },
        "paid": is_paid,
        "payment_intent": intent["id"],
        "payment_method": payment_method,
        "payment_method_details": {"card": _card_details(intent["amount"], card), "type": "card"},
        "receipt_email": None,
        "receipt_number": None,
        "receipt_url": None,
        "refunded": False,
        "review": None,
        "shipping": None,
        "source": None,
        "source_transfer": None,
        "statement_descriptor": None,
        "statement_descriptor_suffix": None,
        "status": "succeeded" if is_paid else "failed",
        "transfer_data": None,
        "transfer_group": None,
    }


def refund(charged: Json, *, amount: int, created: int, metadata: dict[str, str], reason: str | None) -> Json:
    """A refund to a card, which Stripe accepts as succeeded at once."""
    return {
        "id": new_id("re"),
        "object": "refund",
        "amount": amount,
        "balance_transaction": new_id("txn"),
        "charge": charged["id"],
        "created": created,
        "currency": charged["currency"],
        "customer": None,
        "customer_account": None,
        "destination_details": {
            "card": {"reference_status": "pending", "reference_type": "acquirer_reference_number", "type": "refund"},
            "type": "card",
        },
        "metadata": metadata,
        "payment_intent": charged["payment_intent"],
        "payment_method": charged["payment_method"],
        "reason": reason,
        "receipt_number": None,
        "source_transfer_reversal": None,
        "status": "succeeded",
        "transfer_reversal": None,
    }


def listing(data: list[Json], *, has_more: bool, url: str) -> Json:
    """One page of a list (docs.stripe.com/api/pagination)."""
    return {"object": "list", "data": data, "has_more": has_more, "url": url}


def _card_details(amount: int, card: Card) -> Json:
    return {
        "amount_authorized": amount,
        "authorization_code": "000000",
        "brand": card.brand,
        "checks": {"address_line1_check": None, "address_postal_code_check": None, "cvc_check": "pass"},
        "country": "US",
        "exp_month": 12,
        "exp_year": 2034,
        "extended_authorization": {"status": "disabled"},
        "fingerprint": f"local{card.last4}",
        "funding": "credit",
        "incremental_authorization": {"status": "unavailable"},
        "installments": None,
        "last4": card.last4,
        "mandate": None,
        "multicapture": {"status": "unavailable"},
        "network": card.brand,
        "network_token": {"used": False},
        "network_transaction_id": None,
        "overcapture": {"maximum_amount_capturable": amount, "status": "unavailable"},
        "regulated_status": "unregulated",
        "three_d_secure": None,
        "transaction_link_id": None,
        "wallet": None,
    }
