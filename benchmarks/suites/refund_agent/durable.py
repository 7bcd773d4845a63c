"""A durable workflow, used as the docs of such engines say: a small faithful model of one.

The workflow is named after its case. Each step is journalled when it starts and when it ends, on disk before anything
else happens. A finished step replays its recorded result and does not run; a step that had started and not ended runs
again, with a key that is stable across its runs. A workflow of this name that has finished hands back its result,
whatever it is asked with now.

**Durable when** a step's start or end is recorded. **If the process dies** inside a step, that step runs again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.suites.refund_agent.answer import Answer
from benchmarks.suites.refund_agent.arm import Hooks, Place, redeliver
from benchmarks.suites.refund_agent.baselines import outcome_of
from benchmarks.suites.refund_agent.case import Request
from benchmarks.suites.refund_agent.client import connect


class StepJournal:
    """Append-only lines on disk: which step started, which ended with what."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def has_started(self, step: str) -> bool:
        """Whether the step was ever begun."""
        return any(entry["step"] == step for entry in self._read())

    def result(self, step: str) -> tuple[bool, Any]:
        """Whether the step ended, and with what."""
        for entry in self._read():
            if entry["step"] == step and entry["ended"]:
                return True, entry["result"]
        return False, None

    def record(self, step: str, *, ended: bool, result: Any = None) -> None:
        """Append, on disk when this returns."""
        with self._file.open("a", encoding="utf-8") as out:
            out.write(json.dumps({"step": step, "ended": ended, "result": result}) + "\n")
            out.flush()
            os.fsync(out.fileno())

    def _read(self) -> list[dict[str, Any]]:
        if not self._file.exists():
            return []
        return [json.loads(line) for line in self._file.read_text(encoding="utf-8").splitlines()]


class Durable:
    """The workflow engine's worker."""

    def __init__(self, place: Place) -> None:
        self._client = connect(place.door, sends_key=place.sends_key, timeout_s=place.timeout_s)
        self._directory = place.directory

    def run(self, request: Request, hooks: Hooks) -> Answer:
        """Run the case's workflow to its end; a step that fails unclearly is run again."""
        return redeliver(lambda again: self._run(request, hooks))

    def recover(self, request: Request) -> Answer:
        """A new worker: the engine replays the workflow up to where it stood."""
        return self.run(request, Hooks())

    def redecide(self, request: Request) -> Answer:
        """As `recover`: the model's recorded decision is replayed, and the model is not asked again."""
        return self.recover(request)

    def close(self) -> None:
        """Nothing is held."""

    def _run(self, request: Request, hooks: Hooks) -> Answer:
        journal = StepJournal(self._directory / f"workflow-{request.order}.jsonl")
        said: list[str] = []
        amount = request.amount
        if request.by_model:
            amount = self._step(journal, said, "decide", lambda: request.amount)
        hooks.after_decision()
        decided = request.with_amount(amount)
        key = f"{request.case}-{request.order}-refund"
        result, refund = self._step(
            journal, said, "refund", lambda: list(outcome_of(self._client, decided, key, hooks))
        )
        return Answer(status=":".join([*(said or ["COMPLETED"]), result]), refund=refund)

    def _step(self, journal: StepJournal, said: list[str], step: str, body: Callable[[], Any]) -> Any:
        ended, result = journal.result(step)
        if ended:
            said.append("REPLAYED")
            return result
        if journal.has_started(step):
            said.append("RERUN")
        journal.record(step, ended=False)
        result = body()
        journal.record(step, ended=True, result=result)
        return result
