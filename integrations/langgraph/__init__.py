"""LangGraph: `ToolCallGate` for `ToolNode`, `effect_node` for a graph's own nodes."""

from __future__ import annotations

from interlock import ConfigurationError

try:
    from interlock.integrations.langgraph._adapter import ROUTES, ToolCallGate, effect_node, route_of
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("langchain_core", "langgraph"):
        raise
    raise ConfigurationError('LangGraph is not installed: pip install "interlock-gate[langgraph]".') from error

__all__ = ["ROUTES", "ToolCallGate", "effect_node", "route_of"]
