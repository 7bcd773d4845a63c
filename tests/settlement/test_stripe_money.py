"""What became of the money, end to end: the official SDK, a Stripe-compatible service with its own ledger, signed webhooks over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import stripe

from benchmarks.services.stripe import LocalStripe
from interlock import BadInput, Interlock, Outcome
from interlock.targets.stripe import stripe_references, stripe_settlement, webhook_app
from interlock.targets.stripe.settlement import _disputed
from tests.settlement.endpoint import serving

EVENTS = ["refund.*", "charge.dispute.*", "charge.refunded", "payout.*", "transfer.*"]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStripe]:
    """A service for all tests here; each makes payments of its own."""
    with LocalStripe(tmp_path_factory.mktemp("stripe")) as service:
        yield service


class Desk:
    """A gate with a refund function of its own on the SDK: no ready-made target, so what is tested is what a user can write."""

    def __init__(self, service: LocalStripe, directory: Path) -> None:
        self.service = service
        self.client = client = service.client()
        self.gate = gate = Interlock(directory)
        self.told: list[Outcome] = []

        @gate.effect(
            key=lambda payment: f"refund:{payment}",
            dedupes=True,
            window=86_400,
            lookup=lambda payment, idempotency_key: self.find(payment, idempotency_key),
            settlement=lambda value: stripe_settlement(client, value),
            references=stripe_references_of,
        )
        def refund(payment: str, amount: int, idempotency_key: str) -> dict[str, Any]:
            asked: Any = {
                "payment_intent": payment,
                "amount": amount,
                "metadata": {"interlock_effect_id": idempotency_key},
            }
            return client.v1.refunds.create(asked, {"idempotency_key": idempotency_key}).to_dict()

        self.refund = refund
        gate.recover()

    def find(self, payment: str, key: str) -> Any:
        """Our refund, by its mark."""
        listed = self.client.v1.refunds.list({"payment_intent": payment, "limit": 100})
        return next(
            (one.to_dict() for one in listed.data if (one.metadata or {}).get("interlock_effect_id") == key), None
        )

    def pay(self, amount: int = 10_000, method: str = "pm_card_visa") -> tuple[str, str]:
        """A payment; its intent and its charge."""
        asked: Any = {
            "amount": amount,
            "currency": "usd",
            "payment_method": method,
            "confirm": True,
            "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
        }
        paid = self.client.v1.payment_intents.create(asked)
        return paid.id, str(paid.latest_charge)

    def chain(self, payment: str) -> list[str]:
        """What stands on the record of a refund, after its send."""
        outcome = self.refund(payment, 2000)
        assert str(outcome) == "DUPLICATE_IGNORED"
        assert outcome.receipt().verify().ok
        return [entry["kind"] for entry in outcome.receipt().entries][3:]


def stripe_references_of(value: dict[str, Any]) -> list[str]:
    """References of a refund."""
    return stripe_references(value)


@pytest.fixture
def desk(service: LocalStripe, tmp_path: Path) -> Iterator[Desk]:
    """A desk."""
    desk = Desk(service, tmp_path)
    yield desk
    desk.gate.close()


@pytest.fixture
def listening(desk: Desk) -> Iterator[Desk]:
    """A desk whose endpoint hears Stripe's webhooks: made with the SDK, delivered over loopback, signed."""
    served: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await served[0](scope, receive, send)

    with serving(app) as url:
        asked: Any = {"url": url, "enabled_events": ["*"]}
        made = desk.client.v1.webhook_endpoints.create(asked)
        served.append(webhook_app(desk.gate, desk.client, secret=str(made.secret), on_change=desk.told.append))
        yield desk
        desk.client.v1.webhook_endpoints.delete(made.id)


def eventually(so: Callable[[], bool], what: str) -> None:
    """Wait until it is so."""
    until = time.monotonic() + 15
    while not so():
        assert time.monotonic() < until, what
        time.sleep(0.02)


def refund_of(outcome: Outcome) -> dict[str, Any]:
    """The refund that an outcome holds."""
    value: dict[str, Any] = outcome.value
    return value


def test_a_chargeback_makes_a_pending_refund_fail(desk: Desk) -> None:
    """A refund that is accepted as pending fails because a chargeback posted: accepted, then REVERSED with Stripe's reason."""
    payment, charge = desk.pay()
    outcome = desk.refund(payment, 2000)
    desk.service.settle_refund(refund_of(outcome)["id"], "pending")
    assert outcome.settlement == "accepted"
    assert desk.gate.watch() == []
    desk.service.dispute(charge)
    told: list[Outcome] = []
    desk.gate.watch(every_s=0.01, for_s=0.05, on_change=told.append)
    assert [(outcome.settlement, outcome.detail) for outcome in told] == [
        ("reversed", "charge_for_pending_refund_disputed")
    ]
    assert desk.chain(payment) == ["COMMITTED", "REVERSED"]
    ledger = desk.service.ledger()
    assert [one["status"] for one in ledger["refunds"] if one["payment_intent"] == payment] == ["failed"]
    replay = desk.refund(payment, 2000)
    assert "reversed" in replay.for_model
    assert "charge_for_pending_refund_disputed" in replay.for_person


def test_a_chargeback_after_a_refund_that_stood(desk: Desk) -> None:
    """$20 refunded and settled, then $100 charged back: SETTLED, then AT_RISK with $120 out on $100, and lost in the end."""
    payment, charge = desk.pay()
    desk.refund(payment, 2000)
    assert [outcome.settlement for outcome in desk.gate.watch()] == ["settled"]
    dispute = desk.service.dispute(charge)
    effect_id = desk.gate.find(charge)[0]
    outcome = desk.gate.resettle(effect_id)
    assert (outcome.settlement, outcome.detail) == ("at_risk", "dispute_open: 12000 usd out on a payment of 10000")
    desk.service.close_dispute(dispute, "lost")
    outcome = desk.gate.resettle(effect_id)
    assert (outcome.settlement, outcome.detail) == ("at_risk", "dispute_lost: 12000 usd out on a payment of 10000")
    assert desk.chain(payment) == ["COMMITTED", "SETTLED", "AT_RISK", "AT_RISK"]
    evidence = outcome.receipt().entries[-1]["data"]["evidence"]
    assert (evidence["out_minor"], evidence["paid_minor"]) == (12_000, 10_000)
    assert desk.gate.resettle(effect_id) == outcome
    assert len(desk.chain(payment)) == 4


@pytest.mark.parametrize(
    ("inquiry", "end", "states"),
    [
        (False, "won", ["settled", "at_risk", "settled"]),
        (True, "warning_closed", ["settled", "at_risk", "settled"]),
        (True, "escalate", ["settled", "at_risk", "at_risk"]),
    ],
)
def test_disputes_and_inquiries_that_end(desk: Desk, inquiry: bool, end: str, states: list[str]) -> None:
    """A dispute that is won and an inquiry that is closed bring it back to settled; one that escalates is told as a dispute."""
    payment, charge = desk.pay()
    effect_id = desk.refund(payment, 2000).effect_id
    seen = [desk.gate.resettle(effect_id).settlement]
    dispute = desk.service.dispute(charge, inquiry=inquiry)
    now = desk.gate.resettle(effect_id)
    seen.append(now.settlement)
    assert now.detail.startswith("inquiry_open" if inquiry else "dispute_open: 12000 usd")
    if end == "escalate":
        desk.service.escalate(dispute)
    else:
        desk.service.close_dispute(dispute, end)
    now = desk.gate.resettle(effect_id)
    seen.append(now.settlement)
    assert seen == states
    assert now.detail.startswith("dispute_open" if end == "escalate" else "")


def test_the_webhooks_alone_tell_it_all(listening: Desk) -> None:
    """With events only: accepted, settled, at risk, and reversed for another; each change recorded and told once, duplicates and all."""
    desk = listening
    desk.service.webhook_fault(kind="duplicate", only="*", times=50)
    first, charge = desk.pay()
    refund = refund_of(desk.refund(first, 2000))
    desk.service.settle_refund(refund["id"], "pending")
    desk.service.settle_refund(refund["id"], "succeeded")
    eventually(lambda: [outcome.settlement for outcome in desk.told] == ["settled"], "the settled refund")
    desk.service.dispute(charge)
    eventually(lambda: [outcome.settlement for outcome in desk.told] == ["settled", "at_risk"], "the chargeback")
    second, _ = desk.pay()
    refund = refund_of(desk.refund(second, 2000))
    desk.service.settle_refund(refund["id"], "failed", failure_reason="lost_or_stolen_card")
    eventually(lambda: desk.told[-1].settlement == "reversed", "the failed refund")
    eventually(
        lambda: all(one["state"] in ("delivered", "failed") for one in desk.service.deliveries()), "the deliveries"
    )
    assert {one["state"] for one in desk.service.deliveries()} == {"delivered"}
    desk.service.clear_webhook_faults()
    assert desk.chain(first) == ["COMMITTED", "SETTLED", "AT_RISK"]
    assert desk.chain(second)[-1] == "REVERSED"
    assert desk.told[-1].detail == "lost_or_stolen_card"
    assert desk.gate.watch() == []


def test_events_in_the_wrong_order(listening: Desk) -> None:
    """Held and released newest first, and the oldest once more at the end: the record has the last state, and no step back."""
    desk = listening
    desk.service.hold_webhooks()
    payment, charge = desk.pay()
    refund = refund_of(desk.refund(payment, 2000))
    desk.service.settle_refund(refund["id"], "pending")
    desk.service.dispute(charge)
    desk.service.clear_webhook_faults()
    assert desk.service.release_webhooks(newest_first=True) > 2
    eventually(lambda: bool(desk.told), "an event")
    eventually(
        lambda: all(one["state"] in ("delivered", "failed") for one in desk.service.deliveries()), "the deliveries"
    )
    oldest = next(one["id"] for one in desk.service.events() if one["type"].startswith("refund."))
    desk.service.resend(oldest)
    eventually(
        lambda: all(one["state"] in ("delivered", "failed") for one in desk.service.deliveries()), "the deliveries"
    )
    assert [outcome.settlement for outcome in desk.told] == ["reversed"]
    assert desk.chain(payment) == ["COMMITTED", "REVERSED"]


def test_payouts_and_transfers(desk: Desk) -> None:
    """A payout is pending, then paid, and may fail after that; a transfer lands at once and may be reversed in part and in full."""
    client = desk.client
    desk.pay(900_000, "pm_card_bypassPending")
    asked: Any = {"amount": 1000, "currency": "usd"}
    payout = client.v1.payouts.create(asked)
    assert stripe_settlement(client, payout).state == "pending"
    desk.service.arrive(payout.id, "paid")
    assert stripe_settlement(client, payout.id).state == "settled"
    desk.service.arrive(payout.id, "failed", failure_code="account_closed")
    settled = stripe_settlement(client, payout.to_dict())
    assert (settled.state, settled.reason) == ("reversed", "account_closed")


def test_a_transfer_that_is_reversed(desk: Desk) -> None:
    """A transfer lands at once; reversed in part it is at risk, in full it is reversed."""
    client = desk.client
    desk.pay(900_000, "pm_card_bypassPending")
    asked: Any = {
        "type": "custom",
        "country": "US",
        "capabilities": {"transfers": {"requested": True}},
        "tos_acceptance": {"date": 1_700_000_000, "ip": "127.0.0.1"},
        "external_account": {"object": "bank_account", "country": "US", "account_number": "000123456789"},
    }
    account = client.v1.accounts.create(asked)
    asked = {"amount": 1000, "currency": "usd", "destination": account.id}
    transfer = client.v1.transfers.create(asked)
    assert stripe_settlement(client, transfer).state == "settled"
    part: Any = {"amount": 400}
    client.v1.transfers.reversals.create(transfer.id, part)
    settled = stripe_settlement(client, transfer)
    assert (settled.state, settled.reason) == ("at_risk", "partly_reversed: 400 of 1000 usd")
    client.v1.transfers.reversals.create(transfer.id)
    assert stripe_settlement(client, transfer).state == "reversed"


def test_a_payment_that_is_taken_back(desk: Desk) -> None:
    """A payment is settled once it succeeded, at risk while disputed, reversed once the dispute is lost."""
    payment, charge = desk.pay()
    assert stripe_settlement(desk.client, payment).state == "settled"
    dispute = desk.service.dispute(charge)
    assert stripe_settlement(desk.client, payment).reason == "dispute_open"
    desk.service.close_dispute(dispute, "lost")
    assert stripe_settlement(desk.client, payment) == stripe_settlement(desk.client, {"id": payment})
    assert stripe_settlement(desk.client, payment).state == "reversed"


def test_what_cannot_be_read_is_never_a_settlement(desk: Desk) -> None:
    """An object that is gone, one of another kind, and none at all raise; nothing is recorded."""
    for value in (None, {}, 7, "cus_1", {"id": "ch_1"}):
        with pytest.raises(BadInput):
            stripe_settlement(desk.client, value)
    with pytest.raises(stripe.StripeError):
        stripe_settlement(desk.client, "re_gone")


def test_a_dispute_in_another_currency_is_not_added_up() -> None:
    """Amounts of two currencies make no sum: it is at risk, and the reason says why there is no figure."""
    refund = {"id": "re_1", "amount": 2000, "currency": "usd", "status": "succeeded", "charge": "ch_1"}
    charge = {"id": "ch_1", "amount": 10_000, "amount_captured": 10_000, "amount_refunded": 2000, "currency": "usd"}
    dispute = {"id": "dp_1", "amount": 1_500_000, "currency": "jpy", "status": "needs_response", "reason": "general"}
    found = _disputed(refund, [dispute], charge)
    assert (found.state, found.reason) == ("at_risk", "dispute_open: in another currency than the payment")
    assert "out_minor" not in found.evidence
    same = _disputed(refund, [{**dispute, "amount": 10_000, "currency": "usd"}], charge)
    assert same.reason == "dispute_open: 12000 usd out on a payment of 10000"
