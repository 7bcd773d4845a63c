"""An Agno agent whose runs are kept in SQLite and wait for a person, and a model that is played."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agno.agent import Agent
from agno.db.sqlite import SqliteDb
from agno.models.base import Model
from agno.models.response import ModelResponse
from agno.tools import tool


def ask(create_refund: Any, place: Path, session: str, amount: int) -> str:
    """Run until a person must confirm, or go on with what is paused; confirm, and return what the model is told."""
    agent: Any = Agent(
        model=Scripted(id="scripted", amount=amount),
        tools=[tool(requires_confirmation=True)(create_refund)],
        db=SqliteDb(db_file=str(place / "agno.db")),
        checkpoint="tool-batch",
        telemetry=False,
    )
    noted = place / f"{session}.run"
    if not noted.exists():
        noted.write_text(str(agent.run("refund 881", session_id=session).run_id))
    paused: Any = agent.get_run_output(noted.read_text(), session_id=session)
    for requirement in paused.active_requirements:
        requirement.confirm()
    done: Any = agent.continue_run(run_id=paused.run_id, session_id=session, requirements=paused.requirements)
    return str(done.tools[-1].result)


class Scripted(Model):
    """Asks once for the refund, and is done once it is told the result."""

    def __init__(self, id: str, amount: int) -> None:  # noqa: A002 - Agno's own name
        super().__init__(id=id)
        self.amount = amount

    def invoke(self, messages: Any, *_: Any, **__: Any) -> ModelResponse:
        """Answer."""
        if messages[-1].role == "tool":
            return ModelResponse(role="assistant", content="done")
        call = {"name": "create_refund", "arguments": json.dumps({"order_id": "881", "amount": self.amount})}
        return ModelResponse(role="assistant", tool_calls=[{"id": "call_1", "type": "function", "function": call}])

    def _unused(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    ainvoke = invoke_stream = ainvoke_stream = _parse_provider_response = _parse_provider_response_delta = _unused
