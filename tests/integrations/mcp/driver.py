"""The official MCP client under the contract: against the proxy with a server process behind it, in both eras and over both transports."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from interlock.testing.driver import IntegrationDriver, ModelCall, Place, Told
from tests.integrations.mcp.nursery import address_of_nursery

SERVER = Path(__file__).with_name("payments.py")
PLAIN = Path(__file__).with_name("payments_plain.py")
NURSERY = Path(__file__).with_name("nursery.py")
RECOVERED = re.compile(r"^interlock: recovered \S+ '\S*': (\S+)$", re.MULTILINE)


def in_a_child() -> bool:
    """Whether this process is one that a fault may kill."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name == "interlock.testing.driver"


def configuration(place: Place) -> Path:
    """The configuration of a place as a file."""
    file = place.directory / "interlock.mcp.json"
    file.write_text(json.dumps({**place.config, "journal": place.journal}))
    return file


def proxy_arguments(place: Place, *options: str, server: Path = PLAIN, traits: Sequence[str] = ()) -> list[str]:
    """The proxy's command line, after the interpreter."""
    behind = [sys.executable, str(server), str(place.directory), *traits]
    return ["-m", "interlock.mcp_proxy", "--config", str(configuration(place)), *options, "--", *behind]


def nursed_arguments(place: Place, *options: str, server: Path = PLAIN, traits: Sequence[str] = ()) -> list[str]:
    """As `proxy_arguments`, for a proxy that starts without importing anything; those with the real start are in `test_clients`."""
    _, _, *arguments = proxy_arguments(place, *options, server=server, traits=traits)
    return ["-S", "-E", str(NURSERY), address_of_nursery(), *arguments]


def environment(*, kill_too: Sequence[int] = ()) -> dict[str, str]:
    return {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "KILL_TOO": json.dumps(list(kill_too)),
    }


def free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port: int = asked.getsockname()[1]
        return port


async def listening(port: int, *, within_s: float = 20.0) -> None:
    """Wait until somebody listens on a port."""
    for _ in range(int(within_s / 0.05)):
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.05)
    raise TimeoutError(f"nobody listens on port {port}")


class McpDriver(IntegrationDriver):
    """The client of `mcp`, with the proxy over stdio, in the era without a handshake."""

    not_applicable: ClassVar = {
        "sync": "the client of MCP's official SDK is async only",
        "retry": "the protocol's client has no retry of its own",
        "approval": "the protocol has no approval: its host asks a person before it calls",
        "edit": "the protocol has no approval in which a call could be edited",
        "streaming": "a tools/call has one result; its progress has a test of its own",
    }
    evidence: ClassVar[tuple[str, ...]] = ("request_id",)
    mode: ClassVar[str] = "auto"
    server_file: ClassVar[Path] = PLAIN

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.client: Client | None = None
        self.ending = asyncio.Event()
        self.serving: Any = None
        self.log = place.state / f"proxy-{id(self)}.log"

    # --- the connection ----------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[Client]:
        kill_too = [os.getpid()] if in_a_child() else []
        parameters = StdioServerParameters(
            command=sys.executable,
            args=nursed_arguments(self.place, server=self.server_file),
            env=environment(kill_too=kill_too),
        )
        with self.log.open("a") as log:
            async with Client(stdio_client(parameters, errlog=log), mode=self.mode) as client:
                yield client

    def open(self) -> Client:
        """The one connection of this driver; a client enters and leaves its scopes in one task."""
        if self.client is None:
            ready = threading.Event()

            async def serve() -> None:
                try:
                    async with self.connected() as client:
                        self.client = client
                        ready.set()
                        await self.ending.wait()
                finally:
                    ready.set()

            self.serving = asyncio.run_coroutine_threadsafe(serve(), self.loop)
            assert ready.wait(30)
            if self.client is None:
                self.serving.result()
        assert self.client is not None
        return self.client

    def close(self) -> None:
        if self.loop.is_closed():
            return
        if self.serving is not None:
            self.loop.call_soon_threadsafe(self.ending.set)
            with contextlib.suppress(Exception):
                self.serving.result(20)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)
        self.loop.close()

    # --- the verbs ---------------------------------------------------------------------------------------------------------

    def recover(self) -> Sequence[Any]:
        """The proxy recovers when it starts, and says so on its error output."""
        self.open()
        return RECOVERED.findall(self.log.read_text())

    def run(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        self.open()
        return asyncio.run_coroutine_threadsafe(self.all(calls), self.loop).result(60)

    async def arun(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        await asyncio.to_thread(self.open)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.all(calls), self.loop))

    def resume(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        """Connect again, where the ids of requests begin anew, and call again: the protocol has no other resume."""
        return self.run(calls, thread=thread)

    async def all(self, calls: Sequence[ModelCall]) -> list[Told]:
        return list(await asyncio.gather(*(self.one(call) for call in calls)))

    async def one(self, call: ModelCall) -> Told:
        assert self.client is not None
        result = await self.client.call_tool(call.tool, dict(call.arguments))
        return Told("\n".join(block.text for block in result.content), is_error=result.is_error)


class HandshakeDriver(McpDriver):
    """The same in the era with a handshake."""

    mode = "legacy"


class HttpDriver(McpDriver):
    """The proxy over streamable HTTP, in the era without a handshake."""

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[Client]:
        async with self.serving_at(self.server_file) as url, Client(url, mode=self.mode) as client:
            yield client

    @contextlib.asynccontextmanager
    async def serving_at(self, server: Path = PLAIN, traits: Sequence[str] = ()) -> AsyncIterator[str]:
        """A proxy that listens, and its address."""
        port = free_port()
        kill_too = [os.getpid()] if in_a_child() else []
        with self.log.open("a") as log:
            proxy = await asyncio.create_subprocess_exec(
                sys.executable,
                *nursed_arguments(self.place, "--http", f"127.0.0.1:{port}", server=server, traits=traits),
                env={**os.environ, **environment(kill_too=kill_too)},
                stderr=log,
            )
        try:
            await listening(port)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            with contextlib.suppress(ProcessLookupError):
                proxy.terminate()
            await proxy.wait()


class HttpHandshakeDriver(HttpDriver):
    """The same in the era with a handshake, with a session."""

    mode = "legacy"


class SdkServerDriver(McpDriver):
    """The same with a server of the official SDK behind the proxy, whose import takes most of a test's time."""

    server_file = SERVER
