"""The face of a gated tool: what `tools/list` shows of it, and which arguments fit it.

Owns the note for the model, the argument that is hidden from it, and the check of a configuration against the schema that the server
states.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema  # type: ignore[import-untyped]

from interlock import ConfigurationError
from interlock.extend import Effect, ToolConfig, ToolGate

GATED = "interlock/gated"


@dataclass(slots=True)
class Face:
    """What a client sees of a gated tool.

    Attributes:
        name: of the tool.
        own_argument: the argument that the gate fills in; hidden.
        key: the arguments that name the request; empty where Python code does.
        tier: of the service, as declared.
        can_look_up: whether a lost answer is found by another tool, whose form may be another.
        schema: of the arguments, without the gate's own.
    """

    name: str
    own_argument: str | None
    key: tuple[str, ...]
    tier: int
    can_look_up: bool
    schema: Mapping[str, Any]

    def show(self, tool: Mapping[str, Any]) -> dict[str, Any]:
        """The tool as a client gets it."""
        shown = dict(tool)
        schema = tool.get("inputSchema")
        if isinstance(schema, dict):
            self.schema = shown["inputSchema"] = _without(schema, self.own_argument)
        per = f" per {', '.join(self.key)}" if self.key else ""
        note = f"Calls go through a gate: it happens at most once{per}, and a repeated call gets the first result."
        shown["description"] = f"{tool.get('description') or ''}\n\n{note}".strip()
        # Through the gate a repeated call has no further effect, which is what the hint says.
        shown["annotations"] = {**(tool.get("annotations") or {}), "idempotentHint": True}
        if isinstance(tool.get("execution"), dict):
            shown["execution"] = {**tool["execution"], "taskSupport": "forbidden"}
        if self.can_look_up:
            # What a look-up finds need not have the form of the tool's own result, and clients end a run over that.
            shown.pop("outputSchema", None)
        shown["_meta"] = {**(tool.get("_meta") or {}), GATED: {"key": list(self.key), "tier": self.tier}}
        return shown

    def problem_of(self, arguments: Any) -> str:
        """Why arguments do not fit, for the model; empty if they do. A server would say so too, but not that it did nothing."""
        if not isinstance(arguments, Mapping):
            return "the arguments are no object; give them by name."
        given = {name: value for name, value in arguments.items() if name != self.own_argument}
        try:
            found = next(iter(jsonschema.Draft202012Validator(self.schema).iter_errors(given)), None)
        except Exception:  # noqa: BLE001 - a schema that is no schema judges nothing; the server itself will
            return ""
        if found is None:
            return ""
        place = ".".join(map(str, found.absolute_path))
        return f"{place}: {found.message}." if place else f"{found.message}."


def face_of(name: str, gate: ToolGate, tool: Mapping[str, Any]) -> Face:
    """The face of a tool that is gated."""
    how = gate.declared[name]
    return Face(
        name=name,
        own_argument=how.idempotency_argument,
        key=tuple(how.key) if isinstance(how, ToolConfig) else (),
        tier=1 if how.dedupes else 2 if how.lookup is not None else 3,
        can_look_up=how.lookup is not None,
        schema=_without(tool.get("inputSchema") or {}, how.idempotency_argument),
    )


def show_tools(result: Mapping[str, Any], faces: Mapping[str, Face]) -> dict[str, Any]:
    """A result of `tools/list`, with the faces of the gated tools."""
    tools = result.get("tools")
    if not isinstance(tools, list):
        return dict(result)
    return {**result, "tools": [_shown(tool, faces) for tool in tools]}


def _shown(tool: Any, faces: Mapping[str, Face]) -> Any:
    name = tool.get("name") if isinstance(tool, dict) else None
    face = faces.get(name) if isinstance(name, str) else None
    return tool if face is None else face.show(tool)


def check(gate: ToolGate, tools: Mapping[str, Mapping[str, Any]]) -> None:
    """What the configuration hands a tool must be something that it takes, as far as its schema tells.

    Raises:
        ConfigurationError: a tool has no such argument.
    """
    for name, how in gate.declared.items():
        for of, argument, option in _handed(name, how):
            schema = tools[of].get("inputSchema") or {}
            properties = schema.get("properties")
            if not isinstance(properties, dict) or argument in properties or schema.get("additionalProperties"):
                continue
            close = difflib.get_close_matches(argument, properties, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it takes: {', '.join(properties) or 'none'}"
            raise ConfigurationError(
                f"tool {name!r}: {option} names {argument!r}, which {of!r} of the server does not take; {hint}."
            )


def _handed(name: str, how: ToolConfig | Effect) -> Iterator[tuple[str, str, str]]:
    """The tool, the argument, and the option that names it."""
    if how.idempotency_argument is not None:
        yield name, how.idempotency_argument, "idempotency_argument"
    for argument in how.binds or ():
        yield name, argument, "binds"
    if isinstance(how, Effect):
        return
    for path in how.key:
        if path.partition(".")[0] == how.idempotency_argument:
            raise ConfigurationError(
                f"tool {name!r}: the key cannot be made of {path!r}, which the gate fills in from the key."
            )
        yield name, path.partition(".")[0], "key"
    for option, question in (
        *(("premises", question) for question in how.premises),
        ("lookup", how.lookup),
        ("allowed", how.allowed),
        ("approval", how.approval),
    ):
        if question is None:
            continue
        for argument, given in question.arguments.items():
            yield question.tool, argument, option
            if isinstance(given, str) and not given.startswith("$"):
                yield name, given.partition(".")[0], f"{option}.arguments"


def _without(schema: Mapping[str, Any], argument: str | None) -> dict[str, Any]:
    if argument is None:
        return dict(schema)
    properties = schema.get("properties")
    left = {**schema}
    if isinstance(properties, dict):
        left["properties"] = {name: declared for name, declared in properties.items() if name != argument}
    if isinstance(schema.get("required"), list):
        left["required"] = [name for name in schema["required"] if name != argument]
        if not left["required"]:
            del left["required"]
    return left
