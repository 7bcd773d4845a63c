"""Control verbs about money and webhooks, under /_control: what banks, card holders and networks would do.

Owns their wire form; `steering.py` speaks it. A verb acts in one transaction, as a request does, and records the same events.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from benchmarks.services.stripe import deliveries, disputes, keys, refunds
from benchmarks.services.stripe.clock import ServiceClock
from benchmarks.services.stripe.delivery import WebhookFault, WebhookFaultKind, WebhookFaults
from benchmarks.services.stripe.endpoint import Call
from benchmarks.services.stripe.errors import ApiError
from benchmarks.services.stripe.ledger import Ledger

Verb = Callable[[Call, str, dict[str, Any]], Any]


def _settle(call: Call, refund: str, asked: dict[str, Any]) -> Any:
    return refunds.settle(call, refund, **asked)


def _dispute(call: Call, charge: str, asked: dict[str, Any]) -> Any:
    return disputes.open_dispute(call, charge, **asked)


def _escalate(call: Call, dispute: str, asked: dict[str, Any]) -> Any:
    return disputes.escalate(call, dispute, **asked)


def _close(call: Call, dispute: str, asked: dict[str, Any]) -> Any:
    return disputes.close_dispute(call, dispute, **asked)


def routes(prefix: str, ledger: Ledger, clock: ServiceClock, faults: WebhookFaults) -> Sequence[BaseRoute]:
    """The routes over a running service."""

    def acting(verb: Verb) -> Callable[[Request], Any]:
        async def act(request: Request) -> JSONResponse:
            try:
                asked = json.loads(await request.body() or b"{}")
                with ledger.transaction():
                    told = verb(Call(ledger, clock, {}), request.path_params["id"], asked)
            except (ApiError, TypeError, ValueError) as error:
                return JSONResponse({"error": str(error)}, 400)
            return JSONResponse(told)

        return act

    async def add_fault(request: Request) -> JSONResponse:
        try:
            asked = json.loads(await request.body() or b"{}")
            faults.add(WebhookFault(**{**asked, "kind": WebhookFaultKind(asked.get("kind", ""))}))
        except (TypeError, ValueError) as error:
            return JSONResponse({"error": str(error)}, 400)
        return JSONResponse({})

    async def clear_faults(request: Request) -> JSONResponse:
        faults.clear()
        return JSONResponse({})

    async def revoke(request: Request) -> JSONResponse:
        asked = json.loads(await request.body() or b"{}")
        with ledger.transaction():
            keys.revoke(ledger, str(asked["key"]))
        return JSONResponse({})

    async def release(request: Request) -> JSONResponse:
        asked = json.loads(await request.body() or b"{}")
        is_reversed = bool(asked.get("newest_first", False))
        return JSONResponse({"released": deliveries.release(ledger, is_newest_first=is_reversed)})

    async def resend(request: Request) -> JSONResponse:
        return JSONResponse({"queued": deliveries.resend(ledger, request.path_params["id"])})

    async def told(request: Request) -> JSONResponse:
        return JSONResponse(deliveries.told(ledger))

    return (
        Route(f"{prefix}/refunds/{{id}}/settle", acting(_settle), methods=["POST"]),
        Route(f"{prefix}/charges/{{id}}/dispute", acting(_dispute), methods=["POST"]),
        Route(f"{prefix}/disputes/{{id}}/escalate", acting(_escalate), methods=["POST"]),
        Route(f"{prefix}/disputes/{{id}}/close", acting(_close), methods=["POST"]),
        Route(f"{prefix}/webhooks/faults", add_fault, methods=["POST"]),
        Route(f"{prefix}/webhooks/faults", clear_faults, methods=["DELETE"]),
        Route(f"{prefix}/keys/revoke", revoke, methods=["POST"]),
        Route(f"{prefix}/webhooks/release", release, methods=["POST"]),
        Route(f"{prefix}/webhooks/resend/{{id}}", resend, methods=["POST"]),
        Route(f"{prefix}/webhooks/deliveries", told),
    )
