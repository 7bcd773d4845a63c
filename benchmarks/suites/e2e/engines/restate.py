"""Restate: the case is a workflow of two runs; the real server invokes it again at the next worker that listens.

    server     restate-server, one for the whole run
    worker 1   listens, makes itself known, starts the workflow -> decide -> refund -- SIGKILL
    server                                                                     the connection is gone, so it tries again
    worker 2   listens -> (decide is replayed) -> refund -> answer

Owns the server. What its workers do is in `restate_worker`.
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
from benchmarks.services.restate import MISSING, RestateError, RestateServer, find_server, free_ports
from benchmarks.suites.e2e.case import Job
from benchmarks.suites.e2e.engines.engine import Engine

MODULE = "benchmarks.suites.e2e.engines.restate_worker"
PACKAGES = ("restate-sdk", "hypercorn")


class ENGINE(Engine):
    """Restate's server, with its data in a directory of this run."""

    name: ClassVar[str] = "restate"
    what: ClassVar[str] = (
        "Engine: Restate, its own server. The case is a workflow of two runs (docs.restate.dev/develop/python/durable-steps). A dead "
        "worker's connection ends at once, and the server invokes the workflow again every 50 ms until a worker listens: the retry policy "
        "of docs.restate.dev/services/configuration without its back-off, which would otherwise be measured as the arm's."
    )

    def __init__(self) -> None:
        self._open = contextlib.ExitStack()
        self._ports: dict[str, int] = {}
        self._version: dict[str, str] = {}

    def __enter__(self) -> Self:
        """Start the server.

        Raises:
            CannotRun: The SDK or the server is not installed, or the server does not come up.
        """
        for package in PACKAGES:
            try:
                metadata.version(package)
            except metadata.PackageNotFoundError:
                raise CannotRun(
                    f'--engine restate needs {package}: pip install "restate-sdk>=1.0.1" hypercorn'
                ) from None
        if find_server() is None:
            raise CannotRun(f"--engine restate: {MISSING}")
        kept = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="restate-")))
        try:
            self._server = self._open.enter_context(RestateServer(kept))
            self._version["restate-server"] = self._server.version()
        except RestateError as error:
            raise CannotRun(f"--engine restate: {error}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    @property
    def versions(self) -> Mapping[str, str]:
        """The SDK, what serves it, and the server."""
        return {**{name: metadata.version(name) for name in PACKAGES}, **self._version}

    def start(self, supervisor: Supervisor, job: Job) -> Worker:
        """A new worker, where the case's first one listened, with the server's doors and the job on its standard input."""
        port = self._ports.get(job.case) or free_ports(1)[0]
        self._ports[job.case] = port
        worker = supervisor.start(MODULE)
        worker.send(
            {
                "ingress": self._server.ingress,
                "admin": self._server.admin,
                "port": port,
                "job": job.model_dump(mode="json"),
            }
        )
        return worker
