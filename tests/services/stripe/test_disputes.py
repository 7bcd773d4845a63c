"""Disputes and inquiries: what they take, what they forbid, how they end, and what they do to refunds."""

from __future__ import annotations

from typing import Any

import pytest
import stripe

from benchmarks.services.stripe import LocalStripe, ServiceError


def refund(client: stripe.StripeClient, payment: stripe.PaymentIntent, amount: int = 2000) -> stripe.Refund:
    return client.v1.refunds.create({"payment_intent": payment.id, "amount": amount})


def dispute_of(client: stripe.StripeClient, payment: stripe.PaymentIntent) -> stripe.Dispute:
    return client.v1.disputes.list({"payment_intent": payment.id}).data[0]


def types_since(service: LocalStripe, before: int) -> list[str]:
    return [event["type"] for event in service.events()[before:]]


def evidence(word: str) -> Any:
    return {"evidence": {"uncategorized_text": word}}


def test_a_disputed_payment_is_withdrawn_and_not_refundable(
    service: LocalStripe, client: stripe.StripeClient, pay: Any
) -> None:
    """`pm_card_createDispute`: the money and a fee leave, and a refund is refused as charged back, to the key as well."""
    payment = pay("pm_card_createDispute")
    dispute = dispute_of(client, payment)
    assert (dispute.status, dispute.reason, dispute.amount) == ("needs_response", "fraudulent", 10_000)
    assert not dispute.is_charge_refundable
    assert [(one.amount, one.fee, one.net) for one in dispute.balance_transactions] == [(-10_000, 1500, -11_500)]
    charge = client.v1.charges.retrieve(str(payment.latest_charge))
    assert (charge.disputed, charge.refunded, charge.amount_refunded) == (True, False, 0)
    for _ in range(2):
        with pytest.raises(stripe.InvalidRequestError, match="has been charged back; cannot issue a refund") as caught:
            client.v1.refunds.create({"payment_intent": payment.id}, {"idempotency_key": f"back-{payment.id}"})
        assert (caught.value.http_status, caught.value.code) == (400, "charge_disputed")
    assert types_since(service, 0)[-2:] == ["charge.dispute.created", "charge.dispute.funds_withdrawn"]
    assert service.refunded(payment.id) == (0, 0)


def test_an_inquiry_takes_nothing_and_can_be_escalated(
    service: LocalStripe, client: stripe.StripeClient, pay: Any
) -> None:
    """`pm_card_createDisputeInquiry`: refundable until it becomes a chargeback."""
    payment = pay("pm_card_createDisputeInquiry")
    inquiry = dispute_of(client, payment)
    assert (inquiry.status, inquiry.is_charge_refundable, inquiry.balance_transactions) == (
        "warning_needs_response",
        True,
        [],
    )
    assert inquiry.payment_method_details is not None
    assert inquiry.payment_method_details.card is not None
    assert inquiry.payment_method_details.card.case_type == "inquiry"
    refund(client, payment)
    before = len(service.events())
    told = service.escalate(inquiry.id)
    assert (told["status"], told["is_charge_refundable"]) == ("needs_response", False)
    assert types_since(service, before) == ["charge.dispute.updated", "charge.dispute.funds_withdrawn"]
    with pytest.raises(stripe.InvalidRequestError) as caught:
        refund(client, payment)
    assert caught.value.code == "charge_disputed"
    with pytest.raises(ServiceError, match="only an open inquiry"):
        service.escalate(inquiry.id)


def test_a_chargeback_minutes_after_a_refund_that_stands(
    service: LocalStripe, client: stripe.StripeClient, pay: Any
) -> None:
    """$20 refunded and $100 charged back: $120 out on $100, and the refund stays succeeded."""
    payment = pay()
    made = refund(client, payment)
    service.advance(300)
    dispute = service.dispute(str(payment.latest_charge))
    assert client.v1.refunds.retrieve(made.id).status == "succeeded"
    out = [
        entry.amount
        for source in (made.id, dispute)
        for entry in client.v1.balance_transactions.list({"source": source}).data
    ]
    assert sorted(out) == [-10_000, -2000]
    assert client.v1.disputes.retrieve(dispute).created - made.created >= 300


def test_a_refund_under_way_fails_when_a_chargeback_posts(
    service: LocalStripe, client: stripe.StripeClient, pay: Any
) -> None:
    """A pending refund fails with the reason that says so, by a chargeback, by an escalation, or by the test evidence."""
    for way in ("dispute", "escalate", "evidence"):
        payment = pay("pm_card_pendingRefund")
        charge = str(payment.latest_charge)
        inquiry = None if way == "dispute" else service.dispute(charge, inquiry=True)
        made = refund(client, payment)
        before = len(service.events())
        if inquiry is None:
            service.dispute(charge)
        elif way == "escalate":
            service.escalate(inquiry)
        else:
            client.v1.disputes.update(inquiry, evidence("escalate_inquiry_evidence"))
        failed = client.v1.refunds.retrieve(made.id)
        assert (failed.status, failed.failure_reason) == ("failed", "charge_for_pending_refund_disputed")
        assert types_since(service, before)[-1] == "refund.failed"
        assert service.refunded(payment.id) == (0, 0)


def test_a_refund_that_had_succeeded_can_fail_by_a_chargeback(
    service: LocalStripe, client: stripe.StripeClient, pay: Any
) -> None:
    """Asked for, refunds that the bank had not booked yet fail too, even one in full."""
    payment = pay()
    made = refund(client, payment, 10_000)
    with pytest.raises(ServiceError, match="refunded in full"):
        service.dispute(str(payment.latest_charge))
    service.dispute(str(payment.latest_charge), fails_refunds=True)
    assert client.v1.refunds.retrieve(made.id).status == "failed"
    assert client.v1.charges.retrieve(str(payment.latest_charge)).amount_refunded == 0


@pytest.mark.parametrize(
    ("word", "inquiry", "status", "closing"),
    [
        ("winning_evidence", False, "won", ["charge.dispute.funds_reinstated", "charge.dispute.closed"]),
        ("losing_evidence", False, "lost", ["charge.dispute.closed"]),
        ("here is the receipt", False, "under_review", []),
        ("here is the receipt", True, "warning_under_review", []),
        ("losing_evidence", True, "warning_closed", ["charge.dispute.closed"]),
    ],
)
def test_evidence_is_submitted_and_decides(
    service: LocalStripe,
    client: stripe.StripeClient,
    pay: Any,
    word: str,
    inquiry: bool,
    status: str,
    closing: list[str],
) -> None:
    """Submitted evidence goes under review; the testing page's words decide at once, and won money comes back."""
    payment = pay()
    dispute = service.dispute(str(payment.latest_charge), inquiry=inquiry)
    before = len(service.events())
    told = client.v1.disputes.update(dispute, evidence(word))
    assert (told.status, told.evidence_details.submission_count, told.evidence_details.has_evidence) == (
        status,
        1,
        True,
    )
    assert types_since(service, before) == ["charge.dispute.updated", *closing]
    net = sum(one.net for one in told.balance_transactions)
    assert net == {"won": 0, "lost": -11_500, "under_review": -11_500}.get(status, 0)
    with pytest.raises(stripe.InvalidRequestError, match="can no longer be submitted"):
        client.v1.disputes.update(dispute, evidence("more"))


def test_evidence_can_be_staged_and_a_dispute_closed(
    service: LocalStripe, client: stripe.StripeClient, pay: Any
) -> None:
    """`submit=false` stages; `close` accepts the loss; a file or an unknown field is refused."""
    dispute = service.dispute(str(pay().latest_charge), "product_not_received")
    asked: Any = {"evidence": {"customer_name": "Jenny"}, "metadata": {"case": "7"}, "submit": False}
    staged = client.v1.disputes.update(dispute, asked)
    assert (staged.status, staged.evidence.customer_name, staged.metadata["case"]) == ("needs_response", "Jenny", "7")
    assert (staged.evidence_details.submission_count, staged.reason) == (0, "product_not_received")
    for wrong in ({"evidence": {"receipt": "file_1"}}, {"evidence": {"mood": "bad"}}, {"status": "won"}):
        refused: Any = wrong
        with pytest.raises(stripe.InvalidRequestError):
            client.v1.disputes.update(dispute, refused)
    assert client.v1.disputes.close(dispute).status == "lost"
    with pytest.raises(stripe.InvalidRequestError, match="This dispute is lost"):
        client.v1.disputes.close(dispute)


def test_outcomes_fit_what_they_close(service: LocalStripe, client: stripe.StripeClient, pay: Any) -> None:
    """A chargeback is won or lost, an inquiry closed; after that the inquiry leaves the charge refundable."""
    payment = pay()
    inquiry = service.dispute(str(payment.latest_charge), inquiry=True)
    for outcome in ("won", "lost", "settled"):
        with pytest.raises(ServiceError, match="cannot be closed"):
            service.close_dispute(inquiry, outcome)
    with pytest.raises(ServiceError, match="has an open dispute"):
        service.dispute(str(payment.latest_charge))
    assert service.close_dispute(inquiry, "warning_closed")["status"] == "warning_closed"
    assert refund(client, payment).status == "succeeded"
    chargeback = service.dispute(str(payment.latest_charge), amount=8000)
    assert client.v1.disputes.retrieve(chargeback).amount == 8000
    with pytest.raises(ServiceError, match="cannot be closed"):
        service.close_dispute(chargeback, "warning_closed")
    assert service.close_dispute(chargeback, "won")["status"] == "won"
    assert [one.id for one in client.v1.disputes.list({"charge": str(payment.latest_charge)}).data] == [
        chargeback,
        inquiry,
    ]


def test_nobody_answers(service: LocalStripe, client: stripe.StripeClient, pay: Any) -> None:
    """A chargeback without an answer by its date is lost, an inquiry closes after 120 days; one that was answered waits."""
    day_s = 24 * 60 * 60
    inquiry = service.dispute(str(pay().latest_charge), inquiry=True)
    late = service.dispute(str(pay().latest_charge))
    answered = service.dispute(str(pay().latest_charge))
    client.v1.disputes.update(answered, evidence("here is the receipt"))
    service.advance(9 * day_s + 1)
    lost = client.v1.disputes.retrieve(late)
    assert (lost.status, lost.evidence_details.past_due) == ("lost", True)
    assert service.events()[-1]["type"] == "charge.dispute.closed"
    service.advance(111 * day_s)
    assert client.v1.disputes.retrieve(inquiry).status == "warning_closed"
    assert client.v1.disputes.retrieve(answered).status == "under_review"


def test_wrong_disputes_are_refused(service: LocalStripe, client: stripe.StripeClient, pay: Any) -> None:
    """No charge, no money taken, an unknown reason or amount: refused, and nothing changes."""
    held = pay(capture_method="manual")
    paid = str(pay().latest_charge)
    before = service.ledger()["disputes"]
    for charge, asked in (
        ("ch_unknown", {}),
        (str(held.latest_charge), {}),
        (paid, {"reason": "mood"}),
        (paid, {"amount": 10_001}),
        (paid, {"amount": 0}),
    ):
        with pytest.raises(ServiceError, match="refused"):
            service.dispute(charge, **asked)
    assert service.ledger()["disputes"] == before
    with pytest.raises(stripe.InvalidRequestError) as caught:
        client.v1.disputes.retrieve("du_unknown")
    assert caught.value.code == "resource_missing"


def test_an_issuer_reports_fraud_before_any_dispute(client: stripe.StripeClient, pay: Any) -> None:
    """`pm_card_createIssuerFraudRecord`: a warning that is actionable until the charge is refunded."""
    payment = pay("pm_card_createIssuerFraudRecord")
    listed: Any = {"payment_intent": payment.id}
    warning = client.v1.radar.early_fraud_warnings.list(listed).data[0]
    assert (warning.actionable, warning.charge) == (True, payment.latest_charge)
    assert client.v1.events.list({"type": "radar.early_fraud_warning.created"}).data
    client.v1.refunds.create({"payment_intent": payment.id})
    assert not client.v1.radar.early_fraud_warnings.retrieve(warning.id).actionable


def test_disputes_survive_a_kill(own: LocalStripe, pay: Any) -> None:
    """What was disputed before a SIGKILL is disputed after it, with its events and its money."""
    client = own.client()
    payment = pay(by=client)
    dispute = own.dispute(str(payment.latest_charge))
    before = own.ledger()
    own.kill()
    own.start()
    assert own.ledger() == before
    assert client.v1.disputes.retrieve(dispute).status == "needs_response"
    with pytest.raises(stripe.InvalidRequestError) as caught:
        refund(client, payment)
    assert caught.value.code == "charge_disputed"
