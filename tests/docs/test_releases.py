"""docs/releases.md says what was run, and the floors in pyproject.toml are what was run."""

from __future__ import annotations

import importlib.util
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests" / "integrations"
_spec = importlib.util.spec_from_file_location("floors", TESTS / "floors.py")
assert _spec is not None
assert _spec.loader is not None
floors: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(floors)

RECORD: dict[str, dict[str, Any]] = json.loads((TESTS / "releases.json").read_text("utf-8"))
SECTIONS: dict[tuple[str, ...], list[str]] = floors.sections((TESTS / "oldest.txt").read_text("utf-8"))
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]
NO_WRAPPER = {"stripe", "bench", "dev", "frameworks"}


def release(version: str) -> tuple[int, ...]:
    numbers = [int(part) for part in version.split(".")]
    return tuple(numbers + [0] * (3 - len(numbers)))


def pinned() -> dict[str, str]:
    """The oldest releases that are run, by package."""
    return dict(line.split("==") for lines in SECTIONS.values() for line in lines if "==" in line)


@pytest.mark.parametrize("extra", sorted(EXTRAS.keys() - NO_WRAPPER))
def test_the_floor_is_what_is_run(extra: str) -> None:
    """Each package of a wrapper's extra is run in the very release that the extra names as its oldest."""
    for requirement in EXTRAS[extra]:
        floor = requirement.partition(">=")[2].partition(",")[0]
        name = floors.name_of(requirement)
        assert release(pinned()[name]) == release(floor), f"{name}: oldest.txt has another release than pyproject.toml"


def test_every_folder_of_a_wrapper_is_run() -> None:
    """No folder of a wrapper's tests is left out of the runs with the oldest releases."""
    folders = {path.parent.name for path in TESTS.glob("*/test_*.py")} - {"tools"}  # tool loops need no framework
    assert folders == {folder for section in SECTIONS for folder in section}


@pytest.mark.parametrize("section", SECTIONS, ids=" ".join)
def test_the_record_is_of_these_releases_and_nothing_failed(section: tuple[str, ...]) -> None:
    """What is recorded as the oldest run was run with the pinned releases, all of the folder, and passed."""
    found = RECORD[f"{' '.join(section)}: oldest"]
    pins = dict(line.split("==") for line in SECTIONS[section] if "==" in line)
    assert {name: found["versions"][name] for name in pins} == pins
    assert (found["passes"], found["failed"]) == (True, 0)
    assert found["passed"] > 10


def test_the_page_is_that_of_the_record() -> None:
    """docs/releases.md is generated from the record, and nobody wrote into it by hand."""
    assert (ROOT / "docs" / "releases.md").read_text("utf-8") == floors.page(RECORD)
