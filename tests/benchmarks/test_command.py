from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.harness.document import Cell, Document, Report, Verdict, Wanted
from benchmarks.harness.progress import PlainProgress, Progress, choose
from benchmarks.harness.suite import Options, Suite

WANTED = Wanted(outcome="COMMITTED", money_minor=2000, verdict=Verdict.HELD)


def suite(money_minor: int) -> Suite:
    def run(options: Options, progress: Progress) -> Document:
        progress.begin("sample", 1)
        progress.step("the only one")
        planted = Cell(
            row="happy_path",
            arm="gate",
            tier=1,
            outcome="COMMITTED",
            money_minor=money_minor,
            verdict=Verdict.HELD,
            wanted=WANTED,
        )
        return Document(
            name="sample", meta={"command": options.command}, report=Report(title="Sample"), cells=[planted]
        )

    return Suite(name="sample", run=run)


def test_a_planted_wrong_cell_makes_the_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One cell that differs from what is wanted makes the command exit 1, and the command names it."""
    assert command.run(suite(2000), ["--out", str(tmp_path)]) == 0
    assert command.run(suite(4000), ["--out", str(tmp_path)]) == 1
    assert "NOT AS WANTED  happy_path, gate@tier1" in capsys.readouterr().out


def test_out_names_a_file_or_a_directory(tmp_path: Path) -> None:
    """`--out` takes the JSON file itself, or the directory it goes to; the page lies beside it."""
    command.run(suite(2000), ["--quick", "--out", str(tmp_path / "some.json")])
    command.run(suite(2000), ["--out", str(tmp_path / "there")])
    for file in (tmp_path / "some.json", tmp_path / "there" / "sample.json"):
        assert json.loads(file.read_text(encoding="utf-8"))["holds"]
        assert file.with_suffix(".md").exists()


def test_only_a_whole_run_replaces_a_committed_result() -> None:
    """Without `--out` a quick run, or a part of a suite, writes outside of results/."""
    assert command._target("sample", None, whole=False).parent != command.ROOT / "results"
    assert command._target("sample", None, whole=True) == command.ROOT / "results" / "sample.json"


def test_the_recorded_command_is_without_the_place_of_its_output(tmp_path: Path) -> None:
    """The meta's command line holds what shaped the run, not where it was written."""
    command.run(suite(2000), ["--seed", "3", "--out", str(tmp_path)])
    content = json.loads((tmp_path / "sample.json").read_text(encoding="utf-8"))
    assert content["meta"]["command"] == "python -m benchmarks sample --seed 3"


def test_a_full_disk_leaves_the_result_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A result that cannot be written whole does not take the place of the old one; the command says so, and what it would have said."""
    command.run(suite(2000), ["--out", str(tmp_path)])
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    def full(file: Path, text: str, **more: object) -> int:
        file.write_bytes(text[:10].encode())
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    assert command.run(suite(4000), ["--out", str(tmp_path)]) == command.CANNOT_RUN
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    assert "No space left on device" in capsys.readouterr().err


def test_a_run_does_not_begin_where_its_result_cannot_go(capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is played it is tried whether something can be written there."""
    assert command.run(suite(2000), ["--out", "/proc/no/such"]) == command.CANNOT_RUN
    told = capsys.readouterr()
    assert "--out /proc/no/such" in told.err
    assert "to run" not in told.err


def test_an_interrupt_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C ends with a line and its own code, not with a trace."""

    def stopped(options: Options, progress: Progress) -> Document:
        raise KeyboardInterrupt

    assert command.run(Suite(name="sample", run=stopped), ["--out", str(tmp_path)]) == command.INTERRUPTED
    assert "interrupted" in capsys.readouterr().err


def test_progress_is_plain_where_there_is_no_terminal() -> None:
    """Without a terminal no display moves: a few plain lines are all."""
    assert isinstance(choose(), PlainProgress)
