"""No engine: a plain worker process in a restart loop, which keeps on disk what the model decided, so that it is decided once.

worker 1:  decide -> decision.json -> carry out -- SIGKILL
worker 2:            decision.json -> carry out -> answer
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import ClassVar

from benchmarks.harness import log
from benchmarks.harness.supervisor import Supervisor, Worker, live_with_supervisor
from benchmarks.suites.e2e.arms import carry_out
from benchmarks.suites.e2e.case import NO_DECISION, Answer, Decision, Job
from benchmarks.suites.e2e.engines.engine import Engine

MODULE = "benchmarks.suites.e2e.engines.none"


class ENGINE(Engine):
    """A restart loop."""

    name: ClassVar[str] = "none"
    what: ClassVar[str] = (
        "No engine: a worker process keeps the model's decision in a file before it acts on it; the supervisor starts a new "
        "worker when one dies, which carries the same decision out again."
    )

    def start(self, supervisor: Supervisor, job: Job) -> Worker:
        """A new worker with the job on its standard input."""
        worker = supervisor.start(MODULE)
        worker.send(job.model_dump(mode="json"))
        return worker


def main() -> None:
    """Read the job, do what is left of it, answer."""
    live_with_supervisor()
    log.mute()
    line = sys.stdin.readline()
    if line:
        print(work(Job.model_validate_json(line)).model_dump_json(), flush=True)


def work(job: Job) -> Answer:
    """The workflow: decide once, carry out until it is closed."""
    kept = job.directory / "decision.json"
    if kept.exists():
        decision = Decision.model_validate_json(kept.read_text(encoding="utf-8"))
    else:
        from benchmarks.suites.e2e.model import decide

        try:
            decision = decide(job)
        except Exception as error:  # noqa: BLE001 - a model, its vendor or its SDK failed: there is no decision, and it is told why
            return Answer(status=NO_DECISION, text=f"{type(error).__name__}: {error}")
        _keep(kept, decision.model_dump_json())
    return carry_out(job, decision)


def _keep(file: Path, text: str) -> None:
    fresh = file.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    os.replace(fresh, file)


if __name__ == "__main__":
    main()
