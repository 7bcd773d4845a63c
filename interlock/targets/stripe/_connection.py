"""The connection of a target to Stripe: a client derived from the user's, with one attempt and one deadline for every request.

The SDK retries by itself (stripe-python: `max_network_retries`, 2 by default) and waits 80 seconds. A gated send is one request: the
gate decides what follows. So the target makes a client of its own out of the user's: the same key, account, version, addresses and
HTTP connections, `max_network_retries=0`, and a timeout within the effect's. The user's client stays as it is.

Asynchronous connections belong to the event loop that opened them, and a gate may be driven by several: `gate.recover()` and
`proposal()` await what is asynchronous on loops of their own. So every loop has connections of its own, which are closed with it; the
user's are left alone. Those of an HTTP client of the user's own make, or of an aiohttp session that the user gave, are shared as they are.

Requests are described as `Call`s, and whoever needs several yields them; `run` and `arun` carry them out, so that the logic is
written once. They go through the SDK's `raw_request`: its transport, headers and error classes, and plain data for an answer. Its
classes for the objects are left out, since importing those for one payment takes a process longer than the request does.
"""

from __future__ import annotations

import asyncio
import copy
import json
import ssl
import threading
from collections.abc import AsyncGenerator, Generator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import quote

import stripe

from interlock.errors import ConfigurationError
from interlock.record import NamedTuple

T = TypeVar("T")

CONNECT_S = 5.0
"""The longest that a connection may take to come about."""
PAGE = 100
"""docs.stripe.com/api/pagination: the most that one page holds."""


class Call(NamedTuple):
    """One request: `Call("/v1/refunds", {...}, key)` makes one, `Call("/v1/refunds", {...})` reads.

    Attributes:
        path: where; `path_of` puts an id into it.
        params: Stripe's parameters.
        key: the idempotency key, which makes it a POST.
        account: the connected account that it is made for; by default the client's own.
    """

    path: str
    params: Mapping[str, Any] = {}
    key: str | None = None
    account: str | None = None


Calls = Generator[Call, Any, T]
"""Several requests, one after the other, and what they come to."""


class TooMany(Exception):
    """A list is longer than the bound; what was not read cannot be called absent."""


class ClockAhead(Exception):
    """This machine's clock is ahead of Stripe's by so much that a list from "now" on could miss what is made now."""


class Connection:
    """The user's client, made fit for a gated effect.

    Args:
        client: the user's.
        effect: name of the effect, for errors.
        timeout_s: the effect's timeout; no request takes longer.
        asynchronous: whether `arun` will be used.

    Raises:
        ConfigurationError: it is no `StripeClient`, its key cannot move money, or it cannot be used asynchronously.
    """

    def __init__(self, client: Any, *, effect: str, timeout_s: float, asynchronous: bool) -> None:
        if not isinstance(client, stripe.StripeClient):
            raise ConfigurationError(
                f"effect {effect!r}: the client is {type(client).__name__}; give a stripe.StripeClient, e.g. "
                "stripe.StripeClient(os.environ['STRIPE_API_KEY'])."
            )
        try:
            requestor = client._requestor
            options, transport = requestor._options, requestor._client
            api_key = requestor.api_key
        except AttributeError as error:
            raise ConfigurationError(
                f"effect {effect!r}: this version of the Stripe SDK ({stripe.VERSION}) is built in another way than those this target "
                "knows (16). Install stripe>=16,<17."
            ) from error
        if not isinstance(api_key, str) or api_key.startswith("pk_"):
            raise ConfigurationError(
                f"effect {effect!r}: the client has a publishable key, which cannot move money. Give it a secret or restricted key."
            )
        own = _timed(transport, timeout_s=timeout_s, effect=effect)
        fallback = getattr(own, "_async_fallback_client", None)
        if fallback is not None:
            own._async_fallback_client = _timed(fallback, timeout_s=timeout_s, effect=effect)
        if asynchronous and not _is_asynchronous(own):
            raise ConfigurationError(
                f"effect {effect!r}: asynchronous=True, and the client's HTTP client cannot make asynchronous requests. "
                'Run: pip install "stripe[async]", or give the StripeClient an http_client that can.'
            )
        self.is_live = "_live_" in api_key
        self.makes_one_attempt = _makes_one_attempt(own)
        self._transport = own
        self._derived: dict[str, Any] = {
            "stripe_account": options.stripe_account,
            "stripe_context": options.stripe_context,
            "stripe_version": options.stripe_version,
            "base_addresses": options.base_addresses,
            "max_network_retries": 0,
        }
        self._api_key = api_key
        self._client = stripe.StripeClient(api_key, http_client=own, **self._derived)
        self._by_loop: dict[asyncio.AbstractEventLoop, tuple[AsyncGenerator[Any, None], stripe.StripeClient]] = {}
        self._lock = threading.Lock()

    def run(self, calls: Calls[T]) -> T:
        """Carry the requests out, one after the other."""
        try:
            call = next(calls)
            while True:
                try:
                    answer = self._client.raw_request(_verb(call), call.path, **_asked(call))
                except stripe.StripeError as error:
                    call = calls.throw(error)
                else:
                    call = calls.send(answer)
        except StopIteration as done:
            value: T = done.value
            return value

    async def arun(self, calls: Calls[T]) -> T:
        """As `run`, without blocking the event loop."""
        client = await self._here()
        try:
            call = next(calls)
            while True:
                try:
                    answer = await client.raw_request_async(_verb(call), call.path, **_asked(call))
                except stripe.StripeError as error:
                    call = calls.throw(error)
                else:
                    call = calls.send(answer)
        except StopIteration as done:
            value: T = done.value
            return value

    async def _here(self) -> stripe.StripeClient:
        """The client with the connections of this event loop. The loop closes them when it ends, as it ends async generators."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if (known := self._by_loop.get(loop)) is not None:
                return known[1]
        own = _anew(self._transport)
        if own is None:
            return self._client
        client = stripe.StripeClient(self._api_key, http_client=own, **self._derived)
        life = self._until_the_end_of(loop, own)
        await anext(life)
        with self._lock:
            for ended in [known for known in self._by_loop if known.is_closed()]:
                del self._by_loop[ended]
            self._by_loop[loop] = life, client
        return client

    async def _until_the_end_of(self, loop: asyncio.AbstractEventLoop, own: Any) -> AsyncGenerator[Any, None]:
        try:
            yield own
        finally:
            with self._lock:
                self._by_loop.pop(loop, None)
            await (getattr(own, "_async_fallback_client", None) or own).close_async()


def _verb(call: Call) -> str:
    return "get" if call.key is None else "post"


def _asked(call: Call) -> dict[str, Any]:
    asked: dict[str, Any] = {**call.params, "max_network_retries": 0}
    if call.key is not None:
        asked["idempotency_key"] = call.key
    if call.account is not None:
        asked["stripe_account"] = call.account
    return asked


def path_of(collection: str, name: str, *more: str) -> str:
    """The path of one object: `path_of("/v1/payment_intents", "pi_1", "capture")`. The name cannot lead elsewhere."""
    return "/".join((collection, quote(name, safe=""), *more))


def listed(
    path: str, params: Mapping[str, Any], *, at_most: int, account: str | None = None
) -> Calls[list[dict[str, Any]]]:
    """Every object of a list, newest first, page after page.

    Raises:
        TooMany: there are more than `at_most`.
        ClockAhead: it is narrowed to a moment that Stripe has not reached.
    """
    found: list[dict[str, Any]] = []
    after: dict[str, Any] = {}
    while True:
        answer = yield Call(path, {**params, **after, "limit": PAGE}, account=account)
        require_past(answer, params.get("created", {}).get("gte"))
        page = as_dict(answer)
        found += page["data"]
        if not page["has_more"] or not page["data"]:
            return found
        if len(found) >= at_most:
            raise TooMany(
                f"{path} shows more than {at_most} objects for {dict(params)}; what was not read cannot be called absent."
            )
        after = {"starting_after": page["data"][-1]["id"]}


def require_past(answer: Any, moment: int | None) -> None:
    """Hold a moment of this machine's clock against the `Date` of Stripe's answer.

    A list is narrowed to what was created since the decision. If that were in Stripe's future, our own object would be missed, and
    absent is what the gate sends again.

    Raises:
        ClockAhead: Stripe has not reached it.
    """
    dated = {str(name).lower(): value for name, value in (answer.headers or {}).items()}.get("date")
    if moment is None or dated is None:
        return
    if parsedate_to_datetime(dated).timestamp() < moment:
        raise ClockAhead(
            "this machine's clock is, or was when this was decided, more than a day ahead of Stripe's. Set it right, and decide again."
        )


def as_dict(answer: Any) -> dict[str, Any]:
    """What Stripe answered, as plain data.

    Raises:
        stripe.APIError: it is no object.
    """
    told = json.loads(answer.body)
    if not isinstance(told, dict):
        raise stripe.APIError(f"Stripe answered {answer.body!r:.200}, which is no object.", answer.body, answer.code)
    return told


def _timed(transport: Any, *, timeout_s: float, effect: str) -> Any:
    """A copy of an HTTP client that shares its connections and gives up within the effect's timeout."""
    own = copy.copy(transport)
    if not hasattr(own, "_timeout"):
        return own  # a client of the user's own make, or one that only says what is missing
    connect_s = min(CONNECT_S, timeout_s / 3)
    read_s = timeout_s - connect_s
    theirs = own._timeout
    if isinstance(own, stripe.RequestsClient):
        before = theirs if isinstance(theirs, tuple) else (theirs, theirs)
        own._timeout = (_shorter(before[0], connect_s), _shorter(before[1], read_s))
    elif isinstance(theirs, int | float) or theirs is None:
        own._timeout = _shorter(theirs, read_s)
    return own


def _shorter(theirs: float | None, ours: float) -> float:
    return ours if theirs is None else min(theirs, ours)


def _anew(transport: Any) -> Any:
    """A copy of an HTTP client with asynchronous connections of its own; None if it is of the user's own make, or has no such."""
    fallback = getattr(transport, "_async_fallback_client", None)
    if fallback is not None:
        within = _anew(fallback)
        if within is None:
            return None
        own = copy.copy(transport)
        own._async_fallback_client = within
        return own
    if type(transport) is stripe.HTTPXClient:
        own = copy.copy(transport)
        trusted = ssl.create_default_context(cafile=stripe.ca_bundle_path) if own._verify_ssl_certs else False
        own._client_async = own.httpx.AsyncClient(verify=trusted)
        return own
    if (
        type(transport) is stripe.AIOHTTPClient
        and transport._user_session is None
        and transport._user_connector is None
    ):
        own = copy.copy(transport)
        own._cached_session = None
        return own
    return None


def _is_asynchronous(transport: Any) -> bool:
    if isinstance(transport, stripe.HTTPXClient | stripe.AIOHTTPClient):
        return True
    fallback = getattr(transport, "_async_fallback_client", None)
    return fallback is not None and "NoImport" not in type(fallback).__name__


def _makes_one_attempt(transport: Any) -> bool:
    """Whether the HTTP client itself never tries again: the requests session that the user gave might."""
    session = getattr(transport, "_session", None) if isinstance(transport, stripe.RequestsClient) else None
    if session is None:
        return True
    retries = [getattr(adapter, "max_retries", None) for adapter in session.adapters.values()]
    return all(getattr(policy, "total", 0) in (0, False, None) for policy in retries)
