"""`Approval(at=)`: what others did since the approval was given counts as done since the decision, whenever the call is made."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import stripe

from benchmarks.services.stripe import LocalStripe
from interlock import Interlock, Outcome
from interlock.errors import BadInput
from interlock.targets.stripe import Approval, StripeRefund, stripe_refund
from interlock.testing import SimulatedCrash
from tests.targets.stripe.conftest import Case, by_order, pay
from tests.targets.stripe.test_move import ROWS

OpenGate = Callable[..., Interlock]


class Desk:
    """Where the approvals are kept: one answer at a time."""

    def __init__(self) -> None:
        self.answer: Any = None

    def __call__(self, case: Case) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def desk() -> Desk:
    return Desk()


def declared(gate: Interlock, client: stripe.StripeClient, desk: Desk, **options: Any) -> StripeRefund[Outcome]:
    return stripe_refund(gate, client, key=by_order, approval=desk, settle_after=0, **options)


def by_hand(client: stripe.StripeClient, case: Case, amount: int) -> stripe.Refund:
    return client.v1.refunds.create({"payment_intent": case.payment_intent, "amount": amount})


def ago(seconds: float = 30) -> datetime:
    return datetime.now(UTC) - timedelta(seconds=seconds)


def test_refunded_by_hand_between_approval_and_first_call(
    gate: Interlock, client: stripe.StripeClient, service: LocalStripe, case: Case, desk: Desk
) -> None:
    """Ann approves, support refunds the same $20, then the agent's first call: stopped, and the record shows what Ann saw."""
    desk.answer = Approval(id="ap_1", by="ann", at=ago())
    made = by_hand(client, case, 2000)
    refused = declared(gate, client, desk)(case, amount=2000)
    assert str(refused) == "REFUSED:stale_premise"
    assert refused.changes["others"]["seen"] == []
    assert [other["id"] for other in refused.changes["others"]["now"]] == [made.id]
    assert service.refunded(case.payment_intent) == (2000, 1)


def test_without_at_the_first_call_is_the_decision(
    gate: Interlock, client: stripe.StripeClient, service: LocalStripe, case: Case, desk: Desk
) -> None:
    """An approval that does not say when it was given is as old as the first call."""
    desk.answer = Approval(id="ap_1", by="ann")
    by_hand(client, case, 2000)
    assert str(declared(gate, client, desk)(case, amount=2000)) == "COMMITTED"
    assert service.refunded(case.payment_intent) == (4000, 2)


def test_what_was_there_before_the_approval_does_not_count(
    gate: Interlock, client: stripe.StripeClient, service: LocalStripe, case: Case, desk: Desk
) -> None:
    """A refund of the same amount that Ann could see stops nothing, and neither does a smaller one that came later."""
    created = by_hand(client, case, 2000).created
    desk.answer = Approval(id="ap_1", by="ann", at=datetime.fromtimestamp(created + 1, UTC))
    while time.time() < created + 1:
        time.sleep(0.05)
    by_hand(client, case, 500)
    assert str(declared(gate, client, desk)(case, amount=2000)) == "COMMITTED"
    assert service.refunded(case.payment_intent) == (4500, 3)


@pytest.mark.parametrize(("after", "wanted"), [(0.999, "REFUSED:stale_premise"), (1.0, "COMMITTED")])
def test_the_same_second_counts_as_later(
    gate: Interlock, client: stripe.StripeClient, case: Case, desk: Desk, after: float, wanted: str
) -> None:
    """Stripe's `created` is in whole seconds: what has the second of the approval may have come after it."""
    created = by_hand(client, case, 2000).created
    desk.answer = Approval(id="ap_1", at=datetime.fromtimestamp(created + after, UTC))
    assert str(declared(gate, client, desk)(case, amount=2000)) == wanted


@pytest.mark.parametrize("duplicates", ["strict", lambda other, amount: True])
def test_each_rule_judges_what_came_since(
    gate: Interlock, client: stripe.StripeClient, case: Case, desk: Desk, duplicates: Any
) -> None:
    """`duplicates=` judges what came since the approval, by whichever rule."""
    desk.answer = Approval(id="ap_1", at=ago())
    by_hand(client, case, 500)
    assert str(declared(gate, client, desk, duplicates=duplicates)(case, amount=2000)) == "REFUSED:stale_premise"


def test_too_little_left_is_a_change_when_it_came_later(
    gate: Interlock, client: stripe.StripeClient, case: Case, desk: Desk
) -> None:
    """What others took since the approval was left when it was given."""
    desk.answer = Approval(id="ap_1", at=ago())
    by_hand(client, case, 500)
    refused = declared(gate, client, desk)(case, amount=10_000)
    assert str(refused) == "REFUSED:stale_premise"
    assert (refused.changes["left"]["seen"], refused.changes["left"]["now"]) == (10_000, 9_500)


def test_after_a_crash_and_by_an_approval_that_is_as_old(
    open_gate: OpenGate, client: stripe.StripeClient, service: LocalStripe, case: Case, desk: Desk
) -> None:
    """A crash, $20 by hand, and no approval from before that lets it go, whatever its id; one from after it does."""
    desk.answer = Approval(id="ap_1", at=ago())
    gate = open_gate()
    with pytest.raises(SimulatedCrash):
        gate.submit(declared(gate, client, desk).proposal(case, amount=2000), crash_before_effect=True)
    created = by_hand(client, case, 2000).created
    gate = open_gate()
    refund = declared(gate, client, desk)
    assert [str(outcome) for outcome in gate.recover()] == ["REFUSED:stale_premise_at_recovery"]
    desk.answer = Approval(id="ap_2", at=ago())
    assert str(refund(case, amount=2000)) == "REFUSED:stale_premise"
    desk.answer = Approval(id="ap_3", at=datetime.fromtimestamp(created + 1, UTC))
    assert str(refund(case, amount=2000)) == "COMMITTED"
    assert service.refunded(case.payment_intent) == (4000, 2)


def test_a_hand_refund_before_the_first_call_stops_what_a_crash_left_open(
    open_gate: OpenGate, client: stripe.StripeClient, service: LocalStripe, case: Case, desk: Desk
) -> None:
    """The record of a call keeps what the approver saw: the crash does not make the facts younger."""
    desk.answer = Approval(id="ap_1", at=ago())
    by_hand(client, case, 1500)
    gate = open_gate()
    with pytest.raises(SimulatedCrash):
        gate.submit(declared(gate, client, desk).proposal(case, amount=2000), crash_before_effect=True)
    by_hand(client, case, 500)
    gate = open_gate()
    declared(gate, client, desk)
    assert [str(outcome) for outcome in gate.recover()] == ["REFUSED:stale_premise_at_recovery"]
    assert service.refunded(case.payment_intent) == (2000, 2)


def test_a_proposal_shows_what_the_approver_saw(
    gate: Interlock, client: stripe.StripeClient, service: LocalStripe, case: Case, desk: Desk
) -> None:
    """A proposal that is made after the hand refund, under an approval from before it, is stopped."""
    desk.answer = Approval(id="ap_1", at=ago())
    by_hand(client, case, 2000)
    proposal = declared(gate, client, desk).proposal(case, amount=2000)
    assert proposal.seen is not None
    assert proposal.seen["others"] == []
    assert str(gate.submit(proposal)) == "REFUSED:stale_premise"
    assert service.refunded(case.payment_intent) == (2000, 1)


@pytest.mark.parametrize(("by_hand_minor", "wanted"), [(500, "COMMITTED"), (2000, "REFUSED:stale_premise")])
def test_a_proposal_that_is_approved_later_keeps_its_own_facts(
    gate: Interlock, client: stripe.StripeClient, case: Case, desk: Desk, by_hand_minor: int, wanted: str
) -> None:
    """The facts of a proposal are older than the approval that it waits for, and what came since they were read counts."""
    proposal = declared(gate, client, desk).proposal(case, amount=2000)
    by_hand(client, case, by_hand_minor)
    desk.answer = Approval(id="ap_1", at=datetime.now(UTC))
    assert str(gate.submit(proposal)) == wanted


def test_a_decision_of_its_own_is_taken_now(
    gate: Interlock, client: stripe.StripeClient, service: LocalStripe, case: Case, desk: Desk
) -> None:
    """`decision=` says that it was decided again, on the facts as they are; the approval's own id says no such thing."""
    desk.answer = Approval(id="ap_1", at=ago())
    by_hand(client, case, 2000)
    refund = declared(gate, client, desk)
    assert str(refund(case, amount=2000, decision="ap_1")) == "REFUSED:stale_premise"
    assert str(refund(case, amount=2000, decision="ann: that was the second item")) == "COMMITTED"
    assert service.refunded(case.payment_intent) == (4000, 2)


def test_at_is_no_part_of_the_request(
    gate: Interlock, client: stripe.StripeClient, service: LocalStripe, case: Case, desk: Desk
) -> None:
    """The same approval, read twice, in whichever timezone and however fine, is the same decision of the same request."""
    at = ago().replace(microsecond=250_000)
    desk.answer = Approval(id="ap_1", at=at, revoked=True)
    refund = declared(gate, client, desk)
    assert str(refund(case, amount=2000)) == "REFUSED:lease"
    desk.answer = Approval(id="ap_1", at=at.replace(microsecond=0).astimezone(timezone(timedelta(hours=5))))
    assert str(refund(case, amount=2000)) == "COMMITTED"
    desk.answer = Approval(id="ap_2", at=datetime.now(UTC))
    assert str(refund(case, amount=2000)) == "DUPLICATE_IGNORED"
    assert service.refunded(case.payment_intent) == (2000, 1)


@pytest.mark.parametrize("later", [ago(5), None])
def test_at_that_moves_under_one_id_permits_nothing(
    gate: Interlock, client: stripe.StripeClient, service: LocalStripe, case: Case, desk: Desk, later: datetime | None
) -> None:
    """An approval whose time changes is not the one that it was decided by: it is refused, and says that it needs another id."""
    desk.answer = Approval(id="ap_1", at=ago(60))
    by_hand(client, case, 2000)
    refund = declared(gate, client, desk)
    assert str(refund(case, amount=2000)) == "REFUSED:stale_premise"
    desk.answer = Approval(id="ap_1", at=later)
    refused = refund(case, amount=2000)
    assert str(refused) == "REFUSED:lease"
    assert "another id" in refused.for_person
    assert service.refunded(case.payment_intent) == (2000, 1)


@pytest.mark.parametrize("named", [{}, {"decision": "ap_1"}])
def test_an_approval_that_could_not_be_read_at_first(
    gate: Interlock, client: stripe.StripeClient, service: LocalStripe, case: Case, named: Any
) -> None:
    """An approval that only the second reading gets must not lose its time on the way; the next call has it."""
    asked: list[Case] = []

    def flaky(case: Case) -> Approval:
        asked.append(case)
        if len(asked) == 1:
            raise OSError("the desk is away")
        return Approval(id="ap_1", at=ago(30))

    by_hand(client, case, 2000)
    refund = stripe_refund(gate, client, key=by_order, approval=flaky, settle_after=0)
    refused = refund(case, amount=2000, **named)
    assert str(refused) == "REFUSED:lease"
    assert service.refunded(case.payment_intent) == (2000, 1)


def test_times_that_cannot_be(gate: Interlock, client: stripe.StripeClient, case: Case, desk: Desk) -> None:
    """A naive `at` is refused where it is made; one in the future permits nothing until then, some seconds of drift aside."""
    with pytest.raises(BadInput, match=r"at= is .*; give a datetime with a timezone"):
        Approval(id="ap_1", at=datetime(2026, 1, 1))  # noqa: DTZ001 - that is the point
    refund = declared(gate, client, desk)
    desk.answer = Approval(id="ap_1", at=datetime.now(UTC) + timedelta(seconds=30))
    refused = refund(case, amount=2000)
    assert str(refused) == "REFUSED:lease"
    assert "one of the clocks is wrong" in refused.detail
    desk.answer = Approval(id="ap_2", at=datetime.now(UTC) + timedelta(seconds=3))
    assert str(refund(case, amount=2000)) == "COMMITTED"


def test_it_is_read_beyond_the_first_page_and_costs_no_request(
    gate: Interlock, client: stripe.StripeClient, service: LocalStripe, desk: Desk
) -> None:
    """A hand refund is found behind a hundred newer ones, with as many requests as without `at`."""
    payment = pay(client, 100_000).id
    case = Case(payment[-6:], payment)
    by_hand(client, case, 2000)
    for _ in range(105):
        by_hand(client, case, 1)
    asked: dict[str, int] = {}
    for name, at, amount, wanted in (
        ("old", ago(600), 2050, "REFUSED:stale_premise"),
        ("without", None, 2050, "COMMITTED"),
    ):
        desk.answer = Approval(id=f"ap_{name}", at=at)
        before = len(service.ledger()["requests"])
        refund = declared(gate, client, desk, name=name)
        assert str(refund(Case(case.order + name, payment), amount=amount)) == wanted
        asked[name] = sum(one["method"] == "GET" for one in service.ledger()["requests"][before:])
    assert asked["old"] == asked["without"]


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # the SDK's own way of posting through httpx
async def test_awaited(gate: Interlock, client: stripe.StripeClient, service: LocalStripe, case: Case) -> None:
    """The same for an asynchronous effect with an asynchronous approval, whether the decision is named or not."""
    own: Any = stripe.StripeClient(
        "sk_test_local", base_addresses={"api": service.url}, http_client=stripe.HTTPXClient(timeout=5)
    )
    at = ago()

    async def approve(case: Case) -> Approval:
        return Approval(id="ap_1", at=at)

    by_hand(client, case, 2000)
    refund = stripe_refund(gate, own, key=by_order, approval=approve, asynchronous=True, settle_after=0)
    assert str(await refund(case, amount=2000)) == "REFUSED:stale_premise"
    assert str(await refund(case, amount=2000, decision="ap_1")) == "REFUSED:stale_premise"
    assert service.refunded(case.payment_intent) == (2000, 1)
    assert str(await refund(case, amount=2000, decision="ann: again")) == "COMMITTED"


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("given_hours_ago", [48, 24])
def test_moves_by_hand_since_the_approval(
    open_gate: OpenGate, tmp_path: Path, desk: Desk, kind: str, given_hours_ago: int
) -> None:
    """A move that a person made a day and a half ago came after an approval of two days ago, and before one of yesterday."""
    with LocalStripe(tmp_path / "stripe") as service:
        row, client, gate = ROWS[kind], service.client(), open_gate()
        service.advance(-60 * 3600)
        pay(client, 50_000, payment_method="pm_card_bypassPending")
        case = {"id": "1", **row.prepare(client)}
        service.reset_clock()
        service.advance(-36 * 3600)
        row.by_hand(client, case, row.amount)
        service.reset_clock()
        desk.answer = Approval(id="ap_1", at=ago(given_hours_ago * 3600))
        key = lambda case: f"case:{case.id}"  # noqa: E731
        move = row.make(gate, client, key=key, currency="usd", approval=desk, settle_after=0)
        outcome = move(case, amount=row.amount)
        assert str(outcome) == ("REFUSED:stale_premise" if given_hours_ago == 48 else "COMMITTED"), outcome.for_person
        assert len(row.listed(client, case)) == (1 if given_hours_ago == 48 else 2)
