"""How far an approval reaches: its amount is shared by all that is done under its id, and only in its currency."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import stripe

from benchmarks.services.stripe import LocalStripe
from interlock import Budget, Interlock, Outcome
from interlock.errors import AuthorityUnclear, BudgetUnclear, CallbackFailed
from interlock.targets.stripe import Approval, StripeRefund, stripe_payment_intent, stripe_refund
from interlock.testing import SimulatedCrash
from tests.targets.stripe.conftest import Case, Later, by_order, pay

OpenGate = Callable[..., Interlock]


def declared(gate: Interlock, client: stripe.StripeClient, approval: Approval, **options: Any) -> StripeRefund[Outcome]:
    return stripe_refund(gate, client, key=by_order, approval=lambda case: approval, settle_after=0, **options)


def capped(case: Case, amount_minor: int = 2000, **more: Any) -> Approval:
    return Approval(id=f"ap_{case.order}", by="ann", amount_minor=amount_minor, **more)


def another(case: Case) -> Case:
    return Case(case.order + "b", case.payment_intent)


def test_two_refunds_share_one_approval(
    gate: Interlock, client: stripe.StripeClient, service: LocalStripe, case: Case
) -> None:
    """$20 approved: $15 goes out, another $15 does not, and $5 does; the refusal names who holds the rest."""
    refund = declared(gate, client, capped(case))
    assert str(refund(case, amount=1500)) == "COMMITTED"
    refused = refund(another(case), amount=1500)
    assert str(refused) == "REFUSED:over_limit"
    assert f"refund:{case.order}" in refused.detail
    assert str(refund(Case(case.order + "c", case.payment_intent), amount=500)) == "COMMITTED"
    assert service.refunded(case.payment_intent) == (2000, 2)


def test_two_refunds_at_once_share_one_approval(
    gate: Interlock, client: stripe.StripeClient, service: LocalStripe, case: Case
) -> None:
    """Sent at the same moment, one of two refunds of the whole approval lands."""
    refund, outcomes = declared(gate, client, capped(case)), []
    together = threading.Barrier(2)

    def ask(one: Case) -> None:
        together.wait()
        outcomes.append(str(refund(one, amount=2000)))

    threads = [threading.Thread(target=ask, args=[one]) for one in (case, another(case))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["COMMITTED", "REFUSED:over_limit"]
    assert service.refunded(case.payment_intent) == (2000, 1)


def test_a_failed_refund_gives_its_part_of_the_approval_back(
    gate: Interlock, client: stripe.StripeClient, service: LocalStripe, case: Case
) -> None:
    """What certainly did not happen takes nothing of the approval."""
    refund = declared(gate, client, capped(case))
    service.fault(method="POST", path="/v1/refunds", kind="decline")
    assert str(refund(case, amount=2000)) == "FAILED:card_declined"
    assert str(refund(another(case), amount=2000)) == "COMMITTED"


def test_a_crash_keeps_its_part_of_the_approval(
    open_gate: OpenGate, client: stripe.StripeClient, service: LocalStripe, case: Case
) -> None:
    """A refund that a crash left open holds its part until it is settled, and its own resend needs no second one."""
    gate = open_gate()
    with pytest.raises(SimulatedCrash):
        gate.submit(declared(gate, client, capped(case)).proposal(case, amount=2000), crash_before_effect=True)
    gate = open_gate()
    refund = declared(gate, client, capped(case))
    assert str(refund(another(case), amount=2000)) == "REFUSED:over_limit"
    assert [str(outcome) for outcome in gate.recover()] == ["COMMITTED_BY_RETRY"]
    assert service.refunded(case.payment_intent) == (2000, 1)


def test_a_budget_of_the_users_stands_beside_the_approvals(
    gate: Interlock, client: stripe.StripeClient, service: LocalStripe, case: Case
) -> None:
    """`budget=` and the approval both bound a refund; a budget under the approval's own name is refused at the call."""
    own = Budget(f"customer:{case.order}", limit=1000, amount=900)
    refund = declared(gate, client, capped(case), budget=lambda case: own)
    assert str(refund(case, amount=900)) == "COMMITTED"
    assert "customer:" in refund(another(case), amount=900).detail
    taken = Budget(f"approval:ap_{case.order}", limit=1, amount=1)
    with pytest.raises(BudgetUnclear, match="use another name"):
        declared(gate, client, capped(case), budget=lambda case: taken, name="r")(case, amount=900)
    assert service.refunded(case.payment_intent) == (900, 1)


@pytest.mark.parametrize("is_declared", [True, False])
def test_another_currency_is_not_covered(
    gate: Interlock, client: stripe.StripeClient, service: LocalStripe, case: Case, is_declared: bool
) -> None:
    """An approval in euros covers no dollars, whether the effect says its currency or Stripe does; one in dollars does."""
    options: dict[str, Any] = {"currency": "usd"} if is_declared else {}
    outcome = declared(gate, client, capped(case, currency="eur"), **options)(case, amount=2000)
    assert str(outcome) == "REFUSED:lease"
    assert outcome.detail == f"Approval 'ap_{case.order}' by ann is in EUR, not in USD."
    granted = declared(gate, client, capped(case, currency="USD"), **options, name="granted")(case, amount=2000)
    assert str(granted) == "COMMITTED"
    assert service.refunded(case.payment_intent) == (2000, 1)


def test_a_currency_that_cannot_be_read_permits_nothing(
    gate: Interlock, client: stripe.StripeClient, service: LocalStripe, case: Case
) -> None:
    """Where Stripe must be asked for what an approval asks, and does not answer, nothing is sent."""
    payment = pay(client, 3000, capture_method="manual").id
    capture = stripe_payment_intent(
        gate, client, key=by_order, action="capture", approval=lambda case: capped(case, 3000, currency="usd")
    )
    held = Case(payment[-6:], payment)
    seen = capture.proposal(held).seen
    service.fault(method="GET", path=f"/v1/payment_intents/{payment}", kind="bad_gateway", times=9)
    with pytest.raises(CallbackFailed, match="Nothing was sent"):
        capture(held, seen=seen)
    service.clear_faults()
    assert client.v1.payment_intents.retrieve(payment).status == "requires_capture"


@pytest.mark.parametrize(
    ("cap", "amount", "wanted"), [(3000, None, "COMMITTED"), (2999, None, "REFUSED:lease"), (2999, 2000, "COMMITTED")]
)
def test_a_capture_counts_what_it_takes(
    gate: Interlock, client: stripe.StripeClient, cap: int, amount: int | None, wanted: str
) -> None:
    """A capture of $30 fits under an approval of $30; one that names no amount counts all that is capturable."""
    payment = pay(client, 3000, capture_method="manual").id
    held = Case(payment[-6:], payment)
    capture = stripe_payment_intent(
        gate,
        client,
        key=by_order,
        action="capture",
        approval=lambda case: capped(case, cap),
        name=f"capture {cap} {amount}",
    )
    assert str(capture(held, amount=amount)) == wanted
    if amount is None and wanted == "COMMITTED":
        second = pay(client, 3000, capture_method="manual").id
        other = stripe_payment_intent(
            gate, client, key=by_order, action="capture", approval=lambda case: capped(held, cap), name="second"
        )
        assert str(other(Case(second[-6:], second))) == "REFUSED:over_limit"


def test_a_capture_after_a_crash_counts_once(open_gate: OpenGate, client: stripe.StripeClient) -> None:
    """A capture that landed before the crash is found with its key gone, and fits under its approval as before."""
    payment = pay(client, 3000, capture_method="manual").id
    held = Case(payment[-6:], payment)

    def capture(gate: Interlock) -> Any:
        return stripe_payment_intent(
            gate, client, key=by_order, action="capture", approval=lambda case: capped(case, 3000), settle_after=0
        )

    gate = open_gate()
    with pytest.raises(SimulatedCrash):
        gate.submit(capture(gate).proposal(held), crash_after_effect=True)
    gate = open_gate(Later(timedelta(hours=25)))
    capture(gate)
    assert [str(outcome) for outcome in gate.recover()] == ["COMMITTED_ON_QUERY"]


@pytest.mark.parametrize(("cap", "wanted"), [(4000, "COMMITTED"), (3999, "REFUSED:lease")])
def test_a_confirmation_counts_the_payment(gate: Interlock, client: stripe.StripeClient, cap: int, wanted: str) -> None:
    """A confirmation names no amount: the payment's own counts."""
    payment = pay(client, 4000, confirm=False).id
    waiting = Case(payment[-6:], payment)
    confirm = stripe_payment_intent(
        gate, client, key=by_order, action="confirm", approval=lambda case: capped(case, cap), name=f"confirm {cap}"
    )
    assert str(confirm(waiting)) == wanted


def test_a_cancellation_takes_nothing(gate: Interlock, client: stripe.StripeClient) -> None:
    """A cancellation moves nothing, so a capped approval permits it, whatever its currency, and none of it is taken."""
    payment = pay(client, 4000, confirm=False).id
    waiting = Case(payment[-6:], payment)
    cancel = stripe_payment_intent(
        gate, client, key=by_order, action="cancel", approval=lambda case: capped(case, 1, currency="eur")
    )
    outcome = cancel(waiting)
    assert str(outcome) == "COMMITTED"
    assert outcome.history is not None
    assert "budget" not in outcome.history.entries[2].data


def test_permission_without_an_id_is_no_new_decision(
    gate: Interlock, client: stripe.StripeClient, service: LocalStripe, case: Case
) -> None:
    """What was refused under an approval stays so when True is all that is answered later: neither its facts nor its amount are new."""
    answer: Any = capped(case)
    refund = stripe_refund(gate, client, key=by_order, approval=lambda case: answer, settle_after=0)
    assert str(refund(case, amount=2500)) == "REFUSED:lease"
    answer = True
    other = refund(case, amount=2000)
    assert str(other) == "REFUSED:conflicting_payload"
    assert "decision=" in other.for_person
    assert "another id" in other.for_person
    client.v1.refunds.create({"payment_intent": case.payment_intent, "amount": 2500})
    assert str(refund(case, amount=2500)) == "REFUSED:stale_premise"
    answer = capped(case)
    assert str(refund(case, amount=2000)) == "REFUSED:conflicting_payload", (
        "the approval's own decision is the one on record"
    )
    assert str(refund(case, amount=2000, decision="ann: 20 it is")) == "COMMITTED"
    assert service.refunded(case.payment_intent) == (4500, 2)


@pytest.mark.parametrize(
    ("crash", "wanted"),
    [
        ({}, "The first one was done. If both are wanted, ask for this one under another key."),
        (
            {"crash_after_effect": True},
            "The first one was done. If both are wanted, ask for this one under another key.",
        ),
        (
            {"crash_before_effect": True},
            "What becomes of the first one is not known yet. Until it is, nothing else is sent",
        ),
    ],
)
def test_a_conflict_says_what_became_of_the_first_and_the_way_out(
    open_gate: OpenGate,
    client: stripe.StripeClient,
    service: LocalStripe,
    case: Case,
    crash: dict[str, bool],
    wanted: str,
) -> None:
    """Done, done before a crash, or open still: the sentence says which, and advises no new decision, which would not help."""
    gate = open_gate()
    proposal = declared(gate, client, capped(case)).proposal(case, amount=2000)
    if crash:
        with pytest.raises(SimulatedCrash):
            gate.submit(proposal, **crash)
    else:
        assert gate.submit(proposal).ok
    refund = declared(open_gate(), client, capped(case))
    if "crash_before_effect" in crash:
        service.fault(method="GET", path="/v1/*", kind="bad_gateway", times=99)
    other = refund(case, amount=1500)
    assert str(other) == "REFUSED:conflicting_payload"
    assert wanted in other.for_person
    assert "decision=" not in other.for_person


def test_an_approval_that_cannot_be_made_is_told_in_one_sentence(
    gate: Interlock, client: stripe.StripeClient, service: LocalStripe, case: Case
) -> None:
    """A mistake in `approval=` itself is to be corrected: asking again would change nothing."""
    refund = stripe_refund(gate, client, key=by_order, approval=lambda case: Approval(id="ap_1", at="today"))  # type: ignore[arg-type]
    with pytest.raises(AuthorityUnclear, match=r"[^.]\. Nothing was sent; correct it\.$"):
        refund(case, amount=2000)
    assert service.refunded(case.payment_intent) == (0, 0)
