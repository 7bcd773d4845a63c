"""Anthropic's `tool_runner` behind the gate, under the whole contract, on the real SDK and a local service that speaks its API."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from anthropic import Anthropic, AsyncAnthropic, beta_async_tool, beta_tool

from interlock.integrations.anthropic import protect_beta_tools
from interlock.testing.integration import IntegrationContract, IntegrationDriver, ModelCall, Place, Told


class Scripted(BaseHTTPRequestHandler):
    """Makes the calls that the server's script says, and is done once their results are in the messages."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        last = body["messages"][-1]["content"]
        results = [block for block in last if isinstance(block, dict) and block["type"] == "tool_result"]
        script: Any = self.server
        content: list[dict[str, Any]] = [
            {"type": "tool_use", "id": call.id, "name": call.tool, "input": dict(call.arguments)}
            for call in script.calls
        ]
        if results:
            script.results = results
            content = [{"type": "text", "text": "done"}]
        answer = json.dumps(
            {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": content,
             "stop_reason": "end_turn" if results else "tool_use", "stop_sequence": None,
             "usage": {"input_tokens": 1, "output_tokens": 1}}
        ).encode()  # fmt: skip
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


class Runner(IntegrationDriver):
    """An agent of the tool runner."""

    not_applicable: ClassVar = {
        "approval": "the tool runner has no pause for a person; a loop of one's own has",
        "edit": "the tool runner has no reviewer who could change a call",
        "retry": "the tool runner repeats requests to the model, never a tool",
        "streaming": "the runner runs its tools after the streamed reply, by the same call; eager runs are not driven here",
        "call_id": "the tool runner tells a tool no id of its call",
    }

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        make: Any = beta_async_tool if place.is_async else beta_tool
        self.tools = protect_beta_tools(
            [make(_texts(function, place.is_async)) for function in place.functions.values()],
            place.config,
            journal=place.journal,
        )
        self.server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def recover(self) -> Sequence[Any]:
        return self.tools.recover()

    def run(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        self.server.calls, self.server.results = list(calls), []
        with Anthropic(base_url=self.url, api_key="x") as client:
            client.beta.messages.tool_runner(**self.request(thread)).until_done()
        return self.told()

    async def arun(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        if not self.place.is_async:  # the async runner takes async tools only
            return await asyncio.to_thread(self.run, calls, thread=thread)
        self.server.calls, self.server.results = list(calls), []
        async with AsyncAnthropic(base_url=self.url, api_key="x") as client:
            await client.beta.messages.tool_runner(**self.request(thread)).until_done()
        return self.told()

    def resume(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        return self.run(calls, thread=thread)  # the runner keeps nothing: the request is made again

    def request(self, thread: str) -> dict[str, Any]:
        message = {"role": "user", "content": [{"type": "text", "text": thread}]}
        return {"model": "scripted", "max_tokens": 100, "messages": [message], "tools": list(self.tools)}

    def told(self) -> list[Told]:
        results = self.server.results
        return [Told(_text(result["content"]), bool(result.get("is_error"))) for result in results]

    def close(self) -> None:
        self.tools.close()
        self.server.shutdown()
        self.server.server_close()


def _texts(function: Any, is_async: bool) -> Any:
    """A tool of the runner answers with text."""
    import functools

    @functools.wraps(function)
    def sync(**arguments: Any) -> str:
        return json.dumps(function(**arguments))

    @functools.wraps(function)
    async def awaited(**arguments: Any) -> str:
        return json.dumps(await function(**arguments))

    return awaited if is_async else sync


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


class TestToolRunner(IntegrationContract):
    driver = Runner
