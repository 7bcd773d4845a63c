"""DBOS: `gated` as the body of a step, `run_effect` as a line of a workflow, `launch` for a process that starts."""

from __future__ import annotations

from interlock import ConfigurationError

try:
    from interlock.integrations.dbos._adapter import (
        Ambiguous,
        EffectNotDone,
        Failed,
        InFlight,
        Refused,
        gated,
        launch,
        run_effect,
        run_effect_async,
        should_retry,
    )
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "dbos":
        raise
    raise ConfigurationError('DBOS is not installed: pip install "interlock-gate[dbos]".') from error

__all__ = [
    "Ambiguous",
    "EffectNotDone",
    "Failed",
    "InFlight",
    "Refused",
    "gated",
    "launch",
    "run_effect",
    "run_effect_async",
    "should_retry",
]
