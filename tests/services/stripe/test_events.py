"""Events of the local service, and webhooks: signed, delivered over loopback, repeated, held back and reordered."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import stripe

from benchmarks.services.stripe import LocalStripe, ServiceError


def endpoint(client: stripe.StripeClient, url: str, *kinds: str, **more: Any) -> stripe.WebhookEndpoint:
    asked: Any = {"url": url, "enabled_events": list(kinds or ("*",)), **more}
    return client.v1.webhook_endpoints.create(asked)


def eventually(condition: Callable[[], bool], *, within_s: float = 10.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not so within {within_s} s"
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def no_endpoints(client: stripe.StripeClient, service: LocalStripe) -> None:
    for one in client.v1.webhook_endpoints.list({"limit": 100}).data:
        client.v1.webhook_endpoints.delete(one.id)


def test_every_change_of_a_payment_and_its_refund_is_an_event(client: stripe.StripeClient, pay: Any) -> None:
    """An event holds the object as it was then, the request and the key that caused it, and what an update replaced."""
    payment = pay()
    refund = client.v1.refunds.create(
        {"payment_intent": payment.id, "amount": 2000}, {"idempotency_key": f"events-{payment.id}"}
    )
    client.v1.refunds.update(refund.id, {"metadata": {"order": "7"}})
    made = [event.to_dict() for event in client.v1.events.list({"limit": 7}).data]
    assert [event["type"] for event in reversed(made)] == [
        "payment_intent.created",
        "charge.succeeded",
        "payment_intent.succeeded",
        "refund.created",
        "charge.refunded",
        "refund.updated",
        "charge.refund.updated",
    ]
    updated, refunded, created = made[1], made[2], made[3]
    assert (created["data"]["object"]["id"], created["data"]["object"]["metadata"]) == (refund.id, {})
    assert refund.last_response is not None
    assert created["request"] == {
        "id": refund.last_response.request_id,
        "idempotency_key": f"events-{payment.id}",
    }
    assert refunded["data"]["previous_attributes"] == {"amount_refunded": 0}
    assert refunded["data"]["object"]["amount_refunded"] == 2000
    assert updated["data"]["previous_attributes"] == {"metadata": {}}
    assert (updated["livemode"], updated["api_version"], updated["pending_webhooks"]) == (False, "2026-10-28.endive", 0)
    assert client.v1.events.retrieve(created["id"]).type == "refund.created"


def test_events_are_listed_by_type_and_in_pages(client: stripe.StripeClient, pay: Any) -> None:
    """`type` takes a pattern, `types` up to 20, not both; pages and `created` work as in any list."""
    payment = pay()
    client.v1.refunds.create({"payment_intent": payment.id})
    refunds = client.v1.events.list({"type": "refund.*", "limit": 1})
    assert [event.type for event in refunds.data] == ["refund.created"]
    both = client.v1.events.list({"types": ["refund.created", "charge.refunded"], "limit": 2})
    assert [event.type for event in both.data] == ["charge.refunded", "refund.created"]
    older = client.v1.events.list({"limit": 1, "starting_after": both.data[0].id})
    assert older.data[0].id == both.data[1].id
    assert older.has_more
    assert not client.v1.events.list({"created": {"gt": int(time.time()) + 60}}).data
    with pytest.raises(stripe.InvalidRequestError, match="only specify one"):
        client.v1.events.list({"type": "refund.created", "types": ["charge.refunded"]})
    with pytest.raises(stripe.InvalidRequestError, match="at most 20"):
        client.v1.events.list({"types": ["refund.created"] * 21})
    with pytest.raises(stripe.InvalidRequestError, match="delivery_success"):
        client.v1.events.list({"delivery_success": True})
    with pytest.raises(stripe.InvalidRequestError) as caught:
        client.v1.events.retrieve("evt_unknown")
    assert caught.value.code == "resource_missing"


def test_events_are_kept_for_thirty_days(service: LocalStripe, client: stripe.StripeClient, pay: Any) -> None:
    """Later they are gone from the API, and still in the books."""
    pay()
    event = client.v1.events.list({"limit": 1}).data[0]
    service.advance(30 * 24 * 60 * 60 + 2)
    assert event.id not in {one.id for one in client.v1.events.list({"limit": 100}).data}
    with pytest.raises(stripe.InvalidRequestError) as caught:
        client.v1.events.retrieve(event.id)
    assert caught.value.code == "resource_missing"
    assert event.id in {one["id"] for one in service.events()}


def test_a_refused_request_leaves_no_event(service: LocalStripe, client: stripe.StripeClient, pay: Any) -> None:
    """What did not happen is no event; a declined card is one."""
    payment = pay()
    before = len(service.events())
    with pytest.raises(stripe.InvalidRequestError):
        client.v1.refunds.create({"payment_intent": payment.id, "amount": 10_001})
    assert len(service.events()) == before
    with pytest.raises(stripe.CardError):
        pay("pm_card_chargeDeclined")
    assert [event["type"] for event in service.events()[before:]] == [
        "payment_intent.created",
        "charge.failed",
        "payment_intent.payment_failed",
    ]


def test_webhook_endpoints_are_made_changed_and_deleted(client: stripe.StripeClient, receiver: Any) -> None:
    """The secret is told once, at creation; the rest as in any resource."""
    made = endpoint(client, receiver.url, "refund.created", description="first", metadata={"a": "1"})
    assert made.secret is not None
    assert made.secret.startswith("whsec_")
    found = client.v1.webhook_endpoints.retrieve(made.id)
    assert "secret" not in found.to_dict()
    assert (found.status, found.enabled_events, found.description) == ("enabled", ["refund.created"], "first")
    changed = client.v1.webhook_endpoints.update(
        made.id, {"disabled": True, "enabled_events": ["*"], "description": ""}
    )
    assert (changed.status, changed.enabled_events, changed.description) == ("disabled", ["*"], None)
    assert [one.id for one in client.v1.webhook_endpoints.list().data] == [made.id]
    assert client.v1.webhook_endpoints.delete(made.id).deleted
    with pytest.raises(stripe.InvalidRequestError) as caught:
        client.v1.webhook_endpoints.retrieve(made.id)
    assert caught.value.code == "resource_missing"


@pytest.mark.parametrize(
    ("url", "kinds", "said"),
    [
        ("https://example.com/hook", ["*"], "loopback only"),
        ("http://example.com:80/hook", ["*"], "loopback only"),
        ("http://127.0.0.1.example.com:80/", ["*"], "loopback only"),
        ("http://10.0.0.1:80/", ["*"], "loopback only"),
        ("http://127.0.0.1/", ["*"], "loopback only"),
        ("http://user@127.0.0.1:80/", ["*"], "loopback only"),
        ("file:///etc/passwd", ["*"], "loopback only"),
        ("http://127.0.0.1:80/", ["invoice.paid"], "not an event type"),
        ("http://127.0.0.1:80/", ["*", "refund.created"], "together"),
    ],
)
def test_endpoints_elsewhere_and_unknown_types_are_refused(
    client: stripe.StripeClient, url: str, kinds: list[str], said: str
) -> None:
    """Nothing is ever sent off this machine, and a type that is never recorded is not waited for in vain."""
    with pytest.raises(stripe.InvalidRequestError, match=said):
        endpoint(client, url, *kinds)


def test_webhooks_are_signed_as_the_sdk_verifies(client: stripe.StripeClient, receiver: Any, pay: Any) -> None:
    """The SDK's own check passes with the endpoint's secret, and fails with another one or another body."""
    made = endpoint(client, receiver.url)
    assert made.secret is not None
    pay()
    receiver.wait(3)
    assert [event.type for event in receiver.events(made.secret)] == [
        "payment_intent.created",
        "charge.succeeded",
        "payment_intent.succeeded",
    ]
    body, sign = receiver.got[0]
    for forged, secret in ((body + b" ", made.secret), (body, "whsec_other")):
        with pytest.raises(stripe.SignatureVerificationError):
            stripe.Webhook.construct_event(forged, sign, secret)
    first = client.v1.events.list({"limit": 3}).data[-1]
    eventually(lambda: client.v1.events.retrieve(first.id).pending_webhooks == 0)


def test_only_the_types_asked_for_are_sent(client: stripe.StripeClient, receiver: Any, pay: Any) -> None:
    """An endpoint hears of its types, and of nothing while it is disabled."""
    made = endpoint(client, receiver.url, "refund.created")
    assert made.secret is not None
    payment = pay()
    client.v1.refunds.create({"payment_intent": payment.id, "amount": 100})
    receiver.wait(1)
    client.v1.webhook_endpoints.update(made.id, {"disabled": True})
    client.v1.refunds.create({"payment_intent": payment.id, "amount": 100})
    client.v1.webhook_endpoints.update(made.id, {"disabled": False})
    client.v1.refunds.create({"payment_intent": payment.id, "amount": 300})
    receiver.wait(2)
    assert [event.data.object["amount"] for event in receiver.events(made.secret)] == [100, 300]


def test_delivery_is_tried_again_within_a_bound(
    service: LocalStripe, client: stripe.StripeClient, receiver: Any, pay: Any
) -> None:
    """An endpoint that answers 500 gets the same event again, four times in all; then the service gives up."""
    endpoint(client, receiver.url, "payment_intent.succeeded")
    receiver.status = 500
    pay()
    eventually(lambda: service.deliveries()[-1]["state"] == "failed", within_s=20.0)
    assert len(receiver.got) == 4
    assert len({body for body, _ in receiver.got}) == 1
    assert service.deliveries()[-1]["told"] == "500"
    receiver.status = 200
    pay()
    eventually(lambda: service.deliveries()[-1]["state"] == "delivered")


def test_an_endpoint_that_hangs_or_is_gone_delays_no_request(
    service: LocalStripe, client: stripe.StripeClient, receiver: Any, pay: Any
) -> None:
    """Requests are answered at once and other endpoints are served while one of them takes nothing."""
    endpoint(client, receiver.url, "payment_intent.created")
    gone = endpoint(client, "http://127.0.0.1:9/", "payment_intent.succeeded")
    receiver.hangs.set()
    started = time.monotonic()
    for _ in range(5):
        pay()
    assert time.monotonic() - started < 3.0
    receiver.wait(1)
    eventually(lambda: any(one["endpoint"] == gone.id and one["attempts"] for one in service.deliveries()))
    receiver.hangs.clear()
    receiver.wait(5)


def test_webhooks_can_come_twice(service: LocalStripe, client: stripe.StripeClient, receiver: Any, pay: Any) -> None:
    """Delivered twice, sent again by hand, or after an answer that was lost: always the same event id, signed anew."""
    made = endpoint(client, receiver.url, "payment_intent.succeeded")
    assert made.secret is not None
    service.webhook_fault(kind="duplicate", only="payment_intent.*")
    pay()
    receiver.wait(2)
    event = service.events()[-1]["id"]
    assert service.resend(event) == 1
    receiver.wait(3)
    assert {one.id for one in receiver.events(made.secret)} == {event}
    service.webhook_fault(kind="lose_answer")
    pay()
    receiver.wait(5)
    assert receiver.got[3][0] == receiver.got[4][0]


def test_webhooks_can_come_late_and_out_of_order(
    service: LocalStripe, client: stripe.StripeClient, receiver: Any, pay: Any
) -> None:
    """A delayed one is overtaken; held ones come when they are released, the newest first if asked for."""
    made = endpoint(client, receiver.url, "charge.succeeded", "payment_intent.succeeded", "refund.created")
    assert made.secret is not None
    service.webhook_fault(kind="delay", only="charge.succeeded", delay_s=0.4)
    payment = pay()
    receiver.wait(2)
    assert [one.type for one in receiver.events(made.secret)] == ["payment_intent.succeeded", "charge.succeeded"]
    service.hold_webhooks("refund.*")
    for amount in (100, 200, 300):
        client.v1.refunds.create({"payment_intent": payment.id, "amount": amount})
    eventually(lambda: [one["state"] for one in service.deliveries()[-3:]] == ["held"] * 3)
    last = client.v1.events.list({"type": "refund.created", "limit": 1}).data[0]
    assert last.pending_webhooks == 1
    service.clear_webhook_faults()
    assert service.release_webhooks(newest_first=True) == 3
    receiver.wait(5)
    assert [one.data.object["amount"] for one in receiver.events(made.secret)[2:]] == [300, 200, 100]
    service.webhook_fault(kind="drop", only="refund.created")
    client.v1.refunds.create({"payment_intent": payment.id, "amount": 400})
    eventually(lambda: service.deliveries()[-1]["state"] == "failed")
    assert len(receiver.got) == 5


def test_a_webhook_can_come_before_the_answer(
    service: LocalStripe, client: stripe.StripeClient, receiver: Any, pay: Any
) -> None:
    """The event of a request whose answer is slow, or lost, arrives while the client still waits."""
    payment = pay()
    endpoint(client, receiver.url, "refund.created")
    service.fault(method="POST", path="/v1/refunds", kind="drop_after")
    with pytest.raises(stripe.APIConnectionError):
        client.v1.refunds.create({"payment_intent": payment.id, "amount": 100})
    receiver.wait(1)
    service.fault(method="POST", path="/v1/refunds", kind="delay_after", delay_s=0.5)
    started = time.monotonic()
    client.v1.refunds.create({"payment_intent": payment.id, "amount": 100})
    answered = time.monotonic() - started
    assert answered >= 0.5
    assert len(receiver.got) == 2


def test_what_was_queued_survives_a_kill(own: LocalStripe, receiver: Any, pay: Any) -> None:
    """A webhook that had not been delivered when the service was killed is delivered when it starts again."""
    client = own.client()
    made = endpoint(client, receiver.url, "payment_intent.succeeded")
    assert made.secret is not None
    own.hold_webhooks()
    pay(by=client)
    eventually(lambda: own.deliveries()[-1]["state"] == "held")
    own.kill()
    own.start()
    assert receiver.got == []
    own.release_webhooks()
    receiver.wait(1)
    assert receiver.events(made.secret)[0].id == own.events()[-1]["id"]


def test_wrong_webhook_faults_are_refused(service: LocalStripe) -> None:
    """A kind nobody knows, a count of none or a negative wait is refused, not kept."""
    for asked in ({"kind": "explode"}, {"kind": "delay", "times": 0}, {"kind": "delay", "delay_s": -1}):
        with pytest.raises(ServiceError, match="refused"):
            service.webhook_fault(**asked)
