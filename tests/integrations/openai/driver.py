"""OpenAI's tool runners under the contract, on the real SDK and a local service that speaks the Responses API, streamed or not."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from openai import AsyncOpenAI, OpenAI
from openai.lib.responses_tool_runner import (
    AsyncRegisteredFunction,
    AsyncResponsesToolLedger,
    AsyncResponsesToolRunner,
    RegisteredFunction,
    ResponsesToolLedger,
    ResponsesToolRunner,
)

from interlock.integrations.openai import protect_functions
from interlock.testing.driver import IntegrationDriver, ModelCall, Place, Told

SCHEMAS: dict[str, dict[str, Any]] = {
    "create_refund": {"order_id": "string", "amount": "integer", "reference": "string", "note": "string"},
    "get_order": {"order_id": "string"},
    "find_refund": {"reference": "string"},
}


class Script(BaseHTTPRequestHandler):
    """Makes the calls of the server's script, and is done once their outputs are in the input."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        script: Any = self.server
        outputs = [item for item in body["input"] if item.get("type") == "function_call_output"]
        script.outputs = {item["call_id"]: item["output"] for item in outputs}
        items = [
            {"type": "function_call", "id": f"fc_{number}", "call_id": call.id, "name": call.tool,
             "arguments": json.dumps(dict(call.arguments)), "status": "completed"}
            for number, call in enumerate(script.calls)
        ]  # fmt: skip
        if outputs:
            text = {"type": "output_text", "text": "done", "annotations": []}
            items = [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}]
        response = {
            "id": "resp_1", "object": "response", "created_at": 0, "status": "completed", "model": "scripted",
            "output": items, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        }  # fmt: skip
        self.send_response(200)
        if body.get("stream"):
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            self.stream(items, response)
            return
        answer = json.dumps(response).encode()
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def stream(self, items: list[dict[str, Any]], response: dict[str, Any]) -> None:
        numbers = iter(range(1000))
        started = {**response, "status": "in_progress", "output": []}

        def send(kind: str, **data: Any) -> None:
            event = {"type": kind, "sequence_number": next(numbers), **data}
            self.wfile.write(f"event: {kind}\ndata: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()

        send("response.created", response=started)
        for index, item in enumerate(items):
            empty = {**item, "status": "in_progress", **({"arguments": ""} if "arguments" in item else {"content": []})}
            send("response.output_item.added", output_index=index, item=empty)
            if "arguments" in item:
                of = {"output_index": index, "item_id": item["id"]}
                send("response.function_call_arguments.delta", delta=item["arguments"], **of)
                send("response.function_call_arguments.done", arguments=item["arguments"], name=item["name"], **of)
            send("response.output_item.done", output_index=index, item=item)
        send("response.completed", response=response)
        self.close_connection = True


class Service:
    """A local model that follows a script."""

    def __init__(self) -> None:
        self.server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Script)
        self.server.calls, self.server.outputs = [], {}
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.how: dict[str, Any] = {"base_url": f"http://127.0.0.1:{self.server.server_port}/v1", "api_key": "x"}

    def told(self, calls: Sequence[ModelCall]) -> list[Told]:
        """What the model was told; OpenAI has no error form for it."""
        return [Told(self.server.outputs[call.id], is_error=None) for call in calls if call.id in self.server.outputs]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def registered(place: Place, **options: bool) -> list[Any]:
    """The contract's functions, as the runner registers them."""
    made: list[Any] = []
    for name, function in place.functions.items():
        properties = {argument: {"type": kind} for argument, kind in SCHEMAS[name].items()}
        tool: Any = {
            "type": "function", "name": name, "description": function.__doc__, "strict": False,
            "parameters": {"type": "object", "properties": properties, "required": []},
        }  # fmt: skip
        if place.is_async:
            made.append(AsyncRegisteredFunction(tool, execute=_awaited(function), **options))
        else:
            made.append(RegisteredFunction(tool, execute=_called(function), **options))
    return made


def _called(function: Any) -> Any:
    return lambda arguments: json.dumps(function(**arguments))


def _awaited(function: Any) -> Any:
    async def execute(arguments: dict[str, Any]) -> str:
        return json.dumps(await function(**arguments))

    return execute


class ResponsesDriver(IntegrationDriver):
    """The runner with its ledger. A pending checkpoint is reconciled through the gate, after a crash and after a pause for a person."""

    not_applicable: ClassVar[Mapping[str, str]] = {
        "retry": "the runner repeats a request to the model at most, never a function",
        "call_id": "the runner tells a function no id of its call",
        "defaults": "a strict schema has no defaults; a pydantic model has, and a test of its own",
        "types": "a function of a plain schema gets what the model wrote; one of a pydantic model has a test of its own",
    }
    streamed: ClassVar[Mapping[str, Any]] = {}
    options: ClassVar[Mapping[str, bool]] = {}

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.functions = protect_functions(registered(place, **self.options), place.config, journal=place.journal)
        self.service = Service()

    def recover(self) -> Sequence[Any]:
        return self.functions.recover()

    def close(self) -> None:
        self.functions.close()
        self.service.close()

    # --- runs --------------------------------------------------------------------------------------------------------------

    def run(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        if self.place.is_async:
            return asyncio.run(self.arun(calls, thread=thread))
        return self.go(calls, thread, **self.streamed)

    def stream(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        return self.go(calls, thread, stream=True)

    def go(self, calls: Sequence[ModelCall], thread: str, resume: Any = None, **how: Any) -> list[Told]:
        self.service.server.calls = list(calls)
        with OpenAI(**self.service.how) as client:
            runner = ResponsesToolRunner(functions=list(self.functions))
            runner.run(client, self.params, max_steps=4, ledger=self.ledger(thread, resume), **how)
        return self.service.told(calls)

    async def arun(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        self.service.server.calls = list(calls)
        functions = [
            function
            if isinstance(function, AsyncRegisteredFunction)  # the async runner takes async functions only
            else AsyncRegisteredFunction(function.tool, execute=_in_a_thread(function.execute))
            for function in self.functions
        ]
        async with AsyncOpenAI(**self.service.how) as client:
            runner = AsyncResponsesToolRunner(functions=functions)
            await runner.run(client, self.params, max_steps=4, ledger=self.aledger(thread), **self.streamed)
        return self.service.told(calls)

    @property
    def params(self) -> Any:
        return {"model": "scripted", "input": [{"role": "user", "content": "go on"}]}

    # --- what is saved -----------------------------------------------------------------------------------------------------

    def ledger(self, thread: str, resume: Any = None) -> Any:
        return ResponsesToolLedger(run_id=thread, save=lambda saved: self.save(thread, saved), resume_from=resume)

    def aledger(self, thread: str) -> Any:
        async def save(saved: Any) -> None:
            self.save(thread, saved)

        return AsyncResponsesToolLedger(run_id=thread, save=save)

    def save(self, thread: str, checkpoint: Any) -> None:
        (self.place.state / f"{thread}.json").write_text(json.dumps(checkpoint))

    def saved(self, thread: str) -> Any:
        return json.loads((self.place.state / f"{thread}.json").read_text())

    def resume(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        boundary = self.functions.reconcile(self.saved(thread))
        self.save(thread, boundary)
        return self.go(calls, thread, resume=boundary)

    # --- approvals: the runner stops at a turn before it runs its functions ------------------------------------------------

    def pause(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> None:
        self.service.server.calls = list(calls)
        with OpenAI(**self.service.how) as client:
            runner = ResponsesToolRunner(functions=list(self.functions))
            turns = runner.iterate(client, self.params, max_steps=4, ledger=self.ledger(thread))
            assert not next(turns).tools_executed
            turns.close()
        (self.place.state / f"paused-{thread}.json").write_text(json.dumps(self.saved(thread)))
        (self.place.state / f"seen-{thread}.json").write_text(json.dumps(self.functions.see(self.saved(thread))))

    def approve(
        self, calls: Sequence[ModelCall], *, thread: str = "thread-1", edited: Mapping[str, Any] | None = None
    ) -> list[Told]:
        paused = self.saved(f"paused-{thread}")
        if edited is not None:
            paused["pending_items"][0]["arguments"] = json.dumps(dict(edited))
        return self.go(calls, thread, resume=self.functions.reconcile(paused, seen=self.saved(f"seen-{thread}")))

    def decline(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        declined = {call.id: "A person declined it." for call in calls}
        return self.go(
            calls, thread, resume=self.functions.reconcile(self.saved(f"paused-{thread}"), declined=declined)
        )


class EagerDriver(ResponsesDriver):
    """Without a ledger, streamed: functions run, several at a time, while the model's answer is still coming."""

    streamed: ClassVar[Mapping[str, Any]] = {"stream": True, "eager": True}
    options: ClassVar[Mapping[str, bool]] = {"independent": True}
    not_applicable: ClassVar[Mapping[str, str]] = {
        **ResponsesDriver.not_applicable,
        "approval": "an eager run does not stop before it runs its functions",
        "edit": "an eager run does not stop before it runs its functions",
    }
    pause = IntegrationDriver.pause
    approve = IntegrationDriver.approve
    decline = IntegrationDriver.decline

    def ledger(self, thread: str, resume: Any = None) -> Any:
        return None

    def aledger(self, thread: str) -> Any:
        return None

    def resume(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        return self.run(calls, thread=thread)  # without a ledger nothing was kept: the request is made again


class EagerLedgerDriver(ResponsesDriver):
    """Streamed with a ledger: functions run one by one while the model's answer is still coming, each with its checkpoint."""

    streamed: ClassVar[Mapping[str, Any]] = {"stream": True, "eager": True}


def _in_a_thread(execute: Any) -> Any:
    async def aexecute(arguments: Any) -> Any:
        return await asyncio.to_thread(execute, arguments)

    return aexecute
