"""Effects in Temporal activities: see `interlock.integrations.temporal`."""

from __future__ import annotations

from interlock.integrations.temporal import InterlockPlugin, gated

__all__ = ["InterlockPlugin", "gated"]
