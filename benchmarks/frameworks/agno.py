"""Agno: an agent that checkpoints in SQLite, with a tool that requires confirmation."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from benchmarks.suites.matrix import arms
from benchmarks.suites.matrix.case import TOOL, Job
from benchmarks.suites.matrix.framework import Framework

FRAMEWORK = Framework(
    name="agno",
    title="Agno",
    packages=("agno", "sqlalchemy"),
    docs="https://docs.agno.com/examples/agents/checkpointing/crash-recovery",
    starts="`agent.run()`; the tool has `requires_confirmation=True`, and the run pauses",
    approves="`agent.continue_run(run_id, requirements=[confirmed])`, with the requirements that the application kept",
    persists='the paused run, in a `SqliteDb`, with `checkpoint="tool-batch"`',
    resumes="the stored run is still paused: the person is asked again, and `continue_run` is given the answer",
    wrapper="interlock.tools.protect",
    example="agno",
    order=57,
)


def start(job: Job) -> None:
    """Run up to the confirmation; the run is in the database, its open requirements go to whoever confirms."""
    run = _agent(job).run(f"refund {job.case}", session_id=job.case)
    assert run.is_paused
    job.save("run", {"run_id": run.run_id, "requirements": [one.to_dict() for one in run.active_requirements]})


def approve(job: Job) -> Any:
    """Confirm what was asked for."""
    return _continued(job, confirmed=True)


def resume(job: Job) -> Any:
    """Nothing was stored since the pause, so the person is asked again."""
    return _continued(job, confirmed=job.approvals.allows(job.amount_minor))


def _continued(job: Job, *, confirmed: bool) -> Any:
    from agno.run.requirement import RunRequirement

    saved = job.saved("run")
    requirements: list[Any] = [RunRequirement.from_dict(one) for one in saved["requirements"]]
    for one in requirements:
        if confirmed:
            one.confirm()
        else:
            one.reject("no longer approved")
    run = _agent(job).continue_run(run_id=saved["run_id"], session_id=job.case, requirements=requirements)
    return run.tools[-1].result if confirmed else arms.NOT_APPROVED


def _agent(job: Job) -> Any:
    from agno.agent import Agent
    from agno.db.sqlite import SqliteDb
    from agno.tools import tool

    def create_refund(order_id: str, amount: int, reference: str = "") -> str:
        """Refund part of a payment."""
        return arms.act(job, reference)

    offered = create_refund if job.arm != "interlock" else _gated(job, create_refund)
    return Agent(
        model=_scripted(job),
        tools=[tool(name=TOOL, requires_confirmation=True)(offered)],
        db=SqliteDb(db_file=str(job.directory / "agno.db")),
        checkpoint="tool-batch",
        telemetry=False,
    )


def _gated(job: Job, create_refund: Callable[..., str]) -> Callable[..., str]:
    from interlock.tools import protect

    tools = protect({TOOL: create_refund}, {"tools": {TOOL: arms.effect_of(job)}}, journal=job.journal)
    tools.recover()

    def gated(order_id: str, amount: int) -> str:
        """Refund part of a payment."""
        return json.dumps(tools.call(TOOL, {"order_id": order_id, "amount": amount}).as_dict())

    return gated


def _scripted(job: Job) -> Any:
    from agno.models.base import Model
    from agno.models.response import ModelResponse

    class Scripted(Model):
        """Calls the tool once, and ends once it was told something."""

        def invoke(self, messages: Any, *_: Any, **__: Any) -> ModelResponse:
            if any(message.role == "tool" for message in messages):
                return ModelResponse(role="assistant", content="done")
            call = {"name": TOOL, "arguments": json.dumps(job.arguments)}
            return ModelResponse(role="assistant", tool_calls=[{"id": "call_1", "type": "function", "function": call}])

        def _not_asked(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

        ainvoke = invoke_stream = ainvoke_stream = _not_asked
        _parse_provider_response = _parse_provider_response_delta = _not_asked

    return Scripted(id="scripted")
