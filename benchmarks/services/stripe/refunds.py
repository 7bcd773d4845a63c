"""Refunds: docs.stripe.com/api/refunds and docs.stripe.com/refunds.

Owns the rule that refunds never exceed their charge. A list is read-your-writes, unlike Search.
"""

from __future__ import annotations

from benchmarks.services.stripe.endpoint import PAGING, Call, Endpoint, updated_metadata
from benchmarks.services.stripe.errors import invalid, refused
from benchmarks.services.stripe.ledger import Json
from benchmarks.services.stripe.objects import money, refund
from benchmarks.services.stripe.params import Choice, Parameters, Whole, metadata, text, texts
from benchmarks.services.stripe.payments import MAXIMUM_MINOR

REASONS = ("duplicate", "fraudulent", "requested_by_customer")


def _create(call: Call) -> Json:
    params = call.params
    charged = _charge_of(call)
    amount_before = call.ledger.refunded_minor(charged["id"])
    left = charged["amount"] - amount_before
    if left == 0:
        raise refused(f"Charge {charged['id']} has already been refunded.", code="charge_already_refunded")
    amount = params.get("amount", left)
    if amount > left:
        currency = charged["currency"]
        # Real Stripe sends no code with this one; clients go by the param and the message.
        raise refused(
            f"Refund amount ({money(amount, currency)}) is greater than unrefunded amount on charge ({money(left, currency)})",
            param="amount",
        )
    made = refund(
        charged,
        amount=amount,
        created=call.clock.stamp(),
        metadata=updated_metadata({}, params.get("metadata")),
        reason=params.get("reason"),
    )
    charged["amount_refunded"] = amount_before + amount
    charged["refunded"] = amount == left
    call.ledger.add("refunds", made)
    call.ledger.replace("charges", charged)
    return call.shown(made)


def _charge_of(call: Call) -> Json:
    params = call.params
    if ("charge" in params) == ("payment_intent" in params):
        raise invalid(
            "One of the following params should be provided for this request: payment_intent or charge.",
            code=None if "charge" in params else "parameter_missing",
            param="payment_intent",
        )
    if "charge" in params:
        charged = call.find("charges", params["charge"], param="charge", status=400)
        if not charged["captured"]:
            raise refused(f"Charge {charged['id']} failed and cannot be refunded.", param="charge")
        return charged
    intent = call.find("payment_intents", params["payment_intent"], param="payment_intent", status=400)
    if intent["status"] != "succeeded":
        raise refused(
            f"This PaymentIntent ({intent['id']}) does not have a successful charge to refund.",
            code="payment_intent_unexpected_state",
            param="payment_intent",
        )
    return call.find("charges", intent["latest_charge"], param="charge")


def _update(call: Call) -> Json:
    made = call.find("refunds", call.identifier, param="refund")
    made["metadata"] = updated_metadata(made["metadata"], call.params.get("metadata"))
    call.ledger.replace("refunds", made)
    return call.shown(made)


ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/refunds",
        Parameters(
            takes={
                "charge": text,
                "payment_intent": text,
                "amount": Whole(1, MAXIMUM_MINOR),
                "reason": Choice(REASONS),
                "metadata": metadata,
                "expand": texts,
            },
            unmodelled=frozenset(
                {"currency", "customer", "instructions_email", "origin", "refund_application_fee", "reverse_transfer"}
            ),
        ),
        _create,
    ),
    Endpoint("POST", "/v1/refunds/{id}", Parameters(takes={"metadata": metadata, "expand": texts}), _update),
    Endpoint(
        "GET",
        "/v1/refunds/{id}",
        Parameters(takes={"expand": texts}),
        lambda call: call.shown(call.find("refunds", call.identifier, param="refund")),
    ),
    Endpoint(
        "GET",
        "/v1/refunds",
        Parameters(takes={**PAGING, "charge": text, "payment_intent": text}),
        lambda call: call.listed("refunds", "charge", "payment_intent"),
    ),
)
