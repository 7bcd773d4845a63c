"""LangChain: `protect_tools` for a list of tools, `InterlockMiddleware` for `create_agent`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock import ConfigurationError
from interlock.extend import ProtectedTools

try:
    from interlock.integrations.langchain._adapter import protect_tools
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("langchain_core", "langgraph"):
        raise
    raise ConfigurationError('LangChain is not installed: pip install "interlock-gate[langchain]".') from error

if TYPE_CHECKING:
    from interlock.integrations.langchain._middleware import InterlockMiddleware

__all__ = ["InterlockMiddleware", "ProtectedTools", "protect_tools"]


def __getattr__(name: str) -> Any:
    """The middleware, which needs `langchain` itself and not only its core."""
    if name != "InterlockMiddleware":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from interlock.integrations.langchain._middleware import InterlockMiddleware
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "langchain":
            raise
        raise ConfigurationError('langchain is not installed: pip install "interlock-gate[langchain]".') from error
    return InterlockMiddleware
