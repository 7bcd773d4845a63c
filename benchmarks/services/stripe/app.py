"""The way of a request: who asks, what for, under which key, with which fault; then the endpoint, then the answer.

    log the arrival -> key of the account -> endpoint -> parameters decoded -> fault taken -> idempotency key held
        -> [wait] -> one transaction: endpoint acts + answer remembered -> [drop | wait] -> log the answer -> answer

Everything between two awaits runs alone, and a transaction contains no await. That is what makes "check what is left, then
refund" atomic here; the ledger's constraints stand behind it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from benchmarks.services.stripe import (
    accounts,
    balance,
    balance_transactions,
    charges,
    control,
    credit_grants,
    customer_balance,
    customers,
    disputes,
    early_fraud_warnings,
    events,
    keys,
    payments,
    payouts,
    refunds,
    transfers,
    verbs,
    webhook_endpoints,
)
from benchmarks.services.stripe.clock import ServiceClock
from benchmarks.services.stripe.connection import HalfResponse, hang_up
from benchmarks.services.stripe.delivery import Courier, WebhookFaults
from benchmarks.services.stripe.endpoint import Call, Endpoint
from benchmarks.services.stripe.errors import (
    ApiError,
    account_invalid,
    declined,
    internal,
    invalid,
    unknown_endpoint,
)
from benchmarks.services.stripe.faults import REFUSALS, Fault, FaultKind, Faults
from benchmarks.services.stripe.idempotency import Keyed, Keys, Remembered
from benchmarks.services.stripe.later import Deed, Future
from benchmarks.services.stripe.ledger import PLATFORM, Json, Ledger
from benchmarks.services.stripe.objects import API_VERSION, new_id
from benchmarks.services.stripe.params import decode
from benchmarks.services.stripe.steering import PREFIX

DEEDS: dict[str, Deed] = {
    "refund_succeeds": refunds.succeeds,
    "refund_fails": refunds.fails,
    "hold_expires": payments.hold_expires,
    "dispute_runs_out": disputes.runs_out,
}
"""What can happen by itself."""

log = logging.getLogger(__name__)


class DroppedError(Exception):
    """The connection is to be closed with no answer."""


@dataclass(kw_only=True)
class Answer:
    """What goes back to the client."""

    status: int
    body: str
    headers: dict[str, str] = field(default_factory=dict)
    media_type: str = "application/json"
    is_replayed: bool = False
    is_truncated: bool = False


@dataclass(frozen=True)
class Place:
    """What a request's path and headers name: the object, one inside it, and the account that it acts for."""

    identifier: str
    child: str
    account: str


class Service:
    """One running service: its books, clock, keys and faults, and the pipeline every API request takes."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.clock = ServiceClock(ledger.setting("clock_offset_s", 0.0))
        self.faults = Faults()
        self.webhook_faults = WebhookFaults()
        self.future = Future(ledger, self.clock, DEEDS)
        self._keys = Keys(ledger, self.clock)

    @contextlib.asynccontextmanager
    async def running(self, app: Starlette) -> AsyncIterator[None]:
        """What runs beside the requests while the application does: webhooks are sent, and what is due happens."""
        courier = Courier(self.ledger, self.webhook_faults)
        tasks = [asyncio.create_task(one.run()) for one in (courier, self.future)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def respond(self, request: Request, endpoint: Endpoint | None) -> Response:
        """Answer one request to the API.

        **Durable when** the answer leaves: what it says was done, and the answer itself under its key.
        **If the process dies** before that, all of it is there or nothing, and the key is free or answers the same.

        Raises:
            DroppedError: A fault wants no answer at all.
        """
        request_id = new_id("req", 14)
        method, path = request.method, request.url.path
        key = request.headers.get("idempotency-key") if method == "POST" else None
        try:
            encoded = (await request.body()).decode() if method == "POST" else request.url.query
            raw, unreadable = decode(encoded), None
        except (ApiError, UnicodeDecodeError) as error:
            raw = {}
            unreadable = (
                error if isinstance(error, ApiError) else invalid("The request body is not UTF-8 form encoding.")
            )
        number = self.ledger.log_arrival(
            request_id, method=method, path=path, params=raw, idempotency_key=key, at=self.clock.now()
        )
        try:
            keys.authenticate(request, self.ledger)
            keys.check_version(request)
            place = Place(
                request.path_params.get("id", ""), request.path_params.get("child", ""), _account(request, self.ledger)
            )
            if endpoint is None or place.identifier == "search":
                raise unknown_endpoint(method, path)
            if unreadable is not None:
                raise unreadable
            if place.account != PLATFORM and not endpoint.is_per_account:
                raise invalid("This local service does not model the Stripe-Account header at this address.")
            fault = self.faults.take(method, path)
            if fault is not None:
                self.ledger.log_fault(number, fault.kind)
            keyed = None if key is None else Keyed(account=place.account, key=key, path=path, params=raw)
            answer = await self._executed(endpoint, place, raw, keyed, fault, request_id)
        except DroppedError:
            raise
        except ApiError as error:
            answer = _refusal(error)
        except Exception:
            log.exception("a bug of the local service, not of its client: %s %s", method, path)
            answer = _refusal(internal())
        self.ledger.log_answer(number, status=answer.status, is_replayed=answer.is_replayed)
        headers = {"request-id": request_id, "stripe-version": API_VERSION, **answer.headers}
        if key is not None and key.isascii():
            headers["idempotency-key"] = key
        form = HalfResponse if answer.is_truncated else Response
        return form(answer.body, answer.status, headers, media_type=answer.media_type)

    async def _executed(
        self,
        endpoint: Endpoint,
        place: Place,
        raw: Json,
        keyed: Keyed | None,
        fault: Fault | None,
        request_id: str,
    ) -> Answer:
        kind = None if fault is None else fault.kind
        if kind is FaultKind.DROP_BEFORE:
            raise DroppedError
        if kind in REFUSALS:
            raise REFUSALS[kind]()
        if keyed is None:
            await _wait(fault, FaultKind.DELAY_BEFORE)
            answer = self._act(endpoint, place, raw, None, kind, request_id)
        else:
            with self._keys.held(keyed) as remembered:
                # The client may be killed meanwhile. Nobody cancels this task, so the request lands all the same.
                await _wait(fault, FaultKind.DELAY_BEFORE)
                if remembered is not None:
                    answer = _replay(remembered)
                else:
                    answer = self._act(endpoint, place, raw, keyed, kind, request_id)
        if kind is FaultKind.DROP_AFTER:
            raise DroppedError
        await _wait(fault, FaultKind.DELAY_AFTER)
        answer.is_truncated = kind is FaultKind.TRUNCATE
        return answer

    def _act(
        self,
        endpoint: Endpoint,
        place: Place,
        raw: Json,
        keyed: Keyed | None,
        kind: FaultKind | None,
        request_id: str,
    ) -> Answer:
        params = endpoint.parameters.check(raw)
        call = Call(
            self.ledger,
            self.clock,
            params,
            place.identifier,
            place.child,
            place.account,
            request_id,
            None if keyed is None else keyed.key,
        )
        if endpoint.method == "GET":
            if kind in (FaultKind.ERROR_500_BEFORE, FaultKind.ERROR_500_AFTER):
                raise internal()
            return Answer(status=200, body=json.dumps(endpoint.run(call)))
        with self.ledger.transaction():
            try:
                if kind is FaultKind.ERROR_500_BEFORE:
                    raise internal()
                if kind is FaultKind.DECLINE:
                    raise declined()
                answer = Answer(status=200, body=json.dumps(endpoint.run(call)))
                if kind is FaultKind.ERROR_500_AFTER:
                    raise internal()
            except ApiError as error:
                if error.is_validation:
                    raise
                answer = _refusal(error)
            if keyed is not None:
                self._keys.remember(keyed, status=answer.status, body=answer.body, request_id=request_id)
                answer.headers["original-request"] = request_id
        return answer


def build(ledger: Ledger) -> Starlette:
    """The ASGI application over a ledger."""
    service = Service(ledger)
    endpoints = (
        *payments.ENDPOINTS,
        *charges.ENDPOINTS,
        *disputes.ENDPOINTS,
        *early_fraud_warnings.ENDPOINTS,
        *refunds.ENDPOINTS,
        *customers.ENDPOINTS,
        *customer_balance.ENDPOINTS,
        *credit_grants.ENDPOINTS,
        *accounts.ENDPOINTS,
        *transfers.ENDPOINTS,
        *payouts.ENDPOINTS,
        *balance.ENDPOINTS,
        *balance_transactions.ENDPOINTS,
        *events.ENDPOINTS,
        *webhook_endpoints.ENDPOINTS,
    )
    return Starlette(
        routes=[
            *control.routes(
                service.ledger,
                service.clock,
                service.faults,
                future=service.future,
                more=verbs.routes(PREFIX, service.ledger, service.clock, service.webhook_faults),
            ),
            *(Route(one.path, _Door(service, one), methods=[one.method]) for one in endpoints),
            Route("/{rest:path}", _Door(service, None)),
        ],
        lifespan=service.running,
    )


class _Door:
    """An endpoint as an ASGI application: the only place where an answer can turn out to be a closed connection."""

    def __init__(self, service: Service, endpoint: Endpoint | None) -> None:
        self._service = service
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._service.respond(request, self._endpoint)
        except DroppedError:
            await hang_up(scope, receive)
        else:
            await response(scope, receive, send)


def _account(request: Request, ledger: Ledger) -> str:
    """Whom the request acts for; docs.stripe.com/connect/authentication.

    Raises:
        ApiError: 403, no such account is connected; SDKs raise their permission error.
    """
    named = request.headers.get("stripe-account", PLATFORM)
    if named != PLATFORM and ledger.find("accounts", named) is None:
        raise account_invalid(named)
    return named


async def _wait(fault: Fault | None, kind: FaultKind) -> None:
    if fault is not None and fault.kind is kind:
        await asyncio.sleep(fault.delay_s)


def _replay(remembered: Remembered) -> Answer:
    headers = {"idempotent-replayed": "true", "original-request": remembered.request_id}
    if remembered.status >= 500:
        headers["stripe-should-retry"] = "false"
    return Answer(status=remembered.status, body=remembered.body, headers=headers, is_replayed=True)


def _refusal(error: ApiError) -> Answer:
    # The SDK reads this header: a 409 is worth another try, a 500 is not, since its key would replay it.
    advice = {
        409: {"stripe-should-retry": "true"},
        429: {"stripe-rate-limited-reason": "global-rate"} if error.code == "rate_limit" else {},
        500: {"stripe-should-retry": "false"},
    }
    if error.page is not None:
        return Answer(status=error.status, body=error.page, media_type="text/html")
    return Answer(status=error.status, body=json.dumps(error.body), headers=dict(advice.get(error.status, {})))
