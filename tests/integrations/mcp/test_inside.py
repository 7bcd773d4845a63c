"""Servers with the gate inside: the official SDK's and fastmcp's."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastmcp
import pytest
from fastmcp.server import create_proxy
from mcp.client import Client
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    ImageContent,
    InputRequiredResult,
    TextContent,
)

import interlock.integrations.fastmcp as for_fastmcp
import interlock.integrations.mcp as for_sdk
from interlock.errors import ConfigurationError
from interlock.extend import Effect, Parameters
from interlock.rules.canonical import derive_id
from interlock.settlement import Settlement
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


@pytest.mark.parametrize("make", [sdk_server, fastmcp_server])
def test_a_tool_that_fails_and_says_that_it_did_nothing(make: Any, place: Place, closing: list[Any]) -> None:
    """With `rejected_on_error` what a tool raises inside the server is FAILED, and the same call is made again."""
    server = make(place)
    protect = for_sdk.protect_server if make is sdk_server else for_fastmcp.protect_server
    closing.append(protect(server, gating(rejected_on_error=True), journal=place.journal))
    ask = call if make is sdk_server else call_fastmcp
    place.service.lay("error_before", order_id="881")
    told = ask(server, REFUND)
    assert told.is_error is True
    assert told.meta["interlock/outcome"]["status"].startswith("FAILED"), told
    assert ask(server, REFUND).is_error is False
    assert len(place.service.refunds("881")) == 1


def test_an_error_of_the_protocol_inside_a_server(place: Place, closing: list[Any]) -> None:
    """A tool of the SDK's server that raises an error of the protocol which says that nothing was started has FAILED."""
    server: MCPServer[Any] = MCPServer("payments")
    for name in ("get_order", "find_refund"):
        server.tool()(place.functions[name])

    @server.tool()
    async def create_refund(order_id: str, amount: int, reference: str = "") -> Any:
        """Refund an order."""
        raise MCPError(code=-32602, message="no such order")

    closing.append(for_sdk.protect_server(server, place.config, journal=place.journal))
    told = call(server, REFUND)
    assert told.is_error is True
    assert told.meta["interlock/outcome"]["status"] == "FAILED:invalid_request"


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


def as_untyped(order_id: str) -> dict:  # type: ignore[type-arg]
    return {"id": order_id, "note": "é"}


def as_object(order_id: str) -> dict[str, Any]:
    return {"id": order_id}


def as_text(order_id: str) -> str:
    return f"Refunded {order_id}."


def as_json_text(order_id: str) -> Any:
    return json.dumps({"id": order_id})


def as_several(order_id: str) -> Any:
    return [order_id, "and more"]


def as_number(order_id: str) -> int:
    return 5


def as_picture(order_id: str) -> Any:
    return [TextContent(type="text", text="see"), ImageContent(type="image", data="aGk=", mime_type="image/png")]


FORMS = [as_untyped, as_object, as_text, as_json_text, as_several, as_number, as_picture]


@pytest.mark.parametrize("tool", FORMS, ids=lambda tool: tool.__name__)
@pytest.mark.parametrize("kind", ["sdk", "fastmcp"])
def test_a_replay_has_the_form_of_the_first_answer(kind: str, tool: Any, tmp_path: Path) -> None:
    """A repeated call, also in another process, gets the blocks and the structured content that the first one got."""
    answers = []
    for _ in range(2):
        server: Any = MCPServer("forms") if kind == "sdk" else fastmcp.FastMCP("forms")
        if kind == "sdk":
            server.tool()(tool)
        else:
            server.tool(tool)
        protect = for_sdk.protect_server if kind == "sdk" else for_fastmcp.protect_server
        gate = protect(server, {"tools": {tool.__name__: {"key": ["order_id"]}}}, journal=tmp_path / "journal")
        asyncio.run(gate.arecover())

        async def go(server: Any = server) -> Any:
            client: Any = Client(server) if kind == "sdk" else fastmcp.Client(server)
            async with client as open_client:
                ask = open_client.call_tool if kind == "sdk" else open_client.call_tool_mcp
                return await ask(tool.__name__, {"order_id": "881"})

        answers.append(asyncio.run(go()).model_dump(by_alias=True, mode="json"))
        gate.close()
    first, again = answers
    assert first["_meta"]["interlock/outcome"]["status"] == "COMMITTED"
    assert again["_meta"]["interlock/outcome"]["status"] == "DUPLICATE_IGNORED"
    assert again["structuredContent"] == first["structuredContent"]
    kinds = [[block["type"] for block in answer["content"]] for answer in answers]
    assert kinds[0] == kinds[1]
    if first["structuredContent"] is None or tool in (as_text, as_number):
        assert again["content"] == first["content"]
    else:  # which is told as JSON, with spaces of each server's own
        texts = [json.loads(answer["content"][0]["text"]) for answer in answers]
        assert texts[0] == texts[1]


def test_what_a_tool_returned_as_text_is_data_to_a_callback(tmp_path: Path) -> None:
    """An `Effect`'s callbacks that take the result get what its text says, as premises and look-ups do."""
    told: list[Any] = []

    def references(value: Any) -> list[str]:
        told.append(value)
        return [value["id"]]

    server: MCPServer[Any] = MCPServer("forms")
    server.tool()(as_untyped)
    effect = Effect(
        key=lambda order_id: order_id, references=references, settlement=lambda value: Settlement("settled", value)
    )
    gate = for_sdk.protect_server(server, {"as_untyped": effect}, journal=tmp_path / "journal")
    asyncio.run(gate.arecover())

    async def go() -> Any:
        async with Client(server) as client:
            return await client.call_tool("as_untyped", {"order_id": "881"})

    assert asyncio.run(go()).is_error is False
    assert told == [{"id": "881", "note": "é"}]
    assert len(gate.gate.interlock.find("881")) == 1
    gate.close()


@pytest.mark.parametrize("make", [sdk_server, fastmcp_server])
def test_an_argument_that_the_tool_does_not_have_is_the_models_to_leave_out(
    make: Any, place: Place, closing: list[Any]
) -> None:
    """What a model invents is told to it with the names that there are, and names no request: the same call without it is the first."""
    server = make(place)
    protect = for_sdk.protect_server if make is sdk_server else for_fastmcp.protect_server
    closing.append(protect(server, place.config, journal=place.journal))
    ask = call if make is sdk_server else call_fastmcp
    told = ask(server, {**REFUND, "urgency": "high"})
    assert told.is_error is True
    assert "create_refund has no argument 'urgency'; it has: order_id, amount" in told.content[0].text
    assert "reference" not in told.content[0].text
    assert "Nothing was sent" in told.content[0].text
    assert place.service.arrivals("881") == 0
    assert ask(server, REFUND).is_error is False
    assert ask(server, {**REFUND, "urgency": "high"}).is_error is True
    assert ask(server, {**REFUND, "reference": "made up"}).is_error is False, "the gate's own is dropped, as ever"
    assert len(place.service.refunds("881")) == 1


MISFITS = [
    ({"order_id": "881", "amount": "twenty"}, "amount"),
    ({"order_id": "881", "amount": "20"}, "amount"),
    ({"order_id": 881, "amount": 20}, "order_id"),
    ({"order_id": "881", "amount": 20.5}, "amount"),
    ({"order_id": "881", "amount": None}, "amount"),
    ({"order_id": "881"}, "amount"),
]


@pytest.mark.parametrize(("arguments", "named"), MISFITS, ids=lambda value: str(value))
@pytest.mark.parametrize("make", [sdk_server, fastmcp_server])
def test_arguments_that_do_not_fit_name_no_request(
    make: Any, arguments: Any, named: str, place: Place, closing: list[Any]
) -> None:
    """What a tool's own types rule out, also what the SDK would have read as a number, is told before anything is on the record."""
    server = make(place)
    protect = for_sdk.protect_server if make is sdk_server else for_fastmcp.protect_server
    gate = protect(server, place.config, journal=place.journal)
    closing.append(gate)
    ask = call if make is sdk_server else call_fastmcp
    told = ask(server, arguments)
    assert told.is_error is True
    assert named in told.content[0].text
    assert "Nothing was sent" in told.content[0].text
    assert place.service.arrivals("881") == 0
    assert not gate.gate.interlock.journal.load(derive_id("create_refund", "881")).entries
    assert ask(server, REFUND).is_error is False


def test_what_the_gate_fills_in_is_not_missed(place: Place, closing: list[Any]) -> None:
    """The argument that carries the key is no misfit when it is absent, though the tool must have it; nor is a text that says a date."""
    server: MCPServer[Any] = MCPServer("payments")
    for name in ("get_order", "find_refund"):
        server.tool()(place.functions[name])

    @server.tool()
    async def create_refund(reference: str, order_id: str, amount: int, due: dt.date | None = None) -> Any:
        """Refund an order."""
        return await place.service.acreate_refund(order_id, amount, reference)

    closing.append(for_sdk.protect_server(server, place.config, journal=place.journal))
    assert call(server, {**REFUND, "due": "2026-02-30"}).is_error is True
    assert place.service.arrivals("881") == 0
    assert call(server, {**REFUND, "due": "2026-02-28"}).is_error is False
    assert len(place.service.refunds("881")) == 1


def test_a_middleware_needs_nothing_of_the_proxy(tmp_path: Path) -> None:
    """A server with the gate inside imports neither jsonschema nor the proxy; the proxy without jsonschema says what to install."""
    code = """
import asyncio, sys
sys.modules["jsonschema"] = None
from mcp.server.mcpserver import MCPServer
from mcp.client import Client
from interlock.integrations.mcp import protect_server
server = MCPServer("payments")
sent = []
@server.tool(structured_output=False)
def pay(order_id: str, amount: int) -> str:
    sent.append(order_id)
    return "paid"
gate = protect_server(server, {"tools": {"pay": {"key": ["order_id"]}}}, journal=sys.argv[1])
asyncio.run(gate.arecover())
async def go():
    async with Client(server) as client:
        return [(await client.call_tool("pay", {"order_id": "1", "amount": amount})).is_error for amount in ("x", 5)]
assert asyncio.run(go()) == [True, False] and sent == ["1"]
print(sorted(name for name in sys.modules if name in ("argparse", "queue") or name.startswith("interlock.integrations.mcp.")))
from interlock.errors import ConfigurationError
try:
    from interlock.mcp_proxy import main
except ConfigurationError as error:
    print(error)
"""
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "journal")], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    loaded, told = ended.stdout.splitlines()
    for module in ("_schema", "proxy", "_behind", "_stdio", "_upstream"):
        assert f"interlock.integrations.mcp.{module}'" not in loaded
    assert 'pip install "interlock-gate[mcp]"' in told


OPEN = {"type": "object", "properties": {"a": {}}}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (OPEN, "t has no argument 'b'; it has: a."),
        ({**OPEN, "additionalProperties": False}, "t has no argument 'b'; it has: a."),
        ({**OPEN, "additionalProperties": True}, ""),
        ({**OPEN, "additionalProperties": {}}, ""),
        ({**OPEN, "additionalProperties": {"type": "string"}}, ""),
        ({**OPEN, "unevaluatedProperties": {"type": "string"}}, ""),
        ({**OPEN, "patternProperties": {"^x-": {}}}, ""),
        ({**OPEN, "anyOf": [{"required": ["a"]}, {"required": ["c"]}]}, "t has no argument 'b'; it has: a."),
        ({**OPEN, "anyOf": [{"properties": {"b": {}}}, {"properties": {"c": {}}}]}, ""),
        ({**OPEN, "allOf": [{"$ref": "#/$defs/more"}], "$defs": {"more": {"properties": {"b": {}}}}}, ""),
        ({**OPEN, "allOf": [{"$ref": "#"}, {"$ref": "#"}]}, "t has no argument 'b'; it has: a."),
        ({**OPEN, "allOf": [{"$ref": "https://elsewhere/schema"}]}, ""),
        ({"type": "object", "properties": {}}, "t has no argument 'a'; it has: none."),
        ({"type": "object"}, ""),
        ({}, ""),
        (None, ""),
    ],
)
def test_only_a_schema_that_says_so_is_open(schema: Any, problem: str) -> None:
    """Silence about further arguments is no permission of them; a schema that lists none at all may stand for any."""
    assert Parameters.of_schema(schema).problem_of("t", ["a", "b"]) == problem
