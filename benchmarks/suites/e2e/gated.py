"""The arm this project is about: the same refund behind the gate."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import stripe

from benchmarks.suites.e2e.arms import HTTP_CONFLICT, named
from benchmarks.suites.e2e.case import Answer, Approval, Decision, Job
from interlock import Interlock, Outcome, Verdict, tolerates
from interlock.ports import SystemClock, Uptime

# The gate's log says what the table says; beside a progress display it would only be noise.
logging.getLogger("interlock").setLevel(logging.CRITICAL)

PATIENCE_S = 20.0
OWN = "interlock_effect_id"


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
        outcome = refund(job.case, job.payment, decision.amount_minor)
        deadline = time.monotonic() + PATIENCE_S
        while outcome.retry_after is not None and time.monotonic() < deadline:
            time.sleep(outcome.retry_after)
            outcome = refund(job.case, job.payment, decision.amount_minor)
        return answer_of(outcome)


def declare(gate: Interlock, job: Job, client: stripe.StripeClient) -> Any:
    """The refund behind the gate, at a service that dedupes and can be looked up."""
    approval = Approval(job.directory)

    @gate.effect(
        key=lambda case: f"refund:{case}",
        allowed=lambda amount: approval.allows(amount),
        premises=lambda payment, idempotency_key: {"by_others": by_others(client, payment, idempotency_key)},
        expect={"by_others": tolerates(is_unrelated, why="no new refund of the same amount")},
        lookup=lambda payment, idempotency_key: own(client, payment, idempotency_key),
        dedupes=True,
        window=timedelta(hours=24),
        classify=verdict_of,
        timeout=5,
    )
    def refund(case: str, payment: str, amount: int, idempotency_key: str) -> dict[str, Any]:
        return send(client, payment, amount, idempotency_key)

    return refund


def declare_blind(gate: Interlock, job: Job, client: stripe.StripeClient) -> Any:
    """The same at a service that cannot be asked what it has."""
    approval = Approval(job.directory)

    @gate.effect(
        key=lambda case: f"refund:{case}",
        allowed=lambda amount: approval.allows(amount),
        dedupes=True,
        window=timedelta(hours=24),
        classify=verdict_of,
        timeout=5,
    )
    def refund(case: str, payment: str, amount: int, idempotency_key: str) -> dict[str, Any]:
        return send(client, payment, amount, idempotency_key)

    return refund


def send(client: stripe.StripeClient, payment: str, amount: int, key: str) -> dict[str, Any]:
    """The request, marked with the effect's id."""
    asked: Any = {"payment_intent": payment, "amount": amount, "metadata": {OWN: key}}
    made = client.v1.refunds.create(asked, {"idempotency_key": key})
    return shown(made)


def shown(refund: stripe.Refund) -> dict[str, Any]:
    """What of a refund is kept as its evidence."""
    return {"id": refund.id, "amount": refund.amount}


def own(client: stripe.StripeClient, payment: str, key: str) -> dict[str, Any] | None:
    """The refund that carries this effect's id, or None."""
    refunds = client.v1.refunds.list({"payment_intent": payment, "limit": 100}).data
    return next((shown(one) for one in refunds if named(one, OWN) == key), None)


def by_others(client: stripe.StripeClient, payment: str, key: str) -> dict[str, int]:
    """The amount of every refund of the payment but this effect's own."""
    refunds = client.v1.refunds.list({"payment_intent": payment, "limit": 100}).data
    return {one.id: one.amount for one in refunds if named(one, OWN) != key}


def is_unrelated(seen: Mapping[str, int], now: Mapping[str, int], amount: int) -> bool:
    """The declared rule: what was refunded since is of another amount than ours."""
    return all(now[refund] != amount for refund in now if refund not in seen)


def verdict_of(error: BaseException) -> Verdict | None:
    """What Stripe's exceptions say about whether the refund landed; None where they say nothing."""
    if isinstance(error, (stripe.CardError, stripe.InvalidRequestError)):
        return Verdict.REJECTED
    if isinstance(error, stripe.StripeError) and error.http_status == HTTP_CONFLICT:
        return Verdict.IN_USE
    return None


def answer_of(outcome: Outcome) -> Answer:
    """What the workflow reports, with the receipt."""
    value = outcome.value if isinstance(outcome.value, Mapping) else {}
    return Answer(
        status=str(outcome),
        refund=value.get("id"),
        text=outcome.for_person,
        retry_after_s=outcome.retry_after,
        details={
            "effect_id": outcome.effect_id,
            "path": str(outcome.via or outcome.reason or ""),
            "changes": sorted(outcome.changes),
            "receipt": outcome.receipt().to_dict(),
        },
    )
