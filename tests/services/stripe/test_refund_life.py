"""What becomes of a refund after it was answered: it waits, settles, fails, or is canceled, and the books follow."""

from __future__ import annotations

from typing import Any

import pytest
import stripe

from benchmarks.services.stripe import LocalStripe, ServiceError


def refund(client: stripe.StripeClient, payment: stripe.PaymentIntent, amount: int = 2000) -> stripe.Refund:
    return client.v1.refunds.create({"payment_intent": payment.id, "amount": amount})


def charge_of(client: stripe.StripeClient, payment: stripe.PaymentIntent) -> stripe.Charge:
    return client.v1.charges.retrieve(str(payment.latest_charge))


def types_since(service: LocalStripe, before: int) -> list[str]:
    return [event["type"] for event in service.events()[before:]]


def net_of(client: stripe.StripeClient, source: str) -> list[tuple[str, int]]:
    listed = client.v1.balance_transactions.list({"source": source})
    return [(entry.type, entry.net) for entry in reversed(listed.data)]


def test_a_pending_refund_succeeds_some_time_later(service: LocalStripe, client: stripe.StripeClient, pay: Any) -> None:
    """`pm_card_pendingRefund`: pending with a reason when answered, succeeded later with `refund.updated`."""
    payment = pay("pm_card_pendingRefund")
    made = refund(client, payment)
    assert (made.status, made.pending_reason) == ("pending", "processing")
    assert charge_of(client, payment).amount_refunded == 2000
    before = len(service.events())
    service.advance(29)
    assert client.v1.refunds.retrieve(made.id).status == "pending"
    service.advance(2)
    later = client.v1.refunds.retrieve(made.id)
    assert (later.status, "pending_reason" in later.to_dict()) == ("succeeded", False)
    assert types_since(service, before) == ["refund.updated", "charge.refund.updated"]
    assert service.events()[-1]["request"] == {"id": None, "idempotency_key": None}


def test_a_refund_that_succeeded_fails_later(service: LocalStripe, client: stripe.StripeClient, pay: Any) -> None:
    """`pm_card_refundFail`: succeeded when answered, failed later with `refund.failed`; the money is in the balance again."""
    payment = pay("pm_card_refundFail")
    made = refund(client, payment)
    assert made.status == "succeeded"
    before = len(service.events())
    service.advance(31)
    later = client.v1.refunds.retrieve(made.id, {"expand": ["failure_balance_transaction"]})
    assert (later.status, later.failure_reason) == ("failed", "unknown")
    assert not isinstance(later.failure_balance_transaction, str | None)
    assert (later.failure_balance_transaction.type, later.failure_balance_transaction.net) == ("refund_failure", 2000)
    assert types_since(service, before) == ["refund.updated", "charge.refund.updated", "refund.failed"]
    assert net_of(client, made.id) == [("refund", -2000), ("refund_failure", 2000)]
    charge = charge_of(client, payment)
    assert (charge.amount_refunded, charge.refunded) == (0, False)
    assert service.refunded(payment.id) == (0, 0)


def test_a_failed_refund_can_be_made_again_and_no_more(
    client: stripe.StripeClient, service: LocalStripe, pay: Any
) -> None:
    """The refunds that stand never exceed the charge, and failed ones do not stand."""
    payment = pay()
    first = refund(client, payment, 10_000)
    assert charge_of(client, payment).refunded
    service.settle_refund(first.id, "failed", failure_reason="expired_or_canceled_card")
    assert client.v1.refunds.retrieve(first.id).failure_reason == "expired_or_canceled_card"
    refund(client, payment, 10_000)
    with pytest.raises(stripe.InvalidRequestError) as caught:
        refund(client, payment, 1)
    assert caught.value.code == "charge_already_refunded"
    assert service.refunded(payment.id) == (10_000, 1)


def test_a_refund_is_canceled_only_while_it_needs_an_action(
    service: LocalStripe, client: stripe.StripeClient, pay: Any
) -> None:
    """Cancel is refused in every other state, and gives the money back in this one."""
    payment = pay()
    made = refund(client, payment)
    with pytest.raises(stripe.InvalidRequestError, match="requires_action"):
        client.v1.refunds.cancel(made.id)
    service.settle_refund(made.id, "requires_action")
    assert client.v1.refunds.retrieve(made.id).next_action is not None
    canceled = client.v1.refunds.cancel(made.id)
    assert (canceled.status, "next_action" in canceled.to_dict()) == ("canceled", False)
    assert service.refunded(payment.id) == (0, 0)
    with pytest.raises(stripe.InvalidRequestError, match="its status is canceled"):
        client.v1.refunds.cancel(made.id)


def test_settling_follows_the_states(service: LocalStripe, client: stripe.StripeClient, pay: Any) -> None:
    """What has failed stays failed, an unknown word is refused, and a refusal changes nothing."""
    made = refund(client, pay())
    service.settle_refund(made.id, "pending", pending_reason="insufficient_funds")
    assert client.v1.refunds.retrieve(made.id).pending_reason == "insufficient_funds"
    service.settle_refund(made.id, "failed", failure_reason="declined")
    events = len(service.events())
    for refund_id, status, reason in (
        (made.id, "succeeded", None),
        (made.id, "failed", None),
        ("re_unknown", "failed", None),
        (refund(client, pay()).id, "lost", None),
        (refund(client, pay()).id, "failed", "because"),
    ):
        before = [one for one in service.ledger()["refunds"] if one["id"] == refund_id]
        with pytest.raises(ServiceError, match="refused"):
            service.settle_refund(refund_id, status, failure_reason=reason)
        assert [one for one in service.ledger()["refunds"] if one["id"] == refund_id] == before
    assert [event["type"] for event in service.events()[events:] if event["type"].startswith("refund.")] == [
        "refund.created"
    ] * 2


def test_a_verb_overtakes_what_a_test_card_had_in_store(
    service: LocalStripe, client: stripe.StripeClient, pay: Any
) -> None:
    """A refund that was settled by hand is not settled again when its time comes."""
    made = refund(client, pay("pm_card_pendingRefund"))
    service.settle_refund(made.id, "failed", failure_reason="lost_or_stolen_card")
    service.advance(60)
    assert client.v1.refunds.retrieve(made.id).failure_reason == "lost_or_stolen_card"


def test_what_is_in_store_survives_a_kill(own: LocalStripe, pay: Any) -> None:
    """A refund that is to succeed later does so also when the service was killed meanwhile."""
    client = own.client()
    made = refund(client, pay("pm_card_pendingRefund", by=client))
    own.kill()
    own.start()
    assert client.v1.refunds.retrieve(made.id).status == "pending"
    own.advance(31)
    assert client.v1.refunds.retrieve(made.id).status == "succeeded"


def test_a_pending_refund_replayed_under_its_key_is_the_first_answer(
    service: LocalStripe, client: stripe.StripeClient, pay: Any
) -> None:
    """The remembered answer says what was true then; only a re-read says what became of it."""
    payment = pay("pm_card_pendingRefund")
    asked: Any = {"payment_intent": payment.id, "amount": 2000}
    first = client.v1.refunds.create(asked, {"idempotency_key": f"life-{payment.id}"})
    service.settle_refund(first.id, "succeeded")
    again = client.v1.refunds.create(asked, {"idempotency_key": f"life-{payment.id}"})
    assert (again.id, again.status) == (first.id, "pending")
    assert client.v1.refunds.retrieve(first.id).status == "succeeded"
