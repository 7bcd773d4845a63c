"""Pydantic AI: `InterlockCapability` for an agent's `capabilities=`, `InterlockToolset` for one toolset."""

from __future__ import annotations

from interlock import ConfigurationError

try:
    from interlock.integrations.pydantic_ai._capability import InterlockCapability
    from interlock.integrations.pydantic_ai._toolset import InterlockToolset
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("pydantic_ai", "pydantic_graph"):
        raise
    raise ConfigurationError('Pydantic AI is not installed: pip install "interlock-gate[pydantic-ai]".') from error

__all__ = ["InterlockCapability", "InterlockToolset"]
