"""A scripted model behind the wire APIs of Anthropic, OpenAI and Gemini: `LocalModel` starts it, the official SDKs drive it."""

from __future__ import annotations

from benchmarks.services.model.launcher import LocalModel

__all__ = ["LocalModel"]
