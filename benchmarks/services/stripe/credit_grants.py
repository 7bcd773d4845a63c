"""Billing credit grants: docs.stripe.com/api/billing/credit-grant and docs.stripe.com/billing/subscriptions/usage-based/billing-credits.

Owns when a grant can still be expired or voided. What invoices would draw from it is not modelled: there are no invoices.
"""

from __future__ import annotations

from benchmarks.services.stripe.customers import living_customer
from benchmarks.services.stripe.endpoint import PAGING, Call, Endpoint, updated_metadata
from benchmarks.services.stripe.errors import invalid, refused
from benchmarks.services.stripe.happening import happened
from benchmarks.services.stripe.ledger import Json
from benchmarks.services.stripe.objects import new_id
from benchmarks.services.stripe.params import (
    Choice,
    Group,
    Parameters,
    Rows,
    Whole,
    currency,
    metadata,
    optional,
    text,
    texts,
)
from benchmarks.services.stripe.payments import MAXIMUM_MINOR

_MOMENT = Whole(1, 2**40)
_AMOUNT = Group(
    {
        "type": Choice(("monetary",)),
        "monetary": Group({"currency": currency, "value": Whole(1, MAXIMUM_MINOR)}, needs=("currency", "value")),
    },
    needs=("type",),
)
_SCOPE = Group({"price_type": Choice(("metered",)), "prices": Rows(Group({"id": text}, needs=("id",)))})
_CONFIG = Group({"scope": _SCOPE}, needs=("scope",))


def _create(call: Call) -> Json:
    params = call.params
    amount, scope = params["amount"], params["applicability_config"]["scope"]
    if "monetary" not in amount:
        raise invalid("Missing required param: amount[monetary].", code="parameter_missing", param="amount[monetary]")
    if len(scope) != 1:
        raise invalid(
            "Exactly one of `price_type` and `prices` says what the credits apply to.",
            param="applicability_config[scope]",
        )
    customer = living_customer(call, params["customer"], param="customer", status=400)
    now = call.clock.stamp()
    effective_at, expires_at = params.get("effective_at", now), params.get("expires_at")
    if expires_at is not None and expires_at <= max(now, effective_at):
        raise refused("`expires_at` must be in the future and after `effective_at`.", param="expires_at")
    made = {
        "id": new_id("credgr_test"),
        "object": "billing.credit_grant",
        "amount": {"monetary": amount["monetary"], "type": "monetary"},
        "applicability_config": {"scope": scope},
        "category": params.get("category", "paid"),
        "created": now,
        "customer": customer["id"],
        "customer_account": None,
        "effective_at": effective_at,
        "expires_at": expires_at,
        "livemode": False,
        "metadata": updated_metadata({}, params.get("metadata")),
        "name": params.get("name"),
        "priority": params.get("priority", 50),
        "test_clock": None,
        "updated": now,
        "voided_at": None,
    }
    call.ledger.add("credit_grants", made)
    happened(call, "billing.credit_grant.created", made)
    return call.shown(made)


def _update(call: Call) -> Json:
    found = _find(call)
    before = dict(found)
    if "expires_at" in call.params:
        _require_open(call, found, "update the expiry of")
        expires_at = call.params["expires_at"]
        if expires_at is not None and expires_at <= call.clock.stamp():
            raise refused("`expires_at` must be in the future; to end a grant now, expire it.", param="expires_at")
        found["expires_at"] = expires_at
    found["metadata"] = updated_metadata(found["metadata"], call.params.get("metadata"))
    return _changed(call, found, before)


def _expire(call: Call) -> Json:
    found = _find(call)
    before = dict(found)
    _require_open(call, found, "expire")
    found["expires_at"] = call.clock.stamp()
    return _changed(call, found, before)


def _void(call: Call) -> Json:
    found = _find(call)
    before = dict(found)
    _require_open(call, found, "void")
    found["voided_at"] = call.clock.stamp()
    return _changed(call, found, before)


def _changed(call: Call, found: Json, before: Json) -> Json:
    found["updated"] = call.clock.stamp()
    call.ledger.replace("credit_grants", found)
    happened(call, "billing.credit_grant.updated", found, before=before)
    return call.shown(found)


def _find(call: Call) -> Json:
    return call.find("credit_grants", call.identifier, param="id")


def _require_open(call: Call, found: Json, verb: str) -> None:
    if found["voided_at"] is not None:
        raise refused(f"You cannot {verb} this credit grant, because it has been voided.")
    if found["expires_at"] is not None and found["expires_at"] <= call.clock.stamp():
        raise refused(f"You cannot {verb} this credit grant, because it has expired.")


ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/billing/credit_grants",
        Parameters(
            takes={
                "amount": _AMOUNT,
                "applicability_config": _CONFIG,
                "category": Choice(("paid", "promotional")),
                "customer": text,
                "effective_at": _MOMENT,
                "expires_at": _MOMENT,
                "metadata": metadata,
                "name": text,
                "priority": Whole(0, 100),
                "expand": texts,
            },
            needs=("amount", "applicability_config", "customer"),
            unmodelled=frozenset({"customer_account"}),
        ),
        _create,
    ),
    Endpoint(
        "POST",
        "/v1/billing/credit_grants/{id}",
        Parameters(takes={"expires_at": optional(_MOMENT), "metadata": metadata, "expand": texts}),
        _update,
    ),
    Endpoint("POST", "/v1/billing/credit_grants/{id}/expire", Parameters(takes={"expand": texts}), _expire),
    Endpoint("POST", "/v1/billing/credit_grants/{id}/void", Parameters(takes={"expand": texts}), _void),
    Endpoint(
        "GET",
        "/v1/billing/credit_grants/{id}",
        Parameters(takes={"expand": texts}),
        lambda call: call.shown(_find(call)),
    ),
    Endpoint(
        "GET",
        "/v1/billing/credit_grants",
        Parameters(
            takes={**{name: check for name, check in PAGING.items() if name != "created"}, "customer": text},
            unmodelled=frozenset({"customer_account"}),
        ),
        lambda call: call.listed("credit_grants", "customer", url="/v1/billing/credit_grants"),
    ),
)
