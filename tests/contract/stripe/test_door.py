"""Which keys and which doubles the contract accepts, before anything is sent."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness.stripe_wire import KeyRefused
from tests.contract.stripe import conftest, doubles

HERE = Path(__file__).resolve().parent
QUICK = "tests/contract/stripe/test_events.py::test_an_event_that_is_not_there_is_resource_missing"


def collected(root: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """What pytest would run with these variables. It collects and sends nothing."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("STRIPE_", "PYTEST_"))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n0", "-p", "no:cacheprovider", QUICK],
        cwd=root,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


class Definition:
    """A test as collection sees it: what it asks for and how it is marked."""

    fixturenames = ("place",)

    def __init__(self, *marks: pytest.MarkDecorator) -> None:
        self.definition = self
        self.places: list[Any] = []
        self._marks = marks

    def iter_markers(self) -> Iterator[pytest.Mark]:
        return (one.mark for one in self._marks)

    def parametrize(self, name: str, places: list[Any], **_: Any) -> None:
        self.places = places


def places_of(*marks: pytest.MarkDecorator) -> list[Any]:
    """Where a test with these marks would run."""
    asked: Any = Definition(*marks)
    conftest.pytest_generate_tests(asked)
    return list(asked.places)


def test_a_live_key_ends_the_run_before_a_test_begins(root: Path) -> None:
    """Nothing runs with one, the message names the kind of key, and the rest of it is never printed."""
    done = collected(root, STRIPE_API_KEY="sk_live_51Secret")
    assert done.returncode != 0
    assert "a live key (sk_live_...)" in done.stdout
    assert "51Secret" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("sk_live_51Secret", "a live key (sk_live_...)"),
        ("rk_live_51Secret", "a live key (rk_live_...)"),
        ("rk_test_51Secret", "begins with sk_test_"),
        ("pk_test_51Secret", "begins with sk_test_"),
        ("nonsense51Secret", "begins with sk_test_"),
    ],
)
def test_a_key_that_is_no_test_key_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, key: str, told: str) -> None:
    """Whatever a test is marked with; the key itself is not repeated."""
    monkeypatch.setenv("STRIPE_API_KEY", key)
    for marks in ((), (pytest.mark.local_only("needs time"),)):
        with pytest.raises(KeyRefused) as caught:
            places_of(*marks)
        assert told in str(caught.value)
        assert "51Secret" not in str(caught.value)


def test_with_a_test_key_every_test_runs_live_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key there is the local variant; with one there are both, except where faults or time are needed."""
    monkeypatch.delenv("STRIPE_API_KEY", raising=False)
    assert places_of() == ["local"]
    monkeypatch.setenv("STRIPE_API_KEY", "sk_test_51Fake")
    assert places_of() == ["local", "live"]
    assert places_of(pytest.mark.local_only("needs time")) == ["local"]


def test_doubles_that_are_required_and_missing_fail_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`make contract` does not pass for lack of a double; the message says what to do. `none` and `auto` leave it out."""
    monkeypatch.setattr(doubles, "_STATEFUL", tmp_path / "none")
    monkeypatch.setattr(doubles, "_LOCALSTRIPE", tmp_path / "none")
    monkeypatch.setenv(doubles.VARIABLE, "required")
    with pytest.raises(doubles.NotInstalled, match="make doubles"):
        doubles.chosen()
    for word in ("auto", "none"):
        monkeypatch.setenv(doubles.VARIABLE, word)
        assert doubles.chosen() == ()
    monkeypatch.setenv(doubles.VARIABLE, "perhaps")
    with pytest.raises(ValueError, match="perhaps"):
        doubles.chosen()


def test_every_disagreement_is_decided_in_writing() -> None:
    """Each `disagrees=` of a test has its entry in DISAGREEMENTS.md, with a page; and each entry has its test."""
    marked: set[str] = set()
    for path in HERE.glob("test_*.py"):
        if path.name != Path(__file__).name:
            marked |= set(re.findall(r'disagrees="(D\d+)"', path.read_text("utf-8")))
    written = dict(re.findall(r"^\| (D\d+) \|(.*)$", (HERE / "DISAGREEMENTS.md").read_text("utf-8"), re.MULTILINE))
    assert marked == set(written)
    for name, row in written.items():
        assert "docs.stripe.com/" in row, name
