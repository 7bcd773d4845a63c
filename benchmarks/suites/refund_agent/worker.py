"""One worker process of the refund agent: takes one job as a JSON line, does it, answers with a JSON line.

    python -m benchmarks.suites.refund_agent.worker

It may be told to kill or to stop itself in the middle. `perform` is the same code the simulated mode runs in process.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

from pydantic import BaseModel

from benchmarks.harness import log
from benchmarks.harness.supervisor import live_with_supervisor
from benchmarks.suites.refund_agent.answer import Answer
from benchmarks.suites.refund_agent.arm import Arm, Hooks, Place
from benchmarks.suites.refund_agent.arms import open_arm
from benchmarks.suites.refund_agent.case import Request
from benchmarks.suites.refund_agent.crash import Crash, Manner, Point

MODULE = "benchmarks.suites.refund_agent.worker"


def perform(arm: Arm, action: str, request: Request, hooks: Hooks) -> Answer:
    """One thing a worker does with the case; it may die on the way.

    An arm that fails with an error of its own answers `ERROR`, which is wanted nowhere.
    """
    actions = {"run": lambda: arm.run(request, hooks), "recover": lambda: arm.recover(request)}
    actions["redecide"] = lambda: arm.redecide(request)
    try:
        return actions[action]()
    except Exception as error:  # noqa: BLE001 - whatever an arm raises is its answer to the row
        traceback.print_exc()
        return Answer(status=f"ERROR:{type(error).__name__}", details={"error": str(error)})


class Job(BaseModel):
    """What a worker is handed, validated as it is read.

    Attributes:
        place: Where it works.
        action: `run`, `recover` or `redecide`.
        request: The approved refund.
        point: Where it is to die or to stop, if anywhere.
        manner: How.
        waits: Whether it waits for another worker that is at the same request.
        holds: Whether it gets ready, says so, and begins when told.
    """

    place: Place
    action: str
    request: Request
    point: Point | None = None
    manner: Manner = Manner.KILL
    waits: bool = True
    holds: bool = False


def main() -> None:
    """Read the job, do it, answer."""
    live_with_supervisor()
    log.mute()
    line = sys.stdin.readline()
    if not line:
        return
    job = Job.model_validate_json(line)
    if job.holds:
        open_arm(job.place).close()
        _say({"ready": True})
        if not sys.stdin.readline():
            return
    hooks = Hooks(crash=Crash(job.point, job.manner), waits=job.waits)
    arm = open_arm(job.place)
    _say(perform(arm, job.action, job.request, hooks).to_json())
    arm.close()


def _say(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()
