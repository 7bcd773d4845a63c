"""Which keys and which doubles the contract accepts, before anything is sent."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.stripe import doubles

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


@pytest.mark.parametrize("prefix", ["sk_live_", "rk_live_"])
def test_a_live_key_is_refused_by_name_and_never_repeated(root: Path, prefix: str) -> None:
    """The run ends before a test begins, names the kind of key, and does not print the rest of it."""
    done = collected(root, STRIPE_API_KEY=f"{prefix}51Secret")
    assert done.returncode != 0
    assert f"a live key ({prefix}...)" in done.stdout
    assert "51Secret" not in done.stdout + done.stderr


def test_a_key_of_no_known_kind_is_refused(root: Path) -> None:
    """A publishable key, or anything else that is not sk_test_..., ends the run too."""
    done = collected(root, STRIPE_API_KEY="pk_test_51Public")
    assert done.returncode != 0
    assert "sk_test_" in done.stdout


def test_with_a_test_key_every_test_runs_live_as_well(root: Path) -> None:
    """Without a key there is the local variant; with one there are both."""
    assert re.findall(r"\[(\S+)\]", collected(root).stdout) == ["local"]
    assert re.findall(r"\[(\S+)\]", collected(root, STRIPE_API_KEY="sk_test_51Fake").stdout) == ["local", "live"]


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
