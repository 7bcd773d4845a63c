"""The shop's tools and a model that is played: it asks for the refund, and is done once it is told the result."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


class Shop:
    """Refunds in memory; making one takes a moment."""

    def __init__(self) -> None:
        self.refunds: list[dict[str, Any]] = []

    async def create_refund(self, order_id: str, amount: int, reference: str = "") -> dict[str, Any]:
        """Refund an order."""
        await asyncio.sleep(0.05)
        refund = {"order_id": order_id, "amount": amount, "reference": reference}
        self.refunds.append(refund)
        return refund

    def get_order(self, order_id: str) -> dict[str, Any]:
        """Look at an order."""
        return {"refunded_total": sum(refund["amount"] for refund in self.refunds if refund["order_id"] == order_id)}

    def find_refund(self, reference: str) -> dict[str, Any]:
        """Find a refund by its reference."""
        own = [refund for refund in self.refunds if refund["reference"] == reference]
        return {"found": bool(own), "refund": own[0] if own else None}


def model() -> FunctionModel:
    """A model that asks once for the refund."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if isinstance(messages[-1].parts[-1], ToolCallPart) or len(messages) > 1:
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart("create_refund", {"order_id": "881", "amount": 20}, tool_call_id="call_1")])

    return FunctionModel(answer)
