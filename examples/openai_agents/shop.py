"""The shop's own side, which both arms use: refunds in a file, a model that is played, and a run with an approval."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from agents import Agent, Runner, RunState, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call


class Shop:
    """Refunds in a file, which outlive the process."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "refunds.jsonl"
        self.dies = False

    def create_refund(self, order_id: str, amount: int, reference: str) -> dict[str, Any]:
        """Refund an order."""
        refund = {"order_id": order_id, "amount": amount, "reference": reference}
        with self.file.open("a") as file:
            file.write(json.dumps(refund) + "\n")
        if self.dies:
            os._exit(9)
        return refund

    def get_order(self, order_id: str) -> dict[str, Any]:
        """Look at an order."""
        return {"refunded_total": sum(refund["amount"] for refund in self.refunds() if refund["order_id"] == order_id)}

    def find_refund(self, reference: str) -> dict[str, Any]:
        """Find a refund by its reference."""
        own = [refund for refund in self.refunds() if refund["reference"] == reference]
        return {"refund": own[0] if own else None}

    def refunds(self) -> list[dict[str, Any]]:
        """All of them."""
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []


def work(agent: Agent[Any], saved: Path) -> None:
    """Run up to the approval and save it, unless it was saved before; then approve it and run on, twice."""
    set_tracing_disabled(True)
    done = [assistant_message("done")]
    if not saved.exists():
        call = function_call("create_refund", {"order_id": "881", "amount": 20}, call_id="call_1")
        agent.model = ScriptedModel([[call]])
        saved.write_text(asyncio.run(Runner.run(agent, "refund order 881")).to_state().to_string())
    for _ in range(2):
        agent.model = ScriptedModel([done])
        result = asyncio.run(approve(agent, saved.read_text()))
        print(
            f"  the model is told: {[item.output for item in result.new_items if item.type == 'tool_call_output_item']}"
        )


async def approve(agent: Agent[Any], saved: str) -> Any:
    """Resume what was saved, approved."""
    state = await RunState.from_string(agent, saved)
    state.approve(state.get_interruptions()[0])
    return await Runner.run(agent, state)
