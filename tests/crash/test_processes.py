"""Real processes, really killed and really stopped. The truth is the service's own ledger."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock import Interlock
from tests.crash.worker import Service

WORKER = Path(__file__).with_name("worker.py")
TIERS = pytest.mark.parametrize("tier", [1, 2, 3])


def start(directory: Path, tier: int, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start a worker."""
    command = [sys.executable, str(WORKER), str(directory), str(tier), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | environment)


def run(directory: Path, tier: int, *arguments: str, **environment: str) -> tuple[int, list[str]]:
    """Run a worker to its end; its return code and what it reported."""
    process = start(directory, tier, *arguments, **environment)
    output, _ = process.communicate(timeout=60)
    return process.returncode, [line for line in output.splitlines() if line != "sending"]


@contextlib.contextmanager
def running(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """A worker that does not outlive its test."""
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
        process.kill()
        process.communicate(timeout=30)


def landed(directory: Path) -> list[str]:
    """The orders on the service's ledger."""
    return [entry["order"] for entry in Service(directory / "ledger").entries()]


def verified(directory: Path) -> bool:
    """Whether the journal holds together."""
    with Interlock(directory / "journal") as gate:
        return gate.journal.verify().ok


@pytest.mark.parametrize(
    ("tier", "where", "recovered", "money"),
    [
        (1, "before_send", "COMMITTED_BY_RETRY", 1),
        (1, "after_send", "COMMITTED_BY_RETRY", 1),
        (2, "before_send", "REAPPLIED_AFTER_QUERY", 1),
        (2, "after_send", "COMMITTED_ON_QUERY", 1),
        (3, "before_send", "AMBIGUOUS", 0),
        (3, "after_send", "AMBIGUOUS", 1),
    ],
)
def test_killed_in_the_send(tmp_path: Path, tier: int, where: str, recovered: str, money: int) -> None:
    """SIGKILL right before and right after the send: the next process settles it as the tier allows, and it landed once."""
    code, _ = run(tmp_path, tier, "submit", "881", KILL=where)
    assert code == -signal.SIGKILL
    assert run(tmp_path, tier, "recover") == (0, [recovered])
    assert len(landed(tmp_path)) == money
    again = "AMBIGUOUS" if tier == 3 else "DUPLICATE_IGNORED"
    assert run(tmp_path, tier, "submit", "881") == (0, [again])
    assert len(landed(tmp_path)) == money
    assert verified(tmp_path)


@pytest.mark.parametrize("tier", [1, 2])
def test_recoveries_that_are_killed_again_and_again(tmp_path: Path, tier: int) -> None:
    """Every recovery is killed in its send too, before and after in turn; the one that is not killed settles it, once."""
    run(tmp_path, tier, "submit", "881", KILL="before_send")
    for where in ("before_send", "before_send", "after_send", "before_send"):
        run(tmp_path, tier, "recover", KILL=where)
    run(tmp_path, tier, "recover")
    assert run(tmp_path, tier, "submit", "881") == (0, ["DUPLICATE_IGNORED"])
    assert landed(tmp_path) == ["881"]
    assert verified(tmp_path)


@TIERS
def test_a_stopped_sender_keeps_its_claim(tmp_path: Path, tier: int) -> None:
    """SIGSTOP in the middle of a send: another process waits as long as it takes; after SIGCONT there is one effect."""
    with running(start(tmp_path, tier, "submit", "881", HOLD="0.3")) as sender:
        assert sender.stdout is not None
        assert sender.stdout.readline() == "sending\n"
        sender.send_signal(signal.SIGSTOP)
        with running(start(tmp_path, tier, "submit", "881")) as other:
            with pytest.raises(subprocess.TimeoutExpired):
                other.wait(timeout=1.5)
            assert landed(tmp_path) == []
            sender.send_signal(signal.SIGCONT)
            theirs, _ = other.communicate(timeout=30)
        ours, _ = sender.communicate(timeout=30)
    assert (ours.split(), theirs.split()) == (["COMMITTED"], ["DUPLICATE_IGNORED"])
    assert landed(tmp_path) == ["881"]


@TIERS
def test_two_processes_race_for_the_same_orders(tmp_path: Path, tier: int) -> None:
    """Two workers get the same twenty orders at the same moment: each order lands once, and both workers see it done."""
    orders = [str(number) for number in range(20)]
    with (
        running(start(tmp_path, tier, "submit", *orders)) as one,
        running(start(tmp_path, tier, "submit", *orders)) as two,
    ):
        outputs = [process.communicate(timeout=60)[0].split() for process in (one, two)]
    outcomes = [line for output in outputs for line in output if line != "sending"]
    assert sorted(landed(tmp_path)) == sorted(orders)
    assert outcomes.count("COMMITTED") == 20
    assert outcomes.count("DUPLICATE_IGNORED") == 20
    assert verified(tmp_path)


@TIERS
def test_processes_that_share_a_cap(tmp_path: Path, tier: int) -> None:
    """Three workers with orders of their own and one cap of five: five land, whoever sends them, and all others are told so."""
    with contextlib.ExitStack() as stack:
        workers = [
            stack.enter_context(
                running(start(tmp_path, tier, "submit", *(f"{name}{number}" for number in range(4)), LIMIT="5"))
            )
            for name in "abc"
        ]
        outputs = [worker.communicate(timeout=60)[0].split() for worker in workers]
    outcomes = [line for output in outputs for line in output if line != "sending"]
    assert len(landed(tmp_path)) == 5
    assert outcomes.count("COMMITTED") == 5
    assert outcomes.count("REFUSED:over_limit") == 7
    assert verified(tmp_path)


@pytest.mark.parametrize("where", ["before_send", "after_send"])
@TIERS
def test_a_killed_sender_keeps_its_part_of_a_cap(tmp_path: Path, tier: int, where: str) -> None:
    """SIGKILL around the send of the only one that fits: others are refused until it is settled, and the cap holds to the end."""
    run(tmp_path, tier, "submit", "881", LIMIT="1", KILL=where)
    assert run(tmp_path, tier, "submit", "882", LIMIT="1") == (0, ["REFUSED:over_limit"])
    run(tmp_path, tier, "recover", LIMIT="1", KILL=where)
    assert run(tmp_path, tier, "submit", "882", LIMIT="1") == (0, ["REFUSED:over_limit"])
    run(tmp_path, tier, "recover", LIMIT="1")
    assert run(tmp_path, tier, "submit", "882", LIMIT="1") == (0, ["REFUSED:over_limit"])
    assert landed(tmp_path) == ([] if tier == 3 and where == "before_send" else ["881"])
    assert verified(tmp_path)


def test_a_sender_killed_while_another_waits(tmp_path: Path) -> None:
    """The waiting process sees the sender die and settles the effect itself, without any time-out."""
    with running(start(tmp_path, 2, "submit", "881", HOLD="60")) as sender:
        assert sender.stdout is not None
        assert sender.stdout.readline() == "sending\n"
        with running(start(tmp_path, 2, "submit", "881")) as other:
            with pytest.raises(subprocess.TimeoutExpired):
                other.wait(timeout=1)
            sender.kill()
            theirs, _ = other.communicate(timeout=30)
    assert theirs.split() == ["sending", "REAPPLIED_AFTER_QUERY"]
    assert landed(tmp_path) == ["881"]
