"""A client that is nothing but its lines, to say what no SDK says: a batch, a call without an id, ids of its own; and to be killed."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from interlock.testing.driver import Place
from tests.integrations.mcp.driver import PLAIN, environment, nursed_arguments

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}
REFUND = {"order_id": "881", "amount": 20}


class Conversation:
    """One connection to a proxy of its own.

    Args:
        place: where the journal and the refund service are.
        modern: whether each request carries the envelope; else the handshake is made.
        traits: of the server behind.
    """

    def __init__(self, place: Place, *, modern: bool = True, traits: Sequence[str] = (), server: Path = PLAIN) -> None:
        self.place = place
        self.modern = modern
        self.log = place.state / f"conversation-{id(self)}.log"
        with self.log.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, *nursed_arguments(place, server=server, traits=traits)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **environment()},
            )
        self.said: queue.Queue[Any] = queue.Queue()
        self.heard: list[Any] = []
        threading.Thread(target=self._listen, daemon=True).start()
        self.number = 0
        if not modern:
            client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            self.answer(self.ask("initialize", client))
            self.tell("notifications/initialized")

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def write(self, message: Any) -> None:
        assert self.process.stdin is not None
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def request(self, method: str, params: Mapping[str, Any] | None = None, *, own: Any = None) -> dict[str, Any]:
        """A request in this connection's era; ids count from 1, as every client's do."""
        if own is None:
            self.number += 1
        given = dict(params or {})
        if self.modern:
            given["_meta"] = {**ENVELOPE, **given.get("_meta", {})}
        return {"jsonrpc": "2.0", "id": self.number if own is None else own, "method": method, "params": given}

    def ask(self, method: str, params: Mapping[str, Any] | None = None, *, own: Any = None) -> Any:
        """Send a request, and give its id."""
        message = self.request(method, params, own=own)
        self.write(message)
        return message["id"]

    def tell(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        self.write({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})

    def call(self, arguments: Mapping[str, Any], *, tool: str = "create_refund", **params: Any) -> dict[str, Any]:
        """Call a tool, and give its result."""
        return self.answer(self.ask("tools/call", {"name": tool, "arguments": arguments, **params}))["result"]

    def answer(self, own: Any, *, within_s: float = 20.0) -> Any:
        """The answer to a request; what else comes in meanwhile is in `heard`."""
        while True:
            message = self.said.get(timeout=within_s)
            if isinstance(message, dict) and "method" not in message and message.get("id") == own:
                return message
            self.heard.append(message)

    def end(self) -> int:
        """Close the input, as a client does that goes; the proxy's exit code."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.close()
            return self.process.wait(20)
        finally:
            self.process.kill()
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def frames(self) -> list[dict[str, Any]]:
        """What the server has got, of all its processes."""
        text = (self.place.directory / "frames.jsonl").read_text()
        return [json.loads(line)["frame"] for line in text.splitlines()]

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                self.said.put(json.loads(line.decode()))
            except (ValueError, RecursionError):  # what passes as it came need not be a message
                self.heard.append(line)
        self.said.put(None)


def text_of(result: Mapping[str, Any]) -> str:
    text: str = result["content"][0]["text"]
    return text
