"""A recovery that may not send again: it asks the service once, as soon as an absence can be believed, and says no more than that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from interlock import EffectFunction, Interlock
from interlock.effects import Kind
from interlock.testing import SettableClock
from tests.unit.conftest import World

SHORT_S = 1 / 64
"""A `settle_after` that is waited out before the service is asked."""


class Watched:
    """A world in which permission is pulled after a crash, and the order of what is done is kept."""

    def __init__(self, settle_after_s: float, *, landed: bool = False, lives: str = "") -> None:
        self.world = World()
        self.did: list[str] = []
        self.settle_after_s = settle_after_s
        sender = self.world.gate()
        refund = self.world.refund(sender, 1, settle_after=settle_after_s)
        self.world.service.after = self._dies if landed else self.world.service.after
        self.world.service.before = self.world.service.before if landed else self._dies
        with pytest.raises(KeyboardInterrupt):
            refund("881", 2000)
        self.world.service.before = self.world.service.after = lambda: None
        getattr(self.world.journals[-1], lives or "die")()
        self.world.service.permitted = False
        self.world.service.lookup = self._find

    @staticmethod
    def _dies() -> None:
        raise KeyboardInterrupt

    def _find(self, key: str) -> Any:
        self.did.append("look up")
        return self.world.service.ledger.get(key)

    def gate(self, during: Callable[[], object] = lambda: None) -> tuple[Interlock, EffectFunction[Any]]:
        """A new process, whose clock notes each pause and lets something happen in it."""
        did = self.did

        class Clock(SettableClock):
            def sleep(self, seconds: float) -> None:
                did.append("pause")
                during()
                super().sleep(seconds)

            async def asleep(self, seconds: float) -> None:
                did.append("pause")
                during()
                await super().asleep(seconds)

        clock = Clock(frozen=True)
        clock.boot = self.world.clock.boot
        self.world.clock = clock
        gate = self.world.gate()
        return gate, self.world.refund(gate, 1, settle_after=self.settle_after_s, wait=0)


REFUSED = "REFUSED:lease_at_recovery"


@pytest.mark.parametrize("way", ["recover", "arecover", "call"])
def test_a_short_pause_comes_before_the_one_question(way: str) -> None:
    """What could not be believed yet is not asked for: a pause, one look-up, the refusal."""
    watched = Watched(SHORT_S)
    gate, refund = watched.gate()
    if way == "call":
        outcome = refund("881", 2000)
    else:
        (outcome,) = gate.recover() if way == "recover" else asyncio.run(gate.arecover())
    assert str(outcome) == REFUSED
    assert watched.did == ["pause", "look up"]
    assert not watched.world.service.ledger


def test_a_long_pause_comes_after_a_question_that_may_make_it_needless() -> None:
    """What takes longer than a request is only waited for if the service does not show it already."""
    watched = Watched(0.5)
    gate, _ = watched.gate()
    assert [str(outcome) for outcome in gate.recover()] == [REFUSED]
    assert watched.did == ["look up", "pause", "look up"]
    found = Watched(0.5, landed=True)
    gate, _ = found.gate()
    assert [str(outcome) for outcome in gate.recover()] == ["COMMITTED_ON_QUERY"]
    assert found.did == ["look up"]


def test_what_lands_during_the_pause_is_found() -> None:
    """The last request of the dead sender arrives while it is waited for: it is not refused."""
    watched = Watched(SHORT_S)
    (key,) = watched.world.service.sends
    gate, _ = watched.gate(lambda: watched.world.service.ledger.update({key: "late"}))
    assert [str(outcome) for outcome in gate.recover()] == ["COMMITTED_ON_QUERY"]


@pytest.mark.parametrize("further_s", [0.0, SHORT_S, 100.0])
def test_a_clock_that_goes_back_during_the_pause_makes_it_no_shorter(further_s: float) -> None:
    """As long as the clock does not say that it is over, absent is not believed; it is waited for and asked again."""
    watched = Watched(SHORT_S)
    gate, _ = watched.gate()
    clock = watched.world.clock
    went_back: list[bool] = []

    def back(seconds: float, sleep: Callable[[float], None] = clock.sleep) -> None:
        sleep(seconds)
        if not went_back:
            went_back.append(True)
            clock._uptime_offset_s -= seconds + further_s

    clock.sleep = back  # type: ignore[method-assign]
    (outcome,) = gate.recover()
    assert str(outcome) == REFUSED
    assert watched.did == ["pause", "look up", "pause", "look up"]


def test_a_sender_out_of_sight_is_given_its_whole_time() -> None:
    """It may send until its deadline, however short the pause after that is: nothing is said before."""
    watched = Watched(SHORT_S, lives="cut_off")
    gate, _ = watched.gate()
    (outcome,) = gate.recover()
    assert str(outcome) == "IN_FLIGHT:absence_not_yet_trusted"
    assert outcome.retry_after is not None
    assert outcome.retry_after > 10
    watched.world.clock.advance(outcome.retry_after - SHORT_S / 2)
    watched.did.clear()
    assert [str(outcome) for outcome in gate.recover()] == [REFUSED]
    assert watched.did == ["pause", "look up"]


def _sent_again() -> tuple[Watched, Interlock]:
    """One sender is out of sight, and a second one has sent again and died."""
    watched = Watched(SHORT_S, lives="cut_off")
    service = watched.world.service
    service.permitted = True
    second = watched.world.gate()
    resend = watched.world.refund(second, 1, settle_after=SHORT_S)
    service.before = Watched._dies
    with pytest.raises(KeyboardInterrupt):
        resend("881", 2000)
    service.before, service.permitted = lambda: None, False
    watched.world.journals[-1].die()
    return watched, second


def test_an_earlier_sender_out_of_sight_is_given_its_whole_time_too() -> None:
    """A resend waits for nothing that came before it, so an absence after it waits for all of that."""
    watched, _ = _sent_again()
    gate, _ = watched.gate()
    (outcome,) = gate.recover()
    assert str(outcome) == "IN_FLIGHT:absence_not_yet_trusted"
    assert outcome.retry_after is not None
    assert outcome.retry_after > 10
    watched.world.clock.advance(outcome.retry_after)
    assert [str(outcome) for outcome in gate.recover()] == [REFUSED]


def test_an_earlier_sender_that_lives_is_waited_for() -> None:
    """The last sender is gone and an earlier one is not: no pause makes an absence believable."""
    watched, second = _sent_again()
    first = watched.world.journals[-2]
    first._fate = None
    first.begin_send(next(iter(second.journal.open_effects()))[0], 2)
    gate, _ = watched.gate()
    assert [str(outcome) for outcome in gate.recover()] == ["IN_FLIGHT:sender_alive"]
    assert "pause" not in watched.did
    first.die()
    assert [str(outcome) for outcome in gate.recover()] == [REFUSED]


async def test_cancelled_in_the_pause_it_is_as_open_as_before() -> None:
    """Whoever recovers it next comes to the same end; nothing is held and nothing was said."""
    watched = Watched(SHORT_S)
    gate, _ = watched.gate(lambda: task.cancel())
    task = asyncio.ensure_future(gate.arecover())
    with pytest.raises(asyncio.CancelledError):
        await task
    ((effect_id, _),) = gate.journal.open_effects()
    assert gate.journal.load(effect_id).kind is Kind.DISPATCHED
    assert watched.did == ["pause"]
    gate, _ = watched.gate()
    assert [str(outcome) for outcome in await gate.arecover()] == [REFUSED]


def test_somebody_else_settles_it_during_the_pause() -> None:
    """What another recovery concluded meanwhile stands; this one tells that and writes nothing."""
    watched = Watched(SHORT_S)
    told: list[str] = []

    def other() -> None:
        if not told:
            told.append("")
            told[0] = str(second.recover()[0])

    gate, _ = watched.gate(other)
    second, _ = watched.gate()
    assert [str(outcome) for outcome in gate.recover()] == [REFUSED] == told
    ((effect_id, *_),) = {entry.effect_id: None for entry, _ in watched.world.journal.store.order}.items()
    kinds = [entry.kind for entry in gate.journal.load(effect_id).entries]
    assert kinds.count(Kind.REFUSED) == 1
