"""The deciding step: a model reads the payment through a tool and decides the refund, over its vendor's official SDK.

Owns the task, the two tools, and one small conversation class for each wire. The scripted model, a vendor's, and a local one are all
driven by the same code; they differ in an address and a name.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import stripe

from benchmarks.harness.stripe_wire import connect
from benchmarks.suites.e2e.case import Decision, Job, ModelDoor

READ, REFUND = "read_payment", "refund_payment"
MOST_TURNS = 6
TIMEOUT_S = 60.0

SYSTEM = (
    "You are a support agent. A support lead has approved a refund. Read the payment first with read_payment. Then call "
    "refund_payment exactly once, with the approved amount. Refunds of other cases on the same payment are none of your business, "
    "as long as enough of the payment is left."
)

TOOLS: Mapping[str, dict[str, Any]] = {
    READ: {
        "description": "Reads a payment: what was paid and what was refunded so far, in minor units.",
        "parameters": {
            "type": "object",
            "properties": {"payment": {"type": "string", "description": "The payment's id, pi_..."}},
            "required": ["payment"],
        },
    },
    REFUND: {
        "description": "Refunds part of a payment. It is carried out by the worker; call it once.",
        "parameters": {
            "type": "object",
            "properties": {
                "payment": {"type": "string"},
                "amount_minor": {"type": "integer", "description": "In minor units: 2000 is 20.00 USD."},
                "reason": {"type": "string"},
            },
            "required": ["payment", "amount_minor"],
        },
    },
}


class NoDecision(RuntimeError):
    """The model decided nothing that can be carried out; the message says what it said instead."""


@dataclass(frozen=True)
class Call:
    """A tool call that the model made."""

    id: str
    tool: str
    arguments: Mapping[str, Any]


class Conversation(Protocol):
    """One conversation over one wire."""

    def ask(self) -> tuple[list[Call], str]:
        """Send what was said so far; the calls that the model makes, and its words."""

    def tell(self, call: Call, result: str) -> None:
        """What the tool answered."""

    def close(self) -> None:
        """Give its connections back."""


def decide(job: Job) -> Decision:
    """Let the model decide the case.

    Raises:
        NoDecision: It ended without a refund, or named another payment.
    """
    client = connect(job.door)
    task = f"Case {job.case}: refund {job.cap_minor} minor units of payment {job.payment}. The approval allows no more than that."
    with contextlib.closing(CONVERSATIONS[job.model.wire](job.model, task)) as conversation:
        return _decided(job, client, conversation)


def _decided(job: Job, client: stripe.StripeClient, conversation: Conversation) -> Decision:
    seen: list[str] = []
    words = ""
    for _ in range(MOST_TURNS):
        calls, words = conversation.ask()
        for call in calls:
            if call.tool == REFUND:
                if call.arguments.get("payment", job.payment) != job.payment:
                    raise NoDecision(f"the model named another payment: {dict(call.arguments)}")
                return Decision(amount_minor=int(call.arguments["amount_minor"]), seen=seen, said=words)
            told, seen = read_payment(client, job.payment)
            conversation.tell(call, json.dumps(told))
        if not calls:
            break
    raise NoDecision(f"the model called no refund; it said: {words[:300]!r}")


def read_payment(client: stripe.StripeClient, payment: str) -> tuple[dict[str, Any], list[str]]:
    """What the tool tells the model, and the ids of the refunds that stand behind it."""
    intent = client.v1.payment_intents.retrieve(payment)
    refunds = client.v1.refunds.list({"payment_intent": payment, "limit": 100}).data
    told = {
        "payment": payment,
        "paid_minor": intent.amount,
        "currency": intent.currency,
        "refunded_minor": sum(one.amount for one in refunds if one.status not in {"failed", "canceled"}),
    }
    return told, [one.id for one in refunds]


class AnthropicConversation:
    """Anthropic's Messages API."""

    def __init__(self, door: ModelDoor, task: str) -> None:
        import anthropic

        self._client = anthropic.Anthropic(**_access(door, ""), max_retries=_retries(door), timeout=TIMEOUT_S)
        self._door = door
        self._messages: list[Any] = [{"role": "user", "content": task}]

    def ask(self) -> tuple[list[Call], str]:
        tools: list[Any] = [
            {"name": name, "description": tool["description"], "input_schema": tool["parameters"]}
            for name, tool in TOOLS.items()
        ]
        answer = self._client.messages.create(
            model=self._door.name, max_tokens=1024, system=SYSTEM, messages=self._messages, tools=tools
        )
        self._messages.append({"role": "assistant", "content": [block.model_dump() for block in answer.content]})
        calls = [Call(block.id, block.name, dict(block.input)) for block in answer.content if block.type == "tool_use"]
        return calls, "".join(block.text for block in answer.content if block.type == "text")

    def tell(self, call: Call, result: str) -> None:
        block = {"type": "tool_result", "tool_use_id": call.id, "content": result}
        self._messages.append({"role": "user", "content": [block]})

    def close(self) -> None:
        self._client.close()


class ChatConversation:
    """OpenAI's Chat Completions API."""

    def __init__(self, door: ModelDoor, task: str) -> None:
        import openai

        self._client = openai.OpenAI(**_access(door, "/v1"), max_retries=_retries(door), timeout=TIMEOUT_S)
        self._door = door
        self._messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task}]

    def ask(self) -> tuple[list[Call], str]:
        tools: list[Any] = [{"type": "function", "function": {"name": name, **tool}} for name, tool in TOOLS.items()]
        answer = self._client.chat.completions.create(model=self._door.name, messages=self._messages, tools=tools)
        message = answer.choices[0].message
        self._messages.append(message.model_dump(exclude_none=True))
        calls = [
            Call(call.id, call.function.name, json.loads(call.function.arguments))
            for call in message.tool_calls or ()
            if call.type == "function"
        ]
        return calls, message.content or ""

    def tell(self, call: Call, result: str) -> None:
        self._messages.append({"role": "tool", "tool_call_id": call.id, "content": result})

    def close(self) -> None:
        self._client.close()


class ResponsesConversation:
    """OpenAI's Responses API, the whole input sent each time."""

    def __init__(self, door: ModelDoor, task: str) -> None:
        import openai

        self._client = openai.OpenAI(**_access(door, "/v1"), max_retries=_retries(door), timeout=TIMEOUT_S)
        self._door = door
        self._input: list[Any] = [{"role": "user", "content": task}]

    def ask(self) -> tuple[list[Call], str]:
        tools: list[Any] = [{"type": "function", "name": name, "strict": False, **tool} for name, tool in TOOLS.items()]
        answer = self._client.responses.create(
            model=self._door.name, instructions=SYSTEM, input=self._input, tools=tools, store=False
        )
        self._input += [item.model_dump(exclude_none=True) for item in answer.output if item.type != "reasoning"]
        calls = [
            Call(item.call_id, item.name, json.loads(item.arguments))
            for item in answer.output
            if item.type == "function_call"
        ]
        return calls, answer.output_text

    def tell(self, call: Call, result: str) -> None:
        self._input.append({"type": "function_call_output", "call_id": call.id, "output": result})

    def close(self) -> None:
        self._client.close()


class GeminiConversation:
    """Gemini's generateContent."""

    def __init__(self, door: ModelDoor, task: str) -> None:
        from google import genai
        from google.genai import types

        self._types = types
        options: dict[str, Any] = {"timeout": int(TIMEOUT_S * 1000), "api_version": "v1beta"}
        access = _access(door, "")
        if "base_url" in access:
            options["base_url"] = access.pop("base_url")
        self._client = genai.Client(**access, http_options=types.HttpOptions(**options))
        self._door = door
        self._contents: list[Any] = [types.Content(role="user", parts=[types.Part(text=task)])]

    def ask(self) -> tuple[list[Call], str]:
        types = self._types
        declared = [
            types.FunctionDeclaration(
                name=name, description=tool["description"], parameters_json_schema=tool["parameters"]
            )
            for name, tool in TOOLS.items()
        ]
        config = types.GenerateContentConfig(
            system_instruction=SYSTEM, tools=[types.Tool(function_declarations=declared)]
        )
        answer = self._client.models.generate_content(model=self._door.name, contents=self._contents, config=config)
        content = answer.candidates[0].content if answer.candidates else None
        parts = (content.parts or []) if content is not None else []
        self._contents.append(content)
        calls = [
            Call(part.function_call.id or "", str(part.function_call.name), dict(part.function_call.args or {}))
            for part in parts
            if part.function_call
        ]
        return calls, "".join(part.text for part in parts if part.text)

    def tell(self, call: Call, result: str) -> None:
        part = self._types.Part.from_function_response(name=call.tool, response={"result": result})
        self._contents.append(self._types.Content(role="user", parts=[part]))

    def close(self) -> None:
        self._client.close()


CONVERSATIONS: Mapping[str, Callable[[ModelDoor, str], Conversation]] = {
    "anthropic": AnthropicConversation,
    "openai-chat": ChatConversation,
    "openai-responses": ResponsesConversation,
    "gemini": GeminiConversation,
}


def _access(door: ModelDoor, suffix: str) -> dict[str, Any]:
    """Address and key: of a server of ours, or nothing, so that the SDK takes the key from its own variable."""
    return {} if door.url is None else {"base_url": door.url + suffix, "api_key": "scripted"}


def _retries(door: ModelDoor) -> int:
    return 2 if door.url is None else 0
