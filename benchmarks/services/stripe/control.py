"""The control API under /_control: faults, clock, keys, and the books, for benchmarks. Real Stripe has nothing of it.

Owns the wire form of these; `launcher.py` speaks it. Its requests are not entered in the books.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from benchmarks.services.stripe import ledger as books
from benchmarks.services.stripe import payouts
from benchmarks.services.stripe.clock import ServiceClock
from benchmarks.services.stripe.endpoint import Call
from benchmarks.services.stripe.errors import ApiError
from benchmarks.services.stripe.faults import Fault, FaultKind, Faults
from benchmarks.services.stripe.later import Future
from benchmarks.services.stripe.ledger import Ledger
from benchmarks.services.stripe.steering import PREFIX


def routes(
    ledger: Ledger, clock: ServiceClock, faults: Faults, *, future: Future, more: Sequence[BaseRoute] = ()
) -> Sequence[BaseRoute]:
    """The control API's routes over a running service, and `more` of them."""

    async def unknown(request: Request) -> JSONResponse:
        return JSONResponse({"error": f"there is no {request.method} {request.url.path}"}, 404)

    async def about(request: Request) -> JSONResponse:
        return JSONResponse({"pid": os.getpid(), "clock_offset_s": clock.offset_s})

    async def read(request: Request) -> JSONResponse:
        return JSONResponse(books.read(ledger.directory))

    async def refunded(request: Request) -> JSONResponse:
        total, number = books.read_refunded(ledger.directory, request.path_params["id"])
        return JSONResponse({"total_minor": total, "count": number})

    async def fault(request: Request) -> JSONResponse:
        try:
            asked = await _fields(request)
            faults.add(Fault(**{**asked, "kind": FaultKind(asked.get("kind", ""))}))
        except (TypeError, ValueError) as error:
            return JSONResponse({"error": str(error)}, 400)
        return JSONResponse({})

    async def clear_faults(request: Request) -> JSONResponse:
        faults.clear()
        return JSONResponse({})

    async def move_clock(request: Request) -> JSONResponse:
        try:
            asked = await _fields(request)
            offset = 0.0 if asked.get("reset") else clock.offset_s + float(asked["advance_s"])
        except (KeyError, TypeError, ValueError):
            return JSONResponse({"error": 'say {"advance_s": seconds} or {"reset": true}'}, 400)
        ledger.keep_setting("clock_offset_s", offset)
        clock.offset_s = offset
        future.catch_up()
        return JSONResponse({"clock_offset_s": offset})

    async def forget_keys(request: Request) -> JSONResponse:
        return JSONResponse({"forgotten": ledger.forget_keys()})

    async def arrive(request: Request) -> JSONResponse:
        try:
            asked = await _fields(request)
            identifier = request.path_params["id"]
            account = ledger.account_of("payouts", identifier)
            with ledger.transaction():
                call = Call(ledger, clock, {}, identifier, account=account)
                told = payouts.arrive(call, str(asked.get("status")), asked.get("failure_code"))
        except (ApiError, ValueError) as error:
            return JSONResponse({"error": str(error)}, 400)
        return JSONResponse(told)

    return (
        Route(f"{PREFIX}/about", about),
        Route(f"{PREFIX}/ledger", read),
        Route(f"{PREFIX}/refunded/{{id}}", refunded),
        Route(f"{PREFIX}/faults", fault, methods=["POST"]),
        Route(f"{PREFIX}/faults", clear_faults, methods=["DELETE"]),
        Route(f"{PREFIX}/clock", move_clock, methods=["POST"]),
        Route(f"{PREFIX}/keys/forget", forget_keys, methods=["POST"]),
        Route(f"{PREFIX}/payouts/{{id}}", arrive, methods=["POST"]),
        *more,
        Route(f"{PREFIX}/{{rest:path}}", unknown, methods=["GET", "POST", "DELETE"]),
    )


async def _fields(request: Request) -> dict[str, Any]:
    fields = json.loads(await request.body() or b"{}")
    if not isinstance(fields, dict):
        raise TypeError("a control request is a JSON object")
    return fields
