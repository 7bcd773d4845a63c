"""Each way in which Stripe can answer badly: what the gate makes of it, what landed, and the sentence that a person gets."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import stripe

from benchmarks.services.stripe import LocalStripe
from interlock import Interlock
from interlock.errors import BadInput, ConfigurationError, PremiseUnreadable
from interlock.targets.stripe import _error as errors
from interlock.targets.stripe import stripe_customer_balance, stripe_refund
from interlock.targets.stripe._error import Meaning, read
from interlock.testing import SimulatedCrash
from tests.targets.stripe.conftest import Case, by_order, pay


class Fault(NamedTuple):
    """A fault of the service at the refund's POST, and what is wanted."""

    kind: str
    outcome: str
    refunds: int
    sentence: str


FAULTS = (
    Fault("error_429", "FAILED:rate_limited", 0, "too many requests from this account"),
    Fault("lock_timeout", "FAILED:lock_timeout", 0, "Another request had hold of this object"),
    Fault("decline", "FAILED:card_declined", 0, "The card was declined"),
    Fault("drop_before", "COMMITTED_BY_RETRY", 1, "sent again under the same idempotency key"),
    Fault("drop_after", "COMMITTED_ON_QUERY", 1, "the service was asked and has it"),
    Fault("truncate", "COMMITTED_ON_QUERY", 1, "the service was asked and has it"),
    Fault("bad_gateway", "COMMITTED_BY_RETRY", 1, "sent again under the same idempotency key"),
    Fault("error_500_after", "COMMITTED_ON_QUERY", 1, "the service was asked and has it"),
    Fault("error_500_before", "FAILED:absent", 0, "It certainly did not happen"),
    Fault("delay_after", "COMMITTED_ON_QUERY", 1, "the service was asked and has it"),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.kind)
def test_fault_at_the_send(
    gate: Interlock, client: stripe.StripeClient, service: LocalStripe, case: Case, fault: Fault
) -> None:
    """Each fault ends as it must, the ledger agrees, and the person is told in plain words; the next try then lands once."""
    refund = stripe_refund(gate, client, key=by_order, settle_after=0.1, timeout=1.5, wait=5)
    service.fault(method="POST", path="/v1/refunds", kind=fault.kind, delay_s=2.0)
    outcome = refund(case, amount=2000)
    if outcome.status == "IN_FLIGHT":
        (outcome,) = gate.recover(wait=5)
    assert str(outcome) == fault.outcome, outcome.for_person
    assert service.refunded(case.payment_intent) == (2000 * fault.refunds, fault.refunds)
    assert fault.sentence in outcome.for_person
    assert re.match(r"^(Accepted by the service;|It did not happen\.)", outcome.for_model)
    assert outcome.ok or outcome.detail in outcome.for_model
    again = refund(case, amount=2000)
    assert again.ok
    assert service.refunded(case.payment_intent) == (2000, 1)


def test_service_that_is_down(
    gate: Interlock, client: stripe.StripeClient, open_gate: Callable[..., Interlock], case: Case, tmp_path: Any
) -> None:
    """A connection that is refused sent nothing: the facts cannot be read, or the send failed for certain."""
    with LocalStripe(tmp_path / "down") as own:
        there = own.client()
        payment = pay(there)
        down = Case("down", payment.id)
        proposal_of = stripe_refund(gate, there, key=by_order, name="down", premises=lambda case: {"killed": kill()})
        own_kill: list[bool] = []

        def kill() -> bool:
            if own_kill:
                own.kill()
            own_kill.append(True)
            return True

        proposal = proposal_of.proposal(down, amount=2000)
        outcome = gate.submit(proposal)
        assert str(outcome) == "FAILED:no_connection"
        assert "nothing was sent" in outcome.for_person
        with pytest.raises(PremiseUnreadable, match=r"Stripe did not answer.*Nothing was sent"):
            proposal_of(down, amount=2000)


KEYS = [
    ("sk_test_revoked_1", PremiseUnreadable, "did not accept the API key: it is wrong, expired or revoked"),
    ("rk_test_none_1", PremiseUnreadable, "may not do this"),
    ("sk_live_1", PremiseUnreadable, "did not accept the API key"),
    ("pk_test_1", ConfigurationError, "publishable key"),
]


@pytest.mark.parametrize(("key", "error", "message"), KEYS)
def test_key_that_does_not_fit(
    gate: Interlock, service: LocalStripe, case: Case, key: str, error: type[Exception], message: str
) -> None:
    """A revoked, powerless, foreign or publishable key: said in plain words, and nothing is sent."""
    with pytest.raises(error, match=message):
        stripe_refund(gate, service.client(key), key=by_order)(case, amount=2000)
    assert service.refunded(case.payment_intent) == (0, 0)


def test_key_that_may_only_read(gate: Interlock, service: LocalStripe, case: Case) -> None:
    """A restricted key without the permission to refund: it failed for certain, and the operator is told."""
    outcome = stripe_refund(gate, service.client("rk_test_read_1"), key=by_order)(case, amount=2000)
    assert str(outcome) == "FAILED:permission"
    assert "An operator must give it the permission" in outcome.for_person
    assert service.refunded(case.payment_intent) == (0, 0)


def test_wrong_api_version(gate: Interlock, service: LocalStripe, case: Case) -> None:
    """An API version that Stripe does not know is told as Stripe tells it; nothing is sent."""
    own = stripe.StripeClient("sk_test_local", base_addresses={"api": service.url}, stripe_version="2011-01-01")
    with pytest.raises(PremiseUnreadable, match="Invalid Stripe API version"):
        stripe_refund(gate, own, key=by_order)(case, amount=2000)


def test_deleted_customer(gate: Interlock, client: stripe.StripeClient) -> None:
    """A customer that was deleted is a fact that forbids, not an error."""
    customer = client.v1.customers.create({"email": "ada@example.com"})
    client.v1.customers.delete(customer.id)
    change = stripe_customer_balance(gate, client, key=lambda case: f"c:{case.customer}", currency="usd")
    outcome = change({"customer": customer.id}, amount=-500)
    assert str(outcome) == "REFUSED:premise_false"
    assert "customer: 'deleted' before, 'deleted' now" in outcome.for_person


def test_customer_that_is_gone_after_a_crash(
    open_gate: Callable[..., Interlock], client: stripe.StripeClient, tmp_path: Any
) -> None:
    """A credit whose customer Stripe does not know any more cannot be looked up, ever: it ends, as AMBIGUOUS, and says why."""
    customer = client.v1.customers.create({"email": "ada@example.com"})

    def change(gate: Interlock, client: stripe.StripeClient) -> Any:
        return stripe_customer_balance(
            gate, client, key=lambda case: f"c:{case.customer}", currency="usd", settle_after=0
        )

    gate = open_gate()
    with pytest.raises(SimulatedCrash):
        gate.submit(change(gate, client).proposal({"customer": customer.id}, amount=-500), crash_after_effect=True)
    with LocalStripe(tmp_path / "without the customer") as emptied:
        gate = open_gate()
        change(gate, emptied.client())
        (outcome,) = gate.recover()
    assert str(outcome) == "AMBIGUOUS"
    assert f"{customer.id} is not there any more" in outcome.for_person


def test_above_what_is_left_at_the_last_moment(
    gate: Interlock, client: stripe.StripeClient, service: LocalStripe, case: Case
) -> None:
    """Refunded by hand between the last check and the send: Stripe's own refusal is final, and in its words."""
    from interlock.targets.stripe import refund as module

    refund = stripe_refund(gate, client, key=by_order, budget=lambda case: hand())

    def hand() -> None:
        client.v1.refunds.create({"payment_intent": case.payment_intent, "amount": 9000})

    outcome = refund(case, amount=2000)
    assert module is not None
    assert str(outcome) == "FAILED:invalid_request"
    assert "greater than unrefunded amount" in outcome.for_person
    assert service.refunded(case.payment_intent) == (9000, 1)


def test_key_known_with_other_parameters(
    gate: Interlock, client: stripe.StripeClient, service: LocalStripe, case: Case
) -> None:
    """Stripe knows the key with another body (two journals, one account): it is looked up, and said; never taken for refused."""
    refund = stripe_refund(gate, client, key=by_order, settle_after=0)
    proposal = refund.proposal(case, amount=2000)
    other = pay(client)
    client.v1.refunds.create({"payment_intent": other.id, "amount": 1}, {"idempotency_key": proposal.effect_id})
    outcome = gate.submit(proposal)
    assert str(outcome) == "FAILED:absent"
    assert "knows this idempotency key with other parameters" in outcome.for_person
    assert service.refunded(case.payment_intent) == (0, 0)


@pytest.mark.parametrize("role", ["key", "payment", "metadata"])
@pytest.mark.parametrize("is_seen", [True, False], ids=["an async function", "one that answers with an awaitable"])
def test_what_names_a_request_is_not_awaited(
    gate: Interlock, client: stripe.StripeClient, case: Case, role: str, is_seen: bool
) -> None:
    """An async key=, payment= or metadata= is refused when it is declared, or at the call where it does not show before."""

    async def later(case: Any) -> str:
        return "x"

    options: dict[str, Any] = {"key": by_order, role: later if is_seen else lambda case: later(case)}
    told: type[Exception] = ConfigurationError if is_seen else BadInput
    with pytest.raises(told, match=f"{role}= must not be async"):
        stripe_refund(gate, client, **options)(case, amount=1)


# --- the table alone -----------------------------------------------------------------------------------------------------


def said(
    kind: type[stripe.StripeError], status: int | None, code: str | None = None, **more: Any
) -> stripe.StripeError:
    """An error as the SDK raises it."""
    body = {"error": {"code": code, "message": "said so"}} if code else {"error": {"message": "said so"}}
    if issubclass(kind, stripe.CardError | stripe.InvalidRequestError):
        more["param"] = None
    if issubclass(kind, stripe.CardError):
        more["code"] = code
    return kind("said so", http_status=status, json_body=body, **more)


TABLE = [
    (said(stripe.CardError, 402, "card_declined"), Meaning.REMEMBERED, "card_declined"),
    (said(stripe.CardError, 402, "insufficient_funds"), Meaning.REMEMBERED, "insufficient_funds"),
    (said(stripe.InvalidRequestError, 400, "charge_already_refunded"), Meaning.REMEMBERED, "charge_already_refunded"),
    (said(stripe.InvalidRequestError, 400, "charge_disputed"), Meaning.REMEMBERED, "charge_disputed"),
    (said(stripe.InvalidRequestError, 400, "parameter_unknown"), Meaning.REFUSED, "invalid_request"),
    (said(stripe.InvalidRequestError, 404, "resource_missing"), Meaning.REMEMBERED, "resource_missing"),
    (said(stripe.InvalidRequestError, None), Meaning.NOT_SENT, "not_acceptable"),
    (said(stripe.AuthenticationError, 401), Meaning.REFUSED, "authentication"),
    (said(stripe.AuthenticationError, None), Meaning.NOT_SENT, "not_acceptable"),
    (said(stripe.PermissionError, 403), Meaning.REFUSED, "permission"),
    (said(stripe.RateLimitError, 429), Meaning.NOT_SENT, "rate_limited"),
    (said(stripe.RateLimitError, 429, "lock_timeout"), Meaning.REFUSED, "lock_timeout"),
    (said(stripe.IdempotencyError, 400), Meaning.UNKNOWN, ""),
    (said(stripe.APIError, 409, "idempotency_key_in_use"), Meaning.IN_USE, "key_in_use"),
    (said(stripe.InvalidRequestError, 409, "idempotency_key_in_use"), Meaning.IN_USE, "key_in_use"),
    (said(stripe.APIError, 500), Meaning.UNKNOWN, ""),
    (said(stripe.APIError, 503), Meaning.UNKNOWN, ""),
    (said(stripe.APIError, 200), Meaning.UNKNOWN, ""),
    (said(stripe.APIError, None), Meaning.UNKNOWN, ""),
    (said(stripe.APIConnectionError, None), Meaning.UNKNOWN, ""),
    (KeyError("x"), Meaning.UNKNOWN, ""),
]


@pytest.mark.parametrize(("error", "meaning", "reason"), TABLE)
def test_table(error: Exception, meaning: Meaning, reason: str) -> None:
    """Each class, status and code means what Stripe's pages say; what is not known is unknown, never refused."""
    reading = read(error)
    assert (reading.meaning, reading.reason) == (meaning, reason)
    assert reading.sentence


def test_every_row_of_the_table_is_reached() -> None:
    """No row stands behind another that always fits first."""
    reached = set()
    for error, _, _ in TABLE:
        if isinstance(error, stripe.StripeError) and error.http_status is not None:
            sentence = read(error).sentence
            reached |= {row.advice for row in errors._TABLE if sentence.startswith(row.advice)}
    assert reached == {row.advice for row in errors._TABLE} - {errors._TABLE[-1].advice} | {"Stripe refused it."}


@pytest.mark.parametrize("amount", [20.5, "20"])
def test_amounts_are_never_guessed(gate: Interlock, client: stripe.StripeClient, case: Case, amount: Any) -> None:
    """An amount in dollars or as a text is not converted: the caller must say it in the smallest unit."""
    with pytest.raises(BadInput, match=r"2000 for \$20.00"):
        stripe_refund(gate, client, key=by_order)(case, amount=amount)
