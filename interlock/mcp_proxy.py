"""The MCP proxy: see `interlock.integrations.mcp`."""

from __future__ import annotations

from interlock.integrations.mcp import main

__all__ = ["main"]

if __name__ == "__main__":
    raise SystemExit(main())
