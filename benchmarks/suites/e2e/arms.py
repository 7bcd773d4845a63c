"""The three arms: how an approved, decided refund is carried out. Each is what its user writes; the worker dies inside of the client.

The gate is imported for its own arm only, so that no other arm's process pays for it.
"""

from __future__ import annotations

from typing import Any

import stripe

from benchmarks.harness.stripe_wire import connect
from benchmarks.suites.e2e.case import Answer, Approvals, Decision, Job

KEY = "case"


class NotClosed(RuntimeError):
    """The arm could not close the case yet. An engine that raises it from its step has its own retry policy try again."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"{answer.status}: {answer.text}")
        self.answer = answer


def carry_out(job: Job, decision: Decision) -> Answer:
    """Carry the decision out with this job's arm; a new worker calls this again with the same decision."""
    if job.arm != "interlock":
        return carry_out_by_hand(job, decision)
    from benchmarks.suites.e2e.gated import gated

    return _asked(gated(job, decision, connect(job.door, die=job.die)), decision)


def carry_out_by_hand(job: Job, decision: Decision) -> Answer:
    """Carry the decision out with the arm that has no gate: the body of an engine's step, as its user writes it."""
    client = connect(job.door, die=job.die)
    approval = Approvals(job.directory)
    check = {"no_check": no_check, "hand_check": hand_check}[job.arm]
    try:
        answer = check(job, decision, client, approval)
    except (stripe.CardError, stripe.InvalidRequestError) as error:
        answer = Answer(status="DECLINED", text=str(error.user_message or error))
    except (stripe.APIConnectionError, stripe.APIError) as error:
        answer = Answer(status="UNCLEAR", text=str(error), retry_after_s=0.2)
    return _asked(answer, decision)


def close_by_hand(job: Job, decision: Decision) -> Answer:
    """As `carry_out_by_hand`, where the engine retries.

    Raises:
        NotClosed: The service gave no clear answer.
    """
    answer = carry_out_by_hand(job, decision)
    if answer.retry_after_s is not None:
        raise NotClosed(answer)
    return answer


def _asked(answer: Answer, decision: Decision) -> Answer:
    return answer.model_copy(update={"details": {**answer.details, "asked_minor": decision.amount_minor}})


def send(client: stripe.StripeClient, job: Job, amount: int, key: str) -> stripe.Refund:
    """The request of the arms without a gate, under a stable key that names the approved case."""
    asked: Any = {"payment_intent": job.payment, "amount": amount, "metadata": {KEY: key}}
    return client.v1.refunds.create(asked, {"idempotency_key": key})


def no_check(job: Job, decision: Decision, client: stripe.StripeClient, approval: Approvals) -> Answer:
    """A stable key, and nothing else."""
    refund = send(client, job, decision.amount_minor, f"refund-{job.case}")
    return Answer(status="SENT", refund=refund.id)


def hand_check(job: Job, decision: Decision, client: stripe.StripeClient, approval: Approvals) -> Answer:
    """A careful engineer's check, the same code before the first send and after a crash."""
    key, amount = f"refund-{job.case}", decision.amount_minor
    refunds = client.v1.refunds.list({"payment_intent": job.payment, "limit": 100}).data
    if own := [one for one in refunds if named(one, KEY) == key]:
        return Answer(status="FOUND", refund=own[0].id)
    if not approval.allows(amount):
        return Answer(status="STOPPED:approval")
    if any(one.amount == amount for one in refunds if one.id not in decision.seen):
        return Answer(status="STOPPED:same_refund_by_hand")
    refund = send(client, job, amount, key)
    return Answer(status="SENT", refund=refund.id)


def named(refund: Any, name: str) -> str | None:
    """One entry of a refund's metadata, or None."""
    return dict(refund.metadata.to_dict()).get(name) if refund.metadata else None
