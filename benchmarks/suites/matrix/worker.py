"""One worker process: reads a `Job` as a JSON line, does what its moment asks for, answers with a JSON line, and reads on.

    python -m benchmarks.suites.matrix.worker

It ends with its input, and by alarm should its supervisor be gone. With `job.die` it kills itself inside of the refund.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from benchmarks.harness.supervisor import live_with_supervisor
from benchmarks.suites.matrix.arms import answer_of, note_seen
from benchmarks.suites.matrix.case import Answer, Job
from benchmarks.suites.matrix.framework import call, module_of

READY, WAITS, TOLD = "READY", "WAITS_FOR_APPROVAL", "TOLD"
MODULE = "benchmarks.suites.matrix.worker"


def main() -> None:
    """Serve until the input ends."""
    live_with_supervisor()
    # The gate's log says what the table says; beside a progress display it would only be noise.
    logging.getLogger("interlock").setLevel(logging.CRITICAL)
    # Frameworks print what they like; the answers have a pipe of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(answer: Answer) -> None:
        print(answer.model_dump_json(), file=answers, flush=True)

    for line in sys.stdin:
        say(serve(Job.model_validate_json(line), say))


def serve(job: Job, say: Callable[[Answer], None]) -> Answer:
    """One message. `say` is told when the run is over: reading the journal for the report comes after that and is in nobody's time."""
    if job.moment == "load":
        return Answer(status=READY, details={"modules": load(job)})
    if job.moment == "start":
        return _guarded(job, _start)
    if job.moment == "approve":
        job.note_begun("approve")
    told: list[Any] = []
    failed = _guarded(job, lambda job: told.append(call(job)))
    say(Answer(status=TOLD))
    return failed if not told else _guarded(job, lambda job: answer_of(job, told[0]))


def _start(job: Job) -> Answer:
    note_seen(job)
    call(job)
    return Answer(status=WAITS)


def _guarded(job: Job, step: Callable[[Job], Answer | None]) -> Answer:
    """What a step answers; whatever a framework raises is its answer."""
    try:
        return step(job) or Answer(status=WAITS)
    except Exception as error:  # noqa: BLE001 - see above
        traceback.print_exc()
        return Answer(status=f"ERROR:{type(error).__name__}", text=str(error)[:2000])


def load(job: Job) -> list[str]:
    """Import the arm's wrapper, and what another worker of the case has loaded; returns what is loaded now, in the order it was."""
    wrapper = module_of(job.framework).FRAMEWORK.wrapper.rpartition(".")[0]
    for name in [*job.modules, *([wrapper] if job.arm == "interlock" else [])]:
        if name not in sys.modules:
            # What is no module of its own cannot be imported by its name, such as what a package makes as it runs.
            with suppress(Exception):
                importlib.import_module(name)
    return list(sys.modules)


if __name__ == "__main__":
    main()
