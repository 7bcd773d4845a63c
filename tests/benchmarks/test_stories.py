"""The stories as a reader runs them: the quick refund agent, a crash row with real kills, the recovery, the demo."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import demo


@pytest.mark.slow
def test_a_quick_refund_agent_run_is_as_wanted(tmp_path: Path) -> None:
    """Every cell that the handed table and the further rows ask for comes out exactly so, in process."""
    code = command.main(["refund-agent", "--quick", "--crash", "simulated", "--out", str(tmp_path)])
    content = json.loads((tmp_path / "refund_agent.json").read_text(encoding="utf-8"))
    assert [cell for cell in content["cells"] if cell["as_wanted"] is False] == []
    assert code == 0
    assert sum(cell["as_wanted"] is True for cell in content["cells"]) >= 11 * 6


def test_a_killed_worker_leaves_what_is_wanted(tmp_path: Path) -> None:
    """A row with real processes and real SIGKILL comes out as wanted for every arm it is wanted of."""
    arguments = ["refund-agent", "--crash", "kill", "--row", "refund_during_outage", "--out", str(tmp_path)]
    assert command.main(arguments) == 0
    content = json.loads((tmp_path / "refund_agent.json").read_text(encoding="utf-8"))
    assert {cell["crash"] for cell in content["cells"]} == {"kill"}
    gate = [cell for cell in content["cells"] if cell["arm"] == "gate"]
    assert [cell["attempts"] for cell in gate] == [2, 2, 2]
    assert all(cell["settle_s"] > 0 for cell in gate)


def test_the_demo_turns_out_as_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """The demo shows $40 without the gate and $20 with it, says what changed, and is plain text."""
    assert demo.main([]) == 0
    told = capsys.readouterr().out
    assert "$40 in 2 refunds" in told
    assert "$20 in 1 refund\n" in told
    assert "refunds by others: none" in told
    assert "$20 for case 4471" in told
    assert told.isascii()
    assert "\x1b" not in told
