"""The proxy's command: `python -m interlock.mcp_proxy --config interlock.mcp.json -- python payments_server.py`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from interlock import ConfigurationError, JournalError
from interlock.extend import ToolsConfig, load
from interlock.integrations.mcp._behind import Behind
from interlock.integrations.mcp._stdio import Connection


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the proxy until its client goes.

    Returns:
        0, the server's own exit code if that ended first, or 2 if the configuration cannot be kept.
    """
    parser = argparse.ArgumentParser(
        prog="python -m interlock.mcp_proxy",
        description="An MCP server with its tools of outside effect behind the gate.",
        usage="%(prog)s --config FILE [--http HOST:PORT] -- COMMAND [ARGUMENT ...]",
    )
    parser.add_argument("--config", required=True, metavar="FILE", help="which tools are gated and how: .json or .toml")
    parser.add_argument("--http", metavar="HOST:PORT", help="serve streamable HTTP there, instead of standard input")
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="how the server behind it is started")
    options = parser.parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="interlock: %(message)s")
    logging.getLogger("interlock").setLevel(logging.INFO)  # where the journal is, and what recovery came to
    try:
        config = load(options.config)
        return asyncio.run(_serve(config, options.command, options.http))
    except (ConfigurationError, JournalError) as error:
        print(f"interlock: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


async def _serve(config: ToolsConfig, command: Sequence[str], http: str | None) -> int:
    if http is not None:
        from interlock.integrations.mcp._http import address, serve_http

        address(http)
    behind = Behind(command)
    await behind.open(config)
    try:
        return await (_serve_stdio(behind) if http is None else serve_http(behind, http))
    finally:
        await behind.close()


async def _serve_stdio(behind: Behind) -> int:
    written = _Output()
    connection = Connection(behind, written.put)
    await connection.open()
    reading = asyncio.ensure_future(_read_input(connection))
    stopped: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    _stop_by_signal(stopped)
    ends: set[asyncio.Future[Any]] = {reading, stopped, connection.upstream.ended}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    exit_code = 0 if reading.done() else stopped.result() if stopped.done() else connection.upstream.exit_code or 0
    await connection.finish()
    written.close()
    return exit_code if exit_code >= 0 else 128 - exit_code


def _stop_by_signal(stopped: asyncio.Future[int]) -> None:
    """SIGTERM is taken as the client's going, so that what has left ends first; a second one ends the process at once."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        loop.remove_signal_handler(signal.SIGTERM)
        if not stopped.done():
            stopped.set_result(-signal.SIGTERM)

    with suppress(NotImplementedError):  # where there are no such handlers
        loop.add_signal_handler(signal.SIGTERM, stop)


async def _read_input(connection: Connection) -> None:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def read() -> None:
        # Not sys.stdin: the interpreter could not close that while this thread waits for a line.
        with open(0, "rb", closefd=False) as lines, suppress(RuntimeError):
            for line in lines:
                loop.call_soon_threadsafe(connection.take, line)
            loop.call_soon_threadsafe(ended.set_result, None)

    threading.Thread(target=read, daemon=True).start()
    await ended


class _Output:
    """Lines to the client, written by a thread, so that a client that does not read stops nobody else.

    Not by sys.stdout: the interpreter could not flush that at its end while this thread waits for the client.
    """

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        self._lines.put(line)

    def close(self) -> None:
        self._lines.put(None)
        self._thread.join(2.0)

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                while line:
                    line = line[os.write(1, line) :]
            except OSError:
                return  # the client has gone; what it asked for goes on
