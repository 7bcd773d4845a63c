"""Calling: from a tool's configuration, or from Python callbacks, to the callbacks that an effect takes.

A tool is a callable of `(arguments, context)`; an effect of it is a function of `arguments`, and of `unbound` where some may change under
one key. Owns how a path is followed into an answer, how another tool is asked for a fact, and how a callback that names a tool's arguments
gets them. It must not know the journal, the protocol, or any framework.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pydantic

from interlock.callbacks import KEY_ARGUMENT, RESULT_ARGUMENT
from interlock.config import (
    EFFECT_ID,
    ArgumentValue,
    BudgetRule,
    Expectation,
    LiteralValue,
    LookUp,
    Match,
    Permission,
    Premises,
)
from interlock.config import path as steps_of
from interlock.errors import BadInput, ConfigurationError
from interlock.rules.budgets import Budget
from interlock.rules.premises import Condition, at_least, at_most, equals, matches, one_of, same, tolerates, unchanged
from interlock.rules.values import encode

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


class NotAsConfigured(Exception):
    """What a tool answered has not the form that the configuration says: the same call will not help, an operator has to look."""


class NotThere(NotAsConfigured, LookupError):
    """A path leads to nothing: the answer has no such field."""


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


def follow(data: Any, path: str, *, of: str) -> Any:
    """What a path leads to.

    Raises:
        NotThere: nothing is there. A field that is missing is never the same as one that is empty.
    """
    for step in steps_of(path):
        if isinstance(data, Mapping) and step in data:
            data = data[step]
        elif (
            isinstance(data, Sequence)
            and not isinstance(data, str | bytes)
            and step.isdecimal()
            and int(step) < len(data)
        ):
            data = data[int(step)]
        else:
            has = (
                f"it has: {', '.join(map(str, data))}"
                if isinstance(data, Mapping)
                else f"there is {type(data).__name__}"
            )
            raise NotThere(f"{of} has no {path!r}: {step!r} is missing ({has:.200})")
    return data


def source(given: Any, call: Call) -> Any:
    """The value that a configuration's source stands for, in this call.

    Raises:
        BadInput, NotThere: the call has no such argument.
    """
    if isinstance(given, LiteralValue):
        return given.literal
    if isinstance(given, ArgumentValue):
        return argument_at(given.argument, call.arguments)
    if given == EFFECT_ID:
        return call.key
    if not isinstance(given, str):
        return given
    return argument_at(given, call.arguments)


def argument_at(path: str, arguments: Mapping[str, Any]) -> Any:
    """An argument of the call, or a part of one.

    Raises:
        BadInput: the model left it out.
        NotThere: it has no such part.
    """
    if path.partition(".")[0] not in arguments:
        raise BadInput(f"the argument {path!r} is missing.")
    return follow(arguments, path, of="the call")


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


def asking(questions: Sequence[Any], tools: Mapping[str, ToolCall], use: Callable[[list[Any], Call], Any]) -> Asked:
    """A callback that asks tools and makes something of their answers."""

    def arguments_of(question: Any, call: Call) -> dict[str, Any]:
        return {name: source(given, call) for name, given in question.arguments.items()}

    if not any(is_async(tools[question.tool]) for question in questions):

        def ask(call: Call) -> Any:
            answers = [
                plain(tools[question.tool](arguments_of(question, call), call.context)) for question in questions
            ]
            return use(answers, call)

        return Asked(ask)

    async def one(question: Any, call: Call) -> Any:
        tool = tools[question.tool]
        if is_async(tool):
            return plain(await tool(arguments_of(question, call), call.context))
        return plain(await asyncio.to_thread(tool, arguments_of(question, call), call.context))

    async def aask(call: Call) -> Any:
        return use([await one(question, call) for question in questions], call)

    return Asked(aask, is_async=True)


# --- what a configuration says --------------------------------------------------------------------------------------------


def key_of(paths: Sequence[str]) -> OfCall:
    """The business key: one argument as it is, several joined without ambiguity."""

    def key(call: Call) -> str:
        parts: list[str] = []
        for path in paths:
            try:
                value = follow(call.arguments, path, of="the call")
            except NotThere:
                raise BadInput(f"the argument {path!r} is missing; it says which request this is.") from None
            if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
                raise BadInput(
                    f"the argument {path!r} is {value!r}; it says which request this is: give a text or a whole number."
                )
            text = str(value)
            if text != text.strip():
                raise BadInput(f"the argument {path!r} is {value!r}; leave out the spaces around it.")
            parts.append(text)
        return parts[0] if len(parts) == 1 else ":".join(part.replace("%", "%25").replace(":", "%3A") for part in parts)

    return key


def facts_of(premises: Sequence[Premises], tools: Mapping[str, ToolCall]) -> Asked:
    """The reader of premises."""

    def use(answers: list[Any], call: Call) -> dict[str, Any]:
        return {
            name: follow(answer, field, of=f"the answer of {question.tool!r}")
            for question, answer in zip(premises, answers, strict=True)
            for name, field in question.fields.items()
        }

    return asking(premises, tools, use)


def found_by(lookup: LookUp, tools: Mapping[str, ToolCall]) -> Asked:
    """The look-up: the answer, or the item of it, that is our own effect; None if it is certainly absent."""
    whose = f"the answer of {lookup.tool!r}"

    def use(answers: list[Any], call: Call) -> Any:
        answer = answers[0]
        if isinstance(lookup.found, Match):
            return matching(lookup.found, follow(answer, lookup.found.items, of=whose), call)
        said = follow(answer, lookup.found, of=whose)
        if said is None or said is False:
            return None
        # True says that the answer tells of our effect; anything else is what was found, and the gate judges what it says.
        found = answer if said is True else said
        return found if lookup.result is None else follow(answer, lookup.result, of=whose)

    def matching(match: Match, items: Any, call: Call) -> Any:
        if not isinstance(items, Sequence) or isinstance(items, str | bytes):
            raise NotAsConfigured(f"{whose} has {type(items).__name__} at {match.items!r}, not a list")
        wanted = {path: encode(source(given, call)) for path, given in match.where.items()}
        own = [item for item in items if all(has(item, path, value) for path, value in wanted.items())]
        return own[0] if own else None

    def has(item: Any, path: str, value: Any) -> bool:
        try:
            return same(encode(follow(item, path, of="an item")), value)
        except NotThere:
            return False  # an item of somebody else's need not have the field

    return asking([lookup], tools, use)


def allowed_by(permissions: Sequence[Permission], tools: Mapping[str, ToolCall]) -> Asked:
    """Whether every field of every permission is true."""

    def use(answers: list[Any], call: Call) -> bool:
        verdicts: list[bool] = []
        for question, answer in zip(permissions, answers, strict=True):
            for field in question.field:
                said = follow(answer, field, of=f"the answer of {question.tool!r}")
                if said is not True and said is not False:
                    raise NotAsConfigured(f"{question.tool!r} says {said!r} at {field!r}; true or false is needed")
                verdicts.append(said)
        return all(verdicts)

    return asking(permissions, tools, use)


def budgets_of(rules: Sequence[BudgetRule]) -> OfCall:
    """The caps that a call shares."""

    def budgets(call: Call) -> list[Budget]:
        made: list[Budget] = []
        for rule in rules:
            key = rule.key if isinstance(rule.key, str) else ":".join(str(source(part, call)) for part in rule.key)
            amount = source(rule.amount, call)
            made.append(Budget(key, source(rule.limit, call), amount))
        return made

    return budgets


def condition_of(said: Expectation) -> Condition:
    """The condition that an `expect` of a configuration stands for; it may take `arguments`."""
    which = next(iter(said.model_fields_set))
    value = getattr(said, which)
    if which == "equals" and not isinstance(value, ArgumentValue):
        return equals(value)
    if which == "one_of":
        return one_of(*value)
    if which == "unchanged":
        return unchanged()
    if which == "tolerates":
        return tolerates(lambda seen, now: _is_tolerated(value, seen, now), why=value.why)
    if not isinstance(value, ArgumentValue):
        return at_least(value) if which == "at_least" else at_most(value)
    path = value.argument
    if which == "equals":
        return matches(
            lambda now, arguments: same(encode(now), encode(argument_at(path, arguments))),
            why=f"equal to the argument {path!r}",
        )
    if which == "at_least":
        return matches(
            lambda now, arguments: bool(now >= argument_at(path, arguments)), why=f"at least the argument {path!r}"
        )
    return matches(
        lambda now, arguments: bool(now <= argument_at(path, arguments)), why=f"at most the argument {path!r}"
    )


def _is_tolerated(rule: Any, seen: Any, now: Any) -> bool:
    if rule.to is not None and any(same(encode(now), encode(value)) for value in rule.to):
        return True
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in (seen, now)):
        return False
    return bool((rule.increase and now > seen) or (rule.decrease and now < seen))


# --- Python callbacks that name a tool's arguments ------------------------------------------------------------------------


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
