"""Parameters: what a tool says it takes, and whether a configuration hands it anything else.

Owns the check of a configuration against the tools' own schemas, and the schema that a model sees. It must not know what an argument means.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from interlock.callbacks import KEY_ARGUMENT, RESULT_ARGUMENT
from interlock.config import (
    ArgumentValue,
    Expectation,
    LookUp,
    Match,
    Permission,
    Premises,
    Question,
    ToolConfig,
    instead_of,
)
from interlock.errors import ConfigurationError
from interlock.extend._effect import Effect
from interlock.rules.premises import Condition


class Parameters(NamedTuple):
    """What a tool takes.

    Attributes:
        names: its arguments.
        takes_any: whether it takes others, too.
        schema: the JSON Schema of its arguments, if it has one; paths into them are followed as far as it tells.
        filled: arguments that no model gives and no path of a configuration may lead to; `idempotency_argument` may name one of them.
        required: those that a call must give.
        answer: the JSON Schema of what it answers, if it has one; the paths into the answer are followed as far as it tells.
    """

    names: tuple[str, ...]
    takes_any: bool = False
    schema: Mapping[str, Any] | None = None
    filled: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    answer: Mapping[str, Any] | None = None

    @classmethod
    def of_schema(cls, schema: Any, *, filled: tuple[str, ...] = (), answer: Any = None) -> Parameters:
        """The parameters that a JSON Schema of arguments tells; a schema that lists none may stand for any."""
        told = answer if isinstance(answer, Mapping) else None
        listed, is_open = _taken(schema, schema, set()) if isinstance(schema, Mapping) else (None, True)
        if listed is None:
            return cls((), True, None, filled, (), told)
        required = tuple(name for name in _demanded(schema) if name not in filled)
        return cls(tuple(dict.fromkeys(listed)), is_open, schema, filled, required, told)

    def problem_of(self, tool: str, given: Iterable[str], *, hidden: str | None = None) -> str:
        """What a call brings that the tool does not take, in a sentence for the model; empty if there is nothing of that kind.

        A server may ignore such an argument, or not; to the gate it would make the same request another one. So it is the model's to
        leave out, unless the schema says that others may be given.

        Args:
            tool: its name.
            given: the names of the call's arguments.
            hidden: the argument that the gate fills in: dropped from a call, and not told of.
        """
        if self.takes_any:
            return ""
        names = [name for name in self.names if name != hidden]
        unknown = [name for name in given if name not in (*names, *self.filled, hidden)]
        return f"{tool} has no argument {unknown[0]!r}; it has: {', '.join(names) or 'none'}." if unknown else ""


class Handed(NamedTuple):
    """One place of a configuration that names an argument of a tool; `is_source`: a literal could stand there as well."""

    tool: str
    path: str
    option: str
    is_source: bool = False


def check_arguments(name: str, how: ToolConfig | Effect, of: Mapping[str, Parameters]) -> None:
    """What a configuration hands a tool must be something that the tool takes, as far as its schema tells.

    Args:
        name: the gated tool.
        how: its configuration.
        of: the parameters of the tools, by name; of one that is not there nothing is known.

    Raises:
        ConfigurationError: a tool has no such argument, or the key is made of what is made from the key.
    """
    own = of.get(name)
    filled = {how.idempotency_argument, *(own.filled if own is not None else ())} - {None}
    if isinstance(how, ToolConfig):
        for path in how.key:
            if path.partition(".")[0] in filled:
                raise ConfigurationError(
                    f"tool {name!r}: the key cannot be made of {path!r}, which the gate fills in from the key."
                )
    for tool, path, option, is_source in _handed(name, how):
        known = of.get(tool)
        if known is None or known.takes_any or (option == "idempotency_argument" and path in known.filled):
            continue
        missing = _missing(known, path)
        if missing is not None:
            step, choices = missing
            raise ConfigurationError(
                f"tool {name!r}: {option} names {path!r}, which {tool!r} does not take; "
                f"{instead_of(step, choices, there_are='it takes')}"
                + (f' A text as it stands is {{"literal": {path!r}}}.'.replace("'", '"') if is_source else "")
            )
    if isinstance(how, ToolConfig):
        _check_questions(name, how, of)
    if isinstance(how, Effect) and own is not None and not own.takes_any:
        _check_callbacks(name, how, own)


def _check_callbacks(name: str, how: Effect, own: Parameters) -> None:
    for role in ("key", "premises", "allowed", "budget", "lookup", "settlement", "references"):
        callback = getattr(how, role)
        # What a key may not take has an error of its own, where it is made into a callback.
        offered = [
            *own.names,
            KEY_ARGUMENT,
            "context",
            *([RESULT_ARGUMENT] if role in ("settlement", "references") else []),
        ]
        for named in _required(callback):
            if named not in offered and named not in own.filled:
                raise ConfigurationError(
                    f"tool {name!r}: {role}= takes {named!r}, which is no argument of the tool; "
                    f"{instead_of(named, own.names if role == 'key' else offered, there_are='it takes')}"
                )


def _required(callback: Callable[..., Any] | None) -> list[str]:
    """The parameters of a callback that have no default."""
    if callback is None:
        return []
    try:
        parameters = inspect.signature(callback).parameters.values()
    except (TypeError, ValueError):
        return []  # refused where it is made into a callback of an effect
    return [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]


def _handed(name: str, how: ToolConfig | Effect) -> Iterator[Handed]:
    if how.idempotency_argument is not None:
        yield Handed(name, how.idempotency_argument, "idempotency_argument")
    for argument in how.binds or ():
        yield Handed(name, argument, "binds")
    if isinstance(how, Effect):
        for fact, said in (how.expect or {}).items():
            for argument in said.takes if isinstance(said, Condition) else ():
                if argument != "arguments":
                    yield Handed(name, argument, f"expect.{fact}")
        return
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
            missing = None if known.answer is None else _missing_in(known.answer, path.split("."), known.answer)
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


def _missing(known: Parameters, path: str) -> tuple[str, tuple[str, ...]] | None:
    """The first step of a path that is not there, and what is there instead; None if it is there or nobody can tell."""
    first, *further = path.split(".")
    if first not in known.names:
        return first, known.names
    root = known.schema or {}
    return _missing_in(root.get("properties", {}).get(first), further, root)


def _missing_in(start: Any, steps: Iterable[str], root: Mapping[str, Any]) -> tuple[str, tuple[str, ...]] | None:
    """As `_missing`, below a part of a schema."""
    node = _resolved(start, root)
    for step in steps:
        if node.get("type") == "array" and step.isdecimal():
            node = _resolved(node.get("items"), root)
            continue
        if node.get("type") in _SCALARS:
            return step, ()
        properties = node.get("properties")
        if not isinstance(properties, Mapping) or _is_open(node):
            return None
        if step not in properties:
            return step, tuple(map(str, properties))
        node = _resolved(properties[step], root)
    return None


_SCALARS = frozenset({"string", "integer", "number", "boolean", "null"})


def _taken(node: Any, root: Mapping[str, Any], followed: set[str]) -> tuple[list[str] | None, bool]:
    """The arguments that a schema lists, in all its forms, and whether there may be others, as far as it tells; None if it lists none.

    `followed`: the references that were followed already; a schema may lead to itself.
    """
    if not isinstance(node, Mapping):
        return None, False
    properties = node.get("properties")
    listed = list(map(str, properties)) if isinstance(properties, Mapping) else None
    is_open = _is_open(node)
    forms = [form for kind in ("allOf", "anyOf", "oneOf") for form in node.get(kind) or ()]
    forms += [node[kind] for kind in ("then", "else") if kind in node]
    forms += list((node.get("dependentSchemas") or {}).values())
    reference = node.get("$ref")
    if reference is not None and str(reference) not in followed:
        followed.add(str(reference))
        behind = _behind(reference, root)
        is_open = is_open or behind is None
        forms.append(behind)
    for form in forms:
        further, is_further_open = _taken(form, root, followed)
        listed = further if listed is None else [*listed, *(further or ())]
        is_open = is_open or is_further_open
    return listed, is_open


def _demanded(schema: Mapping[str, Any]) -> Iterator[str]:
    """The arguments that a call must give. A strict schema demands them all; one with a default, or that may be null, can be left out."""
    properties, demanded = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping) or not isinstance(demanded, list):
        return
    for name in demanded:
        node = properties.get(name)
        if isinstance(node, Mapping) and "default" not in node and not _may_be_null(node):
            yield str(name)


def _may_be_null(node: Mapping[str, Any]) -> bool:
    kind = node.get("type")
    forms = [form for name in ("anyOf", "oneOf") for form in node.get(name) or ()]
    return "null" in (kind if isinstance(kind, list) else [kind]) or any(
        isinstance(form, Mapping) and _may_be_null(form) for form in forms
    )


def _is_open(node: Mapping[str, Any]) -> bool:
    """Whether a schema says that other properties may be given; silence is no such word, and an empty schema is one."""
    told = (node.get(name, False) for name in ("additionalProperties", "unevaluatedProperties"))
    return any(said is not False for said in told) or "patternProperties" in node


def _behind(reference: Any, root: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The part of a schema that a reference leads to."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    found: Any = root
    for step in reference[2:].split("/") if reference != "#" else ():
        found = found.get(step) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else None


def _resolved(node: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A part of a schema behind its reference; what comes in several forms tells nothing."""
    if not isinstance(node, Mapping):
        return {}
    reference = node.get("$ref")
    behind = _behind(reference, root)
    if behind is not None:
        node = behind
    return {} if any(form in node for form in ("anyOf", "oneOf", "allOf", "$ref")) else node


def without_argument(schema: Any, argument: str | None) -> Any:
    """A JSON Schema of arguments without the one that the gate fills in, for the model; the schema itself if it has no such argument."""
    if argument is None or not isinstance(schema, Mapping) or argument not in (schema.get("properties") or {}):
        return schema
    left = {**schema, "properties": {name: said for name, said in schema["properties"].items() if name != argument}}
    if isinstance(schema.get("required"), list):
        left["required"] = [name for name in schema["required"] if name != argument]
    return left
