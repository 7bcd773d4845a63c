"""Webhook endpoints: docs.stripe.com/api/webhook_endpoints.

Owns which addresses hear of which events, and their signing secrets. An address outside this machine is refused: the
service delivers over loopback and nothing else. Must not know how deliveries are sent.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from benchmarks.services.stripe.endpoint import PAGING, Call, Endpoint, updated_metadata
from benchmarks.services.stripe.errors import invalid
from benchmarks.services.stripe.events import TYPES
from benchmarks.services.stripe.ledger import Json, Ledger
from benchmarks.services.stripe.objects import API_VERSION, new_id
from benchmarks.services.stripe.params import Choice, Parameters, flag, metadata, optional, text, texts

MOST = 16
"""Endpoints that an account may have (docs.stripe.com/webhooks)."""


def secret_of(ledger: Ledger, endpoint: str) -> str:
    """The secret that signs what goes to the endpoint."""
    found = ledger.rows("SELECT secret FROM secrets WHERE endpoint = ?", (endpoint,))
    return str(found[0]["secret"])


def _create(call: Call) -> Json:
    params = call.params
    number = call.ledger.rows("SELECT count(*) AS number FROM webhook_endpoints")[0]["number"]
    if number >= MOST:
        raise invalid(f"You have reached the maximum of {MOST} webhook endpoints.")
    made: Json = {
        "id": new_id("we"),
        "object": "webhook_endpoint",
        "api_version": params.get("api_version"),
        "application": None,
        "created": call.clock.stamp(),
        "description": params.get("description"),
        "enabled_events": _types(params["enabled_events"]),
        "livemode": False,
        "metadata": updated_metadata({}, params.get("metadata")),
        "status": "enabled",
        "url": _loopback(params["url"]),
    }
    secret = new_id("whsec", 32)
    call.ledger.add("webhook_endpoints", made)
    call.ledger.execute(
        "INSERT INTO secrets (endpoint, secret, connect) VALUES (?, ?, ?)",
        (made["id"], secret, int(params.get("connect", False))),
    )
    # The secret is told here and never again.
    return call.shown({**made, "secret": secret})


def _update(call: Call) -> Json:
    made = call.find("webhook_endpoints", call.identifier, param="webhook_endpoint")
    params = call.params
    if "url" in params:
        made["url"] = _loopback(params["url"])
    if "enabled_events" in params:
        made["enabled_events"] = _types(params["enabled_events"])
    if "description" in params:
        made["description"] = params["description"] or None
    if "disabled" in params:
        made["status"] = "disabled" if params["disabled"] else "enabled"
    made["metadata"] = updated_metadata(made["metadata"], params.get("metadata"))
    call.ledger.replace("webhook_endpoints", made)
    if made["status"] == "disabled":
        _give_up(call)
    return call.shown(made)


def _delete(call: Call) -> Json:
    made = call.find("webhook_endpoints", call.identifier, param="webhook_endpoint")
    _give_up(call)
    call.ledger.execute("DELETE FROM secrets WHERE endpoint = ?", (made["id"],))
    call.ledger.execute("DELETE FROM webhook_endpoints WHERE id = ?", (made["id"],))
    return {"id": made["id"], "object": "webhook_endpoint", "deleted": True}


def _give_up(call: Call) -> None:
    """What was on its way to an endpoint that is gone or disabled is not sent any more (docs.stripe.com/webhooks)."""
    call.ledger.execute(
        "UPDATE deliveries SET state = 'failed', told = 'the endpoint was disabled or deleted'"
        " WHERE endpoint = ? AND state IN ('queued', 'held')",
        (call.identifier,),
    )


def _types(kinds: list[str]) -> list[str]:
    if not kinds:
        raise invalid("You must enable at least one event.", param="enabled_events")
    for position, kind in enumerate(kinds):
        if kind != "*" and kind not in TYPES:
            raise invalid(
                f"Invalid enabled_events[{position}]: {kind} is not an event type that this local service records; see "
                "events.TYPES, or use *.",
                param=f"enabled_events[{position}]",
            )
    if "*" in kinds and len(kinds) > 1:
        raise invalid("You cannot enable other events together with *.", param="enabled_events")
    return kinds


def _loopback(url: str) -> str:
    """The address, if it is plain HTTP on this machine.

    Raises:
        ApiError: It is not. The real service asks for HTTPS in live mode only.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        is_here = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_here, port = False, None
    if not is_here or parts.scheme != "http" or not port or parts.username:
        raise invalid(
            f"Invalid URL: {url}. This local service delivers to plain HTTP addresses on loopback only, with a port: "
            "http://127.0.0.1:PORT/...",
            code="url_invalid",
            param="url",
        )
    return url


_TAKES = {"description": optional(text), "enabled_events": texts, "metadata": metadata, "url": text, "expand": texts}

ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/webhook_endpoints",
        Parameters(
            takes={**_TAKES, "api_version": Choice((API_VERSION,)), "connect": flag},
            needs=("url", "enabled_events"),
        ),
        _create,
    ),
    Endpoint("POST", "/v1/webhook_endpoints/{id}", Parameters(takes={**_TAKES, "disabled": flag}), _update),
    Endpoint(
        "GET",
        "/v1/webhook_endpoints/{id}",
        Parameters(takes={"expand": texts}),
        lambda call: call.shown(call.find("webhook_endpoints", call.identifier, param="webhook_endpoint")),
    ),
    Endpoint("GET", "/v1/webhook_endpoints", Parameters(takes=PAGING), lambda call: call.listed("webhook_endpoints")),
    Endpoint("DELETE", "/v1/webhook_endpoints/{id}", Parameters(takes={}), _delete),
)
