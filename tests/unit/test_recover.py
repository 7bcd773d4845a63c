"""A second process: what it finds open, and what it makes of it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from interlock import Interlock, NotSent, Rejected
from interlock.errors import BadInput, JournalError
from interlock.testing import CRASH_POINTS, SimulatedCrash
from tests.unit.conftest import World

TIERS = pytest.mark.parametrize("tier", [1, 2, 3])


def crash(world: World, tier: int, point: str, **options: Any) -> None:
    """One process begins the refund and dies at a point."""
    gate = world.gate()
    refund = world.refund(gate, tier, **options)
    with pytest.raises(SimulatedCrash):
        gate.submit(refund.proposal("881", 2000), crash_at=point)


def recover(world: World, tier: int, **options: Any) -> str:
    """The next process recovers; what it reports, in one text."""
    gate = world.gate()
    world.refund(gate, tier, **options)
    return " ".join(str(outcome) for outcome in gate.recover())


@TIERS
@pytest.mark.parametrize("point", CRASH_POINTS)
def test_every_crash_point(world: World, tier: int, point: str) -> None:
    """Killed anywhere, recovered, and asked again: at most one landing, and where it can be told exactly one."""
    gate = world.gate()
    refund = world.refund(gate, tier)
    proposal = refund.proposal("881", 2000)
    try:
        gate.submit(proposal, crash_at=point)
    except SimulatedCrash:
        with pytest.raises(JournalError, match="new one"):
            gate.submit(proposal)
        gate = world.gate()
        refund = world.refund(gate, tier)
        gate.recover()
        again = gate.submit(proposal)
        assert again.ok or (tier == 3 and str(again) == "AMBIGUOUS")
    assert len(world.service.ledger) <= 1
    if tier < 3:
        assert len(world.service.ledger) == 1
    assert gate.journal.verify().ok


@TIERS
@pytest.mark.parametrize(("first", "second"), list(itertools.product(["after_dispatch", "after_send"], CRASH_POINTS)))
def test_a_recovery_that_dies_too(world: World, tier: int, first: str, second: str) -> None:
    """The recovering process is killed anywhere as well; the third one settles it, and it landed once at most."""
    crash(world, tier, first)
    gate = world.gate()
    proposal = world.refund(gate, tier).proposal("881", 2000)
    try:
        gate.submit(proposal, crash_at=second)
    except SimulatedCrash:
        gate = world.gate()
        world.refund(gate, tier)
        gate.recover()
    settled = gate.submit(proposal)
    assert settled.ok or (tier == 3 and str(settled) == "AMBIGUOUS")
    assert len(world.service.ledger) == 1 if tier < 3 else len(world.service.ledger) <= 1


@pytest.mark.parametrize(
    ("tier", "before", "after"),
    [
        (1, "COMMITTED_BY_RETRY", "COMMITTED_BY_RETRY"),
        (2, "REAPPLIED_AFTER_QUERY", "COMMITTED_ON_QUERY"),
        (3, "AMBIGUOUS", "AMBIGUOUS"),
    ],
)
def test_the_table_while_checks_hold(world: World, tier: int, before: str, after: str) -> None:
    """Design 4.3, left column: killed before the send, and after it."""
    crash(world, tier, "after_dispatch")
    assert recover(world, tier) == before
    world.service.ledger.clear()
    fresh = World()
    crash(fresh, tier, "after_send")
    assert recover(fresh, tier) == after


@pytest.mark.parametrize("lost", ["permission", "fact"])
@pytest.mark.parametrize("landed", [False, True])
@pytest.mark.parametrize(("tier", "looks_up"), [(1, True), (1, False), (2, True), (3, False)])
def test_the_table_while_checks_fail(world: World, tier: int, looks_up: bool, landed: bool, lost: str) -> None:
    """Design 4.3, right column: nothing is sent; found is said to have landed, absent is refused, and neither is AMBIGUOUS."""
    options: dict[str, Any] = {} if looks_up or tier == 3 else {"lookup": None}
    crash(world, tier, "after_send" if landed else "after_dispatch", **options)
    sends = len(world.service.sends)
    if lost == "permission":
        world.service.permitted = False
    else:
        world.service.facts["others"] = 2000
    reason = "lease_at_recovery" if lost == "permission" else "stale_premise_at_recovery"
    wanted = "AMBIGUOUS" if not looks_up else "COMMITTED_ON_QUERY" if landed else f"REFUSED:{reason}"
    assert recover(world, tier, **options) == wanted
    assert len(world.service.sends) == sends


def test_the_failed_recheck_is_recorded_though_it_landed(world: World) -> None:
    """It landed and the permission is gone: the record holds both."""
    crash(world, 2, "after_send")
    world.service.permitted = False
    gate = world.gate()
    world.refund(gate, 2)
    (outcome,) = gate.recover()
    assert outcome.history.entries[-1].data["recheck"]["allowed"] is False


@pytest.mark.parametrize(("elapsed_s", "code"), [(60, "COMMITTED_BY_RETRY"), (3600, "COMMITTED_ON_QUERY")])
def test_the_window(world: World, elapsed_s: int, code: str) -> None:
    """Inside the window it is sent again, past it the service is asked."""
    crash(world, 1, "after_send")
    world.clock.advance(elapsed_s)
    assert recover(world, 1) == code


def test_past_the_window_without_a_lookup_nobody_knows(world: World) -> None:
    """A key that may be forgotten and no look-up: AMBIGUOUS, and nothing is sent."""
    crash(world, 1, "after_send", lookup=None)
    world.clock.advance(3600)
    assert recover(world, 1, lookup=None) == "AMBIGUOUS"
    assert len(world.service.sends) == 1


def test_a_clock_that_went_back_after_a_reboot_opens_no_window(world: World) -> None:
    """25 hours pass, the machine boots and its clock is 25 hours behind: the window is not believed to be open."""
    crash(world, 1, "after_send", lookup=None)
    world.clock.boot = "another boot"
    world.clock.jump(-25 * 3600)
    assert recover(world, 1, lookup=None) == "AMBIGUOUS"
    assert len(world.service.sends) == 1


def test_absent_is_not_trusted_before_the_lag(world: World) -> None:
    """A look-up that lags says nothing before its lag has passed; then it does."""
    crash(world, 2, "after_dispatch", lookup_lag=60)
    gate = world.gate()
    world.refund(gate, 2, lookup_lag=60)
    (outcome,) = gate.recover()
    assert str(outcome) == "IN_FLIGHT:absence_not_yet_trusted"
    assert outcome.retry_after is not None
    assert 0 < outcome.retry_after <= 60
    world.clock.advance(60)
    assert [str(o) for o in gate.recover()] == ["REAPPLIED_AFTER_QUERY"]


def test_a_dead_senders_last_request_is_waited_out(world: World) -> None:
    """A killed sender's request lands while recovery waits `settle_after`: found, not sent again."""
    gate = world.gate()
    refund = world.refund(gate, 2)
    key = refund.proposal("881", 2000).effect_id
    real = world.service.lookup
    answers = [None, {"order": "881", "amount": 2000}]
    crash(world, 2, "after_dispatch")
    world.journals[-1]._fate = None
    world.journals[-1].die()
    world.service.lookup = lambda asked: answers.pop(0) if asked == key else None
    started = world.clock.uptime().seconds
    assert recover(world, 2) == "COMMITTED_ON_QUERY"
    assert world.clock.uptime().seconds - started == pytest.approx(
        0.05, abs=0.0015
    )  # what rounding leaves is a pause, too
    assert world.service.sends == []
    world.service.lookup = real


def test_a_short_settle_after_is_waited_out_before_the_service_is_asked(world: World) -> None:
    """Where an absence can be believed soon, the service is asked once, then: not before it can be believed, and again after."""
    crash(world, 2, "after_dispatch", settle_after=0.01)
    world.journals[-1]._fate = None
    world.journals[-1].die()
    asked: list[float] = []
    world.service.lookup = lambda _: asked.append(world.clock.uptime().seconds)
    started = world.clock.uptime().seconds
    assert recover(world, 2, settle_after=0.01) == "REAPPLIED_AFTER_QUERY"
    assert [one - started for one in asked] == [pytest.approx(0.01, abs=0.0015)]
    assert len(world.service.sends) == 1


@TIERS
def test_a_live_sender_is_never_taken_over(world: World, tier: int) -> None:
    """While its sender lives, an effect is IN_FLIGHT with owner and since, for recovery as for another call."""
    gate, other = world.gate(), world.gate()
    refund, elsewhere = world.refund(gate, tier), world.refund(other, tier)
    seen: list[Any] = []
    world.service.before = lambda: seen.extend([*other.recover(), elsewhere("881", 2000)])
    assert str(refund("881", 2000)) == "COMMITTED"
    assert [str(outcome) for outcome in seen] == ["IN_FLIGHT:sender_alive"] * 2
    assert all(outcome.owner == gate.journal.worker and outcome.since and outcome.retry_after for outcome in seen)
    assert len(world.service.sends) == 1


def test_a_sender_out_of_sight_is_waited_for(world: World) -> None:
    """A sender of which nothing can be proven may send until its deadline: no AMBIGUOUS and no refusal before that."""
    crash(world, 3, "after_dispatch", timeout=30)
    world.journals[-1]._fate = None
    world.journals[-1].cut_off()
    assert recover(world, 3, timeout=30) == "IN_FLIGHT:sender_alive"
    world.clock.advance(31)
    assert recover(world, 3, timeout=30) == "AMBIGUOUS"


def test_a_renamed_function_orphans_nothing_silently(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """An open effect whose function is not declared is reported with its key and what to do, and stays open."""
    crash(world, 1, "after_send")
    gate = world.gate()
    world.refund(gate, 1, name="refund_v2")
    (outcome,) = gate.recover()
    assert (str(outcome), outcome.effect, outcome.key) == ("IN_FLIGHT:no_function", "refund", "refund:881")
    assert "name='refund'" in caplog.text
    for said in (caplog.text, outcome.for_person):
        assert "is another effect, and may" in said
    assert recover(world, 1) == "COMMITTED_BY_RETRY"


def test_one_failure_never_stops_the_others(world: World) -> None:
    """One effect's checks cannot be read; the other one is settled all the same."""
    for order in ("1", "2"):
        gate = world.gate()
        refund = world.refund(gate, 2)
        with pytest.raises(SimulatedCrash):
            gate.submit(refund.proposal(order, 2000), crash_at="after_dispatch")

    def facts(order: str) -> dict[str, int]:
        return {"others": 1 // 0} if order == "1" else {"others": 0}

    assert recover(world, 2, premises=facts) == "IN_FLIGHT:check_unreadable REAPPLIED_AFTER_QUERY"
    assert recover(world, 2) == "REAPPLIED_AFTER_QUERY"


def test_a_proposal_is_plain_data_that_any_gate_of_the_journal_takes(world: World) -> None:
    """A proposal decided in one process is carried out by another; one of an unknown effect, or edited, is refused."""
    proposal = world.refund(world.gate(), 1).proposal("881", 2000)
    gate = world.gate()
    with pytest.raises(BadInput, match="no function is declared"):
        gate.submit(proposal)
    world.refund(gate, 1)
    with pytest.raises(BadInput, match="effect id"):
        gate.submit(proposal._replace(key="refund:882"))
    assert str(gate.submit(proposal)) == "COMMITTED"


def test_a_key_in_use_is_waited_for_a_little(world: World) -> None:
    """The service still works on the first request: a short pause, then its answer; for ever: IN_FLIGHT."""

    class InUse(Exception):
        pass

    crash(world, 1, "after_send", in_use_on=InUse)
    busy = [1, 1, 1]

    def in_use() -> None:
        if busy:
            busy.pop()
            raise InUse

    world.service.before = in_use
    assert recover(world, 1, in_use_on=InUse) == "COMMITTED_BY_RETRY"
    fresh = World()
    crash(fresh, 1, "after_send", in_use_on=InUse)

    def always() -> None:
        raise InUse

    fresh.service.before = always
    assert recover(fresh, 1, in_use_on=InUse) == "IN_FLIGHT:key_in_use"


def test_recovery_costs_what_is_open(world: World) -> None:
    """Finished effects are not even read by recover()."""
    gate = world.gate()
    refund = world.refund(gate, 1)
    for order in range(50):
        refund(str(order), 1)
    reads: list[str] = []
    other: Interlock = world.gate()
    load = other.journal._read
    other.journal._read = lambda effect_id: reads.append(effect_id) or load(effect_id)  # type: ignore[method-assign,func-returns-value]
    assert len(other.recover()) == 0
    assert reads == []


def test_an_edited_proposal_is_refused(world: World) -> None:
    """A proposal whose arguments were changed after it was approved is not sent under its old digest."""
    gate = world.gate()
    proposal = world.refund(gate, 1).proposal("881", 2000)
    proposal.payload["amount"] = 9000  # type: ignore[index]
    with pytest.raises(BadInput, match="edited since"):
        gate.submit(proposal)
    assert world.service.sends == []


def test_what_was_admitted_cannot_be_changed_any_more(world: World) -> None:
    """Changing the proposal while it is being carried out changes nothing of what is sent."""
    gate = world.gate()
    refund = world.refund(gate, 2)
    proposal = refund.proposal("881", 2000)
    world.service.before = lambda: proposal.payload.update(amount=9000)  # type: ignore[attr-defined]
    lost = [TimeoutError()]

    def lose() -> None:
        proposal.payload.update(amount=9000)  # type: ignore[attr-defined]
        if lost:
            raise lost.pop()

    world.service.before = lose
    assert str(gate.submit(proposal)) == "REAPPLIED_AFTER_QUERY"
    assert world.service.ledger[next(iter(world.service.ledger))]["amount"] == 2000


def test_a_rejected_resend_without_a_lookup_is_no_failure(world: World) -> None:
    """It landed, its answer was lost, and every resend is rejected before the service looks at the key: never FAILED."""
    crash(world, 1, "after_send", lookup=None, rejected_on=PermissionError)

    def reject() -> None:
        raise PermissionError("key rotated")

    world.service.before = reject
    assert recover(world, 1, lookup=None, rejected_on=PermissionError) == "IN_FLIGHT:unanswered"
    world.service.before = lambda: None
    assert recover(world, 1, lookup=None, rejected_on=PermissionError) == "COMMITTED_BY_RETRY"
    assert len(world.service.ledger) == 1


def test_a_key_in_use_for_hours_ends_in_an_answer(world: World) -> None:
    """Waiting long for a key in use asks many times and still ends in IN_FLIGHT, not in a deep stack."""

    class InUse(Exception):
        pass

    def always() -> None:
        raise InUse

    world.service.before = always
    assert str(world.refund(world.gate(), 1, in_use_on=InUse, wait=2600)("881", 2000)) == "IN_FLIGHT:key_in_use"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("base_s", [0.0, 0.1, 1.7, 33.3, 1e5 / 3, 1e6 / 7])
def test_a_pause_ends_on_any_clock(base_s: float) -> None:
    """What rounding leaves of a pause is not waited for over and over: on a clock that stands still it would never pass."""
    for step in range(10):
        world = World()
        world.clock.advance(base_s + step * 0.013)
        crash(world, 2, "after_dispatch")
        world.journals[-1]._fate = None
        world.journals[-1].die()
        assert recover(world, 2) == "REAPPLIED_AFTER_QUERY"


@pytest.mark.parametrize("answer", [Rejected("no"), NotSent("offline"), TimeoutError()])
@pytest.mark.parametrize("tier", [1, 2])
def test_what_a_resend_was_told_says_nothing_of_one_after_it(world: World, tier: int, answer: Exception) -> None:
    """Between a recovery's own resend and its next look another process sends and dies: told as open, and sent no further by this one."""
    crash(world, tier, "after_dispatch")
    gate, other = world.gate(), world.gate()
    journal, others = world.journals[-2:]
    world.refund(gate, tier)
    world.refund(other, tier)
    end_send = journal.end_send

    def unheard() -> None:
        raise answer

    def dies() -> None:
        raise KeyboardInterrupt

    def over(*place: Any, **how: Any) -> None:
        end_send(*place, **how)
        journal.end_send = end_send  # type: ignore[method-assign]
        world.service.before = dies
        with pytest.raises(KeyboardInterrupt):
            other.recover()
        others.die()
        world.service.before = lambda: None

    journal.end_send = over  # type: ignore[method-assign]
    world.service.before = unheard
    assert [str(outcome) for outcome in gate.recover()] == ["IN_FLIGHT:race_lost"]
    assert len(world.service.sends) == 2
    assert recover(world, tier) == {1: "COMMITTED_BY_RETRY", 2: "REAPPLIED_AFTER_QUERY"}[tier]
    assert len(world.service.ledger) == 1
