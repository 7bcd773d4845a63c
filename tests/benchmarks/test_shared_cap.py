"""The race for one cap: how a race is judged, and one real race of each arm."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks.harness.document import Cell, Verdict
from benchmarks.harness.stripe_place import StripePlace
from benchmarks.harness.stripe_wire import Death
from benchmarks.suites.scenarios.shared_cap import ENOUGH, Case, judged, measures, planned, play
from benchmarks.suites.scenarios.shared_cap_worker import ARMS

CASE = Case("interlock", Death.BEFORE_SEND, 3)


class Ledger:
    """A service's list of refunds, made up."""

    def __init__(self, *approvals: str) -> None:
        self.listed = [
            {
                "id": f"re_{number}",
                "amount": 2000,
                "status": "succeeded",
                "metadata": {"approval": f"{CASE.name}-{name}"},
            }
            for number, name in enumerate(approvals)
        ]

    def refunds(self, payment: str) -> list[dict[str, Any]]:
        return self.listed


def judge(landed: str, first: str, second: str) -> Cell:
    """The cell of a race in which those landed and that was answered."""
    place = cast("StripePlace", Ledger(*landed))
    return judged(place, CASE, "pi_1", "A", {"A": {"status": first}, "B": {"status": second}}, 1.0)


@pytest.mark.parametrize(
    ("landed", "first", "second", "verdict"),
    [
        ("A", "COMMITTED_BY_RETRY", "REFUSED:over_limit", Verdict.HELD),
        ("B", "STOPPED", "SENT", Verdict.HELD),
        ("AB", "SENT", "SENT", Verdict.VIOLATED),
        ("", "REFUSED:over_limit", "REFUSED:over_limit", Verdict.VIOLATED),
        ("A", "REFUSED:over_limit", "COMMITTED", Verdict.VIOLATED),
        ("A", "REFUSED:over_limit", "REFUSED:over_limit", Verdict.VIOLATED),
        ("A", "IN_FLIGHT:sender_alive", "REFUSED:over_limit", Verdict.UNKNOWN),
        ("", "AMBIGUOUS", "REFUSED:over_limit", Verdict.UNKNOWN),
    ],
)
def test_a_race_is_judged_by_the_ledger(landed: str, first: str, second: str, verdict: Verdict) -> None:
    """Held is one refund and two true answers; more money, no refund at all or a false answer is a violation."""
    cell = judge(landed, first, second)
    assert cell.verdict is verdict
    assert cell.money_minor == 2000 * len(landed)


def test_a_few_races_do_not_decide_a_ratio() -> None:
    """Below the number of races that says something, the ratio is shown and nothing is wanted of it; held is always wanted."""
    cells = [
        Cell(
            row="shared_cap",
            arm=case.arm,
            crash=str(case.point),
            outcome="",
            money_minor=2000,
            verdict=Verdict.HELD,
            details={"settle_s": 5.0 if case.arm == "interlock" else 1.0},
        )
        for case in planned(ENOUGH)
    ]
    judged_ones = {measure.name: measure.holds for measure in measures(cells)}
    assert [holds for name, holds in judged_ones.items() if "ratio" in name] == [False, False]
    few = [cell for cell in cells if cell.arm != "no_check"][:12] + [cell for cell in cells if cell.arm == "no_check"]
    assert {measure.holds for measure in measures(few) if "ratio" in measure.name} == {None}
    assert [measure.holds for measure in measures(cells) if measure.name.startswith("interlock: races")] == [True]


@pytest.mark.slow
@pytest.mark.parametrize(("arm", "verdict"), [("interlock", "held"), ("file_lock", "held"), ("no_check", "violated")])
def test_a_real_race(tmp_path: Path, arm: str, verdict: str) -> None:
    """Two processes race, one is killed around its POST: the gate and the lock keep the cap, without either it is broken."""
    assert set(ARMS) == {"interlock", "file_lock", "no_check"}
    with StripePlace(directory=tmp_path / "ledger") as place:
        for point in (Death.BEFORE_SEND, Death.BEFORE_ACK):
            cell = play(place, tmp_path / f"{arm}-{point}", Case(arm, point, 0))
            assert cell.verdict == verdict, cell
            assert cell.money_minor == (2000 if verdict == "held" else 4000)
