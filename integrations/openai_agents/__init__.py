"""OpenAI Agents SDK: `protect_agent` for an agent and all it reaches, `protect_tools` and `protect_tool` for its tools alone."""

from __future__ import annotations

from interlock import ConfigurationError
from interlock.extend import ProtectedTools

try:
    from interlock.integrations.openai_agents._adapter import GatedTool, protect_tool, protect_tools
    from interlock.integrations.openai_agents._agent import Protection, protect_agent
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("agents", "openai"):
        raise
    raise ConfigurationError(
        'The OpenAI Agents SDK is not installed: pip install "interlock-gate[openai-agents]".'
    ) from error

__all__ = ["GatedTool", "ProtectedTools", "Protection", "protect_agent", "protect_tool", "protect_tools"]
