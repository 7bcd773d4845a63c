"""OpenAI's own tool runner behind the gate: `protect_functions` for `ResponsesToolRunner`, and `reconcile` for its ledger.

A hand-written loop needs no wrapper: `interlock.tools.protect`. Agents of the Agents SDK have one of their own.
"""

from __future__ import annotations

from interlock import ConfigurationError

try:
    from interlock.integrations.openai._adapter import ProtectedFunctions, protect_functions
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "openai":
        raise
    if error.name == "openai.lib.responses_tool_runner":
        raise ConfigurationError(
            "this release of the OpenAI SDK has no ResponsesToolRunner. Use a later one (3.57 has it), or protect() for a loop of your own."
        ) from error
    raise ConfigurationError('the OpenAI SDK is not installed: pip install "interlock-gate[openai]".') from error

__all__ = ["ProtectedFunctions", "protect_functions"]
