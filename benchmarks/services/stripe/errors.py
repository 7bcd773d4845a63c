"""What the service says when it refuses: status, type, code, message and param, as docs.stripe.com/api/errors lays them out.

Owns the wording of every refusal. Must not know how a request was parsed or what is stored.
"""

from __future__ import annotations

from typing import Any


class ApiError(Exception):
    """A refusal that goes to the client as an HTTP answer.

    Attributes:
        is_validation: True if the request was refused before its endpoint began to execute. Such an answer is not
            remembered under an idempotency key (docs.stripe.com/api/idempotent_requests).
        page: HTML in place of the body, as of something that stands in front of the service; None: the body.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        is_validation: bool = False,
        page: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.is_validation = is_validation
        self.page = page
        self.code = code
        fields = {"code": code, "message": message, "param": param, "type": kind, **more}
        if code is not None:
            fields["doc_url"] = f"https://stripe.com/docs/error-codes/{code.replace('_', '-')}"
        self.body: dict[str, Any] = {"error": {name: value for name, value in fields.items() if value is not None}}


def invalid(message: str, *, code: str | None = None, param: str | None = None) -> ApiError:
    """The request itself is wrong, whatever is stored: refused before the endpoint executes."""
    return ApiError(400, "invalid_request_error", message, code=code, param=param, is_validation=True)


def refused(message: str, *, code: str | None = None, param: str | None = None) -> ApiError:
    """The request is well formed, but what is stored does not allow it: the endpoint executed and said no."""
    return ApiError(400, "invalid_request_error", message, code=code, param=param)


def missing(noun: str, identifier: str, *, param: str, status: int = 404) -> ApiError:
    """There is no such object: 404 where the path names it, 400 where a parameter does."""
    return ApiError(
        status, "invalid_request_error", f"No such {noun}: '{identifier}'", code="resource_missing", param=param
    )


def declined(*, code: str = "card_declined", decline_code: str | None = "generic_decline", **more: Any) -> ApiError:
    """The bank said no: 402, nothing moved."""
    message = decline_words(decline_code or code)
    return ApiError(402, "card_error", message, code=code, decline_code=decline_code, **more)


def decline_words(code: str) -> str:
    """What a card holder reads about a decline code, or about an error code that has none."""
    return {
        "insufficient_funds": "Your card has insufficient funds.",
        "expired_card": "Your card has expired.",
        "incorrect_cvc": "Your card's security code is incorrect.",
        "processing_error": "An error occurred while processing your card. Try again in a little bit.",
        "card_velocity_exceeded": "Your card was declined for making repeated attempts too frequently or exceeding its "
        "amount limit.",
    }.get(code, "Your card was declined.")


def rate_limited() -> ApiError:
    """Too many requests: refused in front of the idempotency layer."""
    return ApiError(429, "invalid_request_error", "Request rate limit exceeded.", code="rate_limit", is_validation=True)


def internal() -> ApiError:
    """Something broke on the service's side; the client cannot know whether it acted."""
    return ApiError(
        500, "api_error", "An unknown error occurred. (A fault asked for on this local service, or a bug in it.)"
    )


def unknown_endpoint(method: str, path: str) -> ApiError:
    """An address the service does not have. Loud, so that no client takes it for an absent object."""
    return ApiError(
        404,
        "invalid_request_error",
        f"Unrecognized request URL ({method}: {path}). This local service models a part of the API "
        "only; see its README for the endpoints.",
        is_validation=True,
    )


def unauthorized(message: str, *, code: str | None = None) -> ApiError:
    """No key, a wrong key, or one that must never come here."""
    return ApiError(401, "invalid_request_error", message, code=code, is_validation=True)


def forbidden(message: str) -> ApiError:
    """The key is good, and may not do this; SDKs raise their permission error."""
    return ApiError(403, "invalid_request_error", message, is_validation=True)


def locked() -> ApiError:
    """Another request holds the object (docs.stripe.com/rate-limits): nothing was done, and it is worth another try."""
    return ApiError(
        429,
        "invalid_request_error",
        "This object cannot be accessed right now because another API request or Stripe process is currently accessing it.",
        code="lock_timeout",
        is_validation=True,
    )


def bad_gateway() -> ApiError:
    """Something in front of the service answers in its place, in HTML."""
    page = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
    return ApiError(502, "api_error", "Bad Gateway", is_validation=True, page=page)


def account_invalid(account: str) -> ApiError:
    """The Stripe-Account header names an account that is not connected."""
    return ApiError(
        403,
        "invalid_request_error",
        f"The provided key does not have access to account '{account}' (or that account does not exist). Application "
        "access may have been revoked.",
        code="account_invalid",
        is_validation=True,
    )


def key_in_use(key: str) -> ApiError:
    """A request with the same idempotency key is executing right now. Its type is not `idempotency_error`."""
    return ApiError(
        409,
        "invalid_request_error",
        "There is currently another in-progress request using this Idempotent Key (that probably means you submitted "
        f"twice, and the other request is still going through): {key}. Please try again later.",
        code="idempotency_key_in_use",
        is_validation=True,
    )


def key_reused(key: str, *, bound: str) -> ApiError:
    """The idempotency key is bound to another request; `bound` says which part of it must be the same."""
    return ApiError(
        400,
        "idempotency_error",
        f"Keys for idempotent requests can only be used {bound}. Try using a key other than '{key}' if you meant to "
        "execute a different request.",
        is_validation=True,
    )
