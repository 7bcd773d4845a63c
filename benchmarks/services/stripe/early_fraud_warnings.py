"""Early fraud warnings: an issuer says that a payment may be fraud; docs.stripe.com/api/radar/early_fraud_warnings."""

from __future__ import annotations

from benchmarks.services.stripe import events
from benchmarks.services.stripe.endpoint import PAGING, Call, Endpoint
from benchmarks.services.stripe.ledger import Json
from benchmarks.services.stripe.objects import new_id
from benchmarks.services.stripe.params import Parameters, text, texts

_URL = "/v1/radar/early_fraud_warnings"


def issue(call: Call, charged: Json) -> None:
    """Enter a warning about a charge."""
    made: Json = {
        "id": new_id("issfr"),
        "object": "radar.early_fraud_warning",
        "actionable": True,
        "charge": charged["id"],
        "created": call.clock.stamp(),
        "fraud_type": "misc",
        "livemode": False,
        "payment_intent": charged["payment_intent"],
    }
    call.ledger.add("early_fraud_warnings", made)
    events.record(call, "radar.early_fraud_warning.created", made)


def _actual(call: Call, found: Json) -> Json:
    """Actionable as long as a refund can still keep a dispute away: the charge is neither refunded in full nor disputed."""
    named = found["charge"]
    charged = named if isinstance(named, dict) else call.find("charges", named, param="charge")
    return {**found, "actionable": not (charged["refunded"] or charged["disputed"])}


def _list(call: Call) -> Json:
    page = call.listed("early_fraud_warnings", "charge", "payment_intent", url=_URL)
    return {**page, "data": [_actual(call, one) for one in page["data"]]}


ENDPOINTS = (
    Endpoint(
        "GET",
        _URL + "/{id}",
        Parameters(takes={"expand": texts}),
        lambda call: call.shown(_actual(call, call.find("early_fraud_warnings", call.identifier, param="id"))),
    ),
    Endpoint("GET", _URL, Parameters(takes={**PAGING, "charge": text, "payment_intent": text}), _list),
)
