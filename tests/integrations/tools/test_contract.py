"""`protect()` under the whole contract: hand-written loops in the forms of Anthropic, OpenAI Responses and OpenAI Chat Completions."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from interlock.testing.integration import IntegrationContract, IntegrationDriver, ModelCall, Place, Told
from interlock.tools import Tools, protect


class Loop(IntegrationDriver):
    """A loop as people write it: it saves its messages after each step, runs the tool calls of an answer, and hands back the results."""

    not_applicable: ClassVar = {
        "streaming": "a hand-written loop runs the tools once the answer is complete, however it came in",
        "types": "a plain function takes what it is called with, whatever its annotations say",
    }
    evidence = ("tool_use_id",)

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.tools: Tools = protect(place.functions, place.config, journal=place.journal)

    def recover(self) -> Sequence[Any]:
        return self.tools.recover()

    def run(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        self.save(thread, {"answer": self.answer(calls)})
        return self.told(self.tools.replies(self.answer(calls)))

    async def arun(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        self.save(thread, {"answer": self.answer(calls)})
        return self.told(await self.tools.areplies(self.answer(calls)))

    def resume(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        return self.told(self.tools.replies(self.load(thread)["answer"]))

    def run_with_retry(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        told: list[Told] = []
        for _ in range(3):
            told = self.run(calls, thread=thread)
            if not any(self.tools[call.tool](**call.arguments)["status"] == "FAILED" for call in calls):
                break
        return told

    def pause(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> None:
        answer = self.answer(calls)
        self.save(thread, {"answer": answer, "seen": self.tools.see(answer)})

    def approve(
        self, calls: Sequence[ModelCall], *, thread: str = "thread-1", edited: Mapping[str, Any] | None = None
    ) -> list[Told]:
        saved = self.load(thread)
        answer = saved["answer"]
        if edited is not None:
            answer = self.answer([ModelCall(edited, id=calls[0].id)])
        return self.told(self.tools.replies(answer, decision="approval-1", seen=saved["seen"]))

    def decline(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        return [Told("declined", True) for _ in self.load(thread)["answer"]["content"]]

    def close(self) -> None:
        self.tools.close()

    def save(self, thread: str, state: Mapping[str, Any]) -> None:
        file = self.place.state / f"{thread}.json"
        half = file.with_suffix(f".{os.getpid()}")
        half.write_text(json.dumps(state))
        half.rename(file)

    def load(self, thread: str) -> Any:
        return json.loads((self.place.state / f"{thread}.json").read_text())

    def answer(self, calls: Sequence[ModelCall]) -> dict[str, Any]:
        return {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": call.id, "name": call.tool, "input": dict(call.arguments)} for call in calls
            ],
        }

    def told(self, results: list[dict[str, Any]]) -> list[Told]:
        return [Told(result["content"], result.get("is_error", False)) for result in results]


class ResponsesLoop(Loop):
    """The same in the form of OpenAI's Responses, which has no error form for a tool's output."""

    evidence = ("call_id",)

    def answer(self, calls: Sequence[ModelCall]) -> dict[str, Any]:
        return {
            "output": [
                {
                    "type": "function_call",
                    "call_id": call.id,
                    "name": call.tool,
                    "arguments": json.dumps(call.arguments),
                }
                for call in calls
            ]
        }

    def decline(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        return [Told("declined", None) for _ in self.load(thread)["answer"]["output"]]

    def told(self, results: list[dict[str, Any]]) -> list[Told]:
        return [Told(result["output"], None) for result in results]


class ChatLoop(Loop):
    """The same in the form of OpenAI's Chat Completions."""

    evidence = ("tool_call_id",)

    def answer(self, calls: Sequence[ModelCall]) -> dict[str, Any]:
        return {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.tool, "arguments": json.dumps(call.arguments)},
                }
                for call in calls
            ],
        }

    def decline(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        return [Told("declined", None) for _ in self.load(thread)["answer"]["tool_calls"]]

    def told(self, results: list[dict[str, Any]]) -> list[Told]:
        return [Told(result["content"], None) for result in results]


class TestAnthropicForm(IntegrationContract):
    driver = Loop


class TestResponsesForm(IntegrationContract):
    driver = ResponsesLoop


class TestChatForm(IntegrationContract):
    driver = ChatLoop


def test_what_an_approver_saw_holds_for_a_default_that_was_left_out(tmp_path: Path) -> None:
    """A person approves a call as it will be made, defaults and all: facts that have changed since are seen, in each form of a loop."""
    stock = {"eur": 5}

    def order(item: str, currency: str = "eur") -> str:
        return f"ordered {item}"

    def price(currency: str) -> dict[str, int]:
        return {"price": stock[currency]}

    async def later() -> list[dict[str, Any]]:
        seen = await tools.asee(answer)
        stock["eur"] = 9
        return await tools.areplies(answer, decision="approval-2", seen=seen)

    config = {
        "tools": {
            "order": {
                "key": ["item", "currency"],
                "premises": {"tool": "price", "arguments": {"currency": "currency"}, "fields": "price"},
            }
        }
    }
    with protect([order, price], config, journal=tmp_path) as tools:
        call = {"type": "tool_use", "id": "call_1", "name": "order", "input": {"item": "a lamp"}}
        unfit = {**call, "id": "call_2", "input": {"colour": "red"}}
        answer = {"content": [call, unfit]}
        seen = tools.see(answer)
        assert list(seen) == ["call_1"]
        stock["eur"] = 7
        told, wrong = tools.replies(answer, decision="approval-1", seen=seen)
        assert told["content"].startswith("Refused")
        assert "Correct the call" in wrong["content"]
        told, _ = asyncio.run(later())
        assert told["content"].startswith("Refused")
