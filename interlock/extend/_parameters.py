"""Parameters: what a tool says it takes, and whether a configuration hands it anything else.

Owns the check of a configuration against the tools' own schemas, and the schema that a model sees. It must not know what an argument means.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from interlock.callbacks import KEY_ARGUMENT, RESULT_ARGUMENT
from interlock.errors import ConfigurationError
from interlock.extend._effect import Effect
from interlock.naming import instead_of
from interlock.record import NamedTuple
from interlock.rules.premises import Condition

if TYPE_CHECKING:
    from interlock.config import ToolConfig


class Parameters(NamedTuple):
    """What a tool takes.

    Attributes:
        names: its arguments.
        takes_any: whether it takes others, too.
        schema: the JSON Schema of its arguments, if it has one; paths into them are followed as far as it tells.
        filled: arguments that no model gives and no path of a configuration may lead to; `idempotency_argument` may name one of them.
        required: those that a call must give.
        answer: the JSON Schema of what it answers, if it has one; the paths into the answer are followed as far as it tells.
        meant: gives, of a call's arguments in JSON form, what the tool would get of them: with its defaults, and of its types. Two calls of
            which it gives the same are one request in two spellings. It may raise anything for arguments that do not fit. By default the
            schema's own defaults are filled in.
    """

    names: tuple[str, ...]
    takes_any: bool = False
    schema: Mapping[str, Any] | None = None
    filled: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    answer: Mapping[str, Any] | None = None
    meant: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None

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

    def as_meant(self, given: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """What the tool would get of these arguments, as far as is known; None if they do not fit."""
        if self.meant is None:
            return {**self._defaults(), **given}
        try:
            return self.meant(given)
        except Exception:  # noqa: BLE001 - a validator may raise anything; then nobody can tell what was meant
            return None

    def _defaults(self) -> dict[str, Any]:
        properties = (self.schema or {}).get("properties")
        listed = properties if isinstance(properties, Mapping) else {}
        return {
            name: said["default"] for name, said in listed.items() if isinstance(said, Mapping) and "default" in said
        }


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
    refuse_missing(name, _handed(name, how), of)
    if not isinstance(how, Effect):
        from interlock.extend._configured import check_config  # here, since an Effect needs no configuration of data

        check_config(name, how, of)
        return
    own = of.get(name)
    if own is not None and not own.takes_any:
        _check_callbacks(name, how, own)


def refuse_missing(name: str, handed: Iterable[Handed], of: Mapping[str, Parameters]) -> None:
    """Each argument that is named must be there, as far as the tools' schemas tell.

    Raises:
        ConfigurationError: one is not.
    """
    for tool, path, option, is_source in handed:
        known = of.get(tool)
        if known is None or known.takes_any or (option == "idempotency_argument" and path in known.filled):
            continue
        missing = _missing(known, path)
        if missing is not None:
            step, choices = missing
            raise ConfigurationError(
                f"tool {name!r}: {option} names {path!r}, which {tool!r} does not take; "
                f"{instead_of(step, choices, there_are='it takes')}"
                + (f' A text as it stands is {{"literal": {json.dumps(path)}}}.' if is_source else "")
            )


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
    if not isinstance(how, Effect):
        return
    for fact, said in (how.expect or {}).items():
        for argument in said.takes if isinstance(said, Condition) else ():
            if argument != "arguments":
                yield Handed(name, argument, f"expect.{fact}")


def _missing(known: Parameters, path: str) -> tuple[str, tuple[str, ...]] | None:
    """The first step of a path that is not there, and what is there instead; None if it is there or nobody can tell."""
    first, *further = path.split(".")
    if first not in known.names:
        return first, known.names
    root = known.schema or {}
    return missing_in(root.get("properties", {}).get(first), further, root)


def missing_in(start: Any, steps: Iterable[str], root: Mapping[str, Any]) -> tuple[str, tuple[str, ...]] | None:
    """The first step that is not there below a part of a schema, and what is there instead; None if it is there or nobody can tell."""
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
