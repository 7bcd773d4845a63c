"""Idempotency keys: docs.stripe.com/api/idempotent_requests, docs.stripe.com/error-low-level, docs.stripe.com/error-codes.

This is what lets a gate send again after a crash, so every sentence of it is pinned.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import stripe

from tests.contract.stripe.place import TAGS, Place, connected_account, error_of, eventually, headers_of, refusal


@pytest.mark.double("stateful-mock")
@pytest.mark.double("localstripe", disagrees="D1")
def test_the_same_request_again_gets_the_first_answer_and_says_so(place: Place) -> None:
    """A replay is the same refund, marked `Idempotent-Replayed: true`; nothing is refunded a second time."""
    paid, key = place.paid(), place.key("replay")
    first = place.refund(paid, 2_000, key=key)
    again = place.refund(paid, 2_000, key=key)
    assert (again.id, again.amount, again.created) == (first.id, first.amount, first.created)
    assert "idempotent-replayed" not in headers_of(first)
    assert headers_of(again)["idempotent-replayed"] == "true"
    assert headers_of(again)["original-request"] == headers_of(first)["request-id"]
    assert [one.id for one in place.client.v1.refunds.list({"charge": paid.charge}).data] == [first.id]


@pytest.mark.double("stateful-mock")
def test_the_replay_is_the_answer_of_then_and_not_the_state_of_now(place: Place) -> None:
    """What was answered first is answered again, word for word, also if the object has changed since."""
    paid, key = place.paid(), place.key("then")
    first = place.refund(paid, 500, key=key, metadata={"case": "1"})
    place.refund(paid, 700)
    again = place.refund(paid, 500, key=key, metadata={"case": "1"})
    assert again.to_dict() == first.to_dict()


@pytest.mark.double("stateful-mock")
@pytest.mark.double("localstripe", disagrees="D1")
def test_the_same_key_with_other_parameters_is_refused(place: Place) -> None:
    """400, type `idempotency_error`, and nothing happens; the first request's answer stays under the key."""
    paid, key = place.paid(), place.key("bound")
    first = place.refund(paid, 2_000, key=key)
    error = refusal(lambda: place.refund(paid, 2_001, key=key), stripe.IdempotencyError)
    assert (error.http_status, error_of(error)["type"]) == (400, "idempotency_error")
    assert place.refund(paid, 2_000, key=key).id == first.id
    assert len(place.client.v1.refunds.list({"charge": paid.charge}).data) == 1


@pytest.mark.double("stateful-mock")
def test_a_changed_metadata_value_is_another_parameter_too(place: Place) -> None:
    """Every parameter is compared, metadata included: an effect's id in it cannot change under its key."""
    paid, key = place.paid(), place.key("metadata")
    place.refund(paid, 100, key=key, metadata={"effect": "e1"})
    error = refusal(lambda: place.refund(paid, 100, key=key, metadata={"effect": "e2"}), stripe.IdempotencyError)
    assert error.http_status == 400


def test_the_same_key_at_another_endpoint_is_refused(place: Place) -> None:
    """A key belongs to the endpoint that it was first used at."""
    paid, key = place.paid(), place.key("endpoint")
    place.refund(paid, 100, key=key)
    error = refusal(
        lambda: place.client.v1.customers.create({"metadata": TAGS}, {"idempotency_key": key}), stripe.IdempotencyError
    )
    assert error.http_status == 400


@pytest.mark.double("stateful-mock", disagrees="D2")
def test_a_wrong_parameter_is_not_remembered(place: Place) -> None:
    """A request refused before it executed leaves its key free: the corrected request goes through under it."""
    paid, key = place.paid(), place.key("validation")
    assert refusal(lambda: place.refund(paid, -5, key=key)).http_status == 400
    made = place.refund(paid, 100, key=key)
    assert made.amount == 100
    assert "idempotent-replayed" not in headers_of(made)


@pytest.mark.double("stateful-mock")
def test_a_refusal_by_what_is_stored_is_final_for_its_key(place: Place) -> None:
    """An endpoint that executed and said no says it again under the key, marked as replayed; another amount needs another key."""
    paid, key = place.paid(1_000), place.key("final")
    first = refusal(lambda: place.refund(paid, 1_001, key=key))
    again = refusal(lambda: place.refund(paid, 1_001, key=key))
    assert (first.http_status, again.http_status) == (400, 400)
    assert "idempotent-replayed" not in headers_of(first)
    assert headers_of(again)["idempotent-replayed"] == "true"
    assert error_of(again)["message"] == error_of(first)["message"]
    assert refusal(lambda: place.refund(paid, 1_000, key=key), stripe.IdempotencyError).http_status == 400
    assert place.refund(paid, 1_000).amount == 1_000


def test_a_key_is_not_looked_at_on_a_read(place: Place) -> None:
    """A GET under a key is answered anew each time."""
    paid, key = place.paid(), place.key("read")
    asked: Any = {"charge": paid.charge}
    before = place.client.v1.refunds.list(asked, {"idempotency_key": key})
    place.refund(paid, 100)
    after = place.client.v1.refunds.list(asked, {"idempotency_key": key})
    assert (len(before.data), len(after.data)) == (0, 1)


def test_a_key_has_at_most_255_characters(place: Place) -> None:
    """A longer key is a 400 and does nothing."""
    paid = place.paid()
    assert refusal(lambda: place.refund(paid, 100, key="k" * 256), stripe.StripeError).http_status == 400
    key = place.key("long")
    assert place.refund(paid, 100, key=key + "k" * (255 - len(key))).amount == 100


@pytest.mark.double("stateful-mock")
def test_many_clients_with_one_key_are_one_refund(place: Place) -> None:
    """Whoever does not get the refund gets a 409; there is one refund."""
    paid, key = place.paid(), place.key("race")

    def send(_: int) -> str:
        try:
            return place.refund(paid, 100, key=key).id
        except stripe.APIError as error:
            return str(error.http_status)

    with ThreadPoolExecutor(6) as pool:
        answers = set(pool.map(send, range(6)))
    (made,) = place.client.v1.refunds.list({"charge": paid.charge}).data
    assert made.id in answers
    assert answers <= {made.id, "409"}


@pytest.mark.local_only("a request has to be held open while the second one comes")
def test_a_key_in_use_is_a_conflict_and_then_a_replay(place: Place) -> None:
    """While the first request executes, the second is a 409 `idempotency_key_in_use`; afterwards it is replayed."""
    paid, key = place.paid(), place.key("busy")
    place.service.fault(method="POST", path="/v1/refunds", kind="delay_before", delay_s=0.8)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(place.refund, paid, 100, key=key)
        eventually(lambda: any(one["idempotency_key"] == key for one in place.service.ledger()["requests"]))
        error = refusal(lambda: place.refund(paid, 100, key=key), stripe.APIError)
        assert (error.http_status, error_of(error)["code"]) == (409, "idempotency_key_in_use")
        assert headers_of(error)["stripe-should-retry"] == "true"
        made = slow.result()
    assert place.refund(paid, 100, key=key).id == made.id


@pytest.mark.local_only("Stripe's test mode answers no 500 on demand")
def test_a_500_is_remembered_and_may_have_acted(place: Place) -> None:
    """The same key gets the same 500 again; only a look at the list tells whether the refund is there."""
    paid, key = place.paid(), place.key("500")
    place.service.fault(method="POST", path="/v1/refunds", kind="error_500_after")
    for replayed in (None, "true"):
        error = refusal(lambda: place.refund(paid, 100, key=key), stripe.APIError)
        assert (error.http_status, headers_of(error).get("idempotent-replayed")) == (500, replayed)
    assert len(place.client.v1.refunds.list({"charge": paid.charge}).data) == 1


@pytest.mark.local_only("Stripe's test mode cannot be asked for a 429")
def test_a_rate_limit_is_not_remembered(place: Place) -> None:
    """A 429 stands in front of the idempotency layer: the same key executes afterwards."""
    paid, key = place.paid(), place.key("429")
    place.service.fault(method="POST", path="/v1/refunds", kind="error_429")
    assert refusal(lambda: place.refund(paid, 100, key=key), stripe.RateLimitError).http_status == 429
    assert "idempotent-replayed" not in headers_of(place.refund(paid, 100, key=key))


@pytest.mark.local_only("a day has to pass")
def test_after_its_window_a_key_makes_a_new_request(place: Place) -> None:
    """Keys may go after 24 hours, and the same request then refunds again: nothing may rely on more."""
    paid, key = place.paid(), place.key("window")
    first = place.refund(paid, 100, key=key)
    place.service.advance(24 * 3600 - 5)
    assert place.refund(paid, 100, key=key).id == first.id
    place.service.advance(10)
    assert place.refund(paid, 100, key=key).id != first.id


@pytest.mark.local_only("needs an account with another one connected to it")
def test_a_key_belongs_to_an_account(place: Place) -> None:
    """The same key under another `Stripe-Account` is another key."""
    key = place.key("account")
    accounts = [connected_account(place) for _ in range(2)]
    for account in accounts:
        error = refusal(
            lambda account=account: place.client.v1.payouts.create(  # type: ignore[misc]
                {"amount": 100, "currency": "usd"}, {"idempotency_key": key, "stripe_account": account}
            )
        )
        assert error.code == "balance_insufficient"
        assert "idempotent-replayed" not in headers_of(error)
