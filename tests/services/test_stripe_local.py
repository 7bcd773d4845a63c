"""The local Stripe-compatible service, driven only through the official SDK; its ledger is what the API is judged by."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
import stripe

from benchmarks.services.stripe import LocalStripe, RemoteStripe, ServiceError
from benchmarks.services.stripe.faults import Fault, FaultKind, Faults
from benchmarks.services.stripe.ledger import FILE, Ledger, LedgerInUse

ROOT = Path(__file__).resolve().parents[2]
DAY_S = 24 * 60 * 60


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStripe]:
    with LocalStripe(tmp_path_factory.mktemp("stripe")) as service:
        yield service


@pytest.fixture
def service(running: LocalStripe) -> LocalStripe:
    running.clear_faults()
    running.reset_clock()
    return running


@pytest.fixture
def own(tmp_path: Path) -> Iterator[LocalStripe]:
    """A service of the test's own, which it may kill."""
    with LocalStripe(tmp_path / "stripe") as service:
        yield service


@pytest.fixture
def client(service: LocalStripe) -> stripe.StripeClient:
    return service.client()


def pay(client: stripe.StripeClient, amount: int = 10_000, **more: Any) -> stripe.PaymentIntent:
    asked: Any = {
        "amount": amount,
        "currency": "usd",
        "payment_method": "pm_card_visa",
        "confirm": True,
        "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
        **more,
    }
    return client.v1.payment_intents.create(asked)


def refund(
    client: stripe.StripeClient, payment: str, amount: int, key: str | None = None, **more: Any
) -> stripe.Refund:
    asked: Any = {"payment_intent": payment, "amount": amount, **more}
    return client.v1.refunds.create(asked, {} if key is None else {"idempotency_key": key})


def headers(answer: Any) -> dict[str, str]:
    told: Any = answer.headers if isinstance(answer, stripe.StripeError) else answer.last_response.headers
    return {name.lower(): value for name, value in told.items()}


def metadata_of(answer: Any) -> dict[str, str]:
    told: dict[str, str] = answer.metadata.to_dict()
    return told


def error_of(error: stripe.StripeError) -> dict[str, Any]:
    body: Any = error.json_body
    fields: dict[str, Any] = body["error"]
    return fields


def eventually(condition: Callable[[], bool], *, within_s: float = 10.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not so within {within_s} s"
        time.sleep(0.01)


def requests_with(service: RemoteStripe, key: str) -> list[dict[str, Any]]:
    return [one for one in service.ledger()["requests"] if one["idempotency_key"] == key]


# --- shapes -------------------------------------------------------------------------------------------------------

# Field by field as in Stripe's OpenAPI fixtures; a question mark where the field may be null.
SHAPES = {
    "payment_intent": {
        "int": "amount amount_capturable amount_received created",
        "str": "capture_method client_secret confirmation_method currency id object status",
        "bool": "livemode",
        "dict": "metadata",
        "list": "payment_method_types",
        "int?": "application_fee_amount canceled_at",
        "list?": "excluded_payment_method_types",
        "dict?": "amount_details automatic_payment_methods last_payment_error managed_payments next_action"
        " payment_method_configuration_details payment_method_options processing shipping transfer_data",
        "str?": "application cancellation_reason customer customer_account description latest_charge on_behalf_of"
        " payment_method receipt_email review setup_future_usage source statement_descriptor statement_descriptor_suffix"
        " transfer_group",
    },
    "charge": {
        "int": "amount amount_captured amount_refunded created",
        "str": "currency id object status",
        "bool": "captured disputed livemode paid refunded",
        "dict": "billing_details metadata",
        "int?": "application_fee_amount",
        "dict?": "fraud_details outcome payment_method_details shipping source transfer_data",
        "str?": "application application_fee balance_transaction calculated_statement_descriptor customer description"
        " failure_balance_transaction failure_code failure_message on_behalf_of payment_intent payment_method receipt_email"
        " receipt_number receipt_url review source_transfer statement_descriptor statement_descriptor_suffix transfer_group",
    },
    "refund": {
        "int": "amount created",
        "str": "currency id object status",
        "dict": "metadata",
        "dict?": "destination_details",
        "str?": "balance_transaction charge customer customer_account payment_intent payment_method reason receipt_number"
        " source_transfer_reversal transfer_reversal",
    },
}
TYPES: dict[str, type] = {"int": int, "str": str, "bool": bool, "dict": dict, "list": list}


def assert_shape(body: dict[str, Any]) -> None:
    expected = {
        name: (TYPES[kind.rstrip("?")], kind.endswith("?"))
        for kind, names in SHAPES[body["object"]].items()
        for name in names.split()
    }
    assert sorted(body) == sorted(expected)
    for name, (wanted, may_be_null) in expected.items():
        assert type(body[name]) is wanted or (may_be_null and body[name] is None), f"{name}: {body[name]!r}"


def test_objects_have_stripes_fields_and_types(client: stripe.StripeClient) -> None:
    """Every object has exactly the fields of Stripe's fixtures, each of its type, in every state the service makes."""
    with pytest.raises(stripe.CardError):
        pay(client, payment_method="pm_card_chargeDeclined", metadata={"case": "shapes"})
    declined = client.v1.payment_intents.list({"limit": 1}).data[0]
    paid = pay(client)
    # A server-to-server parameter that Stripe still takes, and the SDK's types no longer show.
    card_only: Any = {"amount": 500, "currency": "eur", "payment_method_types": ["card"]}
    open_one = client.v1.payment_intents.create(card_only)
    made = refund(client, paid.id, 100, reason="duplicate")
    charged, failed = (client.v1.charges.retrieve(str(intent.latest_charge)) for intent in (paid, declined))
    shown: list[Any] = [paid, open_one, declined, made, charged, failed]
    for one in shown:
        assert_shape(one.to_dict())
    assert (charged.status, failed.status, failed.failure_code) == ("succeeded", "failed", "card_declined")


# --- payments -----------------------------------------------------------------------------------------------------


def test_payment_is_created_confirmed_retrieved_and_listed(client: stripe.StripeClient) -> None:
    """A payment can be made in one call or in two, and is then read back the same."""
    at_once = pay(client, metadata={"order": "881"}, description="shoes")
    assert (at_once.status, at_once.amount_received) == ("succeeded", 10_000)
    assert metadata_of(at_once) == {"order": "881"}
    later = client.v1.payment_intents.create(
        {"amount": 700, "currency": "usd", "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"}}
    )
    assert (later.status, later.latest_charge) == ("requires_payment_method", None)
    later = client.v1.payment_intents.confirm(later.id, {"payment_method": "pm_card_mastercard"})
    assert (later.status, later.amount_received) == ("succeeded", 700)
    assert client.v1.payment_intents.retrieve(at_once.id).to_dict() == at_once.to_dict()
    listed = client.v1.payment_intents.list({"limit": 2})
    assert [intent.id for intent in listed.data] == [later.id, at_once.id]
    charge = client.v1.charges.list({"payment_intent": at_once.id}).data[0]
    assert (charge.id, charge.paid, charge.captured, charge.amount) == (at_once.latest_charge, True, True, 10_000)
    assert client.v1.charges.retrieve(charge.id).to_dict() == charge.to_dict()


def test_declined_card_raises_card_error_and_moves_nothing(client: stripe.StripeClient) -> None:
    """A test card that is declined raises CardError with Stripe's codes, and the payment asks for another card."""
    with pytest.raises(stripe.CardError) as caught:
        pay(client, payment_method="pm_card_chargeDeclinedInsufficientFunds")
    told = error_of(caught.value)
    assert (caught.value.code, told["decline_code"], caught.value.http_status) == (
        "card_declined",
        "insufficient_funds",
        402,
    )
    intent = client.v1.payment_intents.retrieve(told["payment_intent"]["id"])
    assert (intent.status, intent.amount_received) == ("requires_payment_method", 0)
    with pytest.raises(stripe.InvalidRequestError, match="does not have a successful charge to refund"):
        refund(client, intent.id, 100)


def test_confirming_needs_a_card_and_a_way_back(client: stripe.StripeClient) -> None:
    """What real Stripe refuses when confirming is refused: no card, a possible redirect without return_url, twice."""
    bare = client.v1.payment_intents.create({"amount": 500, "currency": "usd"})
    with pytest.raises(stripe.InvalidRequestError, match="missing a payment method"):
        client.v1.payment_intents.confirm(bare.id)
    with pytest.raises(stripe.InvalidRequestError, match="you must provide a `return_url`"):
        client.v1.payment_intents.confirm(bare.id, {"payment_method": "pm_card_visa"})
    confirmed: Any = {"payment_method": "pm_card_visa", "return_url": "https://shop.test/back"}
    assert client.v1.payment_intents.confirm(bare.id, confirmed).status == "succeeded"
    with pytest.raises(stripe.InvalidRequestError) as caught:
        client.v1.payment_intents.confirm(bare.id, confirmed)
    assert caught.value.code == "payment_intent_unexpected_state"


# --- refunds ------------------------------------------------------------------------------------------------------


def test_partial_refunds_add_up_on_the_charge(service: LocalStripe, client: stripe.StripeClient) -> None:
    """Partial refunds land one by one; without an amount the rest is refunded; the charge shows the sum."""
    payment = pay(client)
    first = refund(client, payment.id, 2_000, metadata={"effect_id": "e1"}, reason="requested_by_customer")
    assert (first.status, first.amount, first.payment_intent, first.charge, first.currency) == (
        "succeeded",
        2_000,
        payment.id,
        payment.latest_charge,
        "usd",
    )
    charge = client.v1.charges.retrieve(str(payment.latest_charge), {"expand": ["refunds"]})
    assert (charge.amount_refunded, charge.refunded) == (2_000, False)
    assert charge.refunds is not None
    assert [one.id for one in charge.refunds.data] == [first.id]
    rest = client.v1.refunds.create({"charge": str(payment.latest_charge)})
    assert rest.amount == 8_000
    charge = client.v1.charges.retrieve(str(payment.latest_charge))
    assert (charge.amount_refunded, charge.refunded) == (10_000, True)
    assert service.refunded(payment.id) == (10_000, 2)
    assert service.refunded("pi_unknown") == (0, 0)


def test_refunds_beyond_the_charge_are_refused_in_stripes_words(client: stripe.StripeClient) -> None:
    """More than what is left, and anything after all of it, is refused with Stripe's status, code and message."""
    payment = pay(client)
    refund(client, payment.id, 9_000)
    with pytest.raises(stripe.InvalidRequestError) as caught:
        refund(client, payment.id, 2_000)
    assert caught.value.user_message == "Refund amount ($20.00) is greater than unrefunded amount on charge ($10.00)"
    assert (caught.value.http_status, caught.value.param, caught.value.code) == (400, "amount", None)
    refund(client, payment.id, 1_000)
    with pytest.raises(stripe.InvalidRequestError) as caught:
        refund(client, payment.id, 1)
    assert caught.value.user_message == f"Charge {payment.latest_charge} has already been refunded."
    assert (caught.value.http_status, caught.value.code) == (400, "charge_already_refunded")


def test_refunds_are_listed_newest_first_in_pages(client: stripe.StripeClient) -> None:
    """Lists filter by payment and charge, page by cursor in both directions, and say truly whether there is more."""
    payment, other = pay(client), pay(client)
    made = [refund(client, payment.id, 100 + number).id for number in range(5)][::-1]
    refund(client, other.id, 100)
    mine: Any = {"payment_intent": payment.id}

    def page(**more: Any) -> tuple[list[str], bool]:
        asked: Any = {**mine, **more}
        listed = client.v1.refunds.list(asked)
        return [one.id for one in listed.data], bool(listed.has_more)

    small_pages: Any = {**mine, "limit": 2}
    assert page() == (made, False)
    assert page(limit=2) == (made[:2], True)
    assert page(limit=2, starting_after=made[1]) == (made[2:4], True)
    assert page(limit=2, starting_after=made[3]) == (made[4:], False)
    assert page(limit=2, ending_before=made[4]) == (made[2:4], True)
    assert page(limit=3, ending_before=made[3]) == (made[:3], False)
    assert page(limit=5) == (made, False)
    assert [one.id for one in client.v1.refunds.list(small_pages).auto_paging_iter()] == made
    by_charge = client.v1.refunds.list({"charge": str(payment.latest_charge)})
    assert [one.id for one in by_charge.data] == made
    assert page(created={"gt": int(time.time()) + 60}) == ([], False)
    assert page(created={"gte": int(time.time()) - 60}) == (made, False)
    with pytest.raises(stripe.InvalidRequestError) as caught:
        page(starting_after="re_unknown")
    assert caught.value.code == "resource_missing"


def test_metadata_is_stored_merged_and_unset(client: stripe.StripeClient) -> None:
    """Metadata comes back as stored; an update replaces what it names, an empty value unsets, an empty text unsets all."""
    payment = pay(client)
    made = refund(client, payment.id, 100, metadata={"effect_id": "e1", "case": "9"})
    changed = client.v1.refunds.update(made.id, {"metadata": {"case": "", "by": "support"}})
    assert metadata_of(changed) == {"effect_id": "e1", "by": "support"}
    assert metadata_of(client.v1.refunds.retrieve(made.id)) == metadata_of(changed)
    assert metadata_of(client.v1.refunds.update(made.id, {"metadata": ""})) == {}
    updated = client.v1.payment_intents.update(payment.id, {"metadata": {"order": "1"}})
    assert metadata_of(updated) == {"order": "1"}
    for too_much in ({"k" * 41: "v"}, {"k": "v" * 501}, {f"k{number}": "v" for number in range(51)}):
        with pytest.raises(stripe.InvalidRequestError, match="Metadata"):
            client.v1.refunds.update(made.id, {"metadata": too_much})


def test_references_expand_where_stripe_expands_them(client: stripe.StripeClient) -> None:
    """`expand` puts the object in place of its id, in objects and in lists, and refuses what it cannot expand."""
    payment = pay(client, expand=["latest_charge"])
    charge: Any = payment.latest_charge
    assert (charge.object, charge.payment_intent) == ("charge", payment.id)
    refund(client, payment.id, 100)
    listed = client.v1.refunds.list({"payment_intent": payment.id, "expand": ["data.charge.payment_intent"]})
    expanded: Any = listed.data[0].charge
    assert (expanded.id, expanded.payment_intent.id) == (charge.id, payment.id)
    with pytest.raises(stripe.InvalidRequestError, match=r"cannot be expanded \(reviews\)"):
        refund(client, payment.id, 100, expand=["reviews"])
    assert len(client.v1.refunds.list({"payment_intent": payment.id}).data) == 1


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
def test_async_client_is_served_the_same(service: LocalStripe) -> None:
    """The SDK's async methods work against the service, and a dropped connection is APIConnectionError there too."""

    async def run() -> tuple[str, type[BaseException] | None]:
        transport: Any = stripe.HTTPXClient(timeout=10)
        client = stripe.StripeClient(
            "sk_test_async", base_addresses={"api": service.url}, max_network_retries=0, http_client=transport
        )
        payment = pay(service.client())
        made = await client.v1.refunds.create_async({"payment_intent": payment.id, "amount": 100})
        service.fault(method="POST", path="/v1/refunds", kind="drop_after")
        try:
            await client.v1.refunds.create_async({"payment_intent": payment.id, "amount": 100})
        except stripe.StripeError as error:
            return made.status or "", type(error)
        finally:
            await transport.close_async()
        return made.status or "", None

    assert asyncio.run(run()) == ("succeeded", stripe.APIConnectionError)


# --- refusals before an endpoint executes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "code", "param"),
    [
        ({"amount": 100, "surprise": "1"}, "parameter_unknown", "surprise"),
        ({"amount": 100, "reverse_transfer": True}, "parameter_unknown", "reverse_transfer"),
        ({"amount": "ten"}, "parameter_invalid_integer", "amount"),
        ({"amount": 10.5}, "parameter_invalid_integer", "amount"),
        ({"amount": 0}, "parameter_invalid_integer", "amount"),
        ({"amount": -5}, "parameter_invalid_integer", "amount"),
        ({"amount": {"minor": 5}}, "parameter_invalid_integer", "amount"),
        ({"amount": 100, "reason": "because"}, None, "reason"),
        ({"amount": 100, "metadata": "text"}, None, "metadata"),
        ({"amount": 100, "charge": "ch_1"}, None, "payment_intent"),
        ({"amount": 100, "payment_intent": ""}, "parameter_invalid_empty", "payment_intent"),
        ({"amount": 100, "payment_intent": "pi_unknown"}, "resource_missing", "payment_intent"),
    ],
)
def test_wrong_parameters_are_refused_loudly(
    service: LocalStripe, client: stripe.StripeClient, asked: dict[str, Any], code: str | None, param: str
) -> None:
    """A parameter that is unknown, not modelled, malformed or names nothing is a 400 that says which, and refunds nothing."""
    payment = pay(client)
    with pytest.raises(stripe.InvalidRequestError) as caught:
        refund(client, payment.id, **{"key": None, **asked})
    assert (caught.value.http_status, caught.value.code, caught.value.param) == (400, code, param)
    assert service.refunded(payment.id) == (0, 0)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"amount": 49}, "amount_too_small"),
        ({"currency": "xxx"}, None),
        ({"payment_method": "pm_unknown"}, "resource_missing"),
        ({"customer": "cus_1"}, "resource_missing"),
        ({"shipping": {"name": "J"}}, "parameter_unknown"),
        ({"amount": 100_000_000}, "amount_too_large"),
        ({"currency": "kwd", "amount": 1005}, "invalid_amount"),
        ({"currency": "isk", "amount": 1050}, "invalid_amount"),
        ({"currency": "jpy", "amount": 49}, "amount_too_small"),
        ({"amount": 10.5}, "parameter_invalid_integer"),
        ({"amount": "$5"}, "parameter_invalid_integer"),
        ({"automatic_payment_methods": {"enabled": True, "color": "red"}}, "parameter_unknown"),
        ({"payment_method_types": ["card"]}, None),
        ({"confirm": "perhaps"}, None),
    ],
)
def test_wrong_payments_are_refused_loudly(
    service: LocalStripe, client: stripe.StripeClient, asked: dict[str, Any], code: str | None
) -> None:
    """The same for payments: refused, and nothing is paid."""
    before = service.ledger()["payment_intents"]
    with pytest.raises(stripe.InvalidRequestError) as caught:
        pay(client, **{"amount": 500, **asked})
    assert (caught.value.http_status, caught.value.code) == (400, code)
    assert service.ledger()["payment_intents"] == before


def test_missing_parameters_are_named(client: stripe.StripeClient) -> None:
    """A request without what its endpoint needs says what is missing."""
    nothing: Any = {}
    with pytest.raises(stripe.InvalidRequestError) as caught:
        client.v1.payment_intents.create(nothing)
    assert (caught.value.code, caught.value.param) == ("parameter_missing", "amount")
    with pytest.raises(stripe.InvalidRequestError) as caught:
        client.v1.refunds.create(nothing)
    assert (caught.value.code, caught.value.param) == ("parameter_missing", "payment_intent")


def test_absent_objects_and_absent_endpoints_are_told_apart(client: stripe.StripeClient) -> None:
    """An id nobody has is a 404 resource_missing; an address nobody serves is a 404 that names it, search included."""
    for retrieve, noun in (
        (client.v1.payment_intents.retrieve, "payment_intent"),
        (client.v1.charges.retrieve, "charge"),
        (client.v1.refunds.retrieve, "refund"),
    ):
        with pytest.raises(stripe.InvalidRequestError, match=f"No such {noun}: 'x_1'") as caught:
            retrieve("x_1")
        assert (caught.value.http_status, caught.value.code) == (404, "resource_missing")
    payment = pay(client)
    for call, address in (
        (lambda: client.v1.subscriptions.list(), "GET: /v1/subscriptions"),
        (
            lambda: client.v1.payment_intents.increment_authorization(payment.id, {"amount": 1}),
            f"POST: /v1/payment_intents/{payment.id}/increment_authorization",
        ),
        (lambda: client.v1.payment_intents.search({"query": "a:1"}), "GET: /v1/payment_intents/search"),
        (lambda: client.v2.core.events.list({"object_id": "x"}), "GET: /v2/core/events"),
    ):
        with pytest.raises(stripe.InvalidRequestError, match="Unrecognized request URL") as caught:
            call()
        assert address in str(caught.value)
        assert (caught.value.http_status, caught.value.code) == (404, None)


def test_only_test_keys_pass(service: LocalStripe) -> None:
    """A key that is no test key is a 401; a live one is refused by name and not repeated."""
    payment = pay(service.client())
    for key, wanted in (
        ("sk_live_51Secret", "A live key"),
        ("rk_live_51Secret", "A live key"),
        ("pk_test_1", "Invalid API Key"),
        ("nonsense", "Invalid API Key"),
    ):
        with pytest.raises(stripe.AuthenticationError, match=wanted) as caught:
            refund(service.client(key), payment.id, 100, "same-key")
        assert caught.value.http_status == 401
        assert "51Secret" not in str(caught.value)
    assert service.refunded(payment.id) == (0, 0)
    # A 401 is not remembered under the key.
    made = refund(service.client("sk_test_other"), payment.id, 100, "same-key")
    assert "idempotent-replayed" not in headers(made)


# --- idempotency keys ---------------------------------------------------------------------------------------------


def test_same_key_same_parameters_is_replayed(service: LocalStripe, client: stripe.StripeClient) -> None:
    """The second request gets the first one's answer, word for word, marked as replayed, and nothing else happens."""
    payment = pay(client)
    first = refund(client, payment.id, 2_000, "replay-1", metadata={"a": "1", "b": "2"})
    client.v1.refunds.update(first.id, {"metadata": {"a": "changed"}})
    again = refund(client, payment.id, 2_000, "replay-1", metadata={"b": "2", "a": "1"})
    assert again.to_dict() == first.to_dict()
    assert "idempotent-replayed" not in headers(first)
    assert headers(again)["idempotent-replayed"] == "true"
    assert headers(again)["original-request"] == headers(first)["request-id"] == headers(first)["original-request"]
    assert headers(again)["request-id"] != headers(first)["request-id"]
    assert headers(again)["idempotency-key"] == "replay-1"
    assert service.refunded(payment.id) == (2_000, 1)
    assert [(one["status"], one["replayed"]) for one in requests_with(service, "replay-1")] == [
        (200, False),
        (200, True),
    ]


def test_same_key_other_parameters_or_endpoint_is_an_idempotency_error(
    service: LocalStripe, client: stripe.StripeClient
) -> None:
    """A key is bound to its first request: other parameters, or another endpoint, are a 400 of type idempotency_error."""
    payment = pay(client)
    refund(client, payment.id, 2_000, "bound-1")
    with pytest.raises(stripe.IdempotencyError, match="same parameters they were first used with") as caught:
        refund(client, payment.id, 2_001, "bound-1")
    assert (caught.value.http_status, error_of(caught.value)["type"]) == (400, "idempotency_error")
    with pytest.raises(
        stripe.IdempotencyError, match=r"same endpoint they were first used for \('/v1/payment_intents'"
    ):
        client.v1.payment_intents.create({"amount": 500, "currency": "usd"}, {"idempotency_key": "bound-1"})
    assert service.refunded(payment.id) == (2_000, 1)
    assert refund(client, payment.id, 2_000, "bound-1").amount == 2_000


def test_answers_of_an_endpoint_that_executed_are_remembered(service: LocalStripe, client: stripe.StripeClient) -> None:
    """A refusal by state, a decline and a 500 are remembered as well as a success: the same key gets them again."""
    payment = pay(client, 1_000)
    for key, kind, status in (("kept-402", "decline", 402), ("kept-500", "error_500_before", 500)):
        service.fault(method="POST", path="/v1/refunds", kind=kind)
        for replayed in (None, "true"):
            with pytest.raises(stripe.StripeError) as caught:
                refund(client, payment.id, 100, key)
            assert (caught.value.http_status, headers(caught.value).get("idempotent-replayed")) == (status, replayed)
    assert service.refunded(payment.id) == (0, 0)
    with pytest.raises(stripe.InvalidRequestError, match="greater than unrefunded amount"):
        refund(client, payment.id, 1_001, "kept-400")
    with pytest.raises(stripe.InvalidRequestError) as caught_400:
        refund(client, payment.id, 1_001, "kept-400")
    assert headers(caught_400.value)["idempotent-replayed"] == "true"
    with pytest.raises(stripe.IdempotencyError):
        refund(client, payment.id, 1_000, "kept-400")


def test_answers_before_execution_are_not_remembered(service: LocalStripe, client: stripe.StripeClient) -> None:
    """Wrong parameters and a rate limit leave the key free for the corrected request."""
    payment = pay(client)
    with pytest.raises(stripe.InvalidRequestError):
        refund(client, payment.id, 0, "free-1")
    assert "idempotent-replayed" not in headers(refund(client, payment.id, 100, "free-1"))
    service.fault(method="POST", path="/v1/refunds", kind="error_429")
    with pytest.raises(stripe.RateLimitError):
        refund(client, payment.id, 100, "free-2")
    assert "idempotent-replayed" not in headers(refund(client, payment.id, 100, "free-2"))
    assert service.refunded(payment.id) == (200, 2)


def test_key_window_is_24_hours_of_the_services_clock(service: LocalStripe, client: stripe.StripeClient) -> None:
    """Inside the window a key is replayed, also if the clock was set back; at 24 hours it makes a new request."""
    payment = pay(client)
    first = refund(client, payment.id, 100, "window-1")
    service.advance(-DAY_S)
    assert refund(client, payment.id, 100, "window-1").id == first.id
    service.advance(2 * DAY_S - 60)
    assert refund(client, payment.id, 100, "window-1").id == first.id
    service.advance(61)
    second = refund(client, payment.id, 100, "window-1")
    assert second.id != first.id
    # Once the key is a new request's, that request's parameters bind it.
    assert refund(client, payment.id, 100, "window-1").id == second.id
    service.reset_clock()
    assert abs(refund(client, payment.id, 100).created - time.time()) < 60
    assert service.refunded(payment.id) == (300, 3)


def test_forgotten_keys_make_new_requests(service: LocalStripe, client: stripe.StripeClient) -> None:
    """After a prune the same key refunds again: this is what nobody may rely on."""
    payment = pay(client)
    refund(client, payment.id, 100, "pruned-1")
    service.forget_keys()
    refund(client, payment.id, 100, "pruned-1")
    assert service.refunded(payment.id) == (200, 2)


def test_keys_are_checked_for_length_and_ignored_on_reads(service: LocalStripe, client: stripe.StripeClient) -> None:
    """255 characters are the most; a GET takes no notice of a key."""
    payment = pay(client)
    with pytest.raises(stripe.InvalidRequestError, match="255"):
        refund(client, payment.id, 100, "k" * 256)
    refund(client, payment.id, 100, "k" * 255)
    before = client.v1.refunds.list({"payment_intent": payment.id}, {"idempotency_key": "read-1"})
    refund(client, payment.id, 100)
    after = client.v1.refunds.list({"payment_intent": payment.id}, {"idempotency_key": "read-1"})
    assert (len(before.data), len(after.data)) == (1, 2)
    assert requests_with(service, "read-1") == []


def test_key_in_use_is_a_conflict(service: LocalStripe, client: stripe.StripeClient) -> None:
    """While a request executes, the same key gets 409 idempotency_key_in_use at once; afterwards it is replayed."""
    payment = pay(client)
    service.fault(method="POST", path="/v1/refunds", kind="delay_before", delay_s=0.8)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(refund, client, payment.id, 100, "busy-1")
        eventually(lambda: len(requests_with(service, "busy-1")) == 1)
        with pytest.raises(stripe.APIError) as caught:
            refund(client, payment.id, 100, "busy-1")
        # The SDK has no class of its own for a 409, and keeps the code in `error` only.
        assert type(caught.value) is stripe.APIError
        assert (caught.value.http_status, caught.value.code) == (409, None)
        told = error_of(caught.value)
        assert (told["type"], told["code"]) == ("invalid_request_error", "idempotency_key_in_use")
        assert headers(caught.value)["stripe-should-retry"] == "true"
        made = slow.result()
    assert refund(client, payment.id, 100, "busy-1").id == made.id
    assert service.refunded(payment.id) == (100, 1)


def test_sdk_retries_a_conflict_and_not_a_500(service: LocalStripe) -> None:
    """With its own retries on, the SDK sits out a 409 and does not repeat a 500, as against real Stripe."""
    retrying = stripe.StripeClient("sk_test_retry", base_addresses={"api": service.url}, max_network_retries=3)
    payment = pay(service.client())
    service.fault(method="POST", path="/v1/refunds", kind="delay_before", delay_s=0.3)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(refund, service.client(), payment.id, 100, "patient-1")
        eventually(lambda: len(requests_with(service, "patient-1")) == 1)
        assert refund(retrying, payment.id, 100, "patient-1").id == slow.result().id
    service.fault(method="POST", path="/v1/refunds", kind="error_500_after")
    with pytest.raises(stripe.APIError):
        refund(retrying, payment.id, 100, "patient-2")
    assert [one["status"] for one in requests_with(service, "patient-2")] == [500]


# --- concurrency --------------------------------------------------------------------------------------------------


def test_one_key_from_eight_threads_is_one_refund(service: LocalStripe) -> None:
    """Eight clients with one key at once: one refund; everybody gets that refund or a conflict."""
    payment = pay(service.client())
    service.fault(method="POST", path="/v1/refunds", kind="delay_before", delay_s=0.1)
    start = threading.Barrier(8)

    def send(_: int) -> str:
        client = service.client()
        start.wait()
        try:
            return refund(client, payment.id, 100, "eight-1").id
        except stripe.APIError as error:
            return str(error.http_status)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(send, range(8)))
    made = service.client().v1.refunds.list({"payment_intent": payment.id}).data
    assert len(made) == 1
    assert set(answers) == {made[0].id, "409"}
    assert service.refunded(payment.id) == (100, 1)


def test_racing_partial_refunds_never_exceed_the_charge(service: LocalStripe) -> None:
    """Sixteen clients race for parts of one charge: exactly as many land as fit, and the rest are refused."""
    payment = pay(service.client(), 1_000)
    start = threading.Barrier(16)

    def send(_: int) -> str:
        client = service.client()
        start.wait()
        try:
            refund(client, payment.id, 150)
        except stripe.InvalidRequestError as error:
            return str(error.user_message)
        return "landed"

    with ThreadPoolExecutor(16) as pool:
        answers = Counter(pool.map(send, range(16)))
    refused = "Refund amount ($1.50) is greater than unrefunded amount on charge ($1.00)"
    assert answers == {"landed": 6, refused: 10}
    assert service.refunded(payment.id) == (900, 6)
    charge = service.client().v1.charges.retrieve(str(payment.latest_charge))
    assert (charge.amount_refunded, charge.refunded) == (900, False)


def test_a_delayed_request_does_not_hold_up_others(service: LocalStripe, client: stripe.StripeClient) -> None:
    """While one refund waits, others are answered."""
    payment = pay(client)
    service.fault(method="POST", path="/v1/refunds", kind="delay_before", delay_s=1.0)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(refund, client, payment.id, 100, "slow-1")
        eventually(lambda: len(requests_with(service, "slow-1")) == 1)
        for _ in range(5):
            refund(client, payment.id, 100)
        assert not slow.done()
        slow.result()
    assert service.refunded(payment.id) == (600, 6)


# --- faults -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "error", "status", "landed"),
    [
        ("drop_before", stripe.APIConnectionError, None, False),
        ("drop_after", stripe.APIConnectionError, None, True),
        ("error_500_before", stripe.APIError, 500, False),
        ("error_500_after", stripe.APIError, 500, True),
        ("error_429", stripe.RateLimitError, 429, False),
        ("decline", stripe.CardError, 402, False),
    ],
)
def test_faults_reach_the_sdk_as_what_they_are(
    service: LocalStripe,
    client: stripe.StripeClient,
    kind: str,
    error: type[stripe.StripeError],
    status: int | None,
    landed: bool,
) -> None:
    """Each fault raises its one exception in the SDK, acts or not as its name says, and strikes only once."""
    payment = pay(client)
    service.fault(method="POST", path="/v1/refunds", kind=kind)
    with pytest.raises(stripe.StripeError) as caught:
        refund(client, payment.id, 100, f"fault-{kind}")
    assert (type(caught.value), caught.value.http_status) == (error, status)
    if kind.startswith("drop"):
        # Closed by the service, and not a client that got tired of waiting.
        assert type(caught.value.__cause__) is requests.ConnectionError
        assert "without response" in str(caught.value) or "reset by peer" in str(caught.value)
    assert service.refunded(payment.id) == ((100, 1) if landed else (0, 0))
    logged = requests_with(service, f"fault-{kind}")
    assert [(one["method"], one["path"], one["status"], one["fault"]) for one in logged] == [
        ("POST", "/v1/refunds", status, kind)
    ]
    assert logged[0]["params"] == {"payment_intent": payment.id, "amount": "100"}
    refund(client, payment.id, 100, f"after-{kind}")
    assert service.refunded(payment.id)[1] == (2 if landed else 1)


@pytest.mark.parametrize(("kind", "replayed"), [("drop_before", None), ("drop_after", "true")])
def test_a_dropped_refund_resent_with_its_key_is_one_refund(
    service: LocalStripe, client: stripe.StripeClient, kind: str, replayed: str | None
) -> None:
    """After a lost answer the same key gives the refund that landed, or makes it if none did."""
    payment = pay(client)
    service.fault(method="POST", path="/v1/refunds", kind=kind)
    with pytest.raises(stripe.APIConnectionError):
        refund(client, payment.id, 100, f"resend-{kind}")
    assert headers(refund(client, payment.id, 100, f"resend-{kind}")).get("idempotent-replayed") == replayed
    assert service.refunded(payment.id) == (100, 1)


def test_delays_act_before_or_after_the_wait(service: LocalStripe) -> None:
    """A client that gives up first: delay_before lands after that, delay_after has landed already; both land once."""
    impatient = service.client(timeout_s=0.3)
    payment = pay(service.client())
    for kind, landed_at_timeout in (("delay_before", 0), ("delay_after", 1)):
        before = service.refunded(payment.id)[1]
        service.fault(method="POST", path="/v1/refunds", kind=kind, delay_s=0.9)
        with pytest.raises(stripe.APIConnectionError):
            refund(impatient, payment.id, 100, f"gave-up-{kind}")
        assert service.refunded(payment.id)[1] - before == landed_at_timeout
        eventually(lambda count=before + 1: service.refunded(payment.id)[1] == count)  # type: ignore[misc]
        eventually(lambda key=f"gave-up-{kind}": requests_with(service, key)[0]["status"] == 200)  # type: ignore[misc]
    assert service.refunded(payment.id) == (200, 2)


def test_faults_strike_reads_and_whole_families_of_paths(service: LocalStripe, client: stripe.StripeClient) -> None:
    """A look-up can fail too, and a wildcard in the path takes every address it matches."""
    payment = pay(client)
    made = refund(client, payment.id, 100)
    service.fault(method="GET", path="/v1/refunds*", kind="error_500_before", times=2)
    for look in (lambda: client.v1.refunds.list(), lambda: client.v1.refunds.retrieve(made.id)):
        with pytest.raises(stripe.APIError):
            look()
    service.fault(method="GET", path="/v1/refunds", kind="drop_before")
    with pytest.raises(stripe.APIConnectionError):
        client.v1.refunds.list()
    assert client.v1.refunds.retrieve(made.id).id == made.id


def test_faults_are_taken_in_the_order_asked_for() -> None:
    """Of several faults that match, the first asked for strikes first, as often as it says."""
    faults = Faults()
    faults.add(Fault(method="POST", path="/v1/refunds", kind=FaultKind.DROP_AFTER, times=2))
    faults.add(Fault(method="post", path="/v1/*", kind=FaultKind.DECLINE))
    taken = [faults.take("POST", "/v1/refunds") for _ in range(4)]
    assert [fault and fault.kind for fault in taken] == ["drop_after", "drop_after", "decline", None]
    assert faults.take("GET", "/v1/refunds") is None


def test_wrong_control_requests_are_refused(service: LocalStripe) -> None:
    """A fault that does not exist, or cannot be, is an error at once and not a fault that never strikes."""
    for wrong in ({"kind": "explode"}, {"times": 0}, {"delay_s": -1.0}, {"method": "GET", "kind": "decline"}):
        asked: Any = {"method": "POST", "path": "/v1/refunds", "kind": "decline", **wrong}
        with pytest.raises(ServiceError, match="refused POST /_control/faults"):
            service.fault(**asked)
    soon: Any = "soon"
    with pytest.raises(ServiceError, match="advance_s"):
        service.advance(soon)


# --- processes ----------------------------------------------------------------------------------------------------

CLIENT = """
import sys
from benchmarks.services.stripe import LocalStripe
client = LocalStripe.attach(sys.argv[1]).client()
client.v1.refunds.create({"payment_intent": sys.argv[2], "amount": 100}, {"idempotency_key": sys.argv[3]})
"""


def start_python(code: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_a_request_of_a_killed_client_lands_late(service: LocalStripe, client: stripe.StripeClient) -> None:
    """A client is SIGKILLed while its request waits, its socket is gone, and the refund lands all the same, once."""
    payment = pay(client)
    key = "late-1"
    service.fault(method="POST", path="/v1/refunds", kind="delay_before", delay_s=1.0)
    with start_python(CLIENT, service.url, payment.id, key) as sender:
        eventually(lambda: len(requests_with(service, key)) == 1)
        sender.kill()
        assert sender.wait(10) == -signal.SIGKILL
    assert service.refunded(payment.id) == (0, 0)
    with pytest.raises(stripe.APIError) as caught:
        refund(client, payment.id, 100, key)
    assert caught.value.http_status == 409
    eventually(lambda: service.refunded(payment.id) == (100, 1))
    eventually(lambda: "idempotent-replayed" in headers(refund(client, payment.id, 100, key)))
    assert service.refunded(payment.id) == (100, 1)


def test_everything_acknowledged_survives_kill_and_restart(own: LocalStripe) -> None:
    """After SIGKILL and a new start on the same directory, objects, keys, clock and requests are what they were."""
    client, url = own.client(), own.url
    payment = pay(client, metadata={"order": "1"})
    made = refund(client, payment.id, 100, "kept-1")
    own.fault(method="POST", path="/v1/refunds", kind="drop_after")
    with pytest.raises(stripe.APIConnectionError):
        refund(client, payment.id, 100, "kept-2")
    own.advance(3600)
    first_pid, before = own.pid, own.ledger()
    own.kill()
    assert own.ledger() == before
    with pytest.raises(stripe.APIConnectionError):
        client.v1.refunds.list()
    with pytest.raises(ServiceError, match="does not answer"):
        own.forget_keys()
    own.start()
    assert (own.url, own.pid != first_pid) == (url, True)
    assert own.ledger() == before
    assert client.v1.refunds.retrieve(made.id).to_dict() == made.to_dict()
    for key in ("kept-1", "kept-2"):
        assert headers(refund(client, payment.id, 100, key))["idempotent-replayed"] == "true"
    assert refund(client, payment.id, 100).created - time.time() > 3500
    assert own.refunded(payment.id) == (300, 3)


def test_kills_in_the_middle_lose_nothing_acknowledged_and_make_nothing_twice(own: LocalStripe) -> None:
    """The service is killed under load, again and again: what it acknowledged is there, and a resend by key is one refund."""
    payment = pay(own.client(), 1_000_000)
    acknowledged: dict[str, str] = {}
    unclear: list[str] = []
    rounds, senders = 3, 4

    def send(prefix: str, stop: threading.Event) -> None:
        client = own.client()
        for number in range(10_000):
            if stop.is_set():
                return
            key = f"{prefix}-{number}"
            try:
                acknowledged[key] = refund(client, payment.id, 10, key, metadata={"key": key}).id
            except stripe.APIConnectionError:
                unclear.append(key)
                return

    for round_number in range(rounds):
        stop = threading.Event()
        with ThreadPoolExecutor(senders) as pool:
            target = len(acknowledged) + 20
            for sender in range(senders):
                pool.submit(send, f"{round_number}-{sender}", stop)
            eventually(lambda target=target: len(acknowledged) >= target)  # type: ignore[misc]
            own.kill()
            stop.set()
        own.start()
    client = own.client()
    for key in unclear:
        acknowledged[key] = refund(client, payment.id, 10, key, metadata={"key": key}).id
    stored = {one["metadata"]["key"]: one["id"] for one in own.ledger()["refunds"]}
    assert stored == acknowledged
    assert own.refunded(payment.id) == (10 * len(acknowledged), len(acknowledged))
    charge = client.v1.charges.retrieve(str(payment.latest_charge))
    assert charge.amount_refunded == 10 * len(acknowledged)


def test_a_request_waiting_when_the_service_dies_leaves_nothing(own: LocalStripe) -> None:
    """A refund that had not acted when the service was killed is not there afterwards, and its key is free."""
    client = own.client()
    payment = pay(client)
    own.fault(method="POST", path="/v1/refunds", kind="delay_before", delay_s=5.0)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(refund, client, payment.id, 100, "cut-1")
        eventually(lambda: len(requests_with(own, "cut-1")) == 1)
        own.kill()
        with pytest.raises(stripe.APIConnectionError):
            slow.result()
    own.start()
    assert own.refunded(payment.id) == (0, 0)
    assert "idempotent-replayed" not in headers(refund(client, payment.id, 100, "cut-1"))


def test_another_process_steers_a_running_service(service: LocalStripe, client: stripe.StripeClient) -> None:
    """`attach(url)` reads the same ledger and sets the same faults without owning the process."""
    payment = pay(client)
    attached = LocalStripe.attach(service.url + "/")
    refund(attached.client(), payment.id, 100)
    assert (attached.url, attached.pid) == (service.url, service.pid)
    assert attached.refunded(payment.id) == service.refunded(payment.id) == (100, 1)
    assert attached.ledger() == service.ledger()
    attached.fault(method="POST", path="/v1/refunds", kind="decline")
    with pytest.raises(stripe.CardError):
        refund(client, payment.id, 100)


def test_two_services_cannot_share_a_directory(own: LocalStripe) -> None:
    """The second is refused with a clear error, so that two processes never disagree about a key; it goes on after a kill."""
    second = LocalStripe(own.directory)
    with pytest.raises(ServiceError, match="another service process is running"):
        second.start()
    with pytest.raises(LedgerInUse):
        Ledger(own.directory)
    with pytest.raises(ServiceError, match="running already"):
        own.start()
    own.kill()
    own.kill()
    with second:
        pay(second.client())


def test_a_service_that_was_never_started_says_so(tmp_path: Path) -> None:
    """Using it before it runs names the remedy, and does not hang or invent an empty ledger."""
    service = LocalStripe(tmp_path)
    for use in (lambda: service.url, lambda: service.pid, service.client, service.forget_keys):
        with pytest.raises(ServiceError, match=r"start\(\)"):
            use()
    with pytest.raises(FileNotFoundError):
        service.ledger()


PARENT = """
import os, signal, sys
from benchmarks.services.stripe import LocalStripe
service = LocalStripe(sys.argv[1])
service.start()
if sys.argv[2] == "forks" and os.fork() == 0:
    # A child that holds the parent's end of the pipe for longer than the test.
    signal.alarm(8)
    os.close(1)
    signal.pause()
print(service.url, flush=True)
signal.pause()
"""


@pytest.mark.parametrize("manner", ["plain", "forks"])
def test_a_service_ends_when_its_parent_is_killed(tmp_path: Path, manner: str) -> None:
    """A parent that is SIGKILLed leaves no service behind, also if a fork of it still holds the pipe."""
    with start_python(PARENT, str(tmp_path), manner) as parent:
        assert parent.stdout is not None
        url = parent.stdout.readline().decode().strip()
        assert LocalStripe.attach(url).refunded("pi_none") == (0, 0)
        parent.kill()
    # The directory is free again exactly when the service's process has ended.
    eventually(lambda: can_open(tmp_path), within_s=5.0)


def can_open(directory: Path) -> bool:
    try:
        ledger = Ledger(directory)
    except LedgerInUse:
        return False
    ledger.close()
    return True


def test_it_starts_in_under_a_second_and_refunds_in_milliseconds(tmp_path: Path) -> None:
    """Start-up stays below a second, and the median refund below what would slow a benchmark down."""
    begun = time.monotonic()
    with LocalStripe(tmp_path) as service:
        started_s = time.monotonic() - begun
        client = service.client()
        payment = pay(client)
        taken = []
        for number in range(30):
            begun = time.monotonic()
            refund(client, payment.id, 10, f"quick-{number}")
            taken.append(time.monotonic() - begun)
    # Generous, for a machine that does other things at the same time; usual are 0.2 s and 2.5 ms.
    assert started_s < 5.0
    assert sorted(taken)[len(taken) // 2] < 0.035, "an answer that waits for a delayed acknowledgement takes 40 ms"


# --- the ledger itself --------------------------------------------------------------------------------------------


def test_the_ledger_refuses_what_must_never_happen(tmp_path: Path) -> None:
    """Refunds beyond their charge are refused by the file itself, whoever writes them."""
    with LocalStripe(tmp_path) as service:
        payment = pay(service.client(), 1_000)
        refund(service.client(), payment.id, 900)
    with contextlib.closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as books:
        for statement in (
            "INSERT INTO refunds (body) SELECT json_set(body, '$.id', 're_2') FROM refunds",
            "INSERT INTO refunds (body) SELECT json_set(body, '$.id', 're_2', '$.amount', 0) FROM refunds",
            "INSERT INTO refunds (body) SELECT body FROM refunds",
            "UPDATE charges SET body = json_set(body, '$.amount_refunded', 1001)",
        ):
            with pytest.raises(sqlite3.IntegrityError):
                books.execute(statement)
    ledger = Ledger(tmp_path)
    with pytest.raises(sqlite3.IntegrityError):
        enter_twice(ledger, {"id": "pi_undone", "created": 0})
    assert ledger.find("payment_intents", "pi_undone") is None
    assert ledger.refunded_minor(str(payment.latest_charge)) == 900
    ledger.close()


def enter_twice(ledger: Ledger, body: dict[str, Any]) -> None:
    with ledger.transaction():
        ledger.add("payment_intents", body)
        ledger.add("payment_intents", body)


def test_the_books_are_synchronous(tmp_path: Path) -> None:
    """The connection that holds the books commits with synchronous=FULL into a write-ahead log."""
    ledger = Ledger(tmp_path)
    books = ledger._books
    assert books.execute("PRAGMA synchronous").fetchone()[0] == 2
    assert books.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    ledger.close()
