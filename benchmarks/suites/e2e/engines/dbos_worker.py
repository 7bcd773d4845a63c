"""A worker process of DBOS: the workflow, its steps for each arm, and the answer that the workflow ends with.

The workflow is what its user writes. Its steps are closed over the job that this very process was handed, so that nothing of a dead
worker's job (where it dies, what the clock says) comes back with the recovery.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from dbos import DBOS, DBOSConfig, SetWorkflowID, WorkflowHandle

from benchmarks.harness import log
from benchmarks.harness.stripe_wire import connect
from benchmarks.harness.supervisor import live_with_supervisor
from benchmarks.suites.e2e.arms import close_by_hand
from benchmarks.suites.e2e.case import NO_DECISION, Answer, Decision, Job

if TYPE_CHECKING:
    from benchmarks.suites.e2e.gated import GatedArm

POLL_S = 0.02
"""How often this process looks whether the workflow has ended."""


def main() -> None:
    """Read the job, take part in its workflow, answer."""
    live_with_supervisor()
    log.mute()
    line = sys.stdin.readline()
    if line:
        work(Job.model_validate_json(line))


def work(job: Job) -> None:
    """Be a worker until the case is closed."""
    DBOS(config=_config(job))
    with contextlib.ExitStack() as stack:
        arm = _arm(job, stack)
        case = _workflow(job, arm)
        if arm is None:
            DBOS.launch()
        else:
            from interlock.dbos import launch

            launch(arm.gate)
        handle = _begun(job, case)
        answer = _answer(job, arm, handle.get_result(polling_interval_sec=POLL_S))
        print(answer.model_dump_json(), flush=True)
        DBOS.destroy()


def _config(job: Job) -> DBOSConfig:
    return {
        "name": "refunds",
        "system_database_url": f"sqlite:///{job.directory}/dbos.db",
        "application_version": "1",
        "log_level": "CRITICAL",
    }


def _workflow(job: Job, arm: GatedArm | None) -> Any:
    @DBOS.step()
    def decide() -> dict[str, Any]:
        from benchmarks.suites.e2e import model

        try:
            return model.decide(job).model_dump(mode="json")
        except Exception as error:  # noqa: BLE001 - a model, its vendor or its SDK failed: there is no decision, and it is told why
            return {"stopped": f"{type(error).__name__}: {error}"}

    @DBOS.step(retries_allowed=True, interval_seconds=0.2, max_attempts=8)
    def refund_by_hand(decision: dict[str, Any]) -> dict[str, Any]:
        return close_by_hand(job, Decision.model_validate(decision)).model_dump(mode="json")

    @DBOS.workflow(name="case")
    def case() -> dict[str, Any]:
        """One support case: the model decides, the refund is carried out."""
        decision = decide()
        if "stopped" in decision:
            return decision
        if arm is None:
            return {"decision": decision, "value": refund_by_hand(decision)}
        return {"decision": decision, **_gated(arm, Decision.model_validate(decision))}

    return case


def _gated(arm: GatedArm, decision: Decision) -> dict[str, Any]:
    from interlock.dbos import EffectNotDone, run_effect

    about, more = arm.arguments(decision)
    try:
        return {"value": run_effect(arm.refund, *about, **more)}
    except EffectNotDone as error:
        return {"code": error.status}


def _arm(job: Job, stack: contextlib.ExitStack) -> GatedArm | None:
    if job.arm != "interlock":
        return None
    from benchmarks.suites.e2e.gated import GatedArm

    return stack.enter_context(GatedArm(job, connect(job.door, die=job.die)))


def _begun(job: Job, case: Any) -> WorkflowHandle[Any]:
    """The case's workflow: started by its first worker, recovered by DBOS in the next one."""
    if job.attempt > 1:
        return DBOS.retrieve_workflow(job.case)
    with SetWorkflowID(job.case):
        return DBOS.start_workflow(case)


def _answer(job: Job, arm: GatedArm | None, ended: dict[str, Any]) -> Answer:
    """What the workflow reports, with the attempts by DBOS's own count."""
    if "stopped" in ended:
        return Answer(status=NO_DECISION, text=ended["stopped"])
    told = _record(job)
    if arm is not None:
        reported = ended["code"] if "code" in ended else ended["value"]
        return arm.answer(Decision.model_validate(ended["decision"]), reported, **told)
    answer = Answer.model_validate(ended["value"])
    return answer.model_copy(update={"details": {**answer.details, **told}})


def _record(job: Job) -> dict[str, Any]:
    status = DBOS.get_workflow_status(job.case)
    steps = DBOS.list_workflow_steps(job.case)
    ids = {
        "workflow_id": job.case,
        "step_id": steps[-1]["function_id"],
        "application_version": DBOS.application_version,
        "executor_id": DBOS.executor_id,
    }
    # Each start of the workflow, the first one and every recovery, comes to the refund once.
    return {"attempts": None if status is None else status.recovery_attempts, "engine_ids": ids}


if __name__ == "__main__":
    main()
