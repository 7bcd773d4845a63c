"""The stage a cell plays on: one payment, its approved cases, and the workers that come and die.

Owns when workers start and how long it takes from a death to an answer. Knows neither rows nor frameworks: a job names its framework.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.harness.stripe_place import StripePlace
from benchmarks.harness.stripe_wire import Death
from benchmarks.harness.supervisor import Supervisor, Worker, WorkerError
from benchmarks.suites.matrix.case import AMOUNT_MINOR, BEGUN, Answer, ArmName, Begun, Job, Moment
from benchmarks.suites.matrix.worker import MODULE, TOLD, WAITS

MOST_WORKERS = 8
PATIENCE_S = 60.0


class NotPlayed(WorkerError):
    """The cell could not be brought to where its row begins: this says nothing about the arm."""


@dataclass
class Stage:
    """One cell being played; use it with `with`, which leaves no process behind."""

    place: StripePlace
    directory: Path
    framework: str
    arm: ArmName
    cell: str
    cases: Sequence[str] = ()
    cap_minor: int | None = None
    beside: Mapping[str, str] = field(default_factory=dict)
    by_hand: list[str] = field(default_factory=list)
    answers: list[tuple[str, Answer]] = field(default_factory=list)
    settle_s: float | None = None
    apart_ms: dict[Begun, float] = field(default_factory=dict)

    def __enter__(self) -> Stage:
        self.directory.mkdir(parents=True)
        self.supervisor = Supervisor(limit=MOST_WORKERS)
        self.payment = str(self.place.pay(self.cell).id)
        self.jobs = {case: self._job(case) for case in self.cases}
        self._waiting: dict[str, Worker] = {}
        self._died_at: float | None = None
        try:
            self._start_cases()
        except BaseException:
            self.supervisor.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.supervisor.close()

    @property
    def workers(self) -> int:
        """How many worker processes there were."""
        return self.supervisor.started

    def crash(self, die: Death) -> None:
        """The approval is delivered to the worker that took the case up, which dies in the refund.

        Raises:
            NotPlayed: it did not.
        """
        (case,) = self.cases
        worker = self._waiting.pop(case)
        self._send(worker, case, "approve", die=die)
        try:
            self._died_at = worker.wait_killed(PATIENCE_S)
        except WorkerError as error:
            raise NotPlayed(f"{error}; it said {self._last_words(worker)}") from error

    def resume(self) -> None:
        """A new worker goes on; the time counts from the kernel's report of the death."""
        (case,) = self.cases
        worker = self.supervisor.start(MODULE)
        self._send(worker, case, "resume")
        told_at = self._note(case, worker)
        if self._died_at is not None:
            self.settle_s = round(told_at - self._died_at, 3)

    def approve(self) -> None:
        """The approval is delivered: to the worker that took the case up, and after that to a new one each time."""
        (case,) = self.cases
        worker = self._waiting.pop(case, None) or self.supervisor.start(MODULE)
        self._send(worker, case, "approve")
        self._note(case, worker)

    def approve_at_once(self, cases: Sequence[str]) -> None:
        """Approvals are delivered to as many workers at the same time, loaded alike; `apart_ms` then says how far apart they began."""
        started = {case: self._waiting.pop(case) for case in dict.fromkeys(cases)}
        # One that ran `start` is ahead of a new one by more than its imports; it races only with its like.
        workers = [started[case] if len(started) == len(cases) else self.supervisor.start(MODULE) for case in cases]
        racing = list(zip(cases, workers, strict=True))
        self._load(racing, self._load(started.items(), ()))
        for case, worker in racing:
            self._send(worker, case, "approve")
        for case, worker in racing:
            self._note(case, worker)
        self.apart_ms = self._apart_ms()

    def refund_by_hand(self, amount_minor: int) -> None:
        """Support refunds, without a key of ours or a word about the case."""
        self.by_hand.append(self.place.refund_by_hand(self.cell, self.payment, amount_minor))

    def revoke(self) -> None:
        """The approval is taken back; done when this returns."""
        for job in self.jobs.values():
            job.approvals.revoke()

    def refunds(self) -> list[dict[str, Any]]:
        """The truth: every refund of the payment, from the service's list."""
        return self.place.refunds(self.payment)

    def _job(self, case: str) -> Job:
        directory = self.directory / case
        directory.mkdir()
        job = Job(
            framework=self.framework,
            arm=self.arm,
            door=self.place.door_of(self.cell),
            directory=directory,
            shared=self.directory,
            case=case,
            payment=self.payment,
            cap_minor=self.cap_minor,
            settle_after_s=self.place.settle_after_s,
            beside=dict(self.beside),
        )
        job.approvals.give(AMOUNT_MINOR)
        return job

    def _start_cases(self) -> None:
        self._waiting = {case: self.supervisor.start(MODULE) for case in self.cases}
        for case, worker in self._waiting.items():
            self._send(worker, case, "start")
        for worker in self._waiting.values():
            told = Answer.model_validate(worker.receive(PATIENCE_S))
            if told.status != WAITS:
                raise NotPlayed(f"the case did not come to its approval: {told.status} {told.text}")

    def _load(self, workers: Iterable[tuple[str, Worker]], modules: Iterable[str]) -> list[str]:
        """Each imports these; returns what any of them has loaded then."""
        asked = list(workers)
        for case, worker in asked:
            self._send(worker, case, "load", modules=list(modules))
        told = [Answer.model_validate(worker.receive(PATIENCE_S)) for _, worker in asked]
        return list(dict.fromkeys(name for answer in told for name in answer.details["modules"]))

    def _apart_ms(self) -> dict[Begun, float]:
        """How far apart the first two processes began each; without what only one of them began."""
        first: dict[Begun, dict[int, float]] = {}
        for line in (self.directory / BEGUN).read_text(encoding="utf-8").splitlines():
            note = json.loads(line)
            first.setdefault(note["what"], {}).setdefault(note["pid"], note["at"])
        begun = {what: sorted(each.values()) for what, each in first.items()}
        return {what: round((at[1] - at[0]) * 1000, 1) for what, at in begun.items() if len(at) > 1}

    def _send(self, worker: Worker, case: str, moment: Moment, **more: Any) -> None:
        job = self.jobs[case].model_copy(update={"moment": moment, **more})
        worker.send(job.model_dump(mode="json"))

    def _note(self, case: str, worker: Worker) -> float:
        """Keep the answer; returns the moment at which the run was over."""
        told_at = time.monotonic()
        try:
            answer = Answer.model_validate(worker.receive(PATIENCE_S))
            told_at = time.monotonic()
            if answer.status == TOLD:
                answer = Answer.model_validate(worker.receive(PATIENCE_S))
        except WorkerError as error:
            answer = Answer(status="ERROR", text=str(error))
        self.answers.append((case, answer))
        return told_at

    @staticmethod
    def _last_words(worker: Worker) -> str:
        try:
            return str(worker.receive(1.0))
        except WorkerError:
            return "nothing"
