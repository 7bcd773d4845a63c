"""Upstream: the process of the server behind the proxy, and the requests that the proxy makes of its own.

Owns the child's life and which of its lines answer a request of ours. It must not know what a tool is gated by.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from interlock import ConfigurationError
from interlock.integrations.mcp._frame import (
    CLIENT,
    HANDSHAKE_VERSION,
    OWN_ENVELOPE,
    Malformed,
    Message,
    RpcError,
    UpstreamGone,
    is_answer,
    read,
    write,
)

_LONGEST_LINE = 2**28  # bytes; asyncio would else end the reading at 64 KiB, less than one picture in a result
_PATIENCE_S = 2.0  # after its input is closed; as long as the clients of the official SDK give a server
_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux's prctl(2)
_LOOK_S = 0.5  # how often a silent server is looked at: it may have ended, with its output open in a child of its own
_log = logging.getLogger("interlock")
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def _die_with_the_proxy() -> None:
    # A server that outlives a killed proxy could still land a call that recovery has looked up and found absent.
    if _libc is not None:
        _libc.prctl(_SET_DEATH_SIGNAL, signal.SIGTERM)


class Upstream:
    """One process of the server.

    Args:
        process: running, with pipes.
        deliver: gets each line that is not an answer to a request of our own.

    Attributes:
        exit_code: of the process, once it has ended.
    """

    exit_code: int | None = None

    def __init__(
        self, process: asyncio.subprocess.Process, deliver: Callable[[bytes, Any], None] | None = None
    ) -> None:
        self._process = process
        self._deliver = deliver
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0
        self._nonce = os.urandom(4).hex()  # a client's own ids must never be taken for ours
        self._envelope: Mapping[str, Any] = {}
        self.ended = asyncio.ensure_future(self._listen())

    @classmethod
    async def start(cls, command: Sequence[str], deliver: Callable[[bytes, Any], None] | None = None) -> Upstream:
        """Start the server.

        Raises:
            ConfigurationError: there is no such program.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_LONGEST_LINE,
                preexec_fn=_die_with_the_proxy,
            )
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"the server {command[0]!r} cannot be started: {error}.") from error
        return cls(process, deliver)

    @property
    def is_gone(self) -> bool:
        """Whether nothing can be asked of it any more."""
        return self.ended.done()

    def send(self, line: bytes) -> None:
        """Write a line.

        Raises:
            UpstreamGone: nothing can be written.
        """
        if self.is_gone or self._process.stdin is None or self._process.stdin.is_closing():
            raise UpstreamGone("the server has ended", was_written=False)
        self._process.stdin.write(line if line.endswith(b"\n") else line + b"\n")

    def next_id(self) -> str:
        """An id of our own for a request."""
        self._number += 1
        return f"il-{self._nonce}-{self._number}"

    async def request(self, method: str, params: Mapping[str, Any], *, own: str = "") -> dict[str, Any]:
        """Ask the server, under an id of our own.

        Raises:
            RpcError: it answered with an error.
            UpstreamGone: it has ended.
        """
        own = own or self.next_id()
        if self._envelope and "_meta" not in params:
            params = {**params, "_meta": self._envelope}
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[own] = future
        try:
            self.send(write({"jsonrpc": "2.0", "id": own, "method": method, "params": params}))
            return await future
        finally:
            self._waiting.pop(own, None)

    async def greet(self) -> bool:
        """Open the conversation as a client of our own, by the handshake.

        Returns:
            False if the server knows no handshake. Its process may have settled on that by now: start another one and `skip_greeting`.
        """
        params = {"protocolVersion": HANDSHAKE_VERSION, "capabilities": {}, "clientInfo": CLIENT}
        try:
            await self.request("initialize", params)
        except RpcError:
            return False
        self.send(write({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        return True

    def skip_greeting(self) -> None:
        """Speak to it in the era without a handshake."""
        self._envelope = OWN_ENVELOPE

    async def tools(self) -> list[dict[str, Any]]:
        """All tools of the server."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            page = await self.request("tools/list", {} if cursor is None else {"cursor": cursor})
            found += page.get("tools") or []
            following = page.get("nextCursor")
            if not following or following == cursor:
                return found
            cursor = following

    async def quiet(self, wait_s: float) -> None:
        """Wait until no request of our own is open any more, but no longer than that."""
        if self._waiting:
            await asyncio.wait(self._waiting.values(), timeout=wait_s)

    async def close(self) -> None:
        """Close its input, and end it if it does not end by itself."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        for end in (None, self._process.terminate, self._process.kill):
            if end is not None:
                with suppress(ProcessLookupError):
                    end()
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(self.ended), _PATIENCE_S)
                return

    async def _listen(self) -> None:
        try:
            while line := await self._line():
                try:
                    self._take(line)
                except Exception:  # noqa: BLE001 - what one line does must not end the reading, for which others wait
                    _log.exception("a line of the server's could not be handed on: %r", line[:200])
        except ValueError as error:  # a line longer than the limit
            print(f"interlock: the server's answer cannot be read: {error}", file=sys.stderr)
            with suppress(ProcessLookupError):
                self._process.kill()
        finally:
            if self._process.returncode is None:
                await self._process.wait()
            self.exit_code = self._process.returncode
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(
                        UpstreamGone(f"the server ended with {self.exit_code} before it answered", was_written=True)
                    )

    async def _line(self) -> bytes:
        assert self._process.stdout is not None
        while True:
            has_ended = self._process.returncode is not None
            try:
                return await asyncio.wait_for(self._process.stdout.readline(), _LOOK_S)
            except TimeoutError:
                if has_ended:
                    return b""

    def _take(self, line: bytes) -> None:
        try:
            message: Any = read(line)
        except Malformed:
            message = None  # not ours; what the client makes of it is between the two
        if isinstance(message, list):
            others = [one for one in message if not self._is_own(one)]
            if len(others) < len(message):
                message, line = others, write(others)
        if message != [] and not self._is_own(message) and self._deliver is not None:
            self._deliver(line, message)

    def _is_own(self, message: Any) -> bool:
        """Whether it is an answer to a request of ours, which is taken; if nobody waits for it any more, it is dropped."""
        own = message["id"] if is_answer(message) else None
        if not isinstance(own, str) or not (own in self._waiting or own.startswith(f"il-{self._nonce}-")):
            return False
        if own in self._waiting:
            self._answer(self._waiting[own], message)
        return True

    @staticmethod
    def _answer(future: asyncio.Future[dict[str, Any]], message: Message) -> None:
        if future.done():
            return
        if "error" in message:
            future.set_exception(RpcError(message["error"]))
        elif isinstance(message["result"], dict):
            future.set_result(message["result"])
        else:
            future.set_exception(RpcError({"message": "the result is no object"}))
