"""Payment intents and charges: held and captured, canceled, declined, in currencies of every kind."""

from __future__ import annotations

from typing import Any

import pytest
import stripe

from benchmarks.services.stripe import LocalStripe
from benchmarks.services.stripe.currencies import check_amount, money
from benchmarks.services.stripe.errors import ApiError


def types_since(service: LocalStripe, before: int) -> list[str]:
    return [event["type"] for event in service.events()[before:]]


def test_a_held_payment_is_captured_in_part(service: LocalStripe, client: stripe.StripeClient, pay: Any) -> None:
    """Manual capture holds first; a part can be taken, and no more than that can be refunded."""
    before = len(service.events())
    held = pay(capture_method="manual")
    assert (held.status, held.amount_capturable, held.amount_received) == ("requires_capture", 10_000, 0)
    charge = client.v1.charges.retrieve(str(held.latest_charge))
    assert (charge.captured, charge.paid, charge.amount_captured, charge.balance_transaction) == (False, True, 0, None)
    with pytest.raises(stripe.InvalidRequestError) as caught:
        client.v1.refunds.create({"payment_intent": held.id})
    assert caught.value.code == "payment_intent_unexpected_state"
    with pytest.raises(stripe.InvalidRequestError, match="greater than the amount you can capture") as caught:
        client.v1.payment_intents.capture(held.id, {"amount_to_capture": 10_001})
    assert caught.value.code == "amount_too_large"
    taken = client.v1.payment_intents.capture(held.id, {"amount_to_capture": 4000, "metadata": {"order": "7"}})
    assert (taken.status, taken.amount, taken.amount_received, taken.amount_capturable) == (
        "succeeded",
        10_000,
        4000,
        0,
    )
    charge = client.v1.charges.retrieve(str(held.latest_charge), {"expand": ["balance_transaction"]})
    assert not isinstance(charge.balance_transaction, str | None)
    assert (charge.captured, charge.amount_captured, charge.balance_transaction.amount) == (True, 4000, 4000)
    with pytest.raises(stripe.InvalidRequestError, match="unrefunded amount on charge"):
        client.v1.refunds.create({"payment_intent": held.id, "amount": 4001})
    client.v1.refunds.create({"payment_intent": held.id})
    assert client.v1.charges.retrieve(charge.id).refunded
    assert types_since(service, before) == [
        "payment_intent.created",
        "charge.succeeded",
        "payment_intent.amount_capturable_updated",
        "charge.captured",
        "payment_intent.succeeded",
        "refund.created",
        "charge.refunded",
    ]
    with pytest.raises(stripe.InvalidRequestError, match="could not be captured because it has a status of succeeded"):
        client.v1.payment_intents.capture(held.id)
    with pytest.raises(stripe.InvalidRequestError) as caught:
        client.v1.charges.capture(charge.id)
    assert caught.value.code == "charge_already_captured"


def test_a_charge_is_captured_as_its_payment_is(client: stripe.StripeClient, pay: Any) -> None:
    """Capturing the charge captures the payment intent."""
    held = pay(capture_method="manual")
    assert client.v1.charges.capture(str(held.latest_charge), {"amount": 500}).amount_captured == 500
    assert client.v1.payment_intents.retrieve(held.id).amount_received == 500


def test_a_payment_is_canceled_until_it_succeeded(service: LocalStripe, client: stripe.StripeClient, pay: Any) -> None:
    """Cancel releases what was held; afterwards, and after success, the refusal carries the payment and its state."""
    for made in (
        client.v1.payment_intents.create({"amount": 500, "currency": "usd"}),
        pay(capture_method="manual"),
    ):
        canceled = client.v1.payment_intents.cancel(made.id, {"cancellation_reason": "abandoned"})
        assert (canceled.status, canceled.cancellation_reason, canceled.amount_capturable) == (
            "canceled",
            "abandoned",
            0,
        )
        assert canceled.canceled_at is not None
        assert service.events()[-1]["type"] == "payment_intent.canceled"
        for deed in (
            client.v1.payment_intents.confirm,
            client.v1.payment_intents.capture,
            client.v1.payment_intents.cancel,
        ):
            with pytest.raises(stripe.InvalidRequestError, match="status of canceled") as caught:
                deed(made.id)
            assert caught.value.code == "payment_intent_unexpected_state"
            body: Any = caught.value.json_body
            assert body["error"]["payment_intent"]["status"] == "canceled"
    paid = pay()
    with pytest.raises(
        stripe.InvalidRequestError, match="cannot cancel this PaymentIntent because it has a status of suc"
    ):
        client.v1.payment_intents.cancel(paid.id)
    with pytest.raises(stripe.InvalidRequestError, match="must be one of"):
        client.v1.payment_intents.cancel(paid.id, {"cancellation_reason": "mood"})


def test_a_hold_expires(service: LocalStripe, client: stripe.StripeClient, pay: Any) -> None:
    """What nobody captures within seven days is released and canceled; what was captured is left alone."""
    held, taken = pay(capture_method="manual"), pay(capture_method="manual")
    client.v1.payment_intents.capture(taken.id)
    before = len(service.events())
    service.advance(7 * 24 * 60 * 60 + 1)
    expired = client.v1.payment_intents.retrieve(held.id)
    assert (expired.status, expired.cancellation_reason) == ("canceled", "automatic")
    assert client.v1.payment_intents.retrieve(taken.id).status == "succeeded"
    assert types_since(service, before) == ["charge.expired", "payment_intent.canceled"]


def test_a_payment_is_changed_before_it_is_confirmed(client: stripe.StripeClient) -> None:
    """Amount and card can change until then; metadata and description always."""
    made = client.v1.payment_intents.create(
        {"amount": 500, "currency": "usd", "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"}}
    )
    changed = client.v1.payment_intents.update(made.id, {"amount": 700, "payment_method": "pm_card_visa"})
    assert (changed.amount, changed.status) == (700, "requires_confirmation")
    with pytest.raises(stripe.InvalidRequestError) as caught:
        client.v1.payment_intents.update(made.id, {"amount": 49})
    assert caught.value.code == "amount_too_small"
    paid = client.v1.payment_intents.confirm(made.id)
    assert (paid.status, paid.amount_received) == ("succeeded", 700)
    with pytest.raises(stripe.InvalidRequestError, match="amount could not be updated") as caught:
        client.v1.payment_intents.update(made.id, {"amount": 800})
    assert caught.value.code == "payment_intent_unexpected_state"
    assert client.v1.payment_intents.update(made.id, {"metadata": {"a": "1"}}).metadata.to_dict() == {"a": "1"}


@pytest.mark.parametrize(
    ("card", "code", "decline"),
    [
        ("pm_card_visa_chargeDeclined", "card_declined", "generic_decline"),
        ("pm_card_visa_chargeDeclinedInsufficientFunds", "card_declined", "insufficient_funds"),
        ("pm_card_visa_chargeDeclinedLostCard", "card_declined", "lost_card"),
        ("pm_card_visa_chargeDeclinedStolenCard", "card_declined", "stolen_card"),
        ("pm_card_chargeDeclinedExpiredCard", "expired_card", None),
        ("pm_card_chargeDeclinedIncorrectCvc", "incorrect_cvc", None),
        ("pm_card_chargeDeclinedProcessingError", "processing_error", None),
    ],
)
def test_declines_are_card_errors(
    client: stripe.StripeClient, pay: Any, card: str, code: str, decline: str | None
) -> None:
    """Each card that is declined says why, leaves a failed charge and a payment that asks for another card."""
    with pytest.raises(stripe.CardError) as caught:
        pay(card)
    body: Any = caught.value.json_body
    error = body["error"]
    assert (caught.value.http_status, error["code"], error.get("decline_code")) == (402, code, decline)
    intent = client.v1.payment_intents.retrieve(error["payment_intent"]["id"])
    assert (intent.status, intent.payment_method) == ("requires_payment_method", None)
    charge = client.v1.charges.retrieve(error["charge"])
    assert (charge.status, charge.paid, charge.failure_code) == ("failed", False, code)
    with pytest.raises(stripe.InvalidRequestError, match="failed and cannot be refunded"):
        client.v1.refunds.create({"charge": charge.id})


def test_what_a_card_would_do_elsewhere_is_refused_by_name(client: stripe.StripeClient, pay: Any) -> None:
    """A test card that the service does not model is refused, not taken for a plain one."""
    with pytest.raises(stripe.InvalidRequestError, match="does not model what it does"):
        pay("pm_card_authenticationRequired")


@pytest.mark.parametrize(
    ("currency", "amount", "code"),
    [
        ("usd", 50, None),
        ("USD", 50, None),
        ("jpy", 50, None),
        ("jpy", 100_000_000, None),
        ("krw", 1, None),
        ("kwd", 1250, None),
        ("isk", 500, None),
        ("usd", 49, "amount_too_small"),
        ("gbp", 29, "amount_too_small"),
        ("jpy", 49, "amount_too_small"),
        ("usd", 100_000_000, "amount_too_large"),
        ("kwd", 1255, "invalid_amount"),
        ("isk", 550, "invalid_amount"),
        ("xxx", 500, None),
    ],
)
def test_amounts_follow_their_currency(
    client: stripe.StripeClient, currency: str, amount: int, code: str | None
) -> None:
    """Minimum, maximum and steps of one, two and three decimals; an unknown currency is refused by its parameter."""
    asked: Any = {"amount": amount, "currency": currency}
    if code is None and currency != "xxx":
        assert client.v1.payment_intents.create(asked).currency == currency.lower()
        return
    with pytest.raises(stripe.InvalidRequestError) as caught:
        client.v1.payment_intents.create(asked)
    assert (caught.value.http_status, caught.value.code) == (400, code)
    assert caught.value.param == ("currency" if currency == "xxx" else "amount")


def test_refunds_follow_the_currency_of_their_charge(client: stripe.StripeClient, pay: Any) -> None:
    """A refund has the steps of the currency, and the message shows its decimals."""
    dinars = pay(amount=5000, currency="kwd")
    with pytest.raises(stripe.InvalidRequestError) as caught:
        client.v1.refunds.create({"payment_intent": dinars.id, "amount": 1255})
    assert (caught.value.code, caught.value.param) == ("invalid_amount", "amount")
    with pytest.raises(stripe.InvalidRequestError, match=r"\(KWD 5\.010\) is greater than .*\(KWD 5\.000\)"):
        client.v1.refunds.create({"payment_intent": dinars.id, "amount": 5010})
    yen = pay(amount=500, currency="jpy")
    with pytest.raises(stripe.InvalidRequestError, match="¥501"):
        client.v1.refunds.create({"payment_intent": yen.id, "amount": 501})
    assert (money(1999, "usd"), money(500, "jpy"), money(1250, "kwd")) == ("$19.99", "¥500", "KWD 1.250")
    with pytest.raises(ApiError, match="at least"):
        check_amount(29, "gbp")


def test_charges_are_listed_and_annotated(service: LocalStripe, client: stripe.StripeClient, pay: Any) -> None:
    """By payment, customer and transfer group; metadata and description change with an event."""
    customer = client.v1.customers.create({"email": "jenny@example.com"})
    payment = pay(customer=customer.id, transfer_group="group-7")
    asked: Any
    for asked in ({"payment_intent": payment.id}, {"customer": customer.id}, {"transfer_group": "group-7"}):
        assert [one.id for one in client.v1.charges.list(asked).data] == [payment.latest_charge]
    assert [one.id for one in client.v1.payment_intents.list({"customer": customer.id}).data] == [payment.id]
    changed = client.v1.charges.update(str(payment.latest_charge), {"metadata": {"a": "1"}, "description": "d"})
    assert (changed.metadata.to_dict(), changed.description) == ({"a": "1"}, "d")
    assert service.events()[-1]["data"]["previous_attributes"] == {"description": None, "metadata": {}}
    expanded = client.v1.charges.retrieve(changed.id, {"expand": ["customer", "balance_transaction", "refunds"]})
    assert not isinstance(expanded.customer, str | None)
    assert expanded.customer.id == customer.id
    client.v1.customers.delete(customer.id)
    with pytest.raises(stripe.InvalidRequestError) as caught:
        pay(customer=customer.id)
    assert (caught.value.code, caught.value.param) == ("resource_missing", "customer")


def test_money_moves_on_the_balance(own: LocalStripe, pay: Any) -> None:
    """A charge less its fee is pending for two days, then available; every movement is listed, and their sum is the balance."""
    client = own.client()
    payment = pay(by=client)
    entry = client.v1.balance_transactions.list({"source": str(payment.latest_charge)}).data[0]
    assert (entry.type, entry.amount, entry.fee, entry.net, entry.status) == ("charge", 10_000, 320, 9680, "pending")
    assert client.v1.balance_transactions.retrieve(entry.id).net == 9680
    source = client.v1.balance_transactions.retrieve(entry.id, {"expand": ["source.payment_intent"]}).source
    assert not isinstance(source, str | None)
    assert source.to_dict()["payment_intent"]["id"] == payment.id
    balance = client.v1.balance.retrieve()
    assert (balance.available[0].amount, balance.pending[0].amount) == (0, 9680)
    own.advance(2 * 24 * 60 * 60)
    assert client.v1.balance.retrieve().available[0].amount == 9680
    assert client.v1.balance_transactions.retrieve(entry.id).status == "available"
    client.v1.refunds.create({"payment_intent": payment.id, "amount": 2000})
    own.dispute(str(pay(by=client).latest_charge))
    total = sum(one.net for one in client.v1.balance_transactions.list({"limit": 100}).data)
    balance = client.v1.balance.retrieve()
    assert balance.available[0].amount + balance.pending[0].amount == total
    assert [one.type for one in client.v1.balance_transactions.list({"type": "refund"}).data] == ["refund"]
    assert pay("pm_card_bypassPending", by=client).status == "succeeded"
    assert client.v1.balance_transactions.list({"limit": 1}).data[0].status == "available"
