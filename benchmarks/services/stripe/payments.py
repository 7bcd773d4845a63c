"""Payment intents and charges: docs.stripe.com/api/payment_intents and docs.stripe.com/api/charges.

Owns how a card payment comes to be. Manual capture, cancellation and customers are not modelled.
"""

from __future__ import annotations

from typing import Any

from benchmarks.services.stripe.endpoint import PAGING, Call, Endpoint, updated_metadata
from benchmarks.services.stripe.errors import ApiError, declined, invalid, missing, refused
from benchmarks.services.stripe.ledger import Json
from benchmarks.services.stripe.objects import CARDS, CURRENCIES, charge, money, payment_intent
from benchmarks.services.stripe.params import Choice, Group, Parameters, Whole, flag, metadata, text, texts

MINIMUM_MINOR = 50
MAXIMUM_MINOR = 99_999_999

_METHODS = Group({"enabled": flag, "allow_redirects": Choice(("always", "never"))})


def _create(call: Call) -> Json:
    params = call.params
    currency, amount = params["currency"].lower(), params["amount"]
    if currency not in CURRENCIES:
        raise invalid(
            f"Invalid currency: {currency}. This local service supports these currencies: {', '.join(CURRENCIES)}",
            param="currency",
        )
    if amount < MINIMUM_MINOR:
        raise invalid(
            f"Amount must be at least {money(MINIMUM_MINOR, currency)} {currency}",
            code="amount_too_small",
            param="amount",
        )
    automatic = params.get("automatic_payment_methods")
    if automatic is not None and "payment_method_types" in params:
        raise invalid(
            "You may only specify one of these parameters: automatic_payment_methods, payment_method_types.",
            param="automatic_payment_methods",
        )
    types = params.get("payment_method_types")
    if automatic is not None and not automatic.get("enabled", False):
        types = ["card"]
    if types is not None and types != ["card"]:
        raise invalid("This local service models the payment method type `card` only.", param="payment_method_types")
    if "payment_method" in params:
        _card(params["payment_method"])
    intent = payment_intent(
        amount=amount,
        currency=currency,
        created=call.clock.stamp(),
        metadata=updated_metadata({}, params.get("metadata")),
        description=params.get("description"),
        payment_method=params.get("payment_method"),
        payment_method_types=types,
        allow_redirects=(automatic or {}).get("allow_redirects", "always"),
        capture_method=params.get("capture_method", "automatic_async"),
    )
    if not params.get("confirm", False):
        if "return_url" in params:
            raise invalid("`return_url` can be given only together with `confirm=true`.", param="return_url")
        call.ledger.add("payment_intents", intent)
        return call.shown(intent)
    _require_ready(intent, params)
    call.ledger.add("payment_intents", intent)
    return _pay(call, intent)


def _confirm(call: Call) -> Json:
    intent = call.find("payment_intents", call.identifier, param="intent")
    if intent["status"] == "succeeded":
        raise ApiError(
            400,
            "invalid_request_error",
            "You cannot confirm this PaymentIntent because it has already succeeded after being previously confirmed.",
            code="payment_intent_unexpected_state",
            payment_intent=intent,
        )
    if "payment_method" in call.params:
        _card(call.params["payment_method"])
        intent["payment_method"] = call.params["payment_method"]
    _require_ready(intent, call.params)
    return _pay(call, intent)


def _update(call: Call) -> Json:
    intent = call.find("payment_intents", call.identifier, param="intent")
    intent["metadata"] = updated_metadata(intent["metadata"], call.params.get("metadata"))
    if "description" in call.params:
        intent["description"] = call.params["description"]
    call.ledger.replace("payment_intents", intent)
    return call.shown(intent)


def _require_ready(intent: Json, params: dict[str, Any]) -> None:
    if intent["payment_method"] is None:
        raise refused(
            "You cannot confirm this PaymentIntent because it's missing a payment method. Update the PaymentIntent with a "
            "payment method, or pass `payment_method` when you confirm it.",
            code="payment_intent_unexpected_state",
        )
    automatic = intent["automatic_payment_methods"]
    if automatic is not None and automatic["allow_redirects"] == "always" and "return_url" not in params:
        raise refused(
            "This PaymentIntent is configured to accept payment methods enabled in your Dashboard. Because some of these "
            "payment methods might redirect your customer off of your page, you must provide a `return_url`. If you don't "
            "want to accept redirect-based payment methods, set `automatic_payment_methods[enabled]` to `true` and "
            "`automatic_payment_methods[allow_redirects]` to `never` when creating Setup Intents and Payment Intents.",
            param="return_url",
        )


def _pay(call: Call, intent: Json) -> Json:
    name = intent["payment_method"]
    card = _card(name)
    charged = charge(intent, card=card, payment_method=name, created=call.clock.stamp())
    intent["latest_charge"] = charged["id"]
    call.ledger.add("charges", charged)
    if card.code is None:
        intent.update(status="succeeded", amount_received=intent["amount"], last_payment_error=None)
        call.ledger.replace("payment_intents", intent)
        return call.shown(intent)
    refusal = declined(code=card.code, decline_code=card.decline, charge=charged["id"])
    intent.update(status="requires_payment_method", payment_method=None, last_payment_error=dict(refusal.body["error"]))
    call.ledger.replace("payment_intents", intent)
    refusal.body["error"]["payment_intent"] = intent
    raise refusal


def _card(name: str) -> Any:
    if name not in CARDS:
        raise missing("PaymentMethod", name, param="payment_method", status=400)
    return CARDS[name]


ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/payment_intents",
        Parameters(
            takes={
                "amount": Whole(1, MAXIMUM_MINOR),
                "currency": text,
                "payment_method": text,
                "payment_method_types": texts,
                "automatic_payment_methods": _METHODS,
                "capture_method": Choice(("automatic", "automatic_async")),
                "confirm": flag,
                "description": text,
                "metadata": metadata,
                "return_url": text,
                "expand": texts,
            },
            needs=("amount", "currency"),
            unmodelled=frozenset(
                {
                    "amount_details",
                    "application_fee_amount",
                    "confirmation_method",
                    "confirmation_token",
                    "customer",
                    "customer_account",
                    "error_on_requires_action",
                    "excluded_payment_method_types",
                    "hooks",
                    "mandate",
                    "mandate_data",
                    "off_session",
                    "on_behalf_of",
                    "payment_details",
                    "payment_method_configuration",
                    "payment_method_data",
                    "payment_method_options",
                    "radar_options",
                    "receipt_email",
                    "setup_future_usage",
                    "shipping",
                    "statement_descriptor",
                    "statement_descriptor_suffix",
                    "transfer_data",
                    "transfer_group",
                    "use_stripe_sdk",
                }
            ),
        ),
        _create,
    ),
    Endpoint(
        "POST",
        "/v1/payment_intents/{id}/confirm",
        Parameters(takes={"payment_method": text, "return_url": text, "expand": texts}),
        _confirm,
    ),
    Endpoint(
        "POST",
        "/v1/payment_intents/{id}",
        Parameters(takes={"metadata": metadata, "description": text, "expand": texts}),
        _update,
    ),
    Endpoint(
        "GET",
        "/v1/payment_intents/{id}",
        Parameters(takes={"expand": texts}),
        lambda call: call.shown(call.find("payment_intents", call.identifier, param="intent")),
    ),
    Endpoint(
        "GET",
        "/v1/payment_intents",
        Parameters(takes=PAGING, unmodelled=frozenset({"customer", "customer_account"})),
        lambda call: call.listed("payment_intents"),
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
        Parameters(takes={**PAGING, "payment_intent": text}, unmodelled=frozenset({"customer", "transfer_group"})),
        lambda call: call.listed("charges", "payment_intent"),
    ),
)
