"""Real processes, really killed while they watch: what was recorded stands, and the next process completes the rest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.settlement.worker import build

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("moment", "before"), [("reading", "accepted"), ("telling", "reversed")])
def test_killed_while_it_watches(tmp_path: Path, moment: str, before: str) -> None:
    """SIGKILL while the service is read, and between entry and hook: nothing is lost, nothing is written twice."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.settlement.worker", str(tmp_path), moment],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline().strip() == moment
    finally:
        worker.kill()
        worker.wait(20)
        assert worker.stdout is not None
        worker.stdout.close()
    gate = build(tmp_path)
    assert [outcome.settlement for outcome in gate.settlements()] == [before]
    changes = gate.watch()
    assert len(changes) == (1 if moment == "reading" else 0)
    (outcome,) = gate.settlements()
    assert outcome.settlement == "reversed"
    assert [str(entry.kind) for entry in gate.journal.load(outcome.effect_id).entries][3:] == ["COMMITTED", "REVERSED"]
    assert gate.find("re_881") == [outcome.effect_id]
    assert gate.journal.verify().problems == ()
    gate.close()
