"""Refunds: docs.stripe.com/api/refunds and docs.stripe.com/refunds.

Owns the rule that the refunds that stand never exceed their charge, and a refund's life:

    pending --> succeeded --> failed        a bank may send a refund back days after it succeeded
       |  |---> failed                      the money is in the balance again: `failure_balance_transaction`
       '--> requires_action --> succeeded, failed, or canceled by the client

A card's refund is `succeeded` when it is answered. The test cards and the control API make the others. A list is
read-your-writes, unlike Search.
"""

from __future__ import annotations

from benchmarks.services.stripe import balance_transactions, charges, events, later
from benchmarks.services.stripe.cards import card_of
from benchmarks.services.stripe.currencies import LARGEST_MINOR, check_step, money
from benchmarks.services.stripe.endpoint import PAGING, Call, Endpoint, updated_metadata
from benchmarks.services.stripe.errors import invalid, refused
from benchmarks.services.stripe.ledger import Json
from benchmarks.services.stripe.objects import refund
from benchmarks.services.stripe.params import Choice, Parameters, Whole, metadata, text, texts

REASONS = ("duplicate", "fraudulent", "requested_by_customer")

FAILURE_REASONS = (
    "charge_for_pending_refund_disputed",
    "declined",
    "expired_or_canceled_card",
    "insufficient_funds",
    "lost_or_stolen_card",
    "merchant_request",
    "unknown",
)
PENDING_REASONS = ("processing", "insufficient_funds", "charge_pending")

_NEXT = {
    "pending": ("succeeded", "failed", "requires_action", "pending"),
    "requires_action": ("succeeded", "failed", "pending"),
    "succeeded": ("failed", "pending", "requires_action"),
}
"""Where a refund can go. Real card refunds never go back from `succeeded` to `pending`; the control API may put one there
to have one that is under way."""


def _create(call: Call) -> Json:
    params = call.params
    charged = _charge_of(call)
    _require_refundable(call, charged)
    left = charged["amount_captured"] - call.ledger.refunded_minor(charged["id"])
    if left == 0:
        raise refused(f"Charge {charged['id']} has already been refunded.", code="charge_already_refunded")
    currency = charged["currency"]
    amount = params.get("amount", left)
    check_step(amount, currency)
    if amount > left:
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
    made["balance_transaction"] = balance_transactions.enter(
        call, "refund", -amount, {**made, "description": "REFUND FOR CHARGE"}
    )
    card = card_of(charged["payment_method"])
    if card.refund == "pending":
        made.update(status="pending", pending_reason="processing")
        later.plan(call, "refund_succeeds", made["id"])
    elif card.refund == "fail":
        later.plan(call, "refund_fails", made["id"])
    call.ledger.add("refunds", made)
    charged, before = charges.recount(call, charged)
    events.record(call, "refund.created", made)
    events.record(call, "charge.refunded", charged, previous=before)
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
        if not charged["paid"]:
            raise refused(f"Charge {charged['id']} failed and cannot be refunded.", param="charge")
        if not charged["captured"]:
            raise refused(
                f"Charge {charged['id']} was not captured. This local service does not release it by a refund; cancel its "
                "payment intent.",
                param="charge",
            )
        return charged
    intent = call.find("payment_intents", params["payment_intent"], param="payment_intent", status=400)
    if intent["status"] != "succeeded":
        raise refused(
            f"This PaymentIntent ({intent['id']}) does not have a successful charge to refund.",
            code="payment_intent_unexpected_state",
            param="payment_intent",
        )
    return call.find("charges", intent["latest_charge"], param="charge")


def _require_refundable(call: Call, charged: Json) -> None:
    """Refuse a charge that a chargeback took; an inquiry leaves it refundable (docs.stripe.com/disputes/how-disputes-work)."""
    found, _ = call.ledger.page("disputes", equal={"charge": charged["id"]}, created={}, limit=100)
    if not all(dispute["is_charge_refundable"] for dispute in found):
        raise refused(
            f"Charge {charged['id']} has been charged back; cannot issue a refund.", code="charge_disputed", param=None
        )


def settle(
    call: Call, refund_id: str, status: str, *, failure_reason: str | None = None, pending_reason: str | None = None
) -> Json:
    """Let the bank's word about a refund arrive: a control verb, or a test card's doing.

    Args:
        call: Who does it; inside its transaction.
        refund_id: Which refund.
        status: `succeeded`, `failed`, `pending` or `requires_action`.
        failure_reason: One of `FAILURE_REASONS`; for `failed` only.
        pending_reason: One of `PENDING_REASONS`; for `pending` only.

    Raises:
        ApiError: There is no such refund, or it cannot go there from where it is.
    """
    made = call.find("refunds", refund_id, param="refund")
    if status not in _NEXT.get(made["status"], ()):
        raise refused(f"The refund {refund_id} is {made['status']}; it cannot become {status} from there.")
    if failure_reason not in (None, *FAILURE_REASONS) or pending_reason not in (None, *PENDING_REASONS):
        raise refused(f"failure_reason is one of {FAILURE_REASONS}, pending_reason one of {PENDING_REASONS}.")
    before = dict(made)
    made.pop("pending_reason", None)
    made["status"] = status
    if status == "pending":
        made["pending_reason"] = pending_reason or "processing"
    if status == "requires_action":
        made["next_action"] = {
            "type": "display_details",
            "display_details": {"email_sent": {"email_sent_at": 0, "email_sent_to": ""}, "expires_at": 0},
        }
    else:
        made.pop("next_action", None)
    if status == "failed":
        _give_back(call, made, failure_reason or "unknown", "refund_failure")
    return _changed(call, made, before)


def _cancel(call: Call) -> Json:
    made = call.find("refunds", call.identifier, param="refund")
    if made["status"] != "requires_action":
        raise refused(
            f"This refund cannot be canceled, since its status is {made['status']}. Only a refund that requires an action of the "
            "customer (requires_action) can be."
        )
    before = dict(made)
    made["status"] = "canceled"
    made.pop("next_action", None)
    _give_back(call, made, "merchant_request", "refund_failure")
    return call.shown(_changed(call, made, before))


def _give_back(call: Call, made: Json, reason: str, kind: str) -> None:
    made["failure_reason"] = reason
    made["failure_balance_transaction"] = balance_transactions.enter(
        call, kind, made["amount"], {**made, "description": "REFUND FAILURE"}
    )


def _changed(call: Call, made: Json, before: Json) -> Json:
    call.ledger.replace("refunds", made)
    charged = call.find("charges", made["charge"], param="charge")
    charges.recount(call, charged)
    previous = {**events.changed(before, made), **{name: before[name] for name in before if name not in made}}
    events.record(call, "refund.updated", made, previous=previous)
    events.record(call, "charge.refund.updated", made, previous=previous)
    if made["status"] == "failed" and before["status"] != "failed":
        events.record(call, "refund.failed", made)
    return made


def succeeds(call: Call, refund_id: str) -> None:
    """A test card's refund that was pending succeeds, if it still is."""
    if call.find("refunds", refund_id, param="refund")["status"] == "pending":
        settle(call, refund_id, "succeeded")


def fails(call: Call, refund_id: str) -> None:
    """A test card's refund that had succeeded fails, if nothing else became of it."""
    if call.find("refunds", refund_id, param="refund")["status"] == "succeeded":
        settle(call, refund_id, "failed", failure_reason="unknown")


def charged_back(call: Call, charge: str, *, is_all: bool) -> None:
    """A chargeback posted: refunds of the charge that are still under way fail; with `is_all`, those that succeeded too."""
    found, _ = call.ledger.page("refunds", equal={"charge": charge}, created={}, limit=1000)
    under_way = ("pending", "requires_action", "succeeded") if is_all else ("pending", "requires_action")
    for made in reversed(found):
        if made["status"] in under_way:
            settle(call, made["id"], "failed", failure_reason="charge_for_pending_refund_disputed")


def _update(call: Call) -> Json:
    made = call.find("refunds", call.identifier, param="refund")
    before = dict(made)
    made["metadata"] = updated_metadata(made["metadata"], call.params.get("metadata"))
    return call.shown(_changed(call, made, before))


ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/refunds",
        Parameters(
            takes={
                "charge": text,
                "payment_intent": text,
                "amount": Whole(1, LARGEST_MINOR),
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
    Endpoint("POST", "/v1/refunds/{id}/cancel", Parameters(takes={"expand": texts}), _cancel),
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
