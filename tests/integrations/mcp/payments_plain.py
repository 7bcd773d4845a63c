"""A server written without the SDK, in either era, over the same refund service: `python payments_plain.py DIRECTORY [TRAIT ...]`.

It starts at once, logs what it gets to `frames.jsonl` and that it started to `starts`, and shows traits that the SDK's own server does not:

- `asks`: `create_refund` asks its client for a confirmation first, and binds the state of that to the arguments, as the SDK does.
- `exits`: it ends in the middle of the first refund, which has landed.
- `prints`: it writes to its output what is no message. `muddles`: its answer to `find_refund` is no answer.
- `pages`: it lists one tool at a time. `text`: it reads text, in which a carriage return ends a line, as the SDK's own server does.
- `batches`: its answers come in batches. `twice`: each of its answers comes twice. `orphans`: it leaves a child behind when it exits.
- `old`: it knows only the handshake. `new`: it knows only the era without one. `strict`: `order_id` only.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

MODERN = "io.modelcontextprotocol/protocolVersion"
TEXT = {"type": "string"}
PRINTED = b'{"result": 3}\n{"error": "none"}\n{"id": {}, "result": {}}\n' + b"[" * 9999 + b"\n"
# Holds the server's output open as long as the proxy lives.
ORPHAN = "import os, sys, time\nwhile os.path.exists(f'/proc/{sys.argv[1]}'): time.sleep(0.05)"
TOOLS: list[dict[str, Any]] = [
    {
        "name": "create_refund",
        "description": "Refund an order.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "order_id": TEXT,
                "amount": {"type": "integer"},
                "reference": TEXT,
                "note": {**TEXT, "default": ""},
            },
            "required": ["order_id", "amount", "reference"],
        },
        "outputSchema": {"type": "object", "required": ["id"], "properties": {"id": TEXT}},
        "execution": {"taskSupport": "optional"},
    },
    {
        "name": "get_order",
        "inputSchema": {"type": "object", "properties": {"order_id": TEXT}, "required": ["order_id"]},
    },
    {"name": "find_refund", "inputSchema": {"type": "object", "properties": {"reference": TEXT}}},
]


def ledger(directory: Path) -> Any:
    """The contract's refund service, loaded without the rest of the package: it needs the standard library alone."""
    file = Path(__file__).parents[3] / "interlock" / "testing" / "ledger.py"
    spec = importlib.util.spec_from_file_location("ledger", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["ledger"] = module
    spec.loader.exec_module(module)
    return module.RefundService(directory / "service")


kill = os.kill


def kill_all(pid: int, number: int) -> None:
    """Where a fault of the service kills "the process": the client if it may be killed, the proxy (our parent), and ourselves."""
    if number == signal.SIGKILL and pid == os.getpid() and "KILL_TOO" in os.environ:
        for other in (*json.loads(os.environ["KILL_TOO"]), os.getppid()):
            kill(other, signal.SIGKILL)
    kill(pid, number)


class Server:
    """One connection."""

    def __init__(self, directory: Path, traits: list[str]) -> None:
        self.directory = directory
        self.traits = traits
        self.service = ledger(directory)
        self.lock = threading.Lock()
        self.era = ""

    def serve(self) -> None:
        with (self.directory / "starts").open("a") as log:
            log.write(f"{os.getpid()}\n")
        text = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace")
        for line in (line.encode() for line in text) if "text" in self.traits else sys.stdin.buffer:
            with (self.directory / "frames.jsonl").open("ab") as log:
                log.write(json.dumps({"pid": os.getpid()}).encode()[:-1] + b', "frame": ' + line.strip() + b"}\n")
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if isinstance(message, list):
                self.write([self.answer(one) for one in message if "id" in one])
            elif message.get("method") == "tools/call":
                threading.Thread(target=lambda message=message: self.write(self.answer(message))).start()
            elif "id" in message and "method" in message:
                self.write(self.answer(message))

    def write(self, message: Any) -> None:
        with self.lock:
            if "prints" in self.traits:
                sys.stdout.buffer.write(b"refunding...\n17\n[3, {}]\n" + PRINTED)
            if "batches" in self.traits and (
                "lone_batches" not in self.traits or str(message.get("id")).startswith("il-")
            ):
                message = [{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info"}}, message]
            for _ in range(2 if "twice" in self.traits else 1):
                sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
            sys.stdout.buffer.flush()

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        params = message.get("params") or {}
        modern = MODERN in params.get("_meta", {})
        head = {"jsonrpc": "2.0", "id": message["id"]}
        self.era = self.era or ("modern" if modern else "handshake")
        wrong = self.era != ("modern" if modern else "handshake")
        if wrong or ("old" in self.traits and modern) or ("new" in self.traits and not modern):
            return {**head, "error": {"code": -32022 if not modern else -32600, "message": "not in this era"}}
        try:
            result = self.result(message, params)
        except KeyError:
            return {**head, "error": {"code": -32601, "message": f"no method {message['method']}"}}
        if "muddles" in self.traits and params.get("name") == "find_refund":
            return {**head, "result": None}
        return {**head, "result": {"resultType": "complete", **result} if modern else result}

    def result(self, message: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        info = {"serverInfo": {"name": "plain", "version": "1"}, "capabilities": {"tools": {}}}
        if message["method"] == "tools/call":
            return self.call(message, params)
        return {
            "initialize": {**info, "protocolVersion": params.get("protocolVersion")},
            "server/discover": {**info, "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private"},
            "tools/list": {**self.page(params), **({"ttlMs": 0, "cacheScope": "private"} if "_meta" in params else {})},
            "ping": {},
        }[message["method"]]

    def page(self, params: dict[str, Any]) -> dict[str, Any]:
        if "pages" not in self.traits:
            return {"tools": TOOLS}
        at = int(params.get("cursor", len(TOOLS))) - 1  # the last one first
        return {"tools": [TOOLS[at]], **({"nextCursor": str(at)} if at else {})}

    def call(self, message: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        arguments = params.get("arguments") or {}
        token = params.get("_meta", {}).get("progressToken")
        if token is not None:
            said = {"progressToken": token, "progress": 1, "total": 2}
            self.write({"jsonrpc": "2.0", "method": "notifications/progress", "params": said})
        if "asks" in self.traits and params["name"] == "create_refund":
            state = json.dumps(arguments, sort_keys=True)
            if params.get("requestState") != state:
                ask = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
                elicit = {"method": "elicitation/create", "params": {"message": "sure?", "requestedSchema": ask}}
                return {"resultType": "input_required", "inputRequests": {"q": elicit}, "requestState": state}
            if params["inputResponses"]["q"]["action"] != "accept":
                return {"content": [{"type": "text", "text": "not confirmed"}], "isError": True}
        try:
            value = getattr(self.service, params["name"])(**arguments)
        except (TimeoutError, ValueError, TypeError) as error:
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}
        if "exits" in self.traits and params["name"] == "create_refund":
            time.sleep(0.05)
            if "orphans" in self.traits:
                subprocess.Popen(
                    [sys.executable, "-S", "-E", "-c", ORPHAN, str(os.getppid())], stdin=subprocess.DEVNULL
                )
            os._exit(3)
        return {"content": [{"type": "text", "text": json.dumps(value)}], "structuredContent": value}


if __name__ == "__main__":
    os.kill = kill_all
    Server(Path(sys.argv[1]), sys.argv[2:]).serve()
