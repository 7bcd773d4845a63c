"""Restate's side of the story: its server, a worker process, and calls at its ingress."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypercorn.asyncio import serve
from hypercorn.config import Config

ROOT = Path(__file__).resolve().parents[2]


async def work(app: Any, port: int) -> None:
    """Serve the handlers in this very process, until killed."""
    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.accesslog = config.errorlog = None
    await serve(app, config)


@contextlib.contextmanager
def server(directory: Path) -> Iterator[dict[str, str]]:
    """Restate's own server; gives its doors. It ends when its standard input does."""
    command = [sys.executable, "-m", "benchmarks.services.restate", "--dir", str(directory)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        said = process.stdout.readline()
        if not said:
            sys.exit(1)  # it has said why
        yield json.loads(said)
        process.stdin.close()


def ask(url: str, body: Any, *, within_s: float = 20.0) -> Any:
    """Post it, once somebody listens; gives the answer, or what the error says."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    until = time.monotonic() + within_s
    while True:
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            told = json.loads(error.read())
            if not url.endswith("/deployments") or time.monotonic() > until:
                return told["message"]
            time.sleep(0.1)  # the worker does not listen yet


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
