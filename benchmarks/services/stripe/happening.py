"""The one place where customers, credits, accounts, transfers and payouts say that something happened to them."""

from __future__ import annotations

from benchmarks.services.stripe import events
from benchmarks.services.stripe.endpoint import Call
from benchmarks.services.stripe.ledger import Json


def happened(call: Call, kind: str, body: Json, *, before: Json | None = None) -> None:
    """Record an event about an object, in the transaction that changed it.

    Args:
        call: The request; its account is whose event it is.
        kind: As docs.stripe.com/api/events/types names it.
        body: The object as it is now.
        before: The object as it was, for what changed.
    """
    events.record(call, kind, body, previous=None if before is None else events.changed(before, body))
