"""The webhook app over real HTTP with real signatures: every kind of event gets its status, and only the service's word is recorded."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import stripe

from interlock import ConfigurationError, Interlock, JournalUnavailable, Outcome
from interlock.journal import MemoryJournal
from interlock.targets.stripe import webhooks
from interlock.targets.stripe.webhooks import webhook_app
from interlock.testing import SimulatedCrash
from tests.settlement.conftest import AT_RISK, REVERSED, SETTLED, World
from tests.settlement.endpoint import SECRET, deliver, event_about, post, serving, signature


class Shop:
    """A gate, its refunds, and its webhook endpoint."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.bank = world.bank
        self.gate = world.gate()
        self.refund = world.refund(self.gate)
        self.gate.recover()
        self.told: list[Outcome] = []
        self.client = stripe.StripeClient("sk_test_x")
        self.url = ""

    def app(self) -> Any:
        """The endpoint's app."""
        return webhook_app(self.gate, self.client, secret=SECRET, on_change=self.told.append)

    def state(self, order: str) -> str:
        """What a replay says of the settlement."""
        outcome: Outcome = self.refund(order)
        return outcome.settlement


@pytest.fixture
def shop(world: World) -> Iterator[Shop]:
    """A shop that serves its endpoint."""
    shop = Shop(world)
    with serving(shop.app()) as shop.url:
        yield shop


def about(order: str, **fields: Any) -> dict[str, Any]:
    """An event about the refund of an order."""
    return event_about({"id": f"re_{order}", "object": "refund", "status": "failed", **fields})


def test_an_event_is_a_trigger_and_the_service_has_the_word(shop: Shop) -> None:
    """The event says failed, the service says settled: settled is recorded, once, and told once."""
    shop.refund("881")
    shop.bank.fates["881"] = SETTLED
    assert deliver(shop.url, about("881")) == 200
    assert shop.state("881") == "settled"
    assert [outcome.settlement for outcome in shop.told] == ["settled"]


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"id": "re_881", "object": "refund"}, "refund.failed"),
        ({"id": "dp_1", "object": "dispute", "charge": "ch_881"}, "charge.dispute.created"),
        ({"id": "dp_1", "object": "dispute", "charge": {"id": "ch_881", "object": "charge"}}, "charge.dispute.closed"),
        ({"id": "ch_881", "object": "charge"}, "charge.refunded"),
    ],
)
def test_an_effect_is_found_by_any_of_its_objects(shop: Shop, fields: dict[str, Any], kind: str) -> None:
    """Events about the refund, its charge, or a dispute of that lead to the effect."""
    shop.refund("881")
    shop.bank.fates["881"] = AT_RISK
    assert deliver(shop.url, event_about(fields, kind=kind)) == 200
    assert shop.state("881") == "at_risk"


def test_duplicates_and_any_order(shop: Shop) -> None:
    """The same event five times, at once and later, and older ones after newer ones: one entry for each change, 200 each time."""
    shop.refund("881")
    shop.bank.fates["881"] = REVERSED
    newer, older = about("881"), about("881", status="pending")
    statuses: list[int] = []
    threads = [threading.Thread(target=lambda: statuses.append(deliver(shop.url, newer))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    statuses.append(deliver(shop.url, older))
    assert statuses == [200] * 6
    assert shop.state("881") == "reversed"
    assert len(shop.told) == 1
    assert [str(entry.kind) for entry in shop.gate.journal.load(shop.gate.find("re_881")[0]).entries][3:] == [
        "COMMITTED",
        "REVERSED",
    ]


def test_what_is_not_genuine_is_refused(shop: Shop) -> None:
    """Forged, unsigned, wrong secret, too old, altered, a replayed signature on another body, no JSON, no event: 400, nothing is read."""
    shop.refund("881")
    body = json.dumps(about("881")).encode()
    other = json.dumps(about("882")).encode()
    bad: list[dict[str, str]] = [
        {},
        {"Stripe-Signature": ""},
        {"Stripe-Signature": "t=1,v1=" + "0" * 64},
        {"Stripe-Signature": "nonsense"},
        {"Stripe-Signature": "t=soon,v1=ü"},
        {"Stripe-Signature": signature(body, secret="whsec_of_somebody_else")},
        {"Stripe-Signature": signature(body, at=time.time() - 301)},
        {"Stripe-Signature": signature(other)},
        {"Stripe-Signature": signature(body).replace("v1=", "v0=")},
    ]
    for headers in bad:
        sent = {name: value.encode("utf-8").decode("latin-1") for name, value in headers.items()}
        assert post(shop.url, body, headers=sent)[0] == 400, headers
    for nothing in (b"", b"{", b"\xff\xfe", b"[]", b"7", b'"text"', b"null"):
        assert deliver(shop.url, nothing) == 400, nothing
    assert shop.bank.reads == []


def test_foreign_events_are_taken_and_forgotten(shop: Shop) -> None:
    """Events of objects that no effect of ours made, of other kinds, and marked by another gate: 200, and nothing is read."""
    shop.refund("881")
    for event in (
        about("999"),
        event_about({"id": "cus_1", "object": "customer"}, kind="customer.created"),
        about("999", metadata={"interlock_effect_id": "0123456789abcdefghijklmn"}),
        about("999", metadata={"interlock_effect_id": 7}, charge=5),
        {**about("999"), "data": {}},
        {**about("999"), "data": {"object": {}}},
    ):
        assert deliver(shop.url, event) == 200
    assert shop.bank.reads == []


def test_too_big_and_not_posted(shop: Shop) -> None:
    """A body above the bound is 413, with and without a stated length, and is not read to its end; another method is 405."""
    big = b"{" + b" " * webhooks.BODY_AT_MOST + b"}"
    assert deliver(shop.url, big) == 413
    assert post(shop.url, iter([big]), headers={"Stripe-Signature": signature(big)})[0] == 413
    assert post(shop.url, b"", method="GET")[0] == 405
    assert post(shop.url, b"", method="PUT")[0] == 405
    assert shop.bank.reads == []


def test_an_early_event_waits_for_the_answer(shop: Shop) -> None:
    """An event that overtakes the answer of the send waits for it, and then finds the effect: 200 and recorded."""
    sending, answered = threading.Event(), threading.Event()
    pay = shop.bank.pay

    def slowly(order: str, key: str) -> dict[str, Any]:
        made = pay(order, key)
        sending.set()
        assert answered.wait(20)
        return made

    shop.bank.pay = slowly  # type: ignore[method-assign]
    shop.bank.fates["881"] = SETTLED
    send = threading.Thread(target=shop.refund, args=("881",))
    send.start()
    assert sending.wait(10)
    threading.Timer(0.3, answered.set).start()
    assert deliver(shop.url, about("881")) == 200
    send.join(20)
    assert shop.state("881") == "settled"


@pytest.mark.parametrize("fields", [{}, {"id": "dp_1", "charge": "ch_881"}])
def test_an_event_of_a_send_that_is_not_answered_comes_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    """The worker died after the send: 503, so that Stripe delivers again; after recovery the same event finds the effect."""
    monkeypatch.setattr(webhooks, "EARLY_WAIT_S", 0.2)
    dying = shop.world.gate()
    refund = shop.world.refund(dying)
    with pytest.raises(SimulatedCrash):
        dying.submit(refund.proposal("881"), crash_at="after_send")
    shop.bank.fates["881"] = AT_RISK
    event = about("881", **fields)
    assert deliver(shop.url, event) == 503
    assert shop.bank.reads == []
    shop.gate.recover()
    assert deliver(shop.url, event) == 200
    assert shop.state("881") == "at_risk"


def test_what_is_open_for_long_holds_nothing_up(shop: Shop) -> None:
    """A send that has been open for more than an hour does not make foreign events fail; its first watch after recovery reads it."""
    dying = shop.world.gate()
    refund = shop.world.refund(dying)
    with pytest.raises(SimulatedCrash):
        dying.submit(refund.proposal("881"), crash_at="after_send")
    shop.world.clock.advance(webhooks.EARLY_FOR_S + 1)
    assert deliver(shop.url, about("999")) == 200
    shop.bank.fates["881"] = REVERSED
    shop.gate.recover()
    assert [outcome.settlement for outcome in shop.gate.watch()] == ["reversed"]


def test_what_cannot_be_read_or_recorded_comes_again(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our journal broken, or the service down: 5xx, so that Stripe delivers again, and then it is recorded."""
    shop.refund("881")
    shop.bank.fates["881"] = RuntimeError("down")
    assert deliver(shop.url, about("881")) == 503
    shop.bank.fates["881"] = SETTLED

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise JournalUnavailable("disk full")

    for verb in ("find", "append_async", "load"):
        with monkeypatch.context() as patch:
            patch.setattr(MemoryJournal, verb, broken)
            assert deliver(shop.url, about("881")) == 503, verb
    assert shop.state("881") == "accepted"
    assert deliver(shop.url, about("881")) == 200
    assert shop.state("881") == "settled"


def test_an_effect_without_its_function_comes_again(world: World) -> None:
    """In a process where the function is not declared the event is not lost: 500, and Stripe delivers again."""
    shop = Shop(world)
    shop.refund("881")
    shop.bank.fates["881"] = SETTLED
    bare = Interlock(journal=MemoryJournal(world.journal.store), clock=world.clock)
    with serving(webhook_app(bare, shop.client, secret=SECRET)) as url:
        assert deliver(url, about("881")) == 500
    assert shop.state("881") == "accepted"


def test_one_of_several_effects_that_fails_does_not_stop_the_others(shop: Shop) -> None:
    """Two refunds of one charge, one of which cannot be read: the other is recorded, the answer is 503, and the retry completes it."""
    refund = shop.world.refund(shop.gate, name="twice", references=lambda value: [value["id"], "ch_both"])
    refund("1")
    refund("2")
    shop.bank.fates |= {"1": RuntimeError("down"), "2": AT_RISK}
    event = event_about({"id": "dp_1", "object": "dispute", "charge": "ch_both"})
    assert deliver(shop.url, event) == 503
    assert (refund("1").settlement, refund("2").settlement) == ("accepted", "at_risk")
    shop.bank.fates["1"] = AT_RISK
    assert deliver(shop.url, event) == 200
    assert refund("1").settlement == "at_risk"
    assert len(shop.told) == 2


def test_a_hook_that_raises_does_not_lose_the_event(world: World) -> None:
    """The change is on the record, so the event is taken; async hooks are awaited."""
    shop = Shop(world)
    shop.refund("881")
    shop.refund("882")
    shop.bank.fates |= {"881": SETTLED, "882": SETTLED}
    told: list[str] = []

    async def on_change(outcome: Outcome) -> None:
        told.append(outcome.key)
        raise ValueError("hook")

    with serving(webhook_app(shop.gate, shop.client, secret=["whsec_new", SECRET], on_change=on_change)) as url:
        assert deliver(url, about("881")) == 200
        assert deliver(url, about("882"), secret="whsec_new") == 200
    assert told == ["refund:881", "refund:882"]
    assert shop.state("881") == "settled"


def test_an_unlanded_effect_that_the_service_has_is_told(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    """The record says refused, and the service shows an object with our mark: 200, nothing is written, and the log says who must look."""
    refund = shop.world.refund(shop.gate, name="refused", allowed=lambda: False)
    effect_id = refund("881").effect_id
    assert deliver(shop.url, about("881", metadata={"interlock_effect_id": effect_id})) == 200
    assert "A person should look at it" in caplog.text
    assert shop.gate.journal.load(effect_id).kind == "REFUSED"


def test_what_cannot_be_built() -> None:
    """Without a secret, or with something that is no StripeClient, there is no endpoint."""
    gate = World().gate()
    client = stripe.StripeClient("sk_test_x")
    for secret in ("", [], [""], [None]):
        with pytest.raises(ConfigurationError, match="secret"):
            webhook_app(gate, client, secret=secret)
    with pytest.raises(ConfigurationError, match="StripeClient"):
        webhook_app(gate, object(), secret=SECRET)  # type: ignore[arg-type]
