"""The command itself: exit codes, what is printed when there is nothing to look at, a reader that goes away, the version."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock.cli import main


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "interlock.cli", *arguments]
    return subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_place_without_python_is_no_clean_project(form: list[str], tmp_path: Path, capsys: Any) -> None:
    """Where no Python file is found, nothing was looked at: that is said, and the exit code is that of bad usage."""
    (tmp_path / "README.md").write_text("")
    assert main(["init", str(tmp_path), *form]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "no Python file" in told.err
    assert str(tmp_path) in told.err


def test_a_place_with_tests_alone_names_the_option(tmp_path: Path, capsys: Any) -> None:
    """A folder of tests is no clean project either; the message names `--tests`, which looks at them."""
    (tmp_path / "test_shop.py").write_text("x = 1\n")
    assert main(["init", str(tmp_path)]) == 2
    assert "--tests" in capsys.readouterr().err
    assert main(["init", str(tmp_path), "--tests"]) == 0


def test_a_project_of_which_nothing_can_be_read_is_not_clean(tmp_path: Path, capsys: Any) -> None:
    """Where every file is broken nothing was looked at; each is named."""
    (tmp_path / "shop.py").write_text("def broken(:\n")
    assert main(["init", str(tmp_path)]) == 2
    assert "shop.py:1: cannot be read: invalid syntax\n" in capsys.readouterr().err


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """A pipe that is called like a Python file has no end to wait for."""
    os.mkfifo(tmp_path / "shop.py")
    (tmp_path / "cart.py").write_text("x = 1\n")
    assert run("init", str(tmp_path)).returncode == 0


def test_a_file_that_is_no_python_is_bad_usage(tmp_path: Path, capsys: Any) -> None:
    """A file of another kind is not looked at, so it is not clean."""
    (tmp_path / "shop.txt").write_text("requests.post('u')\n")
    assert main(["init", str(tmp_path / "shop.txt")]) == 2
    assert "no Python file" in capsys.readouterr().err


def test_help_says_what_the_exit_codes_mean(capsys: Any) -> None:
    """Whoever runs it in CI finds the codes in the help."""
    with pytest.raises(SystemExit):
        main(["init", "--help"])
    told = capsys.readouterr().out
    assert "exit codes" in told
    assert all(f"\n  {code} " in told for code in (0, 1, 2))


@pytest.mark.parametrize(("files", "told"), [(1, "Looked at 1 Python file;"), (2, "Looked at 2 Python files;")])
def test_the_first_line_counts_the_files(tmp_path: Path, capsys: Any, files: int, told: str) -> None:
    """How many files were looked at, in plain words."""
    for n in range(files):
        (tmp_path / f"a{n}.py").write_text("x = 1\n")
    main(["init", str(tmp_path)])
    assert capsys.readouterr().out.startswith(told)


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    """`interlock init . | head` ends without a traceback, and with the code of what was found."""
    for n in range(400):
        (tmp_path / f"a{n}.py").write_text("def act(order_id):\n    requests.post(order_id)\n")
    program = [sys.executable, "-m", "interlock.cli", "init", str(tmp_path)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        told = running.stderr.read()
        assert running.wait(timeout=60) == 1
    assert told == ""


def test_version() -> None:
    """The version is that of the installed distribution, in Python and on the command line."""
    assert interlock.__version__ == version("interlock-gate")
    assert run("--version").stdout == f"interlock {version('interlock-gate')}\n"


def test_the_version_costs_the_start_nothing() -> None:
    """Until it is asked for, no metadata is read: how fast a crash is recovered from begins with the import."""
    program = (
        "import importlib.metadata as metadata; asked = []; metadata.version = lambda name: asked.append(name) or '9'\n"
        "import interlock, json; before = len(asked); print(json.dumps([before, interlock.__version__, asked]))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(ended.stdout) == [0, "9", ["interlock-gate"]]
