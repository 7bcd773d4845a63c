"""SIGKILL at every crash point of a recovery, after SIGKILL right before and right after the send."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.zygote import FIRST, POINTS

ZYGOTE = Path(__file__).with_name("zygote.py")

RECOVERED = {
    (1, "before_send"): "COMMITTED_BY_RETRY",
    (1, "after_send"): "COMMITTED_BY_RETRY",
    (2, "before_send"): "REAPPLIED_AFTER_QUERY",
    (2, "after_send"): "COMMITTED_ON_QUERY",
    (3, "before_send"): "AMBIGUOUS",
    (3, "after_send"): "AMBIGUOUS",
}
"""What a recovery that nobody kills says, as the design's table has it."""


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_killed_everywhere_it_lands_once_and_the_answer_is_true(tmp_path: Path, root: Path) -> None:
    """Wherever a worker and its recoveries are killed: landed once at tiers 1 and 2, at tier 3 never twice and never guessed."""
    command = [sys.executable, str(ZYGOTE), str(tmp_path)]
    # One test, since the stories take long and are told once.
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=220, cwd=root, env={"PYTHONPATH": str(root)}, check=False
    )
    assert run.returncode == 0, run.stderr
    cells = [json.loads(line) for line in run.stdout.splitlines()]
    for cell in cells:
        tier, first = cell["tier"], cell["first"]
        assert cell["problems"] == [], cell
        if tier < 3:
            assert (cell["landed"], cell["again"]) == (1, "DUPLICATE_IGNORED"), cell
        else:
            assert (cell["landed"], cell["again"]) == (int(first == "after_send"), "AMBIGUOUS"), cell
        if not cell["deaths"]:
            assert cell["recovered"] == RECOVERED[tier, first], cell
    assert {(cell["tier"], cell["first"]) for cell in cells} == {(tier, first) for tier in (1, 2, 3) for first in FIRST}
    died = {point for cell in cells for point in cell["killed"]}
    assert died == set(POINTS), "a story about a point that nobody died at is about nothing"
