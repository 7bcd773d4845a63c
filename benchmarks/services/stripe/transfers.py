"""Transfers to connected accounts and their reversals: docs.stripe.com/api/transfers, docs.stripe.com/api/transfer_reversals.

Owns what a transfer may move: what is available in its currency, or, with `source_transaction`, what is left of that
charge, which then becomes available when the charge does (docs.stripe.com/connect/separate-charges-and-transfers). A
transfer in a currency is credited in it; conversion into the destination's own currency is not modelled.
"""

from __future__ import annotations

from typing import Any

from benchmarks.services.stripe import balance
from benchmarks.services.stripe.endpoint import PAGING, Call, Endpoint, updated_metadata
from benchmarks.services.stripe.errors import invalid, missing, refused
from benchmarks.services.stripe.happening import happened
from benchmarks.services.stripe.ledger import PLATFORM, Json
from benchmarks.services.stripe.objects import listing, money, new_id
from benchmarks.services.stripe.params import Choice, Parameters, Whole, currency, metadata, optional, text, texts
from benchmarks.services.stripe.payments import MAXIMUM_MINOR

_REVERSALS = "/v1/transfers/{id}/reversals"


def _create(call: Call) -> Json:
    params = call.params
    destination = _destination(call)
    charged = None
    if "source_transaction" in params:
        charged = call.find("charges", params["source_transaction"], param="source_transaction", status=400)
    amount = _amount(call, charged)
    now = call.clock.stamp()
    available_on = now
    if charged is None:
        balance.require_available(call, amount, params["currency"])
    else:
        available_on = balance.available_on(call, charged)
    made: Json = {
        "id": new_id("tr"),
        "object": "transfer",
        "amount": amount,
        "amount_reversed": 0,
        "balance_transaction": None,
        "created": now,
        "currency": params["currency"],
        "description": params.get("description"),
        "destination": destination["id"],
        "destination_payment": new_id("py"),
        "livemode": False,
        "metadata": updated_metadata({}, params.get("metadata")),
        "reversals": None,
        "reversed": False,
        "source_transaction": None if charged is None else charged["id"],
        "source_type": params.get("source_type", "card"),
        "transfer_group": _group(params, charged),
    }
    made["reversals"] = listing([], has_more=False, url=_REVERSALS.replace("{id}", made["id"]))
    made["balance_transaction"] = balance.enter(
        call, "transfer", -amount, made, account=PLATFORM, available_on=available_on
    )
    balance.enter(
        call,
        "payment",
        amount,
        made,
        account=destination["id"],
        available_on=available_on,
        source=made["destination_payment"],
    )
    call.ledger.add("transfers", made)
    happened(call, "transfer.created", made)
    return call.shown(made)


def _destination(call: Call) -> Json:
    name = call.params["destination"]
    found = call.ledger.find("accounts", name)
    if found is None:
        raise missing("destination", name, param="destination", status=400)
    if found["capabilities"].get("transfers") != "active":
        raise refused(
            "Your destination account needs to have at least one of the following capabilities enabled: transfers, "
            "crypto_transfers, legacy_payments",
            code="insufficient_capabilities_for_transfer",
        )
    return found


def _amount(call: Call, charged: Json | None) -> int:
    params = call.params
    if charged is None:
        if "amount" not in params:
            raise invalid("Missing required param: amount.", code="parameter_missing", param="amount")
        return int(params["amount"])
    source = charged["currency"]
    if not charged["captured"]:
        raise refused(
            f"Charge {charged['id']} was not captured; nothing can be transferred from it.", param="source_transaction"
        )
    if params["currency"] != source:
        raise refused(
            f"The currency of source_transaction's balance transaction ({source}) must be the same as the transfer currency "
            f"({params['currency']})",
            param="currency",
        )
    before, _ = call.ledger.page("transfers", equal={"source_transaction": charged["id"]}, created={}, limit=2**40)
    used = sum(one["amount"] - one["amount_reversed"] for one in before)
    amount = int(params.get("amount", charged["amount_captured"] - used))
    if amount < 1 or used + amount > charged["amount_captured"]:
        whole = money(charged["amount_captured"], source)
        earlier = (
            f" (There are transfers using this source already, amounting to {money(used, source)})" if used else ""
        )
        raise refused(
            f"Transfers using this transaction as a source must not exceed the source amount of {whole}.{earlier}",
            param="amount",
        )
    return amount


def _group(params: dict[str, Any], charged: Json | None) -> str | None:
    """The group asked for, else the source charge's, else one named after its payment, as Stripe invents one."""
    if "transfer_group" in params:
        return str(params["transfer_group"])
    if charged is None:
        return None
    return charged["transfer_group"] or f"group_{charged['payment_intent'] or charged['id']}"


def _update(call: Call) -> Json:
    found = call.find("transfers", call.identifier, param="id")
    before = dict(found)
    found["metadata"] = updated_metadata(found["metadata"], call.params.get("metadata"))
    if "description" in call.params:
        found["description"] = call.params["description"]
    call.ledger.replace("transfers", found)
    happened(call, "transfer.updated", found, before=before)
    return call.shown(found)


def _reverse(call: Call) -> Json:
    params = call.params
    found = call.find("transfers", call.identifier, param="id")
    before = dict(found)
    left = found["amount"] - found["amount_reversed"]
    if left == 0:
        raise refused(f"Transfer {found['id']} has already been fully reversed.", param="id")
    amount = params.get("amount", left)
    if amount > left:
        raise refused(
            f"Reversal amount ({money(amount, found['currency'])}) is greater than unreversed amount on transfer "
            f"({money(left, found['currency'])})",
            param="amount",
        )
    balance.require_available(call, amount, found["currency"], account=found["destination"], is_pending_enough=True)
    made: Json = {
        "id": new_id("trr"),
        "object": "transfer_reversal",
        "amount": amount,
        "balance_transaction": None,
        "created": call.clock.stamp(),
        "currency": found["currency"],
        "destination_payment_refund": new_id("pyr"),
        "metadata": updated_metadata({}, params.get("metadata")),
        "source_refund": None,
        "transfer": found["id"],
    }
    now = call.clock.stamp()
    made["balance_transaction"] = balance.enter(
        call, "transfer_refund", amount, made, account=PLATFORM, available_on=now
    )
    refund = made["destination_payment_refund"]
    balance.enter(call, "payment_refund", -amount, made, account=found["destination"], available_on=now, source=refund)
    call.ledger.add("transfer_reversals", made)
    found["amount_reversed"] += amount
    found["reversed"] = found["amount_reversed"] == found["amount"]
    newest, has_more = call.ledger.page("transfer_reversals", equal={"transfer": found["id"]}, created={}, limit=10)
    found["reversals"] = {**found["reversals"], "data": newest, "has_more": has_more}
    call.ledger.replace("transfers", found)
    happened(call, "transfer.reversed", found, before=before)
    return call.shown(made)


def _find_reversal(call: Call) -> Json:
    call.find("transfers", call.identifier, param="transfer")
    found = call.find("transfer_reversals", call.child, param="id")
    if found["transfer"] != call.identifier:
        raise missing("transfer_reversal", call.child, param="id")
    return found


def _update_reversal(call: Call) -> Json:
    found = _find_reversal(call)
    found["metadata"] = updated_metadata(found["metadata"], call.params.get("metadata"))
    call.ledger.replace("transfer_reversals", found)
    return call.shown(found)


def _list_reversals(call: Call) -> Json:
    call.find("transfers", call.identifier, param="id")
    url = _REVERSALS.replace("{id}", call.identifier)
    return call.listed("transfer_reversals", equal={"transfer": call.identifier}, url=url)


_SHOWN = Parameters(takes={"expand": texts})
_PAGED = {name: check for name, check in PAGING.items() if name != "created"}

ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/transfers",
        Parameters(
            takes={
                "amount": Whole(1, MAXIMUM_MINOR),
                "currency": currency,
                "description": text,
                "destination": text,
                "metadata": metadata,
                "source_transaction": text,
                "source_type": Choice(("card",)),
                "transfer_group": text,
                "expand": texts,
            },
            needs=("currency", "destination"),
        ),
        _create,
    ),
    Endpoint(
        "POST",
        "/v1/transfers/{id}",
        Parameters(takes={"description": optional(text), "metadata": metadata, "expand": texts}),
        _update,
    ),
    Endpoint(
        "GET",
        "/v1/transfers/{id}",
        _SHOWN,
        lambda call: call.shown(call.find("transfers", call.identifier, param="id")),
    ),
    Endpoint(
        "GET",
        "/v1/transfers",
        Parameters(takes={**PAGING, "destination": text, "transfer_group": text}),
        lambda call: call.listed("transfers", "destination", "transfer_group"),
    ),
    Endpoint(
        "POST",
        _REVERSALS,
        Parameters(
            takes={"amount": Whole(1, MAXIMUM_MINOR), "metadata": metadata, "expand": texts},
            unmodelled=frozenset({"description", "refund_application_fee"}),
        ),
        _reverse,
    ),
    Endpoint(
        "POST", f"{_REVERSALS}/{{child}}", Parameters(takes={"metadata": metadata, "expand": texts}), _update_reversal
    ),
    Endpoint("GET", f"{_REVERSALS}/{{child}}", _SHOWN, lambda call: call.shown(_find_reversal(call))),
    Endpoint("GET", _REVERSALS, Parameters(takes=_PAGED), _list_reversals),
)
