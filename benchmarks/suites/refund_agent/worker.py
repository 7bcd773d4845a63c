"""One worker process of the refund agent: takes one job as a JSON line, does it, answers with a JSON line.

    python -m benchmarks.suites.refund_agent.worker

It may be told to kill or to stop itself in the middle. `perform` is the same code the simulated mode runs in process.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

from benchmarks.harness.supervisor import live_with_supervisor
from benchmarks.suites.refund_agent.answer import Answer
from benchmarks.suites.refund_agent.arm import Hooks, Place
from benchmarks.suites.refund_agent.arms import open_arm
from benchmarks.suites.refund_agent.case import Request
from benchmarks.suites.refund_agent.crash import Crash, Manner, Point

MODULE = "benchmarks.suites.refund_agent.worker"


def perform(place: Place, action: str, request: Request, hooks: Hooks) -> Answer:
    """One life of a worker: start, do one thing with the case, end in peace (or die on the way).

    An arm that fails with an error of its own answers `ERROR`, which is wanted nowhere.
    """
    arm = open_arm(place)
    actions = {"run": lambda: arm.run(request, hooks), "recover": lambda: arm.recover(request)}
    actions["redecide"] = lambda: arm.redecide(request)
    try:
        answer = actions[action]()
    except Exception as error:  # noqa: BLE001 - whatever an arm raises is its answer to the row
        traceback.print_exc()
        answer = Answer(status=f"ERROR:{type(error).__name__}", details={"error": str(error)})
    arm.close()
    return answer


def job(place: Place, action: str, request: Request, *, crash: Crash, waits: bool, holds: bool) -> dict[str, Any]:
    """The message that hands a worker its job. `holds`: get ready, say so, and begin when told."""
    return {
        "place": place.to_json(),
        "action": action,
        "request": request.to_json(),
        "crash": {"point": crash.point, "manner": crash.manner},
        "waits": waits,
        "holds": holds,
    }


def main() -> None:
    """Read the job, do it, answer."""
    live_with_supervisor()
    line = sys.stdin.readline()
    if not line:
        return
    message = json.loads(line)
    place, request = Place.from_json(message["place"]), Request.from_json(message["request"])
    point = message["crash"]["point"]
    crash = Crash(None if point is None else Point(point), Manner(message["crash"]["manner"]))
    if message["holds"]:
        open_arm(place).close()
        _say({"ready": True})
        if not sys.stdin.readline():
            return
    answer = perform(place, message["action"], request, Hooks(crash=crash, waits=message["waits"]))
    _say(answer.to_json())


def _say(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()
