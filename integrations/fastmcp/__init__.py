"""fastmcp: a server, or a proxy of one, with the gate inside."""

from __future__ import annotations

from interlock import ConfigurationError

try:
    from interlock.integrations.fastmcp._adapter import InterlockMiddleware, protect_server
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("fastmcp", "mcp", "mcp_types"):
        raise
    raise ConfigurationError('fastmcp is not installed: pip install "interlock-gate[fastmcp]".') from error

__all__ = ["InterlockMiddleware", "protect_server"]
