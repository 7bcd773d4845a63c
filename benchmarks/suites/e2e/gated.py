"""The arm this project is about: the same refund behind the gate, alone or in the native form of an engine.

`GatedArm` is the seam for engines: it holds the gate and the declared refund of one worker process. How the refund is called is the
engine's (an activity, a step), as its user would write it; what the case came to is told here, the same for all.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self

import stripe

from benchmarks.suites.e2e.case import JOURNAL, Answer, Approvals, Decision, Job
from interlock import Interlock, Kind, Outcome, Verdict
from interlock.function import EffectFunction
from interlock.ports import SystemClock, Uptime
from interlock.protocol import outcome_of
from interlock.rules.canonical import derive_id
from interlock.targets.stripe import Approval, StripeRefund, stripe_refund

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


class GatedArm:
    """The gate and the refund declared on it, in one worker process. Used with `with`.

    An engine makes one when its worker starts, before it takes work, hands `gate` to its plugin where it has one, and calls `refund` in
    the form that its integration documents, with `arguments(decision)`:

        with GatedArm(job, client) as arm:
            ...
            def step(decision):                 # the body of the activity or step
                case, more = arm.arguments(decision)
                return gated(arm.gate, arm.refund.proposal(*case, **more))
            ...
            answer = arm.answer(value_of_workflow, attempts=..., ids=...)

    Args:
        job: As this process was handed it: its `door`, `die` and `passed_s` are of this process, never of an earlier one.
        client: Made with `connect(job.door, die=job.die)`.
    """

    def __init__(self, job: Job, client: stripe.StripeClient) -> None:
        self._job = job
        self.gate = Interlock(job.directory / JOURNAL, clock=ShiftedClock(job.passed_s))
        self.refund: StripeRefund[Outcome] | EffectFunction[Outcome] = (
            declare(self.gate, job, client) if job.can_look_up else declare_blind(self.gate, job, client)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.gate.close()

    def arguments(self, decision: Decision) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the refund is called with, positional and by name."""
        return ({"order": self._job.case, "payment_intent": self._job.payment},), {"amount": decision.amount_minor}

    def outcome(self) -> Outcome:
        """The refund as the journal has it now; nothing is sent and nothing is read from the service."""
        history = self.gate.journal.load(derive_id(self.refund.name, f"refund:{self._job.case}"))
        return outcome_of(history, self.gate.effects[self.refund.name])

    def answer(self, decision: Decision, reported: Any, **more: Any) -> Answer:
        """What the workflow reports, with the code that the gate has on its record.

        Args:
            decision: The decision that was carried out.
            reported: What the workflow ended with: the refund's value, or, as a string, the gate's code where it did not land.
            more: Further details of the cell: `attempts` by the engine's own count, `engine_ids`.
        """
        recorded = self.outcome()
        if isinstance(reported, str):
            answer = answer_of(recorded).model_copy(update={"status": reported, "refund": None})
        else:
            # The workflow says that it landed. How the gate came to know is on the record alone.
            status = str(recorded) if recorded.ok else "COMMITTED"
            answer = answer_of(recorded).model_copy(update={"status": status, "refund": refund_id(reported)})
        details = {**answer.details, "asked_minor": decision.amount_minor, **more}
        return answer.model_copy(update={"details": details, "retry_after_s": None})


def gated(job: Job, decision: Decision, client: stripe.StripeClient) -> Answer:
    """Carry the decision out behind the gate without an engine; after a crash the same call settles what the dead worker left."""
    arm = GatedArm(job, client)
    atexit.register(
        arm.gate.close
    )  # as its user has it: opened once, and closed with the process, which has answered by then
    case, more = arm.arguments(decision)
    outcome = arm.refund(*case, **more)
    deadline = time.monotonic() + PATIENCE_S
    while outcome.retry_after is not None and time.monotonic() < deadline:
        time.sleep(outcome.retry_after)
        outcome = arm.refund(*case, **more)
    return answer_of(outcome)


def declare(gate: Interlock, job: Job, client: stripe.StripeClient) -> StripeRefund[Outcome]:
    """The ready-made refund, as its user writes it."""
    approvals = Approvals(job.directory)
    return stripe_refund(
        gate,
        client,
        key=lambda case: f"refund:{case.order}",
        approval=lambda case: Approval(**approvals.read()),
        settle_after=job.settle_after_s,
    )


def declare_blind(gate: Interlock, job: Job, client: stripe.StripeClient) -> EffectFunction[Outcome]:
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
    """What the workflow reports. Its receipt is read from the journal once the case is closed, by the suite."""
    return Answer(
        status=str(outcome),
        refund=refund_id(outcome.value),
        text=outcome.for_person,
        retry_after_s=outcome.retry_after,
        details={
            "effect_id": outcome.effect_id,
            "path": path_of(outcome),
            "changes": sorted(outcome.changes),
        },
    )


def path_of(outcome: Outcome) -> str:
    """How it came to this: by what a landed one is known, else what recovery came to, else the reason or the bare status."""
    if outcome.via is not None:
        return str(outcome.via)
    entries = outcome.history.entries if outcome.history is not None else ()
    reasons = [str(entry.data.get("reason", "")) for entry in entries if entry.kind is Kind.REFUSED]
    at_recovery = [reason for reason in reasons if reason.endswith("_at_recovery")]
    return (at_recovery or [outcome.reason or str(outcome.status).lower()])[0]


def refund_id(value: Any) -> str | None:
    """The id of the refund that a value names, if it names one."""
    told = value.get("id") if isinstance(value, Mapping) else getattr(value, "id", None)
    return None if told is None else str(told)
