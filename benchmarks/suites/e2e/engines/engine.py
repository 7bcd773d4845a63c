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

    A worker is a module that reads one line of JSON with the `Job` (and what the engine adds), runs `model.decide` and the refund as two
    steps of its workflow, and prints the `Answer` as a line of JSON. With `job.die` it kills itself inside the second step. With
    `job.attempt > 1` the workflow is there already, and whatever the engine does with one that lost its worker, it does. The engine's
    `start(supervisor, job)` hands the line to a process of `supervisor.start(MODULE)`, which is killed and reaped for it.

    What is the workflow's and what is the process's: the workflow's input names the case, and what a step returns is kept. `job` as
    a whole is the process's own: a step takes `door`, `die` and `passed_s` from what its process was handed on its standard input. If they
    were an input of the workflow, the second attempt would kill itself as the first one did.

    The second step, by arm:

    no_check, hand_check   `arms.close_by_hand(job, decision)`: the `Answer`, or `NotClosed`, which the engine's retry policy is to retry.
    interlock              the engine's native form around `gated.GatedArm`: its gate, its `refund` and `arguments(decision)` in
                           the form that the integration's page documents (`interlock.temporal.gated` in the activity and
                           `InterlockPlugin(arm.gate)` on the worker; `interlock.dbos`, `interlock.restate` likewise). The
                           workflow ends with the refund's value, or with the gate's code where it did not land; the worker
                           makes the `Answer` of that by `arm.answer(decision, reported, attempts=..., engine_ids=...)`.

    Import `gated` only in a worker whose `job.arm` is "interlock": no other arm pays for the gate's import. A worker's main calls
    `live_with_supervisor()` and `log.mute()` (of `benchmarks.harness`), and leaves Python otherwise as it is. A server of the
    engine's is run by `benchmarks.harness.server.Server`, which ends it with the harness, however that ends.

    Details that every arm's answer may carry, if the engine can tell (`answer.details`): `attempts`, the engine's own count for the
    second step, which then stands in the cell instead of the number of worker processes; `engine_ids`, a flat object of the
    engine's ids of the case. Waiting for a dead worker must be the engine's documented way, equal for every arm, and small.
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
