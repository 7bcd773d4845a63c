"""A refund desk on Restate: services whose runs stand behind the gate. Run as a program, it is a worker process, and a single one."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import restate
from hypercorn.asyncio import serve
from hypercorn.config import Config

from interlock import Interlock
from interlock.restate import gated, recovering
from interlock.testing.ledger import RefundService

logging.getLogger("interlock").setLevel(logging.CRITICAL)


def desk(directory: Path) -> Any:
    """The application, on a journal and a refund service in `directory`."""
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

    effects = {"refund": refund_money, "arefund": arefund_money, "blind": refund_blindly}

    def note(file: str, line: str) -> None:
        with (directory / file).open("a", encoding="utf-8") as out:
            out.write(f"{line}\n")

    desks = restate.Service("Desk")

    @desks.handler()
    async def refund(ctx: restate.Context, case: dict[str, Any]) -> Any:
        """Refund, by the effect named."""
        note(f"attempts-{case['order']}", str(os.getpid()))
        chosen = effects[case.get("by", "refund")]
        options: restate.RunOptions[Any] = restate.RunOptions(max_attempts=case.get("max_attempts"))
        asked = {"order": case["order"], "amount": case.get("amount", 20)}
        made = await ctx.run_typed("refund", gated(chosen, run="refund"), options, **asked)
        if case.get("fails_once") and not (directory / "failed").exists():
            note("failed", "")
            raise RuntimeError("after the run")
        return made

    @desks.handler(inactivity_timeout=timedelta(seconds=0.3), abort_timeout=timedelta(seconds=0.3))
    async def impatient(ctx: restate.Context, case: dict[str, Any]) -> Any:
        """Refund, in an attempt that Restate aborts after less than a second."""
        note(f"attempts-{case['order']}", str(os.getpid()))
        chosen = effects[case.get("by", "refund")]
        return await ctx.run_typed("refund", gated(chosen), order=case["order"], amount=20)

    @desks.handler()
    async def caught(ctx: restate.Context, case: dict[str, Any]) -> Any:
        """Call the desk as another service does, and tell what its error carries."""
        try:
            return await ctx.service_call(refund, case)
        except restate.TerminalError as error:
            return {"message": error.message, "code": error.status_code, "metadata": error.metadata}

    @desks.handler()
    async def ping(ctx: restate.Context) -> str:
        """Answer at once."""
        return "pong"

    orders = restate.VirtualObject("Order")

    @orders.handler("refund")
    async def refund_order(ctx: restate.ObjectContext, amount: int) -> Any:
        """Refund the order that the object is."""
        return await ctx.run_typed("refund", gated(refund_money), order=ctx.key(), amount=amount)

    return recovering(restate.app([desks, orders]), gate)


async def main(port: int, directory: Path) -> None:
    """Serve until killed, or for a minute."""
    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.accesslog = config.errorlog = None
    config.graceful_timeout = 1.0

    async def over() -> None:
        (directory / f"ready-{port}").write_text(str(time.time()))
        await asyncio.sleep(60)

    await serve(desk(directory), config, shutdown_trigger=over)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2])))
