"""Refunds: docs.stripe.com/api/refunds, docs.stripe.com/refunds, docs.stripe.com/error-codes.

What the premises, the look-ups and the classification of refusals stand on.
"""

from __future__ import annotations

from typing import Any

import pytest
import stripe

from tests.contract.stripe.place import TAGS, Paid, Place, error_of, eventually, refusal


@pytest.mark.double("stateful-mock")
@pytest.mark.double("localstripe")
def test_a_refund_names_its_charge_and_amount(place: Place) -> None:
    """A partial refund to a card says what it refunded, in which currency, and that it was accepted."""
    paid = place.paid()
    made = place.refund(paid, 2_000)
    assert (made.object, made.amount, made.currency, made.charge) == ("refund", 2_000, "usd", paid.charge)
    assert made.id.startswith("re_")
    assert made.status in ("succeeded", "pending")
    assert place.client.v1.refunds.retrieve(made.id).id == made.id


@pytest.mark.double("localstripe")
def test_a_refund_by_payment_is_a_refund_of_its_charge(place: Place) -> None:
    """`payment_intent` instead of `charge` refunds the payment's successful charge, and the refund names both."""
    paid = place.paid()
    made = place.client.v1.refunds.create({"payment_intent": str(paid.payment), "amount": 100, "metadata": TAGS})
    assert (made.charge, made.payment_intent) == (paid.charge, paid.payment)


@pytest.mark.double("localstripe")
def test_a_charge_shows_the_refunds_that_the_list_shows(place: Place) -> None:
    """Expanded, a payment's charge shows the same refunds in the same order as their list: whole, or the newest with `has_more`."""
    _shows_what_the_list_shows(place, place.paid())


def test_the_last_charge_shows_the_refunds_of_a_payment(place: Place) -> None:
    """So does the last charge of a payment whose first one was declined."""
    _shows_what_the_list_shows(place, _paid_at_the_second_try(place))


def _shows_what_the_list_shows(place: Place, paid: Paid) -> None:
    assert paid.payment is not None
    for made in range(1, 12):
        place.refund(paid, 100 + made)
        if made not in (1, 3, 11):
            continue
        payment = place.client.v1.payment_intents.retrieve(paid.payment, {"expand": ["latest_charge.refunds"]})
        charge = place.client.v1.charges.retrieve(paid.charge, {"expand": ["refunds"]})
        listed = [one.to_dict() for one in place.client.v1.refunds.list({"payment_intent": paid.payment}).data]
        by_charge = [one.to_dict() for one in place.client.v1.refunds.list({"charge": paid.charge}).data]
        for shown in (payment.to_dict()["latest_charge"]["refunds"], charge.to_dict()["refunds"]):
            assert listed == by_charge
            assert shown["has_more"] == (len(shown["data"]) < made)
            assert shown["data"] == listed[: len(shown["data"])]


def _paid_at_the_second_try(place: Place) -> Paid:
    """A payment whose first charge was declined."""
    payment = place.intent()
    refusal(
        lambda: place.client.v1.payment_intents.confirm(payment.id, {"payment_method": "pm_card_chargeDeclined"}),
        kind=stripe.CardError,
    )
    done = place.client.v1.payment_intents.confirm(payment.id, {"payment_method": "pm_card_visa"})
    return Paid(str(done.latest_charge), payment.id, 10_000, "usd")


@pytest.mark.double("stateful-mock")
@pytest.mark.double("localstripe", disagrees="D3")
def test_more_than_what_is_left_is_refused(place: Place) -> None:
    """400 on `amount`, in words that name both amounts, and no refund is made."""
    paid = place.paid()
    place.refund(paid, 9_000)
    error = refusal(lambda: place.refund(paid, 2_000))
    assert error.http_status == 400
    assert "greater than unrefunded amount on charge" in str(error.user_message)
    assert "$20" in str(error.user_message)
    assert "$10" in str(error.user_message)
    assert len(place.client.v1.refunds.list({"charge": paid.charge}).data) == 1


@pytest.mark.double("stateful-mock")
@pytest.mark.double("localstripe", disagrees="D3")
def test_a_refunded_charge_is_refused_by_code(place: Place) -> None:
    """After everything was refunded, the next one is a 400 with code `charge_already_refunded`."""
    paid = place.paid()
    assert place.refund(paid).amount == paid.amount_minor
    error = refusal(lambda: place.refund(paid, 1))
    assert (error.http_status, error.code) == (400, "charge_already_refunded")


@pytest.mark.double("stateful-mock")
def test_the_charge_shows_what_was_refunded(place: Place) -> None:
    """`amount_refunded` is the sum of the refunds; `refunded` is true only when nothing is left."""
    paid = place.paid()
    place.refund(paid, 4_000)
    charge = place.client.v1.charges.retrieve(paid.charge)
    assert (charge.amount_refunded, charge.refunded) == (4_000, False)
    place.refund(paid, 6_000)
    charge = place.client.v1.charges.retrieve(paid.charge)
    assert (charge.amount_refunded, charge.refunded) == (10_000, True)


@pytest.mark.double("stateful-mock")
@pytest.mark.double("localstripe")
def test_a_list_by_charge_shows_what_was_just_written(place: Place) -> None:
    """Read your writes: the look-up after a crash rests on this, as Search may lag (docs.stripe.com/search)."""
    paid, other = place.paid(), place.paid()
    made: list[str] = []
    for amount in (100, 200, 300):
        made.append(place.refund(paid, amount).id)
        assert {one.id for one in place.client.v1.refunds.list({"charge": paid.charge}).data} == set(made)
    place.refund(other, 100)
    listed = place.client.v1.refunds.list({"charge": paid.charge, "limit": 100})
    assert {one.id for one in listed.data} == set(made)
    assert listed.has_more is False


@pytest.mark.double("stateful-mock", disagrees="D9")
@pytest.mark.double("localstripe", disagrees="D9")
def test_a_list_is_newest_first(place: Place) -> None:
    """The newest refund comes first (docs.stripe.com/api/refunds/list)."""
    paid = place.paid()
    made = [place.refund(paid, amount).id for amount in (100, 200, 300)]
    assert [one.id for one in place.client.v1.refunds.list({"charge": paid.charge}).data] == made[::-1]


@pytest.mark.double("localstripe")
def test_a_list_by_payment_shows_what_was_just_written(place: Place) -> None:
    """The same by `payment_intent`."""
    paid = place.paid()
    made = place.refund(paid, 100)
    listed = place.client.v1.refunds.list({"payment_intent": str(paid.payment)})
    assert [one.id for one in listed.data] == [made.id]


def test_a_list_has_pages(place: Place) -> None:
    """`limit` bounds a page, `has_more` tells of the next, `starting_after` begins it; the SDK walks through all of them."""
    paid = place.paid()
    made = [place.refund(paid, 100 + number).id for number in range(3)][::-1]
    first = place.client.v1.refunds.list({"charge": paid.charge, "limit": 2})
    assert ([one.id for one in first.data], first.has_more) == (made[:2], True)
    rest = place.client.v1.refunds.list({"charge": paid.charge, "limit": 2, "starting_after": made[1]})
    assert ([one.id for one in rest.data], rest.has_more) == (made[2:], False)
    back = place.client.v1.refunds.list({"charge": paid.charge, "limit": 2, "ending_before": made[2]})
    assert [one.id for one in back.data] == made[:2]
    walked = place.client.v1.refunds.list({"charge": paid.charge, "limit": 1}).auto_paging_iter()
    assert [one.id for one in walked] == made


@pytest.mark.double("stateful-mock")
@pytest.mark.double("localstripe")
def test_metadata_comes_back_as_it_was_sent(place: Place) -> None:
    """An effect's id in the metadata is on the refund, in the list too: that is how a look-up knows its own."""
    paid = place.paid()
    made = place.refund(paid, 100, metadata={"interlock_effect_id": "e-1", "case": "9"})
    wanted = {**TAGS, "interlock_effect_id": "e-1", "case": "9"}
    assert made.metadata is not None
    assert made.metadata.to_dict() == wanted
    (listed,) = place.client.v1.refunds.list({"charge": paid.charge}).data
    assert listed.metadata is not None
    assert listed.metadata.to_dict() == wanted


def test_metadata_is_merged_and_unset(place: Place) -> None:
    """An update replaces what it names, an empty value unsets; 40 characters of name and 500 of value are the most."""
    paid = place.paid()
    made = place.refund(paid, 100, metadata={"case": "9"})
    changed = place.client.v1.refunds.update(made.id, {"metadata": {"case": "", "by": "support"}})
    assert changed.metadata is not None
    assert changed.metadata.to_dict() == {**TAGS, "by": "support"}
    for too_much in ({"k" * 41: "v"}, {"k": "v" * 501}):
        error = refusal(lambda too_much=too_much: place.client.v1.refunds.update(made.id, {"metadata": too_much}))  # type: ignore[misc]
        assert error.http_status == 400


@pytest.mark.double("stateful-mock")
@pytest.mark.double("localstripe")
def test_a_negative_amount_is_refused(place: Place) -> None:
    """Less than nothing is a 400, and nothing is refunded."""
    paid = place.paid()
    assert refusal(lambda: place.refund(paid, -5)).http_status == 400
    assert place.client.v1.refunds.list({"charge": paid.charge}).data == []


@pytest.mark.double("stateful-mock", disagrees="D4")
@pytest.mark.double("localstripe", disagrees="D5")
@pytest.mark.parametrize("wrong", ["ten", 10.5])
def test_an_amount_that_is_no_whole_number_is_refused(place: Place, wrong: Any) -> None:
    """A word or a fraction is a 400 `parameter_invalid_integer` on `amount`: not rounded, and nothing is refunded."""
    paid = place.paid()
    error = refusal(lambda: place.refund(paid, wrong))
    assert (error.http_status, error.code, error.param) == (400, "parameter_invalid_integer", "amount")
    assert place.client.v1.refunds.list({"charge": paid.charge}).data == []


@pytest.mark.double("stateful-mock", disagrees="D6")
@pytest.mark.double("localstripe")
def test_an_unknown_parameter_is_refused(place: Place) -> None:
    """A parameter that the endpoint does not have is a 400 that names it, and nothing is refunded."""
    paid = place.paid()
    assert refusal(lambda: place.refund(paid, 100, surprise="1")).http_status == 400
    assert place.client.v1.refunds.list({"charge": paid.charge}).data == []


@pytest.mark.double("stateful-mock")
@pytest.mark.double("localstripe", disagrees="D7")
def test_a_refund_that_is_not_there_is_resource_missing(place: Place) -> None:
    """An id nobody has is a 404 `resource_missing`, never an empty answer."""
    error = refusal(lambda: place.client.v1.refunds.retrieve("re_none"))
    assert (error.http_status, error.code) == (404, "resource_missing")


@pytest.mark.double("stateful-mock")
@pytest.mark.double("localstripe", disagrees="D7")
def test_a_charge_that_is_not_there_is_resource_missing(place: Place) -> None:
    """Refunding a charge that nobody has is `resource_missing`; the parameter blamed is not relied on (DISAGREEMENTS.md)."""
    error = refusal(lambda: place.client.v1.refunds.create({"charge": "ch_none", "amount": 100}))
    assert error.http_status in (400, 404)
    assert error.code == "resource_missing"
    assert error.param in ("charge", "id")


def test_a_declined_payment_has_nothing_to_refund(place: Place) -> None:
    """A payment whose card was declined is refused by the state of its PaymentIntent."""
    error = refusal(lambda: place.intent(card="pm_card_chargeDeclined", confirm=True), stripe.CardError)
    intent = error_of(error)["payment_intent"]["id"]
    error = refusal(lambda: place.client.v1.refunds.create({"payment_intent": intent, "metadata": TAGS}))
    assert error.http_status == 400
    assert "does not have a successful charge to refund" in str(error.user_message)


def test_a_disputed_charge_cannot_be_refunded(place: Place) -> None:
    """Once the money was charged back, a refund is a 400 `charge_disputed` (docs.stripe.com/error-codes)."""
    paid = place.paid(card="pm_card_createDispute")
    eventually(lambda: place.client.v1.charges.retrieve(paid.charge).disputed, within_s=30.0)
    error = refusal(lambda: place.refund(paid, 100))
    assert (error.http_status, error.code) == (400, "charge_disputed")
    (dispute,) = place.client.v1.disputes.list({"charge": paid.charge}).data
    assert (dispute.amount, dispute.currency, dispute.charge) == (paid.amount_minor, "usd", paid.charge)
    assert dispute.status == "needs_response"


def test_a_refund_that_fails_later_was_accepted_first(place: Place) -> None:
    """`pm_card_refundFail`: accepted now, failed later, with a reason (docs.stripe.com/refunds#failed-refunds)."""
    paid = place.paid(card="pm_card_refundFail")
    made = place.refund(paid, 100)
    assert made.status in ("succeeded", "pending")
    if place.local is not None:
        place.local.settle_refund(made.id, "failed", failure_reason="expired_or_canceled_card")
        failed = place.client.v1.refunds.retrieve(made.id)
        assert (failed.status, failed.failure_reason) == ("failed", "expired_or_canceled_card")
