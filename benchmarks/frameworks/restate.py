"""Restate: a handler that waits for an approval at an awakeable, and a run that refunds; on Restate's own server."""

from __future__ import annotations

import asyncio
import http.client
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks.services.restate import MISSING, RestateDoors, RestateServer, find_server, free_ports
from benchmarks.suites.matrix import arms
from benchmarks.suites.matrix.case import Job
from benchmarks.suites.matrix.framework import Framework

FRAMEWORK = Framework(
    name="restate",
    title="Restate",
    packages=("restate-sdk", "hypercorn"),
    extra="restate",
    docs="https://docs.restate.dev/develop/python/external-events (awakeables), durable-steps (run)",
    starts="an invocation at the ingress, with an idempotency key; the handler makes an awakeable, waits, and is suspended",
    approves="the awakeable is resolved at the ingress, by the id that the application kept",
    persists="every finished step of the handler, and the approval, on the server",
    resumes=(
        "a new worker listens, and the server invokes the handler again by itself: it is replayed up to the run that has no result. The "
        "server tries every 50 ms (its back-off is switched off, for every arm)"
    ),
    wrapper="interlock.integrations.restate.gated",
    example="restate",
    skip="" if find_server() is not None else MISSING,
    order=30,
)

SUSPENDS_AFTER = timedelta(seconds=0.2)
"""A handler that waits is suspended then; by default after a minute, for which nobody here waits."""


@contextmanager
def open_beside(directory: Path) -> Iterator[dict[str, str]]:
    """Restate's server."""
    with RestateServer(directory) as server:
        yield {"ingress": server.ingress, "admin": server.admin}


def start(job: Job) -> None:
    """Make the worker known, and invoke the handler: it stops at its awakeable."""
    job.save("port", free_ports(1)[0])

    def begin() -> None:
        doors = _doors(job)
        doors.register(f"http://127.0.0.1:{job.saved('port')}")
        job.save("invocation", doors.send(f"{_service_of(job)}/refund", job.case, idempotency_key=job.case))
        while doors.status(job.saved("invocation")) != "suspended":
            time.sleep(0.02)

    asyncio.run(_serve_until(job, begin))


def approve(job: Job) -> Any:
    """Resolve the awakeable, and wait for the invocation's end."""
    return _ended(job, lambda: _doors(job).resolve(job.saved("awakeable"), "approved"))


def resume(job: Job) -> Any:
    """Listen: the server does the rest."""
    return _ended(job, lambda: None)


def _ended(job: Job, first: Callable[[], None]) -> Any:
    def end() -> tuple[int, Any]:
        first()
        return _doors(job).attach(job.saved("invocation"))

    status, told = asyncio.run(_serve_until(job, end))
    if status == http.client.OK:
        return told
    return {"status": told.get("metadata", {}).get("interlock.status", f"ERROR:{status}"), "message": told["message"]}


def _service_of(job: Job) -> str:
    """A service of the case's own: of two cases at once, the server would give one name's calls to whoever registered it last."""
    return f"Case-{job.case}"


def _doors(job: Job) -> RestateDoors:
    return RestateDoors(job.beside["ingress"], job.beside["admin"])


async def _serve_until(job: Job, done: Callable[[], Any]) -> Any:
    """Serve the handler in this very process for as long as that takes; several workers may serve on the case's one address."""
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listening.bind(("127.0.0.1", job.saved("port")))
    config = Config()
    config.bind = [f"fd://{listening.detach()}"]
    config.accesslog = config.errorlog = None
    config.graceful_timeout = 0.2
    over = asyncio.Event()
    with _app(job) as app:
        serving = asyncio.create_task(serve(app, config, shutdown_trigger=over.wait))
        try:
            return await asyncio.to_thread(done)
        finally:
            over.set()
            await serving


@contextmanager
def _app(job: Job) -> Iterator[Any]:
    import restate

    service = restate.Service(_service_of(job))

    @service.handler(inactivity_timeout=SUSPENDS_AFTER)
    async def refund(ctx: Any, case: str) -> Any:  # Restate evaluates annotations, and its names are not global here
        """Ask for the approval, and refund."""
        name, approval = ctx.awakeable()
        await ctx.run_typed("ask", job.save, name="awakeable", value=name)
        await approval
        return await ctx.run_typed("refund", carried_out, **asked)

    if job.arm != "interlock":
        carried_out: Any = arms.act
        asked: dict[str, Any] = {"job": job}
        yield restate.app([service])
        return
    from interlock import Interlock
    from interlock.integrations.restate import gated, recovering

    with Interlock(job.journal) as gate:
        carried_out = gated(arms.refund_of(gate, job))
        asked = {"case": arms.case_of(job), "amount": job.amount_minor}
        yield recovering(restate.app([service]), gate)
