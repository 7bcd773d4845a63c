"""What a configuration of data says, as the callbacks that an effect takes, and whether the tools' own schemas bear it out.

Owns every use of `interlock.config` in the seam, so that a process that gates its tools with `Effect`s alone imports neither. It must not
know the journal or any framework.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from interlock.calling import Asked, Call, OfCall, ToolCall, is_async, plain
from interlock.config import (
    ArgumentValue,
    BudgetRule,
    Expectation,
    LiteralValue,
    LookUp,
    Match,
    Permission,
    Premises,
    Question,
    ToolConfig,
)
from interlock.errors import BadInput, ConfigurationError
from interlock.extend._gated import refuse_unknown
from interlock.extend._parameters import Handed, Parameters, missing_in, refuse_missing
from interlock.naming import EFFECT_ID, NotAsConfigured, NotThere, argument_at, follow, instead_of
from interlock.rules.budgets import Budget
from interlock.rules.premises import Condition, at_least, at_most, equals, matches, one_of, same, tolerates, unchanged
from interlock.rules.values import encode


def callbacks_of(
    name: str, how: ToolConfig, tools: Mapping[str, ToolCall], gated: Collection[str]
) -> tuple[dict[str, Any], dict[str, Asked]]:
    """The options and the callbacks of an effect.

    Raises:
        ConfigurationError: it asks what was not handed over or is gated itself, or says something of what is not there.
    """
    parts = {"key": Asked(key_of(how.key))}
    premises = how.premises
    permissions = [question for question in (how.allowed, how.approval) if question is not None]
    for role, questions in (
        ("premises", premises),
        ("allowed", permissions),
        ("lookup", [how.lookup] if how.lookup else []),
    ):
        for question in questions:
            refuse_unknown(question.tool, f"tool {name!r}: {role}", tools)
            if question.tool in gated:
                raise ConfigurationError(
                    f"tool {name!r}: {role} asks {question.tool!r}, which is gated itself; each time that it is asked it would be done, "
                    "without the gate. Name a tool that only reads."
                )
    if premises:
        facts = [fact for question in premises for fact in question.fields]
        twice = sorted({fact for fact in facts if facts.count(fact) > 1})
        if twice:
            raise ConfigurationError(
                f"tool {name!r}: two premises are named {', '.join(map(repr, twice))}. Name them: "
                '"fields": {"own name": "path"}.'
            )
        unknown = sorted(set(how.expect) - set(facts))
        if unknown:
            raise ConfigurationError(
                f"tool {name!r}: expect names {', '.join(map(repr, unknown))}, which premises does not read; it reads: {', '.join(facts)}."
            )
        parts["premises"] = facts_of(premises, tools)
    elif how.expect:
        raise ConfigurationError(f"tool {name!r}: expect without premises has nothing to judge.")
    if permissions:
        parts["allowed"] = allowed_by(permissions, tools)
    if how.lookup is not None:
        parts["lookup"] = found_by(how.lookup, tools)
    if how.budget:
        parts["budget"] = Asked(budgets_of(how.budget))
    expect = {fact: condition_of(said) for fact, said in how.expect.items()}
    return ({"expect": expect} if expect else {}), parts


def check_config(name: str, how: ToolConfig, of: Mapping[str, Parameters]) -> None:
    """As `check_arguments`, for what stands in a configuration of data alone.

    Raises:
        ConfigurationError: a tool has no such argument, or must have one that it is not given, or its answer has no such field; or the key
            is made of what is made from the key.
    """
    own = of.get(name)
    filled = {how.idempotency_argument, *(own.filled if own is not None else ())} - {None}
    for path in how.key:
        if path.partition(".")[0] in filled:
            raise ConfigurationError(
                f"tool {name!r}: the key cannot be made of {path!r}, which the gate fills in from the key."
            )
    refuse_missing(name, _handed(name, how), of)
    _check_questions(name, how, of)


def _handed(name: str, how: ToolConfig) -> Iterator[Handed]:
    for path in how.key:
        yield Handed(name, path, "key")
    for rule in how.budget:
        for given in [] if isinstance(rule.key, str) else rule.key:
            yield from _source(name, given, "budget.key")
        yield from _source(name, rule.limit, "budget.limit")
        yield from _source(name, rule.amount, "budget.amount")
    for fact, expected in how.expect.items():
        for option in sorted(Expectation.model_fields):
            given = getattr(expected, option)
            if isinstance(given, ArgumentValue):
                yield Handed(name, given.argument, f"expect.{fact}.{option}")
    for option, question in _questions(how):
        for argument, given in question.arguments.items():
            yield Handed(question.tool, argument, f"{option}.arguments")
            yield from _source(name, given, f"{option}.arguments")
    if how.lookup is not None and isinstance(how.lookup.found, Match):
        for given in how.lookup.found.where.values():
            yield from _source(name, given, "lookup.found.where")


def _questions(how: ToolConfig) -> Iterator[tuple[str, Question]]:
    for question in how.premises:
        yield "premises", question
    for option, asked in (("lookup", how.lookup), ("allowed", how.allowed), ("approval", how.approval)):
        if asked is not None:
            yield option, asked


def _source(name: str, given: Any, option: str) -> Iterator[Handed]:
    if isinstance(given, ArgumentValue):
        yield Handed(name, given.argument, option)
    elif isinstance(given, str) and not given.startswith("$"):
        yield Handed(name, given, option, option != "budget.amount")


def _check_questions(name: str, how: ToolConfig, of: Mapping[str, Parameters]) -> None:
    """A tool that is asked gets what it must have, and its answer has the fields that are read, as far as its schemas tell."""
    for option, question in _questions(how):
        known = of.get(question.tool)
        if known is None:
            continue
        left_out = [argument for argument in known.required if argument not in question.arguments]
        if left_out:
            raise ConfigurationError(
                f"tool {name!r}: {option}.arguments leaves out {left_out[0]!r}, which {question.tool!r} must have."
            )
        for part, path in _read_of(option, question):
            missing = None if known.answer is None else missing_in(known.answer, path.split("."), known.answer)
            if missing is not None:
                step, choices = missing
                raise ConfigurationError(
                    f"tool {name!r}: {part} names {path!r}, which the answer of {question.tool!r} does not have; "
                    f"{instead_of(step, choices, there_are='it has')}"
                )


def _read_of(option: str, question: Question) -> Iterator[tuple[str, str]]:
    """The paths into a tool's answer, each with its place in the configuration."""
    if isinstance(question, Premises):
        for path in question.fields.values():
            yield f"{option}.fields", path
    elif isinstance(question, Permission):
        for path in question.field:
            yield f"{option}.field", path
    elif isinstance(question, LookUp):
        if isinstance(question.found, str):
            yield f"{option}.found", question.found
        else:
            yield f"{option}.found.items", question.found.items
            for path in question.found.where:
                yield f"{option}.found.where", f"{question.found.items}.0.{path}"
        if question.result is not None:
            yield f"{option}.result", question.result


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
