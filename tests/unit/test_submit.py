"""One process: what a call answers, what is sent, what stands on the record."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from interlock import Interlock, Kind, NotSent, OutcomeError, Rejected, at_least, equals, tolerates
from interlock.authority import Approval
from interlock.errors import (
    AuthorityUnclear,
    BadInput,
    InvalidKey,
    JournalUnavailable,
    NotSerializable,
    PremiseUnreadable,
)
from interlock.journal import MemoryJournal
from interlock.outcomes import Reason, Status
from interlock.testing import SimulatedCrash
from tests.unit.conftest import World

TIERS = pytest.mark.parametrize("tier", [1, 2, 3])


@TIERS
def test_first_again_and_other_payload(world: World, tier: int) -> None:
    """The first call lands, the same call gets the recorded result, another amount under the key is refused; one send."""
    refund = world.refund(world.gate(), tier)
    first, again, other = refund("881", 2000), refund("881", amount=2000), refund("881", 3000)
    assert [str(first), str(again), str(other)] == ["COMMITTED", "DUPLICATE_IGNORED", "REFUSED:conflicting_payload"]
    assert first.value == again.value == {"order": "881", "amount": 2000}
    assert first.raw is not None
    assert again.raw is None
    assert len(world.service.sends) == 1


def test_other_payload_while_the_first_is_under_way(world: World) -> None:
    """It is refused, not told to wait: what is under way is not its effect, and it would not become so."""
    gate = world.gate()
    refund = world.refund(gate, 1)
    answers: list[str] = []

    def meanwhile() -> None:
        world.service.before = lambda: None
        answers.extend(str(refund(*call)) for call in (("881", 3000), ("881", 2000)))

    world.service.before = meanwhile
    refund("881", 2000)
    assert answers == ["REFUSED:conflicting_payload", "IN_FLIGHT:sender_alive"]
    assert len(world.service.sends) == 1


def test_what_stands_on_the_record_before_the_send(world: World) -> None:
    """When the function runs, payload, facts, checks and the claim are on the journal already."""
    gate = world.gate()
    kinds: list[Any] = []
    refund = world.refund(gate, 1)
    key = refund.proposal("881", 2000).effect_id
    world.service.before = lambda: kinds.extend(gate.journal.load(key).entries)
    refund("881", 2000)
    assert [entry.kind for entry in kinds] == [Kind.PROPOSED, Kind.AUTHORIZED, Kind.DISPATCHED]
    assert kinds[0].data["payload"] == {"order": "881", "amount": 2000}
    assert kinds[0].data["seen"] == {"others": 0}
    assert kinds[1].data["allowed"] is True
    assert kinds[2].data["key"] == key


def test_a_refusal_sends_nothing_and_says_what_changed(world: World) -> None:
    """A fact that changed between decision and send refuses, with both values."""
    gate = world.gate()
    refund = world.refund(gate, 1)
    proposal = refund.proposal("881", 2000)
    world.service.facts["others"] = 500
    outcome = gate.submit(proposal)
    assert str(outcome) == "REFUSED:stale_premise"
    assert outcome.changes["others"] == {"rule": "unchanged", "seen": 0, "now": 500, "holds": False}
    assert "500" in outcome.for_person
    assert world.service.sends == []


def test_permission_is_asked_at_the_send(world: World) -> None:
    """A permission that was pulled after the decision refuses; allowed again, the same decision may be carried out."""
    gate = world.gate()
    refund = world.refund(gate, 1)
    proposal = refund.proposal("881", 2000)
    world.service.permitted = False
    assert str(gate.submit(proposal)) == "REFUSED:lease"
    world.service.permitted = True
    assert str(gate.submit(proposal)) == "COMMITTED"


@TIERS
def test_a_sender_held_up_until_its_deadline_sends_nothing(
    world: World, tier: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped between the dispatch and the send, and allowed no more when it goes on: not sent, and said so; asked again, it is refused."""
    gate = world.gate()
    refund = world.refund(gate, tier, timeout=5)
    append = gate.journal.append

    def slow(history: Any, drafts: Any, **more: Any) -> Any:
        written = append(history, drafts, **more)
        if drafts[-1].kind is Kind.DISPATCHED:
            world.clock.advance(6)
            world.service.permitted = False
        return written

    monkeypatch.setattr(gate.journal, "append", slow)
    outcome = refund("881", 2000)
    assert str(outcome) == "FAILED:held_up"
    assert world.service.sends == []
    assert str(refund("881", 2000)) == "REFUSED:lease"
    world.service.permitted = True
    monkeypatch.undo()
    assert refund("881", 2000).ok


def test_a_refusal_stands_for_its_decision(world: World) -> None:
    """Asking again does not re-read what the decider saw; a new decision is judged on the facts that it saw."""
    refund = world.refund(world.gate(), 1)
    world.service.facts["others"] = 500
    assert str(refund("881", 2000, seen={"others": 0})) == "REFUSED:stale_premise"
    assert str(refund("881", 2000)) == "REFUSED:stale_premise"
    assert str(refund("881", 2000, seen={"others": 500})) == "REFUSED:stale_premise"
    assert str(refund("881", 2000, decision="approved again")) == "COMMITTED"


def test_a_refusal_repeated_with_the_same_facts_adds_nothing(world: World) -> None:
    """An agent that asks a hundred times does not fill the journal."""
    refund = world.refund(world.gate(), 1)
    world.service.permitted = False
    lengths = {len(refund("881", 2000).history.entries) for _ in range(5)}
    assert lengths == {2}


def test_a_false_premise_is_refused_at_once(world: World) -> None:
    """A fact that did not hold when it was decided refuses, though it never changed."""
    world.service.facts = {"eligible": False}
    refund = world.refund(world.gate(), 1, expect={"eligible": True})
    outcome = refund("881", 2000)
    assert str(outcome) == "REFUSED:premise_false"
    assert list(outcome.changes) == ["eligible"]


def test_tolerated_changes_see_the_arguments(world: World) -> None:
    """Another amount by hand is tolerated, the same amount is not, as the declared rule says."""
    gate = world.gate()
    world.service.facts = {"others": []}
    rule = tolerates(lambda seen, now, amount: amount not in now[len(seen) :], why="other amounts")
    refund = world.refund(gate, 1, expect={"others": rule})
    small, same = refund.proposal("1", 2000), refund.proposal("2", 2000)
    world.service.facts = {"others": [500]}
    assert str(gate.submit(small)) == "COMMITTED"
    world.service.facts = {"others": [2000]}
    assert str(gate.submit(same)) == "REFUSED:stale_premise"


@pytest.mark.parametrize(
    ("error", "options", "code"),
    [
        (NotSent("no route", reason="offline"), {}, "FAILED:offline"),
        (Rejected("no funds", reason="declined"), {}, "FAILED:declined"),
        (ConnectionRefusedError("refused"), {}, "FAILED:not_sent"),
        (ValueError("bad card"), {"rejected_on": ValueError}, "FAILED:rejected"),
        (OSError("no route"), {"not_sent_on": (OSError,)}, "FAILED:not_sent"),
    ],
)
@TIERS
def test_certainly_not_landed(world: World, tier: int, error: Exception, options: dict[str, Any], code: str) -> None:
    """What the author says certainly did not land has FAILED, and a new try has a key of its own."""
    refund = world.refund(world.gate(), tier, **options)

    def fail() -> None:
        raise error

    world.service.before = fail
    assert str(refund("881", 2000)) == code
    world.service.before = lambda: None
    assert str(refund("881", 2000)) == "COMMITTED"
    assert len(set(world.service.sends)) == 2
    assert len(world.service.ledger) == 1


@TIERS
@pytest.mark.parametrize("error", [KeyError("bug"), TimeoutError(), ConnectionResetError(), RuntimeError("500")])
def test_a_lost_answer_is_settled_by_asking(world: World, tier: int, error: Exception) -> None:
    """It landed and the answer was lost: settled in the same call by the tier's means, never sent into the ledger twice."""
    lost = [error]

    def lose() -> None:
        if lost:
            raise lost.pop()

    world.service.after = lose
    outcome = world.refund(world.gate(), tier)("881", 2000)
    assert str(outcome) == {1: "COMMITTED_BY_RETRY", 2: "COMMITTED_ON_QUERY", 3: "AMBIGUOUS"}[tier]
    assert len(world.service.ledger) == 1


@TIERS
def test_an_unknown_error_before_anything_landed(world: World, tier: int) -> None:
    """A plain bug that raises before it sends is unknown to the gate; nothing lands, and where it can be told it is."""

    def bug() -> None:
        raise KeyError("bug")

    world.service.before = bug
    outcome = world.refund(world.gate(), tier)("881", 2000)
    assert str(outcome) == {1: "FAILED:absent", 2: "IN_FLIGHT:unanswered", 3: "AMBIGUOUS"}[tier]
    assert world.service.ledger == {}


def test_a_rejected_resend_says_nothing_about_the_first_request(world: World) -> None:
    """The first request landed, its answer was lost, and the resend is refused by the service: it has landed all the same."""
    answers: list[Exception] = [Rejected("already refunded"), TimeoutError()]

    def answer() -> None:
        if answers:
            raise answers.pop()

    world.service.after = answer
    outcome = world.refund(world.gate(), 1)("881", 2000)
    assert str(outcome) == "COMMITTED_ON_QUERY"
    assert outcome.ok


@pytest.mark.parametrize("tier", [1, 2])
@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (lambda key: None, "REAPPLIED_AFTER_QUERY"),
        (lambda key: False, "REAPPLIED_AFTER_QUERY"),
        (lambda key: True, "COMMITTED_ON_QUERY"),
        (lambda key: {"id": "re_1"}, "COMMITTED_ON_QUERY"),
        (lambda key: 4711, "COMMITTED_ON_QUERY"),
        (lambda key: [], "IN_FLIGHT:lookup_failed"),
        (lambda key: "", "IN_FLIGHT:lookup_failed"),
        (lambda key: 0, "IN_FLIGHT:lookup_failed"),
        (lambda key: {}, "IN_FLIGHT:lookup_failed"),
        (lambda key: 1 / 0, "IN_FLIGHT:lookup_failed"),
    ],
)
def test_what_a_lookup_means(world: World, tier: int, answer: Any, code: str) -> None:
    """Only None and False are absence; True or an object is found; an empty answer or an error is neither."""
    lost = [TimeoutError()]

    def lose() -> None:
        if lost:
            raise lost.pop()

    world.service.before = lose
    world.service.lookup = answer
    options = {"window": 3600, "settle_after": 0} if tier == 1 else {"settle_after": 0}
    outcome = world.refund(world.gate(), tier, **options)("881", 2000)
    assert str(outcome) == ("COMMITTED_BY_RETRY" if tier == 1 else code)


@pytest.mark.parametrize("answer", ["no", 1, 0, {}, object()])
def test_permission_is_true_or_false(world: World, answer: Any) -> None:
    """An answer that is neither stops the call with an error; nothing is journalled or sent."""
    gate = world.gate()
    refund = world.refund(gate, 1, allowed=lambda: answer)
    with pytest.raises(AuthorityUnclear, match="True or False"):
        refund("881", 2000)
    assert world.service.sends == []
    assert gate.journal.open_effects() == []


@pytest.mark.parametrize(
    "reader",
    [lambda: 1 / 0, lambda: None, lambda: [1], lambda: {1: 2}, lambda: {"a": object()}, lambda: {"a": float("nan")}],
)
def test_premises_that_cannot_be_read_stop_the_call(world: World, reader: Any) -> None:
    """A reader that raises or does not give named facts stops the call; nothing is journalled or sent."""
    gate = world.gate()
    with pytest.raises(PremiseUnreadable, match="refund"):
        world.refund(gate, 1, premises=reader)("881", 2000)
    assert world.service.sends == []
    assert gate.journal.open_effects() == []


@pytest.mark.parametrize("key", ["", "  ", None, 7, b"x", "\ud800"])
def test_a_key_is_a_text(world: World, key: Any) -> None:
    """A key that does not name anything is refused; nothing is sent."""
    with pytest.raises(InvalidKey, match="Nothing was sent"):
        world.refund(world.gate(), 1, key=lambda: key)("881", 2000)
    assert world.service.sends == []


def test_a_key_callback_that_raises(world: World) -> None:
    """A key callback that fails stops the call and says so."""
    with pytest.raises(InvalidKey, match="ZeroDivisionError"):
        world.refund(world.gate(), 1, key=lambda: 1 / 0)("881", 2000)


@pytest.mark.parametrize("amount", [object(), {1, 2}, float("nan"), 2**53])
def test_arguments_that_cannot_be_recorded(world: World, amount: Any) -> None:
    """An argument without a faithful form is refused at the door; nothing is journalled or sent."""
    with pytest.raises(NotSerializable, match="refund"):
        world.refund(world.gate(), 1)("881", amount)
    assert world.service.sends == []


def test_calls_that_python_would_refuse(world: World) -> None:
    """A call that does not fit the signature is a TypeError, as without the gate; the key is the gate's to give."""
    refund = world.refund(world.gate(), 1)
    for args, kwargs in [((), {}), (("1", 2, 3), {}), (("1", 2), {"amount": 3}), (("1",), {"amuont": 2})]:
        with pytest.raises(TypeError):
            refund(*args, **kwargs)
    with pytest.raises(BadInput, match="supplied by the gate"):
        refund("1", 2, idempotency_key="mine")


def test_rich_arguments_and_results() -> None:
    """Decimals, datetimes and defaults reach the function as they are, and come back typed by the return annotation."""
    gate = Interlock(journal=MemoryJournal())
    got: list[Any] = []

    @gate.effect(key=lambda when: f"book:{when:%F}")
    def book(when: datetime, price: Decimal, *, seats: int = 2, note: str = "") -> Decimal:
        got.append((when, price, seats, note))
        return price * seats

    when = datetime(2026, 12, 24, 20, tzinfo=UTC)
    first, again = book(when, Decimal("9.50"), note="window"), book(when, price=Decimal("9.5"), seats=2, note="window")
    assert got == [(when, Decimal("9.50"), 2, "window")]
    assert (str(first), str(again)) == ("COMMITTED", "DUPLICATE_IGNORED")
    assert first.value == again.value == Decimal("19.00")


def test_binds_and_what_was_recorded_first() -> None:
    """Arguments that are not bound may differ between tries; what was recorded first is what is sent."""
    gate = Interlock(journal=MemoryJournal())
    sent: list[tuple[str, str]] = []
    down = [NotSent("offline")]

    @gate.effect(key=lambda to: f"mail:{to}", binds=["to"])
    def mail(to: str, text: str) -> None:
        if down:
            raise down.pop()
        sent.append((to, text))

    assert str(mail("ada", "first words")) == "FAILED:not_sent"
    assert str(mail("ada", "other words")) == "COMMITTED"
    assert str(mail("ada", "again other")) == "DUPLICATE_IGNORED"
    assert sent == [("ada", "first words")]


@pytest.mark.parametrize("binds", [None, ["to"]])
def test_a_conflict_names_what_made_it_and_advises_what_there_is(binds: list[str] | None) -> None:
    """Of other arguments those are named that count; that fewer can count is advised where the effect does not say which do."""
    gate = Interlock(journal=MemoryJournal())

    @gate.effect(key=lambda to, text: "mail", binds=binds)
    def mail(to: str, text: str) -> None:
        return None

    mail("ada", "first words")
    other = mail("bob", "other words")
    assert str(other) == "REFUSED:conflicting_payload"
    assert list(other.changes) == (["to", "text"] if binds is None else ["to"])
    assert ("binds" in other.for_person) is (binds is None)
    assert "The first one was done." in other.for_person


def test_ignored_arguments_are_no_payload() -> None:
    """A client is no payload: it reaches function and callbacks from the call, and is not recorded."""
    gate = Interlock(journal=MemoryJournal())
    spare = object()

    @gate.effect(
        key=lambda order: f"r:{order}",
        ignore=["client"],
        context={"client": spare},
        allowed=lambda client: client is not None,
    )
    def refund(order: str, client: Any) -> bool:
        return client is spare

    mine = refund("1", client=object())
    assert mine.value is False
    assert mine.history.entries[0].data["payload"] == {"order": "1"}
    assert refund("2").value is True
    with pytest.raises(BadInput, match="client"):
        refund.proposal("3", client=object())


def test_callbacks_cannot_change_what_is_sent(world: World) -> None:
    """A callback that changes an argument changes its own copy."""
    gate = Interlock(journal=MemoryJournal())

    def greedy(order: dict[str, int]) -> bool:
        order["amount"] = 10**6
        return True

    @gate.effect(key=lambda order: f"r:{order['id']}", allowed=greedy)
    def refund(order: dict[str, int]) -> int:
        return order["amount"]

    assert refund({"id": 1, "amount": 20}).value == 20


class FailingJournal(MemoryJournal):
    """A journal whose disk fails at chosen writes."""

    def __init__(self) -> None:
        super().__init__()
        self.fails_at: set[int] = set()
        self.writes = 0

    def _commit(self, prepared: Any) -> bool:
        self.writes += 1
        if self.writes in self.fails_at:
            raise JournalUnavailable("disk full")
        return super()._commit(prepared)


def test_no_record_no_send() -> None:
    """When the record before the send cannot be written, nothing is sent, and the call can be made again."""
    journal = FailingJournal()
    gate = Interlock(journal=journal)
    sends: list[str] = []
    pay = gate.effect(key=lambda order: order, name="pay")(lambda order: sends.append(order))
    journal.fails_at = {1}
    with pytest.raises(JournalUnavailable):
        pay("1")
    assert sends == []
    assert str(pay("1")) == "COMMITTED"


def test_an_answer_that_could_not_be_recorded_is_not_lost() -> None:
    """It landed and the disk was full: the error says so, and the next call writes what this process knows; at tier 3 too."""
    journal = FailingJournal()
    gate = Interlock(journal=journal)
    sends: list[str] = []

    @gate.effect(key=lambda order: order)
    def pay(order: str) -> str:
        sends.append(order)
        return "paid"

    journal.fails_at = {2}
    with pytest.raises(JournalUnavailable):
        pay("1")
    again = pay("1")
    assert (str(again), again.value) == ("DUPLICATE_IGNORED", "paid")
    assert sends == ["1"]


def test_interrupts_pass_and_leave_the_effect_open(world: World) -> None:
    """Ctrl-C in the middle of a send passes on; the send is known to be over, so recovery need not wait for this process."""
    gate = world.gate()
    refund = world.refund(gate, 2)

    def interrupt() -> None:
        raise KeyboardInterrupt

    world.service.after = interrupt
    with pytest.raises(KeyboardInterrupt):
        refund("881", 2000)
    world.service.after = lambda: None
    other = world.gate()
    world.refund(other, 2)
    assert [str(outcome) for outcome in other.recover()] == ["COMMITTED_ON_QUERY"]


def test_an_effect_that_calls_itself(world: World) -> None:
    """A function that calls its own gated self for the same key is told that it is in flight; nothing hangs."""
    gate = Interlock(journal=MemoryJournal())
    inner: list[str] = []

    def pay(order: str) -> None:
        inner.append(str(gated(order)))
        inner.append(str(gate.recover()[0]))

    gated = gate.effect(key=lambda order: order)(pay)
    assert str(gated("1")) == "COMMITTED"
    assert inner == ["IN_FLIGHT:sender_alive", "IN_FLIGHT:sender_alive"]


def test_warnings_are_given_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A gate without recover(), a window that is not said, and a bare False premise are each told once."""
    world.service.facts = {"eligible": False}
    with caplog.at_level(logging.WARNING, logger="interlock"):
        refund = world.refund(world.gate(), 1, window=None)
        for order in ("1", "2", "3"):
            refund(order, 1)
    for text in ("recover() has not been called", "window= is not said", "expect={'eligible': True}"):
        assert caplog.text.count(text) == 1, text
    assert "ever sent twice" not in caplog.text


def test_what_a_person_is_told_is_true_without_a_crash_and_after_a_resend(world: World) -> None:
    """Lost answers in one live call: of what was sent twice nobody says that it was not, nor that a process died."""
    told: dict[str, str] = {}

    def lost() -> None:
        raise ConnectionResetError

    def lost_once() -> None:
        if len(world.service.sends) == 1:
            raise ConnectionResetError

    for name, tier, before, after in (
        ("resent, and found", 2, lost_once, lost),
        ("resent", 2, lost_once, lambda: None),
        ("sent under the same key", 1, lost_once, lambda: None),
    ):
        world.service.before, world.service.after = before, after
        world.service.sends.clear()
        outcome = world.refund(world.gate(), tier, name=name)("881", 2000)
        assert len(world.service.sends) == 2
        told[str(outcome)] = outcome.for_person
    assert list(told) == ["COMMITTED_ON_QUERY", "REAPPLIED_AFTER_QUERY", "COMMITTED_BY_RETRY"]
    assert "Nothing was sent again" not in told["COMMITTED_ON_QUERY"]
    assert all("A crash or a lost answer left it open" in text for text in told.values())


def test_every_code_has_sentences_that_say_whether_asking_again_helps(world: World) -> None:
    """Each status and reason has a sentence for a person and one for a model, and the model's says what to do next."""
    base = world.refund(world.gate(), 1)("881", 2000)
    codes = [(status, "") for status in Status if status not in (Status.REFUSED, Status.IN_FLIGHT)]
    refused = {r for r in Reason if r.startswith(("lease", "stale", "premise", "conflicting"))}
    codes += [(Status.REFUSED, reason) for reason in refused]
    codes += [(Status.IN_FLIGHT, reason) for reason in set(Reason) - refused]
    for status, reason in codes:
        outcome = type(base)(status, "refund", "refund:1", "e1", reason=reason)
        assert "." in outcome.for_person
        if not outcome.ok:
            assert any(word in outcome.for_model for word in ("again", "Do not try", "can be tried")), str(outcome)
            with pytest.raises(OutcomeError, match="refund:1"):
                outcome.raise_for_status()
        else:
            assert outcome.raise_for_status() is outcome


def test_conditions_of_more_kinds_reach_the_record(world: World) -> None:
    """The record names each rule in words."""
    world.service.facts = {"balance": 50, "state": "open"}
    outcome = world.refund(world.gate(), 1, expect={"balance": at_least(10), "state": equals("open")})("881", 2000)
    rules = {name: v["rule"] for name, v in outcome.history.entries[1].data["premises"].items()}
    assert rules == {"balance": "at least 10", "state": "equals 'open'"}


def test_a_receipt_that_was_edited_is_told_as_a_receipt(world: World) -> None:
    """What is wrong with a kept receipt is said without what to do about a journal: there may be none."""
    receipt = world.refund(world.gate(), 1)("881", 2000).receipt()
    edited = (receipt.bodies[0].replace("881", "882"), *receipt.bodies[1:])
    removed = receipt.bodies[1:]
    for bodies, hashes in ((edited, receipt.hashes), (removed, receipt.hashes[1:])):
        (problem,) = type(receipt)(receipt.effect_id, bodies, hashes).verify().problems
        assert "Nothing was sent" not in problem
        assert "journal" not in problem


def test_what_the_service_said_no_to_is_not_offered_again(world: World) -> None:
    """A model is told that the same call does not help; where nothing left this machine, that it can be tried again."""

    def say(error: Exception) -> None:
        raise error

    for error, can in ((Rejected("declined"), False), (NotSent("no route"), True)):
        world.service.before = lambda error=error: say(error)
        outcome = world.refund(world.gate(), 1, name=str(can))("881", 2000)
        assert (outcome.can_ask_again, "can be tried again" in outcome.for_model) == (can, can)
        assert ("Calling again in the same way will not help" in outcome.for_model) is not can


def test_what_a_callback_got_wrong_is_said_in_whole_sentences(world: World) -> None:
    """A mistake in `allowed=` is to be corrected, not to be asked for again; and no sentence ends twice."""

    def allowed() -> Any:
        return Approval(id="ap_1", at=datetime(2026, 1, 1))  # noqa: DTZ001 - that is the mistake

    with pytest.raises(AuthorityUnclear) as unclear:
        world.refund(world.gate(), 1, allowed=allowed)("881", 2000)
    assert str(unclear.value).endswith("give a datetime with a timezone. Nothing was sent; correct it.")
    with pytest.raises(NotSerializable, match=r"the call of 'nan' holds NaN"):
        world.gate().effect(key=lambda amount: "1", name="nan")(lambda amount: None)(float("nan"))


def test_a_receipt_verifies_and_any_edit_shows(world: World) -> None:
    """A receipt holds together by itself; a changed byte, a missing entry and a swap are each found."""
    receipt = world.refund(world.gate(), 1)("881", 2000).receipt()
    document = receipt.to_dict()
    again = type(receipt).from_dict(document)
    assert again.verify().ok
    assert (
        not type(receipt)(again.effect_id, again.bodies[:1] + again.bodies[2:], again.hashes[:1] + again.hashes[2:])
        .verify()
        .ok
    )
    assert not type(receipt)(again.effect_id, again.bodies[1:], again.hashes[1:]).verify().ok
    for place in range(0, len(again.bodies[0]), 7):
        body = again.bodies[0]
        edited = body[:place] + chr(ord(body[place]) ^ 1) + body[place + 1 :]
        assert not type(receipt)(again.effect_id, (edited, *again.bodies[1:]), again.hashes).verify().ok


def test_what_was_refused_as_absent_and_landed_later_is_not_sent_again(world: World) -> None:
    """Its request outlived its sender by longer than any should: a new decision looks again, records it, and sends nothing."""
    gate = world.gate()
    refund = world.refund(gate, 1)
    with pytest.raises(SimulatedCrash):
        gate.submit(refund.proposal("881", 2000), crash_before_effect=True)
    world.service.permitted = False
    gate = world.gate()
    refund = world.refund(gate, 1)
    assert [str(outcome) for outcome in gate.recover()] == ["REFUSED:lease_at_recovery"]
    effect_id = refund.proposal("881", 2000).effect_id
    world.service.ledger[effect_id] = {"order": "881", "amount": 2000}
    world.service.permitted = True
    world.clock.advance(7200)
    world.service.lookup = lambda key: 1 / 0
    unclear = gate.submit(refund.proposal("881", 2000, decision="again"))
    assert str(unclear).startswith("IN_FLIGHT")
    world.service.lookup = None
    again = gate.submit(refund.proposal("881", 2000, decision="again"))
    assert str(again) == "COMMITTED_ON_QUERY"
    assert world.service.sends == []
    assert str(gate.submit(refund.proposal("881", 2000, decision="again"))) == "DUPLICATE_IGNORED"
