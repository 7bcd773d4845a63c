"""Payment intents: docs.stripe.com/api/payment_intents and docs.stripe.com/payments/paymentintents/lifecycle.

Owns how a card payment comes to be: created, confirmed, captured at once or later, canceled.

    requires_payment_method -> requires_confirmation --confirm--> succeeded, or requires_capture --capture--> succeeded
            ^------------------- a card that is declined ---'              any but succeeded --cancel--> canceled
"""

from __future__ import annotations

from typing import Any

from benchmarks.services.stripe import charges, disputes, early_fraud_warnings, events, later
from benchmarks.services.stripe.cards import Card, card_of
from benchmarks.services.stripe.currencies import LARGEST_MINOR, MAXIMUM_MINOR, check_amount
from benchmarks.services.stripe.customers import living_customer
from benchmarks.services.stripe.endpoint import PAGING, Call, Endpoint, updated_metadata
from benchmarks.services.stripe.errors import ApiError, declined, invalid, refused
from benchmarks.services.stripe.ledger import Json
from benchmarks.services.stripe.objects import payment_intent
from benchmarks.services.stripe.params import Choice, Group, Parameters, Whole, currency, flag, metadata, text, texts
from benchmarks.services.stripe.unmodelled import PAYMENT_INTENT

__all__ = ["ENDPOINTS", "MAXIMUM_MINOR"]

_METHODS = Group({"enabled": flag, "allow_redirects": Choice(("always", "never"))})
_AMOUNT = Whole(1, LARGEST_MINOR)

HOLD_S = 7 * 24 * 60 * 60
"""How long a card holds what was authorised (docs.stripe.com/payments/place-a-hold-on-a-payment-method)."""

CANCELABLE = (
    "requires_payment_method",
    "requires_capture",
    "requires_confirmation",
    "requires_action",
    "processing",
)
CONFIRMABLE = ("requires_payment_method", "requires_confirmation", "requires_action")
CHANGEABLE = ("requires_payment_method", "requires_confirmation", "requires_action")


def _create(call: Call) -> Json:
    params = call.params
    check_amount(params["amount"], params["currency"])
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
        card_of(params["payment_method"])
    if "customer" in params:
        living_customer(call, params["customer"], param="customer", status=400)
    intent = payment_intent(
        amount=params["amount"],
        currency=params["currency"],
        created=call.clock.stamp(),
        metadata=updated_metadata({}, params.get("metadata")),
        description=params.get("description"),
        payment_method=params.get("payment_method"),
        payment_method_types=types,
        allow_redirects=(automatic or {}).get("allow_redirects", "always"),
        capture_method=params.get("capture_method", "automatic_async"),
        customer=params.get("customer"),
        transfer_group=params.get("transfer_group"),
    )
    if not params.get("confirm", False):
        if "return_url" in params:
            raise invalid("`return_url` can be given only together with `confirm=true`.", param="return_url")
        _enter(call, intent)
        return call.shown(intent)
    _require_ready(intent, params)
    _enter(call, intent)
    return _pay(call, intent)


def _enter(call: Call, intent: Json) -> None:
    call.ledger.add("payment_intents", intent)
    events.record(call, "payment_intent.created", intent)


def _confirm(call: Call) -> Json:
    intent = call.find("payment_intents", call.identifier, param="intent")
    if intent["status"] == "succeeded":
        raise unexpected(
            intent,
            "You cannot confirm this PaymentIntent because it has already succeeded after being previously confirmed.",
        )
    _require_state(intent, CONFIRMABLE, "You cannot confirm this PaymentIntent", "confirmed")
    if "payment_method" in call.params:
        card_of(call.params["payment_method"])
        intent["payment_method"] = call.params["payment_method"]
    _require_ready(intent, call.params)
    return _pay(call, intent)


def _update(call: Call) -> Json:
    intent, params = call.find("payment_intents", call.identifier, param="intent"), call.params
    before = dict(intent)
    for name in ("amount", "payment_method"):
        if name in params and intent["status"] not in CHANGEABLE:
            raise unexpected(
                intent,
                f"This PaymentIntent's {name} could not be updated because it has a status of {intent['status']}. You may only "
                f"update the {name} of a PaymentIntent with one of the following statuses: {', '.join(CHANGEABLE)}.",
            )
    if "amount" in params:
        check_amount(params["amount"], intent["currency"])
    if "payment_method" in params:
        card_of(params["payment_method"])
        intent["status"] = "requires_confirmation"
    for name in ("amount", "payment_method", "description", "transfer_group"):
        if name in params:
            intent[name] = params[name]
    intent["metadata"] = updated_metadata(before["metadata"], params.get("metadata"))
    call.ledger.replace("payment_intents", intent)
    return call.shown(intent)


def _cancel(call: Call) -> Json:
    intent = call.find("payment_intents", call.identifier, param="intent")
    _require_state(intent, CANCELABLE, "You cannot cancel this PaymentIntent", "canceled")
    if intent["status"] == "requires_capture":
        charges.release(call, call.find("charges", intent["latest_charge"], param="charge"), "charge.refunded")
    return call.shown(_canceled(call, intent, call.params.get("cancellation_reason")))


def hold_expires(call: Call, intent_id: str) -> None:
    """Nobody captured in time: the hold is released and the payment canceled, if it still waits."""
    intent = call.find("payment_intents", intent_id, param="intent")
    if intent["status"] == "requires_capture":
        charges.release(call, call.find("charges", intent["latest_charge"], param="charge"), "charge.expired")
        _canceled(call, intent, "automatic")


def _canceled(call: Call, intent: Json, reason: str | None) -> Json:
    now = call.clock.stamp()
    intent.update(status="canceled", amount_capturable=0, canceled_at=now, cancellation_reason=reason)
    call.ledger.replace("payment_intents", intent)
    events.record(call, "payment_intent.canceled", intent)
    return intent


def _capture(call: Call) -> Json:
    intent = call.find("payment_intents", call.identifier, param="intent")
    if "metadata" in call.params:
        intent["metadata"] = updated_metadata(intent["metadata"], call.params["metadata"])
    return call.shown(_captured(call, intent, call.params.get("amount_to_capture")))


def _capture_charge(call: Call) -> Json:
    found = call.find("charges", call.identifier, param="id")
    if found["captured"]:
        raise refused(f"Charge {found['id']} has already been captured.", code="charge_already_captured")
    intent = call.find("payment_intents", found["payment_intent"], param="payment_intent")
    _captured(call, intent, call.params.get("amount"))
    return call.shown(call.find("charges", found["id"], param="id"))


def _captured(call: Call, intent: Json, amount: int | None) -> Json:
    _require_state(intent, ("requires_capture",), "This PaymentIntent could not be captured", "captured")
    charged = call.find("charges", intent["latest_charge"], param="charge")
    card = card_of(charged["payment_method"])
    charges.capture(call, charged, amount, card)
    intent.update(status="succeeded", amount_capturable=0, amount_received=charged["amount_captured"])
    call.ledger.replace("payment_intents", intent)
    events.record(call, "payment_intent.succeeded", intent)
    _follow(call, charged, card)
    return intent


def unexpected(intent: Json, message: str) -> ApiError:
    """The payment is not in a state for it; the error carries the payment (docs.stripe.com/error-codes)."""
    return ApiError(
        400, "invalid_request_error", message, code="payment_intent_unexpected_state", payment_intent=intent
    )


def _require_state(intent: Json, allowed: tuple[str, ...], refusal: str, deed: str) -> None:
    if intent["status"] not in allowed:
        raise unexpected(
            intent,
            f"{refusal} because it has a status of {intent['status']}. Only a PaymentIntent with one of the following "
            f"statuses may be {deed}: {', '.join(allowed)}.",
        )


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
    card = card_of(name)
    charged = charges.make(call, intent, card, payment_method=name)
    intent["latest_charge"] = charged["id"]
    if card.code is not None:
        raise _declined(call, intent, card, charged)
    if charged["captured"]:
        intent.update(status="succeeded", amount_received=intent["amount"], last_payment_error=None)
        kind = "payment_intent.succeeded"
    else:
        intent.update(status="requires_capture", amount_capturable=intent["amount"], last_payment_error=None)
        kind = "payment_intent.amount_capturable_updated"
        later.plan(call, "hold_expires", intent["id"], after_s=HOLD_S)
    call.ledger.replace("payment_intents", intent)
    events.record(call, kind, intent)
    if charged["captured"]:
        _follow(call, charged, card)
    return call.shown(intent)


def _follow(call: Call, charged: Json, card: Card) -> None:
    """What the test card has in store once its payment succeeded. Here it happens at once, in the same transaction."""
    if card.dispute:
        disputes.open_dispute(call, charged["id"], reason=card.dispute, is_inquiry=card.inquiry)
    if card.is_reported:
        early_fraud_warnings.issue(call, charged)


def _declined(call: Call, intent: Json, card: Card, charged: Json) -> ApiError:
    """The refusal; the failed charge and what the payment says about it stay."""
    refusal = declined(code=card.code or "card_declined", decline_code=card.decline, charge=charged["id"])
    intent.update(status="requires_payment_method", payment_method=None, last_payment_error=dict(refusal.body["error"]))
    call.ledger.replace("payment_intents", intent)
    events.record(call, "payment_intent.payment_failed", intent)
    refusal.body["error"]["payment_intent"] = intent
    return refusal


ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/payment_intents",
        Parameters(
            takes={
                "amount": _AMOUNT,
                "currency": currency,
                "customer": text,
                "payment_method": text,
                "payment_method_types": texts,
                "automatic_payment_methods": _METHODS,
                "capture_method": Choice(("automatic", "automatic_async", "manual")),
                "confirm": flag,
                "description": text,
                "metadata": metadata,
                "return_url": text,
                "transfer_group": text,
                "expand": texts,
            },
            needs=("amount", "currency"),
            unmodelled=PAYMENT_INTENT,
        ),
        _create,
    ),
    Endpoint(
        "POST",
        "/v1/payment_intents/{id}/confirm",
        Parameters(takes={"payment_method": text, "return_url": text, "expand": texts}, unmodelled=PAYMENT_INTENT),
        _confirm,
    ),
    Endpoint(
        "POST",
        "/v1/payment_intents/{id}/capture",
        Parameters(
            takes={"amount_to_capture": _AMOUNT, "metadata": metadata, "expand": texts},
            unmodelled=PAYMENT_INTENT | {"final_capture"},
        ),
        _capture,
    ),
    Endpoint(
        "POST",
        "/v1/payment_intents/{id}/cancel",
        Parameters(
            takes={
                "cancellation_reason": Choice(("duplicate", "fraudulent", "requested_by_customer", "abandoned")),
                "expand": texts,
            }
        ),
        _cancel,
    ),
    Endpoint(
        "POST",
        "/v1/payment_intents/{id}",
        Parameters(
            takes={
                "amount": _AMOUNT,
                "payment_method": text,
                "metadata": metadata,
                "description": text,
                "transfer_group": text,
                "expand": texts,
            },
            unmodelled=PAYMENT_INTENT | {"currency", "customer", "payment_method_types", "capture_method"},
        ),
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
        Parameters(takes={**PAGING, "customer": text}, unmodelled=frozenset({"customer_account"})),
        lambda call: call.listed("payment_intents", "customer"),
    ),
    Endpoint(
        "POST",
        "/v1/charges/{id}/capture",
        Parameters(
            takes={"amount": _AMOUNT, "expand": texts},
            unmodelled=PAYMENT_INTENT | {"application_fee", "transfer_group"},
        ),
        _capture_charge,
    ),
)
