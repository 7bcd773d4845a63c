"""A worker process of Restate: the workflow, its two runs for each arm, served by this very process, and the answer that it ends with.

The workflow is what its user writes. What its runs do is closed over the job that this process was handed, so that nothing of a dead
worker's job (where it dies, what the clock says) comes back with the next attempt.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from typing import TYPE_CHECKING, Any

import restate
from hypercorn.asyncio import serve
from hypercorn.config import Config

from benchmarks.harness import log
from benchmarks.harness.stripe_wire import connect
from benchmarks.harness.supervisor import live_with_supervisor
from benchmarks.services.restate import RestateDoors, RestateError
from benchmarks.suites.e2e.arms import close_by_hand
from benchmarks.suites.e2e.case import NO_DECISION, Answer, Decision, Job

if TYPE_CHECKING:
    from benchmarks.suites.e2e.gated import GatedArm

NAME = "Case"
ANSWER_TIMEOUT_S = 110.0


def main() -> None:
    """Read the job, serve its workflow, answer."""
    live_with_supervisor()
    log.mute()
    line = sys.stdin.readline()
    if line:
        told = json.loads(line)
        doors = RestateDoors(told["ingress"], told["admin"])
        asyncio.run(work(doors, told["port"], Job.model_validate(told["job"])))


async def work(doors: RestateDoors, port: int, job: Job) -> None:
    """Serve until the case is closed."""
    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.accesslog = config.errorlog = None
    config.graceful_timeout = 0.1
    closed = asyncio.Event()
    with contextlib.ExitStack() as stack:
        arm = _arm(job, stack)
        app: Any = restate.app([_workflow(job, arm)])
        if arm is not None:
            from interlock.restate import recovering

            app = recovering(app, arm.gate)
        serving = asyncio.create_task(serve(app, config, shutdown_trigger=closed.wait))
        if job.attempt == 1:
            await asyncio.to_thread(_begin, doors, port, job)
        status, ended = await asyncio.to_thread(doors.attach_workflow, NAME, job.case, timeout_s=ANSWER_TIMEOUT_S)
        print(_answer(job, arm, status, ended).model_dump_json(), flush=True)
        closed.set()
        await serving


def _workflow(job: Job, arm: GatedArm | None) -> restate.Workflow:
    cases = restate.Workflow(NAME)

    @cases.main()
    async def run(ctx: restate.WorkflowContext) -> dict[str, Any]:
        """One support case: the model decides, the refund is carried out."""
        decided = await ctx.run_typed("decide", decide)
        if "stopped" in decided:
            return decided
        told = {"decision": decided, "engine_ids": {"invocation_id": ctx.request().id, "workflow_key": ctx.key()}}
        decision = Decision.model_validate(decided)
        _note_attempt(job)
        try:
            if arm is None:
                return {**told, "value": await ctx.run_typed("refund", refund_by_hand, decision=decision)}
            return {**told, "value": await _gated(ctx, arm, decision)}
        except restate.TerminalError as error:
            if not error.metadata:
                raise
            return {**told, "code": error.metadata["interlock.status"]}

    def decide() -> dict[str, Any]:
        from benchmarks.suites.e2e import model

        try:
            return model.decide(job).model_dump(mode="json")
        except Exception as error:  # noqa: BLE001 - a model, its vendor or its SDK failed: there is no decision, and it is told why
            return {"stopped": f"{type(error).__name__}: {error}"}

    def refund_by_hand(decision: Decision) -> dict[str, Any]:
        return close_by_hand(job, decision).model_dump(mode="json")

    return cases


async def _gated(ctx: restate.WorkflowContext, arm: GatedArm, decision: Decision) -> Any:
    from interlock.restate import gated

    (case,), more = arm.arguments(decision)
    return await ctx.run_typed("refund", gated(arm.refund, run="refund"), case=case, **more)


def _arm(job: Job, stack: contextlib.ExitStack) -> GatedArm | None:
    if job.arm != "interlock":
        return None
    from benchmarks.suites.e2e.gated import GatedArm

    return stack.enter_context(GatedArm(job, connect(job.door, die=job.die)))


def _begin(doors: RestateDoors, port: int, job: Job) -> None:
    """Make this worker known, once it listens, and start the case's workflow."""
    from benchmarks.harness.server import listens

    while not listens(port):
        time.sleep(0.01)
    doors.register(f"http://127.0.0.1:{port}")
    doors.send(f"{NAME}/{job.case}/run")


def _answer(job: Job, arm: GatedArm | None, status: int, ended: Any) -> Answer:
    """What the workflow reports, with how often it came to the refund."""
    if not isinstance(ended, dict) or "message" in ended:
        raise RestateError(f"the workflow ended with {status}: {ended}")
    if "stopped" in ended:
        return Answer(status=NO_DECISION, text=ended["stopped"])
    more = {"attempts": _attempts(job), "engine_ids": ended["engine_ids"]}
    if arm is not None:
        reported = ended["code"] if "code" in ended else ended["value"]
        return arm.answer(Decision.model_validate(ended["decision"]), reported, **more)
    answer = Answer.model_validate(ended["value"])
    return answer.model_copy(update={"details": {**answer.details, **more}})


def _note_attempt(job: Job) -> None:
    """Restate's own count takes in every time that nobody listened, so the handler counts how often it came to the refund."""
    with (job.directory / "attempts").open("a", encoding="utf-8") as out:
        out.write(f"{job.attempt}\n")


def _attempts(job: Job) -> int:
    return len((job.directory / "attempts").read_text(encoding="utf-8").split())


if __name__ == "__main__":
    main()
