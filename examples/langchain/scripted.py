"""A model that asks for one refund, and finishes once it is told what became of it."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult


class Scripted(BaseChatModel):
    """Calls `create_refund` with the given arguments."""

    arguments: dict[str, Any]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Scripted:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        call = {"name": "create_refund", "args": self.arguments, "id": "call_1", "type": "tool_call"}
        told = isinstance(messages[-1], ToolMessage)
        message = AIMessage("done") if told else AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])
