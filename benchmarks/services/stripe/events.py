"""Events: what happened, kept for clients that ask later; docs.stripe.com/api/events.

To record one from an endpoint or a control verb, inside the transaction that changes the object:

    events.record(call, "transfer.created", transfer)                       # the object as it now is
    events.record(call, "payout.updated", payout, previous={"metadata": before})  # an update says what was there

`call` is the `Call` of the request (or one that a control verb made: its request id is None, as for Stripe's own doings).
The object is copied as it is at that moment, never re-read. An event of a connected account carries its `account`, taken
from the call. A type must stand in `TYPES`; add yours there. Webhook deliveries are queued in the same transaction.

Owns the Event object and its lists. Must not know how webhooks are delivered.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.services.stripe import deliveries
from benchmarks.services.stripe.endpoint import PAGING, Call, Endpoint
from benchmarks.services.stripe.errors import invalid, missing
from benchmarks.services.stripe.ledger import PLATFORM, Json
from benchmarks.services.stripe.objects import API_VERSION, new_id
from benchmarks.services.stripe.params import Parameters, text, texts

TYPES = frozenset(
    {
        "account.updated",
        "balance.available",
        "billing.credit_balance_transaction.created",
        "billing.credit_grant.created",
        "billing.credit_grant.updated",
        "charge.captured",
        "charge.dispute.closed",
        "charge.dispute.created",
        "charge.dispute.funds_reinstated",
        "charge.dispute.funds_withdrawn",
        "charge.dispute.updated",
        "charge.expired",
        "charge.failed",
        "charge.refund.updated",
        "charge.refunded",
        "charge.succeeded",
        "charge.updated",
        "customer.created",
        "customer.deleted",
        "customer.updated",
        "payment_intent.amount_capturable_updated",
        "payment_intent.canceled",
        "payment_intent.created",
        "payment_intent.payment_failed",
        "payment_intent.succeeded",
        "payout.canceled",
        "payout.created",
        "payout.failed",
        "payout.paid",
        "payout.updated",
        "radar.early_fraud_warning.created",
        "refund.created",
        "refund.failed",
        "refund.updated",
        "transfer.created",
        "transfer.reversed",
        "transfer.updated",
    }
)
"""Every type this service records, spelled as docs.stripe.com/api/events/types spells it."""

MOST_TYPES = 20

KEPT_S = 30 * 24 * 60 * 60
"""How long an event can be asked for."""


def record(call: Call, kind: str, subject: Json, *, previous: dict[str, Any] | None = None) -> Json:
    """Enter that `kind` happened to `subject`, for `/v1/events` and for the webhook endpoints that want it.

    **Durable when** the transaction around it is committed, together with the change that it tells of.
    **If the process dies** before that, neither is there.

    Args:
        call: The request, or the control verb, that did it; call it inside its transaction.
        kind: The type, one of `TYPES`.
        subject: The object as it is now.
        previous: For an update: the fields that changed, with the values they had before.

    Raises:
        ValueError: The type is none of `TYPES`; a bug of the service.
    """
    if kind not in TYPES:
        raise ValueError(f"{kind} is not among the event types of this service; add it to events.TYPES")
    data: Json = {"object": subject} if previous is None else {"object": subject, "previous_attributes": previous}
    event: Json = {
        "id": new_id("evt"),
        "object": "event",
        "api_version": API_VERSION,
        "created": call.clock.stamp(),
        "data": data,
        "livemode": False,
        "pending_webhooks": 0,
        "request": {"id": call.request_id, "idempotency_key": call.idempotency_key},
        "type": kind,
    }
    if call.account != PLATFORM:
        event["account"] = call.account
    wanted = deliveries.wanting(call.ledger, kind, account=call.account)
    event["pending_webhooks"] = len(wanted)
    call.ledger.add("events", event, account=call.account)
    deliveries.queue(call.ledger, event, wanted)
    return event


def changed(before: Json, after: Json) -> dict[str, Any]:
    """What an update's `previous_attributes` are: the old values of the fields that differ; an absent one is None."""
    return {name: before.get(name) for name in after if before.get(name) != after[name]}


def _listed(call: Call) -> Json:
    if "type" in call.params and "types" in call.params:
        raise invalid("You may only specify one of these parameters: type, types.", param="types")
    kinds = call.params.get("types", [call.params["type"]] if "type" in call.params else [])
    if len(kinds) > MOST_TYPES:
        raise invalid(f"You can filter by at most {MOST_TYPES} types, not {len(kinds)}.", param="types")
    kept = replace(call, params={**call.params, "created": _kept(call)})
    page = kept.listed("events", equal={"account": call.account}, patterns={"type": kinds} if kinds else None)
    return {**page, "data": [_counted(call, event) for event in page["data"]]}


def _kept(call: Call) -> dict[str, int]:
    """The bounds that were asked for, and that an event is kept for 30 days."""
    bounds: dict[str, int] = dict(call.params.get("created", {}))
    bounds["gte"] = max(bounds.get("gte", 0), call.clock.stamp() - KEPT_S)
    return bounds


def _shown(call: Call) -> Json:
    found = call.find("events", call.identifier, param="id")
    if found["created"] < call.clock.stamp() - KEPT_S:
        raise missing("event", call.identifier, param="id")
    return call.shown(_counted(call, found))


def _counted(call: Call, event: Json) -> Json:
    """With how many endpoints have yet to answer; the rest of an event never changes."""
    return {**event, "pending_webhooks": deliveries.pending(call.ledger, event["id"])}


ENDPOINTS = (
    Endpoint(
        "GET",
        "/v1/events",
        Parameters(takes={**PAGING, "type": text, "types": texts}, unmodelled=frozenset({"delivery_success"})),
        _listed,
        is_per_account=True,
    ),
    Endpoint("GET", "/v1/events/{id}", Parameters(takes={"expand": texts}), _shown, is_per_account=True),
)
