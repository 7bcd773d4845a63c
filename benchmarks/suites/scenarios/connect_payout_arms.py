"""The arms of `connect_payout`: an approved $50 payout from a connected account's balance. What each user writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import stripe

from benchmarks.harness.stripe_wire import connect
from benchmarks.suites.e2e.arms import named
from benchmarks.suites.e2e.case import Answer, Approvals
from benchmarks.suites.scenarios.job import Act, Job, through_the_gate

UNDONE = ("failed", "canceled")


def no_check(job: Job) -> Answer:
    """A stable key, and nothing else."""
    client, key = connect(job.door, die=job.die, dies_at=job.dies_at), f"payout-{job.case['order']}"
    return Answer(status="SENT", refund=_send(client, job, key).id)


def hand_check(job: Job) -> Answer:
    """A careful engineer's check, the same code before the first send and after a crash."""
    client, key = connect(job.door, die=job.die, dies_at=job.dies_at), f"payout-{job.case['order']}"
    payouts = client.v1.payouts.list({"limit": 100}, {"stripe_account": job.case["account"]}).data
    if own := [one for one in payouts if named(one, "case") == key]:
        return Answer(status="FOUND", refund=own[0].id)
    if not Approvals(job.directory).allows(job.amount_minor):
        return Answer(status="STOPPED:approval")
    others = [one for one in payouts if one.id not in job.seen and one.status not in UNDONE and not one.automatic]
    if any(one.amount == job.amount_minor for one in others):
        return Answer(status="STOPPED:paid_by_hand")
    return Answer(status="SENT", refund=_send(client, job, key).id)


def forget(job: Job) -> Answer:
    """Who only sends does not look again."""
    return Answer(status="SENT", refund=job.done)


def look_again(job: Job) -> Answer:
    """The nightly job that a careful engineer adds: what became of the payout."""
    client = connect(job.door)
    payout = client.v1.payouts.retrieve(str(job.done), {}, {"stripe_account": job.case["account"]})
    state = {"paid": "settled", "failed": "reversed", "canceled": "reversed"}.get(payout.status, "pending")
    return Answer(status="FOUND", refund=job.done, details={"settlement": state})


def interlock(job: Job) -> Answer:
    """The ready-made payout; later, `gate.watch()`."""
    client = connect(job.door, die=job.die, dies_at=job.dies_at)

    def declare(gate: Any) -> Any:
        from interlock.targets.stripe import Approval, stripe_payout

        return stripe_payout(
            gate,
            client,
            key=lambda case: f"payout:{case.order}",
            currency="usd",
            approval=lambda case: Approval(**Approvals(job.directory).read()),
            settle_after=job.settle_after_s,
        )

    return through_the_gate(job, declare)


def _send(client: stripe.StripeClient, job: Job, key: str) -> stripe.Payout:
    asked: Any = {"amount": job.amount_minor, "currency": "usd", "metadata": {"case": key}}
    return client.v1.payouts.create(asked, {"idempotency_key": key, "stripe_account": job.case["account"]})


ARMS: Mapping[str, Mapping[str, Act]] = {
    "no_check": {"carry_out": no_check, "later": forget},
    "hand_check": {"carry_out": hand_check, "later": look_again},
    "interlock": {"carry_out": interlock, "later": interlock},
}
