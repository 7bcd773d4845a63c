"""The stage a cell plays on: a payment, an approval, an engine's workers, and what people do around them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.harness.stripe_place import StripePlace
from benchmarks.harness.stripe_wire import Death
from benchmarks.harness.supervisor import Supervisor, Worker, WorkerError
from benchmarks.suites.e2e.case import (
    APPROVED_MINOR,
    Answer,
    Approvals,
    ArmName,
    Job,
    ModelDoor,
)
from benchmarks.suites.e2e.engines.engine import Engine

HOURS_25_S = 25 * 3600.0
MOST_ATTEMPTS = 8
DECIDING_TIMEOUT_S = 110.0
"""How long the first worker may take to its death: a real model thinks before it decides."""


@dataclass
class Stage:
    """One cell being played. `close` leaves no process behind."""

    place: StripePlace
    engine: Engine
    directory: Path
    arm: ArmName
    cell: str
    model: ModelDoor
    can_look_up: bool = True
    by_hand: list[str] = field(default_factory=list)
    attempts: int = 0
    closed_s: float | None = None

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True)
        self.approval = Approvals(self.directory)
        self.approval.give(APPROVED_MINOR)
        self.supervisor = Supervisor(limit=MOST_ATTEMPTS)
        payment = self.place.pay(self.cell)
        self.payment = str(payment.id)
        self.job = Job(
            door=self.place.door_of(self.cell),
            directory=self.directory,
            arm=self.arm,
            case=self.cell,
            payment=self.payment,
            model=self.model,
            can_look_up=self.can_look_up,
            settle_after_s=self.place.settle_after_s,
        )

    def run_until_death(self, die: Death) -> Answer | None:
        """The first worker decides, begins the refund, and kills itself.

        Returns:
            None; or what the worker answered, where its model decided nothing that could be sent: then there was no crash.

        Raises:
            WorkerError: It neither died nor said so: the crash this cell is about did not happen.
        """
        worker = self._start(die=die)
        try:
            self._died_at = worker.wait_killed(DECIDING_TIMEOUT_S)
        except WorkerError:
            return Answer.model_validate(worker.receive(timeout_s=1.0))
        return None

    def run_to_the_end(self) -> Answer:
        """New workers, until one of them closes the case. The time counts from the kernel's report of the death."""
        answer = Answer(status="UNCLEAR")
        while self.attempts < MOST_ATTEMPTS:
            try:
                answer = Answer.model_validate(self._start(die=None).receive())
            except WorkerError as error:
                answer = Answer(status="ERROR", text=str(error))
                continue
            if answer.retry_after_s is None:
                break
            time.sleep(answer.retry_after_s)
        self.closed_s = round(time.monotonic() - self._died_at, 3)
        return answer

    def refund_by_hand(self, amount_minor: int) -> None:
        """Support refunds, without a key of ours or a word about the case."""
        self.by_hand.append(self.place.refund_by_hand(self.cell, self.payment, amount_minor))

    def forget_keys(self) -> None:
        """The service forgets its keys, and the next worker's clock says that a day has passed."""
        door = self.place.forget_keys(self.job.door)
        self.job = self.job.model_copy(update={"door": door, "passed_s": self.job.passed_s + HOURS_25_S})

    def refunds(self) -> list[dict[str, Any]]:
        """The truth: every refund of the payment, from the service's list."""
        return self.place.refunds(self.payment)

    def close(self) -> None:
        """End every worker."""
        self.supervisor.close()

    def _start(self, die: Death | None) -> Worker:
        self.attempts += 1
        job = self.job.model_copy(update={"die": die, "attempt": self.attempts})
        return self.engine.start(self.supervisor, job)
