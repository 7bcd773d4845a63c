"""The three arms: how an approved refund is carried out inside a framework's tool. Each is what its user writes.

    default      the framework's documented set-up: a stable idempotency key, no check of its own
    hand_check   a careful engineer's check, the same code before the first send and after a crash
    interlock    the wrapper of the framework around the bare request

A framework's tool is `act(job, reference)`. In the interlock arm that is the bare request, and the framework's wrapper gets
`effect_of(job)`, or the ready-made `refund_of(gate, job)` where it takes a declared effect. The gate is imported for its own arm only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import stripe

from benchmarks.harness.stripe_wire import connect
from benchmarks.suites.matrix.case import TOOL, Answer, Job

if TYPE_CHECKING:
    from interlock import Interlock
    from interlock.extend import Effect
    from interlock.targets.stripe.refund import StripeRefund

APPROVAL = "approval"
"""Metadata that every arm writes on a refund: which approved case it is for."""

SDK_RETRIES = 2
"""The SDK's own default (README of stripe-python, "Configuring automatic retries"); it retries a 409 of two at once."""

PATIENCE_S = 20.0

NOT_APPROVED = {"status": "STOPPED:approval"}
"""What a framework's own approval step came to, where it asks again and the person says no."""


def act(job: Job, reference: str = "") -> str:
    """The tool's body, in this job's arm: what the model is told. `reference` is the key that the gate hands over, in its arm."""
    if job.arm == "interlock":
        made = send(client_of(job), job, reference)
        return json.dumps({"id": made.id, "amount": made.amount})
    return carry_out(job).model_dump_json(exclude_defaults=True)


def carry_out(job: Job) -> Answer:
    """Carry the refund out by an arm without a gate."""
    job.note_begun("tool")
    client = client_of(job)
    try:
        return default(job, client) if job.arm == "default" else hand_check(job, client)
    except (stripe.CardError, stripe.InvalidRequestError) as error:
        return Answer(status="DECLINED", text=str(error.user_message or error))
    except (stripe.APIConnectionError, stripe.APIError) as error:
        return Answer(status="UNCLEAR", text=str(error))


def default(job: Job, client: stripe.StripeClient) -> Answer:
    """A stable key, and nothing else."""
    return Answer(status="SENT", refund=send(client, job, f"refund-{job.case}").id)


def hand_check(job: Job, client: stripe.StripeClient) -> Answer:
    """A careful engineer's check, the same code before the first send and after a crash."""
    with one_at_a_time(job):
        page = client.v1.refunds.list({"payment_intent": job.payment, "limit": 100})
        refunds = [one for one in page.auto_paging_iter() if one.status not in ("failed", "canceled")]
        if own := [one for one in refunds if approval_of(one) == job.case]:
            return Answer(status="FOUND", refund=own[0].id)
        if not job.approvals.allows(job.amount_minor):
            return Answer(status="STOPPED:approval")
        since = [one for one in refunds if approval_of(one) is None and one.id not in job.saved("seen")]
        if sum(one.amount for one in since) >= job.amount_minor:
            return Answer(status="STOPPED:refunded_by_others")
        agents = sum(one.amount for one in refunds if approval_of(one) is not None)
        if job.cap_minor is not None and agents + job.amount_minor > job.cap_minor:
            return Answer(status="STOPPED:over_the_cap")
        return Answer(status="SENT", refund=send(client, job, f"refund-{job.case}").id)


def effect_of(job: Job) -> Effect:
    """The gate's side of the tool: for the wrappers that protect a framework's own tools."""
    from interlock import Budget, tolerates
    from interlock.extend import Effect

    client, approvals = client_of(job), job.approvals

    def own(key: str) -> dict[str, Any] | None:
        return next(({"id": one.id, "amount": one.amount} for one in listed(client, job) if key_of(one) == key), None)

    return Effect(
        key=lambda order_id: f"refund:{order_id}",
        allowed=lambda amount: approvals.allows(amount),
        premises=lambda: {"by_others": sum(one.amount for one in listed(client, job) if approval_of(one) is None)},
        expect={
            "by_others": tolerates(lambda seen, now, amount: now - seen < amount, why="others refunded less than this")
        },
        budget=lambda amount: Budget(f"refunds:{job.payment}", job.cap_minor, amount) if job.cap_minor else None,
        lookup=lambda idempotency_key: own(idempotency_key),
        idempotency_argument="reference",
        dedupes=True,
        window=timedelta(hours=24),
        settle_after=job.settle_after_s,
        timeout=5,
        wait=PATIENCE_S,
    )


def refund_of(gate: Interlock, job: Job, *, asynchronous: bool = False) -> StripeRefund[Any]:
    """The ready-made refund, for what takes a declared effect: called with `case_of(job)` and `amount=`."""
    from interlock import Budget
    from interlock.targets.stripe import Approval, stripe_refund

    approvals = job.approvals
    made: StripeRefund[Any] = stripe_refund(
        gate,
        client_of(job),
        key=lambda case: f"refund:{case.order}",
        approval=lambda case: Approval(**approvals.read()),
        budget=lambda case, amount: Budget(f"refunds:{job.payment}", job.cap_minor, amount) if job.cap_minor else None,
        metadata=lambda case: {APPROVAL: case.order},
        name=TOOL,
        settle_after=job.settle_after_s,
        wait=PATIENCE_S,
        asynchronous=asynchronous,  # type: ignore[call-overload]
    )
    return made


def case_of(job: Job) -> dict[str, str]:
    """The case as `refund_of` takes it."""
    return {"order": job.case, "payment_intent": job.payment}


def note_seen(job: Job) -> None:
    """Keep which refunds were there when the refund was decided, for every arm: a decision is made on something."""
    page = client_of(job.model_copy(update={"die": None})).v1.refunds.list(
        {"payment_intent": job.payment, "limit": 100}
    )
    job.save("seen", [one.id for one in page.auto_paging_iter()])


def client_of(job: Job) -> stripe.StripeClient:
    """The official SDK; in a worker that is to die it dies around the POST, in every arm at the same byte."""
    return connect(job.door, die=job.die, retries=SDK_RETRIES)


def send(client: stripe.StripeClient, job: Job, key: str) -> stripe.Refund:
    """The request."""
    asked: Any = {
        "payment_intent": job.payment,
        "amount": job.amount_minor,
        "metadata": {APPROVAL: job.case, "key": key},
    }
    return client.v1.refunds.create(asked, {"idempotency_key": key})


def listed(client: stripe.StripeClient, job: Job) -> list[stripe.Refund]:
    """Every refund on the payment that moved money or may."""
    page = client.v1.refunds.list({"payment_intent": job.payment, "limit": 100})
    return [one for one in page.auto_paging_iter() if one.status not in ("failed", "canceled")]


def approval_of(refund: stripe.Refund) -> str | None:
    """The approved case that a refund names; None for one that was made by hand."""
    return _named(refund, APPROVAL)


def key_of(refund: stripe.Refund) -> str | None:
    """The key that a refund carries in its metadata."""
    return _named(refund, "key")


def _named(refund: stripe.Refund, name: str) -> str | None:
    return dict(refund.metadata.to_dict()).get(name) if refund.metadata else None


@contextlib.contextmanager
def one_at_a_time(job: Job) -> Iterator[None]:
    """One worker at a time on this payment; the kernel gives the lock back when its holder dies."""
    with (job.shared / f"{job.payment}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def answer_of(job: Job, told: Any) -> Answer:
    """What the framework told in the end, as an answer that the service's list can be compared with.

    Args:
        job: the case.
        told: what a framework's `approve` or `resume` gave back: the tool's answer as the framework holds it (text or plain data), or an
            `Answer`, or the gate's own `Outcome`.
    """
    if isinstance(told, Answer):
        return told
    if job.arm == "interlock":
        return _gated(job, told)
    parsed = _parsed(told)
    if isinstance(parsed, Mapping) and "status" in parsed:
        return Answer.model_validate(parsed)
    return Answer(status="UNCLEAR", text=str(told))


def _gated(job: Job, told: Any) -> Answer:
    """What the run was told, with code and receipt from the journal: landed only if the run has the refund in its hands."""
    from interlock import Interlock, Outcome
    from interlock.receipts import Receipt

    if isinstance(told, Outcome):
        told = {"status": str(told), "value": plain(told.value), "message": told.for_person}
    with Interlock(job.journal) as gate:
        history = gate.journal.load(effect_id_of(job))
    last = history.entries[-1] if history.entries else None
    parsed = _parsed(told)
    refund = _refund_in(parsed)
    text = str(parsed.get("message") or "") if isinstance(parsed, Mapping) else str(told)
    status = str(parsed.get("status") or "") if isinstance(parsed, Mapping) else ""
    if not status or status.islower():
        # The wrapper told it in its framework's own form: a value, or a sentence.
        status = _status_of(last, text) if refund is None else "COMMITTED"
    return Answer(
        status=status,
        refund=refund,
        text=text,
        details={
            "effect_id": history.effect_id,
            "journal": "" if last is None else str(last.kind),
            "path": "" if last is None else str(last.data.get("via") or last.data.get("reason") or ""),
            "receipt": Receipt.of(history).to_dict() if last is not None else None,
        },
    )


def _status_of(last: Any, told: str) -> str:
    """The code of a journal's last entry, if that is no landing and the sentence that the run was told is the gate's own for it."""
    from interlock import Outcome, Status

    if last is None or str(last.kind) not in ("REFUSED", "FAILED", "AMBIGUOUS"):
        return "UNCLEAR"
    recorded = Outcome(Status(str(last.kind)), TOOL, "", "", reason=str(last.data.get("reason") or ""))
    first, _, _ = recorded.for_model.partition(". ")
    return str(recorded) if first in told else "UNCLEAR"


def effect_id_of(job: Job) -> str:
    """The gate's name for this case's refund, whichever wrapper made it."""
    from interlock.rules.canonical import derive_id

    return derive_id(TOOL, f"refund:{job.case}")


def plain(value: Any) -> Any:
    """A value as plain data."""
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value


def _refund_in(told: Any) -> str | None:
    """The refund's id in an answer, wherever a framework put it."""
    if isinstance(told, Mapping):
        if str(told.get("id", "")).startswith("re_"):
            return str(told["id"])
        return next((found for value in told.values() if (found := _refund_in(_parsed(value))) is not None), None)
    if isinstance(told, list):
        return next((found for value in told if (found := _refund_in(_parsed(value))) is not None), None)
    return None


def _parsed(told: Any) -> Any:
    if isinstance(told, str):
        with contextlib.suppress(ValueError):
            found = json.loads(told)
            return found if isinstance(found, dict | list) else told
    return told
