"""The stage a row plays on: one payment, one approved request, one arm, and what can happen to them.

Owns how a worker is run: in this process (`simulated`), or as a process of its own that really dies (`kill`). The rows are
written once and played in both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness.stripe_place import StripePlace
from benchmarks.harness.supervisor import Supervisor, Worker, WorkerError
from benchmarks.services.stripe import LocalStripe
from benchmarks.suites.refund_agent import worker
from benchmarks.suites.refund_agent.answer import Answer
from benchmarks.suites.refund_agent.arm import Hooks, Place
from benchmarks.suites.refund_agent.arms import Column, open_arm
from benchmarks.suites.refund_agent.case import PAID_MINOR, Desk, Request
from benchmarks.suites.refund_agent.client import connect
from benchmarks.suites.refund_agent.crash import Crash, Died, Manner, Point

SETTLE_AFTER_S = 1.0
"""The pause before an `absent` is trusted, as declared to the gate in every row (it is the gate's default)."""

LATE_BY_S = 0.8
"""How slow the service is in the late-landing rows: less than the declared pause, as the declaration promises."""

SHORT_TIMEOUT_S = 1.0
"""The timeout of gate and SDK in the paused-sender row, so that a pause can outlast it."""


ARRIVAL_TIMEOUT_S = 10.0


class Stage:
    """One cell being played."""

    def __init__(
        self,
        stripe: StripePlace,
        directory: Path,
        column: Column,
        *,
        order: str,
        real: bool,
        settle_after_s: float = SETTLE_AFTER_S,
    ) -> None:
        directory.mkdir(parents=True)
        self.stripe = stripe
        self.supervisor = Supervisor()
        self.desk = Desk(directory)
        self.attempts = 0
        self.settle_s: float | None = None
        self._real = real
        self._died_at: float | None = None
        door = stripe.door_of(order)
        self._people = connect(door, sends_key=True)
        self.place = Place(
            door=door, directory=directory, arm=column.arm, tier=column.tier, settle_after_s=settle_after_s
        )
        payment = self._people.v1.payment_intents.create(
            {
                "amount": PAID_MINOR,
                "currency": "usd",
                "payment_method": "pm_card_visa",
                "confirm": True,
                "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
                "metadata": {"order": order},
            }
        )
        self.request = Request(order=order, payment=payment.id)

    @property
    def service(self) -> LocalStripe:
        """The local service's own controls.

        Raises:
            LocalOnly: The run is live.
        """
        return self.stripe.local

    def deliver(
        self,
        *,
        request: Request | None = None,
        die: Point | None = None,
        after_decision: Callable[[], None] = lambda: None,
    ) -> Answer:
        """A worker gets the request. With `die` it does not survive that point, and there is no answer.

        Changing the world after the decision needs this process, so such rows are played in it.
        """
        request = request or self.request
        if self._real:
            return self._in_process_of_its_own("run", request, die)
        return self._here("run", request, Hooks(crash=Crash(die), after_decision=after_decision))

    def recover(self) -> Answer:
        """A new worker after the crash."""
        return self._new_worker("recover", self.request)

    def redecide(self, amount_minor: int) -> Answer:
        """A new worker after the crash, whose model says another amount now."""
        self.request = self.request.with_amount(amount_minor)
        return self._new_worker("redecide", self.request)

    def ready(self, *, pause: Point | None = None, waits: bool = True) -> Worker:
        """A worker process that holds the request and begins on `send({})`; with `pause` it stops itself at that point."""
        self.attempts += 1
        started = self.supervisor.start(worker.MODULE)
        self._hand_over(started, "run", self.request, point=pause, manner=Manner.STOP, waits=waits, holds=True)
        started.receive()
        return started

    def answer_of(self, started: Worker) -> Answer:
        """What a worker process answers."""
        return Answer(**started.receive())

    def killed(self, started: Worker) -> None:
        """Wait for a worker's death by SIGKILL."""
        self._died_at = started.wait_killed()

    def support_refunds(self, amount_minor: int, *, case: str | None) -> None:
        """A person refunds by hand."""
        metadata = {"by": "support"} if case is None else {"by": "support", "case": case}
        self._people.v1.refunds.create(
            {"payment_intent": self.request.payment, "amount": amount_minor, "metadata": metadata}
        )

    def pass_time(self, seconds: float) -> None:
        """A day and more passes, for the service and for whoever comes next; live, the service only forgets its keys."""
        door = self.place.door
        if self.stripe.is_local:
            self.service.advance(seconds)
        else:
            door = self.stripe.forget_keys(door)
        self.place = self.place.model_copy(update={"door": door, "passed_s": self.place.passed_s + seconds})

    def set_wall_clock(self, seconds: float) -> None:
        """The machine's wall clock is set by so much."""
        self.place = self.place.model_copy(update={"wall_offset_s": self.place.wall_offset_s + seconds})

    def shorten_timeout(self) -> float:
        """From here on sends time out soon; returns when."""
        self.place = self.place.model_copy(update={"timeout_s": SHORT_TIMEOUT_S})
        return SHORT_TIMEOUT_S

    def wait_for_request(self) -> None:
        """Wait until a refund of this payment has arrived at the service, which may not have acted on it yet.

        Raises:
            WorkerError: None arrives.
        """
        deadline = time.monotonic() + ARRIVAL_TIMEOUT_S
        while not self.refund_requests():
            if time.monotonic() > deadline:
                raise WorkerError(f"no refund request arrived at the service within {ARRIVAL_TIMEOUT_S} s")
            time.sleep(0.01)

    def refund_requests(self) -> list[dict[str, Any]]:
        """The requests to refund this payment as the service logged them on arrival, support's own left out."""
        return [
            request
            for request in self.service.ledger()["requests"]
            if (request["method"], request["path"]) == ("POST", "/v1/refunds")
            and request["params"].get("payment_intent") == self.request.payment
            and request["params"].get("metadata", {}).get("by") == "agent"
        ]

    def refunds(self) -> list[dict[str, Any]]:
        """The refunds of the payment: from the local service's own ledger and not from its API; live, from its list."""
        if not self.stripe.is_local:
            return self.stripe.refunds(self.request.payment)
        refunds: list[dict[str, Any]] = self.service.ledger()["refunds"]
        return [refund for refund in refunds if refund["payment_intent"] == self.request.payment]

    def close(self) -> None:
        """End every worker, and take back the faults that have not struck."""
        self.supervisor.close()
        if self.stripe.is_local:
            self.service.clear_faults()

    def _new_worker(self, action: str, request: Request) -> Answer:
        if self._real:
            answer = self._in_process_of_its_own(action, request, None)
            if self._died_at is not None:
                self.settle_s = round(time.monotonic() - self._died_at, 3)
            return answer
        return self._here(action, request, Hooks())

    def _in_process_of_its_own(self, action: str, request: Request, die: Point | None) -> Answer:
        self.attempts += 1
        started = self.supervisor.start(worker.MODULE)
        self._hand_over(started, action, request, point=die, manner=Manner.KILL)
        if die is None:
            return self.answer_of(started)
        self.killed(started)
        return Answer(status="DIED")

    def _hand_over(self, started: Worker, action: str, request: Request, **more: Any) -> None:
        job = worker.Job(place=self.place, action=action, request=request, **more)
        started.send(job.model_dump(mode="json"))

    def _here(self, action: str, request: Request, hooks: Hooks) -> Answer:
        self.attempts += 1
        arm = open_arm(self.place)
        try:
            answer = worker.perform(arm, action, request, hooks)
        except Died:
            # Dead workers close nothing.
            return Answer(status="DIED")
        arm.close()
        return answer
