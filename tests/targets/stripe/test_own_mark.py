"""Our own mark at Stripe, where the journal knows nothing of it, or knows of another amount: never a second send."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import stripe

from benchmarks.services.stripe import LocalStripe
from interlock import Interlock, Outcome
from interlock.targets.stripe import StripeRefund, stripe_customer_balance, stripe_payment_intent, stripe_refund
from interlock.testing import SimulatedCrash
from tests.targets.stripe.conftest import Case, Later, by_order, pay


def declared(gate: Interlock, client: stripe.StripeClient, **options: Any) -> StripeRefund[Outcome]:
    return stripe_refund(gate, client, key=by_order, settle_after=0, **options)


def posts(service: LocalStripe) -> int:
    return sum(entry["method"] == "POST" for entry in service.ledger()["requests"])


@pytest.mark.parametrize("is_forgotten", [True, False], ids=["key forgotten", "key remembered"])
def test_a_lost_journal_sends_no_second_refund(
    tmp_path: Path, client: stripe.StripeClient, service: LocalStripe, case: Case, is_forgotten: bool
) -> None:
    """A new journal finds the refund by its mark, whatever became of the key: it has landed, and nothing is sent."""
    with Interlock(tmp_path / "lost") as gate:
        first = declared(gate, client)(case, amount=2000)
    if is_forgotten:
        service.forget_keys()
    before = posts(service)
    with Interlock(tmp_path / "new") as gate:
        refund = declared(gate, client)
        outcome = refund(case, amount=2000)
        assert str(outcome) == "COMMITTED_ON_QUERY", outcome.for_person
        assert outcome.value.id == first.value.id
        assert outcome.receipt().verify().ok
        assert str(refund(case, amount=2000)) == "DUPLICATE_IGNORED"
    assert posts(service) == before
    assert service.refunded(case.payment_intent) == (2000, 1)


async def test_a_lost_journal_of_an_asynchronous_effect(
    tmp_path: Path, service: LocalStripe, client: stripe.StripeClient, case: Case
) -> None:
    """The same where calls are awaited."""
    with Interlock(tmp_path / "lost") as gate:
        declared(gate, client)(case, amount=2000)
    service.forget_keys()
    own: Any = stripe.StripeClient(
        "sk_test_local", base_addresses={"api": service.url}, http_client=stripe.HTTPXClient(timeout=5)
    )
    with Interlock(tmp_path / "new") as gate:
        outcome = await stripe_refund(gate, own, key=by_order, asynchronous=True)(case, amount=2000)
    assert str(outcome) == "COMMITTED_ON_QUERY"
    assert service.refunded(case.payment_intent) == (2000, 1)


@pytest.mark.parametrize("is_forgotten", [True, False], ids=["key forgotten", "key remembered"])
def test_another_amount_under_our_mark_is_a_conflict(
    tmp_path: Path, client: stripe.StripeClient, service: LocalStripe, case: Case, is_forgotten: bool
) -> None:
    """$20 went out under this key and the journal is lost: $15 under the same key is neither sent nor said to be done."""
    with Interlock(tmp_path / "lost") as gate:
        first = declared(gate, client)(case, amount=2000)
    if is_forgotten:
        service.forget_keys()
    before = posts(service)
    with Interlock(tmp_path / "new") as gate:
        refund = declared(gate, client)
        for _ in range(2):
            outcome = refund(case, amount=1500)
            assert str(outcome) == "REFUSED:conflicting_payload"
            assert f"{first.value.id} of 20.00 USD" in outcome.for_person
            assert "15.00 USD was asked for" in outcome.for_person
        assert outcome.history is not None
        assert len(outcome.history.entries) == 2, "asking again writes nothing again"
    assert posts(service) == before
    assert service.refunded(case.payment_intent) == (2000, 1)


def test_another_amount_found_after_a_crash_is_for_a_person(
    open_gate: Any, client: stripe.StripeClient, service: LocalStripe, case: Case
) -> None:
    """A look-up that finds our mark on another amount does not settle ours: AMBIGUOUS, with both amounts in the sentence."""
    gate = open_gate()
    refund = declared(gate, client)
    proposal = refund.proposal(case, amount=1500)
    with pytest.raises(SimulatedCrash):
        gate.submit(proposal, crash_before_effect=True)
    mark = {"interlock_effect_id": proposal.effect_id}
    made = client.v1.refunds.create({"payment_intent": case.payment_intent, "amount": 2000, "metadata": mark})
    gate = open_gate(Later(timedelta(hours=25)))
    declared(gate, client)
    (outcome,) = gate.recover()
    assert str(outcome) == "AMBIGUOUS"
    assert f"{made.id} of 20.00 USD" in outcome.for_person
    assert "15.00 USD was asked for" in outcome.for_person
    assert service.refunded(case.payment_intent) == (2000, 1)


def test_the_right_amount_among_several_of_our_mark_is_ours(
    tmp_path: Path, client: stripe.StripeClient, service: LocalStripe, case: Case
) -> None:
    """Where Stripe has the mark on two amounts, the one that is asked for is the one that was done."""
    with Interlock(tmp_path / "lost") as gate:
        first = declared(gate, client)(case, amount=2000)
    mark = {"interlock_effect_id": first.effect_id}
    client.v1.refunds.create({"payment_intent": case.payment_intent, "amount": 700, "metadata": mark})
    with Interlock(tmp_path / "new") as gate:
        outcome = declared(gate, client)(case, amount=2000)
    assert str(outcome) == "COMMITTED_ON_QUERY"
    assert outcome.value.id == first.value.id


def test_a_lost_journal_credits_no_second_time(tmp_path: Path, client: stripe.StripeClient) -> None:
    """The same for a move: what was credited within a day is found by its mark, and another amount is a conflict."""
    customer = client.v1.customers.create({}).id

    def credit(gate: Interlock) -> Any:
        return stripe_customer_balance(gate, client, key=lambda case: f"credit:{case.customer}", currency="usd")

    case = {"customer": customer}
    with Interlock(tmp_path / "lost") as gate:
        assert str(credit(gate)(case, amount=-500)) == "COMMITTED"
    with Interlock(tmp_path / "new") as gate:
        assert str(credit(gate)(case, amount=-500)) == "COMMITTED_ON_QUERY"
    with Interlock(tmp_path / "another") as gate:
        assert str(credit(gate)(case, amount=-700)) == "REFUSED:conflicting_payload"
    assert len(client.v1.customers.balance_transactions.list(customer).data) == 1


def test_a_lost_journal_captures_no_other_amount(tmp_path: Path, client: stripe.StripeClient) -> None:
    """A capture of our own that took another amount is a conflict; one that took this amount is done."""
    payment = pay(client, 5000, capture_method="manual").id
    case = Case(payment[-6:], payment)

    def capture(gate: Interlock) -> Any:
        return stripe_payment_intent(gate, client, key=by_order, action="capture")

    with Interlock(tmp_path / "lost") as gate:
        assert str(capture(gate)(case, amount=2000)) == "COMMITTED"
    with Interlock(tmp_path / "new") as gate:
        assert str(capture(gate)(case, amount=2000)) == "COMMITTED_ON_QUERY"
    with Interlock(tmp_path / "another") as gate:
        outcome = capture(gate)(case, amount=1500)
    assert str(outcome) == "REFUSED:conflicting_payload", outcome.for_person
