"""The arm this project is about: the same refund behind the gate."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import stripe

from benchmarks.suites.e2e.case import Answer, Approvals, Decision, Job
from interlock import Interlock, Outcome, Verdict
from interlock.ports import SystemClock, Uptime
from interlock.targets.stripe import Approval, stripe_refund

# The gate's log says what the table says; beside a progress display it would only be noise.
logging.getLogger("interlock").setLevel(logging.CRITICAL)

PATIENCE_S = 60.0
HTTP_CONFLICT = 409


class ShiftedClock(SystemClock):
    """The machine's clocks, as if more time had passed."""

    def __init__(self, passed_s: float) -> None:
        self._passed_s = passed_s

    def now(self) -> datetime:
        """The wall clock."""
        return datetime.now(UTC) + timedelta(seconds=self._passed_s)

    def uptime(self) -> Uptime:
        """The clock nobody sets."""
        real = super().uptime()
        return Uptime(real.boot, real.seconds + self._passed_s)


def gated(job: Job, decision: Decision, client: stripe.StripeClient) -> Answer:
    """Carry the decision out behind the gate; after a crash the same call settles what the dead worker left."""
    with Interlock(job.directory / "interlock", clock=ShiftedClock(job.passed_s)) as gate:
        refund = declare(gate, job, client) if job.can_look_up else declare_blind(gate, job, client)
        case = {"order": job.case, "payment_intent": job.payment}
        outcome = refund(case, amount=decision.amount_minor)
        deadline = time.monotonic() + PATIENCE_S
        while outcome.retry_after is not None and time.monotonic() < deadline:
            time.sleep(outcome.retry_after)
            outcome = refund(case, amount=decision.amount_minor)
        return answer_of(outcome)


def declare(gate: Interlock, job: Job, client: stripe.StripeClient) -> Callable[..., Outcome]:
    """The ready-made refund, as its user writes it."""
    approvals = Approvals(job.directory)
    return stripe_refund(
        gate,
        client,
        key=lambda case: f"refund:{case.order}",
        approval=lambda case: Approval(**approvals.read()),
        settle_after=job.settle_after_s,
    )


def declare_blind(gate: Interlock, job: Job, client: stripe.StripeClient) -> Callable[..., Outcome]:
    """The same at a service that cannot be asked what it has: the plain decorator, with no look-up to declare."""
    approvals = Approvals(job.directory)

    @gate.effect(
        key=lambda case: f"refund:{case['order']}",
        allowed=lambda amount: approvals.allows(amount),
        dedupes=True,
        window=timedelta(hours=24),
        classify=verdict_of,
        timeout=5,
    )
    def refund(case: dict[str, str], amount: int, idempotency_key: str) -> dict[str, Any]:
        asked: Any = {"payment_intent": case["payment_intent"], "amount": amount}
        made = client.v1.refunds.create(asked, {"idempotency_key": idempotency_key})
        return {"id": made.id, "amount": made.amount}

    return refund


def verdict_of(error: BaseException) -> Verdict | None:
    """What Stripe's exceptions say about whether the refund landed; None where they say nothing."""
    if isinstance(error, (stripe.CardError, stripe.InvalidRequestError)):
        return Verdict.REJECTED
    if isinstance(error, stripe.StripeError) and error.http_status == HTTP_CONFLICT:
        return Verdict.IN_USE
    return None


def answer_of(outcome: Outcome) -> Answer:
    """What the workflow reports, with the receipt."""
    told = outcome.value
    refund = told.get("id") if isinstance(told, Mapping) else getattr(told, "id", None)
    return Answer(
        status=str(outcome),
        refund=refund,
        text=outcome.for_person,
        retry_after_s=outcome.retry_after,
        details={
            "effect_id": outcome.effect_id,
            "path": str(outcome.via or outcome.reason or ""),
            "changes": sorted(outcome.changes),
            "receipt": outcome.receipt().to_dict(),
        },
    )
