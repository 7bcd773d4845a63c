"""SIGKILL at every crash point of a recovery, after SIGKILL right before and right after the send."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.crash.zygote import FIRST, POINTS

ZYGOTE = Path(__file__).with_name("zygote.py")


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory, root: Path) -> list[dict[str, Any]]:
    """Every story, told by real processes."""
    command = [sys.executable, str(ZYGOTE), str(tmp_path_factory.mktemp("stories"))]
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=100, cwd=root, env={"PYTHONPATH": str(root)}, check=False
    )
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


@pytest.mark.parametrize("tier", [1, 2, 3])
def test_it_lands_once_and_the_answer_is_true(cells: list[dict[str, Any]], tier: int) -> None:
    """Wherever the worker and its recoveries are killed: once at tiers 1 and 2 and said so, never twice at tier 3 and never a guess."""
    stories = [cell for cell in cells if cell["tier"] == tier]
    assert len(stories) == len(FIRST) * (2 + len(POINTS))
    for cell in stories:
        assert cell["problems"] == [], cell
        if tier < 3:
            assert (cell["landed"], cell["again"]) == (1, "DUPLICATE_IGNORED"), cell
        else:
            assert cell["landed"] == (cell["first"] == "after_send"), cell
            assert cell["again"] == "AMBIGUOUS", cell


def test_a_single_recovery_says_how_it_came_to_know(cells: list[dict[str, Any]]) -> None:
    """A recovery that nobody kills reports what the design's table names."""
    told = {(cell["tier"], cell["first"] == "after_send"): set[str]() for cell in cells}
    for cell in cells:
        if not cell["deaths"]:
            told[(cell["tier"], cell["first"] == "after_send")].add(cell["recovered"])
    assert told == {
        (1, False): {"COMMITTED_BY_RETRY"},
        (1, True): {"COMMITTED_BY_RETRY"},
        (2, False): {"REAPPLIED_AFTER_QUERY"},
        (2, True): {"COMMITTED_ON_QUERY"},
        (3, False): {"AMBIGUOUS"},
        (3, True): {"AMBIGUOUS"},
    }


def test_the_deaths_were_real(cells: list[dict[str, Any]]) -> None:
    """Every point that a recovery passes was died at in some story, so that the tests above are about something."""
    died = {point for cell in cells for point in cell["killed"]}
    assert died == set(POINTS)
