"""A refund desk on Temporal: a workflow, its activities behind the gate, and a worker. Run as a program, it is a worker process."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from pydantic import BaseModel

    from interlock import Interlock, Outcome
    from interlock.temporal import InterlockPlugin, gated
    from interlock.testing.ledger import RefundService

SOON = RetryPolicy(initial_interval=timedelta(milliseconds=50), maximum_interval=timedelta(milliseconds=200))


class Made(BaseModel):
    """What a typed effect returns: nothing that plain JSON knows."""

    id: str
    at: datetime
    amount: Decimal


@workflow.defn
class RevocableRefund:
    """A refund whose permission a Signal takes back; the effect's `allowed=` asks this workflow."""

    def __init__(self) -> None:
        self.revoked = False

    @workflow.signal
    def revoke(self) -> None:
        """The approval is taken back."""
        self.revoked = True

    @workflow.query
    def is_allowed(self) -> bool:
        """Whether it stands, all Signals counted."""
        return not self.revoked

    @workflow.run
    async def run(self, order: str) -> Any:
        return await workflow.execute_activity(
            "refund_if_allowed", args=[order, 20], start_to_close_timeout=timedelta(seconds=1.5), retry_policy=SOON
        )


@workflow.defn
class PatientRefund:
    """One refund; a cancelled one waits until its activity has ended, and tells how."""

    @workflow.run
    async def run(self, order: str, name: str) -> Any:
        try:
            return await workflow.execute_activity(
                name,
                args=[order, 20],
                start_to_close_timeout=timedelta(seconds=20),
                heartbeat_timeout=timedelta(seconds=0.6),
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            )
        except ActivityError as error:
            return str(error.cause)


@workflow.defn
class LocalRefund:
    """One refund by a local activity."""

    @workflow.run
    async def run(self, order: str) -> Any:
        return await workflow.execute_local_activity(
            "refund", args=[order, 20], start_to_close_timeout=timedelta(seconds=1.5), retry_policy=SOON
        )


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
            retry_policy=SOON,
        )
        if times > 1:
            workflow.continue_as_new(args=[order, name, times - 1])
        return made


def worker(client: Client, directory: Path, queue: str) -> tuple[Worker, Interlock]:
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

    async def stands(order: str) -> bool:
        """Whether the workflow of this order still allows it. Queried with a deadline: nobody answers before a worker runs."""
        return await client.get_workflow_handle(f"revocable-{order}").query(
            RevocableRefund.is_allowed, rpc_timeout=timedelta(seconds=1)
        )

    @gate.effect(**{**options, "allowed": stands}, **found)
    async def refund_if_it_stands(order: str, amount: int, idempotency_key: str) -> dict[str, Any]:
        return await service.acreate_refund(order, amount, idempotency_key)

    async def asked(order: str) -> bool:
        """Whether it may be refunded, answered after two seconds."""
        (directory / "asked").touch()
        await asyncio.sleep(2)
        return True

    @gate.effect(**{**options, "allowed": asked}, **found)
    async def refund_when_told(order: str, amount: int, idempotency_key: str) -> dict[str, Any]:
        return await service.acreate_refund(order, amount, idempotency_key)

    @gate.effect(**options, **found)
    def refund_typed(order: str, amount: int, idempotency_key: str) -> Made:
        made = service.create_refund(order, amount, idempotency_key)
        return Made(id=made["id"], at=datetime(2026, 1, 1, tzinfo=UTC), amount=Decimal("0.20"))

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

    @activity.defn
    async def sync_gate(order: str, amount: int) -> Any:
        return await gated(refund_money.gate, await refund_money.aproposal(order, amount))

    @activity.defn
    def async_gate(order: str, amount: int) -> Any:
        return gated(arefund_money.gate, arefund_money.proposal(order, amount))

    @activity.defn
    async def refund_if_allowed(order: str, amount: int) -> Any:
        return await gated(refund_if_it_stands.gate, await refund_if_it_stands.aproposal(order, amount))

    @activity.defn
    async def refund_if_asked(order: str, amount: int) -> Any:
        return await gated(refund_when_told.gate, await refund_when_told.aproposal(order, amount))

    @activity.defn
    def typed(order: str, amount: int) -> Any:
        return gated(refund_typed.gate, refund_typed.proposal(order, amount))

    @activity.defn
    def typed_returned(order: str, amount: int) -> Outcome:
        return refund_typed(order, amount)

    @activity.defn
    def unacceptable(order: str, amount: int) -> Any:
        return gated(refund_money.gate, refund_money.proposal(order, object()))

    made = Worker(
        client,
        task_queue=queue,
        workflows=[Refund, RevocableRefund, PatientRefund, LocalRefund],
        activities=[
            refund,
            arefund,
            refund_slowly,
            blind,
            returned,
            sync_gate,
            async_gate,
            refund_if_allowed,
            refund_if_asked,
            typed,
            typed_returned,
            unacceptable,
        ],
        activity_executor=ThreadPoolExecutor(8),
        plugins=[InterlockPlugin(gate)],
        # Without this a dead worker's sticky queue would be measured: ten seconds until the server gives up on it.
        sticky_queue_schedule_to_start_timeout=timedelta(milliseconds=300),
        graceful_shutdown_timeout=timedelta(seconds=0.3),
    )
    return made, gate


async def main(address: str, directory: Path, queue: str) -> None:
    """Work until killed, until SIGTERM asks for a graceful end, or for a minute."""
    client = await Client.connect(address)
    work, _ = worker(client, directory, queue)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with work:
        (directory / "ready").write_text(str(time.time()))
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(ended.wait(), 60)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
