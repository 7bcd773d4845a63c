"""The seam for wrappers: tools as plain callables go in, one gated effect for each comes out, and each call is answered.

A wrapper translates its framework's tools and results and calls `ToolGate.call` or `acall`; it never sends, journals, retries or reads a
clock. Owns that seam: which tool is gated and how, what of a call is payload, and the sentence that goes back to a model. It must not
know any framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.calling import ToolCall, is_async, plain
from interlock.decorator import Interlock, Recovery
from interlock.effects import History
from interlock.errors import ConfigurationError, NotSent, Rejected, Unanswered
from interlock.extend._answer import Answer, not_taken, recorded_value
from interlock.extend._effect import Effect, ToolFailed
from interlock.extend._gate import ToolGate, acall_effect, aread_effect_facts
from interlock.extend._gated import decision_on
from interlock.extend._parameters import Parameters, without_argument
from interlock.extend._protected import ProtectedTools, Recoverable
from interlock.function import EffectFunction
from interlock.journal import Journal
from interlock.outcomes import Outcome

if TYPE_CHECKING:
    from interlock.config import ToolConfig, ToolsConfig, load

__all__ = [
    "Answer",
    "ConfigurationError",
    "Effect",
    "EffectFunction",
    "History",
    "Interlock",
    "Journal",
    "NotSent",
    "Outcome",
    "Parameters",
    "ProtectedTools",
    "Recoverable",
    "Recovery",
    "Rejected",
    "ToolCall",
    "ToolConfig",
    "ToolFailed",
    "ToolGate",
    "ToolsConfig",
    "Unanswered",
    "acall_effect",
    "aread_effect_facts",
    "decision_on",
    "is_async",
    "load",
    "not_taken",
    "plain",
    "recorded_value",
    "without_argument",
]

_OF_DATA = frozenset({"ToolConfig", "ToolsConfig", "load"})


def __getattr__(name: str) -> Any:
    """What belongs to a configuration of data is imported when it is asked for: tools that are gated with `Effect`s need none of it."""
    if name not in _OF_DATA:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from interlock import config

    return getattr(config, name)
