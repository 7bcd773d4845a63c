"""The queue of webhook deliveries: which event goes to which endpoint, and what became of it.

Owns the `deliveries` table. A delivery is queued in the transaction of its event, so that none is lost by a kill.
Must not know HTTP; `delivery.py` sends what is queued.

    queued --sent, answered 2xx--> delivered
           --anything else--> queued again after a wait, until the attempts are used up --> failed
    held (control API) --released--> queued
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.services.stripe.ledger import PLATFORM, Json, Ledger

ALL_TYPES = "*"


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """One event on its way to one endpoint."""

    number: int
    event: str
    type: str
    endpoint: str
    attempts: int
    is_struck: bool
    body: str


def wanting(ledger: Ledger, kind: str, *, account: str) -> list[str]:
    """The enabled webhook endpoints that asked for events of this type, by their ids.

    An endpoint made with `connect` hears of connected accounts, any other of the platform
    (docs.stripe.com/connect/webhooks).
    """
    query = "SELECT body, connect FROM webhook_endpoints JOIN secrets ON endpoint = id ORDER BY seq"
    told = []
    for row in ledger.rows(query):
        endpoint = json.loads(row["body"])
        hears = bool(row["connect"]) == (account != PLATFORM)
        if hears and endpoint["status"] == "enabled" and {kind, ALL_TYPES} & set(endpoint["enabled_events"]):
            told.append(str(endpoint["id"]))
    return told


def queue(ledger: Ledger, event: Json, endpoints: list[str]) -> None:
    """Enter the deliveries of an event; to be called inside its transaction."""
    for endpoint in endpoints:
        ledger.execute(
            "INSERT INTO deliveries (event, type, endpoint, body, state, due_at) VALUES (?, ?, ?, ?, 'queued', ?)",
            (event["id"], event["type"], endpoint, json.dumps(event, indent=2), time.time()),
        )
    if endpoints:
        ledger.woken()


def pending(ledger: Ledger, event: str) -> int:
    """How many endpoints have not taken the event yet."""
    query = "SELECT count(*) AS number FROM deliveries WHERE event = ? AND state IN ('queued', 'held')"
    return int(ledger.rows(query, (event,))[0]["number"])


def due(ledger: Ledger, endpoint: str) -> tuple[Delivery | None, float | None]:
    """The next delivery to an endpoint whose time has come, oldest first; or None and when the next one's time comes."""
    row = ledger.rows(
        "SELECT * FROM deliveries WHERE endpoint = ? AND state = 'queued' AND due_at <= ? ORDER BY place, seq LIMIT 1",
        (endpoint, time.time()),
    )
    if row:
        one = row[0]
        return (
            Delivery(
                number=one["seq"],
                event=one["event"],
                type=one["type"],
                endpoint=one["endpoint"],
                attempts=one["attempts"],
                is_struck=bool(one["struck"]),
                body=one["body"],
            ),
            None,
        )
    later = ledger.rows(
        "SELECT min(due_at) AS due_at FROM deliveries WHERE endpoint = ? AND state = 'queued'", (endpoint,)
    )
    return None, later[0]["due_at"]


def waiting(ledger: Ledger) -> list[str]:
    """The endpoints that something is queued for."""
    return [row["endpoint"] for row in ledger.rows("SELECT DISTINCT endpoint FROM deliveries WHERE state = 'queued'")]


def attempted(ledger: Ledger, delivery: Delivery, *, told: str, state: str, due_at: float | None = None) -> None:
    """Enter how an attempt ended.

    Args:
        ledger: The books.
        delivery: Which.
        told: The status, or the error, in words.
        state: `delivered`, `queued` again, or `failed` for good.
        due_at: When to try again.
    """
    ledger.note(
        "UPDATE deliveries SET attempts = attempts + 1, told = ?, state = ?, due_at = coalesce(?, due_at) WHERE seq = ?",
        (told, state, due_at, delivery.number),
    )


def postponed(ledger: Ledger, delivery: Delivery, *, state: str, due_at: float | None = None) -> None:
    """Put a delivery off without an attempt: `held`, or `queued` for later. No further fault strikes it."""
    ledger.note(
        "UPDATE deliveries SET struck = 1, state = ?, due_at = coalesce(?, due_at) WHERE seq = ?",
        (state, due_at, delivery.number),
    )


def repeat(ledger: Ledger, delivery: Delivery) -> None:
    """Queue the same event to the same endpoint once more."""
    ledger.note(
        "INSERT INTO deliveries (event, type, endpoint, body, state, due_at, struck)"
        " SELECT event, type, endpoint, body, 'queued', ?, 1 FROM deliveries WHERE seq = ?",
        (time.time(), delivery.number),
    )


def release(ledger: Ledger, *, is_newest_first: bool = False) -> int:
    """Queue everything that is held, in the order it happened or in the reverse; returns how many."""
    sign = "-" if is_newest_first else ""
    released = ledger.note(
        f"UPDATE deliveries SET state = 'queued', due_at = ?, place = {sign}seq WHERE state = 'held'", (time.time(),)
    )
    ledger.woken()
    return released


def resend(ledger: Ledger, event: str) -> int:
    """Queue an event once more for every endpoint that it was sent to and that is still there; returns for how many."""
    queued = ledger.note(
        "INSERT INTO deliveries (event, type, endpoint, body, state, due_at, struck)"
        " SELECT event, type, endpoint, body, 'queued', ?, 1 FROM deliveries"
        " WHERE event = ? AND endpoint IN (SELECT endpoint FROM secrets) GROUP BY endpoint",
        (time.time(), event),
    )
    ledger.woken()
    return queued


def told(ledger: Ledger) -> list[dict[str, Any]]:
    """Every delivery, oldest first: `event`, `type`, `endpoint`, `state`, `attempts`, `told`."""
    query = "SELECT event, type, endpoint, state, attempts, told FROM deliveries ORDER BY seq"
    return [dict(row) for row in ledger.rows(query)]
