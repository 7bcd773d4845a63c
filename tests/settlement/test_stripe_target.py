"""The ready-made refund and its settlement, end to end: webhooks that overtake the answer, a worker that dies, polling alone, async."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import stripe

from benchmarks.services.stripe import LocalStripe
from interlock import Interlock, Outcome
from interlock.targets.stripe import stripe_refund, webhook_app
from interlock.testing import SimulatedCrash
from tests.settlement.endpoint import serving
from tests.settlement.test_stripe_money import eventually


@dataclass
class Case:
    """What a refund is about."""

    order: str
    payment_intent: str


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStripe]:
    """A service for all tests here."""
    with LocalStripe(tmp_path_factory.mktemp("stripe")) as service:
        yield service


def pay(service: LocalStripe, order: str) -> tuple[Case, str]:
    """A payment of $100; the case, and the charge."""
    asked: Any = {
        "amount": 10_000,
        "currency": "usd",
        "payment_method": "pm_card_visa",
        "confirm": True,
        "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
    }
    paid = service.client().v1.payment_intents.create(asked)
    return Case(order, paid.id), str(paid.latest_charge)


def by_order(case: Case) -> str:
    """The key."""
    return f"refund:{case.order}"


def gate_on(directory: Path, service: LocalStripe, *, asynchronous: list[Any] | None = None) -> tuple[Interlock, Any]:
    """A process: a gate, and the refunds on it."""
    gate = Interlock(directory)
    if asynchronous is not None:
        client = stripe.StripeClient(
            "sk_test_local", base_addresses={"api": service.url}, http_client=stripe.HTTPXClient(timeout=5)
        )
        asynchronous.append(client)
        return gate, stripe_refund(gate, client, key=by_order, asynchronous=True)
    return gate, stripe_refund(gate, service.client(), key=by_order, settle_after=0.2)


def kinds(outcome: Outcome) -> list[str]:
    """The kinds of entry after the send."""
    return [entry["kind"] for entry in outcome.receipt().entries][3:]


def test_polling_alone_finds_both(service: LocalStripe, tmp_path: Path) -> None:
    """A refund that a chargeback makes fail, and a chargeback after one that stood: both are on the record, each with its reason."""
    gate, refund = gate_on(tmp_path, service)
    gate.recover()
    failing, charge = pay(service, "failing")
    outcome = refund(failing, amount=2000)
    assert (str(outcome), outcome.settlement) == ("COMMITTED", "accepted")
    service.settle_refund(outcome.value.id, "pending")
    stood, charge_of_stood = pay(service, "stood")
    assert refund(stood, amount=2000).ok
    changes = gate.watch(every_s=0.05)
    assert [(change.key, change.settlement) for change in changes] == [("refund:stood", "settled")]
    service.dispute(charge)
    service.dispute(charge_of_stood)
    gate.watch(every_s=0.05, for_s=1.0)
    told = {outcome.key: (outcome.settlement, outcome.detail) for outcome in gate.settlements()}
    assert told == {
        "refund:failing": ("reversed", "charge_for_pending_refund_disputed"),
        "refund:stood": ("at_risk", "dispute_open: 12000 usd out on a payment of 10000"),
    }
    assert kinds(refund(failing, amount=2000)) == ["COMMITTED", "REVERSED"]
    assert kinds(refund(stood, amount=2000)) == ["COMMITTED", "SETTLED", "AT_RISK"]
    assert len(service.ledger()["refunds"]) == 2
    gate.close()


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # the SDK's own way of posting through httpx
def test_async_refunds_settle_too(service: LocalStripe, tmp_path: Path) -> None:
    """The asynchronous target is watched and read again on the event loop."""
    case, charge = pay(service, "async")

    clients: list[Any] = []

    async def run() -> list[str]:
        gate, refund = gate_on(tmp_path, service, asynchronous=clients)
        await gate.arecover()
        outcome = await refund(case, amount=2000)
        seen = [outcome.settlement]
        seen += [change.settlement for change in await gate.awatch()]
        service.dispute(charge, inquiry=True)
        seen.append((await gate.aresettle(gate.find(charge)[0])).detail)
        gate.close()
        await clients[0]._requestor._client._client_async.aclose()
        return seen

    assert asyncio.run(run()) == ["accepted", "settled", "inquiry_open"]


def test_events_overtake_a_worker_that_died(
    service: LocalStripe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker dies after the send: its events get 503, Stripe delivers again, and after recovery they put the record right."""
    monkeypatch.setattr("interlock.targets.stripe.webhooks.EARLY_WAIT_S", 0.1)
    served: list[Any] = []
    told: list[Outcome] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await served[0](scope, receive, send)

    with serving(app) as url:
        client = service.client()
        asked: Any = {"url": url, "enabled_events": ["refund.failed", "refund.updated", "charge.dispute.created"]}
        endpoint = client.v1.webhook_endpoints.create(asked)
        listening, _ = gate_on(tmp_path, service)
        served.append(webhook_app(listening, client, secret=str(endpoint.secret), on_change=told.append))
        case, _ = pay(service, "died")
        dying, refund = gate_on(tmp_path, service)
        with pytest.raises(SimulatedCrash):
            dying.submit(refund.proposal(case, amount=2000), crash_at="after_send")
        made = client.v1.refunds.list({"payment_intent": case.payment_intent}).data[0]
        service.settle_refund(made.id, "failed", failure_reason="lost_or_stolen_card")
        eventually(lambda: any(one["attempts"] >= 1 for one in service.deliveries()), "the first delivery")
        assert told == []
        after, refund = gate_on(tmp_path, service)
        (recovered,) = after.recover()
        assert recovered.settlement == "accepted"
        eventually(lambda: bool(told), "the delivery that came again")
        client.v1.webhook_endpoints.delete(endpoint.id)
    assert [(outcome.settlement, outcome.detail) for outcome in told] == [("reversed", "lost_or_stolen_card")]
    replay = refund(case, amount=2000)
    assert (str(replay), replay.settlement) == ("DUPLICATE_IGNORED", "reversed")
    assert len(client.v1.refunds.list({"payment_intent": case.payment_intent}).data) == 1
    for gate in (after, listening, dying):
        gate.close()
