"""The official Stripe SDK against the local service, at the tier an arm is given.

Owns how a tier is emulated: at tier 1 the Idempotency-Key goes out as the caller set it; below it none goes out at all.
The SDK adds a random one to every POST, so it is taken off the request; the service's request log shows that it is gone.
"""

from __future__ import annotations

from typing import Any

import requests
import stripe
from requests.adapters import HTTPAdapter

TIMEOUT_S = 5.0
"""How long one HTTP request may take before the SDK gives up on it."""


class _Keyless(HTTPAdapter):
    """Takes the Idempotency-Key off every request: a service that has no such header never sees one."""

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        request.headers.pop("Idempotency-Key", None)
        return super().send(request, *args, **kwargs)


def connect(url: str, *, sends_key: bool, timeout_s: float = TIMEOUT_S) -> stripe.StripeClient:
    """A client of the local service. The SDK's own retries are off: who retries is what the suite compares."""
    session = requests.Session()
    session.trust_env = False
    if not sends_key:
        session.mount("http://", _Keyless())
    transport = stripe.RequestsClient(timeout=timeout_s, session=session)
    return stripe.StripeClient(
        "sk_test_local", base_addresses={"api": url}, max_network_retries=0, http_client=transport
    )


def is_replayed(refund: stripe.Refund) -> bool:
    """Whether the service answered from its record of the key instead of acting."""
    response = refund.last_response
    headers = {} if response is None else {name.lower(): value for name, value in (response.headers or {}).items()}
    return headers.get("idempotent-replayed") == "true"
