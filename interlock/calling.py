"""Calling: how a tool is called, and how Python callbacks that name its arguments become those that an effect takes.

A tool is a callable of `(arguments, context)`; an effect of it is a function of `arguments`, and of `unbound` where some may change under
one key. Owns what a callback sees of a call, and what of an answer is data. It must not know a configuration, the journal, the protocol, or
any framework.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

import pydantic

from interlock.callbacks import KEY_ARGUMENT, RESULT_ARGUMENT
from interlock.errors import BadInput, ConfigurationError
from interlock.naming import follow
from interlock.record import NamedTuple
from interlock.rules.premises import Condition, equals

ToolCall = Callable[..., Any]
"""A tool as the gate calls it: `(arguments, context)`, sync or async, and `idempotency_key` too if it names that."""


class Call(NamedTuple):
    """One call of a tool, as a callback sees it.

    Attributes:
        arguments: the tool's arguments.
        context: the framework's live object; None in recovery.
        key: the idempotency key; empty where there is none yet.
        value: what the tool returned, for a callback that is asked after the send.
    """

    arguments: Mapping[str, Any]
    context: Any = None
    key: str = ""
    value: Any = None


OfCall = Callable[[Call], Any]


class Asked(NamedTuple):
    """A callback of a call, and whether it is async."""

    of: OfCall
    is_async: bool = False


def is_async(function: Any) -> bool:
    """Whether calling it gives an awaitable."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def plain(answer: Any) -> Any:
    """A tool's answer as plain data, so that a path can reach into it: a model or a text that holds JSON is what it says."""
    if isinstance(answer, str):
        if answer.lstrip()[:1] in ("{", "["):
            try:
                return json.loads(answer)
            except ValueError:
                return answer
        return answer
    if isinstance(answer, pydantic.BaseModel):
        return answer.model_dump(mode="json")
    if dataclasses.is_dataclass(answer) and not isinstance(answer, type):
        return dataclasses.asdict(answer)
    return answer


def run_tool(tool: ToolCall, arguments: Mapping[str, Any], context: Any, key: str = "") -> Any:
    """Call a tool, with the idempotency key too if it takes one."""
    if takes_key(tool):
        return tool(dict(arguments), context, **{KEY_ARGUMENT: key})
    return tool(dict(arguments), context)


def takes_key(tool: ToolCall) -> bool:
    """Whether a tool's callable names `idempotency_key`, to carry it in its own way."""
    try:
        return KEY_ARGUMENT in inspect.signature(tool).parameters
    except (TypeError, ValueError):
        return False


def by_name(function: Any, *, role: str, tool: str) -> Asked:
    """A callback that takes any of the tool's arguments by name, and `idempotency_key`, `context` and `value` where they exist.

    Raises:
        ConfigurationError: it cannot be called by name.
    """
    if not callable(function):
        raise ConfigurationError(f"tool {tool!r}: {role}= is {function!r}, which cannot be called. Give a function.")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise ConfigurationError(
            f"tool {tool!r}: the signature of {role}= cannot be read. Wrap it in a lambda."
        ) from None
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    if role == "key":
        late = next((parameter.name for parameter in parameters if parameter.name in (KEY_ARGUMENT, "context")), None)
        if late is not None:
            raise ConfigurationError(
                f"tool {tool!r}: key= names {late!r}, which a key cannot be made of: it says which request this is, by the tool's own "
                "arguments."
            )
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise ConfigurationError(
                f"tool {tool!r}: {role}= takes {parameter} by position; the tool's arguments are given by name."
            )
    named = [parameter for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]

    def of(call: Call) -> Any:
        offered = dict(call.arguments)
        if role != "key":  # which names the request: neither the framework's object nor an id made from it can
            offered = {"context": call.context, **offered, KEY_ARGUMENT: call.key}
        if role in ("settlement", "references"):
            offered[RESULT_ARGUMENT] = call.value
        if takes_all:
            return function(**offered)
        given: dict[str, Any] = {}
        for parameter in named:
            if parameter.name in offered:
                given[parameter.name] = offered[parameter.name]
            elif parameter.default is parameter.empty:
                raise BadInput(f"the argument {parameter.name!r} is missing.")
        return function(**given)

    return Asked(of, is_async(function))


def conditions(expect: Mapping[str, Any] | None) -> dict[str, Condition] | None:
    """Conditions that take the tool's arguments by name, as conditions that take `arguments`."""
    if expect is None:
        return None
    taken: dict[str, Condition] = {}
    for name, said in expect.items():
        rule = said if isinstance(said, Condition) else equals(said)
        taken[name] = _of_arguments(rule) if rule.takes and rule.takes != ("arguments",) else rule
    return taken


def _of_arguments(rule: Condition) -> Condition:
    def test(*values: Any, arguments: Mapping[str, Any]) -> object:
        return rule.test(*values, **{name: follow(arguments, name, of="the call") for name in rule.takes})

    return Condition(rule.rule, rule.relative, test, ("arguments",))
