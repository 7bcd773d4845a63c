"""One worker process of the refund agent: takes one job as a JSON line, does it, answers with a JSON line.

    python -m benchmarks.suites.refund_agent.worker

It may be told to kill or to stop itself in the middle. `perform` is the same code the simulated mode runs in process.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from benchmarks.harness.supervisor import live_with_supervisor
from benchmarks.suites.refund_agent.answer import Answer
from benchmarks.suites.refund_agent.arm import Hooks, Place
from benchmarks.suites.refund_agent.arms import open_arm
from benchmarks.suites.refund_agent.case import Request
from benchmarks.suites.refund_agent.crash import Crash, Manner, Point

MODULE = "benchmarks.suites.refund_agent.worker"


def perform(place: Place, action: str, request: Request, hooks: Hooks) -> Answer:
    """One life of a worker: start, do one thing with the case, end in peace (or die on the way)."""
    arm = open_arm(place)
    match action:
        case "run":
            answer = arm.run(request, hooks)
        case "recover":
            answer = arm.recover(request)
        case "redecide":
            answer = arm.redecide(request)
        case _:
            raise ValueError(f"there is no action {action!r}")
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
