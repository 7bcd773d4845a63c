"""Google ADK: a resumable app on the SQLite session service, and a tool that asks for confirmation."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import AsyncGenerator
from typing import Any

from benchmarks.suites.matrix import arms
from benchmarks.suites.matrix.case import TOOL, Job
from benchmarks.suites.matrix.framework import Framework

FRAMEWORK = Framework(
    name="adk",
    title="Google ADK",
    packages=("google-adk",),
    extra="adk",
    docs="https://google.github.io/adk-docs/tools-custom/confirmation/, https://google.github.io/adk-docs/runtime/resume/",
    starts="`runner.run_async(new_message=...)`; the tool is `FunctionTool(..., require_confirmation=True)`",
    approves=(
        "the answer to `adk_request_confirmation` is sent as a function response, with the invocation's id; who loses the session to "
        "another run (`StaleSessionError`) reads what that one is told"
    ),
    persists="every event, by `SqliteSessionService`, with `ResumabilityConfig(is_resumable=True)`",
    resumes="`runner.run_async(invocation_id=...)` of the one that died: the confirmation is in the session, the tool runs again",
    wrapper="interlock.integrations.adk.InterlockPlugin",
    example="adk",
    order=55,
)
ASKS = "adk_request_confirmation"
POLL_S, ENOUGH_S = 0.02, 30.0


def start(job: Job) -> None:
    """Run up to the confirmation, and keep what it asks for."""
    job.save("asked", asyncio.run(_start(job)))


def approve(job: Job) -> Any:
    """Confirm it."""
    return asyncio.run(_approve(job))


def resume(job: Job) -> Any:
    """Resume the invocation."""
    return asyncio.run(_run(job, invocation_id=job.saved("asked")["invocation"]))


async def _start(job: Job) -> dict[str, str]:
    from google.genai import types

    runner = await _runner(job)
    await runner.session_service.create_session(app_name="shop", user_id="ann", session_id=job.case)
    asked: dict[str, str] = {}
    message = types.Content(role="user", parts=[types.Part(text="refund it")])
    async for event in runner.run_async(user_id="ann", session_id=job.case, new_message=message):
        for call in event.get_function_calls():
            if call.name == ASKS:
                asked = {"call": str(call.id), "invocation": event.invocation_id}
    await runner.close()
    return asked


async def _approve(job: Job) -> Any:
    from google.genai import types

    asked = job.saved("asked")
    answer = types.FunctionResponse(id=asked["call"], name=ASKS, response={"confirmed": True})
    message = types.Content(role="user", parts=[types.Part(function_response=answer)])
    return await _run(job, invocation_id=asked["invocation"], new_message=message)


async def _run(job: Job, **given: Any) -> Any:
    from google.adk.errors import StaleSessionError

    runner = await _runner(job)
    try:
        async for _ in runner.run_async(user_id="ann", session_id=job.case, **given):
            pass
    except StaleSessionError:
        # Another run of the session was ahead. ADK stores nothing more of this one; the other goes on to the tool's result.
        deadline = time.monotonic() + ENOUGH_S
        while not (told := await _told(runner, job)):
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(POLL_S)
    else:
        # A confirmation that was answered before starts nothing; what the run was told then stands in the session.
        told = await _told(runner, job)
    await runner.close()
    return told[-1].get("result", told[-1]) if told else ""


async def _told(runner: Any, job: Job) -> list[dict[str, Any]]:
    """What the tool was answered with so far, by the stored session."""
    session = await runner.session_service.get_session(app_name="shop", user_id="ann", session_id=job.case)
    responses = [one for event in session.events for one in event.get_function_responses() if one.name == TOOL]
    return [one.response for one in responses if not _only_asks(one.response)]


def _only_asks(response: dict[str, Any]) -> bool:
    """Whether it is the tool's first answer, which only says that a confirmation is needed."""
    return "requires confirmation" in str(response.get("error", ""))


async def _runner(job: Job) -> Any:
    warnings.simplefilter("ignore")  # it calls resuming experimental
    from google.adk.agents import LlmAgent
    from google.adk.apps import App, ResumabilityConfig
    from google.adk.models import BaseLlm
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.adk.runners import Runner
    from google.adk.sessions.sqlite_session_service import SqliteSessionService
    from google.adk.tools.function_tool import FunctionTool
    from google.genai import types

    class Scripted(BaseLlm):
        async def generate_content_async(
            self, llm_request: LlmRequest, stream: bool = False
        ) -> AsyncGenerator[LlmResponse, None]:
            told = (llm_request.contents[-1].parts or [types.Part()])[-1].function_response
            call = types.FunctionCall(name=TOOL, args=job.arguments)
            part = types.Part(text="done") if told else types.Part(function_call=call)
            yield LlmResponse(content=types.Content(role="model", parts=[part]))

    def create_refund(order_id: str, amount: int, reference: str = "") -> str:
        """Refund part of a payment."""
        return arms.act(job, reference)

    agent = LlmAgent(
        name="desk", model=Scripted(model="scripted"), tools=[FunctionTool(create_refund, require_confirmation=True)]
    )
    plugins: list[Any] = []
    if job.arm == "interlock":
        from interlock.integrations.adk import InterlockPlugin

        plugin = InterlockPlugin({"tools": {TOOL: arms.effect_of(job)}}, tools=agent, journal=job.journal)
        await plugin.arecover()
        plugins = [plugin]
    app = App(name="shop", root_agent=agent, plugins=plugins, resumability_config=ResumabilityConfig(is_resumable=True))
    return Runner(app=app, session_service=SqliteSessionService(str(job.directory / "sessions.db")))
