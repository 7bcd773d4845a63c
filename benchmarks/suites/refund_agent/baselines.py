"""The two arms without a check: the naive one, and a stable idempotency key alone."""

from __future__ import annotations

import stripe

from benchmarks.suites.refund_agent.answer import Answer
from benchmarks.suites.refund_agent.arm import Hooks, Place, redeliver
from benchmarks.suites.refund_agent.case import Request
from benchmarks.suites.refund_agent.client import connect, is_replayed
from benchmarks.suites.refund_agent.crash import Point


def send(client: stripe.StripeClient, request: Request, key: str | None, hooks: Hooks) -> stripe.Refund:
    """The send of every arm but the gate, with the two points at which its worker may die."""
    hooks.crash.at(Point.BEFORE_SEND)
    refund = client.v1.refunds.create(
        {
            "payment_intent": request.payment,
            "amount": request.amount,
            "metadata": {"by": "agent", "case": request.case, **({"key": key} if key else {})},
        },
        {"idempotency_key": key} if key else {},
    )
    hooks.crash.at(Point.BEFORE_ACK)
    return refund


def outcome_of(client: stripe.StripeClient, request: Request, key: str, hooks: Hooks) -> tuple[str, str | None]:
    """Send under a stable key and say how the service took it; an answer nobody can make sense of is raised."""
    try:
        refund = send(client, request, key, hooks)
    except stripe.IdempotencyError:
        return "key_reused_with_different_params", None
    except stripe.CardError:
        return "declined", None
    except stripe.InvalidRequestError:
        return "rejected", None
    return ("already_processed" if is_replayed(refund) else "ok"), refund.id


class Naive:
    """No gate: the step runs, and runs again."""

    def __init__(self, place: Place) -> None:
        self._client = connect(place.door, sends_key=False, timeout_s=place.timeout_s)

    def run(self, request: Request, hooks: Hooks) -> Answer:
        """Send."""
        hooks.after_decision()
        return redeliver(lambda again: self._send(request, hooks, again))

    def recover(self, request: Request) -> Answer:
        """Send again: nothing is known of the first try."""
        return redeliver(lambda again: self._send(request, Hooks(), again), again=True)

    def redecide(self, request: Request) -> Answer:
        """Send what the model says now."""
        return self.run(request, Hooks())

    def close(self) -> None:
        """Nothing is held."""

    def _send(self, request: Request, hooks: Hooks, again: bool) -> Answer:
        status = "RETRIED" if again else "APPLIED"
        try:
            refund = send(self._client, request, None, hooks)
        except stripe.CardError:
            return Answer(status=f"{status}:declined")
        except stripe.InvalidRequestError:
            return Answer(status=f"{status}:rejected")
        return Answer(status=status, refund=refund.id)


class Idempotency:
    """A stable key at a service that dedupes, and nothing else."""

    def __init__(self, place: Place) -> None:
        self._client = connect(place.door, sends_key=place.sends_key, timeout_s=place.timeout_s)

    def run(self, request: Request, hooks: Hooks) -> Answer:
        """Send under the key of the approved request."""
        hooks.after_decision()
        return redeliver(lambda again: self._send(request, hooks))

    def recover(self, request: Request) -> Answer:
        """Send again under the same key."""
        answer = redeliver(lambda again: self._send(request, Hooks()))
        kept = answer.status.removeprefix("APPLIED:")
        # A retry reports that it retried; what the key did about it does not show in its answer, unless it failed.
        return Answer(
            status="RETRIED" if kept in {"ok", "already_processed"} else f"RETRIED:{kept.lower()}", refund=answer.refund
        )

    def redecide(self, request: Request) -> Answer:
        """Send what the model says now, under the key of the approved request."""
        return self.run(request, Hooks())

    def close(self) -> None:
        """Nothing is held."""

    def _send(self, request: Request, hooks: Hooks) -> Answer:
        result, refund = outcome_of(self._client, request, f"refund-{request.order}-{request.case}", hooks)
        return Answer(status=f"APPLIED:{result}", refund=refund)
