"""The face of a gated tool: what `tools/list` shows of it, and which arguments it takes.

Owns the note for the model, and that it does not see the argument that the gate fills in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from interlock.extend import Effect, Parameters, ToolGate, without_argument

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
            self.schema = shown["inputSchema"] = without_argument(schema, self.own_argument)
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

    def problem_of(self, arguments: Any, misfit: Misfit) -> str:
        """Why arguments cannot be taken, for the model; empty if they can. A server would say so too, but not that it did nothing.

        Args:
            arguments: as the client gave them.
            misfit: says why arguments that the tool has do not fit it.
        """
        if not isinstance(arguments, Mapping):
            return "the arguments are no object; give them by name."
        given = {name: value for name, value in arguments.items() if name != self.own_argument}
        unknown = Parameters.of_schema(self.schema).problem_of(self.name, given)
        return unknown or misfit(self, given)


Misfit = Callable[[Face, Mapping[str, Any]], str]
"""Why the arguments of a call, without the gate's own, do not fit a tool, in a sentence for the model; empty if they do."""


def face_of(name: str, gate: ToolGate, tool: Mapping[str, Any]) -> Face:
    """The face of a tool that is gated."""
    how = gate.declared[name]
    return Face(
        name=name,
        own_argument=how.idempotency_argument,
        key=() if isinstance(how, Effect) else tuple(how.key),
        tier=1 if how.dedupes else 2 if how.lookup is not None else 3,
        can_look_up=how.lookup is not None,
        schema=without_argument(tool.get("inputSchema") or {}, how.idempotency_argument),
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
