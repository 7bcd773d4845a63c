"""Anthropic's tool runner: an application that stops the runner for the approval, and makes the request again with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.suites.matrix import arms
from benchmarks.suites.matrix.case import TOOL, Job
from benchmarks.suites.matrix.framework import Framework

FRAMEWORK = Framework(
    name="anthropic",
    title="Anthropic tool runner",
    packages=("anthropic",),
    extra="anthropic",
    docs="https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-runner",
    starts="`client.beta.messages.tool_runner(...)`, iterated up to the message that calls the tool; the application stops there",
    approves="the application makes the request again, and lets the runner run to its end (`until_done`)",
    persists="nothing of its own; the application keeps the request",
    resumes="the request is made again: the model calls the tool again, under a new id, and the application asks the person again",
    wrapper="interlock.integrations.anthropic.protect_beta_tools",
    example="anthropic_runner",
    order=60,
)


def start(job: Job) -> None:
    """Run up to the message that calls the tool, and keep the request."""
    request = [{"role": "user", "content": f"refund {job.case}"}]
    with _runner(job, request) as (runner, _):
        message = next(iter(runner))
        assert [block.name for block in message.content if block.type == "tool_use"] == [TOOL]
        job.save("request", request)


def approve(job: Job) -> Any:
    """Make the kept request, which is approved, again."""
    with _runner(job, job.saved("request")) as (runner, told):
        runner.until_done()
        return told[-1]


def resume(job: Job) -> Any:
    """Nothing is kept of the approval, so the application asks for it again."""
    return approve(job) if job.approvals.allows(job.amount_minor) else arms.NOT_APPROVED


@contextmanager
def _runner(job: Job, request: Any) -> Iterator[tuple[Any, list[Any]]]:
    """A runner over a scripted model, and what the model was told of the tool."""
    import httpx2
    from anthropic import Anthropic

    told: list[Any] = []

    def answer(asked: httpx2.Request) -> httpx2.Response:
        last = json.loads(asked.content)["messages"][-1]["content"]
        results = [block for block in last if isinstance(block, dict) and block["type"] == "tool_result"]
        told.extend(_text(block["content"]) for block in results)
        call = {"type": "tool_use", "id": "toolu_1", "name": TOOL, "input": job.arguments}
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "content": [{"type": "text", "text": "done"}] if results else [call],
            "stop_reason": "end_turn" if results else "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        return httpx2.Response(200, json=message)

    with Anthropic(api_key="none", http_client=httpx2.Client(transport=httpx2.MockTransport(answer))) as client:
        yield (
            client.beta.messages.tool_runner(model="scripted", max_tokens=100, messages=request, tools=_tools(job)),
            told,
        )


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


def _tools(job: Job) -> list[Any]:
    from anthropic import beta_tool

    @beta_tool
    def create_refund(order_id: str, amount: int, reference: str = "") -> str:
        """Refund part of a payment."""
        return arms.act(job, reference)

    if job.arm != "interlock":
        return [create_refund]
    from interlock.integrations.anthropic import protect_beta_tools

    tools = protect_beta_tools([create_refund], {"tools": {TOOL: arms.effect_of(job)}}, journal=job.journal)
    tools.recover()
    return list(tools)
