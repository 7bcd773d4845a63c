"""PaymentIntents and charges.

docs.stripe.com/api/payment_intents, docs.stripe.com/payments/paymentintents/lifecycle, docs.stripe.com/testing.
"""

from __future__ import annotations

from typing import Any

import pytest
import stripe

from tests.contract.stripe.place import TAGS, Place, error_of, refusal

INTENT = {
    "amount": int,
    "amount_capturable": int,
    "amount_received": int,
    "capture_method": str,
    "client_secret": str,
    "confirmation_method": str,
    "created": int,
    "currency": str,
    "id": str,
    "livemode": bool,
    "metadata": dict,
    "object": str,
    "payment_method_types": list,
    "status": str,
}
"""Fields of a PaymentIntent that are never null, and their types."""

NULLABLE = (
    "canceled_at",
    "cancellation_reason",
    "customer",
    "description",
    "last_payment_error",
    "latest_charge",
    "next_action",
)


@pytest.mark.double("localstripe", disagrees="D12")
def test_a_payment_intent_has_its_fields(place: Place) -> None:
    """The fields that are read are there, each of its type, before and after it was paid."""
    for intent in (place.intent(700), place.intent(700, card="pm_card_visa", confirm=True)):
        body: dict[str, Any] = intent.to_dict()
        for name, kind in INTENT.items():
            assert type(body[name]) is kind, name
        for name in NULLABLE:
            assert name in body, name
        assert (body["object"], body["amount"], body["currency"]) == ("payment_intent", 700, "usd")
        assert body["id"].startswith("pi_")


@pytest.mark.double("localstripe")
def test_the_status_says_what_is_wanted_next(place: Place) -> None:
    """Without a card it asks for one; paid it has succeeded; authorised only it asks for the capture, and then has succeeded."""
    assert place.intent(700).status == "requires_payment_method"
    paid = place.intent(700, card="pm_card_visa", confirm=True)
    assert paid.status == "succeeded"
    assert place.client.v1.payment_intents.retrieve(paid.id).status == "succeeded"
    held = place.intent(700, card="pm_card_visa", confirm=True, capture_method="manual")
    assert held.status == "requires_capture"
    assert place.client.v1.payment_intents.capture(held.id).status == "succeeded"


@pytest.mark.double("localstripe", disagrees="D8")
def test_a_reference_is_an_id_unless_it_was_expanded(place: Place) -> None:
    """`latest_charge` is the id of the charge (docs.stripe.com/api/expanding_objects)."""
    intent = place.intent(700, card="pm_card_visa", confirm=True)
    assert isinstance(intent.latest_charge, str)
    assert intent.latest_charge.startswith("ch_")


def test_made_then_confirmed(place: Place) -> None:
    """Without a card it asks for one; confirmed with one it has succeeded, received its amount, and names its charge."""
    intent = place.intent(700)
    assert (intent.status, intent.amount_received, intent.latest_charge) == ("requires_payment_method", 0, None)
    paid = place.client.v1.payment_intents.confirm(intent.id, {"payment_method": "pm_card_visa"})
    assert (paid.status, paid.amount_received) == ("succeeded", 700)
    assert str(paid.latest_charge).startswith("ch_")
    assert place.client.v1.payment_intents.retrieve(intent.id).status == "succeeded"


def test_paid_in_one_call(place: Place) -> None:
    """`confirm` while it is created: paid at once, and its charge is paid and captured in full."""
    intent = place.intent(1_234, card="pm_card_visa", confirm=True, description="shoes")
    assert (intent.status, intent.amount_received, intent.description) == ("succeeded", 1_234, "shoes")
    charge = place.client.v1.charges.retrieve(str(intent.latest_charge))
    assert (charge.paid, charge.captured, charge.amount, charge.amount_captured) == (True, True, 1_234, 1_234)
    assert (charge.payment_intent, charge.amount_refunded, charge.refunded, charge.disputed) == (
        intent.id,
        0,
        False,
        False,
    )


def test_confirming_twice_is_refused_by_state(place: Place) -> None:
    """A succeeded PaymentIntent cannot be confirmed: 400 `payment_intent_unexpected_state`, which shows the PaymentIntent."""
    intent = place.intent(700, card="pm_card_visa", confirm=True)
    error = refusal(lambda: place.client.v1.payment_intents.confirm(intent.id, {"payment_method": "pm_card_visa"}))
    assert (error.http_status, error.code) == (400, "payment_intent_unexpected_state")
    assert error_of(error)["payment_intent"]["id"] == intent.id


def test_canceling_what_is_paid_is_refused_by_state(place: Place) -> None:
    """A succeeded PaymentIntent cannot be canceled either; an open one can, and stays canceled."""
    paid = place.intent(700, card="pm_card_visa", confirm=True)
    error = refusal(lambda: place.client.v1.payment_intents.cancel(paid.id))
    assert (error.http_status, error.code) == (400, "payment_intent_unexpected_state")
    gone = place.client.v1.payment_intents.cancel(place.intent(700).id, {"cancellation_reason": "abandoned"})
    assert (gone.status, gone.cancellation_reason) == ("canceled", "abandoned")
    assert gone.canceled_at is not None
    error = refusal(lambda: place.client.v1.payment_intents.confirm(gone.id, {"payment_method": "pm_card_visa"}))
    assert (error.http_status, error.code) == (400, "payment_intent_unexpected_state")


def test_manual_capture_holds_and_then_takes(place: Place) -> None:
    """`capture_method=manual`: authorised first, nothing received; captured, it has succeeded."""
    intent = place.intent(900, card="pm_card_visa", confirm=True, capture_method="manual")
    assert (intent.status, intent.amount_capturable, intent.amount_received) == ("requires_capture", 900, 0)
    taken = place.client.v1.payment_intents.capture(intent.id)
    assert (taken.status, taken.amount_capturable, taken.amount_received) == ("succeeded", 0, 900)


@pytest.mark.parametrize(
    ("card", "code", "decline"),
    [
        ("pm_card_chargeDeclined", "card_declined", "generic_decline"),
        ("pm_card_chargeDeclinedInsufficientFunds", "card_declined", "insufficient_funds"),
        ("pm_card_chargeDeclinedExpiredCard", "expired_card", None),
    ],
)
def test_a_declined_card_is_a_card_error(place: Place, card: str, code: str, decline: str | None) -> None:
    """402 with Stripe's codes; the payment asks for another card and nothing was received."""
    error = refusal(lambda: place.intent(700, card=card, confirm=True), stripe.CardError)
    told = error_of(error)
    assert (error.http_status, error.code, told["type"]) == (402, code, "card_error")
    if decline is not None:
        assert told["decline_code"] == decline
    intent = place.client.v1.payment_intents.retrieve(told["payment_intent"]["id"])
    assert (intent.status, intent.amount_received) == ("requires_payment_method", 0)


@pytest.mark.double("localstripe", disagrees="D10")
def test_amounts_below_the_least_are_refused(place: Place) -> None:
    """49 cents are a 400 `amount_too_small` (docs.stripe.com/currencies#minimum-and-maximum-charge-amounts)."""
    error = refusal(lambda: place.intent(49))
    assert (error.http_status, error.code) == (400, "amount_too_small")


@pytest.mark.double("localstripe", disagrees="D11")
def test_a_currency_nobody_has_is_refused(place: Place) -> None:
    """An invented currency is a 400 on `currency`."""
    error = refusal(lambda: place.intent(700, "xxx"))
    assert (error.http_status, error.param) == (400, "currency")


@pytest.mark.double("localstripe")
@pytest.mark.parametrize("wrong", ["ten", 10.5, -5])
def test_a_wrong_amount_is_refused(place: Place, wrong: Any) -> None:
    """An amount that is no positive whole number is a 400."""
    assert refusal(lambda: place.intent(wrong)).http_status == 400


@pytest.mark.double("localstripe")
def test_what_is_missing_is_named(place: Place) -> None:
    """Without an amount: 400 `parameter_missing`."""
    nothing: Any = {"currency": "usd"}
    error = refusal(lambda: place.client.v1.payment_intents.create(nothing))
    assert error.http_status == 400


def test_zero_decimal_currencies_have_no_minor_unit(place: Place) -> None:
    """500 yen are 500, and a refusal says so without decimals (docs.stripe.com/currencies#zero-decimal)."""
    paid = place.paid(500, "jpy")
    error = refusal(lambda: place.refund(paid, 501))
    assert error.http_status == 400
    assert ".00" not in str(error.user_message)
    assert place.refund(paid, 500).amount == 500


def test_payments_are_listed_newest_first_by_time(place: Place) -> None:
    """The list shows a payment as soon as it was answered, and `created` narrows it."""
    intent = place.intent(700)
    listed = place.client.v1.payment_intents.list({"limit": 5, "created": {"gte": intent.created}})
    assert intent.id in [one.id for one in listed.data]
    later = place.client.v1.payment_intents.list({"limit": 5, "created": {"gt": intent.created + 3600}})
    assert intent.id not in [one.id for one in later.data]


def test_a_charge_expands(place: Place) -> None:
    """`expand` puts the object in place of its id."""
    paid = place.paid()
    asked: Any = {"expand": ["latest_charge"]}
    intent: Any = place.client.v1.payment_intents.retrieve(str(paid.payment), asked)
    assert (intent.latest_charge.object, intent.latest_charge.id) == ("charge", paid.charge)


def test_metadata_of_a_payment_is_kept(place: Place) -> None:
    """Metadata is stored and merged; the charge carries a copy of what it was when it was made."""
    intent = place.intent(700, card="pm_card_visa", confirm=True)
    changed = place.client.v1.payment_intents.update(intent.id, {"metadata": {"order": "1"}})
    assert changed.metadata is not None
    assert changed.metadata.to_dict() == {**TAGS, "order": "1"}
    assert place.client.v1.charges.retrieve(str(intent.latest_charge)).metadata.to_dict() == TAGS
