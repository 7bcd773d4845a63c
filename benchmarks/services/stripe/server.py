"""The process: a listening socket on loopback, uvicorn on it, and the watch over the parent.

Owns how the service starts, says that it is ready, and ends. Must not know what it serves.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import socket
import sys
import threading
import time
from pathlib import Path

import uvicorn

from benchmarks.services.stripe.app import build
from benchmarks.services.stripe.connection import AbortableProtocol
from benchmarks.services.stripe.ledger import Ledger

HOST = "127.0.0.1"
"""Loopback and nothing else; there is no option to change it."""

PORT_WAIT_S = 5.0


class _Announced(uvicorn.Server):
    """Prints one JSON line on standard output once requests are served."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            print(json.dumps({"url": f"http://{HOST}:{sockets[0].getsockname()[1]}", "pid": os.getpid()}), flush=True)


def serve(directory: Path, *, port: int = 0, with_parent: bool = False) -> None:
    """Serve until SIGINT or SIGTERM, or, `with_parent`, until standard input closes or the parent is gone.

    Raises:
        LedgerInUse: Another service runs on the directory.
        OSError: The port is taken.
    """
    if with_parent:
        _end_with_parent(os.getppid())
    with contextlib.closing(Ledger(directory)) as ledger, contextlib.closing(_listen(port)) as listening:
        config = uvicorn.Config(
            build(ledger),
            http=AbortableProtocol,
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_level="warning",
            access_log=False,
            # A client that keeps its connection for long must not meet a close of ours: it would look like a fault.
            timeout_keep_alive=3600,
            timeout_graceful_shutdown=1,
        )
        _Announced(config).run(sockets=[listening])


def _listen(port: int) -> socket.socket:
    deadline = time.monotonic() + (PORT_WAIT_S if port else 0.0)
    while True:
        # With the protocol named, asyncio switches off Nagle's algorithm on what it accepts; else an answer takes 40 ms.
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, port))
        except OSError as error:
            listening.close()
            # On a restart the port may for a moment serve as the local end of somebody's connection.
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return listening


def _end_with_parent(parent: int) -> None:
    """End this process when its parent does, however it does.

    The parent holds the other end of standard input, so its death reads as the end of the file. A child it forked may
    hold that end as well; so the parent's pid is looked at from time to time too.
    """

    def watch() -> None:
        while os.getppid() == parent:
            if select.select([sys.stdin], [], [], 0.5)[0] and not os.read(sys.stdin.fileno(), 4096):
                break
        # Nothing acknowledged is lost by ending here: it was durable before its answer left.
        os._exit(0)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()
