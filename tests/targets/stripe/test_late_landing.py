"""A request that Stripe carries out after its sender is gone: found in time, or, later than any should be, before a second is sent."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import stripe

from benchmarks.services.stripe import LocalStripe
from interlock import Interlock, Outcome
from interlock.targets.stripe import Approval, StripeRefund, stripe_refund
from tests.targets.stripe.conftest import Case, by_order

GIVEN, REVOKED = Approval(id="late", by="ann"), Approval(id="late", by="ann", revoked=True)


def declared(
    gate: Interlock, client: stripe.StripeClient, approval: list[Approval], **options: Any
) -> StripeRefund[Outcome]:
    return stripe_refund(gate, client, key=by_order, approval=lambda case: approval[0], **options)


SENDER = """
import sys
from benchmarks.services.stripe import LocalStripe
from interlock import Interlock
from interlock.targets.stripe import stripe_refund
directory, url, order, payment = sys.argv[1:]
refund = stripe_refund(Interlock(directory), LocalStripe.attach(url).client(), key=lambda case: f"refund:{case['order']}")
refund({"order": order, "payment_intent": payment}, amount=2000)
"""


def killed_while_stripe_works(directory: Path, service: LocalStripe, case: Case, *, lands_after_s: float) -> None:
    """A process sends the refund and is killed; Stripe carries it out so much later than it came."""
    service.fault(method="POST", path="/v1/refunds", kind="delay_before", delay_s=lands_after_s)
    told = [str(directory), service.url, case.order, case.payment_intent]
    sender = subprocess.Popen([sys.executable, "-c", SENDER, *told])
    with Interlock(directory) as gate:
        while not gate.journal.open_effects():
            time.sleep(0.02)
    time.sleep(0.3)
    sender.kill()
    sender.wait()
    assert service.refunded(case.payment_intent) == (0, 0), "it is to land later"


@pytest.mark.parametrize("is_allowed", [True, False], ids=["still approved", "approval taken back"])
def test_one_that_lands_within_settle_after_is_found(
    tmp_path: Path, client: stripe.StripeClient, service: LocalStripe, case: Case, is_allowed: bool
) -> None:
    """An absence is not believed before `settle_after`: what lands within it counts, once, even if it is not allowed any more."""
    killed_while_stripe_works(tmp_path, service, case, lands_after_s=2.0)
    with Interlock(tmp_path) as gate:
        declared(gate, client, [GIVEN if is_allowed else REVOKED], settle_after=4, wait=10)
        (outcome,) = gate.recover(wait=10)
    assert outcome.ok, outcome.for_person
    assert service.refunded(case.payment_intent) == (2000, 1)


def test_one_that_lands_after_it_was_refused_is_not_sent_again(
    tmp_path: Path, client: stripe.StripeClient, service: LocalStripe, case: Case
) -> None:
    """Later than `settle_after` it is called refused first; asked again under a new approval, it is found."""
    killed_while_stripe_works(tmp_path, service, case, lands_after_s=3.0)
    approval = [REVOKED]
    with Interlock(tmp_path) as gate:
        refund = declared(gate, client, approval, settle_after=0.1)
        (outcome,) = gate.recover()
        assert str(outcome) == "REFUSED:lease_at_recovery"
        assert service.refunded(case.payment_intent) == (0, 0)
        time.sleep(3.0)
        approval[0] = Approval(id="late, again", by="ann")
        assert str(refund(case, amount=2000)) == "COMMITTED_ON_QUERY"
    assert service.refunded(case.payment_intent) == (2000, 1)


def test_one_that_lands_after_it_failed_as_absent_is_not_sent_again(
    gate: Interlock, service: LocalStripe, case: Case
) -> None:
    """No answer, an error at the resend, absent when it was looked up: it failed. The next try finds what has landed since."""
    own = stripe.StripeClient("sk_test_local", base_addresses={"api": service.url})
    service.fault(method="POST", path="/v1/refunds", kind="delay_before", delay_s=2.5)
    service.fault(method="POST", path="/v1/refunds", kind="bad_gateway")
    refund = declared(gate, own, [GIVEN], timeout=1, settle_after=0.1)
    outcome = refund(case, amount=2000)
    assert str(outcome) == "FAILED:absent", outcome.for_person
    time.sleep(2.5)
    assert service.refunded(case.payment_intent) == (2000, 1)
    again = refund(case, amount=2000)
    assert str(again) == "COMMITTED_ON_QUERY", again.for_person
    assert service.refunded(case.payment_intent) == (2000, 1)
