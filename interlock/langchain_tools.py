"""LangChain tools behind the gate: see `interlock.integrations.langchain`."""

from __future__ import annotations

from interlock.integrations.langchain import ProtectedTools, protect_tools

__all__ = ["ProtectedTools", "protect_tools"]
