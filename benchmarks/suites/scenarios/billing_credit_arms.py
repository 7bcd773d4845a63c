"""The arms of `billing_credit`: a $10 goodwill credit for an incident. What each user writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import stripe

from benchmarks.harness.stripe_wire import connect
from benchmarks.suites.e2e.arms import named
from benchmarks.suites.e2e.case import Answer, Approvals
from benchmarks.suites.scenarios.incident import Incident
from benchmarks.suites.scenarios.job import Act, Job, through_the_gate


def no_check(job: Job) -> Answer:
    """A stable key, and nothing else."""
    client, key = connect(job.door, die=job.die, dies_at=job.dies_at), f"credit-{job.case['incident']}"
    return Answer(status="SENT", refund=_send(client, job, key).id)


def hand_check(job: Job) -> Answer:
    """A careful engineer's check, the same code before the first send and after a crash."""
    client, key = connect(job.door, die=job.die, dies_at=job.dies_at), f"credit-{job.case['incident']}"
    grants = client.v1.billing.credit_grants.list({"customer": job.case["customer"], "limit": 100}).data
    if own := [one for one in grants if named(one, "incident") == key]:
        return Answer(status="FOUND", refund=own[0].id)
    if not Approvals(job.directory).allows(job.amount_minor):
        return Answer(status="STOPPED:approval")
    if not Incident(job.directory).is_open():
        return Answer(status="STOPPED:incident_closed")
    if any(not one.voided_at for one in grants if one.id not in job.seen):
        return Answer(status="STOPPED:credited_by_hand")
    return Answer(status="SENT", refund=_send(client, job, key).id)


def interlock(job: Job) -> Answer:
    """The ready-made credit grant, with the incident as a fact of one's own."""
    client = connect(job.door, die=job.die, dies_at=job.dies_at)

    def declare(gate: Any) -> Any:
        from interlock import equals
        from interlock.targets.stripe import Approval, stripe_credit_grant

        return stripe_credit_grant(
            gate,
            client,
            key=lambda case: f"credit:{case.incident}",
            currency="usd",
            approval=lambda case: Approval(**Approvals(job.directory).read()),
            premises=lambda case: {"incident_open": Incident(job.directory).is_open()},
            expect={"incident_open": equals(True)},
            settle_after=job.settle_after_s,
        )

    return through_the_gate(job, declare)


def _send(client: stripe.StripeClient, job: Job, key: str) -> stripe.billing.CreditGrant:
    asked: Any = {**grant(job.case["customer"], job.amount_minor), "metadata": {"incident": key}}
    return client.v1.billing.credit_grants.create(asked, {"idempotency_key": key})


def grant(customer: str, amount_minor: int) -> dict[str, Any]:
    """What a credit grant is made of (docs.stripe.com/api/billing/credit-grant/create)."""
    return {
        "customer": customer,
        "amount": {"type": "monetary", "monetary": {"value": amount_minor, "currency": "usd"}},
        "category": "promotional",
        "applicability_config": {"scope": {"price_type": "metered"}},
    }


ARMS: Mapping[str, Mapping[str, Act]] = {
    "no_check": {"carry_out": no_check},
    "hand_check": {"carry_out": hand_check},
    "interlock": {"carry_out": interlock},
}
