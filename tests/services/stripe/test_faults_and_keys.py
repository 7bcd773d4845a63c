"""What goes wrong on the way: half an answer, a gateway, a lock; keys that do not pass; versions that do not fit."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest
import stripe

from benchmarks.services.stripe import LocalStripe


def refund(client: stripe.StripeClient, payment: stripe.PaymentIntent, key: str) -> stripe.Refund:
    return client.v1.refunds.create({"payment_intent": payment.id, "amount": 2000}, {"idempotency_key": key})


def code_of(error: stripe.StripeError) -> str | None:
    body: Any = error.json_body
    code: str | None = body["error"].get("code")
    return code


@pytest.mark.parametrize(
    ("kind", "raised", "status", "acted"),
    [
        ("truncate", stripe.APIConnectionError, None, True),
        ("bad_gateway", stripe.APIError, 502, False),
        ("lock_timeout", stripe.RateLimitError, 429, False),
        ("error_429", stripe.RateLimitError, 429, False),
    ],
)
def test_faults_reach_the_sdk_and_leave_what_they_say(
    service: LocalStripe,
    client: stripe.StripeClient,
    pay: Any,
    kind: str,
    raised: type[stripe.StripeError],
    status: int | None,
    acted: bool,
) -> None:
    """Each fault raises its class, acted or not as documented; the same key then makes exactly one refund."""
    payment = pay()
    service.fault(method="POST", path="/v1/refunds", kind=kind)
    with pytest.raises(raised) as caught:
        refund(client, payment, f"{kind}-{payment.id}")
    assert type(caught.value) is raised
    assert caught.value.http_status == status
    assert service.refunded(payment.id) == ((2000, 1) if acted else (0, 0))
    again = refund(client, payment, f"{kind}-{payment.id}")
    assert again.status == "succeeded"
    assert again.last_response is not None
    assert (again.last_response.headers.get("idempotent-replayed") == "true") is acted
    assert service.refunded(payment.id) == (2000, 1)


def test_a_truncated_read_is_no_absence(service: LocalStripe, client: stripe.StripeClient, pay: Any) -> None:
    """Half a list raises; it is never a shorter list."""
    payment = pay()
    refund(client, payment, f"half-{payment.id}")
    service.fault(method="GET", path="/v1/refunds", kind="truncate")
    with pytest.raises(stripe.APIConnectionError):
        client.v1.refunds.list({"payment_intent": payment.id})
    assert len(client.v1.refunds.list({"payment_intent": payment.id}).data) == 1


def test_a_rate_limit_says_which_and_a_lock_its_code(service: LocalStripe, client: stripe.StripeClient) -> None:
    """A header tells the rate limit from a lock, as does the code, which the SDK shows in the body only."""
    told = []
    for kind in ("error_429", "lock_timeout"):
        service.fault(method="GET", path="/v1/refunds", kind=kind)
        with pytest.raises(stripe.RateLimitError) as caught:
            client.v1.refunds.list()
        headers: Any = caught.value.headers
        reasons = [value for name, value in headers.items() if name.lower() == "stripe-rate-limited-reason"]
        told.append((code_of(caught.value), reasons))
    assert told == [("rate_limit", ["global-rate"]), ("lock_timeout", [])]


def test_a_revoked_key_is_refused_and_moves_nothing(own: LocalStripe, pay: Any) -> None:
    """A key that worked is a 401 with its code once it is revoked, after a restart too; other keys go on."""
    client, other = own.client("sk_test_first"), own.client("sk_test_other")
    payment = pay(by=client)
    own.revoke_key("sk_test_first")
    for _ in range(2):
        with pytest.raises(stripe.AuthenticationError, match="Expired API Key") as caught:
            refund(client, payment, "revoked")
        assert (caught.value.http_status, code_of(caught.value)) == (401, "api_key_expired")
        own.kill()
        own.start()
    with pytest.raises(stripe.AuthenticationError):
        own.client("sk_test_revoked_1").v1.refunds.list()
    assert own.refunded(payment.id) == (0, 0)
    assert refund(other, payment, "revoked").status == "succeeded"
    with pytest.raises(ValueError, match="only a test key"):
        own.revoke_key("sk_live_1")


def test_a_restricted_key_may_do_what_it_may(service: LocalStripe, client: stripe.StripeClient, pay: Any) -> None:
    """A key that may only read is a 403 on a write, a PermissionError; one that may do nothing is it on reads too."""
    payment = pay()
    reader = service.client("rk_test_read_1")
    assert reader.v1.payment_intents.retrieve(payment.id).id == payment.id
    with pytest.raises(stripe.PermissionError, match="required permissions") as caught:
        refund(reader, payment, f"restricted-{payment.id}")
    assert caught.value.http_status == 403
    with pytest.raises(stripe.PermissionError):
        service.client("rk_test_none_1").v1.payment_intents.retrieve(payment.id)
    assert refund(service.client("rk_test_writer"), payment, f"restricted-{payment.id}").status == "succeeded"


def test_a_live_key_is_refused_by_name_and_kept_nowhere(service: LocalStripe) -> None:
    """Secret and restricted live keys alike; the key stands neither in the answer nor in any file of the service."""
    for key in ("sk_live_abcdef123456", "rk_live_abcdef123456"):
        with pytest.raises(stripe.AuthenticationError, match="live key") as caught:
            service.client(key).v1.refunds.list()
        assert key not in str(caught.value)
    for path in service.directory.iterdir():
        assert b"live_abcdef123456" not in path.read_bytes()


@pytest.mark.parametrize("version", ["2024-06-20", "2026-10-28", "yesterday", "2026-10-28.preview"])
def test_another_api_version_is_refused(service: LocalStripe, client: stripe.StripeClient, version: str) -> None:
    """Shapes of another version are not invented: 400, and it names both."""
    with pytest.raises(stripe.InvalidRequestError, match=rf"Invalid Stripe API version: {version}.*2026-10-28\.endive"):
        client.v1.refunds.list({}, {"stripe_version": version})


def test_a_request_without_a_version_is_answered(service: LocalStripe) -> None:
    """As on the real service, the account's own version then counts; the answer says which."""
    request = urllib.request.Request(f"{service.url}/v1/refunds", headers={"Authorization": "Bearer sk_test_1"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.headers["stripe-version"] == "2026-10-28.endive"
        assert answer.headers["request-id"].startswith("req_")
        assert json.loads(answer.read())["object"] == "list"


def test_errors_have_the_shape_that_clients_parse(service: LocalStripe) -> None:
    """Type, code, message, param, a page about the code, and the request's id in a header."""
    asked = urllib.request.Request(
        f"{service.url}/v1/refunds",
        data=b"payment_intent=pi_unknown&amount=5",
        headers={"Authorization": "Bearer sk_test_1"},
    )
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(asked, timeout=10)
    with caught.value as answer:
        error = json.loads(answer.read())["error"]
        assert answer.headers["request-id"].startswith("req_")
    assert error == {
        "code": "resource_missing",
        "doc_url": "https://stripe.com/docs/error-codes/resource-missing",
        "message": "No such payment_intent: 'pi_unknown'",
        "param": "payment_intent",
        "type": "invalid_request_error",
    }
