"""API keys: which pass, and what each may do; docs.stripe.com/keys and docs.stripe.com/api/authentication.

Owns the refusals of a key. A live key is refused by the look of its first letters, never compared, repeated or stored.
Must not know what a request asks for beyond its method.

    sk_test_...          everything          sk_test_revoked...   401, as an expired or rolled key
    rk_test_read_...     reads only          rk_test_none_...     nothing: 403, as a restricted key without the permission
    rk_test_...          everything          sk_live_, rk_live_   401, in plain words
"""

from __future__ import annotations

import base64

from starlette.requests import Request

from benchmarks.services.stripe.errors import forbidden, invalid, unauthorized
from benchmarks.services.stripe.ledger import Ledger
from benchmarks.services.stripe.objects import API_VERSION


def authenticate(request: Request, ledger: Ledger) -> None:
    """Let test keys pass.

    Raises:
        ApiError: 401, the SDK's AuthenticationError; or 403, its PermissionError.
    """
    key = _credentials(request)
    if not key:
        raise unauthorized(
            "You did not provide an API key. You need to provide your API key in the Authorization header, using Bearer auth "
            "(e.g. 'Authorization: Bearer YOUR_SECRET_KEY')."
        )
    if key.startswith(("sk_live_", "rk_live_")):
        raise unauthorized(
            f"A live key ({key[:8]}...) was sent to a local test service. It is refused; use a key that starts with "
            "sk_test_, and consider rolling the live one, since it left its place."
        )
    if not key.startswith(("sk_test_", "rk_test_")):
        raise unauthorized(f"Invalid API Key provided: {key[:4]}****. A test key starts with sk_test_.")
    if key.startswith("sk_test_revoked") or ledger.rows("SELECT 1 FROM revoked_keys WHERE key = ?", (key,)):
        raise unauthorized(f"Expired API Key provided: {key[:8]}****{key[-4:]}", code="api_key_expired")
    if key.startswith("rk_test_none") or (key.startswith("rk_test_read") and request.method != "GET"):
        raise forbidden(
            f"The provided key '{key[:8]}****{key[-4:]}' does not have the required permissions for this endpoint. Give the "
            "restricted key the permission, or use another."
        )


def check_version(request: Request) -> None:
    """Refuse an API version whose shapes this service does not have (docs.stripe.com/api/versioning).

    Raises:
        ApiError: The `Stripe-Version` header names another one. A request without it is answered in this one.
    """
    named = request.headers.get("stripe-version", API_VERSION)
    if named != API_VERSION:
        raise invalid(
            f"Invalid Stripe API version: {named}. This local service answers in the shapes of {API_VERSION} only; the SDK whose "
            "version that is sends it by itself."
        )


def revoke(ledger: Ledger, key: str) -> None:
    """Refuse a test key from now on. To be called inside a transaction."""
    ledger.execute("INSERT OR IGNORE INTO revoked_keys (key) VALUES (?)", (key,))


def _credentials(request: Request) -> str:
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(credentials, validate=True).decode().partition(":")[0]
        except ValueError:
            return ""
    return credentials if scheme.lower() == "bearer" else ""
