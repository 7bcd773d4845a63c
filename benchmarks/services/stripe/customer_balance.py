"""Customer balance transactions: docs.stripe.com/api/customer_balance_transactions and docs.stripe.com/billing/customer/balance.

Owns the sum: a negative amount is a credit to the customer, and `ending_balance` is the balance of that currency after it.
"""

from __future__ import annotations

from benchmarks.services.stripe.customers import living_customer
from benchmarks.services.stripe.endpoint import PAGING, Call, Endpoint, updated_metadata
from benchmarks.services.stripe.errors import invalid, missing
from benchmarks.services.stripe.happening import happened
from benchmarks.services.stripe.ledger import Json
from benchmarks.services.stripe.objects import new_id
from benchmarks.services.stripe.params import Parameters, Whole, currency, metadata, optional, text, texts
from benchmarks.services.stripe.payments import MAXIMUM_MINOR

_PATH = "/v1/customers/{id}/balance_transactions"


def _create(call: Call) -> Json:
    params = call.params
    customer = living_customer(call, call.identifier, param="customer")
    if params["amount"] == 0:
        raise invalid("An adjustment of 0 changes no balance.", code="parameter_invalid_integer", param="amount")
    before = _balance(call, params["currency"])
    made = {
        "id": new_id("cbtxn"),
        "object": "customer_balance_transaction",
        "amount": params["amount"],
        "checkout_session": None,
        "created": call.clock.stamp(),
        "credit_note": None,
        "currency": params["currency"],
        "customer": customer["id"],
        "customer_account": None,
        "description": params.get("description"),
        "ending_balance": before + params["amount"],
        "invoice": None,
        "livemode": False,
        "metadata": updated_metadata({}, params.get("metadata")),
        "type": "adjustment",
    }
    call.ledger.add("customer_balance_transactions", made)
    changed = {**customer, "currency": customer["currency"] or params["currency"]}
    if changed["currency"] == params["currency"]:
        changed["balance"] = made["ending_balance"]
    call.ledger.replace("customers", changed)
    # There is no event of the transaction's own; the customer's is what tells of it.
    happened(call, "customer.updated", changed, before=customer)
    return call.shown(made)


def _balance(call: Call, currency: str) -> int:
    """What the customer owes (positive) or has left (negative) in a currency: the sum, and not a figure kept beside it."""
    made, _ = call.ledger.page(
        "customer_balance_transactions", equal={"customer": call.identifier}, created={}, limit=2**40
    )
    return sum(one["amount"] for one in made if one["currency"] == currency)


def _find(call: Call) -> Json:
    call.find("customers", call.identifier, param="customer")
    found = call.find("customer_balance_transactions", call.child, param="id")
    if found["customer"] != call.identifier:
        raise missing("customer_balance_transaction", call.child, param="id")
    return found


def _update(call: Call) -> Json:
    living_customer(call, call.identifier, param="customer")
    found = _find(call)
    found["metadata"] = updated_metadata(found["metadata"], call.params.get("metadata"))
    if "description" in call.params:
        found["description"] = call.params["description"]
    call.ledger.replace("customer_balance_transactions", found)
    return call.shown(found)


def _list(call: Call) -> Json:
    call.find("customers", call.identifier, param="customer")
    url = _PATH.replace("{id}", call.identifier)
    return call.listed("customer_balance_transactions", equal={"customer": call.identifier}, url=url)


ENDPOINTS = (
    Endpoint(
        "POST",
        _PATH,
        Parameters(
            takes={
                "amount": Whole(-MAXIMUM_MINOR, MAXIMUM_MINOR),
                "currency": currency,
                "description": optional(text),
                "metadata": metadata,
                "expand": texts,
            },
            needs=("amount", "currency"),
        ),
        _create,
    ),
    Endpoint(
        "POST",
        f"{_PATH}/{{child}}",
        Parameters(takes={"description": optional(text), "metadata": metadata, "expand": texts}),
        _update,
    ),
    Endpoint("GET", f"{_PATH}/{{child}}", Parameters(takes={"expand": texts}), lambda call: call.shown(_find(call))),
    Endpoint("GET", _PATH, Parameters(takes=PAGING, unmodelled=frozenset({"invoice"})), _list),
)
