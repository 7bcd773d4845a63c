"""What clients and servers do that the protocol does not have, or leave undone: nothing passes the gate by, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from interlock.decorator import Interlock
from interlock.rules.canonical import derive_id
from interlock.testing.driver import Place
from tests.integrations.mcp.conversation import ENVELOPE, REFUND, Conversation
from tests.integrations.mcp.driver import (
    HttpDriver,
    environment,
    free_port,
    listening,
    nursed_arguments,
)

CALL = {"name": "create_refund", "arguments": REFUND}
ERAS = pytest.mark.parametrize("modern", [True, False], ids=["modern", "handshake"])
MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])
TRAITS = pytest.mark.parametrize(
    "traits", [["prints"], ["twice"], ["batches"], ["prints", "twice", "batches"]], ids=str
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def kinds(place: Place, order: str = "881") -> list[str]:
    """What stands on the record of a refund."""
    with Interlock(place.journal) as gate:
        return [str(entry.kind) for entry in gate.journal.load(derive_id("create_refund", order)).entries]


# --- clients -----------------------------------------------------------------------------------------------------------------


@ERAS
def test_a_call_behind_a_carriage_return_is_not_made(place: Place, modern: bool) -> None:
    """A carriage return between two values is a space to the proxy; to a server that reads text, a gated call would begin after it."""
    with Conversation(place, modern=modern, traits=["text"]) as talk:
        inner = json.dumps(talk.request("tools/call", CALL, own="inner"))
        outer = json.dumps(talk.request("tools/list", {"x": "HERE"}, own="outer"))
        talk.write(outer.replace('"HERE"', f"\r{inner}\r").encode())
        assert talk.answer("outer")["result"]["tools"]
        assert place.service.arrivals("881") == 0


@pytest.mark.parametrize(("name", "spelt"), [("method", "Method"), ("params", "param\u017f"), ("name", "Name")])
@ERAS
def test_a_call_in_another_case_is_not_handed_on(place: Place, modern: bool, name: str, spelt: str) -> None:
    """Go's reader takes `Method` for `method`: a message with a name of the protocol in another case is refused, also in a batch."""
    with Conversation(place, modern=modern) as talk:
        call = talk.request("tools/call", CALL, own="hidden")
        within = call["params"] if name == "name" else call
        within[spelt] = within.pop(name)
        for line in (call, [call]):
            talk.write(line)
            assert talk.answer(None)["error"]["code"] == -32700
        assert not [frame for frame in talk.frames() if "hidden" in str(frame)]


def test_an_id_that_is_used_twice(place: Place) -> None:
    """Two calls under one id: the end of one is not taken for the end of the other, whose refund is waited for when the client goes."""
    place.service.lay("slow", order_id="881", delay_s=2.5)
    with Conversation(place) as talk:
        talk.ask("tools/call", CALL, own="same")
        place.service.wait_for_arrival("881")
        talk.ask("tools/call", {"name": "create_refund", "arguments": {"order_id": 5}}, own="same")
        assert talk.answer("same")["result"]["isError"]
        assert talk.end() == 0
    assert kinds(place)[-1] == "COMMITTED"


@pytest.mark.parametrize("end", ["goes", "is stopped"])
def test_cancelled_and_gone(place: Place, end: str) -> None:
    """A refund that is on its way when its client cancels it and goes is waited for: the server is not ended in the middle of it."""
    place.service.lay("slow", order_id="881", delay_s=2.5)
    with Conversation(place) as talk:
        own = talk.ask("tools/call", CALL)
        place.service.wait_for_arrival("881")
        if end == "goes":
            talk.tell("notifications/cancelled", {"requestId": own, "_meta": ENVELOPE})
            assert talk.end() == 0
        else:
            talk.process.terminate()
            assert talk.process.wait(20) == 128 + signal.SIGTERM
    assert kinds(place)[-1] == "COMMITTED"


def test_a_client_that_does_not_read(place: Place) -> None:
    """A client that reads nothing and closes its end is gone: the proxy ends as ever, with what it has to say still unwritten."""
    with subprocess.Popen(
        [sys.executable, *nursed_arguments(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment()},
    ) as proxy:
        request = {"jsonrpc": "2.0", "id": "x" * 200_000, "method": "tools/list", "params": {"_meta": ENVELOPE}}
        assert proxy.stdin is not None
        proxy.stdin.write(json.dumps(request).encode() + b"\n")
        proxy.stdin.close()
        assert proxy.wait(20) == 0


@pytest.mark.parametrize("name", ["note", "\ud800"])
def test_half_of_a_character(place: Place, name: str) -> None:
    """What UTF-8 has no bytes for comes back to the client as an escape, and ends no connection."""
    with Conversation(place) as talk:
        own = talk.ask("tools/call", {"name": "create_refund", "arguments": {**REFUND, name: "\ud800"}}, own="\ud800")
        assert talk.answer(own)["result"]["isError"] is True
        assert not talk.call(REFUND).get("isError")


# --- servers -----------------------------------------------------------------------------------------------------------------


@TRAITS
@ERAS
def test_what_a_server_writes_besides(place: Place, modern: bool, traits: list[str]) -> None:
    """A server that prints what looks like an answer, answers twice, or in batches: the gate's own requests get their answers, alone."""
    if not modern and "batches" in traits:
        traits = [*traits, "lone_batches"]
    with Conversation(place, modern=modern, traits=traits) as talk:
        assert not talk.call({**REFUND, "note": "x" * 100_000}).get("isError"), "a line of more than 64 KiB"
        assert not [said for said in talk.heard if '"il-' in str(said) or "'il-" in str(said)]
    assert len(place.service.refunds("881")) == 1


@contextlib.asynccontextmanager
async def client_of(place: Place, mode: str, traits: Sequence[str] = ()) -> AsyncIterator[Client]:
    """A client of a proxy of its own, over HTTP."""
    driver = HttpDriver(place)
    try:
        async with driver.serving_at(traits=traits) as url, Client(url, mode=mode) as client:
            yield client
    finally:
        driver.close()


@TRAITS
@MODES
async def test_what_a_server_writes_besides_over_http(place: Place, mode: str, traits: list[str]) -> None:
    """The same over HTTP, where the SDK reads what is handed on."""
    async with asyncio.timeout(30), client_of(place, mode, traits) as client:
        assert (await client.call_tool("create_refund", REFUND)).is_error is False
        assert (await client.call_tool("get_order", {"order_id": "881"})).is_error is False
    assert len(place.service.refunds("881")) == 1


@pytest.mark.parametrize("traits", [["exits"], ["exits", "orphans"]], ids=str)
@MODES
async def test_a_server_that_ends_in_the_middle_over_http(place: Place, mode: str, traits: list[str]) -> None:
    """The call is answered by a process of the proxy's own, also if a child holds the server's output; then a session ends."""
    async with asyncio.timeout(30), client_of(place, mode, traits) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert "reference" not in tools["create_refund"].input_schema["properties"]
        result = await client.call_tool("create_refund", REFUND)
        assert result.is_error is False
        assert result.meta is not None
        assert result.meta["interlock/outcome"]["status"] == "COMMITTED_ON_QUERY"
        if mode == "auto":
            assert (await client.call_tool("get_order", {"order_id": "881"})).is_error is False
        else:
            with pytest.raises(MCPError, match="Session"):
                await client.call_tool("get_order", {"order_id": "881"})
    assert len(place.service.refunds("881")) == 1


@ERAS
def test_a_server_that_leaves_a_child_behind(place: Place, modern: bool) -> None:
    """A server that ends while a child of its own holds its output has ended: the call is settled, and the proxy ends."""
    with Conversation(place, modern=modern, traits=["exits", "orphans"]) as talk:
        assert talk.call(REFUND)["_meta"]["interlock/outcome"]["status"] == "COMMITTED_ON_QUERY"
        assert talk.process.wait(20) == 3


def test_a_server_that_is_killed(place: Place) -> None:
    """The proxy's exit code says by which signal its server ended, as a shell's does."""
    with Conversation(place) as talk:
        talk.answer(talk.ask("tools/list"))
        pid = json.loads((place.directory / "frames.jsonl").read_text().splitlines()[-1])["pid"]
        os.kill(pid, signal.SIGKILL)
        assert talk.process.wait(20) == 128 + signal.SIGKILL


@ERAS
def test_a_server_that_lists_in_pages(place: Place, modern: bool) -> None:
    """A gated tool on the last page of the list is found at start, and shown as gated."""
    with Conversation(place, modern=modern, traits=["pages"]) as talk:
        last = talk.answer(talk.ask("tools/list", {"cursor": "1"}))["result"]["tools"]
        assert "interlock/gated" in last[0]["_meta"]
        assert not talk.call(REFUND).get("isError")


def test_a_list_in_a_batch_shows_what_is_gated(place: Place) -> None:
    """A list that is asked for in a batch, and answered in one, beside a gated call, shows the gated tool as one."""
    with Conversation(place, modern=False) as talk:
        listing, call = talk.request("tools/list", own="list"), talk.request("tools/call", CALL, own="call")
        talk.write([listing, call])
        talk.answer("call")
        talk.answer(talk.ask("ping"))
        batches = [one for one in talk.heard if isinstance(one, list)]
        tools = {tool["name"]: tool for tool in batches[0][0]["result"]["tools"]}
        assert "interlock/gated" in tools["create_refund"]["_meta"]


# --- HTTP --------------------------------------------------------------------------------------------------------------------

HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
OPENING = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


async def post(http: httpx.AsyncClient, url: str, method: str, params: Any, *, own: Any = None) -> httpx.Response:
    message = {"jsonrpc": "2.0", "method": method, "params": params, **({} if own is None else {"id": own})}
    return await http.post(url, json=message)


async def opened(http: httpx.AsyncClient, url: str) -> None:
    """Open a session, by hand."""
    http.headers["Mcp-Session-Id"] = (await post(http, url, "initialize", OPENING, own=0)).headers["Mcp-Session-Id"]
    await post(http, url, "notifications/initialized", {})


async def test_what_opens_no_session_starts_no_server(place: Place) -> None:
    """A body that is no message, a request without a session, and another host's page are refused before a server is started."""
    driver = HttpDriver(place)
    try:
        async with driver.serving_at() as url, httpx.AsyncClient(headers=HEADERS) as http:
            before = (place.directory / "starts").read_text()
            for body, extra, status in [
                (b"{", {}, 400),
                (b"[" * 9999, {}, 400),
                (b"[]", {}, 400),
                (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}', {}, 400),
                (b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"}', {"Content-Type": "text/plain"}, 400),
                (b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"}', {"Host": "evil.example"}, 421),
                (b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"}', {"Origin": "http://evil.example"}, 403),
            ]:
                answer = await http.post(url, content=body, headers=extra)
                assert answer.status_code == status, body[:80]
            await opened(http, url)
            assert len((place.directory / "starts").read_text().splitlines()) == len(before.splitlines()) + 1
    finally:
        driver.close()


@pytest.mark.parametrize("end", ["DELETE", "drop", "cancel", "SIGTERM"])
async def test_a_client_that_goes_in_the_middle_over_http(place: Place, end: str) -> None:
    """A session is deleted, its connection dropped, its call cancelled or the proxy stopped: the refund under way is recorded."""
    place.service.lay("slow", order_id="881", delay_s=2.5)
    port = free_port()
    url = f"http://localhost:{port}/mcp"
    proxy = await asyncio.create_subprocess_exec(
        sys.executable,
        *nursed_arguments(place, "--http", f"127.0.0.1:{port}"),
        env={**os.environ, **environment()},
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await listening(port)
        async with httpx.AsyncClient(headers=HEADERS, timeout=20) as http:
            await opened(http, url)
            calling = asyncio.ensure_future(post(http, url, "tools/call", CALL, own=1))
            await asyncio.to_thread(place.service.wait_for_arrival, "881")
            if end == "DELETE":
                assert (await http.delete(url)).status_code == 200
                await calling
            elif end == "cancel":
                await post(http, url, "notifications/cancelled", {"requestId": 1})
                assert "result" not in (await calling).text, "its stream ends, without an answer"
                assert place.service.refunds("881") == []
            else:
                calling.cancel()
        if end in ("DELETE", "drop"):
            async with Client(url, mode="legacy") as client:
                told = await client.call_tool("create_refund", REFUND)
                assert told.is_error is False or "under way" in str(told.content), told
    finally:
        proxy.terminate()
        assert await proxy.wait() == 0
    assert kinds(place) == ["PROPOSED", "AUTHORIZED", "DISPATCHED", "COMMITTED"]
    assert len(place.service.refunds("881")) == 1


@pytest.mark.parametrize(
    ("place_to_listen", "hosts", "strange"),
    [
        (
            "127.0.0.1:8000",
            ["127.0.0.1:8000", "localhost:8000", "[::1]:8000", "localhost"],
            "127.0.0.1.evil.example:80",
        ),
        ("[::1]:8000", ["[::1]:8000", "localhost:8000"], "[::2]:8000"),
        ("[fd00::5]:80", ["[fd00::5]", "[fd00::5]:80"], "localhost:80"),
        ("10.0.0.5:80", ["10.0.0.5", "10.0.0.5:80"], "localhost"),
    ],
)
def test_the_names_that_are_answered_to(place_to_listen: str, hosts: list[str], strange: str) -> None:
    """An address of IPv6 stands in brackets in what a client sends, and port 80 does not stand there."""
    from mcp.server.transport_security import TransportSecurityMiddleware

    from interlock.integrations.mcp._http import address, security_of

    guard = TransportSecurityMiddleware(security_of(address(place_to_listen)[0]))
    assert [host for host in hosts if not guard._validate_host(host)] == []
    assert not guard._validate_host(strange)
