"""Plain Python: a worker of a queue, which hands a case out again when its worker died."""

from __future__ import annotations

from typing import Any

from benchmarks.suites.matrix import arms
from benchmarks.suites.matrix.case import Job
from benchmarks.suites.matrix.framework import Framework

FRAMEWORK = Framework(
    name="plain",
    title="Plain Python",
    docs="https://docs.stripe.com/api/idempotent_requests",
    starts="a worker takes the case from a queue and writes down what was decided",
    approves="the queue hands the approved case to a worker",
    persists="the decision, in a file",
    resumes="the queue hands the same case to a new worker, which runs the same code from the top",
    wrapper="interlock.targets.stripe.stripe_refund",
    example="stripe_refund",
    order=0,
)


def start(job: Job) -> None:
    """Write down what was decided."""
    job.save("decision", job.arguments)


def approve(job: Job) -> Any:
    """Do it."""
    decided = job.saved("decision")
    if job.arm != "interlock":
        return arms.carry_out(job)
    from interlock import Interlock

    with Interlock(job.journal) as gate:
        refund = arms.refund_of(gate, job)
        gate.recover()
        return refund(arms.case_of(job), amount=decided["amount"])


resume = approve
