from __future__ import annotations

from benchmarks.harness.document import Cell, Verdict
from benchmarks.suites.recovery import ARMS, MOST_RATIO, POINTS, STOPPED, TIERS, crash_measures, planned, stop_measures


def cell(row: str, arm: str, tier: int, *, settle_s: float = 0.3, money_minor: int = 2000) -> Cell:
    return Cell(
        row=row,
        arm=arm,
        tier=tier,
        outcome="COMMITTED",
        money_minor=money_minor,
        verdict=Verdict.HELD,
        details={"settle_s": settle_s},
    )


def timed(gate_s: float, hand_s: float) -> list[Cell]:
    settle_s = {"gate": gate_s, "hand_check": hand_s}
    return [
        cell(f"crash_{point}", arm, tier, settle_s=settle_s[arm])
        for _ in range(3)
        for tier in TIERS
        for point in POINTS
        for arm in ARMS
    ]


def test_the_ratio_of_the_medians_decides() -> None:
    """A gate that settles within the wanted ratio of the hand check holds at every tier and point, a slower one nowhere."""
    for gate_s, holds in ((0.3 * MOST_RATIO - 0.001, True), (0.3 * MOST_RATIO + 0.001, False)):
        ratios = [measure for measure in crash_measures(timed(gate_s, 0.3)) if measure.unit == "ratio"]
        assert [measure.holds for measure in ratios] == [holds] * len(TIERS) * len(POINTS)


def test_one_second_payment_fails_the_stopped_sender() -> None:
    """The stopped sender must come to one refund every time; a single other total, or no case at all, does not hold."""
    once = [cell(STOPPED, "gate", tier) for tier in (1, 2, 3)]
    assert [measure.holds for measure in stop_measures(once)] == [True]
    assert [measure.holds for measure in stop_measures([*once, cell(STOPPED, "gate", 2, money_minor=4000)])] == [False]
    assert [measure.holds for measure in stop_measures([])] == [False]


def test_the_arms_take_turns() -> None:
    """Each repetition runs both arms back to back, and the one that goes first alternates."""
    arms = [case.column.arm for case in planned(2, 0)]
    half = len(arms) // 2
    assert arms[:half] == ["gate", "hand_check"] * (half // 2)
    assert arms[half:] == ["hand_check", "gate"] * (half // 2)
