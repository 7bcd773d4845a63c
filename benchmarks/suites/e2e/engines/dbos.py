"""DBOS: the case is a workflow of two steps; its system database carries it over the crash.

    worker 1   starts the workflow -> decide -> refund -- SIGKILL
    database   a file of this case: the workflow is pending, its first step recorded
    worker 2   DBOS.launch() recovers it -> refund, again -> answer

Owns nothing but how a worker starts: DBOS is a library, and has no server. What its workers do is in `dbos_worker`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from typing import ClassVar, Self

from benchmarks.harness.suite import CannotRun
from benchmarks.harness.supervisor import Supervisor, Worker
from benchmarks.suites.e2e.case import Job
from benchmarks.suites.e2e.engines.engine import Engine

MODULE = "benchmarks.suites.e2e.engines.dbos_worker"
INSTALL = 'pip install "dbos>=3.4,<4"'


class ENGINE(Engine):
    """DBOS, with a SQLite system database in each case's directory."""

    name: ClassVar[str] = "dbos"
    what: ClassVar[str] = (
        "Engine: DBOS, with SQLite as its system database. The case is a workflow of two steps. When a new worker launches, DBOS puts "
        "the workflow of the dead one on its internal queue and runs it again from the last recorded step "
        "(docs.dbos.dev/production/workflow-recovery); that queue is polled about once a second, which is in every time below, the same "
        "for every arm."
    )

    def __enter__(self) -> Self:
        """See that it is installed.

        Raises:
            CannotRun: It is not.
        """
        try:
            metadata.version("dbos")
        except metadata.PackageNotFoundError:
            raise CannotRun(f"--engine dbos needs DBOS: {INSTALL}") from None
        return self

    @property
    def versions(self) -> Mapping[str, str]:
        """Of DBOS."""
        return {"dbos": metadata.version("dbos")}

    def start(self, supervisor: Supervisor, job: Job) -> Worker:
        """A new worker with the job on its standard input."""
        worker = supervisor.start(MODULE)
        worker.send(job.model_dump(mode="json"))
        return worker
