"""A worker process of Temporal: the workflow, its two activities for each arm, and the answer that the workflow ends with.

The workflow is what its user writes. The activities are closed over the job that this very process was handed, so that nothing of a dead
worker's job (where it dies, what the clock says) comes back with the retry.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from temporalio import activity, workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from benchmarks.harness import log
    from benchmarks.harness.stripe_wire import Service, connect
    from benchmarks.harness.supervisor import live_with_supervisor
    from benchmarks.suites.e2e.arms import close_by_hand
    from benchmarks.suites.e2e.case import NO_DECISION, Answer, Decision, Job

if TYPE_CHECKING:
    from benchmarks.suites.e2e.gated import GatedArm

DECIDING_S = 100.0
ATTEMPT_S = {Service.LOCAL: 2.0, Service.LIVE: 20.0}
"""The start-to-close timeout of the refund. Temporal's pages ask for more than the longest attempt takes: here a second that the gate
declares as its pause, and requests that take milliseconds on loopback."""
STICKY_S = 0.3
"""Until the server takes a workflow from a dead worker's sticky queue; by default ten seconds, which would be measured as the arm's."""


@workflow.defn(name="Case")
class Case:
    """One support case: the model decides, the refund is carried out."""

    @workflow.run
    async def run(self, attempt_s: float) -> dict[str, Any]:
        """Returns the decision, and the refund's value or the reason why there is none."""
        decision = await workflow.execute_activity("decide", start_to_close_timeout=timedelta(seconds=DECIDING_S))
        if "amount_minor" not in decision:
            return {"stopped": decision["stopped"]}
        try:
            value = await workflow.execute_activity(
                "refund",
                decision,
                start_to_close_timeout=timedelta(seconds=attempt_s),
                retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=100)),
            )
        except ActivityError as error:
            cause = error.cause
            if not isinstance(cause, ApplicationError) or not cause.details:
                raise
            return {"decision": decision, "code": cause.details[0]["status"]}
        return {"decision": decision, "value": value}


def main() -> None:
    """Read the job, take part in its workflow, answer."""
    live_with_supervisor()
    log.mute()
    line = sys.stdin.readline()
    if line:
        told = json.loads(line)
        asyncio.run(work(told["address"], Job.model_validate(told["job"])))


async def work(address: str, job: Job) -> None:
    """Be a worker until the case is closed."""
    client = await Client.connect(address)
    with contextlib.ExitStack() as stack:
        arm = _arm(job, stack)
        plugins = []
        if arm is not None:
            from interlock.temporal import InterlockPlugin

            plugins.append(InterlockPlugin(arm.gate))
        worker = Worker(
            client,
            task_queue=job.case,
            workflows=[Case],
            activities=[_deciding(job), _refunding(job, arm)],
            activity_executor=stack.enter_context(ThreadPoolExecutor(4)),
            plugins=plugins,
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=STICKY_S),
        )
        async with worker:
            handle = await _begun(client, job)
            answer = await _answer(handle, arm, await handle.result())
            print(answer.model_dump_json(), flush=True)


def _arm(job: Job, stack: contextlib.ExitStack) -> GatedArm | None:
    if job.arm != "interlock":
        return None
    from benchmarks.suites.e2e.gated import GatedArm

    return stack.enter_context(GatedArm(job, connect(job.door, die=job.die)))


def _deciding(job: Job) -> Any:
    @activity.defn(name="decide")
    def decide() -> dict[str, Any]:
        from benchmarks.suites.e2e import model

        try:
            return model.decide(job).model_dump(mode="json")
        except Exception as error:  # noqa: BLE001 - a model, its vendor or its SDK failed: there is no decision, and it is told why
            return {"stopped": f"{type(error).__name__}: {error}"}

    return decide


def _refunding(job: Job, arm: GatedArm | None) -> Any:
    @activity.defn(name="refund")
    def refund_by_hand(decision: dict[str, Any]) -> dict[str, Any]:
        return close_by_hand(job, Decision.model_validate(decision)).model_dump(mode="json")

    if arm is None:
        return refund_by_hand
    from interlock.temporal import gated

    @activity.defn(name="refund")
    def refund(decision: dict[str, Any]) -> Any:
        case, more = arm.arguments(Decision.model_validate(decision))
        return gated(arm.gate, arm.refund.proposal(*case, **more))

    return refund


async def _begun(client: Client, job: Job) -> WorkflowHandle[Any, Any]:
    """The case's workflow: started by its first worker, there already for the next one."""
    if job.attempt > 1:
        return client.get_workflow_handle(job.case)
    return await client.start_workflow("Case", ATTEMPT_S[job.door.service], id=job.case, task_queue=job.case)


async def _answer(handle: WorkflowHandle[Any, Any], arm: GatedArm | None, ended: dict[str, Any]) -> Answer:
    """What the workflow reports, with the attempts of the refund by Temporal's own history."""
    if "stopped" in ended:
        return Answer(status=NO_DECISION, text=ended["stopped"])
    told = await _history(handle)
    if arm is not None:
        reported = ended["code"] if "code" in ended else ended["value"]
        return arm.answer(Decision.model_validate(ended["decision"]), reported, **told)
    answer = Answer.model_validate(ended["value"])
    return answer.model_copy(update={"details": {**answer.details, **told}})


async def _history(handle: WorkflowHandle[Any, Any]) -> dict[str, Any]:
    run, activity_id, attempts = "", "", 0
    async for event in handle.fetch_history_events():
        if event.HasField("workflow_execution_started_event_attributes"):
            run = event.workflow_execution_started_event_attributes.original_execution_run_id
        elif event.HasField("activity_task_scheduled_event_attributes"):
            activity_id = event.activity_task_scheduled_event_attributes.activity_id
        elif event.HasField("activity_task_started_event_attributes"):
            attempts = event.activity_task_started_event_attributes.attempt
    ids = {"workflow_id": handle.id, "workflow_run_id": run, "activity_id": activity_id}
    return {"attempts": attempts, "engine_ids": ids}


if __name__ == "__main__":
    main()
