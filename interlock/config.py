"""Configuration: which tools are gated and how, as data. One schema for tool loops, wrappers and the MCP proxy.

Owns the options, their JSON forms, how a file of them is read, and what a mistake in one is told as. It must not know how a tool is
called (`interlock.extend`) or what an option does (`interlock.declaration`).
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    Tag,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import core_schema

from interlock.declaration import is_address, is_unfilled
from interlock.errors import ConfigurationError
from interlock.naming import EFFECT_ID, JOURNAL, instead_of, steps_of
from interlock.rules.values import is_text

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d)")
_SECONDS_OF = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _is_path(text: str) -> str:
    steps_of(text)
    return text


def _is_path_or_id(text: str) -> str:
    return text if text == EFFECT_ID else _is_path(text)


def _seconds(given: Any) -> Any:
    if isinstance(given, bool):
        raise ValueError(f"give a number, not {given!r}")
    if not isinstance(given, str):
        return given
    match = _DURATION.fullmatch(given.strip())
    if match is None:
        raise ValueError(f'{given!r} is no time; write seconds, or a number with a unit: "30s", "10m", "24h", "7d"')
    return float(match[1]) * _SECONDS_OF[match[2]]


def _listed(given: Any) -> Any:
    return [given] if isinstance(given, str | Mapping | BaseModel) else given


def _as_names(given: Any) -> Any:
    """Fields as a dict from their own names to their paths."""
    if isinstance(given, str):
        return {given: given}
    if isinstance(given, list) and all(isinstance(field, str) for field in given):
        if len(set(given)) < len(given):
            raise ValueError("a field is named twice")
        return {field: field for field in given}
    return given


def _as_condition(given: Any) -> Any:
    return {"equals": given} if given is None or isinstance(given, str | int | float | bool) else given


def _as_value(given: Any) -> Any:
    """What a fact must equal: an object of one name that is nearly one of ours is a misspelling, not a value."""
    if not isinstance(given, Mapping) or len(given) != 1:
        return given
    (name,) = given
    if name in ("argument", "literal"):
        return ArgumentValue.model_validate(given) if name == "argument" else given["literal"]
    meant = difflib.get_close_matches(str(name), ("argument", "literal"), n=1, cutoff=0.7)
    if meant:
        raise ValueError(f'{name!r} is none of ours; did you mean {meant[0]!r}? An object as it is: {{"literal": ...}}')
    return given


def _is_bound(text: str) -> str:
    try:
        float(text)
    except ValueError:
        return text
    raise ValueError(f"give a number, not {text!r}: as a text it would be compared letter by letter")


def _form_of_source(given: Any) -> str:
    return "path" if isinstance(given, str) else "argument" if _has(given, "argument") else "literal"


def _form_of_bound(given: Any) -> str:
    return "argument" if isinstance(given, Mapping | BaseModel) else "value"


def _form_of_amount(given: Any) -> str:
    return "path" if isinstance(given, str) else "value"


def _form_of_cap(given: Any) -> str:
    return "list" if isinstance(given, list | tuple) else "text"


def _form_of_found(given: Any) -> str:
    return "field" if isinstance(given, str) else "match"


def _has(given: Any, name: str) -> bool:
    return name in given if isinstance(given, Mapping) else hasattr(given, name)


def _is_named(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty; give a name")
    if "\0" in text or not is_text(text):
        raise ValueError(f"{text!a} holds a character that no name can have")
    return text


def _is_directory(text: str) -> str:
    if is_unfilled(text):
        raise ValueError(
            f"nothing is filled in here, so {text!r} would be a directory of just that name; write out the path"
        )
    if is_address(text):
        raise ValueError(f"{text!r} is no path of a directory; it would be one of just that name")
    return text


@dataclasses.dataclass(frozen=True)
class _Accepts:
    """A further form in which a value may be written; `before` turns it into the one form that the model has."""

    before: Callable[[Any], Any]
    also: Callable[[dict[str, Any]], dict[str, Any]]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(self.before, handler(source))

    def __get_pydantic_json_schema__(self, schema: core_schema.CoreSchema, handler: Any) -> dict[str, Any]:
        own: dict[str, Any] = handler(schema)
        return {"anyOf": [self.also(own), own]}


def _items(listed: dict[str, Any]) -> dict[str, Any]:
    items: dict[str, Any] = listed["items"]
    return items


Name = Annotated[str, AfterValidator(_is_named)]
FieldPath = Annotated[str, AfterValidator(_is_path)]
Seconds = Annotated[
    float,
    Field(ge=0, lt=10**10),
    _Accepts(_seconds, lambda own: {"type": "string", "pattern": f"^{_DURATION.pattern}$"}),
]
Paths = Annotated[list[FieldPath], Field(min_length=1), _Accepts(_listed, _items)]
SCALAR = {"type": ["string", "number", "boolean", "null"]}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class LiteralValue(_Strict):
    """A value that is given as it is: `{"literal": 5}`."""

    literal: Any

    @field_validator("literal")
    @classmethod
    def _no_stand_in(cls, given: Any) -> Any:
        if given == EFFECT_ID:
            raise ValueError(f'as a literal it is only a text; for the idempotency key write "{EFFECT_ID}" itself')
        return given


class ArgumentValue(_Strict):
    """A value of the call: `{"argument": "amount"}`."""

    argument: FieldPath


Source = Annotated[
    Annotated[Annotated[str, AfterValidator(_is_path_or_id)], Tag("path")]
    | Annotated[ArgumentValue, Tag("argument")]
    | Annotated[LiteralValue, Tag("literal")],
    Discriminator(_form_of_source),
]
"""Where an argument of a further tool comes from: a path into the call's arguments, `$effect_id`, or a literal."""


class Question(_Strict):
    """A tool that is asked, and with what."""

    tool: Name = Field(description="The tool that is asked; one of those that were handed over.")
    arguments: dict[str, Source] = Field(
        default_factory=dict,
        description='Its arguments: each a path into the gated call\'s arguments, "$effect_id", or {"literal": ...}.',
    )


class Premises(Question):
    """Facts that a decision relies on: fields of a tool's answer, read before the send and again after a crash."""

    fields: Annotated[
        dict[Name, FieldPath],
        Field(
            min_length=1, description="The fields of the answer that are facts. As a dict: names of one's own for them."
        ),
        _Accepts(
            _as_names, lambda own: {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
        ),
    ]


class Match(_Strict):
    """The item of a list that is our own effect."""

    items: FieldPath = Field(description="The list in the answer. The tool must give all of it, not its first page.")
    where: dict[FieldPath, Source] = Field(description="What our own item has in its fields.", min_length=1)


class LookUp(Question):
    """How our own effect is found at the service."""

    found: Annotated[
        Annotated[FieldPath, Tag("field")] | Annotated[Match, Tag("match")], Discriminator(_form_of_found)
    ] = Field(
        description="The field that tells whether it is there: true or an object if it is, false or null if not; or, in a list, "
        "the item that is ours."
    )
    result: FieldPath | None = Field(
        default=None,
        description="The field that holds it as the tool itself would return it. By default what was found, or the answer.",
    )
    counts_as_ours: StrictBool = Field(
        default=False,
        description="Whatever is found counts as done by this call, whoever did it: for what a service allows once, such as one booking "
        'per order. Without it the look-up must ask for "$effect_id".',
    )

    @model_validator(mode="after")
    def _whose(self) -> LookUp:
        if self.asks_for_id and self.counts_as_ours:
            raise ValueError(f'it asks for "{EFFECT_ID}", which finds our own alone; leave out "counts_as_ours"')
        if not self.asks_for_id and not self.counts_as_ours:
            raise ValueError(
                f'it does not ask for "{EFFECT_ID}", so what anybody else did is found too, and would be taken for ours. Give it to an '
                'argument, or to a field of found.where; if whatever is found counts as done, whoever did it, say "counts_as_ours": true'
            )
        return self

    @property
    def asks_for_id(self) -> bool:
        """Whether it finds our own effect alone, by its idempotency key."""
        where = self.found.where.values() if isinstance(self.found, Match) else ()
        return EFFECT_ID in (*self.arguments.values(), *where)


class Permission(Question):
    """A tool that says whether it is permitted: every field must be true."""

    field: Paths = Field(description="The field of the answer, or several, that must be true.")


class Tolerated(_Strict):
    """Changes of a fact that are harmless."""

    why: Name = Field(description="The rule in words; it stands on the record.")
    to: list[Any] | None = Field(default=None, description="A change to one of these values.", min_length=1)
    increase: StrictBool = Field(default=False, description="A number may have grown.")
    decrease: StrictBool = Field(default=False, description="A number may have shrunk.")

    @model_validator(mode="after")
    def _something(self) -> Tolerated:
        if self.to is None and not self.increase and not self.decrease:
            raise ValueError('says no change that is harmless; give "to", "increase" or "decrease"')
        return self


def _form_of_value(given: Any) -> str:
    return "text" if isinstance(given, str) else "argument" if isinstance(given, Mapping | BaseModel) else "number"


Bound = Annotated[
    Annotated[StrictInt | StrictFloat, Tag("number")]
    | Annotated[Annotated[str, AfterValidator(_is_bound)], Tag("text")]
    | Annotated[ArgumentValue, Tag("argument")],
    Discriminator(_form_of_value),
]
Whole = Annotated[
    Annotated[StrictInt, Tag("value")] | Annotated[ArgumentValue, Tag("argument")], Discriminator(_form_of_bound)
]


class Expectation(_Strict):
    """The condition of one fact. Exactly one of these."""

    equals: Annotated[Any, BeforeValidator(_as_value)] = None
    one_of: list[Any] | None = Field(default=None, min_length=1)
    at_least: Bound | None = None
    at_most: Bound | None = None
    unchanged: Literal[True] | None = None
    tolerates: Tolerated | None = None

    @model_validator(mode="after")
    def _one(self) -> Expectation:
        if len(self.model_fields_set) != 1:
            raise ValueError(f"give one condition, out of: {', '.join(type(self).model_fields)}")
        return self


class BudgetRule(_Strict):
    """A cap that calls share, and what each takes of it."""

    key: Annotated[
        Annotated[Name, Tag("text")] | Annotated[Annotated[list[Source], Field(min_length=1)], Tag("list")],
        Discriminator(_form_of_cap),
    ] = Field(
        description="Names the cap: a text, or a list of paths into the arguments and literals that together name it."
    )
    limit: Whole = Field(description="The most that may be held, in minor units.")
    amount: Annotated[
        Annotated[FieldPath, Tag("path")] | Annotated[StrictInt, Tag("value")], Discriminator(_form_of_amount)
    ] = Field(description="What a call takes, in minor units: a path into its arguments, or a number.")


class ToolConfig(_Strict):
    """One gated tool."""

    key: Paths = Field(
        description="The arguments that name the approved request, as a list; a single one may stand as a plain text. It is the name of an "
        "argument, never a pattern. Never one that a model words freely."
    )
    premises: Annotated[list[Premises], _Accepts(_listed, _items)] = Field(
        default=[], description="Facts that must still hold at the send."
    )
    expect: dict[Name, Annotated[Expectation, _Accepts(_as_condition, lambda own: SCALAR)]] = Field(
        default={},
        description="The condition of a fact, by its name; a plain value means equals. Without one: unchanged.",
    )
    allowed: Permission | None = Field(
        default=None, description="Whether it is permitted, asked at the send and after a crash."
    )
    approval: Permission | None = Field(
        default=None, description="Whether it was approved, asked at the send and after a crash."
    )
    budget: Annotated[list[BudgetRule], _Accepts(_listed, _items)] = Field(
        default=[], description="Caps that it shares with other calls."
    )
    lookup: LookUp | None = Field(default=None, description="How our own effect is found at the service.")
    idempotency_argument: Name | None = Field(
        default=None,
        description="The argument of the tool that carries the idempotency key. The gate fills it in, never the model.",
    )
    dedupes: StrictBool = Field(
        default=False, description="The service drops a second request with the same idempotency key."
    )
    window: Seconds | None = Field(default=None, description='How long it remembers a key: seconds, or "24h".')
    lookup_lag: Seconds = Field(default=0.0, description="How long after a send a look-up may still miss it.")
    timeout: Annotated[Seconds, Field(gt=0)] = Field(default=30.0, description="The longest a send takes.")
    settle_after: Seconds | None = Field(
        default=None,
        description="How long the last request of a dead sender may still be on its way; by default one second, with a warning where "
        "only a look-up keeps it from being done twice.",
    )
    wait: Seconds = Field(default=0.0, description="How long a call waits for another live sender of the same effect.")
    binds: Paths | None = Field(
        default=None, description="The arguments that must not change under one key; by default all."
    )
    rejected_on_error: StrictBool = Field(
        default=False, description="An error result of this tool means that it certainly did not happen."
    )
    name: Name | None = Field(
        default=None,
        description="The name under which its effects stand on the journal; by default the tool's. Give a tool that was renamed its old "
        "one: under a new one nothing of what was done before is known.",
    )


class Placed(str):
    """The absolute directory that a path in a file stands for.

    Attributes:
        file: that it was read from.
        written: the path as it stands there.
    """

    file: Path
    written: str

    @classmethod
    def beside(cls, file: Path, written: str) -> Placed:
        """The directory that a path in this file leads to."""
        placed = cls(written if os.path.isabs(written) else os.path.normpath(file.parent / written))
        placed.file, placed.written = file, written
        return placed


class ToolsConfig(_Strict):
    """Which tools are gated, and how.

    Attributes:
        journal: the directory of the journal. In a file a relative one starts at the file's own directory, wherever the process is
            started; in Python at the working directory.
        tools: by name of the tool.
    """

    journal: Annotated[Name, AfterValidator(_is_directory)] = Field(
        default=JOURNAL,
        description="The directory of the journal. A relative one starts at the directory of this file, not where the process is started.",
    )
    tools: dict[Name, ToolConfig] = Field(description="The tools that are gated, by name.")


def load(source: ToolsConfig | Mapping[str, Any] | str | os.PathLike[str]) -> ToolsConfig:
    """The configuration that a dict, or a `.json` or `.toml` file, holds.

    Returns:
        It, with the journal's directory of a file made absolute.

    Raises:
        ConfigurationError: the file is missing, unreadable or malformed, or an option is unknown or of the wrong kind; with the place.
    """
    if isinstance(source, ToolsConfig):
        return source
    if isinstance(source, Mapping):
        return _checked(source, "the configuration")
    if not isinstance(source, str | os.PathLike):
        raise ConfigurationError(
            f"a configuration is a dict, the path of a .json or .toml file, or a ToolsConfig, not {type(source).__name__}."
        )
    file = Path(os.path.abspath(source))
    loaded = _checked(_read(Path(source)), str(source))
    return loaded.model_copy(update={"journal": Placed.beside(file, loaded.journal)})


def json_schema() -> dict[str, Any]:
    """The published JSON Schema of the configuration."""
    schema = ToolsConfig.model_json_schema(mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _read(file: Path) -> Any:
    kind = file.suffix.lower()
    if kind not in (".json", ".toml"):
        raise ConfigurationError(f"{file}: the ending tells the format; name the file .json or .toml.")
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        raise ConfigurationError(f"{file}: there is no such file. It is looked for from {Path.cwd()}.") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{file}: byte {error.start} is not UTF-8.") from error
    except OSError as error:
        raise ConfigurationError(f"{file}: it cannot be read: {error.strerror or error}.") from error
    try:
        return json.loads(text, object_pairs_hook=_no_twins) if kind == ".json" else tomllib.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"{file}:{error.lineno}:{error.colno}: malformed JSON: {error.msg}.") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file}: malformed TOML: {error}.") from error
    except ValueError as error:
        raise ConfigurationError(f"{file}: {error}.") from error


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; a name that stands in it twice would silently drop what was said first."""
    named: dict[str, Any] = {}
    for name, value in pairs:
        if name in named:
            raise ValueError(f"{name!r} stands twice in one object")
        named[name] = value
    return named


def _checked(document: Any, where: str) -> ToolsConfig:
    if not isinstance(document, Mapping):
        raise ConfigurationError(f'{where}: it holds {type(document).__name__}; give an object: {{"tools": {{...}}}}.')
    try:
        return ToolsConfig.model_validate(document)
    except ValidationError as error:
        problems = list(dict.fromkeys(_problems(error, document)))
        said = "; ".join(problems[:8])
        raise ConfigurationError(f"{where}: {said}" + ("" if said.endswith("?") else ".")) from error


def _problems(error: ValidationError, document: Any) -> Iterator[str]:
    for found in error.errors(include_url=False):
        location = found["loc"]
        place = _place_of(location, document, is_missing=found["type"] == "missing")
        if found["type"] == "extra_forbidden":
            model, name = _model_at(location[:-1]), str(location[-1])
            if name in _IN_PYTHON.get(model, ()):
                yield f"{place} is there in Python only: give the tool as an Effect (interlock.extend)"
            else:
                yield f"{place} is no option; {instead_of(name, model.model_fields, end='')}"
        elif found["type"] == "missing":
            yield f"{place} is missing"
        else:
            said = _wanted(found["type"], found["input"], found.get("ctx") or {})
            yield f"{place}: {said or found['msg'].removeprefix('Value error, ')}"


def _place_of(location: tuple[int | str, ...], document: Any, *, is_missing: bool) -> str:
    """A place as the user wrote it: without the validator's own words for the form of a value, and without the number of a single one."""
    steps: list[str] = []
    node = document
    for at, step in enumerate(location):
        is_there = (isinstance(node, Mapping) and step in node) or (
            isinstance(node, list | tuple) and isinstance(step, int) and step < len(node)
        )
        if is_there:
            node = node[step]
        elif not (is_missing and at == len(location) - 1):
            continue
        steps.append(str(step))
    return ".".join(steps)


_BOUNDS = {
    "greater_than_equal": ("ge", "of at least"),
    "greater_than": ("gt", "above"),
    "less_than_equal": ("le", "of at most"),
    "less_than": ("lt", "below"),
}
"""What a number must be, by the validator's own name for the mistake: where the bound stands, and the word for it."""


_KINDS = {
    "bool": "true or false",
    "string": "a text",
    "int": "a whole number",
    "float": "a number",
    "list": "a list",
    "dict": "an object",
    "model": "an object",
}
"""What is wanted, by the first word of the validator's own name for the mistake."""


def _wanted(mistake: str, given: Any, about: Mapping[str, Any]) -> str:
    """What should stand in a value's place; empty where the validator's own sentence says it."""
    if mistake in _BOUNDS:
        bound, word = _BOUNDS[mistake]
        return f"give a number {word} {about[bound]:g}, not {given!r:.80}"
    if mistake == "string_unicode":
        return f"{given!a:.80} holds a character that no text can have"
    if mistake == "finite_number":
        return f"give a number, not {given!r:.80}"
    if mistake == "literal_error":
        return f"give true, not {given!r:.80}"
    if mistake == "too_short":
        return "it is empty; name at least one"
    kind, _, what = mistake.partition("_")
    if kind not in _KINDS or what not in ("type", "parsing", "from_float", "attributes_type"):
        return ""
    return f"give {_KINDS[kind]}, not {given!r:.80}"


_MODELS: Mapping[str, type[BaseModel]] = {
    "premises": Premises,
    "lookup": LookUp,
    "allowed": Permission,
    "approval": Permission,
    "expect": Expectation,
    "tolerates": Tolerated,
    "budget": BudgetRule,
    "match": Match,
    "literal": LiteralValue,
    "argument": ArgumentValue,
}
_IN_PYTHON: Mapping[type[BaseModel], frozenset[str]] = {
    Expectation: frozenset({"matches"}),
    ToolConfig: frozenset(
        {"classify", "settlement", "references", "watch_for", "rejected_on", "not_sent_on", "in_use_on"}
    ),
}
"""What an `Effect` takes and data cannot say."""


def _model_at(location: tuple[int | str, ...]) -> type[BaseModel]:
    """The model that stands at a place of the configuration."""
    if len(location) < 2:
        return ToolsConfig
    # Below tools.NAME; what the user names there (a fact, an argument) is no option of ours and stands behind one that is.
    steps = [
        step
        for at, step in enumerate(location[2:])
        if at == 0 or location[2 + at - 1] not in ("expect", "arguments", "where")
    ]
    return next((_MODELS[step] for step in reversed(steps) if isinstance(step, str) and step in _MODELS), ToolConfig)


if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=2))
