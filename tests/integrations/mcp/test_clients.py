"""The proxy under the MCP clients of agent frameworks, and with a server of the official SDK behind it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequestParams, ElicitResult

from interlock.rules.canonical import derive_id
from interlock.testing.driver import Place
from tests.integrations.mcp.driver import SERVER, HttpDriver, environment, proxy_arguments

REFUND = {"order_id": "881", "amount": 20}
OTHER = {"order_id": "881", "amount": 99}
Run = Callable[[Place, dict[str, Any]], str]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def nowhere() -> Iterator[TextIO]:
    """Where a proxy's error output goes."""
    with Path(os.devnull).open("w") as opened:
        yield opened


def by_openai_agents(place: Place, arguments: dict[str, Any]) -> str:
    """One run of an OpenAI agent; what its model was told."""
    from agents import Agent, Runner, set_tracing_disabled
    from agents.mcp import MCPServerStdio
    from agents.testing import ScriptedModel, assistant_message, function_call

    set_tracing_disabled(True)

    async def go() -> str:
        params: Any = {"command": sys.executable, "args": proxy_arguments(place), "env": environment()}
        async with MCPServerStdio(params=params, client_session_timeout_seconds=20) as server:
            call = function_call("create_refund", arguments, call_id="call_1")
            model = ScriptedModel([[call], [assistant_message("done")]])
            run = await Runner.run(Agent(name="support", model=model, mcp_servers=[server]), "refund it")
            assert run.final_output == "done"
            return str([item.output for item in run.new_items if type(item).__name__ == "ToolCallOutputItem"])

    return asyncio.run(go())


def by_adk(place: Place, arguments: dict[str, Any]) -> str:
    """One run of an ADK agent; what its model was told."""
    warnings.filterwarnings("ignore")
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams
    from google.genai import types

    told: list[Any] = []

    class Scripted(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            last = llm_request.contents[-1].parts[-1]
            if last.function_response:
                told.append(last.function_response.response)
                part = types.Part(text="done")
            else:
                part = types.Part(function_call=types.FunctionCall(name="create_refund", args=arguments))
            yield LlmResponse(content=types.Content(role="model", parts=[part]))

    async def go() -> str:
        server = StdioServerParameters(command=sys.executable, args=proxy_arguments(place), env=environment())
        tools = McpToolset(connection_params=StdioConnectionParams(server_params=server, timeout=20))
        agent = LlmAgent(name="support", model=Scripted(model="x"), tools=[tools])
        runner = InMemoryRunner(agent=agent, app_name="app")
        session = await runner.session_service.create_session(app_name="app", user_id="u")
        message = types.UserContent(parts=[types.Part(text="refund it")])
        async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=message):
            pass
        await tools.close()
        return str(told)

    return asyncio.run(go())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("run", [by_openai_agents, by_adk])
def test_agents_of_other_frameworks(place: Place, run: Run) -> None:
    """An agent whose tools come through the proxy refunds once, is told the first result again, and goes on after a refusal."""
    first = run(place, REFUND)
    refunds = place.service.refunds("881")
    assert [refund["reference"] for refund in refunds] == [derive_id("create_refund", "881")]
    assert refunds[0]["id"] in first
    assert refunds[0]["id"] in run(place, REFUND), "another run, under ids that begin anew"
    assert "Do not call again with changed arguments" in run(place, OTHER)
    assert len(place.service.refunds("881")) == 1


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_server_of_the_official_sdk(place: Place, mode: str, nowhere: TextIO) -> None:
    """Behind the proxy a server of the SDK serves the SDK's client in either era, and what it raises is looked up."""

    async def go() -> None:
        parameters = StdioServerParameters(
            command=sys.executable, args=proxy_arguments(place, server=SERVER), env=environment()
        )
        async with Client(stdio_client(parameters, errlog=nowhere), mode=mode) as client:
            assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
            assert {tool.name for tool in (await client.list_tools()).tools} == set(place.functions)
            place.service.lay("raise_after", order_id="881")
            result = await client.call_tool("create_refund", REFUND)
            assert result.is_error is False
            assert result.structured_content == place.service.refunds("881")[0]

    asyncio.run(go())


class ElicitingDriver(HttpDriver):
    mode = "legacy"


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_what_a_server_asks_its_client_passes(place: Place, transport: str, nowhere: TextIO) -> None:
    """In the old era a tool asks its client in the middle of a gated call, and gets the answer: over stdio and over HTTP."""
    asked: list[str] = []

    async def answer(context: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"sure": True})

    server = SERVER.with_name("payments_asking.py")

    async def call(client: Client) -> None:
        result = await client.call_tool("create_refund", REFUND)
        assert result.is_error is False, result

    async def by_stdio() -> None:
        parameters = StdioServerParameters(
            command=sys.executable, args=proxy_arguments(place, server=server), env=environment()
        )
        transport = stdio_client(parameters, errlog=nowhere)
        async with Client(transport, mode="legacy", elicitation_callback=answer) as client:
            await call(client)

    async def by_http() -> None:
        driver = ElicitingDriver(place)
        try:
            async with driver.serving_at(server) as url, Client(url, mode="legacy", elicitation_callback=answer) as one:
                await call(one)
        finally:
            driver.close()

    asyncio.run(by_stdio() if transport == "stdio" else by_http())
    assert asked == ["Refund 20 of 881?"]
    assert len(place.service.refunds("881")) == 1


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_progress_over_http_is_each_clients_own(place: Place, mode: str) -> None:
    """Two clients of one proxy, whose ids and tokens are the same, each see the progress of their own call alone."""

    async def go() -> None:
        driver = HttpDriver(place)
        seen: dict[str, list[float]] = {"881": [], "882": []}

        async def one(url: str, order: str) -> None:
            async def progress(done: float, total: float | None, message: str | None) -> None:
                seen[order].append(done)

            async with Client(url, mode=mode) as client:
                result = await client.call_tool(
                    "create_refund", {"order_id": order, "amount": 20}, progress_callback=progress
                )
                assert order in result.content[0].text

        try:
            async with driver.serving_at() as url:
                await asyncio.gather(one(url, "881"), one(url, "882"))
        finally:
            driver.close()
        assert seen == {"881": [1.0], "882": [1.0]}

    asyncio.run(go())
    assert [len(place.service.refunds(order)) for order in ("881", "882")] == [1, 1]


def test_a_session_that_ends_ends_no_other(place: Place) -> None:
    """Clients with a session each come, call and go at the same time; none of them sees another one go, and the server of none ends."""

    async def go() -> None:
        driver = HttpDriver(place)

        async def one(url: str, number: int) -> None:
            async with Client(url, mode="legacy") as client:
                for _ in range(number % 3 + 1):
                    result = await client.call_tool("get_order", {"order_id": "881"})
                    assert "881" in result.content[0].text

        try:
            async with driver.serving_at() as url, Client(url, mode="legacy") as first:
                for _ in range(2):
                    await asyncio.gather(*(one(url, number) for number in range(8)))
                assert (await first.call_tool("create_refund", REFUND)).is_error is False
        finally:
            driver.close()

    asyncio.run(go())
    frames = (place.directory / "frames.jsonl").read_text().splitlines()
    servers = {json.loads(frame)["pid"] for frame in frames}
    assert len(servers) == 1 + 17  # the one whose tools were listed, and one for each session
    assert len(place.service.refunds("881")) == 1


def test_what_a_server_writes_that_is_no_message(place: Place) -> None:
    """A server that prints, and one whose answer is none, over HTTP: its client's session goes on, and is told what it waits for."""

    async def go() -> None:
        driver = HttpDriver(place)
        try:
            async with driver.serving_at(traits=("prints", "muddles")) as url, Client(url, mode="legacy") as client:
                with pytest.raises(MCPError, match="no answer of the protocol"):
                    await client.call_tool("find_refund", {"reference": "r-1"})
                assert (await client.call_tool("create_refund", REFUND)).is_error is False
            assert "the server wrote what is no message of the protocol: refunding..." in driver.log.read_text()
        finally:
            driver.close()

    asyncio.run(go())
    assert len(place.service.refunds("881")) == 1


def test_another_hosts_page_is_not_answered(place: Place) -> None:
    """A web page that has its own name resolve to this machine is refused, in either era: the proxy answers to its own names alone."""

    async def go() -> None:
        driver = HttpDriver(place)
        try:
            async with driver.serving_at() as url:
                port = url.split(":")[2].partition("/")[0]
                for version in ("2025-11-25", "2026-07-28"):
                    reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
                    head = f"POST /mcp HTTP/1.1\r\nHost: evil.example\r\nMCP-Protocol-Version: {version}\r\n"
                    rest = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
                    writer.write(f"{head}{rest}Content-Length: 2\r\nConnection: close\r\n\r\n{{}}".encode())
                    assert b" 421 " in await reader.readline()
                    writer.close()
        finally:
            driver.close()

    asyncio.run(go())
