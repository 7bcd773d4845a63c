"""Restate: `gated` for what a run does, `recovering` for the application."""

from __future__ import annotations

from interlock import ConfigurationError

try:
    from interlock.integrations.restate._adapter import AMBIGUOUS, BAD_INPUT, FAILED, REFUSED, gated, recovering
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "restate":
        raise
    raise ConfigurationError('Restate\'s SDK is not installed: pip install "interlock-gate[restate]".') from error

__all__ = ["AMBIGUOUS", "BAD_INPUT", "FAILED", "REFUSED", "gated", "recovering"]
