"""What the agent's worker of a scenario is handed, and how its arms use the gate. Shared by the scenarios; knows none of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from benchmarks.harness.stripe_wire import SETTLE_AFTER_S, Death, Door, Service
from benchmarks.suites.e2e.case import Answer

PATIENCE_S = 60.0


class Job(BaseModel):
    """One approved request, validated as it is read.

    Attributes:
        scenario: The module that knows what is to be done.
        arm: Who guards it.
        action: `carry_out`, or `later`: what the arm does about an effect that was accepted a while ago.
        door: The payment service.
        directory: Of this case alone.
        case: What the request names: an order, a payment, a customer, an account.
        amount_minor: What was approved and decided.
        seen: The ids of what others had done when it was decided.
        done: The object that the arm says it made; for `later`.
        settle_after_s: How long a dead sender's request may still be on its way, as declared to the gate.
        passed_s: How much time is to have passed beyond what really did.
        die: Where this worker kills itself, if anywhere.
        dies_at: The path of the POST that it does not survive.
        attempt: Which worker of this case it is, from 1.
    """

    model_config = ConfigDict(frozen=True)

    scenario: str
    arm: Literal["no_check", "hand_check", "interlock"]
    action: Literal["carry_out", "later"] = "carry_out"
    door: Door
    directory: Path
    case: dict[str, str]
    amount_minor: int
    seen: list[str] = []
    done: str | None = None
    settle_after_s: float = SETTLE_AFTER_S[Service.LOCAL]
    passed_s: float = 0.0
    die: Death | None = None
    dies_at: str
    attempt: int = 1


Act = Callable[[Job], Answer]
"""What an arm does."""


def through_the_gate(job: Job, declare: Callable[[Any], Any], **more: Any) -> Answer:
    """The gate's side of every scenario: declare, call, and call again while it says that asking again can tell more.

    A later worker watches what it had accepted first: `gate.watch()` reads it again and records what became of it.
    """
    # Here, so that no other arm's process pays for the gate.
    from benchmarks.suites.e2e.gated import ShiftedClock
    from interlock import Interlock

    with Interlock(job.directory / "interlock", clock=ShiftedClock(job.passed_s)) as gate:
        effect = declare(gate)
        if job.action == "later":
            gate.watch()
        outcome = effect(job.case, amount=job.amount_minor, **more)
        deadline = time.monotonic() + PATIENCE_S
        while outcome.retry_after is not None and time.monotonic() < deadline:
            time.sleep(outcome.retry_after)
            outcome = effect(job.case, amount=job.amount_minor, **more)
        told = outcome.value
        made = told.get("id") if isinstance(told, Mapping) else getattr(told, "id", None)
        return Answer(
            status=str(outcome),
            refund=made,
            text=outcome.for_person,
            retry_after_s=outcome.retry_after,
            details={
                "effect_id": outcome.effect_id,
                "path": str(outcome.via or outcome.reason or ""),
                "settlement": outcome.settlement,
                "receipt": outcome.receipt().to_dict(),
            },
        )
