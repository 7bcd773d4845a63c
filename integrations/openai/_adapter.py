"""Functions of OpenAI's `ResponsesToolRunner` behind the gate, and its pending ledger settled through the gate.

The runner saves a checkpoint before and after each call, and after a crash in between resumes only once somebody has said what became
of the call. That is what the gate knows. Owns the translation of registered functions and of that checkpoint; it must not know order,
journal, retries or clocks.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pydantic
from openai.lib.responses_tool_runner import AsyncRegisteredFunction, RegisteredFunction, ResponsesToolCheckpoint

from interlock import BadInput, ConfigurationError, NotSent
from interlock.extend import (
    Answer,
    Parameters,
    ProtectedTools,
    ToolGate,
    decision_on,
    not_taken,
    plain,
    without_argument,
)

if TYPE_CHECKING:
    from interlock.extend import ToolsConfig

_Function = RegisteredFunction | AsyncRegisteredFunction
_KEY = "idempotency_key"
_CANCELLED = "cancelled"
_BLOCKS = ("input_text", "input_image", "input_file")


@dataclasses.dataclass(slots=True)
class _Live:
    """What of one call is not payload.

    Attributes:
        tool: the function that was called; one that is asked for a fact meanwhile keeps nothing here.
        cancelled: the runner's question whether the run was cancelled, for a function that names it.
        output: what the function itself gave, in the call that ran it.
    """

    tool: str
    cancelled: Callable[[], bool] | None = None
    output: Any = None


class ProtectedFunctions(ProtectedTools[_Function]):
    """The functions of a runner, those with outside effects behind the gate: a list with `recover()` and `reconcile()`."""

    def __init__(self, functions: Iterable[_Function], gate: ToolGate, faces: Mapping[str, _Face]) -> None:
        super().__init__(functions, gate)
        self._faces = dict(faces)

    def see(self, checkpoint: ResponsesToolCheckpoint) -> dict[str, Any]:
        """The facts of a paused run's gated calls as they are now, by `call_id`: for a person who is asked to approve them.

        Plain JSON data: save it beside the checkpoint, and hand it to `reconcile(seen=...)` once the calls were approved.

        Raises:
            BadInput: as for `reconcile`.
        """
        seen = {}
        for call_id, item in self._open(checkpoint, {}).items():
            name = str(item["name"])
            with suppress(BadInput):  # of which the model is told when the call is made
                if self.gate.is_gated(name):
                    seen[call_id] = self.gate.read_facts(name, self._faces[name].fit(_parsed(item)))
        return {call_id: facts for call_id, facts in seen.items() if facts is not None}

    def reconcile(
        self,
        checkpoint: ResponsesToolCheckpoint,
        *,
        declined: Mapping[str, str] | None = None,
        seen: Mapping[str, Any] | None = None,
    ) -> ResponsesToolCheckpoint:
        """Make a checkpoint that a crash, or a pause for a person, left `pending` into a boundary, which the runner can resume from.

        Each call without an output gets one: a gated call through the gate, which knows whether it happened, and does it at most once; a
        function without a gate is run. Save what comes back before you resume from it.

        Args:
            checkpoint: the last one that was saved.
            declined: calls that a person declined, by `call_id`, with what the model is told instead. They are not made.
            seen: what `see` gave when a person was asked to approve the calls; the facts must still hold.

        Returns:
            The same run at a boundary; a checkpoint that is not pending as it is.

        Raises:
            BadInput: what is pending is not a function call (a computer action, an approval for an MCP server): settle that by hand. Or
                `declined` names a call that is not pending.
            ConfigurationError: a function is async and an event loop runs in this thread (use `areconcile`).
            JournalError: the journal could not do its part.

        **Durable when** this returns: what became of each gated call.
        **If the process dies** meanwhile: reconcile the same checkpoint again.
        """
        said = dict(declined or {})
        outputs = {}
        for call_id, item in self._open(checkpoint, said).items():
            outputs[call_id] = said[call_id] if call_id in said else self._settle(checkpoint, item, seen)
        return _boundary(checkpoint, outputs)

    async def areconcile(
        self,
        checkpoint: ResponsesToolCheckpoint,
        *,
        declined: Mapping[str, str] | None = None,
        seen: Mapping[str, Any] | None = None,
    ) -> ResponsesToolCheckpoint:
        """As `reconcile`, without blocking the event loop."""
        said = dict(declined or {})
        outputs = {}
        for call_id, item in self._open(checkpoint, said).items():
            outputs[call_id] = said[call_id] if call_id in said else await self._asettle(checkpoint, item, seen)
        return _boundary(checkpoint, outputs)

    def _open(self, checkpoint: ResponsesToolCheckpoint, declined: Mapping[str, str]) -> dict[str, Mapping[str, Any]]:
        """The calls that have no output yet, by id.

        Raises:
            BadInput: something is pending that is no call of a function, or a declined call is not pending.
        """
        calls: dict[str, Mapping[str, Any]] = {}
        answered = {output.get("call_id") for output in checkpoint["returned_outputs"]}
        for item in checkpoint["pending_items"]:
            kind = item.get("type")
            if kind in ("message", "reasoning") or item.get("call_id") in answered:
                continue
            if kind != "function_call" or str(item["name"]) not in self._faces:
                raise BadInput(
                    f"a pending {kind} cannot be settled by the gate; only calls of the functions given can."
                )
            calls[str(item["call_id"])] = item
        strange = [call_id for call_id in declined if call_id not in calls]
        if strange:
            raise BadInput(
                f"declined names {strange[0]!r}, which is not pending. Pending are: {', '.join(calls) or 'none'}."
            )
        return calls

    def _settle(
        self, checkpoint: ResponsesToolCheckpoint, item: Mapping[str, Any], seen: Mapping[str, Any] | None
    ) -> Any:
        face, evidence = self._faces[str(item["name"])], _ids(checkpoint, item)
        try:
            arguments = face.fit(_parsed(item))
        except BadInput as error:
            return not_taken(face.name, error).message
        if self.gate.is_gated(face.name):
            live = _Live(face.name)
            facts = (seen or {}).get(item["call_id"])
            decision = decision_on("" if facts is None else f"approval of {item['call_id']}", facts)
            return _output(
                self.gate.call(face.name, arguments, context=live, decision=decision, evidence=evidence, seen=facts),
                live,
            )
        live = _Live(face.name)
        made = face.call(arguments, live)
        if face.is_async:
            asyncio.run(made)
        return _text(live.output)

    async def _asettle(
        self, checkpoint: ResponsesToolCheckpoint, item: Mapping[str, Any], seen: Mapping[str, Any] | None
    ) -> Any:
        face, evidence = self._faces[str(item["name"])], _ids(checkpoint, item)
        try:
            arguments = face.fit(_parsed(item))
        except BadInput as error:
            return not_taken(face.name, error).message
        if self.gate.is_gated(face.name):
            live = _Live(face.name)
            facts = (seen or {}).get(item["call_id"])
            decision = decision_on("" if facts is None else f"approval of {item['call_id']}", facts)
            return _output(
                await self.gate.acall(
                    face.name, arguments, context=live, decision=decision, evidence=evidence, seen=facts
                ),
                live,
            )
        live = _Live(face.name)
        if face.is_async:
            await face.call(arguments, live)
        else:
            await asyncio.to_thread(face.call, arguments, live)
        return _text(live.output)


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
    faces: dict[str, _Face] = {}
    for function in functions:
        if not isinstance(function, _Function):
            raise ConfigurationError(f"protect_functions() takes registered functions, not {type(function).__name__}.")
        face = _Face(function)
        if face.name in faces:
            raise ConfigurationError(
                f"two functions are named {face.name!r}; the gate could not tell which one to call."
            )
        faces[face.name] = face
    gate = ToolGate(
        config,
        tools={name: face.call for name, face in faces.items()},
        journal=journal,
        parameters={name: face.parameters for name, face in faces.items()},
    )
    for face in faces.values():
        face.hidden = gate.argument_of_gate(face.name)
    return ProtectedFunctions(
        [_gated(face, gate) if gate.is_gated(name) else face.function for name, face in faces.items()], gate, faces
    )


class _Face:
    """A registered function: what the model is told of it, and how the gate calls it.

    Attributes:
        hidden: the argument that the gate fills in.
    """

    hidden: str | None = None

    def __init__(self, function: Any) -> None:
        self.function = function
        self.name = str(function.tool["name"])
        self.is_async = isinstance(function, AsyncRegisteredFunction)
        self.model: Any = getattr(function.tool, "model", None) if function._parsed_tool is not None else None
        named = inspect.signature(function.execute).parameters
        self._takes = {name for name in (_KEY, _CANCELLED) if name in named}
        self.call = self._entrance()

    @property
    def tool(self) -> dict[str, Any]:
        """The tool as the model is told of it, without the argument that the gate fills in."""
        told = dict(self.function.tool)
        if "parameters" in told:
            told["parameters"] = without_argument(told["parameters"], self.hidden)
        return told

    @property
    def parameters(self) -> Parameters:
        """What the function takes; what the gate itself hands over by name, no path may lead to."""
        takes = Parameters.of_schema(self.function.tool.get("parameters"), filled=tuple(self._takes & {_KEY}))
        return takes if self.model is None else takes._replace(meant=lambda given: dict(self._made(given)))

    def fit(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the function's model has them, with its defaults.

        Raises:
            BadInput: they do not fit; that is for the model to correct.
        """
        problem = self.parameters.problem_of(self.name, arguments, hidden=self.hidden)
        if problem:
            raise BadInput(problem)
        if self.model is None:
            return dict(arguments)
        given = dict(arguments)
        if self.hidden is not None and self.hidden in self.model.model_fields:
            given[self.hidden] = "interlock"  # the gate fills it in at the send
        return dict(plain(self._made(given)))

    def _made(self, arguments: Mapping[str, Any]) -> Any:
        try:
            return self.model.model_validate(arguments)
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            where = ".".join(map(str, first["loc"])) or "the arguments"
            raise BadInput(f"{where}: {first['msg']}.") from None

    def _entrance(self) -> Any:
        """How the gate calls it; a function of a pydantic model gets that model."""

        def prepared(arguments: Mapping[str, Any], context: Any, key: str) -> tuple[Any, dict[str, Any]]:
            more: dict[str, Any] = {_KEY: key} if _KEY in self._takes else {}
            if _CANCELLED in self._takes:
                more[_CANCELLED] = context.cancelled if isinstance(context, _Live) else None
            try:
                return arguments if self.model is None else self._made(arguments), more
            except BadInput as error:
                raise NotSent(f"{self.name} was not called: {error}", reason="bad_arguments") from error

        def kept(output: Any, context: Any) -> Any:
            if isinstance(context, _Live) and context.tool == self.name:
                context.output = output
            return plain(output)

        if self.is_async:

            async def akeyed(arguments: dict[str, Any], context: Any, idempotency_key: str = "") -> Any:
                given, more = prepared(arguments, context, idempotency_key)
                return kept(await self.function.execute(given, **more), context)

            async def acall(arguments: dict[str, Any], context: Any) -> Any:
                return await akeyed(arguments, context)

            return akeyed if _KEY in self._takes else acall

        def keyed(arguments: dict[str, Any], context: Any, idempotency_key: str = "") -> Any:
            given, more = prepared(arguments, context, idempotency_key)
            return kept(self.function.execute(given, **more), context)

        def call(arguments: dict[str, Any], context: Any) -> Any:
            return keyed(arguments, context)

        return keyed if _KEY in self._takes else call


def _gated(face: _Face, gate: ToolGate) -> Any:
    """The function with the gate in the place of its own execution.

    It takes its arguments as the model gave them: a run must not end because they do not fit, so that is for the gate's answer to say.
    """

    def execute(arguments: Mapping[str, Any], cancelled: Callable[[], bool] | None = None) -> Any:
        live = _Live(face.name, cancelled)
        try:
            return _output(gate.call(face.name, face.fit(arguments), context=live), live)
        except BadInput as error:
            return not_taken(face.name, error).message

    async def aexecute(arguments: Mapping[str, Any], cancelled: Callable[[], bool] | None = None) -> Any:
        live = _Live(face.name, cancelled)
        try:
            return _output(await gate.acall(face.name, face.fit(arguments), context=live), live)
        except BadInput as error:
            return not_taken(face.name, error).message

    return dataclasses.replace(
        face.function, tool=face.tool, execute=aexecute if face.is_async else execute, _parsed_tool=None
    )


def _output(answer: Answer, live: _Live) -> Any:
    """What the model is given: the function's own output, or the gate's sentence."""
    if not answer.is_error:
        if _is_output(live.output):
            return live.output
        value = answer.value
        if isinstance(value, list) and value and _is_output(value):
            return value
    return answer.message


def _is_output(given: Any) -> bool:
    if isinstance(given, str):
        return True
    return type(given) is list and all(type(block) is dict and block.get("type") in _BLOCKS for block in given)


def _text(output: Any) -> Any:
    return output if _is_output(output) else json.dumps(output, default=str)


def _parsed(item: Mapping[str, Any]) -> dict[str, Any]:
    try:
        arguments = json.loads(str(item["arguments"]))
    except ValueError as error:
        raise BadInput(f"the arguments are not valid JSON ({error}).") from None
    if not isinstance(arguments, dict):
        raise BadInput("the arguments are no JSON object; give them by name.")
    return arguments


def _ids(checkpoint: ResponsesToolCheckpoint, item: Mapping[str, Any]) -> dict[str, Any]:
    return {"call_id": item["call_id"], "run_id": checkpoint["run_id"]}


def _boundary(checkpoint: ResponsesToolCheckpoint, settled: Mapping[str, Any]) -> ResponsesToolCheckpoint:
    """The checkpoint with these outputs; one that is not pending as it is."""
    if checkpoint["phase"] != "pending":
        return checkpoint
    outputs: list[Any] = [
        *checkpoint["returned_outputs"],
        *(
            {"type": "function_call_output", "call_id": call_id, "output": output}
            for call_id, output in settled.items()
        ),
    ]
    ids = [*checkpoint["returned_call_ids"], *settled]
    made: dict[str, Any] = {
        **checkpoint,
        "phase": "boundary",
        "revision": checkpoint["revision"] + 1,
        "history": [*checkpoint["history"], *checkpoint["pending_items"], *outputs],
        "attempted_call_ids": ids,
        "returned_call_ids": ids,
        "pending_items": [],
        "returned_outputs": [],
    }
    return made  # type: ignore[return-value]  # a TypedDict, put together by name
