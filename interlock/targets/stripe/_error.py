"""What Stripe's answers say about whether something happened. One table, asked with what the SDK raised.

docs.stripe.com/error-low-level and docs.stripe.com/api/idempotent_requests: what is turned away before an endpoint begins to execute (wrong
parameters, no valid credential, the rate limiter, a key in use) is not kept under the idempotency key; whatever an endpoint answered once
it had begun is kept, a 500 too. docs.stripe.com/error-handling names the SDK's classes.

    NOT_SENT     no connection came about, or the rate limiter stood in front    nothing happened; the key is unused
    REFUSED      turned away before execution                                    nothing happened; the key is unused
    REMEMBERED   refused by the endpoint                                         nothing happened; the key would replay the refusal
    IN_USE       a request with this key is executing now                        ask again
    UNKNOWN      5xx, no answer, half an answer, a key with other parameters     only reading tells

Knows nothing of the journal. What the gate makes of REFUSED and REMEMBERED is the same: the next attempt has a key of its own.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import stripe

from interlock.errors import NotSent, Rejected, Unanswered
from interlock.ports import Verdict
from interlock.record import NamedTuple
from interlock.rules.values import text_of


class Meaning(StrEnum):
    """What an error says; see the module."""

    NOT_SENT = "not_sent"
    REFUSED = "refused"
    REMEMBERED = "remembered"
    IN_USE = "in_use"
    UNKNOWN = "unknown"


class Reading(NamedTuple):
    """An error, read.

    Attributes:
        meaning: what it says about whether it happened.
        reason: the short code that follows `FAILED:`.
        sentence: what happened, in plain words with Stripe's own message.
    """

    meaning: Meaning
    reason: str
    sentence: str


class _Row(NamedTuple):
    kind: type[stripe.StripeError]
    statuses: range | None
    codes: frozenset[str] | None
    meaning: Meaning
    reason: str
    advice: str


_ANY_4XX = range(400, 500)
_CONFLICT = range(409, 410)
_PARAMETERS = frozenset(
    {
        "parameter_unknown",
        "parameter_missing",
        "parameter_invalid_integer",
        "parameter_invalid_empty",
        "parameter_invalid_string_empty",
    }
)

# The first row that fits counts. A status of None means that the SDK raised before anything left; a code of None fits any.
_TABLE: tuple[_Row, ...] = (
    _Row(
        stripe.StripeError,
        _CONFLICT,
        None,
        Meaning.IN_USE,
        "key_in_use",
        "Stripe still works on a request with this key.",
    ),
    _Row(
        stripe.IdempotencyError,
        _ANY_4XX,
        None,
        Meaning.UNKNOWN,
        "",
        "Stripe knows this idempotency key with other parameters, so an earlier request was sent in another form: most often by another "
        "journal (a lost one, a test's) that used the same key= for another payment or amount.",
    ),
    _Row(
        stripe.RateLimitError,
        _ANY_4XX,
        frozenset({"lock_timeout"}),
        Meaning.REFUSED,
        "lock_timeout",
        "Another request had hold of this object. Try again in a moment.",
    ),
    _Row(
        stripe.RateLimitError,
        _ANY_4XX,
        None,
        Meaning.NOT_SENT,
        "rate_limited",
        "Stripe is taking too many requests from this account. Try again in a moment.",
    ),
    _Row(
        stripe.AuthenticationError,
        _ANY_4XX,
        None,
        Meaning.REFUSED,
        "authentication",
        "Stripe did not accept the API key: it is wrong, expired or revoked. An operator must replace it.",
    ),
    _Row(
        stripe.PermissionError,
        _ANY_4XX,
        None,
        Meaning.REFUSED,
        "permission",
        "The API key may not do this. An operator must give it the permission.",
    ),
    _Row(stripe.CardError, _ANY_4XX, None, Meaning.REMEMBERED, "card_declined", "The card was declined."),
    _Row(
        stripe.InvalidRequestError,
        _ANY_4XX,
        _PARAMETERS,
        Meaning.REFUSED,
        "invalid_request",
        "The request was not acceptable as it stands, and must be corrected.",
    ),
    _Row(stripe.InvalidRequestError, _ANY_4XX, None, Meaning.REMEMBERED, "invalid_request", "Stripe refused it."),
    _Row(stripe.APIError, _ANY_4XX, None, Meaning.REMEMBERED, "refused", "Stripe refused it."),
)


def read(error: BaseException, *, single_attempt: bool = True) -> Reading:
    """What an error from a request that moves money says about whether it happened.

    Args:
        error: what the SDK raised.
        single_attempt: whether the HTTP client makes one attempt only; if not, a refused connection may hide an earlier attempt.
    """
    if not isinstance(error, stripe.StripeError):
        return Reading(Meaning.UNKNOWN, "", text_of(error))
    message = _message_of(error)
    if isinstance(error, stripe.APIConnectionError):
        if single_attempt and _never_connected(error):
            return Reading(
                Meaning.NOT_SENT, "no_connection", "No connection to Stripe came about, so nothing was sent."
            )
        return Reading(Meaning.UNKNOWN, "", "The connection to Stripe ended without an answer.")
    if error.http_status is None and isinstance(error, stripe.InvalidRequestError | stripe.AuthenticationError):
        return Reading(Meaning.NOT_SENT, "not_acceptable", f"The SDK turned it away before anything left: {message}")
    code = code_of(error)
    for row in _TABLE:
        if (
            isinstance(error, row.kind)
            and (row.statuses is None or error.http_status in row.statuses)
            and (row.codes is None or code in row.codes)
        ):
            reason = code if row.meaning is Meaning.REMEMBERED and code else row.reason
            return Reading(row.meaning, reason, f"{row.advice} Stripe says: {message}")
    if error.http_status is not None and error.http_status >= 500:
        return Reading(
            Meaning.UNKNOWN,
            "",
            f"Stripe had an error of its own (HTTP {error.http_status}) and may have acted. It says: {message}",
        )
    return Reading(Meaning.UNKNOWN, "", f"Stripe's answer cannot be read, and it may have acted: {message}")


def told(error: stripe.StripeError, *, single_attempt: bool = True) -> Exception:
    """The error in the gate's own words: `NotSent`, `Rejected` or `Unanswered`; itself if the key is in use."""
    reading = read(error, single_attempt=single_attempt)
    if reading.meaning is Meaning.NOT_SENT:
        return NotSent(reading.sentence, reason=reading.reason)
    if reading.meaning in (Meaning.REFUSED, Meaning.REMEMBERED):
        return Rejected(reading.sentence, reason=reading.reason)
    return error if reading.meaning is Meaning.IN_USE else Unanswered(reading.sentence)


def verdict_of(error: BaseException) -> Verdict | None:
    """Whether a request with this key is executing now; nothing otherwise."""
    if isinstance(error, stripe.StripeError) and read(error).meaning is Meaning.IN_USE:
        return Verdict.IN_USE
    return None


def unreadable(error: stripe.StripeError) -> str:
    """Why a reading failed, in a sentence. Nothing was to be changed by it, so nothing was."""
    if isinstance(error, stripe.APIConnectionError):
        return "Stripe did not answer."
    reading = read(error)
    if reading.meaning is Meaning.UNKNOWN:
        text = f"Stripe answered with an error of its own (HTTP {error.http_status}): {_message_of(error)}"
    else:
        text = reading.sentence
    return text if text.endswith(".") else f"{text}."


def code_of(error: stripe.StripeError) -> str:
    """Stripe's error code. The SDK leaves `code` empty on some classes; the body has it."""
    body: Any = error.json_body
    inner = body.get("error") if isinstance(body, dict) else None
    found = error.code or (inner.get("code") if isinstance(inner, dict) else None)
    return found if isinstance(found, str) else ""


def is_missing(error: BaseException) -> bool:
    """Whether Stripe answered that there is no such object."""
    return isinstance(error, stripe.InvalidRequestError) and code_of(error) == "resource_missing"


def _message_of(error: stripe.StripeError) -> str:
    message = (error.user_message or "").strip() or "(no message)"
    return message if error.request_id is None else f"{message} ({error.request_id})"


def _never_connected(error: BaseException) -> bool:
    """Whether the cause says that no connection came about, by the names that requests, urllib3, httpx and aiohttp give it."""
    todo: list[Any] = [error.__cause__]
    for cause in todo:
        if cause is None or len(todo) > 20:
            continue
        if isinstance(cause, ConnectionRefusedError) or type(cause).__name__ in _NO_CONNECTION:
            return True
        if type(cause).__name__ in ("ConnectionError", "MaxRetryError"):
            todo += [
                inner for inner in (*cause.args, getattr(cause, "reason", None)) if isinstance(inner, BaseException)
            ]
    return False


_NO_CONNECTION = frozenset(
    {
        "NewConnectionError",  # urllib3; its subclass says that the name did not resolve
        "NameResolutionError",
        "ConnectTimeout",  # requests, httpx
        "ConnectTimeoutError",  # urllib3
        "ConnectError",  # httpx
        "ClientConnectorError",  # aiohttp
        "ClientConnectorDNSError",
    }
)
