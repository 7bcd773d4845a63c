"""What every arm offers the rows, and what it is given.

An arm guards one refund. The rows deliver requests to it, kill its worker, change the world, and start it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import stripe
from pydantic import BaseModel, ConfigDict

from benchmarks.harness.stripe_wire import Door
from benchmarks.suites.refund_agent.answer import Answer
from benchmarks.suites.refund_agent.case import Desk, Request
from benchmarks.suites.refund_agent.crash import NO_CRASH, Crash


class Place(BaseModel):
    """Where an arm works: the service, the directory it keeps its own records in, the machine's clock.

    Attributes:
        door: The payment service.
        directory: Of this case alone; the back office's facts and the arm's own records lie here.
        arm: Which arm guards the refund.
        tier: What the service offers it; None for the arm that uses nothing of it.
        wall_offset_s: How far the machine's wall clock is off.
        passed_s: How much time is to have passed beyond what really did.
        settle_after_s: The declared pause before an `absent` is trusted, counted from when the sender is known dead.
        timeout_s: The longest a send may take, as the gate and the SDK are told.
    """

    model_config = ConfigDict(frozen=True)

    door: Door
    directory: Path
    arm: str
    tier: int | None
    wall_offset_s: float = 0.0
    passed_s: float = 0.0
    settle_after_s: float = 1.0
    timeout_s: float = 5.0

    @property
    def desk(self) -> Desk:
        """The back office of this case."""
        return Desk(self.directory)

    @property
    def sends_key(self) -> bool:
        """Whether the Idempotency-Key may go out: only to a service that dedupes on it."""
        return self.tier == 1


@dataclass
class Hooks:
    """What happens to the worker on its way: the planned crash, and what the world does after the decision.

    `waits` False: the worker asks once and does not wait for whoever is at it already.
    """

    crash: Crash = NO_CRASH
    waits: bool = True
    after_decision: Callable[[], None] = field(default=lambda: None)


class Arm(Protocol):
    """One guard of the refund."""

    def run(self, request: Request, hooks: Hooks) -> Answer:
        """A worker takes the approved request from the queue and carries it out."""

    def recover(self, request: Request) -> Answer:
        """A new worker, after the first one died: what it does with the case on its start."""

    def redecide(self, request: Request) -> Answer:
        """A new worker after a crash whose model, asked again, says another amount."""

    def close(self) -> None:
        """The worker ends in peace."""


def redeliver(
    attempt: Callable[[bool], Answer], *, again: bool = False, tries: int = 6, pause_s: float = 0.25
) -> Answer:
    """A queue hands the job out again while its worker fails with an error nobody can make sense of.

    Without a gate somebody has to do this; every arm but the gate gets the same patient queue.
    """
    for number in range(tries):
        try:
            return attempt(again or number > 0)
        except (stripe.APIConnectionError, stripe.APIError):
            if number + 1 < tries:
                time.sleep(pause_s)
    return Answer(status="UNCLEAR")
