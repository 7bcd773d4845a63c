"""One client's connection: its lines, the server's lines, and which of them the gate sees.

Every byte that is not a gated `tools/call`, or the list of tools, passes as it came, in either direction: requests of the server to its
client, progress, notifications, batches, and whatever a later version of the protocol adds. A client's line that two readers could take
differently does not pass. It must not know what the gate decides.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from interlock.integrations.mcp._behind import Behind
from interlock.integrations.mcp._face import show_tools
from interlock.integrations.mcp._frame import (
    Malformed,
    Message,
    UpstreamGone,
    answer,
    id_of,
    is_answer,
    is_request,
    meta_of,
    params_of,
    read_from_client,
    write,
)
from interlock.integrations.mcp._gateway import log
from interlock.integrations.mcp._upstream import Upstream

LAST_S = 60.0  # how long what has left is waited for, once the client has gone; twice a tool's own `timeout`


class Connection:
    """What passes between one client and its process of the server.

    Args:
        behind: the server's tools behind the gate.
        send: writes a line to the client.
        evidence: ids of the connection, for the record.
    """

    upstream: Upstream

    def __init__(
        self, behind: Behind, send: Callable[[bytes], None], evidence: Mapping[str, Any] | None = None
    ) -> None:
        self._behind = behind
        self._send = send
        self._evidence = dict(evidence or {})
        self._lists: set[str] = set()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._calls: set[asyncio.Task[None]] = set()  # of which two may have one id, if the client errs

    async def open(self) -> None:
        """Start the server's process of this connection."""
        self.upstream = await Upstream.start(self._behind.command, self._take_from_server)

    async def finish(self) -> None:
        """The client has gone: let end what has left, then end the server's process."""
        await self.settle()
        await self.upstream.quiet(LAST_S)  # a call that was cancelled has left all the same
        await self.upstream.close()

    @property
    def has_calls(self) -> bool:
        """Whether a call of the gate is under way."""
        return bool(self._calls)

    async def settle(self) -> None:
        """Let the calls of the gate end; one that waits for a server that hangs is given up, as if its client had cancelled it."""
        if self._calls:
            _, hanging = await asyncio.wait(self._calls, timeout=LAST_S)
            for call in hanging:
                call.cancel()

    def take(self, line: bytes) -> None:
        """A line of the client's."""
        if not line.strip():
            return
        try:
            message, line = read_from_client(line)
        except Malformed as error:
            # Not handed on: another reader might find a gated call in it.
            failure = {"code": -32700, "message": f"Parse error: {error}"}
            self._send(write({"jsonrpc": "2.0", "id": None, "error": failure}))
            return
        if isinstance(message, list):
            self._take_batch(message, line)
        elif isinstance(message, dict) and self._is_ours(message):
            self._take_own(message)
        else:
            self._note(message)
            self._forward(line)

    def _take_batch(self, batch: list[Any], line: bytes) -> None:
        own = [message for message in batch if isinstance(message, dict) and self._is_ours(message)]
        rest = [message for message in batch if message not in own]
        for message in rest:
            self._note(message)
        if not own:
            self._forward(line)
        elif rest:
            self._forward(write(rest))
        for message in own:
            self._take_own(message)

    def _is_ours(self, message: Message) -> bool:
        """Whether the server must not see a message as it came."""
        method, params = message.get("method"), params_of(message)
        if method == "tools/call":
            return self._behind.gateway.is_gated(params)
        return method == "notifications/cancelled" and json.dumps(params.get("requestId")) in self._running

    def _take_own(self, message: Message) -> None:
        if message["method"] == "notifications/cancelled":
            self._running[json.dumps(params_of(message).get("requestId"))].cancel()
        elif is_request(message):
            own = id_of(message)
            task = asyncio.ensure_future(self._call(message))
            self._running[own] = task
            self._calls.add(task)
            task.add_done_callback(lambda _: self._ended(own, task))
        # A call without an id asks for no answer, so nobody would learn what became of it: it is not made.

    def _ended(self, own: str, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        if self._running.get(own) is call:
            del self._running[own]

    async def _call(self, message: Message) -> None:
        params = params_of(message)
        evidence = {**self._evidence, "request_id": message["id"]}
        token = meta_of(params).get("progressToken")
        live = self._behind.live_call(params, self.upstream)
        try:
            result = await self._behind.gateway.call(live, {**evidence, "progress_token": token})
        except Exception as error:  # noqa: BLE001 - a defect of ours; without an answer the client would wait for ever
            log.exception("a call of %r failed in the proxy", params.get("name"))
            failure = {"code": -32603, "message": f"the proxy failed: {error}"}
            self._send(write({"jsonrpc": "2.0", "id": message["id"], "error": failure}))
            return
        self._send(write(answer(message, result)))

    def _note(self, message: Any) -> None:
        if is_request(message) and message["method"] == "tools/list":
            self._lists.add(id_of(message))

    def _forward(self, line: bytes) -> None:
        with suppress(UpstreamGone):  # then the connection ends, as it would without us between the two
            self.upstream.send(line)

    def _take_from_server(self, line: bytes, message: Any) -> None:
        batch = message if isinstance(message, list) else [message]
        lists = [one for one in batch if is_answer(one) and id_of(one) in self._lists]
        for one in lists:
            self._lists.discard(id_of(one))
            if isinstance(one.get("result"), dict):
                one["result"] = show_tools(one["result"], self._behind.gateway.faces)
        self._send(write(message) if lists else line)
