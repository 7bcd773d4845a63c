"""What a LangChain tool takes: which arguments a model writes, which the framework puts in, and what the model is shown.

Owns the look at a tool's schemas. It must not know how a tool is called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.tools import BaseTool, InjectedToolCallId, Tool
from pydantic import BaseModel, ValidationError, create_model

from interlock.extend import Parameters, without_argument

_OF_LANGCHAIN = ("callbacks", "run_manager", "config")
"""What LangChain itself hands a tool's function, in a recovery, too."""


ONE_TEXT = "__arg1"
"""The argument of a tool of the old kind, `Tool(...)`, that takes one text and has no schema: by this name a model gives it."""


ONE_TEXT_SCHEMA = {
    "type": "object",
    "properties": {ONE_TEXT: {"type": "string"}},
    "required": [ONE_TEXT],
}
"""What LangChain shows a model of such a tool."""


def takes_one_text(tool: BaseTool) -> bool:
    """Whether it is a tool of that kind."""
    return isinstance(tool, Tool) and tool.args_schema is None


def payload_names(tool: BaseTool) -> frozenset[str] | None:
    """The arguments that the model writes; None where the schema does not tell."""
    if takes_one_text(tool):
        return frozenset({ONE_TEXT})
    schema = tool.tool_call_schema
    if isinstance(schema, dict):
        properties = schema.get("properties")
        return frozenset(properties) if isinstance(properties, dict) else None
    return frozenset(getattr(schema, "model_fields", {}))


def misfit_of(tool: BaseTool, given: Mapping[str, Any], *, hidden: str | None) -> ValidationError | None:
    """What the tool's own model has against the arguments that a model wrote; it would say so before the function is called.

    Args:
        tool: the tool itself.
        given: what it would be called with, but the argument that the gate fills in.
        hidden: that argument.
    """
    whole: Any = None if isinstance(tool.args_schema, dict) else tool.get_input_schema()
    names = payload_names(tool)
    if names is None or takes_one_text(tool) or not (isinstance(whole, type) and issubclass(whole, BaseModel)):
        return None
    try:
        whole.model_validate({**given, hidden: ""} if hidden in whole.model_fields else dict(given))
    except ValidationError as error:
        # What the framework puts in may be missing here, and is its own to see to.
        not_the_models = {
            word
            for name, declared in whole.model_fields.items()
            if name not in names or name == hidden
            for word in (name, declared.alias)
        }
        wrong = [found["loc"][:1] for found in error.errors(include_context=False)]
        return error if any(not place or place[0] not in not_the_models for place in wrong) else None
    return None


def parameters_of(tool: BaseTool, payload: frozenset[str] | None) -> Parameters:
    """What the tool takes, as its schema says; the arguments that are injected may be the gate's to fill in, and no path leads to them."""
    if payload is None:
        return Parameters((), takes_any=True)
    if takes_one_text(tool):
        return Parameters((ONE_TEXT,), required=(ONE_TEXT,))
    schema = tool.tool_call_schema
    meant = _meant_by(tool, schema, payload)
    written = () if isinstance(tool.args_schema, dict) else getattr(tool.get_input_schema(), "model_fields", ())
    injected = tuple(name for name in written if name not in payload)
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        schema = schema.model_json_schema()
    if not isinstance(schema, dict):
        return Parameters(tuple(sorted(payload)), filled=injected)
    return Parameters.of_schema(schema, filled=injected)._replace(meant=meant)


def _meant_by(
    tool: BaseTool, shown: Any, payload: frozenset[str]
) -> Callable[[Mapping[str, Any]], Mapping[str, Any]] | None:
    """What the tool's own model makes of a call's arguments; None where it is not known."""
    whole: Any = None if isinstance(tool.args_schema, dict) else tool.get_input_schema()
    if not (isinstance(whole, type) and issubclass(whole, BaseModel)):
        return None
    if any(declared.is_required() for name, declared in whole.model_fields.items() if name not in payload):
        # Without what is injected, the whole cannot be made; the part that the model sees lacks the validators of its own.
        checks = whole.__pydantic_decorators__
        if checks.validators or checks.field_validators or checks.root_validators or checks.model_validators:
            return None
        whole = shown

    def meant(given: Mapping[str, Any]) -> Mapping[str, Any]:
        taken = whole.model_validate(dict(given))
        return {name: getattr(taken, name) for name in whole.model_fields if name in payload}

    return meant


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
    if names is None or takes_one_text(tool):
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
