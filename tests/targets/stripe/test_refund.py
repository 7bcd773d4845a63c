"""`stripe_refund` against the local service, whose ledger is the truth."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import stripe
from pydantic import BaseModel

from benchmarks.services.stripe import LocalStripe
from interlock import Interlock, Outcome
from interlock.errors import AuthorityUnclear, BadInput, ConfigurationError
from interlock.targets.stripe import Approval, StripeObject, StripeRefund, stripe_refund
from interlock.testing import SimulatedCrash
from tests.targets.stripe.conftest import Case, Later, by_order, pay

OpenGate = Callable[..., Interlock]


def declared(gate: Interlock, client: stripe.StripeClient, **options: Any) -> StripeRefund[Outcome]:
    return stripe_refund(gate, client, key=by_order, settle_after=0, **options)


def by_hand(client: stripe.StripeClient, case: Case, amount: int, **more: Any) -> stripe.Refund:
    """What a person does at Stripe's dashboard: no key, no mark."""
    return client.v1.refunds.create({"payment_intent": case.payment_intent, "amount": amount, **more})


def crash(gate: Interlock, refund: StripeRefund[Outcome], case: Case, amount: int, **where: bool) -> None:
    with pytest.raises(SimulatedCrash):
        gate.submit(refund.proposal(case, amount=amount), **where)


def test_refunds_once(gate: Interlock, client: stripe.StripeClient, service: LocalStripe, case: Case) -> None:
    """One call refunds; the same call again gives the recorded refund and sends nothing; another amount is a conflict."""
    refund = declared(gate, client)
    first = refund(case, amount=2000, reason="requested_by_customer", metadata={"by": "agent"})
    again = refund(case, amount=2000)
    assert (str(first), str(again)) == ("COMMITTED", "DUPLICATE_IGNORED")
    assert isinstance(first.value, StripeObject)
    assert again.value == first.value
    assert (first.value.amount, first.value.currency, first.value.status) == (2000, "usd", "succeeded")
    other = refund(case, amount=2500, reason="duplicate")
    assert str(other) == "REFUSED:conflicting_payload"
    assert list(other.changes) == ["amount"], (
        "what may differ between tries, and the gate's own notes, made no difference"
    )
    assert "binds" not in other.for_person, "this effect has no such option"
    assert service.refunded(case.payment_intent) == (2000, 1)
    made = client.v1.refunds.retrieve(first.value.id)
    assert made.reason == "requested_by_customer"
    assert made.metadata is not None
    assert made.metadata.to_dict() == {"by": "agent", "interlock_effect_id": first.effect_id}


class Model(BaseModel):
    order: str
    charge: str


@pytest.mark.parametrize("form", ["dict", "model", "text", "named"])
def test_case_takes_many_forms(
    gate: Interlock, client: stripe.StripeClient, service: LocalStripe, case: Case, form: str
) -> None:
    """A case may be a dict, a pydantic model, the payment's id alone, or anything whose payment a callback names."""
    payment = client.v1.payment_intents.retrieve(case.payment_intent)
    forms: dict[str, tuple[Any, dict[str, Any]]] = {
        "dict": ({"order": "1", "payment_intent": payment.id}, {"key": lambda case: "r:" + case["payment_intent"]}),
        "model": (Model(order="1", charge=str(payment.latest_charge)), {"key": lambda case: f"r:{case.charge}"}),
        "text": (payment.id, {"key": lambda case: f"r:{case}"}),
        "named": (
            {"order": {"id": 1}, "paid": {"by": payment.id}},
            {"key": lambda case: f"r{case.order.id}:{case.paid.by}", "payment": lambda case: case.paid["by"]},
        ),
    }
    given, options = forms[form]
    assert str(stripe_refund(gate, client, **options)(given, amount=2000)) == "COMMITTED"
    assert service.refunded(payment.id) == (2000, 1)


APPROVED = Approval(id="ap_1", by="ann", amount_minor=2000, until=datetime(2100, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "Nobody approved it."),
        (False, "The approval was withheld."),
        (Approval(id="ap_1", by="ann", revoked=True), "Approval 'ap_1' by ann was revoked."),
        (
            Approval(id="ap_1", until=datetime(2020, 1, 1, tzinfo=UTC)),
            "Approval 'ap_1' ended at 2020-01-01T00:00:00+00:00.",
        ),
        (
            Approval(id="ap_1", amount_minor=1999),
            "Approval 'ap_1' covers 1999, not 2000 (in the currency's smallest unit).",
        ),
    ],
)
def test_approval_that_does_not_permit_refuses(
    gate: Interlock, client: stripe.StripeClient, service: LocalStripe, case: Case, answer: Any, why: str
) -> None:
    """Withheld, revoked, ended or exceeded: refused, with a sentence that says which, and nothing is sent."""
    outcome = declared(gate, client, approval=lambda case: answer)(case, amount=2000)
    assert str(outcome) == "REFUSED:lease"
    assert outcome.detail == why
    assert why in outcome.for_person
    assert service.refunded(case.payment_intent) == (0, 0)


def test_approval_permits_and_stands_on_the_record(gate: Interlock, client: stripe.StripeClient, case: Case) -> None:
    """An approval that covers the amount permits; its id names the decision and stands on the receipt."""
    outcome = declared(gate, client, approval=lambda case: APPROVED)(case, amount=2000)
    assert outcome.ok
    assert outcome.history is not None
    entries = outcome.history.entries
    assert entries[0].data["decision"] == "ap_1"
    assert entries[1].data["approval"] == "ap_1"


def test_new_approval_is_a_new_decision(gate: Interlock, client: stripe.StripeClient, case: Case) -> None:
    """After a refusal for a fact, another approval is judged on the facts that it saw, with no decision= to write."""
    current = [APPROVED]
    refund = declared(gate, client, approval=lambda case: current[0], duplicates="strict")
    proposal = refund.proposal(case, amount=2000)
    by_hand(client, case, 500)
    assert str(gate.submit(proposal)) == "REFUSED:stale_premise"
    assert str(refund(case, amount=2000)) == "REFUSED:stale_premise"
    current[0] = Approval(id="ap_2", by="ann")
    assert str(refund(case, amount=2000)) == "COMMITTED"


def test_unclear_approval_is_an_error(gate: Interlock, client: stripe.StripeClient, case: Case) -> None:
    """An answer that is no approval is an error of the caller's, and nothing is sent."""
    with pytest.raises(AuthorityUnclear, match="Answer an Approval"):
        declared(gate, client, approval=lambda case: "yes")(case, amount=2000)


def test_approval_revoked_in_the_outage(
    open_gate: OpenGate, client: stripe.StripeClient, service: LocalStripe, case: Case
) -> None:
    """A crash before the send, and the approval is revoked meanwhile: not sent, and the sentence says why."""
    gate = open_gate()
    crash(gate, declared(gate, client, approval=lambda case: APPROVED), case, 2000, crash_before_effect=True)
    gate = open_gate()
    declared(gate, client, approval=lambda case: Approval(id="ap_1", by="ann", revoked=True))
    (outcome,) = gate.recover(wait=5)
    assert str(outcome) == "REFUSED:lease_at_recovery"
    assert "Approval 'ap_1' by ann was revoked." in outcome.for_person
    assert service.refunded(case.payment_intent) == (0, 0)


@pytest.mark.parametrize(
    ("where", "wanted"),
    [("crash_before_effect", "COMMITTED_BY_RETRY"), ("crash_after_effect", "COMMITTED_ON_QUERY")],
)
def test_crash_on_either_side_of_the_send_is_settled(
    open_gate: OpenGate, client: stripe.StripeClient, service: LocalStripe, case: Case, where: str, wanted: str
) -> None:
    """Before the send: it is sent under the same key. After it: the facts show it, and nothing is sent. Stripe has it once."""
    gate = open_gate()
    crash(gate, declared(gate, client), case, 2000, **{where: True})
    gate = open_gate()
    declared(gate, client)
    (outcome,) = gate.recover()
    assert str(outcome) == wanted
    assert service.refunded(case.payment_intent) == (2000, 1)


def test_own_refund_is_found_among_pages_once_the_key_is_gone(
    open_gate: OpenGate, client: stripe.StripeClient, service: LocalStripe, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past the window it is looked up, page after page, by its mark; nothing is sent again."""
    from interlock.targets.stripe import _connection, _effect

    monkeypatch.setattr(_connection, "PAGE", 2)
    monkeypatch.setattr(_effect, "WINDOW", timedelta(seconds=32))
    gate = open_gate()
    refund = declared(gate, client, duplicates=lambda other, amount: False, timeout=30)
    with pytest.raises(SimulatedCrash):
        gate.submit(refund.proposal(case, amount=2000), crash_after_effect=True)
    for _ in range(4):
        by_hand(client, case, 100)
    service.forget_keys()
    gate = open_gate(Later(timedelta(minutes=5)))
    declared(gate, client, duplicates=lambda other, amount: False)
    (outcome,) = gate.recover(wait=5)
    assert str(outcome) == "COMMITTED_ON_QUERY"
    assert service.refunded(case.payment_intent) == (2400, 5)


DUPLICATES: list[tuple[str, Any, list[int], str]] = [
    # rule, refunds by hand in the outage, wanted
    ("by_amount", "by_amount", [500], "COMMITTED_BY_RETRY"),
    ("by_amount", "by_amount", [2000], "REFUSED:stale_premise_at_recovery"),
    ("by_amount", "by_amount", [2500], "REFUSED:stale_premise_at_recovery"),
    ("by_amount", "by_amount", [1000, 1000], "REFUSED:stale_premise_at_recovery"),
    ("by_amount", "by_amount", [1000, 999], "COMMITTED_BY_RETRY"),
    ("strict", "strict", [500], "REFUSED:stale_premise_at_recovery"),
    ("own", lambda other, amount: other["amount"] == amount, [2500], "COMMITTED_BY_RETRY"),
    ("own", lambda other, amount: other["amount"] == amount, [2000], "REFUSED:stale_premise_at_recovery"),
]


@pytest.mark.parametrize(("name", "rule", "hands", "wanted"), DUPLICATES)
def test_refund_by_hand_in_the_outage(
    open_gate: OpenGate,
    client: stripe.StripeClient,
    service: LocalStripe,
    case: Case,
    name: str,
    rule: Any,
    hands: list[int],
    wanted: str,
) -> None:
    """What others refunded while the agent was down stops the refund, or does not, by the declared rule; the receipt states it."""
    gate = open_gate()
    crash(gate, declared(gate, client, duplicates=rule), case, 2000, crash_before_effect=True)
    for amount in hands:
        by_hand(client, case, amount)
    gate = open_gate()
    declared(gate, client, duplicates=rule)
    (outcome,) = gate.recover(wait=5)
    assert str(outcome) == wanted
    total = sum(hands) + (2000 if outcome.ok else 0)
    assert service.refunded(case.payment_intent) == (total, len(hands) + outcome.ok)
    record = "".join(outcome.receipt().bodies)
    stated = {
        "by_amount": "what others did since it was decided comes to less than this amount",
        "strict": "unchanged",
        "own": "nothing that others did since it was decided may be this one (by <lambda>)",
    }
    assert stated[name] in record


def test_refund_by_hand_that_failed_does_not_count(
    open_gate: OpenGate, client: stripe.StripeClient, service: LocalStripe, case: Case
) -> None:
    """A refund by hand that Stripe could not carry out moved nothing, and does not stand in the way."""
    gate = open_gate()
    crash(gate, declared(gate, client), case, 2000, crash_before_effect=True)
    made = by_hand(client, case, 2000)
    service.settle_refund(made.id, "failed", failure_reason="unknown")
    gate = open_gate()
    declared(gate, client)
    (outcome,) = gate.recover()
    assert str(outcome) == "COMMITTED_BY_RETRY"


def test_rule_of_ones_own_must_answer(gate: Interlock, client: stripe.StripeClient, case: Case) -> None:
    """A rule that answers neither True nor False stops with an error, and nothing is sent; an unknown one is refused at the door."""
    refund = declared(gate, client, duplicates=lambda other, amount: None)
    proposal = refund.proposal(case, amount=2000)
    by_hand(client, case, 100)
    with pytest.raises(Exception, match="answer True"):
        gate.submit(proposal)
    with pytest.raises(ConfigurationError, match="by_amount"):
        declared(gate, client, duplicates="loose", name="other")


def test_facts_that_forbid(gate: Interlock, client: stripe.StripeClient, service: LocalStripe) -> None:
    """Not enough left, not captured, charged back, another currency, no such payment: each refused by its own fact."""
    small = pay(client, 1000)
    held = pay(client, capture_method="manual")
    disputed = pay(client)
    service.dispute(str(disputed.latest_charge))
    asked = pay(client)
    service.dispute(str(asked.latest_charge), inquiry=True)
    euros = pay(client, currency="eur")
    refund = declared(gate, client, currency="usd")
    wanted = {
        "left": (small.id, "REFUSED:premise_false"),
        "captured": (held.id, "REFUSED:premise_false"),
        "disputes": (disputed.id, "REFUSED:premise_false"),
        "inquiry": (asked.id, "COMMITTED"),
        "currency": (euros.id, "REFUSED:premise_false"),
        "charge_status": ("pi_nosuch", "REFUSED:premise_false"),
    }
    for fact, (payment, said) in wanted.items():
        outcome = refund(Case(fact, payment), amount=2000)
        assert str(outcome) == said, fact
        if not outcome.ok:
            assert fact in outcome.changes
            assert fact in outcome.for_person


@pytest.mark.parametrize("amount", [20.0, True, 0, -1, "2000", None, 10**12])
def test_amounts_are_whole_and_positive(gate: Interlock, client: stripe.StripeClient, case: Case, amount: Any) -> None:
    """A float, a bool, nothing, less than nothing, a text: refused at the door, with what to write instead."""
    with pytest.raises(BadInput, match="Nothing was sent"):
        declared(gate, client)(case, amount=amount)


def test_three_decimal_amounts_end_in_zero(gate: Interlock, client: stripe.StripeClient) -> None:
    """docs.stripe.com/currencies: refused at the door where the currency is said, by a fact where Stripe knows it."""
    payment = pay(client, currency="kwd")
    with pytest.raises(BadInput, match="last digit must be 0"):
        declared(gate, client, currency="kwd")(Case("1", payment.id), amount=2005)
    refund = declared(gate, client, name="unsaid")
    assert "amount_fits" in refund(Case("2", payment.id), amount=2005).changes
    assert refund(Case("3", payment.id), amount=2000).ok


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"case": Case("1", "")}, "no payment is named"),
        ({"case": {"order": "1"}}, "no payment is named"),
        ({"case": None}, "names no case"),
        ({"case": object()}, "cannot be written down"),
        ({"reason": "because"}, "Stripe knows"),
        ({"metadata": {"interlock_effect_id": "x"}}, "the gate's own"),
        ({"metadata": {"n": 1}}, "not text"),
    ],
)
def test_bad_calls_are_refused_at_the_door(
    gate: Interlock, client: stripe.StripeClient, case: Case, given: dict[str, Any], message: str
) -> None:
    """What cannot be meant is refused before anything is written or sent."""
    refund = stripe_refund(gate, client, key=lambda case: "r")
    with pytest.raises(BadInput, match=message):
        refund(**{"case": case, "amount": 2000, **given})


def test_premises_and_metadata_of_ones_own(gate: Interlock, client: stripe.StripeClient, case: Case) -> None:
    """Further facts are read and judged beside the target's own; callbacks get the case as its own class."""
    asked: list[Any] = []

    def eligible(case: Case) -> dict[str, bool]:
        asked.append(case)
        return {"eligible": len(asked) > 1}

    refund = declared(
        gate, client, premises=eligible, expect={"eligible": True}, metadata=lambda case: {"order": case.order}
    )
    refused = refund(case, amount=2000)
    assert str(refused) == "REFUSED:premise_false"
    assert list(refused.changes) == ["eligible"]
    done = refund(case, amount=2000, decision="second look")
    assert done.ok
    assert done.value.metadata["order"] == case.order
    assert asked[0] == case
    assert type(asked[0]) is Case


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # the SDK's own way of posting through httpx
async def test_asynchronous(gate: Interlock, service: LocalStripe, client: stripe.StripeClient, case: Case) -> None:
    """With asynchronous=True calls and callbacks are awaited, over the SDK's own async methods."""
    own: Any = stripe.StripeClient(
        "sk_test_local", base_addresses={"api": service.url}, http_client=stripe.HTTPXClient(timeout=5)
    )

    async def approve(case: Case) -> Approval:
        return Approval(id=f"ap_{case.order}", by="ann", amount_minor=2000)

    refund = stripe_refund(gate, own, key=by_order, approval=approve, asynchronous=True)
    first = await refund(case, amount=2000)
    assert str(first) == "COMMITTED", first.for_person
    assert str(await refund(case, amount=2000)) == "DUPLICATE_IGNORED"
    service.fault(method="POST", path="/v1/refunds", kind="drop_after")
    assert str(await refund(Case(case.order + "b", case.payment_intent), amount=1000)) == "COMMITTED_ON_QUERY"
    assert service.refunded(case.payment_intent) == (3000, 2)
    await own._requestor._client._client_async.aclose()


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # the SDK's own way of posting through httpx
@pytest.mark.parametrize("asynchronous", [True, False])
def test_new_approval_is_a_new_decision_also_where_it_is_awaited(
    gate: Interlock, service: LocalStripe, client: stripe.StripeClient, case: Case, asynchronous: bool
) -> None:
    """An `async def` approval names the decision: what one approval's refusal stands for, the next one may do."""
    given = APPROVED

    async def approve(case: Case) -> Approval:
        return given

    used: Any = client
    if asynchronous:
        used = stripe.StripeClient(
            "sk_test_local", base_addresses={"api": service.url}, http_client=stripe.HTTPXClient(timeout=5)
        )
    refund: Any = stripe_refund(gate, used, key=by_order, approval=approve, asynchronous=asynchronous)

    def call() -> Any:
        outcome = refund(case, amount=2000)
        return asyncio.run(_awaited(outcome)) if asynchronous else outcome

    proposal = refund.proposal(case, amount=2000)
    assert proposal.decision == APPROVED.id
    client.v1.refunds.create({"payment_intent": case.payment_intent, "amount": 2000})
    assert str(gate.submit(proposal)) == "REFUSED:stale_premise"
    assert str(call()) == "REFUSED:stale_premise"
    given = Approval(id="another", by="ann")
    assert str(call()) == "COMMITTED"


async def _awaited(outcome: Any) -> Any:
    return await outcome


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
def test_asynchronous_effect_is_recovered_from_a_plain_thread_and_used_on_several_loops(
    open_gate: OpenGate, service: LocalStripe, case: Case
) -> None:
    """`gate.recover()` awaits on loops of its own, and each loop has connections of its own: none is used where it cannot be."""
    own: Any = stripe.StripeClient(
        "sk_test_local", base_addresses={"api": service.url}, http_client=stripe.HTTPXClient(timeout=5)
    )
    allowed = True

    def start() -> tuple[Interlock, Any]:
        gate = open_gate()
        options: Any = {"approval": lambda case: allowed, "settle_after": 0}
        return gate, stripe_refund(gate, own, key=by_order, asynchronous=True, **options)

    gate, refund = start()
    gate.recover()
    crash(gate, refund, case, 2000, crash_after_effect=True)
    gate, refund = start()
    allowed = False
    assert [str(outcome) for outcome in gate.recover()] == ["COMMITTED_ON_QUERY"]
    for _ in range(2):
        assert str(asyncio.run(_awaited(refund(case, amount=2000)))) == "DUPLICATE_IGNORED"
    allowed = True
    for order in ("n1", "n2"):
        asked = refund(Case(order, case.payment_intent), amount=100)
        assert str(asyncio.run(_awaited(asked))) == "COMMITTED"
    assert service.refunded(case.payment_intent) == (2200, 3)


def test_a_hand_refund_beside_one_that_had_landed_is_told(
    open_gate: OpenGate, client: stripe.StripeClient, service: LocalStripe, case: Case
) -> None:
    """The send had landed before the crash, and support refunded the same $20 in the outage: it stands, and a person is told."""
    gate = open_gate()
    crash(gate, declared(gate, client), case, 2000, crash_after_effect=True)
    made = by_hand(client, case, 2000)
    gate = open_gate()
    refund = declared(gate, client)
    before = len(service.ledger()["requests"])
    (outcome,) = gate.recover()
    assert str(outcome) == "COMMITTED_ON_QUERY"
    assert len(service.ledger()["requests"]) == before + 1, "the facts that recovery reads anyway tell it"
    for told in (outcome, refund(case, amount=2000)):
        assert [other["id"] for other in told.changes["others"]["now"]] == [made.id]
        assert "facts had changed since it was decided" in told.for_person
        assert made.id in told.for_person
    assert service.refunded(case.payment_intent) == (4000, 2)


def test_nothing_is_told_of_facts_that_hold(
    open_gate: OpenGate, client: stripe.StripeClient, service: LocalStripe, case: Case
) -> None:
    """A smaller refund by others is tolerated, so there is nothing for a person to see to."""
    gate = open_gate()
    crash(gate, declared(gate, client), case, 2000, crash_after_effect=True)
    by_hand(client, case, 500)
    gate = open_gate()
    declared(gate, client)
    (outcome,) = gate.recover()
    assert (str(outcome), outcome.changes) == ("COMMITTED_ON_QUERY", {})
    assert "changed" not in outcome.for_person
