"""The matrix as a user runs it: real cells of plain Python with every arm, audited, continued, and ended early."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as command
from benchmarks import audit
from benchmarks.suites.matrix.kept import Kept
from benchmarks.suites.matrix.picture import draw
from benchmarks.suites.matrix.rows import ROWS
from benchmarks.suites.matrix.suite import SUITE

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Every row of plain Python with every arm, by real SIGKILL."""
    directory = tmp_path_factory.mktemp("matrix")
    return directory, run_into(directory)


def run_into(directory: Path, *arguments: str) -> dict[str, Any]:
    """A run of plain Python into a directory that keeps cells and ledger."""
    out = directory / "matrix.json"
    where = ["--out", str(out), "--cells", str(directory / "cells.jsonl"), "--service-dir", str(directory / "ledger")]
    command.run(SUITE, ["--framework", "plain", "--reps", "1", *where, *arguments])
    told: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return told


@pytest.mark.slow
def test_real_cells_of_every_arm(played: tuple[Path, dict[str, Any]]) -> None:
    """The default pays $40 where support refunded and where a cap was raced, hand check and gate hold; receipts verify."""
    directory, told = played
    found = {(one["row"], one["arm"]): (one["money_minor"], one["verdict"]) for one in told["cells"]}
    assert found["hand_refund", "default"] == found["shared_cap", "default"] == (4000, "violated")
    # The hand check is to win where it can: that it is broken must not pass unseen because nothing is wanted of it.
    assert all(
        found[row.name, arm] == (row.wanted_minor, "held") for row in ROWS for arm in ("hand_check", "interlock")
    )
    assert found["lost_reply", "default"] == (2000, "held")
    ours = [one for one in told["cells"] if one["arm"] == "interlock"]
    assert all(one["as_wanted"] and one["receipt_verified"] for one in ours)
    assert all(one["settle_s"] > 0 and one["workers"] == 2 for one in told["cells"] if one["crash"] == "kill")
    assert told["holds"]
    assert (directory / "matrix.svg").read_text(encoding="utf-8") == draw(told)


@pytest.mark.slow
def test_the_audit_agrees(played: tuple[Path, dict[str, Any]]) -> None:
    """The service's ledger says of every cell what the result says."""
    directory, _ = played
    assert audit.main([str(directory / "matrix.json"), "--service-dir", str(directory / "ledger")]) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "arm", "changed", "found"),
    [
        ("hand_refund", "default", {"verdict": "held"}, "by money, count and answers it is violated"),
        ("hand_refund", "hand_check", {"verdict": "violated"}, "by money, count and answers it is held"),
        ("hand_refund", "interlock", {"verdict": "violated", "as_wanted": True}, "by its own fields it is False"),
        ("lost_reply", "interlock", {"effect_id": "0" * 24}, "the receipt is of"),
        ("hand_refund", "default", {"money_minor": 2000, "verdict": "held", "refunds": 1}, ""),
    ],
)
def test_the_audit_finds_a_cell_that_was_touched(
    played: tuple[Path, dict[str, Any]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    row: str,
    arm: str,
    changed: dict[str, Any],
    found: str,
) -> None:
    """Of every arm: a verdict that does not follow is found from the file alone, and money that is not the service's by asking it."""
    directory, told = played
    cells = [{**one, **(changed if (one["row"], one["arm"]) == (row, arm) else {})} for one in told["cells"]]
    file = tmp_path / "touched.json"
    file.write_text(json.dumps({**told, "cells": cells}))
    assert audit.main([str(file), "--service-dir", str(directory / "ledger")]) == 1
    assert found in capsys.readouterr().out
    assert audit.main([str(file), "--offline"]) == (1 if found else 0)


@pytest.mark.slow
def test_an_interrupted_run_continues(played: tuple[Path, dict[str, Any]]) -> None:
    """Asked again, only what is missing is played, at the same service under the same run; nothing is played twice."""
    directory, told = played
    file = directory / "cells.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join(lines[:-1]), encoding="utf-8")
    again = run_into(directory)
    assert again["meta"]["run"] == told["meta"]["run"]
    assert len(again["cells"]) == len(told["cells"])
    same = [one for one in again["cells"] if one in told["cells"]]
    assert len(same) == len(told["cells"]) - 1
    assert again["holds"], "the cell that was played again is as wanted"
    assert audit.main([str(directory / "matrix.json"), "--service-dir", str(directory / "ledger")]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_harness_that_ends_early_leaves_no_process_behind(tmp_path: Path, how: signal.Signals) -> None:
    """Killed or interrupted in the middle of a cell, it takes its workers and the service with it; what was finished is kept."""
    where = [
        "--out",
        str(tmp_path),
        "--cells",
        str(tmp_path / "cells.jsonl"),
        "--service-dir",
        str(tmp_path / "ledger"),
    ]
    run = subprocess.Popen(
        [sys.executable, "-m", "benchmarks", "matrix", "--framework", "plain", *where],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
    children: set[int] = set()
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and (len(children) < 3 or not finished(tmp_path)):
            children |= children_of(run.pid)
            time.sleep(0.02)
        assert len(children) >= 3, "a service, and the workers of a cell"
        run.send_signal(how)
        assert run.wait(30) != 0
        deadline = time.monotonic() + 15
        while any(lives(pid) for pid in children) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert [pid for pid in children if lives(pid)] == []
    finally:
        run.kill()
        run.wait()
    assert len(Kept(tmp_path / "cells.jsonl").cells) == finished(tmp_path) >= 1


def finished(directory: Path) -> int:
    """How many cells are kept."""
    file = directory / "cells.jsonl"
    return file.read_bytes().count(b"\n") - 1 if file.exists() else 0


def children_of(parent: int) -> set[int]:
    """Its child processes."""
    told = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="utf-8")
    return {int(pid) for pid in told.split()}


def lives(pid: int) -> bool:
    """Whether this process runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("name", ["matrix", "e2e_none", "e2e_temporal", "e2e_dbos", "e2e_restate"])
def test_the_committed_results_agree_with_themselves(name: str) -> None:
    """Verdicts follow from money, count and answers, and receipts verify, where no ledger is at hand to be asked."""
    assert audit.main([str(ROOT / "results" / f"{name}.json"), "--offline"]) == 0


def test_the_audit_says_what_it_cannot_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is missing, or a page, is refused with a line and not with a trace."""
    (tmp_path / "page.md").write_text("# A page")
    for file in (tmp_path / "none.json", tmp_path / "page.md"):
        assert audit.main([str(file)]) == audit.CANNOT_RUN
        assert str(file) in capsys.readouterr().err
