"""The client that a target derives: one attempt, one deadline, and the user's client left as it is."""

from __future__ import annotations

import time
from typing import Any

import pytest
import requests
import stripe
from requests.adapters import HTTPAdapter
from urllib3 import Retry

from benchmarks.services.stripe import LocalStripe
from interlock import Interlock
from interlock.errors import ConfigurationError
from interlock.targets.stripe import stripe_refund
from interlock.targets.stripe._connection import Connection
from interlock.targets.stripe._error import Meaning, read
from tests.targets.stripe.conftest import Case, by_order


def test_users_retries_are_off_in_the_target_only(gate: Interlock, service: LocalStripe, case: Case) -> None:
    """A client that retries on its own sends once through the gate, and keeps its retries elsewhere."""
    own: Any = stripe.StripeClient("sk_test_local", base_addresses={"api": service.url}, max_network_retries=5)
    before = len(service.ledger()["requests"])
    service.fault(method="POST", path="/v1/refunds", kind="error_429", times=3)
    outcome = stripe_refund(gate, own, key=by_order)(case, amount=2000)
    assert str(outcome) == "FAILED:rate_limited"
    sent = [entry for entry in service.ledger()["requests"][before:] if entry["method"] == "POST"]
    assert len(sent) == 1
    assert own._requestor._options.max_network_retries == 5
    assert own._requestor._client._timeout == 80


def test_timeout_is_the_requests_deadline(gate: Interlock, service: LocalStripe, case: Case) -> None:
    """However long the user's client would wait, no request of the target outlasts `timeout=`."""
    own = stripe.StripeClient("sk_test_local", base_addresses={"api": service.url})
    service.fault(method="POST", path="/v1/refunds", kind="delay_before", delay_s=3.0, times=1)
    started = time.monotonic()
    outcome = stripe_refund(gate, own, key=by_order, timeout=1, settle_after=0.1)(case, amount=2000)
    assert time.monotonic() - started < 2.9
    assert str(outcome) == "IN_FLIGHT:key_in_use"
    time.sleep(3.0)
    (outcome,) = gate.recover(wait=5)
    assert str(outcome) == "COMMITTED_ON_QUERY"
    assert service.refunded(case.payment_intent) == (2000, 1)


def test_shorter_timeout_of_the_user_stays() -> None:
    """A client that gives up sooner than the target would is left at that."""
    quick = stripe.StripeClient("sk_test_1", http_client=stripe.RequestsClient(timeout=2))
    derived: Any = Connection(quick, effect="e", timeout_s=30, asynchronous=False)._client
    assert derived._requestor._client._timeout == (2, 2)


def test_account_version_and_addresses_are_kept() -> None:
    """The derived client is the user's in everything but retries and deadline."""
    own = stripe.StripeClient(
        "sk_test_1", stripe_account="acct_1", stripe_version="2026-10-28.endive", base_addresses={"api": "http://x"}
    )
    derived: Any = Connection(own, effect="e", timeout_s=30, asynchronous=False)._client
    options = derived._requestor._options
    assert (options.api_key, options.stripe_account, options.stripe_version) == (
        "sk_test_1",
        "acct_1",
        "2026-10-28.endive",
    )
    assert options.base_addresses["api"] == "http://x"
    assert options.max_network_retries == 0


@pytest.mark.parametrize("given", [None, "sk_test_1", object(), stripe])
def test_only_a_client_is_taken(gate: Interlock, given: Any) -> None:
    """Anything but a StripeClient is refused at the door."""
    with pytest.raises(ConfigurationError, match="StripeClient"):
        stripe_refund(gate, given, key=by_order)


def test_asynchronous_needs_a_client_that_can(gate: Interlock, client: stripe.StripeClient) -> None:
    """asynchronous=True with an HTTP client that cannot is refused at the door."""
    with pytest.raises(ConfigurationError, match="cannot make asynchronous requests"):
        stripe_refund(gate, client, key=by_order, asynchronous=True)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"retries": 2}, "no option retries"),
        ({"asynchronous": 1}, "say True or False"),
        ({"timeout": 0}, "timeout="),
        ({"timeout": "soon"}, "timeout="),
        ({"timeout": 24 * 3600}, "Shorten the timeout"),
        ({"key": "refund"}, "key="),
        ({"approval": True}, "approval="),
        ({"approval": lambda case, other: True}, r"asks for 'other'.*idempotency_key \(what it is sent under\)"),
        ({"payment": "pi_1"}, "payment="),
        ({"case": 5}, "case="),
        ({"currency": "dollars"}, "three-letter"),
    ],
)
def test_options_that_cannot_be_kept(
    gate: Interlock, client: stripe.StripeClient, option: dict[str, Any], message: str
) -> None:
    """An option that does not exist or cannot be meant is refused at the door, with what to write."""
    with pytest.raises(Exception, match=message) as caught:
        stripe_refund(gate, client, **{"key": by_order, **option})
    assert type(caught.value).__module__ == "interlock.errors"


def test_refused_connection_is_certain_only_without_retries() -> None:
    """A session of the user's that retries may have sent before the attempt that was refused; then nothing is certain."""
    session = requests.Session()
    session.trust_env = False
    session.mount("http://", HTTPAdapter(max_retries=Retry(total=1, backoff_factor=0)))
    meanings = {}
    for name, given in (("plain", None), ("retrying", session)):
        own = stripe.StripeClient(
            "sk_test_1",
            base_addresses={"api": "http://127.0.0.1:9"},
            http_client=stripe.RequestsClient(timeout=1, session=given),
        )
        connection = Connection(own, effect="e", timeout_s=5, asynchronous=False)
        with pytest.raises(stripe.APIConnectionError) as caught:
            own.v1.refunds.list({}, {"max_network_retries": 0})
        meanings[name] = read(caught.value, single_attempt=connection.makes_one_attempt).meaning
    assert meanings == {"plain": Meaning.NOT_SENT, "retrying": Meaning.UNKNOWN}


def test_live_key_is_allowed_here() -> None:
    """A live key passes the door, since this is a product; the benchmarks refuse one."""
    own = stripe.StripeClient("sk_live_1")
    assert Connection(own, effect="e", timeout_s=5, asynchronous=False).is_live


def test_wait_is_not_confused_with_case(gate: Interlock, client: stripe.StripeClient, case: Case) -> None:
    """A keyword that no call takes is refused as Python does."""
    refund: Any = stripe_refund(gate, client, key=by_order)
    with pytest.raises(TypeError):
        refund(case)
