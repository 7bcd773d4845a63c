"""A foreign program beside a benchmark ends with it, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.harness.server import Server, free_port, listens
from benchmarks.harness.suite import CannotRun

ROOT = Path(__file__).resolve().parents[2]


def served(port: int) -> list[str]:
    """A program that listens and knows nothing of us."""
    return [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]


def gone(port: int) -> bool:
    """Whether nobody listens there any more, soon."""
    until = time.monotonic() + 10
    while listens(port) and time.monotonic() < until:
        time.sleep(0.05)
    return not listens(port)


def test_close_ends_it(tmp_path: Path) -> None:
    """It is up once it has been waited for, and gone once it is closed."""
    port = free_port()
    server = Server(served(port), cwd=tmp_path)
    server.wait_ready(lambda: listens(port))
    server.close()
    assert gone(port)


def test_it_ends_with_a_killed_harness(tmp_path: Path) -> None:
    """SIGKILL of the process that started it ends it too."""
    port = free_port()
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from benchmarks.harness.server import Server, listens\n"
        "port = int(sys.argv[1])\n"
        "server = Server(sys.argv[3:], cwd=Path(sys.argv[2]))\n"
        "server.wait_ready(lambda: listens(port))\n"
        "print('up', flush=True)\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-c", script, str(port), str(tmp_path), *served(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == "up\n"
        os.kill(harness.pid, signal.SIGKILL)
    assert gone(port)


def test_what_never_comes_up_is_told(tmp_path: Path) -> None:
    """A program that is not ready in time is ended, and named."""
    with pytest.raises(CannotRun, match="sleep"):
        Server(["sleep", "30"], cwd=tmp_path).wait_ready(lambda: False, within_s=0.2)
