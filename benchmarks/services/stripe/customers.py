"""Customers: docs.stripe.com/api/customers.

Owns what a deleted customer still answers: it can be retrieved, says `deleted`, and nothing else can be done with it.
"""

from __future__ import annotations

from typing import Any

from benchmarks.services.stripe.endpoint import PAGING, Call, Endpoint, updated_metadata
from benchmarks.services.stripe.errors import missing
from benchmarks.services.stripe.happening import happened
from benchmarks.services.stripe.ledger import Json
from benchmarks.services.stripe.objects import new_id
from benchmarks.services.stripe.params import Parameters, metadata, optional, text, texts

_PLAIN_FIELDS = ("description", "email", "name", "phone")
_TAKES = {**dict.fromkeys(_PLAIN_FIELDS, optional(text)), "metadata": metadata, "expand": texts}
_UNMODELLED = frozenset(
    {
        "address",
        "balance",
        "business_name",
        "cash_balance",
        "default_source",
        "individual_name",
        "invoice_prefix",
        "invoice_settings",
        "next_invoice_sequence",
        "payment_method",
        "preferred_locales",
        "shipping",
        "source",
        "tax",
        "tax_exempt",
        "tax_id_data",
        "test_clock",
        "validate",
    }
)


def living_customer(call: Call, identifier: str, *, param: str, status: int = 404) -> Json:
    """The customer, or the refusal that there is none; a deleted one is none (docs.stripe.com/api/customers/delete).

    Args:
        call: The request.
        identifier: Whose.
        param: Which parameter named it.
        status: 404 where the path names it, 400 where a parameter does.
    """
    found = call.find("customers", identifier, param=param, status=status)
    if found.get("deleted"):
        raise missing("customer", identifier, param=param, status=status)
    return found


def _create(call: Call) -> Json:
    made = _customer(call.params, created=call.clock.stamp())
    call.ledger.add("customers", made)
    happened(call, "customer.created", made)
    return call.shown(made)


def _update(call: Call) -> Json:
    found = living_customer(call, call.identifier, param="customer")
    before = dict(found)
    found["metadata"] = updated_metadata(found["metadata"], call.params.get("metadata"))
    found.update({name: call.params[name] for name in _PLAIN_FIELDS if name in call.params})
    call.ledger.replace("customers", found)
    happened(call, "customer.updated", found, before=before)
    return call.shown(found)


def _delete(call: Call) -> Json:
    found = living_customer(call, call.identifier, param="customer")
    gone = {"id": found["id"], "object": "customer", "deleted": True}
    call.ledger.replace("customers", gone)
    happened(call, "customer.deleted", found)
    return gone


def _customer(params: dict[str, Any], *, created: int) -> Json:
    return {
        "id": new_id("cus", 14),
        "object": "customer",
        "address": None,
        "balance": 0,
        "created": created,
        "currency": None,
        "default_source": None,
        "delinquent": False,
        "description": params.get("description"),
        "discount": None,
        "email": params.get("email"),
        "invoice_prefix": new_id("x", 8)[2:].upper(),
        "invoice_settings": {
            "custom_fields": None,
            "default_payment_method": None,
            "footer": None,
            "rendering_options": None,
        },
        "livemode": False,
        "metadata": updated_metadata({}, params.get("metadata")),
        "name": params.get("name"),
        "next_invoice_sequence": 1,
        "phone": params.get("phone"),
        "preferred_locales": [],
        "shipping": None,
        "tax_exempt": "none",
        "test_clock": None,
    }


ENDPOINTS = (
    Endpoint("POST", "/v1/customers", Parameters(takes=_TAKES, unmodelled=_UNMODELLED), _create),
    Endpoint("POST", "/v1/customers/{id}", Parameters(takes=_TAKES, unmodelled=_UNMODELLED), _update),
    Endpoint("DELETE", "/v1/customers/{id}", Parameters(takes={}), _delete),
    Endpoint(
        "GET",
        "/v1/customers/{id}",
        Parameters(takes={"expand": texts}),
        lambda call: call.shown(call.find("customers", call.identifier, param="id")),
    ),
    Endpoint(
        "GET",
        "/v1/customers",
        Parameters(takes={**PAGING, "email": text}, unmodelled=frozenset({"test_clock"})),
        lambda call: call.listed("customers", "email", equal={"deleted": None}),
    ),
)
