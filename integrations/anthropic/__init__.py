"""Anthropic's own tool runner behind the gate: `protect_beta_tools` for `client.beta.messages.tool_runner(tools=...)`.

A hand-written loop needs no wrapper: `interlock.tools.protect`.
"""

from __future__ import annotations

from interlock import ConfigurationError
from interlock.extend import ProtectedTools

try:
    from interlock.integrations.anthropic._adapter import protect_beta_tools
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "anthropic":
        raise
    raise ConfigurationError('the Anthropic SDK is not installed: pip install "interlock-gate[anthropic]".') from error

__all__ = ["ProtectedTools", "protect_beta_tools"]
