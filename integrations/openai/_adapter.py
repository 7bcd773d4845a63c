"""Functions of OpenAI's `ResponsesToolRunner` behind the gate, and its pending ledger settled through the gate.

The runner saves a checkpoint before and after each call, and after a crash in between resumes only once somebody has said what became
of the call. That is what the gate knows. Owns the translation of registered functions and of that checkpoint; it must not know order,
journal, retries or clocks.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from openai.lib.responses_tool_runner import AsyncRegisteredFunction, RegisteredFunction, ResponsesToolCheckpoint

from interlock import BadInput, ConfigurationError
from interlock.extend import Recovery, ToolGate, ToolsConfig, plain

_Function = RegisteredFunction | AsyncRegisteredFunction
_KEY = "idempotency_key"


class ProtectedFunctions(list[Any]):
    """The functions of a runner, those with outside effects behind the gate. A list like any other, with `recover()` and `reconcile()`.

    Attributes:
        gate: the `ToolGate` behind it.
    """

    def __init__(self, functions: Iterable[_Function], gate: ToolGate, inner: Mapping[str, Any]) -> None:
        super().__init__(functions)
        self.gate = gate
        self._inner = dict(inner)

    def recover(self) -> Recovery:
        """Settle what a crash left open: once on start.

        **Durable when** this returns: every outcome but IN_FLIGHT.
        **If the process dies** meanwhile: the next recovery starts over from the record.
        """
        return self.gate.recover()

    async def arecover(self) -> Recovery:
        """As `recover`, without blocking the event loop."""
        return await self.gate.arecover()

    def close(self) -> None:
        """Give up the gate."""
        self.gate.close()

    def reconcile(self, checkpoint: ResponsesToolCheckpoint) -> ResponsesToolCheckpoint:
        """Make a checkpoint that a crash left `pending` into a boundary, which the runner can resume from.

        Each call without an output gets one: a gated call through the gate, which knows whether it happened, and does it at most once; a
        function without a gate is run. Save what comes back before you resume from it.

        Args:
            checkpoint: the last one that was saved.

        Returns:
            The same run at a boundary; a checkpoint that is not pending as it is.

        Raises:
            BadInput: what is pending is not a function call (a computer action, an approval for an MCP server): settle that by hand.
            JournalError: the journal could not do its part.

        **Durable when** this returns: what became of each gated call.
        **If the process dies** meanwhile: reconcile the same checkpoint again.
        """
        if checkpoint["phase"] != "pending":
            return checkpoint
        outputs: list[Any] = list(checkpoint["returned_outputs"])
        answered = {output.get("call_id") for output in outputs}
        ids = list(checkpoint["returned_call_ids"])
        for item in checkpoint["pending_items"]:
            kind = item.get("type")
            if kind in ("message", "reasoning") or item.get("call_id") in answered:
                continue
            if kind != "function_call" or str(item["name"]) not in self._inner:
                raise BadInput(
                    f"a pending {kind} cannot be settled by the gate; only calls of the functions given can."
                )
            call_id = str(item["call_id"])
            outputs.append({"type": "function_call_output", "call_id": call_id, "output": self._settle(item)})
            ids.append(call_id)
        settled: dict[str, Any] = {
            **checkpoint,
            "phase": "boundary",
            "revision": checkpoint["revision"] + 1,
            "history": [*checkpoint["history"], *checkpoint["pending_items"], *outputs],
            "attempted_call_ids": ids,
            "returned_call_ids": ids,
            "pending_items": [],
            "returned_outputs": [],
        }
        return settled  # type: ignore[return-value]  # a TypedDict, put together by name

    def _settle(self, item: Mapping[str, Any]) -> str:
        name, arguments = str(item["name"]), json.loads(str(item["arguments"]))
        if self.gate.is_gated(name):
            return self.gate.call(name, arguments, evidence={"call_id": item["call_id"]}).message
        result = _entrance(self._inner[name])(arguments, None)
        return result if isinstance(result, str) else json.dumps(result)


def protect_functions(
    functions: Iterable[_Function],
    config: ToolsConfig | Mapping[str, Any] | str | os.PathLike[str],
    *,
    journal: Any = None,
) -> ProtectedFunctions:
    """Put the functions with outside effects behind the gate, and leave the others as they are.

    Args:
        functions: what `ResponsesToolRunner(functions=...)` takes, or its async form; also those that premises and look-ups ask. A
            function's `execute` that names `idempotency_key` gets it, and the model's schema need not have it.
        config: which of them are gated and how: a dict, a `.json` or `.toml` file, or a `ToolsConfig` (docs/config.md).
        journal: where the journal lives, if not where the configuration says.

    Returns:
        The same functions in the same order, as a list with `recover()` and `reconcile()`.

    Raises:
        ConfigurationError: an option or a function does not exist.
    """
    inner: dict[str, Any] = {}
    for function in functions:
        if not isinstance(function, _Function):
            raise ConfigurationError(f"protect_functions() takes registered functions, not {type(function).__name__}.")
        name = str(function.tool["name"])
        if name in inner:
            raise ConfigurationError(f"two functions are named {name!r}; the gate could not tell which one to call.")
        inner[name] = function
    gate = ToolGate(config, tools={name: _entrance(function) for name, function in inner.items()}, journal=journal)
    return ProtectedFunctions(
        [_gated(name, function, gate) if gate.is_gated(name) else function for name, function in inner.items()],
        gate,
        inner,
    )


def _gated(name: str, function: Any, gate: ToolGate) -> Any:
    """The function with the gate in the place of its own execution."""

    def execute(arguments: Any) -> Any:
        return gate.call(name, plain(arguments)).message

    async def aexecute(arguments: Any) -> Any:
        return (await gate.acall(name, plain(arguments))).message

    return dataclasses.replace(function, execute=aexecute if isinstance(function, AsyncRegisteredFunction) else execute)


def _entrance(function: Any) -> Any:
    """How the gate calls a function of the runner; one of a pydantic model gets that model."""
    model = getattr(function.tool, "model", None)
    keyed = _KEY in inspect.signature(function.execute).parameters

    def fit(arguments: Mapping[str, Any]) -> Any:
        return arguments if model is None or function._parsed_tool is None else model.model_validate(arguments)

    if isinstance(function, AsyncRegisteredFunction):

        async def acall(arguments: dict[str, Any], context: Any, idempotency_key: str = "") -> Any:
            return plain(await function.execute(fit(arguments), **({_KEY: idempotency_key} if keyed else {})))

        async def acall_plain(arguments: dict[str, Any], context: Any) -> Any:
            return plain(await function.execute(fit(arguments)))

        return acall if keyed else acall_plain

    def call(arguments: dict[str, Any], context: Any, idempotency_key: str = "") -> Any:
        return plain(function.execute(fit(arguments), **({_KEY: idempotency_key} if keyed else {})))

    def call_plain(arguments: dict[str, Any], context: Any) -> Any:
        return plain(function.execute(fit(arguments)))

    return call if keyed else call_plain
