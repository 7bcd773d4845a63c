"""Customers, their balance, and billing credits.

docs.stripe.com/api/customers, docs.stripe.com/api/customer_balance_transactions, docs.stripe.com/api/billing/credit-grant.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
import stripe

from tests.contract.stripe.place import TAGS, Place, headers_of, refusal


def _customer(place: Place, **more: Any) -> stripe.Customer:
    return place.client.v1.customers.create({"name": "Contract", "metadata": TAGS, **more})


def _grant(place: Place, customer: str, *, key: str | None = None, **more: Any) -> stripe.billing.CreditGrant:
    asked: Any = {
        "customer": customer,
        "amount": {"type": "monetary", "monetary": {"currency": "usd", "value": 1_000}},
        "applicability_config": {"scope": {"price_type": "metered"}},
        "category": "promotional",
        "metadata": TAGS,
        **more,
    }
    return place.client.v1.billing.credit_grants.create(asked, {} if key is None else {"idempotency_key": key})


# --- customers ----------------------------------------------------------------------------------------------------


@pytest.mark.double("stateful-mock")
@pytest.mark.double("localstripe")
def test_a_customer_is_made_changed_and_read_back(place: Place) -> None:
    """What was sent is what is read, and an update changes only what it names."""
    made = _customer(place, email="a@example.com", description="first")
    assert made.id.startswith("cus_")
    assert (made.object, made.email, made.description) == ("customer", "a@example.com", "first")
    changed = place.client.v1.customers.update(made.id, {"description": "second"})
    assert (changed.description, changed.email) == ("second", "a@example.com")
    assert place.client.v1.customers.retrieve(made.id).description == "second"


@pytest.mark.double("localstripe", disagrees="D13")
def test_a_deleted_customer_can_be_read_and_nothing_else(place: Place) -> None:
    """It answers `deleted: true` with its id (docs.stripe.com/api/customers/delete); an update is `resource_missing`."""
    made = _customer(place)
    gone = place.client.v1.customers.delete(made.id)
    assert (gone.id, gone.deleted) == (made.id, True)
    read: Any = place.client.v1.customers.retrieve(made.id)
    assert (read.id, read.object, read.deleted) == (made.id, "customer", True)
    error = refusal(lambda: place.client.v1.customers.update(made.id, {"name": "Again"}))
    assert (error.http_status, error.code) == (404, "resource_missing")


def test_a_deleted_customer_gets_neither_balance_nor_credit(place: Place) -> None:
    """Both are refused as `resource_missing`: an effect on a customer that is gone did not happen."""
    made = _customer(place)
    place.client.v1.customers.delete(made.id)
    error = refusal(
        lambda: place.client.v1.customers.balance_transactions.create(made.id, {"amount": -100, "currency": "usd"})
    )
    assert (error.http_status, error.code) == (404, "resource_missing")
    error = refusal(lambda: _grant(place, made.id))
    assert error.http_status in (400, 404)
    assert error.code == "resource_missing"


def test_a_deleted_customer_cannot_pay(place: Place) -> None:
    """A payment that names one is refused as `resource_missing` on `customer`; one of a living customer names them."""
    made = _customer(place)
    assert place.intent(700, customer=made.id).customer == made.id
    place.client.v1.customers.delete(made.id)
    error = refusal(lambda: place.intent(700, customer=made.id))
    assert (error.code, error.param) == ("resource_missing", "customer")
    assert error.http_status in (400, 404)


def test_customers_are_listed_by_email(place: Place) -> None:
    """`email` narrows the list exactly; a deleted customer is in none."""
    email = f"{place.key('mail')}@example.com"
    first, second = _customer(place, email=email), _customer(place, email=email)
    assert [one.id for one in place.client.v1.customers.list({"email": email}).data] == [second.id, first.id]
    place.client.v1.customers.delete(second.id)
    assert [one.id for one in place.client.v1.customers.list({"email": email}).data] == [first.id]


# --- customer balance ---------------------------------------------------------------------------------------------


def test_a_balance_transaction_has_its_fields(place: Place) -> None:
    """A credit is negative; it says the balance after it, and the customer's balance is that."""
    customer = _customer(place)
    made = place.client.v1.customers.balance_transactions.create(
        customer.id, {"amount": -500, "currency": "usd", "description": "sorry", "metadata": {**TAGS, "case": "7"}}
    )
    assert made.id.startswith("cbtxn_")
    assert (made.object, made.type, made.amount, made.ending_balance) == (
        "customer_balance_transaction",
        "adjustment",
        -500,
        -500,
    )
    assert (made.customer, made.currency, made.description) == (customer.id, "usd", "sorry")
    assert made.metadata is not None
    assert made.metadata.to_dict() == {**TAGS, "case": "7"}
    read = place.client.v1.customers.retrieve(customer.id)
    assert (read.balance, read.currency) == (-500, "usd")
    debit = place.client.v1.customers.balance_transactions.create(customer.id, {"amount": 200, "currency": "usd"})
    assert debit.ending_balance == -300
    assert place.client.v1.customers.balance_transactions.retrieve(customer.id, made.id).id == made.id


def test_balance_transactions_are_listed_at_once_newest_first(place: Place) -> None:
    """The look-up after a crash reads this list: it shows what was just written, with its metadata, and only this customer's."""
    customer, other = _customer(place), _customer(place)
    create = place.client.v1.customers.balance_transactions.create
    made = [
        create(customer.id, {"amount": -number, "currency": "usd", "metadata": {"effect": f"e{number}"}}).id
        for number in (1, 2, 3)
    ]
    create(other.id, {"amount": -9, "currency": "usd"})
    listed = place.client.v1.customers.balance_transactions.list(customer.id, {"limit": 2})
    assert ([one.id for one in listed.data], listed.has_more) == (made[:0:-1], True)
    assert listed.data[0].metadata is not None
    assert listed.data[0].metadata.to_dict() == {"effect": "e3"}
    walked = place.client.v1.customers.balance_transactions.list(customer.id, {"limit": 1}).auto_paging_iter()
    assert [one.id for one in walked] == made[::-1]


def test_a_balance_transaction_is_replayed_under_its_key(place: Place) -> None:
    """The same key is the same adjustment: the balance moves once."""
    customer, key = _customer(place), place.key("balance")
    asked: Any = {"amount": -500, "currency": "usd"}
    create = place.client.v1.customers.balance_transactions.create
    first, again = (create(customer.id, asked, {"idempotency_key": key}) for _ in range(2))
    assert first.id == again.id
    assert headers_of(again)["idempotent-replayed"] == "true"
    assert place.client.v1.customers.retrieve(customer.id).balance == -500


def test_wrong_balance_transactions_are_refused(place: Place) -> None:
    """An amount that is no whole number, an unknown currency, a missing one, a customer that is not there."""
    customer = _customer(place)
    wrongs: list[tuple[str, Any, str]] = [
        (customer.id, {"amount": 1.5, "currency": "usd"}, "amount"),
        (customer.id, {"amount": -100, "currency": "xxx"}, "currency"),
        (customer.id, {"amount": -100}, "currency"),
        ("cus_none", {"amount": -100, "currency": "usd"}, "customer"),
    ]
    for identifier, asked, param in wrongs:
        error = refusal(
            lambda identifier=identifier, asked=asked: (  # type: ignore[misc]
                place.client.v1.customers.balance_transactions.create(identifier, asked)
            )
        )
        assert (error.http_status, error.param) == (404 if identifier == "cus_none" else 400, param)
    assert place.client.v1.customers.balance_transactions.list(customer.id).data == []


# --- credit grants ------------------------------------------------------------------------------------------------


def test_a_credit_grant_has_its_fields(place: Place) -> None:
    """What was granted, to whom, for what, and until when."""
    customer, until = _customer(place), int(time.time()) + 30 * 24 * 3600
    made = _grant(place, customer.id, expires_at=until, name="Outage 2026-11", priority=10)
    assert made.id.startswith("credgr_")
    assert (made.object, made.customer, made.category) == ("billing.credit_grant", customer.id, "promotional")
    assert made.amount.monetary is not None
    assert (made.amount.type, made.amount.monetary.value, made.amount.monetary.currency) == ("monetary", 1_000, "usd")
    assert made.applicability_config.scope.price_type == "metered"
    assert (made.expires_at, made.voided_at, made.name, made.priority) == (until, None, "Outage 2026-11", 10)
    assert made.effective_at is not None
    assert made.metadata.to_dict() == TAGS
    assert place.client.v1.billing.credit_grants.retrieve(made.id).id == made.id


def test_credit_grants_are_listed_by_customer_at_once(place: Place) -> None:
    """The look-up's list: what was just granted is there, newest first, and only this customer's."""
    customer, other = _customer(place), _customer(place)
    made = [_grant(place, customer.id, metadata={"effect": name}).id for name in ("e1", "e2")]
    _grant(place, other.id)
    listed = place.client.v1.billing.credit_grants.list({"customer": customer.id})
    assert [one.id for one in listed.data] == made[::-1]
    assert listed.data[0].metadata.to_dict() == {"effect": "e2"}


def test_a_credit_grant_is_replayed_under_its_key(place: Place) -> None:
    """The same key is the same grant."""
    customer, key = _customer(place), place.key("grant")
    first, again = _grant(place, customer.id, key=key), _grant(place, customer.id, key=key)
    assert first.id == again.id
    assert headers_of(again)["idempotent-replayed"] == "true"
    assert len(place.client.v1.billing.credit_grants.list({"customer": customer.id}).data) == 1


def test_a_credit_grant_is_changed_expired_and_voided(place: Place) -> None:
    """Metadata and expiry can change; expired it ends now; voided it says when, and cannot be voided again."""
    grants = place.client.v1.billing.credit_grants
    customer = _customer(place)
    first, second = _grant(place, customer.id), _grant(place, customer.id)
    changed = grants.update(first.id, {"metadata": {"case": "7"}, "expires_at": int(time.time()) + 3600})
    assert changed.metadata.to_dict() == {**TAGS, "case": "7"}
    expired = grants.expire(first.id)
    assert expired.expires_at is not None
    assert expired.expires_at <= int(time.time()) + 60
    assert expired.voided_at is None
    assert grants.void_grant(second.id).voided_at is not None
    assert refusal(lambda: grants.void_grant(second.id)).http_status == 400


def test_wrong_credit_grants_are_refused(place: Place) -> None:
    """No amount, none that is positive, an unknown currency, no scope, an unknown parameter: 400, and nothing is granted."""
    customer = _customer(place)
    wrongs: list[dict[str, Any]] = [
        {"amount": {"type": "monetary"}},
        {"amount": {"type": "monetary", "monetary": {"currency": "usd", "value": 0}}},
        {"amount": {"type": "monetary", "monetary": {"currency": "xxx", "value": 100}}},
        {"applicability_config": {"scope": {}}},
        {"category": "gift"},
        {"surprise": "1"},
    ]
    for wrong in wrongs:
        error = refusal(lambda wrong=wrong: _grant(place, customer.id, **wrong))  # type: ignore[misc]
        assert error.http_status == 400, wrong
    assert place.client.v1.billing.credit_grants.list({"customer": customer.id}).data == []
