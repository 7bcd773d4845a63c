"""A server that a benchmark needs beside its workers: a foreign program that is started, waited for, and ends with this process.

Owns the life of one such program. Must not know what it serves.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.harness.suite import CannotRun

GUARD = '"$@" </dev/null & child=$!; read -r _; kill -KILL $child 2>/dev/null; wait $child 2>/dev/null'
"""A shell that holds the program: once its standard input ends, as it does when the harness dies, it ends the program."""


class Server:
    """One program on loopback. `close` ends it; so does the death of this process, SIGKILL included.

    Args:
        command: The program and its arguments.
        cwd: Where it runs.
        env: Its environment; by default this process's.
        log: The file that gets what it writes; by default nobody does.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        log: Path | None = None,
    ) -> None:
        self._name = Path(command[0]).name
        with contextlib.ExitStack() as files:
            out = subprocess.DEVNULL if log is None else files.enter_context(log.open("ab"))
            # A group of its own: Ctrl-C is for the harness, which then closes.
            self._guard = subprocess.Popen(
                ["/bin/sh", "-c", GUARD, "guard", *command],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                cwd=cwd,
                env=env,
                process_group=0,
            )

    def wait_ready(self, is_ready: Callable[[], bool], *, within_s: float = 20.0) -> None:
        """Ask until it is.

        Raises:
            CannotRun: It is not ready in time.
        """
        until = time.monotonic() + within_s
        while not is_ready():
            if time.monotonic() > until:
                self.close()
                raise CannotRun(f"{self._name} was started and is not ready after {within_s:g} s")
            time.sleep(0.05)

    def close(self) -> None:
        """End it and reap it."""
        if self._guard.stdin is not None and not self._guard.stdin.closed:
            self._guard.stdin.close()
        self._guard.wait()


def free_port() -> int:
    """A port of loopback that nobody listens on right now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def listens(port: int) -> bool:
    """Whether somebody accepts connections on this port of loopback."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
        return True
    return False
