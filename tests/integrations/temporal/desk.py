"""A refund desk on Temporal: a workflow, its activities behind the gate, and a worker. Run as a program, it is a worker process."""

from __future__ import annotations

import asyncio
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from interlock import Interlock, Outcome
    from interlock.temporal import InterlockPlugin, gated
    from interlock.testing.ledger import RefundService

QUEUE = "refunds"


@workflow.defn
class Refund:
    """One refund of an approved case, by the activity named."""

    @workflow.run
    async def run(self, order: str, name: str, times: int) -> Any:
        made = await workflow.execute_activity(
            name,
            args=[order, 20],
            start_to_close_timeout=timedelta(seconds=1.5),
            heartbeat_timeout=timedelta(seconds=0.6) if name == "refund_slowly" else None,
            retry_policy=RetryPolicy(
                initial_interval=timedelta(milliseconds=50), maximum_interval=timedelta(milliseconds=200)
            ),
        )
        if times > 1:
            workflow.continue_as_new(args=[order, name, times - 1])
        return made


def worker(client: Client, directory: Path) -> tuple[Worker, Interlock]:
    """A worker on a journal and a refund service in `directory`."""
    service = RefundService(directory / "service")
    gate = Interlock(directory / "journal")
    options: dict[str, Any] = {
        "key": lambda order: f"refund:{order}",
        "allowed": lambda order: service.get_order(order)["refundable"],
        "settle_after": 0.05,
    }
    found = {"lookup": lambda idempotency_key: service.find_refund(idempotency_key)["refund"]}

    @gate.effect(**options, **found)
    def refund_money(order: str, amount: int, idempotency_key: str) -> dict[str, Any]:
        return service.create_refund(order, amount, idempotency_key)

    @gate.effect(**options, **found)
    async def arefund_money(order: str, amount: int, idempotency_key: str) -> dict[str, Any]:
        return await service.acreate_refund(order, amount, idempotency_key)

    @gate.effect(**options)
    def refund_blindly(order: str, amount: int) -> dict[str, Any]:
        return service.create_refund(order, amount)

    @activity.defn
    def refund(order: str, amount: int) -> Any:
        return gated(refund_money.gate, refund_money.proposal(order, amount))

    @activity.defn
    async def arefund(order: str, amount: int) -> Any:
        return await gated(arefund_money.gate, await arefund_money.aproposal(order, amount))

    @activity.defn
    def refund_slowly(order: str, amount: int) -> Any:
        return gated(refund_money.gate, refund_money.proposal(order, amount))

    @activity.defn
    def blind(order: str, amount: int) -> Any:
        return gated(refund_blindly.gate, refund_blindly.proposal(order, amount))

    @activity.defn
    def returned(order: str, amount: int) -> Outcome:
        return refund_money(order, amount)

    made = Worker(
        client,
        task_queue=QUEUE,
        workflows=[Refund],
        activities=[refund, arefund, refund_slowly, blind, returned],
        activity_executor=ThreadPoolExecutor(8),
        plugins=[InterlockPlugin(gate)],
        # Without this a dead worker's sticky queue would be measured: ten seconds until the server gives up on it.
        sticky_queue_schedule_to_start_timeout=timedelta(milliseconds=300),
        graceful_shutdown_timeout=timedelta(seconds=3),
    )
    return made, gate


async def main(address: str, directory: Path) -> None:
    """Work until killed, or for a minute."""
    client = await Client.connect(address)
    work, _ = worker(client, directory)
    async with work:
        (directory / "ready").write_text(str(time.time()))
        await asyncio.sleep(60)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
