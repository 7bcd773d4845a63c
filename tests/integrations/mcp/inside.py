"""The official MCP client under the contract, against servers of its own process with the gate inside: the SDK's and fastmcp's."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar

import fastmcp
from mcp.client import Client
from mcp.server.mcpserver import MCPServer

from interlock.integrations.fastmcp import protect_server as protect_fastmcp
from interlock.integrations.mcp import protect_server
from interlock.testing.driver import ModelCall, Place, Told
from tests.integrations.mcp.driver import McpDriver


class InsideDriver(McpDriver):
    """The SDK's own server with the middleware, in the era without a handshake."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.server = self.make()
        self.gate = self.protect()

    def make(self) -> Any:
        server = MCPServer("payments")
        for function in self.place.functions.values():
            server.tool()(function)
        return server

    def protect(self) -> Any:
        return protect_server(self.server, self.place.config, journal=self.place.journal)

    def recover(self) -> Sequence[Any]:
        return list(self.gate.recover())

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[Client]:
        async with Client(self.server, mode=self.mode) as client:
            yield client

    def close(self) -> None:
        super().close()
        self.gate.close()


class InsideHandshakeDriver(InsideDriver):
    """The same in the era with a handshake."""

    mode: ClassVar[str] = "legacy"


class FastmcpDriver(InsideDriver):
    """A fastmcp server with the middleware, and fastmcp's own client."""

    def make(self) -> Any:
        server = fastmcp.FastMCP("payments")
        for function in self.place.functions.values():
            server.tool(function)
        return server

    def protect(self) -> Any:
        return protect_fastmcp(self.server, self.place.config, journal=self.place.journal)

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[Any]:
        async with fastmcp.Client(self.server) as client:
            yield client

    async def one(self, call: ModelCall) -> Told:
        client: Any = self.client
        result = await client.call_tool(call.tool, dict(call.arguments), raise_on_error=False)
        return Told("\n".join(block.text for block in result.content), is_error=result.is_error)
