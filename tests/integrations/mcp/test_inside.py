"""Servers with the gate inside: the official SDK's and fastmcp's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastmcp
import pytest
from fastmcp.server import create_proxy
from mcp.client import Client
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

import interlock.integrations.fastmcp as for_fastmcp
import interlock.integrations.mcp as for_sdk
from interlock.errors import ConfigurationError
from interlock.extend import Effect
from interlock.testing.driver import Place, gating

REFUND = {"order_id": "881", "amount": 20}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, is_async=True)


@pytest.fixture
def closing() -> Iterator[list[Any]]:
    opened: list[Any] = []
    yield opened
    for one in opened:
        one.close()


def sdk_server(place: Place) -> MCPServer[Any]:
    server: MCPServer[Any] = MCPServer("payments")
    for function in place.functions.values():
        server.tool()(function)
    return server


def fastmcp_server(place: Place) -> fastmcp.FastMCP[Any]:
    server: fastmcp.FastMCP[Any] = fastmcp.FastMCP("payments")
    for function in place.functions.values():
        server.tool(function)
    return server


def call(server: Any, arguments: Any, *, mode: str = "auto", **options: Any) -> Any:
    """One connection of the SDK's client, and one call."""

    async def go() -> Any:
        async with Client(server, mode=mode, **options) as client:
            return await client.call_tool("create_refund", arguments)

    return asyncio.run(go())


def call_fastmcp(server: Any, arguments: Any) -> Any:
    async def go() -> Any:
        async with fastmcp.Client(server) as client:
            return await client.call_tool("create_refund", arguments, raise_on_error=False)

    return asyncio.run(go())


def test_a_server_whose_gate_was_not_attached_sends_nothing(place: Place) -> None:
    """A gate that nobody attached leaves no way around it: the tool is not called, and the result says why."""
    server = MCPServer("payments", middleware=[for_sdk.InterlockMiddleware(place.config)])
    for function in place.functions.values():
        server.tool()(function)
    result = call(server, REFUND)
    assert result.is_error is True
    assert "was not attached" in result.content[0].text
    other = fastmcp_server(place)
    other.add_middleware(for_fastmcp.InterlockMiddleware(place.config))
    assert call_fastmcp(other, REFUND).is_error is True
    assert place.service.arrivals("881") == 0


def test_a_gate_given_at_construction_and_attached_later(place: Place, closing: list[Any]) -> None:
    """`MCPServer(middleware=[gate])` and `attach()` once the tools are defined is the same as `protect_server()`, and not twice."""
    gate = for_sdk.InterlockMiddleware(place.config, journal=place.journal)
    server = MCPServer("payments", middleware=[gate])
    for function in place.functions.values():
        server.tool()(function)
    closing.append(gate.attach(server))
    assert server.middleware.count(gate) == 1
    with pytest.raises(ConfigurationError, match="attached to a server already"):
        gate.attach(server)
    assert call(server, REFUND).is_error is False
    assert len(place.service.refunds("881")) == 1


@pytest.mark.parametrize("make", [sdk_server, fastmcp_server])
def test_what_cannot_be_kept_is_refused(place: Place, make: Any) -> None:
    """A tool or an argument that the server does not have is refused when the gate is attached, with what was probably meant."""
    protect = for_sdk.protect_server if make is sdk_server else for_fastmcp.protect_server
    with pytest.raises(ConfigurationError, match="did you mean 'reference'"):
        protect(make(place), gating(idempotency_argument="referense"), journal=place.journal)
    with pytest.raises(ConfigurationError, match="did you mean 'create_refund'"):
        protect(make(place), {"tools": {"create_refunds": {"key": ["order_id"]}}}, journal=place.journal)


def test_a_server_of_another_kind_is_sent_to_the_proxy(place: Place) -> None:
    """A server whose tools cannot be listed from Python is refused, with the way that there is."""
    with pytest.raises(ConfigurationError, match=r"interlock\.mcp_proxy"):
        for_sdk.protect_server(Server("low"), place.config, journal=place.journal)  # type: ignore[arg-type]


def test_an_effect_in_python(place: Place, closing: list[Any]) -> None:
    """A tool may be gated in Python, with callbacks that take its arguments by name."""
    effect = Effect(
        key=lambda order_id: order_id,
        lookup=lambda idempotency_key: place.service.find_refund(idempotency_key)["refund"],
        idempotency_argument="reference",
        settle_after=0.05,
    )
    server = sdk_server(place)
    closing.append(for_sdk.protect_server(server, {"create_refund": effect}, journal=place.journal))
    place.service.lay("raise_after", order_id="881")
    result = call(server, REFUND)
    assert result.is_error is False
    assert place.service.refunds("881")[0]["id"] in result.content[0].text


def test_fastmcp_in_front_of_another_server(place: Place, closing: list[Any]) -> None:
    """A fastmcp proxy of a server is gated like a server: premises and look-ups go through it."""
    front = create_proxy(fastmcp_server(place))
    closing.append(for_fastmcp.protect_server(front, place.config, journal=place.journal))
    place.service.lay("raise_after", order_id="881")
    assert place.service.refunds("881") == []
    result = call_fastmcp(front, REFUND)
    assert result.is_error is False
    assert place.service.refunds("881")[0]["id"] in result.content[0].text
    assert call_fastmcp(front, {"order_id": "881", "amount": 99}).is_error is True
    assert len(place.service.refunds("881")) == 1


def test_fastmcp_lists_what_is_gated(place: Place, closing: list[Any]) -> None:
    """fastmcp's list marks the gated tool and hides the gate's own argument; the tool itself still takes it."""
    server = fastmcp_server(place)
    closing.append(for_fastmcp.protect_server(server, place.config, journal=place.journal))

    async def go() -> Any:
        async with fastmcp.Client(server) as client:
            return {tool.name: tool for tool in await client.list_tools()}

    tools = asyncio.run(go())
    shown = tools["create_refund"].model_dump(by_alias=True)
    assert "reference" not in shown["inputSchema"]["properties"]
    assert shown["_meta"]["interlock/gated"]["key"] == ["order_id"]
    assert shown["annotations"]["idempotentHint"] is True
    assert "interlock/gated" not in (tools["get_order"].model_dump(by_alias=True)["_meta"] or {})
    assert call_fastmcp(server, REFUND).is_error is False
    assert place.service.refunds("881")[0]["reference"]


def test_rounds_inside_a_server_are_one_proposal(place: Place, closing: list[Any]) -> None:
    """A tool of the SDK's server that asks for input, whose state is bound to its arguments, refunds once after the client's answer."""
    server: MCPServer[Any] = MCPServer("payments")
    functions = place.functions
    for name in ("get_order", "find_refund"):
        server.tool()(functions[name])

    @server.tool()
    async def create_refund(order_id: str, amount: int, ctx: Context, reference: str = "") -> Any:
        """Refund an order."""
        answers = ctx.input_responses
        if not answers:
            schema = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
            ask = ElicitRequest(params=ElicitRequestFormParams(message="sure?", requested_schema=schema))
            return InputRequiredResult(input_requests={"q": ask}, request_state="waiting")
        return await place.service.acreate_refund(order_id, amount, reference)

    closing.append(for_sdk.protect_server(server, place.config, journal=place.journal))

    async def sure(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"sure": True})

    result = call(server, REFUND, elicitation_callback=sure)
    assert result.is_error is False, result
    assert result.meta["interlock/outcome"]["status"] == "COMMITTED"
    assert len(place.service.refunds("881")) == 1
