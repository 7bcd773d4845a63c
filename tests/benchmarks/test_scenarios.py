from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as command
from benchmarks import audit
from benchmarks.harness.document import Cell, Verdict
from benchmarks.harness.stripe_place import StripePlace
from benchmarks.harness.stripe_wire import KEY_VARIABLE, Service
from benchmarks.harness.suite import CannotRun
from benchmarks.suites.e2e.case import Answer
from benchmarks.suites.scenarios import SCENARIOS, connect_payout, suite_of
from benchmarks.suites.scenarios.play import ARMS, Row, judge, measures, record_of
from benchmarks.suites.scenarios.stripe_dispute import SCENARIO

PLAYED = {
    "stripe_dispute": ("chargeback_during_outage", "chargeback_after_refund_stood", "refund_fails_later"),
    "billing_credit": ("closed_during_outage", "credited_by_hand_during_outage", "key_pruned_after_24h"),
    "connect_payout": ("crash_before_send", "paid_by_hand_during_outage", "payout_bounces"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PLAYED))
def test_a_scenario_is_as_wanted_and_its_audit_agrees_and_finds_an_edit(name: str, tmp_path: Path) -> None:
    """A quick run by real SIGKILL holds; the audit agrees with it, and disagrees once one cell's money is edited."""
    out = tmp_path / "result.json"
    rows = [word for row in PLAYED[name] for word in ("--row", row)]
    arguments = ["scenario", name, "--quick", "--out", str(out), "--service-dir", str(tmp_path / "ledger"), *rows]
    assert command.main(arguments) == 0
    told = json.loads(out.read_text(encoding="utf-8"))
    assert {cell["arm"] for cell in told["cells"]} == set(ARMS)
    assert told["meta"]["command"].startswith(f"python -m benchmarks scenario {name} --quick")
    ours = [cell for cell in told["cells"] if cell["arm"] == "interlock"]
    assert {cell["record"] for cell in ours} == {"agrees"}
    assert all(cell["known"] == cell["wanted_known"] for cell in ours)
    assert audit.main([str(out), "--service-dir", str(tmp_path / "ledger")]) == 0
    told["cells"][-1]["money_minor"] += 100
    out.write_text(json.dumps(told), encoding="utf-8")
    assert audit.main([str(out), "--service-dir", str(tmp_path / "ledger")]) == 1


def test_every_registered_scenario_has_its_name_and_a_run() -> None:
    """What the command line offers can be loaded, is called as it is registered, and takes the options of all."""
    for name in SCENARIOS:
        assert suite_of(name).command == f"scenario {name}"
        assert suite_of(name).name == name


def test_an_unknown_scenario_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that is not registered is refused, and the names that are stand in the message."""
    with pytest.raises(SystemExit) as refused:
        command.main(["scenario", "nothing"])
    assert refused.value.code == 2
    assert "shared_cap" in capsys.readouterr().err


def test_a_live_payout_needs_a_named_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Live, the payout's scenario says which variable names the connected account, before anything is paid."""
    monkeypatch.setenv(KEY_VARIABLE, "sk_test_1")
    monkeypatch.delenv(connect_payout.ACCOUNT_VARIABLE, raising=False)
    with StripePlace(Service.LIVE) as place, pytest.raises(CannotRun, match=connect_payout.ACCOUNT_VARIABLE):
        connect_payout.set_up(place, "cell-1", tmp_path)


ROW: Row = SCENARIO.rows[0]


@pytest.mark.parametrize(
    ("money_minor", "count", "status", "true", "verdict"),
    [
        (2000, 1, "COMMITTED", True, Verdict.HELD),
        (2000, 2, "COMMITTED", True, Verdict.VIOLATED),
        (0, 0, "COMMITTED", False, Verdict.VIOLATED),
        (2000, 1, "AMBIGUOUS", True, Verdict.UNKNOWN),
    ],
)
def test_the_verdict_is_the_services_state_and_a_true_answer(
    money_minor: int, count: int, status: str, true: bool, verdict: Verdict
) -> None:
    """Money and number must be as the row wants, and the answer true; who cannot tell is not held."""
    assert judge(ROW, {"money_minor": money_minor, "count": count}, status, true) is verdict


def test_a_record_that_says_less_than_the_service_disagrees() -> None:
    """A receipt that does not verify is broken, and none is none."""
    forged = {"interlock_receipt": 1, "effect_id": "0" * 24, "entries": []}
    assert record_of({}, Answer(status="SENT"), ["re_1"]) == "none"
    assert record_of({"receipt": forged}, Answer(status="SENT"), ["re_1"]) == "broken"


def cell(arm: str, verdict: Verdict = Verdict.HELD, **details: Any) -> Cell:
    told = {"wanted_known": "settled", "known": "settled", "record": "agrees", "settle_s": 0.3, **details}
    return Cell(row=ROW.name, arm=arm, outcome="COMMITTED", money_minor=2000, verdict=verdict, details=told)


def failing(*cells: Cell) -> list[str]:
    others = [cell(arm) for arm in ARMS if arm != "interlock"]
    return [measure.name for measure in measures(SCENARIO, [*others, *cells]) if measure.holds is False]


def test_each_measure_of_a_scenario_can_fail() -> None:
    """A row lost in one repetition, a final state that is not known, and a record that disagrees: each shows."""
    assert failing(cell("interlock")) == []
    assert failing(cell("interlock"), cell("interlock", Verdict.VIOLATED)) == [
        "interlock: rows held in every repetition"
    ]
    assert failing(cell("interlock", known="accepted")) == ["interlock: final state of the money known"]
    assert failing(cell("interlock", record="disagrees")) == [
        "interlock: cells with a record that verifies and agrees with the service"
    ]
