"""The shapes of what the API returns: every field that Stripe's OpenAPI fixtures have, with the value it has for a card payment.

Pure: values in, JSON out. Must not know what is stored or asked.
"""

from __future__ import annotations

import secrets
import string
from typing import Any

from benchmarks.services.stripe.cards import Card
from benchmarks.services.stripe.currencies import CURRENCIES, money
from benchmarks.services.stripe.errors import decline_words

__all__ = ["API_VERSION", "CURRENCIES", "charge", "listing", "money", "new_id", "payment_intent", "refund"]

Json = dict[str, Any]

_ALPHABET = string.ascii_letters + string.digits
API_VERSION = "2026-10-28.endive"
"""The version whose shapes these are."""


def new_id(prefix: str, length: int = 24) -> str:
    """An identifier nobody has used."""
    return f"{prefix}_{''.join(secrets.choice(_ALPHABET) for _ in range(length))}"


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
    customer: str | None = None,
    transfer_group: str | None = None,
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
        "customer": customer,
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
        "transfer_group": transfer_group,
    }


def charge(intent: Json, *, card: Card, payment_method: str, created: int) -> Json:
    """The charge a confirmed payment intent makes: captured, only authorised, or failed if the card is declined."""
    identifier = new_id("ch")
    is_paid = card.code is None
    is_captured = is_paid and intent["capture_method"] != "manual"
    address = dict.fromkeys(("city", "country", "line1", "line2", "postal_code", "state"))
    return {
        "id": identifier,
        "object": "charge",
        "amount": intent["amount"],
        "amount_captured": intent["amount"] if is_captured else 0,
        "amount_refunded": 0,
        "application": None,
        "application_fee": None,
        "application_fee_amount": None,
        "balance_transaction": None,
        "billing_details": {"address": address, "email": None, "name": None, "phone": None, "tax_id": None},
        "calculated_statement_descriptor": "INTERLOCK LOCAL",
        "captured": is_captured,
        "created": created,
        "currency": intent["currency"],
        "customer": intent["customer"],
        "description": intent["description"],
        "disputed": False,
        "failure_balance_transaction": None,
        "failure_code": card.code,
        "failure_message": None if is_paid else decline_words(card.decline or card.code or ""),
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
        "transfer_group": intent["transfer_group"],
    }


def refund(charged: Json, *, amount: int, created: int, metadata: dict[str, str], reason: str | None) -> Json:
    """A refund to a card, as it is when it has succeeded; one that is not there yet has more fields."""
    return {
        "id": new_id("re"),
        "object": "refund",
        "amount": amount,
        "balance_transaction": None,
        "charge": charged["id"],
        "created": created,
        "currency": charged["currency"],
        "customer": charged["customer"],
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
