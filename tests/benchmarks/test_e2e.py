from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as command
from benchmarks import audit
from benchmarks.harness.document import Cell, Verdict
from benchmarks.harness.stripe_place import StripePlace
from benchmarks.services import temporal
from benchmarks.suites.e2e.case import Answer, Decision, Job
from benchmarks.suites.e2e.engines import ENGINES, load
from benchmarks.suites.e2e.page import findings, measures
from benchmarks.suites.e2e.rows import COUNTED, ROWS
from benchmarks.suites.e2e.suite import SUITE, judge, planned, wanted

ROOT = Path(__file__).resolve().parents[2]
BY_NAME = {row.name: row for row in ROWS}


def played(directory: Path, *arguments: str) -> dict[str, Any]:
    """A quick run of some rows; its ledger is kept beside the result."""
    out = directory / "e2e.json"
    command.run(SUITE, ["--quick", "--out", str(out), "--service-dir", str(directory / "ledger"), *arguments])
    told: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return told


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    directory = tmp_path_factory.mktemp("e2e")
    rows = ("crash_after_commit", "hand_refund_during_outage", "key_pruned_after_24h", "no_lookup_after_24h")
    return directory, played(directory, *(word for row in rows for word in ("--row", row)))


@pytest.mark.slow
def test_killed_workers_leave_the_service_as_wanted(result: tuple[Path, dict[str, Any]]) -> None:
    """By real SIGKILL: the gate leaves what each row wants, in two worker processes, and says AMBIGUOUS where nobody can know."""
    _, told = result
    ours = {cell["row"]: cell for cell in told["cells"] if cell["arm"] == "interlock"}
    assert {
        row: (cell["money_minor"], cell["refunds"], cell["attempts"]) for row, cell in ours.items()
    } == dict.fromkeys(ours, (2000, 1, 2))
    assert all(cell["as_wanted"] and cell["answer_true"] and cell["receipt_verified"] for cell in ours.values())
    assert ours["no_lookup_after_24h"]["outcome"] == "AMBIGUOUS"
    assert told["holds"]


@pytest.mark.slow
def test_without_a_check_the_money_goes_twice(result: tuple[Path, dict[str, Any]]) -> None:
    """The rows can fail: an arm with a stable key alone pays $40 where support refunded by hand and where the key was forgotten."""
    _, told = result
    alone = {cell["row"]: (cell["money_minor"], cell["verdict"]) for cell in told["cells"] if cell["arm"] == "no_check"}
    assert alone["hand_refund_during_outage"] == alone["key_pruned_after_24h"] == (4000, "violated")
    assert alone["crash_after_commit"] == (2000, "held")


@pytest.mark.slow
def test_the_audit_agrees_with_an_honest_result(result: tuple[Path, dict[str, Any]]) -> None:
    """The audit starts the service on the kept ledger and agrees with every cell."""
    directory, _ = result
    assert audit.main([str(directory / "e2e.json"), "--service-dir", str(directory / "ledger")]) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("money_minor", 2500, "money_minor is recorded as 2500"),
        ("refunds", 2, "refunds is recorded as 2"),
        ("refund_ids", ["re_other"], "refund_ids"),
        ("refund", "re_other", "names re_other"),
        ("payment", "pi_other", "money_minor is recorded as 2000; the service says 0"),
        ("answer_true", False, "answer_true is recorded as False"),
        ("outcome", "REFUSED:lease_at_recovery", "answer_true is recorded as True"),
        ("as_wanted", False, "as_wanted is recorded as False"),
        ("effect_id", "0" * 24, "the receipt is of"),
        ("receipt", {"interlock_receipt": 1, "effect_id": "0" * 24, "entries": []}, "does not verify"),
    ],
)
def test_the_audit_finds_an_edited_cell(
    result: tuple[Path, dict[str, Any]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    field: str,
    value: Any,
    said: str,
) -> None:
    """One edited field of one cell is found, told with its cell, and makes the audit exit 1."""
    directory, told = result
    number = next(
        number
        for number, cell in enumerate(told["cells"])
        if (cell["row"], cell["arm"]) == ("crash_after_commit", "interlock")
    )
    edited = json.loads(json.dumps(told))
    edited["cells"][number][field] = value
    file = tmp_path / "edited.json"
    file.write_text(json.dumps(edited), encoding="utf-8")
    assert audit.main([str(file), "--service-dir", str(directory / "ledger")]) == 1
    out = capsys.readouterr().out
    assert f"DISAGREES  cell {number} (crash_after_commit, interlock, kill)" in out
    assert said in out


@pytest.mark.slow
def test_temporal_carries_the_gate_over_the_crash(tmp_path: Path) -> None:
    """On Temporal's own server: two attempts by its own count, its ids, the path of recovery, a receipt, and an audit that agrees."""
    pytest.importorskip("temporalio")
    if temporal.find_server() is None:
        pytest.skip(temporal.MISSING)
    rows = ("approval_revoked_during_outage", "no_lookup_after_24h")
    told = played(tmp_path, "--engine", "temporal", *(word for row in rows for word in ("--row", row)))
    ours = {cell["row"]: cell for cell in told["cells"] if cell["arm"] == "interlock"}
    assert {row: (cell["money_minor"], cell["attempts"], cell["path"]) for row, cell in ours.items()} == {
        "approval_revoked_during_outage": (0, 2, "lease_at_recovery"),
        "no_lookup_after_24h": (2000, 2, "ambiguous"),
    }
    assert all(cell["as_wanted"] and cell["answer_true"] and cell["receipt_verified"] for cell in ours.values())
    assert all(cell["engine_ids"]["workflow_id"] == cell["cell"] for cell in ours.values())
    alone = next(cell for cell in told["cells"] if cell["arm"] == "no_check")
    assert (alone["money_minor"], alone["verdict"], alone["attempts"]) == (2000, "violated", 2)
    assert audit.main([str(tmp_path / "e2e.json"), "--service-dir", str(tmp_path / "ledger")]) == 0


def test_an_audit_without_the_ledger_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A result whose ledger is gone, or that does not say where it lay, cannot be audited, which is no pass."""
    for meta, said in (({"service": "local"}, "--service-dir"), ({"service": "local", "ledger": "gone"}, "no ledger")):
        file = tmp_path / "some.json"
        file.write_text(json.dumps({"meta": meta, "cells": []}), encoding="utf-8")
        assert audit.main([str(file)]) == audit.CANNOT_RUN
        assert said in capsys.readouterr().err


def test_an_audit_that_reads_nothing_is_no_pass(tmp_path: Path) -> None:
    """A result without a cell that can be looked up makes the audit exit 1."""
    with StripePlace(directory=tmp_path / "ledger"):
        pass
    file = tmp_path / "some.json"
    cell = {"row": "a", "arm": "b", "crash": "none"}
    file.write_text(json.dumps({"meta": {"service": "local"}, "cells": [cell]}), encoding="utf-8")
    assert audit.main([str(file), "--service-dir", str(tmp_path / "ledger")]) == 1


def test_what_is_wanted_is_the_scenarios() -> None:
    """Seven rows are counted, with the money and the counts that the case fixes, and of the gate alone."""
    fixed = {name: (BY_NAME[name].wanted_minor, BY_NAME[name].wanted_count) for name in COUNTED}
    assert fixed == {
        "crash_after_commit": (2000, 1),
        "hand_refund_before_decision": (2500, 2),
        "hand_refund_during_outage": (2000, 1),
        "unrelated_refund_during_outage": (2500, 2),
        "approval_revoked_during_outage": (0, 0),
        "approval_revoked_after_commit": (2000, 1),
        "key_pruned_after_24h": (2000, 1),
    }
    assert wanted(BY_NAME["crash_after_commit"], "hand_check") is None
    assert wanted(BY_NAME["price_two_separate_twenties"], "interlock") is None


@pytest.mark.parametrize(
    ("money_minor", "count", "status", "true", "verdict"),
    [
        (2000, 1, "COMMITTED", True, Verdict.HELD),
        (2000, 2, "COMMITTED", True, Verdict.VIOLATED),
        (4000, 2, "COMMITTED", True, Verdict.VIOLATED),
        (2000, 1, "REFUSED:lease", False, Verdict.VIOLATED),
        (2000, 1, "AMBIGUOUS", True, Verdict.UNKNOWN),
    ],
)
def test_the_verdict_needs_money_count_and_a_true_answer(
    money_minor: int, count: int, status: str, true: bool, verdict: Verdict
) -> None:
    """The right sum in the wrong number of refunds, or beside a false answer, is violated; an honest AMBIGUOUS is unknown."""
    assert judge(BY_NAME["crash_after_commit"], money_minor, count, status, true) is verdict


def batched(arms: list[str]) -> list[list[str]]:
    """Three by three: the repetitions of a row."""
    return [arms[at : at + 3] for at in range(0, len(arms), 3)]


def test_arms_take_turns_and_only_the_gate_plays_the_row_without_a_lookup() -> None:
    """Every repetition plays each row with every arm, in all orders alike; one row is the gate's alone."""
    plan = list(planned(6))
    arms = [arm for row, arm, _ in plan if row.name == "crash_after_commit"]
    assert sorted(map(tuple, batched(arms))) == sorted(permutations(("no_check", "hand_check", "interlock")))
    assert {arm for row, arm, _ in plan if row.name == "no_lookup_after_24h"} == {"interlock"}


def cell(row: str, arm: str, *, verdict: Verdict = Verdict.HELD, closed_s: float = 0.3, **details: Any) -> Cell:
    told = {
        "attempts": 2,
        "crash_to_closed_s": closed_s,
        "is_played": True,
        "receipt_verified": True,
        "person_sees": "",
    }
    return Cell(
        row=row,
        arm=arm,
        outcome="COMMITTED",
        money_minor=2000,
        verdict=verdict,
        answer_true=True,
        details={**told, **details},
    )


def failing(cells: list[Cell], repetitions: int = 3) -> set[str]:
    return {
        measure.name.partition(":")[2] or measure.name
        for measure in measures(cells, repetitions)
        if measure.holds is False
    }


def all_held(**interlock: Any) -> list[Cell]:
    others = [cell(row, arm) for row in COUNTED for arm in ("no_check", "hand_check")]
    return [*others, *(cell(row, "interlock", **interlock) for row in COUNTED)]


def test_each_measure_can_fail() -> None:
    """A row lost in one repetition, a third worker, a broken receipt, a slow settlement and a crash that never came: each shows."""
    assert failing(all_held()) == set()
    assert failing([*all_held(), cell(COUNTED[0], "interlock", verdict=Verdict.VIOLATED)]) == {
        " rows held, in every repetition"
    }
    assert failing(all_held(attempts=3)) == {" attempts at the refund of a case, at most"}
    assert failing(all_held(receipt_verified=False)) == {" receipts that verify from the JSON alone"}
    slow = failing(all_held(closed_s=0.34))
    assert slow == {"crash to closed, interlock to hand_check, ratio of the medians"}
    assert failing(all_held(closed_s=0.34), repetitions=1) == set()
    assert "cells in which the worker died in its refund" in failing(
        [*all_held(), cell("x", "interlock", is_played=False)]
    )


def test_a_tie_is_said_first() -> None:
    """Where the hand check is as good, the page says so in its first line."""
    assert findings(all_held())[0].startswith("hand_check ties with interlock")


def test_who_is_faster_is_said_before_the_counts() -> None:
    """Where an arm without a gate closes sooner, also by less than is judged, it stands before what each arm held."""
    told = findings(all_held(closed_s=0.31))
    assert told[2:4] == [
        f"{arm} closes faster after the crash, by the median: 0.300 s, interlock 0.310 s."
        for arm in ("hand_check", "no_check")
    ]
    assert not any("faster" in line for line in findings(all_held()))


def test_every_engine_is_one_module_that_says_what_it_is() -> None:
    """Each registered engine loads, has its own name, and a sentence for the page."""
    for name in ENGINES:
        engine = load(name)
        assert engine.name == name
        assert engine.what


def test_a_job_is_validated_where_it_is_read() -> None:
    """A worker refuses a job with an unknown arm instead of playing something else."""
    job = {"door": {"url": "http://127.0.0.1:1"}, "directory": "x", "arm": "sloppy", "case": "c", "payment": "pi_1"}
    with pytest.raises(ValueError, match="sloppy"):
        Job.model_validate(job)
    assert Answer.model_validate_json(Answer(status="SENT").model_dump_json()).status == "SENT"
    assert Decision(amount_minor=1).seen == []


@pytest.mark.slow
def test_an_interrupted_run_leaves_no_process_behind(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a run ends the service, the model and the workers; what was begun is over within seconds."""
    run = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "benchmarks",
            "e2e",
            "--reps",
            "3",
            "--out",
            str(tmp_path),
            "--service-dir",
            str(tmp_path / "l"),
        ],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        process_group=0,
    )
    try:
        assert run.stderr is not None
        children: set[int] = set()
        deadline = time.monotonic() + 60
        while len(children) < 3 and time.monotonic() < deadline:
            children |= children_of(run.pid)
            time.sleep(0.05)
        assert len(children) >= 3
        run.send_signal(signal.SIGINT)
        assert run.wait(20) != 0
        deadline = time.monotonic() + 10
        while any(lives(pid) for pid in children) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not [pid for pid in children if lives(pid)]
    finally:
        run.kill()
        run.wait()
        if run.stderr is not None:
            run.stderr.close()


def children_of(pid: int) -> set[int]:
    try:
        told = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        pytest.skip("this system does not show a process's children")
    return {int(one) for one in told.split()}


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return False
