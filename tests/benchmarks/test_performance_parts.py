"""The parts of `python -m benchmarks performance`: what they count and compare must be what they say."""

from __future__ import annotations

import argparse
import io
import shutil
from pathlib import Path

import pytest

from benchmarks.harness.progress import PlainProgress
from benchmarks.harness.suite import Options
from benchmarks.performance import floor, fsyncs, scale, suite, throughput
from benchmarks.performance.fill import ORDER, fill
from benchmarks.performance.sample import median, quantile
from benchmarks.performance.subject import declared, opened
from interlock import Interlock
from interlock.journal import SQLiteJournal


def test_a_filled_journal_verifies_and_goes_on(tmp_path: Path) -> None:
    """A journal filled in bulk passes verify(), answers for its effects as the gate would, and takes new ones."""
    fill(tmp_path, 300)
    with opened(tmp_path) as subject:
        assert str(subject.null(ORDER % 299, amount=2000)) == "DUPLICATE_IGNORED"
        assert str(subject.null(ORDER % 299, amount=1)) == "REFUSED:conflicting_payload"
        assert str(subject.null("another", amount=1)) == "COMMITTED"
        found = subject.gate.journal.verify()
    assert found.problems == ()
    assert found.effects == 301


@pytest.mark.parametrize("way", ["strace", "shim"])
def test_two_fsyncs_an_effect_by_each_way(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way of counting, alone, sees exactly two fsyncs an effect, all of the log."""
    if shutil.which("strace" if way == "strace" else "cc") is None:
        pytest.skip(f"nothing to count by {way} on this machine")
    monkeypatch.setattr(fsyncs, "WAYS", {way: fsyncs.WAYS[way]})
    found = fsyncs.count(tmp_path, stretch=20, long=10)
    assert found.per_effect == 2
    assert set(found.stretch) == {fsyncs.LOG}


def test_where_nothing_counts_the_verdict_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without strace and without a compiler nothing is claimed: unknown, with the reason."""
    monkeypatch.setattr(shutil, "which", lambda name: None)
    (measure,), sentence = fsyncs.measure(tmp_path)
    assert measure.holds is None
    assert "UNKNOWN" in measure.unit
    assert sentence == "Fsyncs an effect: unknown, since strace is not installed; no C compiler."


def test_a_checkpoint_in_the_stretch_is_seen() -> None:
    """An fsync of the database file is a checkpoint, counted apart by the marks around it; a part of a run is refused."""
    lines = [
        "7 fdatasync(4</d/journal.db-wal>) = 0",
        "7 fsync(5</d/mark-stretch>) = 0",
        "7 fdatasync(4</d/journal.db-wal> <unfinished ...>",
        "7 <... fdatasync resumed>) = 0",
        "7 fsync(5</d/mark-long>) = 0",
        "7 fdatasync(4</d/journal.db-wal>) = 0",
        "7 fdatasync(3</d/journal.db>) = 0",
        "7 fsync(5</d/mark-end>) = 0",
    ]
    found = fsyncs.read("strace", lines, (1, 1))
    assert found.stretch == ("journal.db-wal",)
    assert found.checkpoints == 1
    with pytest.raises(fsyncs.CannotCount):
        fsyncs.read("strace", lines[:-1], (1, 1))


@pytest.mark.parametrize(
    ("disk", "memory", "holds"),
    [
        ((4500.0, 0.0002), (6000.0, 0.00001), True),
        ((4500.0, 0.00005), (6000.0, 0.00001), None),
        ((2000.0, 0.00005), None, False),
        ((2000.0, 0.0002), (3000.0, 0.00001), False),
        ((2000.0, 0.0002), (5000.0, 0.00001), None),
        ((2000.0, 0.0002), None, None),
    ],
)
def test_four_thousand_a_second_is_shown_or_refuted_never_computed(
    disk: tuple[float, float], memory: tuple[float, float] | None, holds: bool | None
) -> None:
    """It holds where a disk no faster than the one named gives it, fails where a faster one does not, else it is unknown."""

    def rounds(per_s: float, commit_s: float) -> throughput.Rounds:
        return throughput.Rounds({"8 threads": [per_s]}, [commit_s])

    ceiling = None if memory is None else rounds(*memory)
    assert throughput.against_4000(rounds(*disk), ceiling)[0] is holds


@pytest.mark.parametrize("way", throughput.WAYS, ids=lambda way: way.name)
def test_every_way_makes_effects(way: throughput.Way, tmp_path: Path) -> None:
    """Every way of making effects finishes and counts what stands on the journal."""
    with opened(tmp_path) as subject:
        per_s = way.run(subject, 0.02)
        assert per_s > 0
        assert subject.gate.journal.verify().ok


def test_pairs_are_taken_in_turn(tmp_path: Path) -> None:
    """The floor and the gate are measured equally often, each with two commits."""
    with floor.bare(tmp_path) as bare, opened(tmp_path / "journal") as subject:
        taken = floor.pairs(bare, subject, 10, warm_up=1)
        assert len(taken.floor) == len(taken.gated) == 10
        assert subject.gate.journal.verify().effects == 11


def test_a_busy_disk_gives_no_verdict() -> None:
    """A floor that others slowed down hides what the gate adds, so the ratio is neither held nor violated."""
    quiet = floor.Pairs([0.0003] * 10, [0.0006] * 10)
    assert quiet.holds is False
    assert "where one commit takes 300 us or more" in quiet.sentence
    assert floor.Pairs([0.0003] * 10, [0.0004] * 10).holds is True
    busy = floor.Pairs([0.0003] * 4 + [0.008] * 6, [0.008] * 10)
    assert busy.holds is None
    assert busy.sentence.endswith("no verdict.")


def test_recovery_is_timed_over_effects_that_are_open(tmp_path: Path) -> None:
    """The effects left open are open to a new gate, and all of them are settled in the time that is taken."""
    scale.leave_open(tmp_path, 3)
    journal = SQLiteJournal(tmp_path)
    assert len(journal.open_effects()) == 3
    journal.close()
    gate = Interlock(tmp_path)
    declared(gate, dies=False)
    assert [str(outcome) for outcome in gate.recover()] == ["COMMITTED_BY_RETRY"] * 3
    gate.close()
    assert scale.recover_s(tmp_path, 2) > 0


def test_samples() -> None:
    """Medians and nearest-rank quantiles, also of a single value."""
    assert median([3.0, 1.0, 2.0]) == 2.0
    assert quantile([1.0], 0.99) == 1.0
    assert quantile([float(value) for value in range(100)], 0.99) == 99.0


def test_a_part_is_not_the_whole() -> None:
    """A run of one part says so, so that it cannot replace a committed result; and it tells where it measured."""
    parser = argparse.ArgumentParser()
    suite.add_arguments(parser)
    options = Options(quick=True, seed=0, command="", more=parser.parse_args(["--part", "fsyncs"]))
    document = suite.run(options, PlainProgress(io.StringIO()))
    assert not document.is_whole
    assert document.holds
    assert document.meta["file_system"] not in ("", "?")
