"""The bounded poller: what it reads and when, and that nothing of it is lost, doubled or in the way of something else."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from interlock import ConfigurationError, Interlock, Outcome, Settlement
from interlock.errors import JournalError
from interlock.settlement import LONGEST_PAUSE_S, pause_s
from interlock.testing import SettableClock, SimulatedCrash
from tests.settlement.conftest import AT_RISK, PENDING, REVERSED, SETTLED, World

DAY_S = 86_400.0


def kinds(gate: Interlock, effect_id: str) -> list[str]:
    """The kinds of entry after the send."""
    return [str(entry.kind) for entry in gate.journal.load(effect_id).entries][3:]


def test_one_pass_reads_everything_once(world: World) -> None:
    """Without for_s= everything that is watched is read once, what changed is returned and told, and the rest stays as it was."""
    gate = world.gate()
    refund = world.refund(gate)
    for order in ("1", "2", "3", "4"):
        refund(order)
    world.bank.fates |= {"1": SETTLED, "2": REVERSED, "3": PENDING}
    told: list[Outcome] = []
    changes = gate.watch(on_change=told.append)
    assert {outcome.key: outcome.settlement for outcome in changes} == {"refund:1": "settled", "refund:2": "reversed"}
    assert told == changes
    assert sorted(world.bank.reads) == ["1", "2", "3", "4"]
    assert {outcome.key: outcome.settlement for outcome in gate.settlements()} == {
        "refund:1": "settled",
        "refund:2": "reversed",
        "refund:3": "accepted",
        "refund:4": "accepted",
    }


def test_what_happens_while_it_watches_is_found(world: World) -> None:
    """A refund that settles after two minutes and a chargeback 300 s later are both on the record at the end of one watch."""
    gate = world.gate()
    effect_id = world.refund(gate)("881").effect_id
    start = world.clock.now()

    def fate(order: str) -> Any:
        age = (world.clock.now() - start).total_seconds()
        return PENDING if age < 120 else SETTLED if age < 420 else AT_RISK

    world.bank.fate = fate  # type: ignore[method-assign]
    told: list[str] = []
    gate.watch(every_s=30, for_s=3600, on_change=lambda outcome: told.append(outcome.settlement))
    assert told == ["settled", "at_risk"]
    assert kinds(gate, effect_id) == ["COMMITTED", "SETTLED", "AT_RISK"]
    assert (world.clock.now() - start).total_seconds() == pytest.approx(3600)


def test_what_lands_while_it_watches_is_found(world: World) -> None:
    """An effect that is accepted after the watch began is read within every_s."""
    gate = world.gate()
    refund = world.refund(gate)
    refund("1")
    world.bank.fates |= {"1": SETTLED, "2": SETTLED}
    told: list[str] = []

    def on_change(outcome: Outcome) -> None:
        told.append(outcome.key)
        if outcome.key == "refund:1":
            refund("2")

    gate.watch(every_s=30, for_s=31, on_change=on_change)
    assert told == ["refund:1", "refund:2"]


def test_it_backs_off_and_ends(world: World) -> None:
    """Over 120 days an effect is read some hundreds of times, at least daily, not once after its horizon, and never more after reversal."""
    gate = world.gate()
    refund = world.refund(gate)
    refund("quiet")
    refund("gone")
    world.bank.fates |= {"quiet": SETTLED, "gone": REVERSED}
    gate.watch(every_s=60, for_s=130 * DAY_S)
    quiet = world.bank.reads.count("quiet")
    assert 110 <= quiet <= 300, quiet
    assert world.bank.reads.count("gone") == 1
    assert gate.settlements() == []
    assert gate.journal.watched() != []


def test_the_pause_grows_and_is_bounded() -> None:
    """Never shorter than every_s, never longer than a day, longer once settled, monotonic in how long nothing has happened."""
    for state in ("accepted", "at_risk", "settled"):
        pauses = [
            pause_s(state, quiet_s=quiet, every_s=30) for quiet in (0, 60, 600, 3600, DAY_S, 10 * DAY_S, 100 * DAY_S)
        ]
        assert pauses == sorted(pauses)
        assert pauses[0] >= 30
        assert pauses[-1] == LONGEST_PAUSE_S
    assert pause_s("settled", quiet_s=0, every_s=30) > pause_s("accepted", quiet_s=0, every_s=30)
    assert pause_s("accepted", quiet_s=0, every_s=2 * DAY_S) == 2 * DAY_S


def test_the_horizon_is_the_effects_own(world: World) -> None:
    """watch_for= bounds it from acceptance on; afterwards it is neither read nor listed, and the record stays."""
    gate = world.gate()
    outcome = world.refund(gate, watch_for=timedelta(hours=1))("881")
    world.bank.fates["881"] = SETTLED
    world.clock.advance(3599)
    assert len(gate.watch()) == 1
    world.clock.advance(2)
    world.bank.fates["881"] = REVERSED
    assert world.gate().watch() == gate.watch() == gate.settlements() == []
    assert kinds(gate, outcome.effect_id) == ["COMMITTED", "SETTLED"]
    # An event may still come, and counts.
    assert gate.resettle(gate.find("re_881")[0]).settlement == "reversed"


@pytest.mark.parametrize("is_async", [False, True])
def test_one_failure_never_stops_the_others(world: World, is_async: bool, caplog: pytest.LogCaptureFixture) -> None:
    """An effect that cannot be read, one whose function is gone and a hook that raises are logged; the others are read and recorded."""
    other = world.gate()
    world.refund(other, name="gone")("0")
    gate = world.gate()
    refund = world.refund(gate)
    for order in ("1", "2", "3"):
        refund(order)
    world.bank.fates |= {"1": RuntimeError("down"), "2": SETTLED, "3": SETTLED}

    def on_change(outcome: Outcome) -> None:
        raise ValueError(outcome.key)

    with caplog.at_level(logging.ERROR, "interlock"):
        changes = asyncio.run(gate.awatch(on_change=on_change)) if is_async else gate.watch(on_change=on_change)
    assert {outcome.key for outcome in changes} == {"refund:2", "refund:3"}
    text = caplog.text
    for said in ("down", "no function of that name", "on_change= raised ValueError", "gate.settlements()"):
        assert said in text
    assert sorted(outcome.settlement for outcome in gate.settlements()) == [
        "accepted",
        "accepted",
        "settled",
        "settled",
    ]


def test_a_failing_read_is_tried_again_with_back_off(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A service that is down is asked less and less often, and what it says once it is back is recorded."""
    gate = world.gate()
    world.refund(gate)("881")
    world.bank.fates["881"] = RuntimeError("down")
    with caplog.at_level(logging.CRITICAL, "interlock"):
        gate.watch(every_s=10, for_s=1000)
        assert 4 <= len(world.bank.reads) <= 10
        world.bank.fates["881"] = SETTLED
        assert len(gate.watch(every_s=10, for_s=1000)) == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_two_watchers_write_each_change_once(tmp_path: Path, is_async: bool) -> None:
    """Watchers of several processes on one directory, at the same time: every change is recorded and told once, and all are found."""
    orders = [f"o{number}" for number in range(12)]
    together = threading.Barrier(4)

    def gate_of(told: list[str]) -> Interlock:
        gate = Interlock(tmp_path)

        def settlement(order: str) -> Settlement:
            return SETTLED if order < "o5" else REVERSED

        @gate.effect(key=lambda order: order, settlement=settlement, lookup=lambda: None)
        def pay(order: str) -> str:
            return order

        gate.recover()
        return gate

    told: list[list[str]] = [[] for _ in range(4)]
    gates = [gate_of(mine) for mine in told]
    for order in orders:
        assert gates[0].effects["pay"](order).ok

    def work(number: int) -> None:
        together.wait(10)
        hook = lambda outcome: told[number].append(outcome.key)  # noqa: E731 - one line for each of four
        if is_async:
            asyncio.run(gates[number].awatch(on_change=hook))
        else:
            gates[number].watch(on_change=hook)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(key for mine in told for key in mine) == sorted(orders)
    for outcome in gates[0].settlements():
        assert len(kinds(gates[0], outcome.effect_id)) == 2
    assert gates[0].journal.verify().problems == ()
    for gate in gates:
        gate.close()


def test_a_death_between_entry_and_hook_is_seen_again(world: World) -> None:
    """If the process dies after the entry and before anybody was told, the change stands, and settlements() of the next shows it."""
    gate = world.gate()
    world.refund(gate)("881")
    world.bank.fates["881"] = REVERSED

    def die(outcome: Outcome) -> None:
        raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        gate.watch(on_change=die)
    after = world.gate()
    world.refund(after)
    assert after.watch() == []
    assert [outcome.settlement for outcome in after.settlements()] == ["reversed"]


def test_recovery_and_watch_do_not_disturb_one_another(world: World) -> None:
    """A crash at each point of a send, then a watch, then recovery, then a watch: one effect, settled once, whatever the point."""
    for number, point in enumerate(("after_dispatch", "before_send", "after_send", "before_append")):
        order = f"o{number}"
        gate = world.gate()
        refund = world.refund(gate)
        with pytest.raises(SimulatedCrash):
            gate.submit(refund.proposal(order), crash_at=point)
        world.bank.fates[order] = SETTLED
        after = world.gate()
        refund = world.refund(after)
        effect_id = refund.proposal(order).effect_id
        assert after.watch() == []
        assert str(after.resettle(effect_id)) == "IN_FLIGHT:unanswered"
        assert [outcome.settlement for outcome in after.recover()] == ["accepted"]
        assert [outcome.settlement for outcome in after.watch()] == ["settled"]
        assert list(after.recover()) == []
        assert kinds(after, effect_id)[-2:] == ["COMMITTED", "SETTLED"]
        assert list(world.bank.paid).count(effect_id) == 1
    assert world.journal.verify().problems == ()


def test_a_closed_gate_and_bad_times_are_told(world: World) -> None:
    """A gate that was closed cannot watch; a time that is none is refused before anything is read."""
    gate = world.gate()
    for options in ({"every_s": 0}, {"every_s": -1}, {"for_s": -1}, {"every_s": "soon"}, {"for_s": None}):
        with pytest.raises(ConfigurationError):
            gate.watch(**options)
        with pytest.raises(ConfigurationError):
            asyncio.run(gate.awatch(**options))
    gate.close()
    with pytest.raises(JournalError):
        gate.watch()


def test_async_watch_waits_and_hears_async_hooks(world: World) -> None:
    """awatch() goes on for for_s on the event loop, reads sync and async callbacks, and awaits the hook."""
    gate = world.gate()
    world.refund(gate)("1")

    async def settlement(order: str) -> Settlement | None:
        await asyncio.sleep(0)
        return world.bank.fate(order)

    world.refund(gate, name="other", settlement=settlement)("2")
    start = world.clock.now()
    told: list[str] = []

    async def on_change(outcome: Outcome) -> None:
        await asyncio.sleep(0)
        told.append(outcome.effect)

    world.bank.fates |= {"1": SETTLED, "2": SETTLED}
    changes = asyncio.run(gate.awatch(every_s=30, for_s=90, on_change=on_change))
    assert sorted(told) == sorted(outcome.effect for outcome in changes) == ["other", "refund"]
    assert (world.clock.now() - start).total_seconds() == pytest.approx(90)


def test_what_a_watch_costs_follows_what_is_watched(tmp_path: Path) -> None:
    """The queries for the list and for a reference use an index, and effects that declare no settlement make no table at all."""
    clock = SettableClock(frozen=True)
    with Interlock(tmp_path, clock=clock) as gate:
        plain = gate.effect(key=lambda order: order, name="plain")(lambda order: order)
        for number in range(5):
            plain(f"p{number}")

        def tables() -> set[str]:
            with sqlite3.connect(tmp_path / "journal.db") as db:
                return {name for (name,) in db.execute("SELECT name FROM sqlite_master")}

        before = tables()
        assert not before & {"watches", "watches_until", "found_by"}
        watched = gate.effect(
            key=lambda order: order, name="watched", settlement=lambda: None, references=lambda value: [value]
        )(lambda order: order)
        watched("w1")
        assert tables() - before >= {"watches", "watches_until", "found_by"}
        with sqlite3.connect(tmp_path / "journal.db") as db:
            for query, index in (
                (
                    "SELECT effect_id, name, until, state, since FROM watches WHERE until > 'x' ORDER BY until, effect_id",
                    "watches_until",
                ),
                ("SELECT effect_id FROM found_by WHERE reference = 'x' ORDER BY effect_id", "PRIMARY KEY"),
            ):
                plan = " ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {query}"))
                assert index in plan, plan
                assert "SCAN" not in plan
                assert "TEMP B-TREE" not in plan
        assert gate.find("w1") == [watched("w1").effect_id]
        assert gate.journal.verify().problems == ()


def test_an_index_that_was_edited_is_found_out(tmp_path: Path) -> None:
    """verify() says so when the list of watched effects or the references are not what the entries add up to."""
    with Interlock(tmp_path) as gate:
        pay = gate.effect(
            key=lambda order: order, name="pay", settlement=lambda: SETTLED, references=lambda value: [value]
        )(lambda order: order)
        pay("w1")
        gate.watch()
        assert gate.journal.verify().problems == ()
    for edit, said in (
        ("UPDATE watches SET state = 'accepted'", "list of watched effects"),
        ("UPDATE watches SET until = '2000-01-01'", "list of watched effects"),
        ("DELETE FROM watches", "list of watched effects"),
        ("DELETE FROM found_by WHERE reference = 'w1'", "index of references"),
    ):
        copy = tmp_path / said / edit.split()[0]
        copy.mkdir(parents=True, exist_ok=True)
        with sqlite3.connect(tmp_path / "journal.db") as db, sqlite3.connect(copy / "journal.db") as other:
            db.backup(other)
            other.execute(edit)
        with Interlock(copy) as gate:
            problems = gate.journal.verify().problems
            assert problems, edit
            assert said in " ".join(problems)
