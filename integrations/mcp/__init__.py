"""MCP: a proxy in front of any server, and a middleware for servers of the official SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock import ConfigurationError

if TYPE_CHECKING:
    from interlock.integrations.mcp._middleware import InterlockMiddleware, protect_server
    from interlock.integrations.mcp.proxy import main

__all__ = ["InterlockMiddleware", "main", "protect_server"]


def __getattr__(name: str) -> Any:
    """The proxy's command, or the middleware: each is imported when it is asked for, since it needs nothing of the other.

    Raises:
        ConfigurationError: what it needs is not installed: the official SDK for the middleware, jsonschema for the proxy.
    """
    if name == "main":
        from interlock.integrations.mcp.proxy import main

        return main
    if name not in ("InterlockMiddleware", "protect_server"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from interlock.integrations.mcp import _middleware
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise ConfigurationError('MCP 2 is not installed: pip install "interlock-gate[mcp]".') from error
    return getattr(_middleware, name)
