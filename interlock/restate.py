"""Effects in Restate handlers: see `interlock.integrations.restate`."""

from __future__ import annotations

from interlock.integrations.restate import gated, recovering

__all__ = ["gated", "recovering"]
