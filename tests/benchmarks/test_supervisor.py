from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.harness.supervisor import Supervisor, WorkerError

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
WAITS_FOR_A_JOB = "benchmarks.suites.refund_agent.worker"
EXITS_BY_ITSELF = "platform"


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    with Supervisor(limit=3) as supervisor:
        yield supervisor


def test_a_killed_worker_is_seen_to_die(supervisor: Supervisor) -> None:
    """Death by SIGKILL is reported, with a moment that is not before the kill."""
    worker = supervisor.start(WAITS_FOR_A_JOB)
    before = time.monotonic()
    worker.kill()
    assert before <= worker.wait_killed() <= time.monotonic()


def test_an_ordinary_exit_is_not_taken_for_a_kill(supervisor: Supervisor) -> None:
    """A worker that ends by itself did not crash as planned: the suite must not go on as if it had."""
    with pytest.raises(WorkerError, match="exited with 0"):
        supervisor.start(EXITS_BY_ITSELF).wait_killed()


def test_a_silent_worker_is_reported(supervisor: Supervisor) -> None:
    """Waiting for an answer is bounded."""
    with pytest.raises(WorkerError, match="said nothing"):
        supervisor.start(WAITS_FOR_A_JOB).receive(timeout_s=0.1)


def test_a_stopped_worker_stands_and_is_still_ended(supervisor: Supervisor) -> None:
    """SIGSTOP is seen to have worked, a stopped worker lives, and closing ends it all the same."""
    worker = supervisor.start(WAITS_FOR_A_JOB)
    worker.stop()
    assert worker.is_live
    supervisor.close()
    assert not worker.is_live


def test_restarts_are_bounded(supervisor: Supervisor) -> None:
    """A case that never settles ends in an error, not in an endless loop of restarts."""
    for _ in range(3):
        supervisor.start(WAITS_FOR_A_JOB)
    with pytest.raises(WorkerError, match="3 workers"):
        supervisor.start(WAITS_FOR_A_JOB)


def test_a_worker_runs_python_as_its_user_does() -> None:
    """No worker switches off the garbage collector: collections during imports cost most the arm that imports most, which is the gate's."""
    workers = [path for path in BENCHMARKS.rglob("*.py") if "gc.disable" in path.read_text(encoding="utf-8")]
    assert workers == []


def test_no_process_is_left_behind() -> None:
    """After the supervisor is closed none of its processes exists any more, whatever state they were in."""
    with Supervisor() as supervisor:
        workers = [supervisor.start(WAITS_FOR_A_JOB) for _ in range(3)]
        workers[0].kill()
        workers[1].stop()
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker.pid, 0)


def test_a_busy_worker_ends_with_its_supervisor_too(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that waits for something else, as for a server that died with the harness, does not stay until its alarm."""
    (tmp_path / "busy_worker.py").write_text(
        "import time\nfrom benchmarks.harness.supervisor import live_with_supervisor\n"
        "live_with_supervisor()\nprint('{}', flush=True)\ntime.sleep(60)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    worker = supervisor.start("busy_worker")
    worker.receive()
    worker.close_input()
    worker.wait_ended(10.0)
    assert not worker.is_live


def test_a_worker_ends_with_its_supervisor(supervisor: Supervisor) -> None:
    """A worker whose input closes ends by itself, so that a killed supervisor leaves nothing behind either."""
    worker = supervisor.start(WAITS_FOR_A_JOB)
    worker.close_input()
    worker.wait_ended(10.0)
    assert not worker.is_live
