"""Payments, transfers, payouts, credit grants and customer balances: once each, through a crash, and not when others did it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
import stripe

from benchmarks.services.stripe import LocalStripe
from interlock import Interlock, Outcome
from interlock.errors import BadInput, PremiseUnreadable
from interlock.targets.stripe import (
    StripeMove,
    stripe_credit_grant,
    stripe_customer_balance,
    stripe_payment_intent,
    stripe_payout,
    stripe_transfer,
)
from interlock.testing import SimulatedCrash
from tests.targets.stripe.conftest import Later, pay

OpenGate = Callable[..., Interlock]


class Row(NamedTuple):
    """One kind of move.

    Attributes:
        make: the target.
        prepare: makes whom it is for, and gives the case's fields.
        by_hand: the same, done by a person.
        listed: everything that was made for the case.
        amount: what is moved.
    """

    make: Callable[..., StripeMove[Outcome]]
    prepare: Callable[[stripe.StripeClient], dict[str, str]]
    by_hand: Callable[[stripe.StripeClient, dict[str, str], int], Any]
    listed: Callable[[stripe.StripeClient, dict[str, str]], list[Any]]
    amount: int


def customer(client: stripe.StripeClient) -> dict[str, str]:
    return {"customer": client.v1.customers.create({"email": "ada@example.com"}).id}


def account(client: stripe.StripeClient) -> dict[str, str]:
    """A connected account that can take transfers and has a bank account."""
    made = client.v1.accounts.create(
        {
            "type": "custom",
            "country": "US",
            "business_type": "individual",
            "capabilities": {"transfers": {"requested": True}, "card_payments": {"requested": True}},
            "external_account": {
                "object": "bank_account",
                "country": "US",
                "currency": "usd",
                "account_number": "000123456789",
                "routing_number": "110000000",
            },
            "tos_acceptance": {"date": 1_700_000_000, "ip": "127.0.0.1"},
        }
    )
    return {"destination": made.id}


def grant(client: stripe.StripeClient, case: dict[str, str], amount: int) -> Any:
    return client.v1.billing.credit_grants.create(
        {
            "customer": case["customer"],
            "amount": {"type": "monetary", "monetary": {"value": amount, "currency": "usd"}},
            "category": "promotional",
            "applicability_config": {"scope": {"price_type": "metered"}},
        }
    )


ROWS = {
    "balance": Row(
        stripe_customer_balance,
        customer,
        lambda client, case, amount: client.v1.customers.balance_transactions.create(
            case["customer"], {"amount": amount, "currency": "usd"}
        ),
        lambda client, case: client.v1.customers.balance_transactions.list(case["customer"]).data,
        -2000,
    ),
    "grant": Row(
        stripe_credit_grant,
        customer,
        grant,
        lambda client, case: client.v1.billing.credit_grants.list({"customer": case["customer"]}).data,
        2000,
    ),
    "payout": Row(
        stripe_payout,
        lambda client: {},
        lambda client, case, amount: client.v1.payouts.create({"amount": amount, "currency": "usd"}),
        lambda client, case: client.v1.payouts.list().data,
        2000,
    ),
    "transfer": Row(
        stripe_transfer,
        account,
        lambda client, case, amount: client.v1.transfers.create(
            {"amount": amount, "currency": "usd", "destination": case["destination"]}
        ),
        lambda client, case: client.v1.transfers.list({"destination": case["destination"]}).data,
        2000,
    ),
}


@pytest.fixture
def own(tmp_path: Any) -> Any:
    """A service of the test's own, with money in its balance."""
    with LocalStripe(tmp_path / "stripe") as service:
        pay(service.client(), 50_000, payment_method="pm_card_bypassPending")
        yield service


def declared(gate: Interlock, client: stripe.StripeClient, row: Row) -> StripeMove[Outcome]:
    return row.make(gate, client, key=lambda case: f"case:{case.id}", currency="usd", settle_after=0)


@pytest.mark.parametrize("kind", ROWS)
def test_moves_once(open_gate: OpenGate, own: LocalStripe, kind: str) -> None:
    """Done, done before, and settled after a crash on either side of the send: one object each, marked as ours."""
    row, client, gate = ROWS[kind], own.client(), open_gate()
    case = {"id": "1", **row.prepare(client)}
    move = declared(gate, client, row)
    first = move(case, amount=row.amount, description="case 1")
    assert str(first) == "COMMITTED", first.for_person
    assert str(move(case, amount=row.amount)) == "DUPLICATE_IGNORED"
    assert str(move(case, amount=row.amount * 2)) == "REFUSED:conflicting_payload"
    crashes = (("2", "crash_before_effect", "COMMITTED_BY_RETRY"), ("3", "crash_after_effect", "COMMITTED_ON_QUERY"))
    for number, where, wanted in crashes:
        with pytest.raises(SimulatedCrash):
            gate.submit(move.proposal({**case, "id": number}, amount=row.amount), **{where: True})
        gate = open_gate()
        move = declared(gate, client, row)
        (outcome,) = gate.recover()
        assert str(outcome) == wanted, outcome.for_person
    made = row.listed(client, case)
    assert len(made) == 3
    assert all(thing.metadata.to_dict()["interlock_effect_id"] for thing in made)


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("by_hand", [1.0, 0.5])
def test_the_same_by_hand_stops_it(open_gate: OpenGate, own: LocalStripe, kind: str, by_hand: float) -> None:
    """A person did it during the outage: it is not done again. What comes to less does not stop it."""
    row, client, gate = ROWS[kind], own.client(), open_gate()
    case = {"id": "1", **row.prepare(client)}
    with pytest.raises(SimulatedCrash):
        gate.submit(declared(gate, client, row).proposal(case, amount=row.amount), crash_before_effect=True)
    row.by_hand(client, case, int(row.amount * by_hand))
    gate = open_gate()
    declared(gate, client, row)
    (outcome,) = gate.recover(wait=5)
    wanted = "REFUSED:stale_premise_at_recovery" if by_hand == 1.0 else "COMMITTED_BY_RETRY"
    assert str(outcome) == wanted, outcome.for_person
    assert len(row.listed(client, case)) == (1 if by_hand == 1.0 else 2)


@pytest.mark.parametrize("kind", ROWS)
def test_lost_key_is_looked_up(open_gate: OpenGate, own: LocalStripe, kind: str) -> None:
    """A 500 after it acted: the key only replays the error, so our own object is found by its mark."""
    row, client, gate = ROWS[kind], own.client(), open_gate()
    case = {"id": "1", **row.prepare(client)}
    own.fault(method="POST", path="/v1/*", kind="error_500_after")
    outcome = declared(gate, client, row)(case, amount=row.amount)
    assert str(outcome) == "COMMITTED_ON_QUERY", outcome.for_person
    assert len(row.listed(client, case)) == 1


def test_payout_of_a_connected_account(open_gate: OpenGate, own: LocalStripe) -> None:
    """A payout is made from the balance of the account that the case names, and settles there."""
    client, gate = own.client(), open_gate()
    where = account(client)["destination"]
    client.v1.transfers.create({"amount": 5000, "currency": "usd", "destination": where})
    payout = stripe_payout(gate, client, key=lambda case: f"p:{case.id}", currency="usd")
    outcome = payout({"id": "1", "account": where}, amount=2000)
    assert str(outcome) == "COMMITTED", outcome.for_person
    assert [one.amount for one in client.v1.payouts.list({}, {"stripe_account": where}).data] == [2000]
    own.arrive(outcome.value.id, "paid")
    assert gate.resettle(outcome.effect_id).settlement == "settled"


def test_accounts_and_customers_that_are_not_there(open_gate: OpenGate, own: LocalStripe) -> None:
    """No such account, no such customer: a fact that forbids."""
    client, gate = own.client(), open_gate()

    def key(case: Any) -> str:
        return f"k:{case.id}"

    transfer = stripe_transfer(gate, client, key=key, currency="usd")
    outcome = transfer({"id": "1", "destination": "acct_nosuch"}, amount=100)
    assert str(outcome) == "REFUSED:premise_false"
    change = stripe_customer_balance(gate, client, key=key, currency="usd")
    outcome = change({"id": "1", "customer": "cus_nosuch"}, amount=-100)
    assert "no such customer" in outcome.for_person


@pytest.mark.parametrize("kind", ["payout", "payment"])
def test_clock_far_ahead_stops_it(tmp_path: Any, own: LocalStripe, kind: str) -> None:
    """A machine two days ahead of Stripe could not find again what it makes now, so it makes nothing."""
    client = own.client()
    with Interlock(tmp_path / "ahead", clock=Later(timedelta(days=2))) as gate:

        def key(case: Any) -> str:
            return f"k:{case.id}"

        make: Any = stripe_payout if kind == "payout" else stripe_payment_intent
        with pytest.raises(PremiseUnreadable, match="ahead of Stripe"):
            make(gate, client, key=key, currency="usd")({"id": "1"}, amount=1000)
    assert client.v1.payouts.list().data == []


AUTHORIZED = {
    "payment_method": "pm_card_visa",
    "confirm": True,
    "capture_method": "manual",
    "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
}


def test_payment_is_created_captured_and_canceled_once(open_gate: OpenGate, own: LocalStripe) -> None:
    """A payment is authorized, captured and another canceled, each once, and each through a lost answer."""
    client, gate = own.client(), open_gate()

    def key(case: Any) -> str:
        return f"k:{case.id}"

    create = stripe_payment_intent(gate, client, key=key, currency="usd")
    capture = stripe_payment_intent(gate, client, key=key, action="capture")
    cancel = stripe_payment_intent(gate, client, key=key, action="cancel")
    own.fault(method="POST", path="/v1/payment_intents", kind="error_500_after")
    first = create({"id": "1"}, amount=5000, params=AUTHORIZED)
    assert str(first) == "COMMITTED_ON_QUERY", first.for_person
    assert first.value.status == "requires_capture"
    second = create({"id": "2"}, amount=5000, params=AUTHORIZED)

    own.fault(method="POST", path="/v1/payment_intents/*/capture", kind="error_500_after")
    captured = capture({"id": "1", "payment_intent": first.value.id}, amount=3000)
    assert str(captured) == "COMMITTED_ON_QUERY", captured.for_person
    assert client.v1.payment_intents.retrieve(first.value.id).amount_received == 3000
    assert str(capture({"id": "1", "payment_intent": first.value.id}, amount=3000)) == "DUPLICATE_IGNORED"
    assert str(capture({"id": "9", "payment_intent": first.value.id}, amount=3000)) == "REFUSED:premise_false"

    own.fault(method="POST", path="/v1/payment_intents/*/cancel", kind="error_500_after")
    canceled = cancel({"id": "2", "payment_intent": second.value.id})
    assert str(canceled) == "COMMITTED_ON_QUERY", canceled.for_person
    assert client.v1.payment_intents.retrieve(second.value.id).status == "canceled"


@pytest.mark.parametrize("by_hand", ["capture", "cancel"])
@pytest.mark.parametrize("made_by", ["create", "confirm"])
def test_payment_is_found_whatever_was_done_with_it_since(
    open_gate: OpenGate, own: LocalStripe, made_by: str, by_hand: str
) -> None:
    """Authorized, crashed, then captured through the gate or canceled by a person: it landed, though it is not approved any more."""
    client, approved = own.client(), True

    def start() -> tuple[Interlock, Any]:
        gate = open_gate()
        options: Any = {"currency": "usd", "settle_after": 0, "approval": lambda case: approved}
        action: Any = made_by
        return gate, stripe_payment_intent(gate, client, key=lambda case: f"k:{case.id}", action=action, **options)

    gate, make = start()
    gate.recover()
    held = dict(AUTHORIZED)
    if made_by == "create":
        proposal = make.proposal({"id": "1"}, amount=5000, params=held)
    else:
        del held["confirm"]
        waiting = client.v1.payment_intents.create({"amount": 5000, "currency": "usd", **held})
        proposal = make.proposal({"id": "1", "payment_intent": waiting.id})
    with pytest.raises(SimulatedCrash):
        gate.submit(proposal, crash_after_effect=True)
    made = client.v1.payment_intents.list().data[0]
    assert made.status == "requires_capture"

    gate, make = start()
    if by_hand == "cancel":
        client.v1.payment_intents.cancel(made.id)
    else:
        capture = stripe_payment_intent(gate, client, key=lambda case: f"k:{case.id}", action="capture")
        assert str(capture({"id": "1", "payment_intent": made.id})) == "COMMITTED"
        assert str(capture({"id": "1", "payment_intent": made.id})) == "DUPLICATE_IGNORED"
    approved = False
    assert [str(outcome) for outcome in gate.recover()] == ["COMMITTED_ON_QUERY"]


@pytest.mark.parametrize("declined", [True, False])
def test_payment_that_nobody_made_is_not_found_once_it_is_canceled(
    open_gate: OpenGate, own: LocalStripe, declined: bool
) -> None:
    """Declined, or never confirmed, and then canceled by a person: it did not land, and the record does not say so."""
    client, approved = own.client(), True
    how = {**AUTHORIZED, "payment_method": "pm_card_chargeDeclined" if declined else "pm_card_visa"}
    waiting = client.v1.payment_intents.create(
        {"amount": 5000, "currency": "usd", **{name: value for name, value in how.items() if name != "confirm"}}
    )

    def start() -> tuple[Interlock, Any, Any]:
        gate = open_gate()
        options: Any = {"settle_after": 0, "approval": lambda case: approved, "key": lambda case: f"k:{case.id}"}
        return (
            gate,
            stripe_payment_intent(gate, client, currency="usd", **options),
            stripe_payment_intent(gate, client, action="confirm", **options),
        )

    gate, create, confirm = start()
    gate.recover()
    crash = "crash_after_effect" if declined else "crash_before_effect"
    with pytest.raises(SimulatedCrash):
        gate.submit(create.proposal({"id": "1"}, amount=5000, params=how), **{crash: True})
    gate, create, confirm = start()
    with pytest.raises(SimulatedCrash):
        gate.submit(confirm.proposal({"id": "1", "payment_intent": waiting.id}), **{crash: True})
    for payment in client.v1.payment_intents.list().data:
        if payment.status not in ("succeeded", "canceled"):
            client.v1.payment_intents.cancel(payment.id)
    approved = False
    gate, create, confirm = start()
    assert [str(outcome) for outcome in gate.recover()] == ["REFUSED:lease_at_recovery"] * 2


def test_payment_that_is_declined_failed(open_gate: OpenGate, own: LocalStripe) -> None:
    """A declined card: FAILED, with the service's words; another card is another request under a new decision."""
    client, gate = own.client(), open_gate()
    create = stripe_payment_intent(gate, client, key=lambda case: f"k:{case.id}", currency="usd")
    declined = {**AUTHORIZED, "payment_method": "pm_card_chargeDeclinedInsufficientFunds"}
    outcome = create({"id": "1"}, amount=5000, params=declined)
    assert str(outcome) == "FAILED:card_declined"
    assert "insufficient funds" in outcome.for_person.lower()


def test_confirm_once(open_gate: OpenGate, own: LocalStripe) -> None:
    """A payment that waits is confirmed once; a declined confirmation has failed."""
    client, gate = own.client(), open_gate()
    confirm = stripe_payment_intent(gate, client, key=lambda case: f"k:{case.id}", action="confirm")
    waiting = client.v1.payment_intents.create(
        {"amount": 5000, "currency": "usd", "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"}}
    )
    failed = confirm({"id": "1", "payment_intent": waiting.id}, params={"payment_method": "pm_card_chargeDeclined"})
    assert str(failed) == "FAILED:card_declined"
    done = confirm({"id": "2", "payment_intent": waiting.id}, params={"payment_method": "pm_card_visa"})
    assert str(done) == "COMMITTED", done.for_person
    assert done.value.status == "succeeded"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"amount": 100}, "no currency"),
        ({"amount": 0, "currency": "usd"}, "more than nothing"),
        ({"amount": -5, "currency": "usd"}, "more than nothing"),
        ({"amount": 105, "currency": "kwd"}, "last digit"),
        ({"amount": 150, "currency": "isk"}, "both must be 0"),
        ({"amount": 100, "currency": "us"}, "three-letter"),
        ({"amount": 100, "currency": "usd", "params": {"amount": 5}}, "by itself"),
        ({"amount": 100, "currency": "usd", "params": {"destination": "acct_2"}}, "by itself"),
        ({"amount": 100, "currency": "usd", "params": [1]}, "give a dict"),
        ({"amount": 100, "currency": "usd", "description": 5}, "give a text"),
    ],
)
def test_bad_calls_are_refused_at_the_door(
    gate: Interlock, client: stripe.StripeClient, given: dict[str, Any], message: str
) -> None:
    """What cannot be meant is refused before anything is written or sent."""
    transfer = stripe_transfer(gate, client, key=lambda case: "k", destination="acct_1")
    with pytest.raises(BadInput, match=message):
        transfer("case 1", **given)
