"""The check a very good engineer writes by hand, at each tier, as strong as ten to fifteen lines allow.

Look first, then the permission and the facts, then send under a stable key that names the approval. The intent is on
disk before the send. The report prints these functions as they stand here.
"""

from __future__ import annotations

import stripe

from benchmarks.suites.refund_agent.answer import Answer
from benchmarks.suites.refund_agent.arm import Hooks, Place, redeliver
from benchmarks.suites.refund_agent.baselines import send
from benchmarks.suites.refund_agent.case import Desk, Request, is_own, refunds_of, total_in_the_way
from benchmarks.suites.refund_agent.client import connect
from benchmarks.suites.refund_agent.intents import Intents


def refund_checked(request: Request, client: stripe.StripeClient, desk: Desk, intents: Intents, hooks: Hooks) -> Answer:
    """Tiers 1 and 2. The same code: the client sends the key to the service that dedupes on it."""
    key = f"refund-{request.order}-{request.approval}"
    refunds = refunds_of(client, request.payment)
    if own := [refund for refund in refunds if is_own(refund, key)]:
        intents.finish(key)
        return Answer(status="FOUND" if own[0].amount == request.amount else "STOPPED:other_amount", refund=own[0].id)
    if not desk.may_refund():
        return Answer(status="STOPPED:permission")
    if not desk.is_eligible():
        return Answer(status="STOPPED:not_eligible")
    if total_in_the_way(refunds, request) != request.refunded_when_decided:
        return Answer(status="STOPPED:refunded_meanwhile")
    intents.begin(key, request.amount)
    refund = send(client, request, key, hooks)
    intents.finish(key)
    return Answer(status="SENT", refund=refund.id)


def refund_blind(request: Request, client: stripe.StripeClient, desk: Desk, intents: Intents, hooks: Hooks) -> Answer:
    """Tier 3. Nothing can be looked up, so whoever finds the refund begun and not finished asks a person."""
    key = f"refund-{request.order}-{request.approval}"
    if intent := intents.get(key):
        if intent.amount != request.amount:
            return Answer(status="STOPPED:other_amount")
        return Answer(status="FOUND" if intent.is_finished else "ASK_A_PERSON")
    if not desk.may_refund():
        return Answer(status="STOPPED:permission")
    if not desk.is_eligible():
        return Answer(status="STOPPED:not_eligible")
    if not intents.begin(key, request.amount):
        return Answer(status="ASK_A_PERSON")
    refund = send(client, request, key, hooks)
    intents.finish(key)
    return Answer(status="SENT", refund=refund.id)


class HandCheck:
    """A worker that carries the hand check out, and a queue that hands its job out again when it fails unclearly."""

    def __init__(self, place: Place) -> None:
        self._client = connect(place.door, sends_key=place.sends_key, timeout_s=place.timeout_s)
        self._desk = place.desk
        self._intents = Intents(place.directory)
        self._check = refund_blind if place.tier == 3 else refund_checked

    def run(self, request: Request, hooks: Hooks) -> Answer:
        """Check and send."""
        hooks.after_decision()
        return redeliver(lambda again: self._checked(request, hooks))

    def recover(self, request: Request) -> Answer:
        """Check and send: the same code, which is the point of looking first."""
        return self.run(request, Hooks())

    def redecide(self, request: Request) -> Answer:
        """Check and send what the model says now."""
        return self.run(request, Hooks())

    def close(self) -> None:
        """Close the record of what was begun."""
        self._intents.close()

    def _checked(self, request: Request, hooks: Hooks) -> Answer:
        try:
            return self._check(request, self._client, self._desk, self._intents, hooks)
        except stripe.CardError:
            return Answer(status="DECLINED")
