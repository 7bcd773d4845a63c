"""The commands of the house: what the Makefile offers, and what CI calls."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

TARGETS = {"help", "setup", "demo", "test", "check", "crash", "bench", "doubles", "contract", "floors", "restate"}


def make(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run make as a person would, also when make runs these tests."""
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return subprocess.run(["make", *arguments], cwd=cwd, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def makefile(root: Path) -> str:
    """The Makefile's text."""
    return (root / "Makefile").read_text("utf-8")


def test_help_lists_every_target(root: Path, makefile: str) -> None:
    """`make` alone lists all targets, each with a sentence."""
    assert set(re.findall(r"^\.PHONY: (\S+)$", makefile, re.MULTILINE)) == TARGETS
    listed = make(cwd=root).stdout
    assert {line.split()[1] for line in listed.splitlines() if len(line.split()) > 2} == TARGETS


def test_every_target_makes_sure_of_the_environment(makefile: str) -> None:
    """Each target but `help` depends on the stamp of `setup`, so no command has to be run first."""
    for target in TARGETS - {"help"}:
        assert re.search(rf"^{target}: \$\(STAMP\)", makefile, re.MULTILINE), target


def test_old_python_is_refused_with_a_remedy(root: Path, tmp_path: Path) -> None:
    """Where `PYTHON` is older than 3.11, setup stops before it makes anything, and says what to do."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(root / name, tmp_path / name)
    old = tmp_path / "python-old"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && { echo "Python 3.9.2"; exit 0; }\nexit 1\n')
    old.chmod(0o755)
    done = make("setup", f"PYTHON={old}", cwd=tmp_path)
    assert done.returncode != 0
    assert "Python 3.11 or newer is needed" in done.stderr
    assert "Python 3.9.2" in done.stderr
    assert "make setup PYTHON=" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_ci_runs_the_test_command(root: Path) -> None:
    """CI calls `make test`, the command that the README gives, and nothing else."""
    lines = (root / ".ci" / "run").read_text("utf-8").splitlines()
    commands = [line for line in lines if line and not line.startswith(("#", "set ", "cd "))]
    assert commands == ["exec make test"]
    assert (root / ".ci" / "run").stat().st_mode & 0o111
