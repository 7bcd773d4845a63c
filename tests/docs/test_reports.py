"""docs/reports.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
CONTRACT = TESTS.parent / "interlock" / "testing" / "integration.py"


def test_every_test_that_the_page_names_exists() -> None:
    """Each named test stands in its file, or comes with the contract that the file's classes inherit."""
    named: list[tuple[str, str]] = []
    for row in (TESTS.parent / "docs" / "reports.md").read_text("utf-8").splitlines():
        file = ""
        for quoted in re.findall(r"`([^`]*::test_\w+)[^`]*`", row):
            path, _, test = quoted.partition("::")
            test = test.rpartition("::")[2]  # a class may stand between
            file = path or file
            named.append((file, test))
    assert len(named) > 20
    for file, test in named:
        text = (TESTS / file).read_text("utf-8")
        inherited = CONTRACT.read_text("utf-8") if "IntegrationContract" in text else ""
        assert re.search(rf"def {test}\b", text + inherited), f"{file}::{test} does not exist"
