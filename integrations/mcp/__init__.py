"""MCP: a proxy in front of any server, and a middleware for servers of the official SDK."""

from __future__ import annotations

from interlock.errors import ConfigurationError

try:
    from interlock.integrations.mcp.proxy import main
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "jsonschema"):
        raise
    raise ConfigurationError('MCP is not installed: pip install "interlock-gate[mcp]".') from error

__all__ = ["main"]
