"""ADK's tools, contexts and answers, translated: a `BaseTool` as a callable of the gate, an answer of the gate as the dict that ADK takes.

Owns what all three ways in have in common: what is asked of a person first, how a tool is run in a call and in a recovery, which ids stand
on the record, and what the model is told. It must not know order, journal, retries or clocks; those are the gate's.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from google.adk.agents import BaseAgent
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.adk.tools.tool_context import ToolContext

from interlock import ConfigurationError, NotSent
from interlock.extend import Answer, Parameters, ToolFailed, is_async, plain

_SEEN = "interlock_seen"

GIVEN = Any
"""A tool as ADK takes it: a function, a `BaseTool` or a toolset; or an agent, which stands for its tools and those below it."""


PROPOSED_KEY = "interlock_key"
"""Beside a tool's arguments: the key that a `proposal=` gave. It is on the record with them; the tool does not get it."""


@dataclass(slots=True)
class LiveCall:
    """What of one call is not payload: it belongs to this run of ADK and cannot be resumed from a journal.

    Attributes:
        tool: the tool that was called; a look-up tool that the gate calls meanwhile is another one.
        context: ADK's context of the call.
        ran: whether the tool answered in this call.
        result: what it answered.
        pause: what a tool answered that asked a person first, and has not acted.
    """

    tool: BaseTool
    context: ToolContext
    ran: bool = False
    result: Any = None
    pause: Any = None


class NoRun:
    """In the place of ADK's context where there is no run: in a recovery. What it had confirmed stays confirmed."""

    function_call_id = ""
    tool_confirmation = ToolConfirmation(confirmed=True)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a recovery has no run of ADK, and so no tool_context.{name}; resume the run")


class ToolEntrance:
    """How the gate calls one ADK tool, and reads what it says.

    Args:
        tool: the tool itself, not gated.
    """

    def __init__(self, tool: BaseTool) -> None:
        self.tool = tool
        self.is_async = not _runs_in_a_thread(tool)

    @property
    def call(self) -> Any:
        """The callable that the gate gets. ADK runs a plain function on the event loop; the gate runs it in a thread."""
        return self.acall_tool if self.is_async else self.call_tool

    def call_tool(self, arguments: Mapping[str, Any], context: Any) -> Any:
        """Run the tool with these arguments, in a thread where no event loop runs."""
        return asyncio.run(self.acall_tool(arguments, context))

    async def acall_tool(self, arguments: Mapping[str, Any], context: Any) -> Any:
        """As `call_tool`, on the event loop that runs.

        Raises:
            ToolFailed: it says of itself that it failed.
            NotSent: it has certainly not acted.
        """
        arguments = {name: value for name, value in arguments.items() if name != PROPOSED_KEY}
        if isinstance(context, LiveCall) and context.tool.name == self.tool.name:
            return await self._run(arguments, context)
        if isinstance(context, LiveCall):
            # Another tool's call asks this one: a context of its own, so that nothing of it comes into that call's event.
            beside = ToolContext(context.context._invocation_context, function_call_id=context.context.function_call_id)
            return _read(await self.tool.run_async(args=arguments, tool_context=beside))
        if _takes_context(self.tool):
            raise NotSent(
                f"{self.tool.name!r} takes its tool_context from a run of ADK, which a recovery has not. Resume the run; that settles it"
            )
        nowhere: Any = NoRun()
        return _read(await self.tool.run_async(args=arguments, tool_context=nowhere))

    async def _run(self, arguments: Mapping[str, Any], live: LiveCall) -> Any:
        context = live.context
        asked = len(context.actions.requested_tool_confirmations) + len(context.actions.requested_auth_configs)
        result = await live.tool.run_async(args=dict(arguments), tool_context=context)
        if len(context.actions.requested_tool_confirmations) + len(context.actions.requested_auth_configs) > asked:
            # ADK runs a tool from its top again once it was answered, so it asks before it acts or not at all.
            live.pause = {} if result is None else result
            raise NotSent("the tool asked a person first, before it acted")
        if _was_not_called(live.tool, result):
            raise NotSent(result["error"])
        value = plain(result) if not isinstance(result, str) else result
        _fail_if_it_says_so(value, own=True)
        live.ran, live.result = True, value
        return value


async def asked_first(tool: BaseTool, args: dict[str, Any], context: ToolContext) -> dict[str, Any] | None:
    """What ADK is answered while a person has not agreed: the question, or that it was declined; None if the call may go on.

    A `before_tool_callback` runs before ADK's own question, and releases of ADK differ in which tools they ask it for at all
    (google/adk-python#7148). So it is asked here, for every gated tool, by ADK's own means.
    """
    confirmation = context.tool_confirmation
    if confirmation is not None and not confirmation.confirmed:
        return refusal("declined", f"Not done: a person declined this call of {tool.name}. Do not call it again.")
    if confirmation is None and await tool.check_require_confirmation(args, context):
        context.request_confirmation(
            hint=f"{tool.name}() waits for a person: answer this call with a ToolConfirmation, confirmed or not."
        )
        context.actions.skip_summarization = True  # else the model is asked at once, and calls again
        return refusal("waiting", f"Not done yet: {tool.name} requires confirmation, and waits for a person.")
    return None


def refusal(reason: str, message: str) -> dict[str, Any]:
    """An answer in ADK's form for what did not come before the gate at all: nothing was journalled, nothing sent."""
    return {"status": f"REFUSED:{reason}", "ok": False, "message": message, "error": message}


def given_to_adk(answer: Answer, live: LiveCall) -> Any:
    """The answer as the tool would give it; an error is a dict with `error`, as ADK's own errors are."""
    if live.pause is not None and not answer.ok:
        return live.pause
    if answer.is_error:
        return {**answer.as_dict(), "error": answer.message}
    if live.ran:
        return live.result
    if answer.value is None and is_answered_later(live.tool):
        return None
    if answer.value is None or answer.value is True:
        # An earlier call or a look-up knows that it landed, and no more.
        return {"result": answer.value, "message": answer.message}
    return answer.value


def as_response(tool: BaseTool, result: Any) -> dict[str, Any]:
    """A tool's result as the dict that a callback answers; ADK makes the same of it. An empty one still stands for the tool."""
    if result is None and is_answered_later(tool):
        return {}
    return result if isinstance(result, dict) else {"result": result}


def is_answered_later(tool: BaseTool) -> bool:
    """Whether the tool's answer may come later, so that None is no answer at all."""
    return tool.is_long_running or bool(getattr(tool, "_defers_response", False))


def decision_of(context: ToolContext) -> str:
    """The name of the decision: one confirmation belongs to one call of one session, however often it is sent or resumed."""
    confirmation = context.tool_confirmation
    if confirmation is None or not confirmation.confirmed or not context.function_call_id:
        return ""
    return f"confirmation:{context.session.id}:{context.function_call_id}"


def keep_seen(context: ToolContext, seen: Mapping[str, Any]) -> None:
    """Keep what a person who is asked to confirm a call saw: in the session's state, which ADK writes with the question itself."""
    context.state[f"{_SEEN}:{context.function_call_id}"] = dict(seen)


def was_asked(context: ToolContext) -> bool:
    """Whether a person was asked for just this call already: ADK looks at a question once more when it is answered.

    A later call may have the same id, so what counts is which of the two came last.
    """
    for event in reversed(context.session.events):
        if context.function_call_id in event.actions.requested_tool_confirmations:
            return True
        if any(call.id == context.function_call_id for call in event.get_function_calls()):
            return False
    return False


def seen_in(context: ToolContext) -> Mapping[str, Any] | None:
    """What the person who confirmed this call saw; None where nobody was asked, or the tool has no premises."""
    if context.tool_confirmation is None:
        return None
    seen = context.state.get(f"{_SEEN}:{context.function_call_id}")
    return seen if isinstance(seen, Mapping) else None


def ids_of(context: ToolContext) -> dict[str, Any]:
    """ADK's ids of this call: evidence for the record, never a key."""
    confirmation = context.tool_confirmation
    return {
        "function_call_id": context.function_call_id,
        "invocation_id": context.invocation_id,
        "session_id": context.session.id,
        "user_id": context.user_id,
        "app_name": context.session.app_name,
        "agent_name": context.agent_name,
        **({} if confirmation is None else {"confirmed": confirmation.confirmed}),
        # What a person filled in can change what the tool sends, so it stands beside what was proposed.
        **(
            {}
            if confirmation is None or confirmation.payload is None
            else {"confirmation": _text(confirmation.payload)}
        ),
    }


def missing_arguments(tool: BaseTool, args: Mapping[str, Any], filled_in: str | None) -> list[str]:
    """The arguments that a function needs and a call does not give; ADK answers such a call without calling the function."""
    if not isinstance(tool, FunctionTool):
        return []
    own = {_context_name(tool), "input_stream", filled_in}
    return [
        name
        for name, parameter in _parameters(tool).items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        and name not in own
        and name not in args
    ]


def parameters_of(tool: BaseTool) -> Parameters:
    """What a tool takes: a function by its signature, any other tool by its declaration."""
    if isinstance(tool, FunctionTool):
        own = _parameters(tool)
        kinds = {parameter.kind for parameter in own.values()}
        names = tuple(name for name in own if name not in (_context_name(tool), "input_stream"))
        defaults = {name: own[name].default for name in names if own[name].default is not inspect.Parameter.empty}
        takes_any = not own or inspect.Parameter.VAR_KEYWORD in kinds
        return Parameters(names, takes_any, meant=lambda given: {**defaults, **given})
    declaration = tool._get_declaration()
    given = getattr(declaration, "parameters_json_schema", None)
    if isinstance(given, Mapping):
        return Parameters.of_schema(given)
    properties = getattr(getattr(declaration, "parameters", None), "properties", None)
    return Parameters(tuple(properties or ()), takes_any=not properties)


def named_tools(given: Iterable[GIVEN] | GIVEN) -> dict[str, BaseTool]:
    """The tools by name, those of agents and of the agents below them, too. Toolsets are left out: their tools are not known yet.

    Raises:
        ConfigurationError: something is no tool, or two different tools have one name.
    """
    named: dict[str, BaseTool] = {}
    for tool in _tools(given):
        other = named.setdefault(tool.name, tool)
        if other is not tool and not (isinstance(tool, FunctionTool) and is_same_tool(other, tool)):
            raise ConfigurationError(f"two tools are named {tool.name!r}; the gate could not tell which one to call.")
    return named


def as_tool(given: Any) -> BaseTool:
    """A tool as ADK itself makes it of what stands in `tools=[...]`.

    Raises:
        ConfigurationError: it is none.
    """
    if isinstance(given, BaseTool):
        return given
    if not callable(given) or isinstance(given, type):
        raise ConfigurationError(f"{given!r:.200} is no tool of ADK; give a function or a BaseTool.")
    return FunctionTool(given)


def is_same_tool(one: BaseTool, other: BaseTool) -> bool:
    """Whether two objects stand for one tool; ADK makes new ones of a function or a toolset whenever it likes."""
    return one is other or (
        type(one) is type(other)
        and one.name == other.name
        and getattr(one, "func", None) == getattr(other, "func", None)
    )


def refuse_generators(tool: BaseTool) -> None:
    """A generator's effect has no end at which it could be recorded.

    Raises:
        ConfigurationError: the tool is one.
    """
    function = getattr(tool, "func", None)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(
            f"the tool {tool.name!r} is a generator, which the gate cannot record; give it a function that returns."
        )


def _tools(given: Iterable[GIVEN] | GIVEN) -> Iterator[BaseTool]:
    if isinstance(given, BaseAgent):
        given = [given]
    for item in given:
        if isinstance(item, BaseToolset):
            continue
        if isinstance(item, BaseAgent):
            yield from _tools(getattr(item, "tools", ()))
            yield from _tools(item.sub_agents)
            continue
        tool = as_tool(item)
        yield tool
        if isinstance(tool, AgentTool):
            yield from _tools([tool.agent])


def _text(payload: Any) -> str:
    return json.dumps(payload, ensure_ascii=False, default=str)[:2000]


def _read(result: Any) -> Any:
    value = plain(result)
    _fail_if_it_says_so(value)
    return value


def _fail_if_it_says_so(value: Any, *, own: bool = False) -> None:
    """Errors of ADK's tools are dicts: `error` (functions), `isError` (MCP); and `status: "error"` by the convention of its guides."""
    if not isinstance(value, Mapping):
        return
    # What is asked for a fact may well tell of a thing whose status is "error".
    if value.get("error") or value.get("isError") is True or (own and value.get("status") == "error"):
        raise ToolFailed(str(value.get("error_message") or value.get("error") or value))


def _was_not_called(tool: BaseTool, result: Any) -> bool:
    """ADK's own word that it did not call the function: arguments that are missing or of the wrong type."""
    return (
        type(tool) is FunctionTool
        and isinstance(result, dict)
        and result.keys() == {"error"}
        and str(result["error"]).startswith(f"Invoking `{tool.name}()` failed")
    )


def _runs_in_a_thread(tool: BaseTool) -> bool:
    function = getattr(tool, "func", None)
    return isinstance(tool, FunctionTool) and callable(function) and not is_async(function)


def _parameters(tool: FunctionTool) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(tool.func).parameters
    except (TypeError, ValueError):
        return {}


def _context_name(tool: FunctionTool) -> str:
    return getattr(tool, "_context_param_name", "tool_context")


def _takes_context(tool: BaseTool) -> bool:
    return isinstance(tool, FunctionTool) and _context_name(tool) in _parameters(tool)
