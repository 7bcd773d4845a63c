"""DBOS: a workflow that waits for its approval as a message, and a step that refunds; its system database is a SQLite file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.suites.matrix import arms
from benchmarks.suites.matrix.case import Job
from benchmarks.suites.matrix.framework import Framework

FRAMEWORK = Framework(
    name="dbos",
    title="DBOS",
    packages=("dbos",),
    extra="dbos",
    docs="https://docs.dbos.dev/python/tutorials/workflow-communication (messages), https://docs.dbos.dev/production/workflow-recovery",
    starts="`DBOS.start_workflow`, with the case as workflow id; after its first step it waits at `DBOS.recv`",
    approves="the application launches DBOS, which recovers the waiting workflow, and sends it the message",
    persists="every finished step, and the message once it is taken, in the system database",
    resumes=(
        "`DBOS.launch()` puts the workflow of the dead process on the internal queue, and runs it again from the step that has no result; "
        "that queue is polled about once a second, for every arm"
    ),
    wrapper="interlock.integrations.dbos.run_effect",
    example="dbos",
    order=25,
)

TOPIC = "approval"
POLL_S = 0.02
ENOUGH_S = 60.0


def start(job: Job) -> None:
    """Start the workflow, and leave it where it waits for the approval."""
    from dbos import DBOS, SetWorkflowID

    with _launched(job) as refund_case:
        with SetWorkflowID(job.case):
            DBOS.start_workflow(refund_case)
        while not DBOS.list_workflow_steps(job.case):
            time.sleep(POLL_S)


def approve(job: Job) -> Any:
    """Send the message, and wait for the workflow's end."""
    from dbos import DBOS

    with _launched(job):
        DBOS.send(job.case, "approved", topic=TOPIC)
        return DBOS.retrieve_workflow(job.case).get_result(polling_interval_sec=POLL_S)


def resume(job: Job) -> Any:
    """Launch: DBOS does the rest."""
    from dbos import DBOS

    with _launched(job):
        return DBOS.retrieve_workflow(job.case).get_result(polling_interval_sec=POLL_S)


@contextmanager
def _launched(job: Job) -> Iterator[Any]:
    """DBOS in this process, with the workflow of this arm."""
    from dbos import DBOS, DBOSConfig

    config: DBOSConfig = {
        "name": "refund-desk",
        "system_database_url": f"sqlite:///{job.directory}/dbos.db",
        "application_version": "1",
        "log_level": "CRITICAL",
    }
    DBOS(config=config)

    @DBOS.step()
    def decide() -> dict[str, Any]:
        """What the model asked for."""
        return job.arguments

    @DBOS.step()
    def refund(decided: dict[str, Any]) -> str:
        """Carry it out by an arm without a gate."""
        return arms.act(job)

    @DBOS.workflow(name="refund_case")
    def by_step() -> Any:
        decided = decide()
        DBOS.recv(TOPIC, timeout_seconds=ENOUGH_S)
        return refund(decided)

    try:
        if job.arm != "interlock":
            DBOS.launch()
            yield by_step
            return
        from interlock import Interlock
        from interlock.integrations.dbos import EffectNotDone, launch, run_effect

        with Interlock(job.journal) as gate:
            declared = arms.refund_of(gate, job)

            @DBOS.workflow(name="refund_case_gated")
            def by_effect() -> Any:
                decided = decide()
                DBOS.recv(TOPIC, timeout_seconds=ENOUGH_S)
                try:
                    return arms.plain(run_effect(declared, arms.case_of(job), amount=decided["amount"]))
                except EffectNotDone as error:
                    return {"status": error.status, "message": str(error)}

            launch(gate)
            yield by_effect
    finally:
        DBOS.destroy(destroy_registry=True)
