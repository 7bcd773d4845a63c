"""Proxies that start without importing anything: a process that has everything loaded forks one for each start.

    python nursery.py SOCKET                        the process that forks; one for each run of pytest
    python -S -E nursery.py SOCKET ARGUMENT ...     in the place of `python -m interlock.mcp_proxy ARGUMENT ...`

The second stands in for the proxy in its client's eyes: it hands over its own standard streams, its environment and its arguments, hands
on a signal, dies by the signal by which the proxy died, and takes the proxy with it when it is killed. Owns that; knows nothing of a test.
What is forked is the proxy's own `main`, in a process of its own, with a journal that it opens itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys

if len(sys.argv) != 2 and __name__ == "__main__":
    pass  # who stands in starts with as little as can be
else:
    import atexit
    import selectors
    import shutil
    import subprocess
    import tempfile
    from typing import Any

NURSERY = "INTERLOCK_TEST_NURSERY"
STREAMS = 3


def stand_in(address: str, arguments: list[str]) -> int:
    """Be the proxy, as far as its client can tell."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(address)
        order = json.dumps({"arguments": arguments, "environment": dict(os.environ), "directory": os.getcwd()}).encode()
        socket.send_fds(line, [f"{len(order):10}".encode()], list(range(STREAMS)))
        line.sendall(order)
        answers = line.makefile()
        child = int(answers.readline())
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda number, _: os.kill(child, number))
        for stream in range(2):  # the proxy's alone from now on: it sees its client go, and its client sees it end
            os.close(stream)
        status = int(answers.readline())
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) != signal.SIGKILL:
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    return os.WEXITSTATUS(status)


class Nursery:
    """The process that forks proxies, until whoever started it closes its input."""

    def __init__(self, address: str) -> None:
        self.selector = selectors.DefaultSelector()
        self.lines: dict[int, socket.socket] = {}
        self.wakes, self.woken = socket.socketpair()
        for end in (self.wakes, self.woken):
            end.setblocking(False)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(address)
        self.listener.listen(64)

    def serve(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.woken.fileno())
        for watched in (self.listener, self.wakes, sys.stdin.buffer):
            self.selector.register(watched, selectors.EVENT_READ)
        print("ready", flush=True)
        while True:
            for key, _ in self.selector.select():
                if key.fileobj is self.listener:
                    self.fork_one()
                elif key.fileobj is self.wakes:
                    self.tell_of_the_dead()
                elif key.fileobj is sys.stdin.buffer:
                    for child in self.lines:
                        os.kill(child, signal.SIGKILL)
                    return
                else:  # whoever stood in was killed, and so is the proxy
                    self.selector.unregister(key.fileobj)
                    if key.data in self.lines:
                        os.kill(key.data, signal.SIGKILL)

    def fork_one(self) -> None:
        line, _ = self.listener.accept()
        size, streams, _, _ = socket.recv_fds(line, 10, STREAMS)
        order = b""
        while len(order) < int(size):
            order += line.recv(int(size) - len(order))
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = self.live(json.loads(order), streams)
            finally:
                for stream in (sys.stdout, sys.stderr):
                    with contextlib.suppress(Exception):
                        stream.flush()
                os._exit(code)
        for number in streams:
            os.close(number)
        line.sendall(f"{child}\n".encode())
        self.lines[child] = line
        self.selector.register(line, selectors.EVENT_READ, child)

    @staticmethod
    def live(order: dict[str, Any], streams: list[int]) -> int:
        from interlock.integrations.mcp.proxy import main

        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(STREAMS, 1024)
        os.environ.clear()
        os.environ.update(order["environment"])
        os.chdir(order["directory"])
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115 - as a new interpreter has them
        return main(order["arguments"])

    def tell_of_the_dead(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self.wakes.recv(4096)
        while self.lines:
            child, status = os.waitpid(-1, os.WNOHANG)
            if child == 0:
                return
            line = self.lines.pop(child)
            with contextlib.suppress(KeyError):
                self.selector.unregister(line)
            with contextlib.suppress(OSError):
                line.sendall(f"{status}\n".encode())
            line.close()


def address_of_nursery() -> str:
    """The nursery of this run of pytest, started at the first call; a child that a test starts has it from its environment."""
    if NURSERY not in os.environ:
        directory = tempfile.mkdtemp(prefix="nursery-")
        address = os.path.join(directory, "line")
        mother = subprocess.Popen(
            [sys.executable, __file__, address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        assert mother.stdin is not None
        assert mother.stdout is not None
        assert mother.stdout.readline() == b"ready\n"
        os.environ[NURSERY] = address

        def close(stdin: Any = mother.stdin) -> None:
            stdin.close()
            mother.wait(10)
            shutil.rmtree(directory, ignore_errors=True)

        atexit.register(close)
    return os.environ[NURSERY]


if __name__ == "__main__":
    if len(sys.argv) == 2:
        import interlock.integrations.mcp._http  # noqa: F401 - all that a proxy may need is loaded once

        Nursery(sys.argv[1]).serve()
    else:
        sys.exit(stand_in(sys.argv[1], sys.argv[2:]))
