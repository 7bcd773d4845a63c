"""Real worker processes: started, killed, watched as they die, started again, and never left behind.

Owns the life of every process a suite starts. Must not know what the workers do: a worker is a Python module that reads
JSON lines and writes JSON lines, and dies when its supervisor does.

    supervisor                          worker
    start(module) ------ process ----->  imports
    send(job) ---------- a line ------>  works
                                         SIGKILL by itself, in the middle of its send
    wait_killed() <----- the kernel says so, with the moment
    start(module) ------ a new one --->  picks the case up
    receive() <--------- a line --------  its answer
    close()              whatever still lives is ended by its pid and reaped
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

MAX_LIFE_S = 120
"""No worker outlives this, whatever happens to its supervisor: it sets an alarm that ends it."""

GRACE_S = 1.0
"""How long a worker whose supervisor is gone may take to end by itself."""


_ROOT = Path(__file__).resolve().parents[2]


class WorkerError(RuntimeError):
    """A worker did not do what the suite relied on; the message says what it did instead."""


class Worker:
    """One real process and the two pipes to it."""

    def __init__(self, module: str) -> None:
        self.module = module
        # Workers run from cached bytecode, as an installed program does: their start is part of what is measured.
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=_ROOT
        )
        self._pending = b""

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def is_live(self) -> bool:
        """Whether the process has not ended yet; a stopped one lives."""
        return self._process.poll() is None

    @property
    def is_killed(self) -> bool:
        """Whether it has died by SIGKILL."""
        return self._process.poll() == -signal.SIGKILL

    def send(self, message: Mapping[str, Any]) -> None:
        """Hand the worker one message."""
        pipe = _pipe(self._process.stdin)
        pipe.write(json.dumps(message).encode() + b"\n")
        pipe.flush()

    def receive(self, timeout_s: float = 30.0) -> dict[str, Any]:
        """The worker's next message.

        Raises:
            WorkerError: It ended, or said nothing in time.
        """
        pipe = _pipe(self._process.stdout)
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                raise WorkerError(f"{self._name} said nothing for {timeout_s} s")
            part = os.read(pipe.fileno(), 65536)
            if not part:
                raise WorkerError(f"{self._name} ended without an answer, {self._ending()}")
            self._pending += part
        line, _, self._pending = self._pending.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def wait_killed(self, timeout_s: float = 30.0) -> float:
        """Wait until the kernel reports the process dead by SIGKILL; returns the monotonic time of that report.

        Raises:
            WorkerError: It lives on, or ended in any other way: then the crash the suite counts on did not happen.
        """
        self._wait(timeout_s)
        moment = time.monotonic()
        if self._process.returncode != -signal.SIGKILL:
            raise WorkerError(f"{self._name} was to die by SIGKILL, {self._ending()}")
        return moment

    def wait_stopped(self, timeout_s: float = 30.0) -> None:
        """Wait until the kernel reports the process stopped."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            state = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if state is not None and state.si_code == os.CLD_STOPPED:
                return
            if state is not None:
                raise WorkerError(f"{self._name} was to be stopped, but ended")
            time.sleep(0.005)
        raise WorkerError(f"{self._name} was not stopped within {timeout_s} s")

    def kill(self) -> None:
        """SIGKILL it, by its pid."""
        self._process.send_signal(signal.SIGKILL)

    def stop(self) -> None:
        """SIGSTOP it, and wait until it stands."""
        self._process.send_signal(signal.SIGSTOP)
        self.wait_stopped()

    def resume(self) -> None:
        """SIGCONT it."""
        self._process.send_signal(signal.SIGCONT)

    def close_input(self) -> None:
        """Close the pipe to it, as the kernel does when its supervisor dies."""
        _pipe(self._process.stdin).close()

    def wait_ended(self, timeout_s: float) -> int:
        """Wait until it has ended in whatever way; returns its exit code."""
        return self._process.wait(timeout_s)

    def close(self) -> None:
        """End it if it lives, stopped or not, and reap it."""
        if self.is_live:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    @property
    def _name(self) -> str:
        return f"worker {self.pid} ({self.module})"

    def _ending(self) -> str:
        try:
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return "but lives on"
        return f"but ended by {signal.Signals(-code).name}" if code < 0 else f"but exited with {code}"

    def _wait(self, timeout_s: float) -> None:
        # A pidfd becomes readable at death, so the moment is the kernel's and not that of a polling loop.
        if hasattr(os, "pidfd_open") and self._process.returncode is None:
            descriptor = os.pidfd_open(self.pid)
            try:
                select.select([descriptor], [], [], timeout_s)
            finally:
                os.close(descriptor)
            timeout_s = 1.0
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise WorkerError(f"{self._name} was to die by SIGKILL, but lives on") from None


class Supervisor:
    """Starts workers, at most `limit` of them, and leaves none behind.

    **If the process dies**: the workers' input closes with it, which ends them within `GRACE_S`, whatever they are busy with.
    """

    def __init__(self, *, limit: int = 8) -> None:
        self._limit = limit
        self._workers: list[Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def started(self) -> int:
        """How many workers were started so far: the attempts of a case."""
        return len(self._workers)

    def start(self, module: str) -> Worker:
        """A new worker process.

        Raises:
            WorkerError: The limit is reached: a case that needs more restarts than that never settles.
        """
        if len(self._workers) >= self._limit:
            raise WorkerError(f"{self._limit} workers were started for one case, and it is still not settled")
        worker = Worker(module)
        self._workers.append(worker)
        return worker

    def close(self) -> None:
        """End whatever still lives, and reap everything."""
        for worker in self._workers:
            worker.close()


def live_with_supervisor() -> None:
    """Called first in a worker: end soon after the supervisor is gone, also out of a wait for something else, and by alarm in any case."""
    signal.alarm(MAX_LIFE_S)
    threading.Thread(target=_end_with_input, daemon=True).start()


def _end_with_input() -> None:
    """End this process once nobody can write to its standard input any more. Reads nothing of it."""
    waiting = select.poll()
    waiting.register(0, 0)  # the end of a pipe is told without being asked for
    waiting.poll()
    time.sleep(GRACE_S)
    os._exit(1)


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise WorkerError("the worker has no pipe")
    return pipe
