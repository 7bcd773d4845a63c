"""Tools of Anthropic's tool runner behind the gate: a runnable tool goes in, a runnable tool comes out.

The runner knows a tool by its base class and calls nothing but `call(input)`; a tool gets no id of its call. Owns that translation. It must
not know order, journal, retries or clocks.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pydantic
from anthropic.lib.tools import (
    BetaAsyncBuiltinFunctionTool,
    BetaAsyncFunctionTool,
    BetaBuiltinFunctionTool,
    BetaFunctionTool,
    ToolError,
)

from interlock import BadInput, ConfigurationError
from interlock.extend import (
    Answer,
    Parameters,
    ProtectedTools,
    ToolGate,
    not_taken,
    plain,
    without_argument,
)

if TYPE_CHECKING:
    from interlock.extend import ToolsConfig

_RUNNABLE = (BetaFunctionTool, BetaAsyncFunctionTool, BetaBuiltinFunctionTool, BetaAsyncBuiltinFunctionTool)
_ASYNC = (BetaAsyncFunctionTool, BetaAsyncBuiltinFunctionTool)


@dataclasses.dataclass(slots=True)
class _Live:
    """What of one call is not payload: the content that the tool itself gave, in the call that ran it."""

    tool: str
    content: Any = None


class _Face:
    """What of a tool the model and the runner see: that of the tool inside, without the argument that the gate fills in."""

    def __init__(self, inner: Any, gate: ToolGate) -> None:
        self.inner = inner
        self._gate = gate
        self._hidden = gate.argument_of_gate(inner.name)
        self._checked = _checked(inner)

    @property
    def name(self) -> str:
        """The tool's name."""
        name: str = self.inner.name
        return name

    def to_dict(self) -> Any:
        """The tool as the model is told of it."""
        told = dict(self.inner.to_dict())
        if "input_schema" in told:
            told["input_schema"] = without_argument(told["input_schema"], self._hidden)
        return told

    def _fitting(self, given: object) -> Any:
        """The model's arguments, once they fit: what does not never reaches the tool's body, so it must not name the request either.

        Raises:
            ToolError: they do not fit, which the model can correct; nothing is on the journal.
        """
        arguments = json.loads(given) if isinstance(given, str) else given
        if not isinstance(arguments, Mapping):
            return arguments  # the gate says what it takes
        wrong = self._schema_says(arguments) or self._signature_says(arguments)
        if wrong:
            raise ToolError(not_taken(self.name, BadInput(wrong)).message)
        return arguments

    def _schema_says(self, arguments: Mapping[str, Any]) -> str:
        schema = self.to_dict().get("input_schema") or {}
        missing = [name for name in schema.get("required") or [] if name not in arguments]
        unknown = [name for name in arguments if name not in schema.get("properties", {}) and name != self._hidden]
        if missing:
            return f"the argument {missing[0]!r} is missing."
        return (
            f"there is no argument {unknown[0]!r}." if unknown and schema.get("additionalProperties") is False else ""
        )

    def _signature_says(self, arguments: Mapping[str, Any]) -> str:
        if self._checked is None:
            return ""
        try:
            self._checked(**arguments)
        except pydantic.ValidationError as error:
            for one in error.errors(include_url=False, include_context=False):
                if one["loc"][:1] != (self._hidden,):
                    return f"{'.'.join(map(str, one['loc']))}: {one['msg']}."
        return ""


class GatedBetaTool(_Face, BetaBuiltinFunctionTool):
    """A tool of the sync runner, behind the gate."""

    def call(self, input: object) -> Any:  # noqa: A002 - the name that the runner gives it
        """Do it once. A refusal is a `ToolError`, which the runner tells the model as an error result."""
        live = _Live(self.name)
        return _given(self._gate.call(self.name, self._fitting(input), context=live), live)


class GatedAsyncBetaTool(_Face, BetaAsyncBuiltinFunctionTool):
    """A tool of the async runner, behind the gate."""

    async def call(self, input: object) -> Any:  # noqa: A002 - the name that the runner gives it
        """Do it once. A refusal is a `ToolError`, which the runner tells the model as an error result."""
        live = _Live(self.name)
        return _given(await self._gate.acall(self.name, self._fitting(input), context=live), live)


def protect_beta_tools(
    tools: Iterable[Any],
    config: ToolsConfig | Mapping[str, Any] | str | os.PathLike[str],
    *,
    journal: Any = None,
) -> ProtectedTools[Any]:
    """Put the tools with outside effects behind the gate, and leave the others as they are.

    Args:
        tools: what `tool_runner(tools=...)` takes: `@beta_tool` and `@beta_async_tool` functions, tools of one's own classes, and plain
            definitions of server tools. Those that premises and look-ups ask are among them.
        config: which of them are gated and how: a dict, a `.json` or `.toml` file, or a `ToolsConfig` (docs/config.md).
        journal: where the journal lives, if not where the configuration says.

    Returns:
        The same tools in the same order, as a list with `recover()`.

    Raises:
        ConfigurationError: an option or a tool does not exist, or a gated tool is one that the runner cannot run.
    """
    listed = list(tools)
    runnable: dict[str, Any] = {}
    for tool in listed:
        if not isinstance(tool, _RUNNABLE):
            continue
        if isinstance(tool, GatedBetaTool | GatedAsyncBetaTool):
            raise ConfigurationError(f"the tool {tool.name!r} is behind a gate already.")
        if tool.name in runnable:
            raise ConfigurationError(f"two tools are named {tool.name!r}; the gate could not tell which one to call.")
        runnable[tool.name] = tool
    gate = ToolGate(
        config,
        tools={name: _entrance(tool) for name, tool in runnable.items()},
        journal=journal,
        parameters={name: _parameters(tool) for name, tool in runnable.items()},
    )

    def outside(tool: Any) -> Any:
        if not isinstance(tool, _RUNNABLE) or not gate.is_gated(tool.name):
            return tool
        return GatedAsyncBetaTool(tool, gate) if isinstance(tool, _ASYNC) else GatedBetaTool(tool, gate)

    return ProtectedTools(map(outside, listed), gate)


def _entrance(tool: Any) -> Any:
    """How the gate calls a tool of the runner."""
    if isinstance(tool, _ASYNC):

        async def acall(arguments: dict[str, Any], context: Any) -> Any:
            return _kept(await tool.call(arguments), tool, context)

        return acall

    def call(arguments: dict[str, Any], context: Any) -> Any:
        return _kept(tool.call(arguments), tool, context)

    return call


def _parameters(tool: Any) -> Parameters:
    takes = Parameters.of_schema(tool.to_dict().get("input_schema"))
    checked = _checked(tool)
    return takes if checked is None else takes._replace(meant=lambda given: checked(**given))


def _checked(tool: Any) -> Any:
    """The tool's function with nothing in it: it takes just what that takes, and gives that. None for a tool of another kind."""
    function = getattr(tool, "func", None)
    if function is None:
        return None

    signature = inspect.signature(function)

    @functools.wraps(function)
    def empty(*args: Any, **kwargs: Any) -> dict[str, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)

    return pydantic.validate_call(empty)


def _kept(content: Any, tool: Any, context: Any) -> Any:
    if not isinstance(content, str):
        content = list(content)  # blocks may come from an iterator, which is read once
    if isinstance(context, _Live) and context.tool == tool.name:
        context.content = content
    if not isinstance(content, str) and len(content) == 1 and content[0].get("type") == "text":
        content = content[0]["text"]
    return plain(content)


def _given(answer: Answer, live: _Live) -> Any:
    if answer.is_error:
        raise ToolError(answer.message)
    if live.content is not None:
        return live.content
    value = answer.value
    if isinstance(value, list) and value and all(isinstance(block, dict) and "type" in block for block in value):
        return value  # the blocks that the tool gave
    return answer.message
