"""Money, events and webhooks under races and kills: what belongs together is there together or not at all."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import stripe

from benchmarks.services.stripe import LocalStripe, ServiceError


def test_no_refund_is_made_once_a_chargeback_posted(
    service: LocalStripe, client: stripe.StripeClient, pay: Any
) -> None:
    """Eight clients refund while the card holder disputes: before it some succeed, after it every one is refused."""
    payment = pay()
    charge = str(payment.latest_charge)
    started = threading.Barrier(9)

    def refund(number: int) -> list[str]:
        own, told = service.client(), []
        started.wait()
        for turn in range(120):
            asked: Any = {"payment_intent": payment.id, "amount": 10}
            try:
                own.v1.refunds.create(asked, {"idempotency_key": f"{payment.id}-{number}-{turn}"})
                told.append("made")
            except stripe.InvalidRequestError as error:
                told.append(str(error.code))
                if len(told) > 3 and told[-3:] == ["charge_disputed"] * 3:
                    break
        return told

    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(refund, number) for number in range(8)]
        started.wait()
        service.dispute(charge)
        told = Counter(word for one in waiting for word in one.result())
    kinds = [
        event["type"]
        for event in service.events()
        if event["data"]["object"].get("charge") == charge
        and event["type"] in ("refund.created", "charge.dispute.created")
    ]
    assert set(told) <= {"made", "charge_disputed"}
    assert kinds == ["refund.created"] * told["made"] + ["charge.dispute.created"]
    assert told["charge_disputed"] > 0


def test_one_of_many_disputes_at_once_is_made(service: LocalStripe, pay: Any) -> None:
    """A charge has one open dispute, however many verbs arrive together."""
    charge = str(pay().latest_charge)

    def dispute(_: int) -> bool:
        try:
            service.dispute(charge)
        except ServiceError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(dispute, range(8))) == 1


def test_kills_keep_money_and_events_together(own: LocalStripe, receiver: Any, pay: Any) -> None:
    """After SIGKILLs in the middle each refund has one event, one movement and one queued webhook, and none stands alone."""
    client = own.client(timeout_s=3.0)
    hook = client.v1.webhook_endpoints.create({"url": receiver.url, "enabled_events": ["refund.created"]})
    assert hook.secret is not None
    payment = pay(by=client, amount=1_000_000)
    for round_number in range(3):
        stop = threading.Event()

        def refund(number: int, stop: threading.Event = stop, turn: int = round_number) -> None:
            count = 0
            while not stop.is_set():
                count += 1
                asked: Any = {"payment_intent": payment.id, "amount": 100}
                with contextlib.suppress(stripe.APIConnectionError):
                    client.v1.refunds.create(asked, {"idempotency_key": f"{turn}-{number}-{count}"})

        with ThreadPoolExecutor(3) as pool:
            work = [pool.submit(refund, number) for number in range(3)]
            receiver.wait(len(receiver.got) + 5)
            own.kill()
            stop.set()
            for one in work:
                one.result()
        own.start()
    books = own.ledger()
    refunds = [one["id"] for one in books["refunds"]]
    assert len(refunds) >= 10
    events = [one for one in books["events"] if one["type"] == "refund.created"]
    assert [one["data"]["object"]["id"] for one in events] == refunds
    moved = [one["source"] for one in books["balance_transactions"] if one["type"] == "refund"]
    assert moved == refunds
    assert {one["event"] for one in own.deliveries()} == {one["id"] for one in events}
    wanted = {one["id"] for one in events}
    for _ in range(200):
        if {one.id for one in receiver.events(hook.secret)} >= wanted:
            break
        threading.Event().wait(0.05)
    assert {one.id for one in receiver.events(hook.secret)} == wanted
    charge = next(one for one in books["charges"] if one["id"] == payment.latest_charge)
    assert charge["amount_refunded"] == 100 * len(refunds)


def test_an_endpoint_for_connected_accounts_hears_of_those_alone(
    client: stripe.StripeClient, receiver: Any, service: LocalStripe, pay: Any
) -> None:
    """`connect=true` hears of connected accounts, with the `account` on the event; the others of the platform."""
    asked: Any = {
        "type": "custom",
        "country": "US",
        "capabilities": {"transfers": {"requested": True}},
        "external_account": {
            "object": "bank_account",
            "country": "US",
            "currency": "usd",
            "routing_number": "110000000",
            "account_number": "000123456789",
        },
        "tos_acceptance": {"date": 1, "ip": "127.0.0.1"},
    }
    account = client.v1.accounts.create(asked).id
    pay("pm_card_bypassPending", amount=500_000)
    hook: Any = {"url": receiver.url, "enabled_events": ["*"], "connect": True}
    secret = client.v1.webhook_endpoints.create(hook).secret
    assert secret is not None
    client.v1.transfers.create({"amount": 500, "currency": "usd", "destination": account})
    client.v1.payouts.create({"amount": 500, "currency": "usd"}, {"stripe_account": account})
    receiver.wait(1)
    told = receiver.events(secret)
    assert [(event.type, event.account) for event in told] == [("payout.created", account)]
    listed = client.v1.events.list({"type": "payout.created"}, {"stripe_account": account}).data
    assert [event.id for event in listed] == [told[0].id]
    assert told[0].id not in {event.id for event in client.v1.events.list({"limit": 100}).data}


@pytest.mark.parametrize(
    ("path", "expanded"),
    [
        ("latest_charge.balance_transaction", "balance_transaction"),
        ("latest_charge.payment_intent", "payment_intent"),
        ("latest_charge.refunds", "list"),
    ],
)
def test_expansions_reach_through(client: stripe.StripeClient, pay: Any, path: str, expanded: str) -> None:
    """A path of two references expands both."""
    payment = client.v1.payment_intents.retrieve(pay().id, {"expand": [path]}).to_dict()
    assert payment["latest_charge"][path.partition(".")[2]]["object"] == expanded


def test_another_process_steers_money_too(service: LocalStripe, client: stripe.StripeClient, pay: Any) -> None:
    """Attached by its address, a service takes the same verbs, and shows the same books."""
    remote = LocalStripe.attach(service.url)
    payment = pay()
    made = client.v1.refunds.create({"payment_intent": payment.id, "amount": 100})
    assert remote.settle_refund(made.id, "pending")["status"] == "pending"
    dispute = remote.dispute(str(payment.latest_charge))
    assert client.v1.refunds.retrieve(made.id).failure_reason == "charge_for_pending_refund_disputed"
    assert remote.close_dispute(dispute, "lost")["status"] == "lost"
    assert remote.events() == service.events()
    with pytest.raises(ServiceError, match="No such dispute"):
        remote.escalate("du_unknown")
