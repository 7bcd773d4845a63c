"""A refund desk on DBOS: workflows and steps behind the gate. Run as a program, it is a worker process that answers on its standard output.

    python desk.py DIRECTORY DATABASE_URL [COMMAND ...]

Commands, in turn: `start WORKFLOW ID ORDER`, `fork ID STEP NEW_ID`, `cancel ID`, `resume ID`, `end SECONDS`, `result ID`, `status ID`,
`steps ID`, `sleep SECONDS`.
Each prints one JSON line. Version, executor and clock come from the environment.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dbos import DBOS, DBOSConfig, SetWorkflowID

from interlock import Interlock
from interlock.dbos import EffectNotDone, gated, launch, run_effect, run_effect_async, should_retry
from interlock.ports import SystemClock, Uptime
from interlock.testing.ledger import RefundService

LATER_S = float(os.environ.get("DESK_LATER_S", "0"))


class Later(SystemClock):
    """The machine's clocks, as if more time had passed."""

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=LATER_S)

    def uptime(self) -> Uptime:
        real = super().uptime()
        return Uptime(real.boot, real.seconds + LATER_S)


def declare(directory: Path) -> tuple[Interlock, dict[str, Callable[..., Any]]]:
    """The gate, its effects, and the workflows that use them."""
    service = RefundService(directory / "service")
    gate = Interlock(directory / "journal", clock=Later())

    def is_allowed(order: str) -> bool:
        # Asked between the decision and the send.
        if os.environ.get("DESK_DIE") == "before the send":
            os.kill(os.getpid(), signal.SIGKILL)
        return bool(service.get_order(order)["refundable"])

    options: dict[str, Any] = {
        "key": lambda order: f"refund:{order}",
        "allowed": is_allowed,
        "premises": lambda order: {"refunded": service.get_order(order)["refunded_total"]},
        "settle_after": float(os.environ.get("DESK_SETTLE", "0.05")),
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

    retries: dict[str, Any] = {
        "retries_allowed": True, "max_attempts": 30, "interval_seconds": 0.2, "backoff_rate": 1, "should_retry": should_retry,
    }  # fmt: skip

    @DBOS.step(**retries)
    def step(order: str) -> Any:
        attempt(directory, gate)
        return gated(gate, refund_money.proposal(order, 20))

    @DBOS.step(**retries)
    async def astep(order: str) -> Any:
        attempt(directory, gate)
        return await gated(gate, await arefund_money.aproposal(order, 20))

    @DBOS.step(preemptible=True, **retries)
    async def preempted(order: str) -> Any:
        attempt(directory, gate)
        return await gated(gate, await arefund_money.aproposal(order, 20))

    @DBOS.step(timeout_seconds=0.4, **retries)
    async def hurried(order: str) -> Any:
        attempt(directory, gate)
        return await gated(gate, await arefund_money.aproposal(order, 20))

    @DBOS.step(**retries)
    def blind(order: str) -> Any:
        attempt(directory, gate)
        return gated(gate, refund_blindly.proposal(order, 20))

    @DBOS.workflow()
    def by_step(order: str) -> Any:
        return step(order)

    @DBOS.workflow()
    async def by_astep(order: str) -> Any:
        return await astep(order)

    @DBOS.workflow()
    async def by_preempted(order: str) -> Any:
        return await preempted(order)

    @DBOS.workflow()
    async def by_hurried(order: str) -> Any:
        return await hurried(order)

    @DBOS.workflow()
    def by_blind(order: str) -> Any:
        return blind(order)

    @DBOS.workflow()
    def by_run_step(order: str) -> Any:
        def body() -> Any:
            attempt(directory, gate)
            return gated(gate, refund_money.proposal(order, 20))

        return DBOS.run_step({"name": "refund", **retries}, body)  # type: ignore[typeddict-item]

    @DBOS.workflow()
    def by_effect(order: str) -> Any:
        return run_effect(refund_money, order, 20)

    @DBOS.workflow()
    async def by_aeffect(order: str) -> Any:
        return await run_effect_async(arefund_money, order, 20)

    @DBOS.workflow()
    def by_patience(order: str) -> Any:
        return run_effect(refund_money, order, 20, wait=0.3)

    @DBOS.workflow()
    def twice(order: str) -> Any:
        first = run_effect(refund_money, order, 20)
        DBOS.sleep(0.1)
        return [first, run_effect(refund_money, order, 20)]

    flows = (
        by_step,
        by_astep,
        by_preempted,
        by_hurried,
        by_blind,
        by_run_step,
        by_effect,
        by_aeffect,
        by_patience,
        twice,
    )
    return gate, {flow.__qualname__.rpartition(".")[2]: flow for flow in flows}


def attempt(directory: Path, gate: Interlock) -> None:
    """Note that a step's body began, and how many effects were open then."""
    row = {"pid": os.getpid(), "workflow": DBOS.workflow_id, "step": DBOS.step_id}
    with (directory / "attempts").open("a") as out:
        out.write(json.dumps({**row, "open": len(list(gate.journal.open_effects()))}) + "\n")


def config(url: str) -> DBOSConfig:
    """DBOS on this database."""
    return {
        "name": "refund-desk",
        "system_database_url": url,
        "application_version": os.environ.get("DESK_VERSION", "v1"),
        "executor_id": os.environ.get("DESK_EXECUTOR", "local"),
        "log_level": "CRITICAL",
    }


def result(workflow_id: str) -> dict[str, Any]:
    """The workflow's result, or its error as DBOS kept it."""
    try:
        return {"value": DBOS.retrieve_workflow(workflow_id).get_result(polling_interval_sec=0.05)}
    except EffectNotDone as error:
        return {"error": type(error).__name__, "status": error.status, "data": dict(error.data)}
    except Exception as error:  # what DBOS itself raised
        return {"error": type(error).__name__, "text": str(error)}


def start(flow: Callable[..., Any], workflow_id: str, order: str) -> dict[str, Any]:
    with SetWorkflowID(workflow_id):
        DBOS.start_workflow(flow, order)
    return {"started": workflow_id}


def obey(command: list[str], flows: dict[str, Callable[..., Any]]) -> dict[str, Any]:
    """One command."""
    what, *rest = command
    if what == "start":
        return start(flows[rest[0]], rest[1], rest[2])
    if what == "fork":
        with SetWorkflowID(rest[2]):
            DBOS.fork_workflow(rest[0], int(rest[1]), application_version=os.environ.get("DESK_VERSION", "v1"))
        return {"forked": rest[2]}
    if what == "cancel":
        DBOS.cancel_workflow(rest[0])
        return {"cancelled": rest[0]}
    if what == "resume":
        DBOS.resume_workflow(rest[0])
        return {"resumed": rest[0]}
    if what == "end":
        DBOS.destroy(workflow_completion_timeout_sec=int(rest[0]))
        return {"ended": rest[0]}
    if what == "status":
        return {"status": getattr(DBOS.get_workflow_status(rest[0]), "status", None)}
    if what == "steps":
        return {"steps": [[one["function_id"], one["function_name"]] for one in DBOS.list_workflow_steps(rest[0])]}
    if what == "sleep":
        time.sleep(float(rest[0]))
        return {"slept": rest[0]}
    return result(rest[0])


def main(directory: Path, url: str) -> None:
    """Read commands, one JSON list a line, until the input ends."""
    logging.getLogger("interlock").setLevel(logging.CRITICAL)
    DBOS(config=config(url))
    gate, flows = declare(directory)
    if os.environ.get("DESK_HOLD"):
        print(json.dumps({"up": True}), flush=True)
        sys.stdin.readline()
    recovery = launch(gate)
    print(json.dumps({"ready": [str(one) for one in recovery or []]}), flush=True)
    for line in sys.stdin:
        print(json.dumps(obey(json.loads(line), flows)), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
