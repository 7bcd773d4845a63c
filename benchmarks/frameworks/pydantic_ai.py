"""Pydantic AI: a tool that requires approval, and the message history kept as JSON while it waits."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.suites.matrix import arms
from benchmarks.suites.matrix.case import TOOL, Job
from benchmarks.suites.matrix.framework import Framework

FRAMEWORK = Framework(
    name="pydantic_ai",
    title="Pydantic AI",
    packages=("pydantic-ai-slim",),
    extra="pydantic-ai",
    docs="https://ai.pydantic.dev/deferred-tools/ (Human-in-the-Loop Tool Approval)",
    starts="`agent.run_sync(task)`; the tool is declared with `requires_approval=True`, so the run ends with `DeferredToolRequests`",
    approves="`agent.run_sync(message_history=saved, deferred_tool_results=DeferredToolResults(approvals={id: True}))`",
    persists="the message history of the run that ended (`result.all_messages_json()`), in a file",
    resumes="the same saved history is run again, and the person's present word is given: `True`, or `ToolDenied()`",
    wrapper="interlock.integrations.pydantic_ai.InterlockCapability",
    example="pydantic_ai",
    order=60,
)


def start(job: Job) -> None:
    """Run up to the approval, and keep the messages."""
    job.save("messages", json.loads(_agent(job).run_sync(f"refund {job.case}").all_messages_json()))


def approve(job: Job) -> Any:
    """Approve what was saved."""
    return _run_on(job, approved=True)


def resume(job: Job) -> Any:
    """The saved messages know nothing of the approval, so the application asks for it again."""
    return _run_on(job, approved=job.approvals.allows(job.amount_minor))


def _run_on(job: Job, *, approved: bool) -> Any:
    from pydantic_ai import DeferredToolResults, ToolDenied
    from pydantic_ai.messages import ModelMessagesTypeAdapter, ToolCallPart, ToolReturnPart

    saved = ModelMessagesTypeAdapter.validate_python(job.saved("messages"))
    asked = [part.tool_call_id for message in saved for part in message.parts if isinstance(part, ToolCallPart)]
    answers = DeferredToolResults(approvals={name: True if approved else ToolDenied() for name in asked})
    result = _agent(job).run_sync(message_history=saved, deferred_tool_results=answers)
    if not approved:
        return arms.NOT_APPROVED
    told = [part for message in result.new_messages() for part in message.parts if isinstance(part, ToolReturnPart)]
    return told[-1].content if told else ""


def _agent(job: Job) -> Any:
    from pydantic_ai import Agent, DeferredToolRequests, Tool
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    def create_refund(order_id: str, amount: int, reference: str = "") -> str:
        """Refund part of a payment."""
        return arms.act(job, reference)

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Calls the tool once, and ends once it was told something."""
        called = any(isinstance(part, ToolCallPart) for message in messages for part in message.parts)
        return ModelResponse([TextPart("done") if called else ToolCallPart(TOOL, job.arguments, tool_call_id="call_1")])

    tools: list[Any] = [Tool(create_refund, requires_approval=True)]
    capabilities: list[Any] = []
    if job.arm == "interlock":
        from interlock.integrations.pydantic_ai import InterlockCapability

        guard = InterlockCapability({"tools": {TOOL: arms.effect_of(job)}}, tools=tools, journal=job.journal)
        guard.recover()
        capabilities.append(guard)
    return Agent(FunctionModel(model), output_type=[str, DeferredToolRequests], tools=tools, capabilities=capabilities)
