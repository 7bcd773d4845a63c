"""Customers, credits, accounts, transfers and payouts of the local service: shapes, events, faults, time and the file on disk.

What real Stripe is relied on for stands in tests/contract/stripe; here is what only the local service can be asked.
"""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import stripe

from benchmarks.services.stripe import LocalStripe, ServiceError
from benchmarks.services.stripe.accounts import BANK_ACCOUNTS

DAY_S = 24 * 60 * 60
Pay = Any


def account(client: stripe.StripeClient, *, bank: str = "000123456789", country: str = "US", **more: Any) -> str:
    """A connected account that can receive and pay out."""
    asked: Any = {
        "type": "custom",
        "country": country,
        "capabilities": {"transfers": {"requested": True}},
        "tos_acceptance": {"date": 1_700_000_000, "ip": "127.0.0.1"},
        "external_account": {"object": "bank_account", "country": country, "account_number": bank},
        **more,
    }
    return client.v1.accounts.create(asked).id


def transfer(client: stripe.StripeClient, to: str, amount: int, **more: Any) -> stripe.Transfer:
    asked: Any = {"amount": amount, "currency": "usd", "destination": to, **more}
    return client.v1.transfers.create(asked)


def payout(client: stripe.StripeClient, by: str, amount: int, key: str | None = None) -> stripe.Payout:
    options: Any = {"stripe_account": by} | ({} if key is None else {"idempotency_key": key})
    return client.v1.payouts.create({"amount": amount, "currency": "usd"}, options)


def of_account(identifier: str) -> Any:
    return {"stripe_account": identifier}


def balance(client: stripe.StripeClient, by: str | None = None, currency: str = "usd") -> tuple[int, int]:
    """Available and pending, in minor units."""
    told = client.v1.balance.retrieve(None, {} if by is None else of_account(by))
    available = sum(one.amount for one in told.available if one.currency == currency)
    return available, sum(one.amount for one in told.pending if one.currency == currency)


# --- shapes -------------------------------------------------------------------------------------------------------

# As in Stripe's OpenAPI fixtures; a question mark where the field may be null.
SHAPES = {
    "customer": {
        "int": "balance created next_invoice_sequence",
        "str": "id invoice_prefix object tax_exempt",
        "bool": "delinquent livemode",
        "dict": "invoice_settings metadata",
        "list": "preferred_locales",
        "dict?": "address discount shipping",
        "str?": "currency default_source description email name phone test_clock",
    },
    "customer_balance_transaction": {
        "int": "amount created ending_balance",
        "str": "currency customer id object type",
        "bool": "livemode",
        "dict": "metadata",
        "str?": "checkout_session credit_note customer_account description invoice",
    },
    "billing.credit_grant": {
        "int": "created priority updated",
        "str": "category customer id object",
        "bool": "livemode",
        "dict": "amount applicability_config metadata",
        "int?": "effective_at expires_at voided_at",
        "str?": "customer_account name test_clock",
    },
    "transfer": {
        "int": "amount amount_reversed created",
        "str": "balance_transaction currency destination destination_payment id object source_type",
        "bool": "livemode reversed",
        "dict": "metadata reversals",
        "str?": "description source_transaction transfer_group",
    },
    "transfer_reversal": {
        "int": "amount created",
        "str": "balance_transaction currency destination_payment_refund id object transfer",
        "dict": "metadata",
        "str?": "source_refund",
    },
    "payout": {
        "int": "amount arrival_date created",
        "str": "balance_transaction currency destination id method object reconciliation_status source_type status type",
        "bool": "automatic livemode",
        "dict": "metadata",
        "int?": "application_fee_amount",
        "dict?": "trace_id",
        "str?": "application_fee description failure_balance_transaction failure_code failure_message original_payout"
        " payout_method reversed_by statement_descriptor",
    },
}
TYPES: dict[str, type] = {"int": int, "str": str, "bool": bool, "dict": dict, "list": list}


def test_objects_have_stripes_fields_and_types(client: stripe.StripeClient, pay: Pay) -> None:
    """Every object has exactly the fields of Stripe's fixtures, each of its type."""
    customer = client.v1.customers.create({"email": "a@example.com"})
    adjusted = client.v1.customers.balance_transactions.create(customer.id, {"amount": -1, "currency": "usd"})
    grant: Any = {
        "customer": customer.id,
        "amount": {"type": "monetary", "monetary": {"currency": "usd", "value": 100}},
        "applicability_config": {"scope": {"prices": [{"id": "price_1"}]}},
    }
    to = account(client)
    pay("pm_card_bypassPending")
    moved = transfer(client, to, 500)
    shown: list[Any] = [
        customer,
        adjusted,
        client.v1.billing.credit_grants.create(grant),
        moved,
        client.v1.transfers.reversals.create(moved.id, {"amount": 100}),
        payout(client, to, 400),
    ]
    for one in shown:
        body = one.to_dict()
        expected = {
            name: (TYPES[kind.rstrip("?")], kind.endswith("?"))
            for kind, names in SHAPES[body["object"]].items()
            for name in names.split()
        }
        assert sorted(body) == sorted(expected)
        for name, (wanted, may_be_null) in expected.items():
            assert type(body[name]) is wanted or (may_be_null and body[name] is None), f"{name}: {body[name]!r}"


# --- accounts -----------------------------------------------------------------------------------------------------


def test_an_account_says_what_it_lacks(client: stripe.StripeClient) -> None:
    """Without terms and a bank account its capabilities are inactive and payouts are off; with both they are on."""
    bare: Any = {"type": "custom", "capabilities": {"transfers": {"requested": True}}}
    made = client.v1.accounts.create(bare)
    assert (made.payouts_enabled, made.details_submitted) == (False, False)
    assert made.requirements is not None
    assert made.requirements.currently_due == ["external_account", "tos_acceptance.date", "tos_acceptance.ip"]
    full = client.v1.accounts.retrieve(account(client))
    assert (full.payouts_enabled, full.default_currency, full.country) == (True, "usd", "US")
    assert [one.id for one in client.v1.accounts.list({"limit": 1}).data] == [full.id]
    own: Any = client.v1.accounts.retrieve_current(None, of_account(full.id))
    assert own.id == full.id


def test_a_person_is_shown_without_their_secrets(client: stripe.StripeClient) -> None:
    """Who stands behind an account is on it; an id number is only said to have been given."""
    made = client.v1.accounts.retrieve(
        account(client, business_type="individual", individual={"first_name": "Jenny", "id_number": "000000000"})
    )
    assert made.individual is not None
    assert (made.individual.first_name, made.individual.id_number_provided) == ("Jenny", True)
    assert "000000000" not in str(made.to_dict())


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"type": "custom", "controller": {"fees": {"payer": "account"}}}, "type"),
        ({"type": "custom", "country": "XX"}, "country"),
        ({"type": "custom", "surprise": "1"}, "surprise"),
        ({"type": "custom", "settings": {"payouts": {"statement_descriptor": "X"}}}, "settings"),
        ({"type": "custom", "capabilities": {"flying": {"requested": True}}}, "capabilities[flying]"),
        (
            {"type": "custom", "external_account": {"object": "bank_account", "country": "US", "account_number": "1"}},
            "external_account[account_number]",
        ),
    ],
)
def test_wrong_accounts_are_refused(client: stripe.StripeClient, asked: Any, param: str) -> None:
    """What is not modelled or not real is refused by name, and never ignored."""
    with pytest.raises(stripe.InvalidRequestError) as caught:
        client.v1.accounts.create(asked)
    assert (caught.value.http_status, caught.value.param) == (400, param)


def test_the_account_header_is_refused_where_it_is_not_modelled(client: stripe.StripeClient) -> None:
    """A charge of a connected account's own is not modelled: the header is not dropped in silence."""
    with pytest.raises(stripe.InvalidRequestError, match="does not model the Stripe-Account header"):
        client.v1.refunds.list({}, of_account(account(client)))


# --- balance, transfers -------------------------------------------------------------------------------------------


def test_a_charge_is_pending_for_two_days(own: LocalStripe) -> None:
    """Money of an ordinary test card can be transferred only when it is available; `pm_card_bypassPending` is so at once."""
    client = own.client()
    paid: Any = {
        "amount": 1_000,
        "currency": "usd",
        "payment_method": "pm_card_visa",
        "confirm": True,
        "payment_method_types": ["card"],
    }
    client.v1.payment_intents.create(paid)
    to = account(client)
    _, pending = balance(client)
    assert pending > 0
    with pytest.raises(stripe.InvalidRequestError) as caught:
        transfer(client, to, 100)
    assert caught.value.code == "balance_insufficient"
    own.advance(8 * DAY_S)
    assert balance(client) == (pending, 0)
    transfer(client, to, 100)
    assert balance(client) == (pending - 100, 0)


def test_a_transfer_from_a_charge_waits_for_the_charge(own: LocalStripe) -> None:
    """With `source_transaction` it is made at once and its money becomes available with the charge's; the group is named."""
    client = own.client()
    paid: Any = {
        "amount": 1_000,
        "currency": "usd",
        "payment_method": "pm_card_visa",
        "confirm": True,
        "payment_method_types": ["card"],
    }
    intent = client.v1.payment_intents.create(paid)
    to = account(client)
    made = transfer(client, to, 500, source_transaction=str(intent.latest_charge))
    assert made.transfer_group == f"group_{intent.id}"
    assert balance(client, to) == (0, 500)
    with pytest.raises(stripe.InvalidRequestError):
        payout(client, to, 500)
    own.advance(8 * DAY_S)
    assert balance(client, to) == (500, 0)
    payout(client, to, 500)


def test_racing_transfers_never_exceed_the_balance(own: LocalStripe) -> None:
    """Eight clients race for one balance: exactly as many land as it covers, and the sum of the book is what is left."""
    client = own.client()
    paid: Any = {
        "amount": 1_000,
        "currency": "usd",
        "payment_method": "pm_card_bypassPending",
        "confirm": True,
        "payment_method_types": ["card"],
    }
    client.v1.payment_intents.create(paid)
    to, (before, _) = account(client), balance(client)
    start = threading.Barrier(8)

    def send(_: int) -> str:
        mine = own.client()
        start.wait()
        try:
            transfer(mine, to, 300)
        except stripe.InvalidRequestError as error:
            return str(error.code)
        return "landed"

    with ThreadPoolExecutor(8) as pool:
        answers = Counter(pool.map(send, range(8)))
    assert answers == {"landed": before // 300, "balance_insufficient": 8 - before // 300}
    assert balance(client, to) == (300 * (before // 300), 0)
    assert len(own.ledger()["transfers"]) == before // 300


def test_references_of_transfers_and_grants_expand(client: stripe.StripeClient, pay: Pay) -> None:
    """`destination`, `transfer` and `customer` can be expanded, in lists as well."""
    pay("pm_card_bypassPending")
    to = account(client)
    moved: Any = transfer(client, to, 100, expand=["destination"])
    assert moved.destination.object == "account"
    listed: Any = client.v1.transfers.list({"limit": 1, "expand": ["data.destination"]})
    assert listed.data[0].destination.id == to
    reversal: Any = client.v1.transfers.reversals.create(moved.id, {"expand": ["transfer", "balance_transaction"]})
    assert (reversal.transfer.id, reversal.balance_transaction.net) == (moved.id, 100)
    transfer(client, to, 100)
    paid_out: Any = client.v1.payouts.create(
        {"amount": 100, "currency": "usd", "expand": ["balance_transaction"]}, of_account(to)
    )
    assert (paid_out.balance_transaction.type, paid_out.balance_transaction.net) == ("payout", -100)
    with pytest.raises(stripe.InvalidRequestError, match=r"cannot be expanded \(color\)"):
        transfer(client, to, 1, expand=["color"])


# --- payouts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [number for number, code in BANK_ACCOUNTS.items() if code])
def test_a_test_bank_account_says_why_a_payout_fails(
    service: LocalStripe, client: stripe.StripeClient, pay: Pay, number: str
) -> None:
    """Stripe's test account numbers each stand for a failure code, which `arrive(..., "failed")` uses."""
    pay("pm_card_bypassPending")
    to = account(client, bank=number)
    transfer(client, to, 500)
    made = payout(client, to, 500)
    told = service.arrive(made.id, "failed")
    assert (told["status"], told["failure_code"]) == ("failed", BANK_ACCOUNTS[number])
    assert balance(client, to) == (500, 0)


def test_what_the_bank_cannot_do_is_refused(service: LocalStripe, client: stripe.StripeClient, pay: Pay) -> None:
    """A payout cannot become what its life does not allow, nor fail for an invented reason; nothing changes then."""
    pay("pm_card_bypassPending")
    to = account(client)
    transfer(client, to, 500)
    made = payout(client, to, 500)
    for wrong in (
        lambda: service.arrive("po_none"),
        lambda: service.arrive(made.id, "lost"),
        lambda: service.arrive(made.id, "failed", failure_code="eaten"),
        lambda: service.arrive(made.id, "paid", failure_code="no_account"),
    ):
        with pytest.raises(ServiceError, match="refused POST /_control/payouts/"):
            wrong()
    assert client.v1.payouts.retrieve(made.id, None, of_account(to)).status == "pending"
    assert service.arrive(made.id)["status"] == "paid"


def test_a_reversal_is_canceled_when_its_payout_fails(
    service: LocalStripe, client: stripe.StripeClient, pay: Pay
) -> None:
    """The bank sends a paid payout back while its reversal is pending: the reversal is canceled, and the money is there once."""
    pay("pm_card_bypassPending")
    to = account(client)
    transfer(client, to, 500)
    made = payout(client, to, 500)
    service.arrive(made.id, "paid")
    back = client.v1.payouts.reverse(made.id, None, of_account(to))
    service.arrive(made.id, "failed")
    assert client.v1.payouts.retrieve(back.id, None, of_account(to)).status == "canceled"
    assert balance(client, to) == (500, 0)


def test_a_payout_is_reversed_within_ninety_days_and_in_two_countries(own: LocalStripe) -> None:
    """Later, or from a bank elsewhere, a reversal is refused."""
    client = own.client()
    paid: Any = {
        "amount": 5_000,
        "currency": "usd",
        "payment_method": "pm_card_bypassPending",
        "confirm": True,
        "payment_method_types": ["card"],
    }
    client.v1.payment_intents.create(paid)
    client.v1.payment_intents.create({**paid, "currency": "eur"})
    late, foreign = account(client), account(client, country="DE")
    transfer(client, late, 500)
    transfer(client, foreign, 500, currency="eur")
    made = payout(client, late, 500)
    abroad = client.v1.payouts.create({"amount": 500, "currency": "eur"}, of_account(foreign))
    for one in (made, abroad):
        own.arrive(one.id, "paid")
    with pytest.raises(stripe.InvalidRequestError, match="US and in Canada"):
        client.v1.payouts.reverse(abroad.id, None, of_account(foreign))
    own.advance(93 * DAY_S)
    with pytest.raises(stripe.InvalidRequestError, match="90 days"):
        client.v1.payouts.reverse(made.id, None, of_account(late))


def test_the_platform_pays_out_too(client: stripe.StripeClient, pay: Pay, service: LocalStripe) -> None:
    """Without the header the platform's own balance goes to its own bank; that payout cannot be reversed."""
    pay("pm_card_bypassPending")
    made = client.v1.payouts.create({"amount": 100, "currency": "usd"})
    assert made.destination == "ba_local"
    service.arrive(made.id)
    assert client.v1.payouts.list({"status": "paid", "limit": 1}).data[0].id == made.id
    with pytest.raises(stripe.InvalidRequestError, match="connected accounts"):
        client.v1.payouts.reverse(made.id)


# --- durability, faults, events -----------------------------------------------------------------------------------


def test_a_dropped_payout_resent_with_its_key_is_one_payout(
    service: LocalStripe, client: stripe.StripeClient, pay: Pay
) -> None:
    """The answer is lost after the payout was made: the same key gives that payout, and the balance moved once."""
    pay("pm_card_bypassPending")
    to = account(client)
    transfer(client, to, 900)
    service.fault(method="POST", path="/v1/payouts", kind="drop_after")
    with pytest.raises(stripe.APIConnectionError):
        payout(client, to, 300, f"lost-{to}")
    again = payout(client, to, 300, f"lost-{to}")
    assert [one.id for one in client.v1.payouts.list({}, of_account(to)).data] == [again.id]
    assert balance(client, to) == (600, 0)


@pytest.mark.parametrize("path", ["/v1/transfers", "/v1/customers/*/balance_transactions", "/v1/billing/credit_grants"])
@pytest.mark.parametrize(("kind", "landed"), [("drop_before", 0), ("drop_after", 1), ("error_500_after", 1)])
def test_faults_strike_these_effects_as_they_strike_refunds(
    service: LocalStripe, client: stripe.StripeClient, pay: Pay, path: str, kind: str, landed: int
) -> None:
    """A lost answer leaves exactly what the fault's name says, for each kind of effect."""
    pay("pm_card_bypassPending")
    to, customer = account(client), client.v1.customers.create().id
    grant: Any = {
        "customer": customer,
        "amount": {"type": "monetary", "monetary": {"currency": "usd", "value": 100}},
        "applicability_config": {"scope": {"price_type": "metered"}},
    }
    doing: dict[str, tuple[Any, Any]] = {
        "/v1/transfers": (
            lambda: transfer(client, to, 100),
            lambda: client.v1.transfers.list({"destination": to}).data,
        ),
        "/v1/customers/*/balance_transactions": (
            lambda: client.v1.customers.balance_transactions.create(customer, {"amount": -1, "currency": "usd"}),
            lambda: client.v1.customers.balance_transactions.list(customer).data,
        ),
        "/v1/billing/credit_grants": (
            lambda: client.v1.billing.credit_grants.create(grant),
            lambda: client.v1.billing.credit_grants.list({"customer": customer}).data,
        ),
    }
    do, listed = doing[path]
    service.fault(method="POST", path=path, kind=kind)
    with pytest.raises(stripe.APIConnectionError if kind.startswith("drop") else stripe.APIError):
        do()
    assert len(listed()) == landed


def test_everything_survives_a_kill(tmp_path: Path) -> None:
    """After SIGKILL and a new start, accounts, balances, payouts and what the bank said are what they were."""
    with LocalStripe(tmp_path) as service:
        client = service.client()
        paid: Any = {
            "amount": 1_000,
            "currency": "usd",
            "payment_method": "pm_card_bypassPending",
            "confirm": True,
            "payment_method_types": ["card"],
        }
        client.v1.payment_intents.create(paid)
        customer = client.v1.customers.create()
        client.v1.customers.balance_transactions.create(customer.id, {"amount": -7, "currency": "usd"})
        to = account(client)
        transfer(client, to, 500)
        made = payout(client, to, 200)
        service.arrive(made.id, "failed", failure_code="account_closed")
        money = balance(client, to)
        before = service.ledger()
        service.kill()
        assert service.ledger() == before
        service.start()
        assert balance(client, to) == money == (500, 0)
        assert client.v1.payouts.retrieve(made.id, None, of_account(to)).failure_code == "account_closed"
        assert client.v1.customers.retrieve(customer.id).balance == -7
        assert [one["account"] for one in service.ledger()["payouts"]] == [to]


def test_each_change_has_its_event(client: stripe.StripeClient, pay: Pay) -> None:
    """What happened is told by type, in order, on the account it happened to; an update says what was there before."""
    pay("pm_card_bypassPending")
    to = account(client)
    customer = client.v1.customers.create({"name": "A"})
    client.v1.customers.update(customer.id, {"name": "B"})
    client.v1.customers.balance_transactions.create(customer.id, {"amount": -5, "currency": "usd"})
    moved = transfer(client, to, 500)
    client.v1.transfers.reversals.create(moved.id, {"amount": 100})
    client.v1.customers.delete(customer.id)
    told = client.v1.events.list({"limit": 6}).data[::-1]
    assert [one.type for one in told] == [
        "customer.created",
        "customer.updated",
        "customer.updated",
        "transfer.created",
        "transfer.reversed",
        "customer.deleted",
    ]
    earlier: Any = told[1].data.previous_attributes
    assert earlier["name"] == "A"
    balances: Any = told[2].data.previous_attributes
    assert (balances["balance"], told[2].data.object["balance"]) == (0, -5)
    made = payout(client, to, 100)
    (event,) = client.v1.events.list({}, of_account(to)).data
    assert (event.type, event.account, event.data.object["id"]) == ("payout.created", to, made.id)


def test_a_customer_in_two_currencies_has_two_balances(client: stripe.StripeClient) -> None:
    """`ending_balance` is per currency; `customer.balance` is in the customer's own, the first one used."""
    customer = client.v1.customers.create()
    create = client.v1.customers.balance_transactions.create
    create(customer.id, {"amount": -500, "currency": "usd"})
    assert create(customer.id, {"amount": -30, "currency": "eur"}).ending_balance == -30
    assert create(customer.id, {"amount": 100, "currency": "usd"}).ending_balance == -400
    read = client.v1.customers.retrieve(customer.id)
    assert (read.balance, read.currency) == (-400, "usd")


def test_a_grant_that_expired_can_be_neither_changed_nor_voided(own: LocalStripe) -> None:
    """After `expires_at` its expiry, expiry now, and voiding are refused; metadata can still change."""
    client = own.client()
    customer = client.v1.customers.create()
    grant: Any = {
        "customer": customer.id,
        "amount": {"type": "monetary", "monetary": {"currency": "usd", "value": 100}},
        "applicability_config": {"scope": {"price_type": "metered"}},
    }
    made = client.v1.billing.credit_grants.create(grant)
    grants = client.v1.billing.credit_grants
    assert grants.update(made.id, {"expires_at": made.created + DAY_S}).expires_at == made.created + DAY_S
    own.advance(2 * DAY_S)
    for refused in (
        lambda: grants.expire(made.id),
        lambda: grants.void_grant(made.id),
        lambda: grants.update(made.id, {"expires_at": made.created + 9 * DAY_S}),
    ):
        with pytest.raises(stripe.InvalidRequestError, match="has expired"):
            refused()
    assert grants.update(made.id, {"metadata": {"case": "7"}}).metadata.to_dict() == {"case": "7"}
