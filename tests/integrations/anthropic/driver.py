"""Anthropic's `tool_runner` under the contract, on the real SDK and a local service that speaks its API, streamed or not."""

from __future__ import annotations

import asyncio
import functools
import json
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from anthropic import Anthropic, AsyncAnthropic, beta_async_tool, beta_tool
from anthropic.lib.tools import BetaAsyncBuiltinFunctionTool

from interlock.integrations.anthropic import protect_beta_tools
from interlock.testing.driver import IntegrationDriver, ModelCall, Place, Told


class Script(BaseHTTPRequestHandler):
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
        message = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": content,
            "stop_reason": "end_turn" if results else "tool_use", "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }  # fmt: skip
        self.send_response(200)
        if body.get("stream"):
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            self.stream(message)
            return
        answer = json.dumps(message).encode()
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def stream(self, message: dict[str, Any]) -> None:
        script: Any = self.server

        def send(kind: str, **data: Any) -> None:
            self.wfile.write(f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode())
            self.wfile.flush()

        send("message_start", message={**message, "content": [], "stop_reason": None})
        for index, block in enumerate(message["content"]):
            if block["type"] == "tool_use":
                send("content_block_start", index=index, content_block={**block, "input": {}})
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            else:
                send("content_block_start", index=index, content_block={"type": "text", "text": ""})
                delta = {"type": "text_delta", "text": block["text"]}
            send("content_block_delta", index=index, delta=delta)
            send("content_block_stop", index=index)
        stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        send("message_delta", delta=stop, usage={"output_tokens": 1})
        script.before_the_end()
        send("message_stop")
        self.close_connection = True


class RunnerDriver(IntegrationDriver):
    """An agent of the tool runner."""

    not_applicable: ClassVar[Mapping[str, str]] = {
        "approval": "the tool runner has no pause for a person; a loop of one's own has",
        "edit": "the tool runner has no reviewer who could change a call",
        "retry": "the tool runner repeats requests to the model, never a tool",
        "call_id": "the tool runner tells a tool no id of its call",
    }
    streamed: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        make: Any = beta_async_tool if place.is_async else beta_tool
        self.tools = protect_beta_tools(
            [make(_texts(function, place.is_async)) for function in place.functions.values()],
            place.config,
            journal=place.journal,
        )
        self.server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Script)
        self.server.before_the_end = lambda: None
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def recover(self) -> Sequence[Any]:
        return self.tools.recover()

    def run(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        if self.place.is_async:
            return asyncio.run(self.arun(calls, thread=thread))
        return self.go(calls, thread, **self.streamed)

    def stream(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        return self.go(calls, thread, **{"stream": True, **self.streamed})

    def go(self, calls: Sequence[ModelCall], thread: str, **how: Any) -> list[Told]:
        self.server.calls, self.server.results = list(calls), []
        with Anthropic(base_url=self.url, api_key="x") as client:
            runner: Any = client.beta.messages.tool_runner(**self.request(thread, self.tools), **how)
            if how:
                for reply in runner:
                    for _ in reply:
                        pass
            else:
                runner.until_done()
        return self.told()

    async def arun(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        self.server.calls, self.server.results = list(calls), []
        tools = self.tools if self.place.is_async else [_InAThread(tool) for tool in self.tools]
        async with AsyncAnthropic(base_url=self.url, api_key="x") as client:
            runner: Any = client.beta.messages.tool_runner(**self.request(thread, tools), **self.streamed)
            if self.streamed:
                async for reply in runner:
                    async for _ in reply:
                        pass
            else:
                await runner.until_done()
        return self.told()

    def resume(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        return self.run(calls, thread=thread)  # the runner keeps nothing: the request is made again

    def request(self, thread: str, tools: Sequence[Any]) -> dict[str, Any]:
        message = {"role": "user", "content": [{"type": "text", "text": thread}]}
        return {"model": "scripted", "max_tokens": 100, "messages": [message], "tools": list(tools)}

    def told(self) -> list[Told]:
        results = self.server.results
        return [Told(_text(result["content"]), bool(result.get("is_error"))) for result in results]

    def close(self) -> None:
        self.tools.close()
        self.server.shutdown()
        self.server.server_close()


class EagerDriver(RunnerDriver):
    """As `RunnerDriver`, with tools that run while the model's reply is still streaming."""

    streamed: ClassVar[Mapping[str, Any]] = {"stream": True, "run_tools_eagerly": True}


class _InAThread(BetaAsyncBuiltinFunctionTool):
    """A sync tool for the async runner, which takes async tools only."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        return self.inner.name

    def to_dict(self) -> Any:
        return self.inner.to_dict()

    async def call(self, input: object) -> Any:
        return await asyncio.to_thread(self.inner.call, input)


def _texts(function: Any, is_async: bool) -> Any:
    """A tool of the runner answers with text."""

    @functools.wraps(function)
    def sync(**arguments: Any) -> str:
        return json.dumps(function(**arguments))

    @functools.wraps(function)
    async def awaited(**arguments: Any) -> str:
        return json.dumps(await function(**arguments))

    return awaited if is_async else sync


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)
