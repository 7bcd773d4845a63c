"""OpenAI Agents SDK: a tool that needs approval, and the run's state kept as text while it waits."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.suites.matrix import arms
from benchmarks.suites.matrix.case import TOOL, Job
from benchmarks.suites.matrix.framework import Framework

FRAMEWORK = Framework(
    name="openai_agents",
    title="OpenAI Agents SDK",
    packages=("openai-agents",),
    extra="openai-agents",
    docs="https://openai.github.io/openai-agents-python/human_in_the_loop/",
    starts="`Runner.run(agent, task)`; the tool is declared with `needs_approval=True`",
    approves="`RunState.from_string(agent, saved)`, `state.approve(...)`, `Runner.run(agent, state)`",
    persists="the state of the waiting run (`result.to_state().to_string()`), in a file",
    resumes="the same saved state is loaded again, and the person's present word is given: `approve` or `reject`",
    wrapper="interlock.integrations.openai_agents.protect_agent",
    example="openai_agents",
    order=50,
)


def start(job: Job) -> None:
    """Run up to the approval, and keep the state."""
    from agents import Runner

    agent = _agent(job, called=False)
    job.save("state", asyncio.run(Runner.run(agent, f"refund {job.case}")).to_state().to_string())


def approve(job: Job) -> Any:
    """Approve what was saved."""
    return asyncio.run(_run_on(_agent(job, called=True), job, approved=True))


def resume(job: Job) -> Any:
    """The saved state knows nothing of the approval, so the application asks for it again."""
    approved = job.approvals.allows(job.amount_minor)
    return asyncio.run(_run_on(_agent(job, called=True), job, approved=approved))


async def _run_on(agent: Any, job: Job, *, approved: bool) -> Any:
    from agents import Runner, RunState

    state = await RunState.from_string(agent, job.saved("state"))
    for one in state.get_interruptions():
        if approved:
            state.approve(one)
        else:
            state.reject(one)
    result = await Runner.run(agent, state)
    if not approved:
        return arms.NOT_APPROVED
    outputs = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    return outputs[-1] if outputs else ""


def _agent(job: Job, *, called: bool) -> Any:
    from agents import Agent, function_tool, set_tracing_disabled
    from agents.testing import ScriptedModel, assistant_message, function_call

    @function_tool(needs_approval=True)
    def create_refund(order_id: str, amount: int, reference: str = "") -> str:
        """Refund part of a payment."""
        return arms.act(job, reference)

    set_tracing_disabled(True)
    script = [assistant_message("done")] if called else [function_call(TOOL, job.arguments, call_id="call_1")]
    agent: Agent[Any] = Agent(name="support", model=ScriptedModel([script]), tools=[create_refund])
    if job.arm == "interlock":
        from interlock.integrations.openai_agents import protect_agent

        protect_agent(agent, {"tools": {TOOL: arms.effect_of(job)}}, journal=job.journal).recover()
    return agent
