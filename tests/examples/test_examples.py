"""Every example runs as its page says, offline, and tells what it should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.services.restate import MISSING, find_server

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
STORIES = sorted(path.parent.name for path in EXAMPLES.glob("*/main.py"))
ENDS_WITH = {
    "refund": "refunded in all: $20",
    "adk": "refunded exactly once: 2 of 2",
    "agno": "refunded exactly once: 2 of 2",
    "stripe_refund": "as wanted: 14 of 14",
    "langchain": "refunded exactly once: 2 of 2",
    "openai_agents": "refunded exactly once: 2 of 2",
    "pydantic_ai": "gated: refunds of one approval: 1",
    "tool_loop": "refunded exactly once: 2 of 2",
    "mcp_proxy": "refunded exactly once: 2 of 2",
    "langgraph": "refunded exactly once: 2 of 2",
    "anthropic_runner": "refunded exactly once: 2 of 2",
    "openai_runner": "refunded exactly once: 2 of 2",
    "fastmcp": "refunded exactly once: 2 of 2",
    "temporal": "refunded exactly once: 2 of 2",
    "dbos": "refunded exactly once: 2 of 2",
    "restate": "refunded exactly once: 2 of 2",
    "mail": "mails that left: ['ada', 'bob']",
}


@pytest.mark.parametrize("story", STORIES)
def test_example_tells_its_story(story: str) -> None:
    """An example runs to its end, and its last line is the one that matters."""
    if story == "restate" and find_server() is None:
        pytest.skip(MISSING)
    command = [sys.executable, "-W", "error", str(EXAMPLES / story / "main.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == ENDS_WITH[story]


@pytest.mark.parametrize("story", STORIES)
def test_example_is_short(story: str) -> None:
    """Each file of an example is at most 80 lines."""
    for path in (EXAMPLES / story).glob("*.py"):
        assert len(path.read_text("utf-8").splitlines()) <= 80, path.name


def test_every_folder_is_a_story() -> None:
    """Each folder of examples has a `main.py`, a row on the page, and an expectation here."""
    folders = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__")
    page = (EXAMPLES / "README.md").read_text("utf-8")
    assert folders == STORIES == sorted(ENDS_WITH)
    assert all(f"({story}/main.py)" in page for story in STORIES)
