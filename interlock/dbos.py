"""Effects in DBOS workflows and steps: see `interlock.integrations.dbos`."""

from __future__ import annotations

from interlock.integrations import dbos
from interlock.integrations.dbos import EffectNotDone, gated, launch, run_effect, run_effect_async, should_retry

Refused, Ambiguous, Failed, InFlight = dbos.Refused, dbos.Ambiguous, dbos.Failed, dbos.InFlight

__all__ = ["Ambiguous", "EffectNotDone", "Failed", "InFlight", "Refused"]
__all__ += ["gated", "launch", "run_effect", "run_effect_async", "should_retry"]
