"""Transfers, their reversals, payouts and balances.

docs.stripe.com/api/transfers, docs.stripe.com/api/transfer_reversals, docs.stripe.com/api/payouts, docs.stripe.com/api/balance,
docs.stripe.com/connect/separate-charges-and-transfers.

Live, they need a test account that is a Connect platform; STRIPE_CONNECT_ACCOUNT names a connected account of it.
"""

from __future__ import annotations

from typing import Any

import pytest
import stripe

from tests.contract.stripe.place import TAGS, Place, connected_account, error_of, headers_of, refusal


@pytest.fixture
def account(place: Place) -> str:
    """A connected account that can be transferred to, and pays out."""
    return connected_account(place)


def _funded(place: Place, amount_minor: int = 10_000, currency: str = "usd") -> None:
    """Put money into the platform's available balance (docs.stripe.com/testing#available-balance)."""
    place.paid(amount_minor, currency, card="pm_card_bypassPending")


def _transfer(place: Place, account: str, *, key: str | None = None, **more: Any) -> stripe.Transfer:
    asked: Any = {"amount": 1_000, "currency": "usd", "destination": account, "metadata": TAGS, **more}
    asked = {name: value for name, value in asked.items() if value is not None}
    return place.client.v1.transfers.create(asked, {} if key is None else {"idempotency_key": key})


def _payout(place: Place, account: str, amount_minor: int, *, key: str | None = None, **more: Any) -> stripe.Payout:
    asked: Any = {"amount": amount_minor, "currency": "usd", "metadata": TAGS, **more}
    options: Any = {"stripe_account": account} | ({} if key is None else {"idempotency_key": key})
    return place.client.v1.payouts.create(asked, options)


def _available(place: Place, account: str | None = None, currency: str = "usd") -> int:
    options: Any = {} if account is None else {"stripe_account": account}
    told = place.client.v1.balance.retrieve(None, options)
    return sum(one.amount for one in told.available if one.currency == currency)


# --- transfers ----------------------------------------------------------------------------------------------------


def test_a_transfer_has_its_fields_and_moves_its_amount(place: Place, account: str) -> None:
    """From the platform's available balance into the account's, at once and in full."""
    _funded(place)
    before = _available(place, account)
    made = _transfer(place, account, description="July", transfer_group="order-7")
    assert made.id.startswith("tr_")
    assert (made.object, made.amount, made.currency, made.destination) == ("transfer", 1_000, "usd", account)
    assert (made.amount_reversed, made.reversed, made.source_transaction) == (0, False, None)
    assert (made.description, made.transfer_group) == ("July", "order-7")
    assert made.metadata.to_dict() == TAGS
    assert made.reversals.data == []
    assert _available(place, account) == before + 1_000
    assert place.client.v1.transfers.retrieve(made.id).id == made.id


def test_transfers_are_listed_by_group_and_destination_at_once(place: Place, account: str) -> None:
    """The look-up's list: newest first, and only what was asked for."""
    _funded(place)
    group = place.key("group")
    made = [_transfer(place, account, amount=number, transfer_group=group).id for number in (100, 200)]
    _transfer(place, account, transfer_group=place.key("other"))
    assert [one.id for one in place.client.v1.transfers.list({"transfer_group": group}).data] == made[::-1]
    listed = place.client.v1.transfers.list({"destination": account, "limit": 2})
    assert listed.has_more is True


def test_a_transfer_is_replayed_under_its_key(place: Place, account: str) -> None:
    """The same key is the same transfer; the money moves once."""
    _funded(place)
    before, key = _available(place, account), place.key("transfer")
    first, again = _transfer(place, account, key=key), _transfer(place, account, key=key)
    assert first.id == again.id
    assert headers_of(again)["idempotent-replayed"] == "true"
    assert _available(place, account) == before + 1_000


def test_a_transfer_beyond_the_balance_is_refused(place: Place, account: str) -> None:
    """400 `balance_insufficient`, and nothing moves: pending funds are not available."""
    place.paid(10_000)
    too_much = _available(place) + 1
    error = refusal(lambda: _transfer(place, account, amount=max(too_much, 1)))
    assert (error.http_status, error.code) == (400, "balance_insufficient")


def test_a_transfer_to_nobody_is_refused(place: Place) -> None:
    """An account that is not connected is `resource_missing` on `destination`."""
    error = refusal(lambda: _transfer(place, "acct_none0000000000"))
    assert (error.http_status, error.code, error.param) == (400, "resource_missing", "destination")


def test_a_source_transaction_bounds_a_transfer(place: Place, account: str) -> None:
    """It needs no available balance; it is in the charge's currency; all of them together stay within the charge."""
    paid = place.paid(5_000)
    made = _transfer(place, account, amount=3_000, source_transaction=paid.charge)
    assert made.source_transaction == paid.charge
    assert made.transfer_group is not None
    assert refusal(lambda: _transfer(place, account, amount=3_000, source_transaction=paid.charge)).http_status == 400
    error = refusal(lambda: _transfer(place, account, amount=100, currency="eur", source_transaction=paid.charge))
    assert error.http_status == 400
    assert "currency" in str(error.user_message)


# --- reversals ----------------------------------------------------------------------------------------------------


def test_a_reversal_takes_back_a_part(place: Place, account: str) -> None:
    """The transfer shows what was reversed; more than what is left is refused; all of it makes it `reversed`."""
    _funded(place)
    transfer = _transfer(place, account)
    reversals = place.client.v1.transfers.reversals
    made = reversals.create(transfer.id, {"amount": 400, "metadata": TAGS})
    assert made.id.startswith("trr_")
    assert (made.object, made.amount, made.currency, made.transfer) == ("transfer_reversal", 400, "usd", transfer.id)
    read = place.client.v1.transfers.retrieve(transfer.id)
    assert (read.amount_reversed, read.reversed) == (400, False)
    assert [one.id for one in read.reversals.data] == [made.id]
    assert refusal(lambda: reversals.create(transfer.id, {"amount": 601})).http_status == 400
    rest = reversals.create(transfer.id)
    assert rest.amount == 600
    assert place.client.v1.transfers.retrieve(transfer.id).reversed is True
    assert refusal(lambda: reversals.create(transfer.id)).http_status == 400
    assert [one.id for one in reversals.list(transfer.id).data] == [rest.id, made.id]
    assert reversals.retrieve(transfer.id, made.id).id == made.id


# --- payouts ------------------------------------------------------------------------------------------------------


def test_a_payout_of_a_connected_account_has_its_fields(place: Place, account: str) -> None:
    """Made by hand from the account's own balance, to its bank account, with the header that names it."""
    _funded(place)
    _transfer(place, account)
    before = _available(place, account)
    made = _payout(place, account, 700, statement_descriptor="CASE 7")
    assert made.id.startswith("po_")
    assert (made.object, made.amount, made.currency, made.automatic) == ("payout", 700, "usd", False)
    assert (made.method, made.type, made.original_payout, made.reversed_by) == ("standard", "bank_account", None, None)
    assert made.status in ("pending", "in_transit", "paid")
    assert (made.failure_code, made.failure_message) == (None, None)
    assert made.metadata is not None
    assert made.metadata.to_dict() == TAGS
    assert str(made.destination).startswith("ba_")
    assert _available(place, account) == before - 700
    read = place.client.v1.payouts.retrieve(made.id, None, {"stripe_account": account})
    assert read.id == made.id
    # It is the account's, not the platform's.
    error = refusal(lambda: place.client.v1.payouts.retrieve(made.id))
    assert (error.http_status, error.code) == (404, "resource_missing")


def test_payouts_are_listed_at_once_newest_first(place: Place, account: str) -> None:
    """The look-up's list, per account."""
    _funded(place)
    _transfer(place, account)
    made = [_payout(place, account, number).id for number in (100, 200)]
    listed = place.client.v1.payouts.list({"limit": 2}, {"stripe_account": account})
    assert [one.id for one in listed.data] == made[::-1]
    assert not {one.id for one in place.client.v1.payouts.list({"limit": 100}).data} & set(made)


def test_a_payout_is_replayed_under_its_key(place: Place, account: str) -> None:
    """The same key is the same payout; other parameters under it are refused."""
    _funded(place)
    _transfer(place, account)
    key = place.key("payout")
    first, again = _payout(place, account, 300, key=key), _payout(place, account, 300, key=key)
    assert first.id == again.id
    assert headers_of(again)["idempotent-replayed"] == "true"
    error = refusal(lambda: _payout(place, account, 301, key=key), stripe.IdempotencyError)
    assert error.http_status == 400


def test_a_payout_beyond_the_balance_is_refused(place: Place, account: str) -> None:
    """400 `balance_insufficient`."""
    error = refusal(lambda: _payout(place, account, _available(place, account) + 1))
    assert (error.http_status, error.code) == (400, "balance_insufficient")


def test_a_payout_in_a_currency_without_a_bank_account_is_refused(place: Place, account: str) -> None:
    """There is nowhere to send it: 400."""
    asked: Any = {"amount": 100, "currency": "jpy"}
    error = refusal(lambda: place.client.v1.payouts.create(asked, {"stripe_account": account}))
    assert error.http_status == 400


def test_an_account_that_is_not_connected_is_a_permission_error(place: Place) -> None:
    """403 `account_invalid` (docs.stripe.com/error-codes): a certain refusal, not an outage."""
    error = refusal(lambda: _payout(place, "acct_none0000000000", 100), stripe.PermissionError)
    assert (error.http_status, error_of(error)["code"]) == (403, "account_invalid")


@pytest.mark.local_only(
    "what the bank does is said by a control verb; live it takes days, or has happened before one looks"
)
@pytest.mark.parametrize("code", ["account_closed", "no_account"])
def test_a_payout_that_fails_gives_the_money_back(place: Place, account: str, code: str) -> None:
    """`failed` with a code and a message, a balance transaction that gives back, and an event; also after it was `paid`."""
    _funded(place)
    _transfer(place, account)
    before = _available(place, account)
    made = _payout(place, account, 700)
    place.service.arrive(made.id, "in_transit")
    place.service.arrive(made.id, "paid")
    place.service.arrive(made.id, "failed", failure_code=code)
    read = place.client.v1.payouts.retrieve(made.id, None, {"stripe_account": account})
    assert (read.status, read.failure_code) == ("failed", code)
    assert read.failure_message
    assert read.failure_balance_transaction is not None
    assert _available(place, account) == before
    told = place.client.v1.events.list({"limit": 4}, {"stripe_account": account}).data
    assert [one.type for one in told] == ["payout.failed", "payout.paid", "payout.updated", "payout.created"]
    assert {one.account for one in told} == {account}


@pytest.mark.local_only("a payout of a test account may have left `pending` before it can be canceled")
def test_only_a_pending_payout_can_be_canceled(place: Place, account: str) -> None:
    """Canceled, the money is back; under way it is a 400."""
    _funded(place)
    _transfer(place, account)
    before, options = _available(place, account), {"stripe_account": account}
    canceled = place.client.v1.payouts.cancel(_payout(place, account, 700).id, None, options)  # type: ignore[arg-type]
    assert canceled.status == "canceled"
    assert _available(place, account) == before
    under_way = _payout(place, account, 700)
    place.service.arrive(under_way.id, "in_transit")
    error = refusal(lambda: place.client.v1.payouts.cancel(under_way.id, None, options))  # type: ignore[arg-type]
    assert error.http_status == 400


@pytest.mark.local_only("a payout has to have been paid, which takes days live")
def test_a_paid_payout_can_be_reversed_once(place: Place, account: str) -> None:
    """A reversal is a payout of the negative amount that names the first, which names it; a second one is refused."""
    _funded(place)
    _transfer(place, account)
    options: Any = {"stripe_account": account}
    made = _payout(place, account, 700)
    assert refusal(lambda: place.client.v1.payouts.reverse(made.id, None, options)).http_status == 400
    place.service.arrive(made.id, "paid")
    back = place.client.v1.payouts.reverse(made.id, None, options)
    assert (back.amount, back.original_payout, back.status) == (-700, made.id, "pending")
    read = place.client.v1.payouts.retrieve(made.id, None, options)
    assert (read.reversed_by, read.status) == (back.id, "paid")
    assert refusal(lambda: place.client.v1.payouts.reverse(made.id, None, options)).http_status == 400


@pytest.mark.local_only("an account that is not verified has to be made, which only some test accounts may")
def test_an_account_with_open_requirements_neither_receives_nor_pays_out(place: Place) -> None:
    """`insufficient_capabilities_for_transfer` for a transfer to it, `payouts_not_allowed` for a payout of it."""
    _funded(place)
    bare: Any = {"type": "custom", "country": "US", "capabilities": {"transfers": {"requested": True}}}
    made = place.client.v1.accounts.create(bare)
    assert made.payouts_enabled is False
    assert made.requirements is not None
    assert "external_account" in (made.requirements.currently_due or [])
    error = refusal(lambda: _transfer(place, made.id))
    assert (error.http_status, error.code) == (400, "insufficient_capabilities_for_transfer")
    error = refusal(lambda: _payout(place, made.id, 100))
    assert (error.http_status, error.code) == (400, "payouts_not_allowed")
