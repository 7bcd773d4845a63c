"""Permission and facts that are too old by the time it could be sent: read again, and if they are too old each time, nothing is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from interlock import Budget, Interlock
from interlock.testing import SimulatedCrash
from tests.unit.conftest import World

TIMEOUT_S = 5


class Slow:
    """A world whose callbacks can take long, and in which things change meanwhile."""

    def __init__(self) -> None:
        self.world = World()
        self.turns: dict[str, list[Callable[[], None]]] = {"premises": [], "allowed": [], "budget": []}
        self.asked: list[str] = []

    def passes(self, seconds: float, **change: Any) -> Callable[[], None]:
        """Time passes (a slow service, a stopped process), and then the world is another one."""

        def turn() -> None:
            self.world.clock.advance(seconds)
            self.world.service.permitted = change.get("permitted", self.world.service.permitted)
            self.world.service.facts = change.get("facts", self.world.service.facts)

        return turn

    def ask(self, role: str, answer: Callable[[], Any]) -> Any:
        """What a callback answers, before what happens then."""
        self.asked.append(role)
        given = answer()
        if self.turns[role]:
            self.turns[role].pop(0)()
        return given

    def refund(self, gate: Interlock, tier: int = 1, **options: Any) -> Any:
        """The effect of these tests."""
        service = self.world.service
        return self.world.refund(
            gate,
            tier,
            premises=lambda: self.ask("premises", lambda: dict(service.facts)),
            allowed=lambda: self.ask("allowed", lambda: service.permitted),
            budget=lambda amount: self.ask("budget", lambda: Budget("cap", 10_000, amount)),
            timeout=TIMEOUT_S,
            **options,
        )


@pytest.mark.parametrize("where", ["premises", "allowed", "budget"])
@pytest.mark.parametrize(
    ("change", "wanted"),
    [({"permitted": False}, "REFUSED:lease"), ({"facts": {"others": 5}}, "REFUSED:stale_premise"), ({}, "COMMITTED")],
)
def test_what_was_checked_too_long_ago_is_checked_again(where: str, change: dict[str, Any], wanted: str) -> None:
    """Taken back while the process stood still after its checks: refused. A changed fact is compared with what was read first."""
    slow = Slow()
    slow.turns[where] = [slow.passes(TIMEOUT_S + 0.1, **change)]
    refund = slow.refund(slow.world.gate())
    outcome = refund("881", 2000)
    assert str(outcome) == wanted
    assert slow.asked[-3 if wanted == "COMMITTED" else -2 :][:2] == ["premises", "allowed"]
    assert len(slow.world.service.sends) == (1 if wanted == "COMMITTED" else 0)


def test_what_is_not_too_old_is_asked_once() -> None:
    """As long as a send may take, checks may take, too."""
    slow = Slow()
    slow.turns["allowed"] = [slow.passes(TIMEOUT_S - 0.001)]  # the difference of two readings of a clock is rounded
    assert slow.refund(slow.world.gate())("881", 2000).ok
    assert slow.asked == ["premises", "allowed", "budget"]


def test_checks_that_always_take_too_long() -> None:
    """They are read three times, then nothing is sent, which may be asked again; nothing is held of the budget."""
    slow = Slow()
    slow.turns["allowed"] = [slow.passes(TIMEOUT_S + 1) for _ in range(9)]
    gate = slow.world.gate()
    refund = slow.refund(gate)
    outcome = refund("881", 2000)
    assert (str(outcome), outcome.can_ask_again) == ("FAILED:held_up", True)
    assert slow.asked.count("allowed") == 3
    assert slow.world.service.sends == []
    slow.turns["allowed"] = []
    assert refund("881", 2000).ok
    assert gate.journal.verify().ok


@pytest.mark.parametrize(
    ("tier", "turns", "wanted"),
    [
        (1, 1, "REFUSED:lease_at_recovery"),
        (2, 1, "REFUSED:lease_at_recovery"),
        (1, 9, "IN_FLIGHT:unanswered"),
        (2, 9, "FAILED:held_up"),
    ],
)
def test_a_recovery_s_checks_that_are_too_old(tier: int, turns: int, wanted: str) -> None:
    """The same after a crash: what was taken back while the recovering process stood still is not sent."""
    slow = Slow()
    gate = slow.world.gate()
    refund = slow.refund(gate, tier)
    with pytest.raises(SimulatedCrash):
        gate.submit(refund.proposal("881", 2000), crash_at="after_dispatch")
    slow.asked.clear()
    change = {"permitted": False} if turns == 1 else {}
    slow.turns["premises"] = [slow.passes(TIMEOUT_S + 1, **change) for _ in range(turns)]
    gate = slow.world.gate()
    slow.refund(gate, tier)
    (outcome,) = gate.recover()
    assert str(outcome) == wanted
    assert slow.asked.count("allowed") == (2 if turns == 1 else 3)
    assert slow.world.service.sends == []
    slow.turns["premises"] = []
    again = slow.refund(slow.world.gate(), tier)("881", 2000)
    assert again.ok is (turns == 9)
    assert len(slow.world.service.sends) == (1 if turns == 9 else 0)


def test_an_effect_without_checks_is_not_asked_the_time_for_them() -> None:
    """A budget that takes long is no permission that grows old."""
    slow = Slow()
    slow.turns["budget"] = [slow.passes(TIMEOUT_S + 1)]
    refund = slow.world.refund(
        slow.world.gate(),
        1,
        premises=None,
        allowed=None,
        budget=lambda amount: slow.ask("budget", lambda: Budget("cap", 10_000, amount)),
        timeout=TIMEOUT_S,
    )
    assert refund("881", 2000).ok
    assert slow.asked == ["budget"]
