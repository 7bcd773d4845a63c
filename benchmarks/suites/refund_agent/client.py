"""The official Stripe SDK at the tier an arm is given.

Owns how a tier is emulated: at tier 1 the Idempotency-Key goes out as the caller set it; below it none goes out at all.
The SDK adds a random one to every POST, so it is taken off the request; the local service's request log shows that it is gone.
"""

from __future__ import annotations

import stripe

from benchmarks.harness import stripe_wire
from benchmarks.harness.stripe_wire import TIMEOUT_S, Door


def connect(door: Door, *, sends_key: bool, timeout_s: float = TIMEOUT_S) -> stripe.StripeClient:
    """A client. The SDK's own retries are off: who retries is what the suite compares."""
    return stripe_wire.connect(door, sends_key=sends_key, timeout_s=timeout_s)


def is_replayed(refund: stripe.Refund) -> bool:
    """Whether the service answered from its record of the key instead of acting."""
    response = refund.last_response
    headers = {} if response is None else {name.lower(): value for name, value in (response.headers or {}).items()}
    return headers.get("idempotent-replayed") == "true"
