"""What a LangChain tool takes: which arguments a model writes, which the framework puts in, and what the model is shown.

Owns the look at a tool's schemas. It must not know how a tool is called.
"""

from __future__ import annotations

import inspect
from typing import Any

from langchain_core.tools import BaseTool, InjectedToolCallId
from pydantic import BaseModel, create_model

from interlock.extend import Parameters, without_argument

_OF_LANGCHAIN = ("callbacks", "run_manager", "config")
"""What LangChain itself hands a tool's function, in a recovery, too."""


def payload_names(tool: BaseTool) -> frozenset[str] | None:
    """The arguments that the model writes; None where the schema does not tell."""
    schema = tool.tool_call_schema
    if isinstance(schema, dict):
        properties = schema.get("properties")
        return frozenset(properties) if isinstance(properties, dict) else None
    return frozenset(getattr(schema, "model_fields", {}))


def parameters_of(tool: BaseTool, payload: frozenset[str] | None) -> Parameters:
    """What the tool takes, as its schema says; the arguments that are injected may be the gate's to fill in, and no path leads to them."""
    if payload is None:
        return Parameters((), takes_any=True)
    schema = tool.tool_call_schema
    written = () if isinstance(tool.args_schema, dict) else getattr(tool.get_input_schema(), "model_fields", ())
    injected = tuple(name for name in written if name not in payload)
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        schema = schema.model_json_schema()
    if not isinstance(schema, dict):
        return Parameters(tuple(sorted(payload)), filled=injected)
    return Parameters.of_schema(schema, filled=injected)


def face_of(schema: Any, argument: str | None) -> Any:
    """A schema without the argument that the gate fills in; None where there is nothing to leave out."""
    if isinstance(schema, dict):
        shown = without_argument(schema, argument)
        return None if shown is schema else shown
    fields = getattr(schema, "model_fields", {})
    if argument is None or argument not in fields or not issubclass(schema, BaseModel):
        return None
    kept: dict[str, Any] = {name: (field.annotation, field) for name, field in fields.items() if name != argument}
    return create_model(schema.__name__, __config__=schema.model_config, __doc__=schema.__doc__, **kept)


def injected_names(tool: BaseTool) -> frozenset[str]:
    """The arguments without a default that the framework puts in, other than the id of the call."""
    names = payload_names(tool)
    if names is None:
        return frozenset()
    if isinstance(
        tool.args_schema, dict
    ):  # a JSON Schema tells of the payload alone; what is injected, the function says
        return frozenset(_required_of(tool) - names)
    return frozenset(
        name
        for name, declared in getattr(tool.get_input_schema(), "model_fields", {}).items()
        if name not in names and declared.is_required() and not _is_call_id(declared)
    )


def _required_of(tool: BaseTool) -> set[str]:
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    if function is None:
        return set()
    return {
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.name not in _OF_LANGCHAIN
        and not any(mark is InjectedToolCallId for mark in getattr(parameter.annotation, "__metadata__", ()))
    }


def _is_call_id(declared: Any) -> bool:
    return any(mark is InjectedToolCallId or isinstance(mark, InjectedToolCallId) for mark in declared.metadata)


def is_async_only(tool: BaseTool) -> bool:
    return getattr(tool, "coroutine", None) is not None and getattr(tool, "func", None) is None
