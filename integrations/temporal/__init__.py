"""Temporal: `gated` as the body of an activity, `InterlockPlugin` for a worker."""

from __future__ import annotations

from interlock import ConfigurationError

try:
    from interlock.integrations.temporal._adapter import (
        AMBIGUOUS,
        BAD_INPUT,
        FAILED,
        IN_FLIGHT,
        REFUSED,
        InterlockPlugin,
        gated,
    )
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "temporalio":
        raise
    raise ConfigurationError('Temporal\'s SDK is not installed: pip install "interlock-gate[temporal]".') from error

__all__ = ["AMBIGUOUS", "BAD_INPUT", "FAILED", "IN_FLIGHT", "REFUSED", "InterlockPlugin", "gated"]
