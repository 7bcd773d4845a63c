"""Google ADK: `Guard` for `before_tool_callback`, `InterlockPlugin` for a whole runner, `protect_tools` for a list of tools."""

from __future__ import annotations

from interlock import ConfigurationError
from interlock.extend import ProtectedTools

try:
    from interlock.integrations.adk._guard import Guard
    from interlock.integrations.adk._plugin import InterlockPlugin
    from interlock.integrations.adk._tool import GatedTool, protect_tools
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "google":
        raise
    raise ConfigurationError('Google ADK is not installed: pip install "interlock-gate[adk]".') from error

__all__ = ["GatedTool", "Guard", "InterlockPlugin", "ProtectedTools", "protect_tools"]
