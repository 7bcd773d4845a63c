"""The arms of `stripe_dispute`: an approved $20 refund of a payment that may be charged back. What each user writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import stripe

from benchmarks.harness.stripe_wire import connect
from benchmarks.suites.e2e.arms import named
from benchmarks.suites.e2e.case import Answer, Approvals
from benchmarks.suites.scenarios.job import Act, Job, through_the_gate


def no_check(job: Job) -> Answer:
    """A stable key, and nothing else."""
    client, key = connect(job.door, die=job.die, dies_at=job.dies_at), f"refund-{job.case['order']}"
    return Answer(status="SENT", refund=_send(client, job, key).id)


def hand_check(job: Job) -> Answer:
    """A careful engineer's check, the same code before the first send and after a crash."""
    client, key = connect(job.door, die=job.die, dies_at=job.dies_at), f"refund-{job.case['order']}"
    refunds = client.v1.refunds.list({"payment_intent": job.case["payment_intent"], "limit": 100}).data
    if own := [one for one in refunds if named(one, "case") == key]:
        return Answer(status="FOUND", refund=own[0].id)
    if not Approvals(job.directory).allows(job.amount_minor):
        return Answer(status="STOPPED:approval")
    if any(one.amount == job.amount_minor for one in refunds if one.id not in job.seen):
        return Answer(status="STOPPED:same_refund_by_hand")
    if _charge(client, job).disputed:
        return Answer(status="STOPPED:disputed")
    return Answer(status="SENT", refund=_send(client, job, key).id)


def forget(job: Job) -> Answer:
    """Who only sends does not look again."""
    return Answer(status="SENT", refund=job.done)


def look_again(job: Job) -> Answer:
    """The nightly job that a careful engineer adds: what became of the refund, and of the charge under it."""
    client = connect(job.door)
    refund = client.v1.refunds.retrieve(str(job.done))
    state = "reversed" if refund.status in ("failed", "canceled") else "settled"
    if state == "settled" and _charge(client, job).disputed:
        state = "at_risk"
    return Answer(status="FOUND", refund=job.done, details={"settlement": state})


def interlock(job: Job) -> Answer:
    """The ready-made refund; later, `gate.watch()`."""
    client = connect(job.door, die=job.die, dies_at=job.dies_at)

    def declare(gate: Any) -> Any:
        from interlock.targets.stripe import Approval, stripe_refund

        return stripe_refund(
            gate,
            client,
            key=lambda case: f"refund:{case.order}",
            approval=lambda case: Approval(**Approvals(job.directory).read()),
            settle_after=job.settle_after_s,
        )

    return through_the_gate(job, declare)


def _send(client: stripe.StripeClient, job: Job, key: str) -> stripe.Refund:
    asked: Any = {
        "payment_intent": job.case["payment_intent"],
        "amount": job.amount_minor,
        "metadata": {"case": key},
    }
    return client.v1.refunds.create(asked, {"idempotency_key": key})


def _charge(client: stripe.StripeClient, job: Job) -> stripe.Charge:
    intent = client.v1.payment_intents.retrieve(job.case["payment_intent"], {"expand": ["latest_charge"]})
    assert isinstance(intent.latest_charge, stripe.Charge)
    return intent.latest_charge


ARMS: Mapping[str, Mapping[str, Act]] = {
    "no_check": {"carry_out": no_check, "later": forget},
    "hand_check": {"carry_out": hand_check, "later": look_again},
    "interlock": {"carry_out": interlock, "later": interlock},
}
