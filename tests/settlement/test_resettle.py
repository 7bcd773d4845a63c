"""Reading one accepted effect again: what is written, what is not, and what everybody is told."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Any

import pytest

from interlock import BadInput, ConfigurationError, Interlock, Kind, Settlement, SettlementUnreadable
from interlock.effects import Draft
from interlock.errors import JournalError
from interlock.watch import ReadSettlement
from interlock.watch import resettle as steps_of
from tests.settlement.conftest import AT_RISK, PENDING, REVERSED, SETTLED, World


def kinds(gate: Interlock, effect_id: str) -> list[str]:
    """The kinds of entry after the send."""
    return [str(entry.kind) for entry in gate.journal.load(effect_id).entries][3:]


def test_accepted_until_known_otherwise(world: World) -> None:
    """An effect that declares settlement is accepted when it lands, and no text of it says that it went through."""
    gate = world.gate()
    outcome = world.refund(gate)("881")
    assert (str(outcome), outcome.ok, outcome.settlement) == ("COMMITTED", True, "accepted")
    assert outcome.for_model.startswith("Accepted")
    assert "not known yet" in outcome.for_model
    assert outcome.for_person.startswith("The service accepted it, once")
    for text in (outcome.for_model, outcome.for_person):
        assert "settled" not in text
        assert "Done" not in text
    replay = world.refund(world.gate())("881")
    assert (str(replay), replay.settlement) == ("DUPLICATE_IGNORED", "accepted")
    assert "accepted before" in replay.for_person


def test_an_effect_without_settlement_stays_as_it_was(world: World) -> None:
    """Without settlement= nothing more is written, nothing is watched, nothing can be found, and the texts are the old ones."""
    gate = world.gate()
    outcome = world.refund(gate, settlement=None, references=None)("881")
    assert outcome.settlement == ""
    assert outcome.for_model == "Done."
    assert outcome.receipt().settlement == ""
    assert set(gate.journal.load(outcome.effect_id).entries[-1].data) == {"via", "value"}
    assert gate.journal.watched() == []
    assert gate.find("re_881") == gate.find(outcome.effect_id) == []
    assert gate.watch() == []
    with pytest.raises(ConfigurationError, match="settlement="):
        gate.resettle(outcome.effect_id)


@pytest.mark.parametrize(
    ("fates", "written"),
    [
        ([None, PENDING], []),
        ([SETTLED, SETTLED], ["SETTLED"]),
        ([PENDING, SETTLED, PENDING, SETTLED], ["SETTLED"]),
        ([AT_RISK, AT_RISK, SETTLED], ["AT_RISK", "SETTLED"]),
        ([SETTLED, AT_RISK, SETTLED, AT_RISK, REVERSED], ["SETTLED", "AT_RISK", "SETTLED", "AT_RISK", "REVERSED"]),
        ([SETTLED, REVERSED, SETTLED, AT_RISK, REVERSED], ["SETTLED", "REVERSED"]),
        ([REVERSED, REVERSED], ["REVERSED"]),
        ([AT_RISK, Settlement("at_risk", None, "dispute_lost")], ["AT_RISK", "AT_RISK"]),
        ([AT_RISK, Settlement("at_risk", "other evidence", "dispute_open")], ["AT_RISK"]),
    ],
)
def test_only_news_is_written(world: World, fates: list[Settlement | None], written: list[str]) -> None:
    """An entry is written when the state or its reason changed; the same again, pending and nothing write nothing; reversed is the end."""
    gate = world.gate()
    outcome = world.refund(gate)("881")
    told: list[str] = []
    for fate in fates:
        world.bank.fates["881"] = fate
        gate.resettle(outcome.effect_id, on_change=lambda now: told.append(now.settlement))
    assert kinds(gate, outcome.effect_id) == ["COMMITTED", *written]
    assert told == [kind.lower() for kind in written]
    assert gate.journal.verify().problems == ()


def test_a_reversed_effect_tells_so_for_ever(world: World) -> None:
    """A replay of a reversed effect is a duplicate, says that it was reversed and why, and is not sent again; so does the receipt."""
    gate = world.gate()
    first = world.refund(gate)("881")
    world.bank.fates["881"] = REVERSED
    now = gate.resettle(first.effect_id)
    assert (now.settlement, now.detail) == ("reversed", "failed")
    replay = world.refund(world.gate())("881")
    assert (str(replay), replay.settlement, len(world.bank.paid)) == ("DUPLICATE_IGNORED", "reversed", 1)
    assert "reversed" in replay.for_model
    assert "reversed" in replay.for_person
    assert "failed" in replay.for_person
    assert (first.receipt().settlement, now.receipt().settlement) == ("accepted", "reversed")
    receipt = replay.receipt()
    assert receipt.verify().ok
    assert receipt.entries[-1]["data"] == {"reason": "failed", "evidence": REVERSED.evidence}


def test_settled_and_at_risk_are_told(world: World) -> None:
    """Once settled the texts say so; at risk they say that somebody must look."""
    gate = world.gate()
    effect_id = world.refund(gate)("881").effect_id
    world.bank.fates["881"] = SETTLED
    assert "settled" in gate.resettle(effect_id).for_model
    world.bank.fates["881"] = AT_RISK
    outcome = gate.resettle(effect_id)
    assert "at risk" in outcome.for_model
    assert "dispute_open" in outcome.for_person


def test_the_callback_takes_what_it_names(world: World) -> None:
    """settlement= gets any argument, the recorded value and the key that landed; references= likewise; async counts too."""
    gate = world.gate()
    seen: list[tuple[Any, ...]] = []

    async def settlement(order: str, value: dict[str, Any], idempotency_key: str) -> Settlement:
        seen.append((order, value, idempotency_key))
        await asyncio.sleep(0)
        return SETTLED

    refund = world.refund(
        gate, settlement=settlement, references=lambda order, value: [f"order:{order}", None, value["id"]]
    )
    outcome = refund("881")
    assert gate.resettle(outcome.effect_id).settlement == "settled"
    assert asyncio.run(world_again(gate, outcome.effect_id)) == "settled"
    assert seen == [("881", {"id": "re_881", "charge": "ch_881"}, outcome.effect_id)] * 2
    assert gate.find("order:881") == gate.find("re_881") == gate.find(outcome.effect_id) == [outcome.effect_id]
    assert gate.find("ch_881") == []


async def world_again(gate: Interlock, effect_id: str) -> str:
    """Read again on an event loop."""
    return (await gate.aresettle(effect_id)).settlement


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (RuntimeError("no answer"), "no answer"),
        ("settled", "Answer a Settlement"),
        (True, "Answer a Settlement"),
    ],
)
def test_what_cannot_be_told_is_an_error_and_writes_nothing(world: World, given: Any, match: str) -> None:
    """A re-read that raises, or answers something else, is never taken for "nothing changed"."""
    gate = world.gate()
    outcome = world.refund(gate)("881")
    world.bank.fates["881"] = given
    with pytest.raises(SettlementUnreadable, match=match):
        gate.resettle(outcome.effect_id)
    with pytest.raises(SettlementUnreadable, match=match):
        asyncio.run(gate.aresettle(outcome.effect_id))
    assert kinds(gate, outcome.effect_id) == ["COMMITTED"]


def test_what_is_not_there_or_has_not_landed(world: World) -> None:
    """An unknown effect is misuse; one that was refused is left as it is, and the service is not asked."""
    gate = world.gate()
    refund = world.refund(gate, allowed=lambda: False)
    with pytest.raises(BadInput, match="not on this journal"):
        gate.resettle("nobody")
    outcome = refund("881")
    assert str(gate.resettle(outcome.effect_id)) == "REFUSED:lease"
    assert world.bank.reads == []
    with pytest.raises(ConfigurationError, match="no function of that name"):
        world.gate().resettle(outcome.effect_id)


def test_references_that_fail_do_not_undo_what_landed(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A fault in references= is logged; the effect is committed and watched all the same."""
    gate = world.gate()
    for order, references in (
        ("1", lambda value: value["no such"]),
        ("2", lambda value: value["id"]),
        ("3", lambda: [7]),
    ):
        refund = world.refund(world.gate(), references=references)
        with caplog.at_level(logging.ERROR, "interlock"):
            assert refund(order).settlement == "accepted"
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 3
    assert len(gate.journal.watched()) == 3


def test_what_cannot_be_declared() -> None:
    """Options that go with settlement= need it, and a result name that is also an argument is refused at once."""
    gate = World().gate()
    for options, match in (
        ({"references": lambda value: []}, "references= is for watching"),
        ({"watch_for": 10}, "watch_for= is for watching"),
        ({"settlement": lambda value: None, "watch_for": 0}, "watch_for="),
        ({"settlement": lambda nothing: None}, "asks for 'nothing'"),
        ({"settlement": 7}, "cannot be called"),
    ):
        with pytest.raises(ConfigurationError, match=match):
            gate.effect(key=lambda order: order, **options)(lambda_of("order"))
    with pytest.raises(ConfigurationError, match="also an argument"):
        gate.effect(key=lambda value: value, settlement=lambda value: None)(lambda_of("value"))

    async def references(value: Any) -> list[str]:
        return []

    with pytest.raises(ConfigurationError, match="must not be async"):
        gate.effect(key=lambda order: order, settlement=lambda: None, references=references)(lambda_of("order"))


def lambda_of(name: str) -> Any:
    """A function with one argument of that name."""
    scope: dict[str, Any] = {}
    exec(f"def pay({name}): return {name}", scope)
    return scope["pay"]


@pytest.mark.parametrize("state", ["", "SETTLED", "done", None, 3, ["settled"]])
def test_a_settlement_is_one_of_four(state: Any) -> None:
    """Any other state is refused at the door, in words."""
    with pytest.raises(BadInput, match="pending, settled, at_risk, reversed"):
        Settlement(state)
    with pytest.raises(BadInput, match="reason"):
        Settlement("settled", None, None)  # type: ignore[arg-type]


def test_every_way_of_landing_is_watched(world: World) -> None:
    """Sent, resent, looked up or answered late: the effect is watched and found in each case."""
    orders = {}
    for order, crash in (("retry", "after_dispatch"), ("query", "after_send")):
        gate = world.gate()
        refund = world.refund(gate)
        with pytest.raises(BaseException, match="simulated"):
            gate.submit(refund.proposal(order), crash_at=crash)
    gate = world.gate()
    world.refund(gate, dedupes=False, window=None)
    orders = {outcome.key: str(outcome) for outcome in gate.recover()}
    assert set(orders.values()) <= {"COMMITTED_ON_QUERY", "REAPPLIED_AFTER_QUERY", "COMMITTED_BY_RETRY"}
    assert len(gate.journal.watched()) == 2
    assert [len(gate.find(f"re_{order}")) for order in ("retry", "query")] == [1, 1]
    assert {outcome.settlement for outcome in gate.settlements()} == {"accepted"}


def test_a_later_attempt_is_found_by_its_own_key(world: World) -> None:
    """After FAILED the service gets another key; that key leads to the effect, and the re-read is given it."""
    from interlock import Rejected

    gate = world.gate()
    keys: list[str] = []
    fail = [True]

    @gate.effect(
        key=lambda order: f"refund:{order}",
        settlement=lambda idempotency_key: keys.append(idempotency_key),
        lookup=lambda idempotency_key: None,
    )
    def pay(order: str, idempotency_key: str) -> str:
        if fail.pop():
            fail.append(False)
            raise Rejected("no")
        fail.append(False)
        return idempotency_key

    assert str(pay("881")) == "FAILED:rejected"
    outcome = pay("881")
    assert outcome.ok
    assert outcome.value != outcome.effect_id
    gate.resettle(outcome.effect_id)
    assert keys == [outcome.value]
    assert gate.find(outcome.value) == [outcome.effect_id]


def test_a_stop_at_any_step_loses_nothing(world: World) -> None:
    """A watcher that dies at any step of a re-read leaves nothing or all of it, and the next reading completes it, once."""
    gate = world.gate()
    effect_id = world.refund(gate)("881").effect_id
    world.bank.fates["881"] = SETTLED
    for steps in range(4):
        run = steps_of(effect_id, now=world.clock.now)
        answer: Any = None
        for _ in range(steps):
            step = run.send(answer)
            if isinstance(step, ReadSettlement):
                answer = SETTLED
            elif hasattr(step, "drafts"):
                answer = gate.journal.append(step.history, step.drafts)
            else:
                answer = gate.journal.load(effect_id)
        run.close()
    assert gate.resettle(effect_id).settlement == "settled"
    assert kinds(gate, effect_id) == ["COMMITTED", "SETTLED"]


def test_the_loser_of_a_race_reads_again(world: World) -> None:
    """Between the reading and the write somebody else recorded something newer: the old reading is not written over it."""
    gate, other = world.gate(), world.gate()
    effect_id = world.refund(gate)("881").effect_id
    world.refund(other)
    world.bank.fates["881"] = SETTLED

    def overtake(order: str) -> None:
        world.bank.before_answer = lambda order: None
        world.bank.fates["881"] = REVERSED
        assert other.resettle(effect_id).settlement == "reversed"

    world.bank.before_answer = overtake
    assert gate.resettle(effect_id).settlement == "reversed"
    assert kinds(gate, effect_id) == ["COMMITTED", "REVERSED"]


def test_nothing_follows_a_reversal(world: World) -> None:
    """The journal itself refuses an entry after REVERSED."""
    gate = world.gate()
    effect_id = world.refund(gate)("881").effect_id
    world.bank.fates["881"] = REVERSED
    gate.resettle(effect_id)
    for kind in Kind:
        with pytest.raises(JournalError):
            gate.journal.append(gate.journal.load(effect_id), [Draft(kind, "now", {})])


def test_any_order_of_what_the_service_says_is_taken(world: World) -> None:
    """Each sequence of three readings ends with the last that counts, and the journal verifies."""
    gate = world.gate()
    refund = world.refund(gate)
    for number, fates in enumerate(itertools.product([SETTLED, AT_RISK, REVERSED, PENDING], repeat=3)):
        order = f"o{number}"
        effect_id = refund(order).effect_id
        for fate in fates:
            world.bank.fates[order] = fate
            outcome = gate.resettle(effect_id)
        states = [fate.state for fate in fates if fate is not PENDING]
        expected = "reversed" if "reversed" in states else states[-1] if states else "accepted"
        assert outcome.settlement == expected
    assert gate.journal.verify().problems == ()


def test_a_late_answer_is_watched_too(world: World) -> None:
    """A send that its caller stopped waiting for is watched, and found, from its late answer on."""
    gate = world.gate()

    async def run() -> Any:
        go_on = asyncio.Event()

        @gate.effect(
            key=lambda order: f"late:{order}",
            timeout=0.02,
            settlement=lambda: SETTLED,
            references=lambda value: [value],
        )
        async def late(order: str) -> str:
            await go_on.wait()
            return f"re_{order}"

        outcome = await late("881")
        assert str(outcome).startswith("IN_FLIGHT")
        assert gate.find("re_881") == []
        go_on.set()
        for _ in range(500):
            await asyncio.sleep(0.01)
            if gate.find("re_881"):
                break
        return await gate.aresettle(gate.find("re_881")[0])

    outcome = asyncio.run(asyncio.wait_for(run(), 10))
    assert (str(outcome), outcome.settlement) == ("COMMITTED", "settled")
    assert len(gate.journal.watched()) == 1
