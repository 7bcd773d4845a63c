"""What stands behind a `FunctionTool`: its function's schema, and a way to call it that lets failures through.

`function_tool` turns an exception of the function into a text for the model, so from outside a failed refund looks like one that went
through. Owns the look inside that tells the two apart, for each release of the SDK that is supported; nothing else looks inside.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from agents import FunctionTool
from agents.exceptions import ModelBehaviorError
from agents.function_schema import FuncSchema

from interlock import ConfigurationError

Invoke = Callable[[Any, str], Awaitable[Any]]
T = TypeVar("T")

_BEFORE_THE_FUNCTION = frozenset({"agents.tool", "agents.agent"})
"""Where the SDK parses a call's arguments. An exception with frames of these modules alone was raised before the function began."""


def raising(tool: FunctionTool) -> Invoke:
    """Calls the tool's function; an exception of it comes out as it is, and is no text for a model.

    Raises:
        ConfigurationError: the tool was made by a release of the SDK whose tools cannot be told apart from failed ones.
    """
    invoke = tool.on_invoke_tool
    if not (getattr(type(invoke), "__module__", "").startswith("agents.") or _is_of_sdk(invoke)):
        return invoke  # written by hand: it raises what it raises
    if hasattr(invoke, "__agents_bind_function_tool__"):
        # Since 0.11 the formatter is a field, and a copy of the tool goes by its own.
        own = dataclasses.replace(tool)
        own._failure_error_function = None
        own._use_default_failure_error_function = False
        return own.on_invoke_tool
    if isinstance(invoke, types.FunctionType) and "failure_error_function" in invoke.__code__.co_freevars:
        # Before that, a variable that the invoker closed over.
        cells = tuple(
            types.CellType(None) if name == "failure_error_function" else cell
            for name, cell in zip(invoke.__code__.co_freevars, invoke.__closure__ or (), strict=True)
        )
        return types.FunctionType(invoke.__code__, invoke.__globals__, invoke.__name__, invoke.__defaults__, cells)
    raise ConfigurationError(
        f"the tool {tool.name!r} was made by a release of the OpenAI Agents SDK that is not known here: whether its function failed could "
        "not be told from what it returns. Write the FunctionTool with an on_invoke_tool of your own that raises."
    )


def schema_of(tool: FunctionTool) -> FuncSchema | None:
    """What the SDK read from the function's signature; None for a tool that was written by hand."""
    return closed_over(tool.on_invoke_tool, FuncSchema)


def closed_over(function: Any, kind: type[T], depth: int = 4) -> T | None:
    """The first object of a kind that a function, or one inside it, has closed over."""
    if depth == 0:
        return None
    inner = getattr(function, "_invoke_tool_impl", None)
    if inner is not None:
        return closed_over(inner, kind, depth - 1)
    if not isinstance(function, types.FunctionType):
        return None
    held = []
    for cell in function.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
    for value in held:
        if isinstance(value, kind):
            return value
    for value in held:
        found = closed_over(value, kind, depth - 1)
        if found is not None:
            return found
    return None


def came_before_the_function(error: BaseException) -> bool:
    """Whether the SDK refused the arguments, so that the function never began."""
    if not isinstance(error, ModelBehaviorError) or not str(error).startswith("Invalid JSON input for tool"):
        return False
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame.f_globals.get("__name__", ""))
        trace = trace.tb_next
    return all(name in _BEFORE_THE_FUNCTION or name == __name__.rpartition(".")[0] + "._adapter" for name in frames)


def _is_of_sdk(invoke: Any) -> bool:
    return isinstance(invoke, types.FunctionType) and (invoke.__module__ or "").partition(".")[0] == "agents"
