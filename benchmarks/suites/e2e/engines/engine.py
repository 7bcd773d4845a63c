"""What an engine must say of itself so that the suite can run it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import TracebackType
from typing import ClassVar, Self

from benchmarks.harness.supervisor import Supervisor, Worker
from benchmarks.suites.e2e.case import Job


class Engine(ABC):
    """A durable engine, or the lack of one. Used with `with`: what it needs beside its workers lives that long.

    A worker is a module that reads one `Job` as a JSON line, runs `model.decide` and `arms.carry_out` as two steps of its workflow, and
    prints the `Answer` as a JSON line. With `job.die` it kills itself inside the second step. With `job.attempt > 1` the workflow is
    there already, and whatever the engine does with one that lost its worker, it does.
    """

    name: ClassVar[str]
    what: ClassVar[str]
    """One sentence for the page: what carries a case over the crash, and by which documentation."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    @property
    def versions(self) -> Mapping[str, str]:
        """Of what it consists of, for the result's meta."""
        return {}

    @abstractmethod
    def start(self, supervisor: Supervisor, job: Job) -> Worker:
        """A worker process for this case: the first one, or the next one after it died."""
