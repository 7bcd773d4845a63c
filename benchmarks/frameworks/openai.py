"""OpenAI's tool runner: a ledger that is saved around each call, and a turn that waits for a person before its call is run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.suites.matrix import arms
from benchmarks.suites.matrix.case import TOOL, Job
from benchmarks.suites.matrix.framework import Framework

FRAMEWORK = Framework(
    name="openai",
    title="OpenAI tool runner",
    packages=("openai",),
    extra="openai",
    docs="`openai.lib.responses_tool_runner` (ResponsesToolLedger: reconcile pending work externally, resume from a boundary)",
    starts="`ResponsesToolRunner.iterate(..., ledger=)` up to the turn that calls the tool; the application stops there",
    approves=(
        "the application settles the saved pending checkpoint: it runs the approved call, makes a boundary of the checkpoint, and runs on "
        "from that"
    ),
    persists="the ledger's checkpoint before and after each call, in a file",
    resumes="the person is asked again, and the same is done with the ledger's last checkpoint, which is still pending",
    wrapper="interlock.integrations.openai.protect_functions",
    example="openai_runner",
    order=61,
)


def start(job: Job) -> None:
    """Run up to the turn that calls the tool, and keep its checkpoint."""
    with _runner(job) as run:
        turns = run.begin()
        assert not next(turns).tools_executed
        turns.close()
    job.save("paused", job.saved("ledger"))


def approve(job: Job) -> Any:
    """Settle what was saved at the stop, and run on."""
    with _runner(job) as run:
        return run.go_on(job.saved("paused"))


def resume(job: Job) -> Any:
    """The ledger knows nothing of the approval, so the application asks for it again."""
    if not job.approvals.allows(job.amount_minor):
        return arms.NOT_APPROVED
    with _runner(job) as run:
        return run.go_on(job.saved("ledger"))


class _Run:
    """The runner over a scripted model, with the case's functions and ledger."""

    def __init__(self, job: Job, client: Any) -> None:
        self._job, self._client = job, client
        self._functions, self._reconcile = _functions(job)

    def begin(self) -> Any:
        """The turns of a new run."""
        from openai.lib.responses_tool_runner import ResponsesToolRunner

        runner = ResponsesToolRunner(functions=self._functions)
        return runner.iterate(self._client, self._asked(), max_steps=4, ledger=self._ledger(None))

    def go_on(self, checkpoint: Any) -> Any:
        """Settle a checkpoint, run to the end, and return what the model is told of the call."""
        from openai.lib.responses_tool_runner import ResponsesToolRunner

        boundary = self._reconcile(checkpoint)
        self._job.save("ledger", boundary)
        runner = ResponsesToolRunner(functions=self._functions)
        runner.run(self._client, self._asked(), max_steps=4, ledger=self._ledger(boundary))
        history = self._job.saved("ledger")["history"]
        return next(item["output"] for item in reversed(history) if item.get("type") == "function_call_output")

    def _asked(self) -> Any:
        return {"model": "scripted", "input": [{"role": "user", "content": f"refund {self._job.case}"}]}

    def _ledger(self, boundary: Any) -> Any:
        from openai.lib.responses_tool_runner import ResponsesToolLedger

        def save(saved: Any) -> None:
            self._job.save("ledger", saved)

        return ResponsesToolLedger(run_id=self._job.case, save=save, resume_from=boundary)


@contextmanager
def _runner(job: Job) -> Iterator[_Run]:
    import httpx2
    from openai import OpenAI

    def answer(asked: httpx2.Request) -> httpx2.Response:
        told = [item for item in json.loads(asked.content)["input"] if item.get("type") == "function_call_output"]
        call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed"}
        call |= {"name": TOOL, "arguments": json.dumps(job.arguments)}
        text = {"type": "output_text", "text": "done", "annotations": []}
        done = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
        response = {"id": "resp_1", "object": "response", "created_at": 0, "status": "completed", "model": "scripted"}
        response |= {"output": [done if told else call], "parallel_tool_calls": True, "tool_choice": "auto"}
        return httpx2.Response(200, json={**response, "tools": []})

    with OpenAI(api_key="none", http_client=httpx2.Client(transport=httpx2.MockTransport(answer))) as client:
        yield _Run(job, client)


def _functions(job: Job) -> tuple[list[Any], Any]:
    """The functions as the runner takes them, and what settles a pending checkpoint."""
    from openai.lib.responses_tool_runner import RegisteredFunction

    kinds = {"order_id": "string", "amount": "integer", "reference": "string"}
    schema = {"type": "object", "properties": {name: {"type": kind} for name, kind in kinds.items()}}
    tool: Any = {
        "type": "function",
        "name": TOOL,
        "description": "Refund part of a payment.",
        "parameters": schema,
        "strict": False,
    }

    def create_refund(given: dict[str, Any]) -> str:
        return arms.act(job, given.get("reference", ""))

    listed: list[Any] = [RegisteredFunction(tool, execute=create_refund)]
    if job.arm != "interlock":
        return listed, lambda saved: _settled(saved, create_refund)
    from interlock.integrations.openai import protect_functions

    functions = protect_functions(listed, {"tools": {TOOL: arms.effect_of(job)}}, journal=job.journal)
    functions.recover()
    return list(functions), functions.reconcile


def _settled(saved: dict[str, Any], create_refund: Any) -> dict[str, Any]:
    """A pending checkpoint as a boundary: what the application runs itself of the calls that nobody has answered."""
    if saved["phase"] != "pending":
        return saved
    calls = [item for item in saved["pending_items"] if item["type"] == "function_call"]
    calls = [item for item in calls if item["call_id"] not in saved["returned_call_ids"]]
    outputs = list(saved["returned_outputs"])
    for item in calls:
        output = create_refund(json.loads(item["arguments"]))
        outputs.append({"type": "function_call_output", "call_id": item["call_id"], "output": output})
    ids = saved["returned_call_ids"] + [item["call_id"] for item in calls]
    history = saved["history"] + saved["pending_items"] + outputs
    boundary = {"phase": "boundary", "revision": saved["revision"] + 1, "history": history, "pending_items": []}
    return {**saved, **boundary, "attempted_call_ids": ids, "returned_call_ids": ids, "returned_outputs": []}
