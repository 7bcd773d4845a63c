"""Tools of the OpenAI Agents SDK behind the gate: a `FunctionTool` goes in, a `FunctionTool` comes out, and only its invoker differs.

The SDK calls the invoker last, after a person's approval and the guardrails, so the gate judges the tool and the arguments that would
really be used. Owns the translation between that invoker and `ToolGate.acall`. It must not know order, journal, retries or clocks.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import os
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

import pydantic
from agents import FunctionTool, RunContextWrapper
from agents.tool_context import ToolContext
from agents.tracing import get_current_trace

from interlock import ConfigurationError, Interlock, NotSent
from interlock.extend import (
    Answer,
    Effect,
    Journal,
    Parameters,
    ProtectedTools,
    Recoverable,
    ToolGate,
    decision_on,
    without_argument,
)
from interlock.integrations.openai_agents._invoker import came_before_the_function, raising, schema_of

if TYPE_CHECKING:
    from interlock.extend import ToolConfig, ToolsConfig

    Config = ToolsConfig | Mapping[str, Any] | str | os.PathLike[str]

SEEN = "interlock_seen"
"""In a run's context that is a dict: what the approvers of its tool calls saw, by id of the call."""

NOT_GIVEN: Any = object()
"""No context object was given for recovery; None is one, too."""

Where = Journal | Interlock | str | os.PathLike[str] | None


@dataclasses.dataclass(slots=True)
class LiveCall:
    """What of one call is not payload: it belongs to this run of the SDK.

    Attributes:
        tool: name of the tool that was called.
        context: the SDK's own context of the call.
        output: what the tool returned, in the call that ran it.
        ran: whether it did.
    """

    tool: str
    context: ToolContext[Any]
    output: Any = None
    ran: bool = False


class ToolEntrance:
    """How the gate calls one function tool, in a run and without one.

    Args:
        tool: the tool itself, not gated.
        context: the application's own context object for recovery, which has no run.
    """

    def __init__(self, tool: FunctionTool, context: Any = NOT_GIVEN) -> None:
        self.tool = tool
        self.schema = schema_of(tool)
        self.parameters = Parameters.of_schema(tool.params_json_schema)
        if self.schema is not None:
            self.parameters = self.parameters._replace(meant=lambda given: dict(self._parsed(given, None)))
        self.is_agent = bool(getattr(tool, "_is_agent_tool", False))
        self._invoke = raising(tool)
        self._context = context

    async def call(self, arguments: Mapping[str, Any], context: Any) -> Any:
        """Run the tool with these arguments.

        Raises:
            NotSent: the tool needs a run's context and there is none, or the SDK refused the arguments.
        """
        text = json.dumps(arguments)
        live = context if isinstance(context, LiveCall) else None
        try:
            output = await self._invoke(self._context_of(live, text), text)
        except Exception as error:
            if came_before_the_function(error):
                raise NotSent(str(error)) from error
            raise
        if live is not None and live.tool == self.tool.name:
            live.output, live.ran = output, True
        return output

    def problem_with(self, arguments: Any, hidden: str | None) -> str:
        """What the tool has against the arguments that a model gave, by its schema and its function's signature; empty if nothing."""
        if not isinstance(arguments, Mapping):
            return ""
        unknown = self.parameters.problem_of(self.tool.name, arguments, hidden=hidden)
        if unknown or self.schema is None:
            return unknown.removesuffix(".")
        given = {name: value for name, value in arguments.items() if name != hidden}
        try:
            self._parsed(given, hidden)
        except pydantic.ValidationError as error:
            return "; ".join(f"{'.'.join(map(str, at['loc']))}: {at['msg']}" for at in error.errors()[:5])
        return ""

    def would_change(self, arguments: Mapping[str, Any], hidden: str | None) -> bool:
        """Whether the function would get anything else than what is given here: defaults, conversions, or nothing at all."""
        if self.schema is None:
            return False
        given = {name: value for name, value in arguments.items() if name != hidden}
        try:
            taken = self._parsed(given, hidden).model_dump(mode="json", exclude=None if hidden is None else {hidden})
        except (pydantic.ValidationError, ValueError):
            return True
        return bool(taken != given)

    def _parsed(self, given: Mapping[str, Any], hidden: str | None) -> pydantic.BaseModel:
        model: Any = self.schema and self.schema.params_pydantic_model
        filled = {hidden: ""} if hidden is not None and hidden in model.model_fields else {}
        parsed: pydantic.BaseModel = model.model_validate({**given, **filled})
        return parsed

    def _context_of(self, live: LiveCall | None, arguments: str) -> ToolContext[Any]:
        """The SDK's context for this call: the run's own one, telling of this tool and these arguments."""
        if live is None:
            if self._context is NOT_GIVEN and self.schema is not None and self.schema.takes_context:
                raise NotSent(
                    f"{self.tool.name!r} takes the context of a run, which a recovery has not. Hand over the object that "
                    "Runner.run(context=...) gets, as context=; or run the agent again, which settles it"
                )
            return ToolContext(
                context=None if self._context is NOT_GIVEN else self._context,
                tool_name=self.tool.name,
                tool_call_id="interlock",
                tool_arguments=arguments,
            )
        own = copy.copy(live.context)
        own.tool_arguments = arguments
        if live.tool != self.tool.name:
            own.tool_name, own.tool_call = self.tool.name, None
        return own


class GatedInvoker:
    """The invoker of a gated tool: what the SDK calls once it has the approval and the guardrails' consent."""

    def __init__(self, entrance: ToolEntrance, gate: ToolGate, seen: MutableMapping[str, Any]) -> None:
        self.entrance = entrance
        self.gate = gate
        self.seen = seen
        self.name = entrance.tool.name
        self.hidden = gate.argument_of_gate(self.name)

    async def __call__(self, context: ToolContext[Any], arguments: str) -> Any:
        """Do it once, through the gate. Whatever became of it is told as the tool's output."""
        given = _parsed(arguments)
        problem = self.entrance.problem_with(given, self.hidden)
        if problem:
            return f"Not done: {problem}. Nothing was sent. Correct the arguments and call again."
        live, seen = LiveCall(self.name, context), self._seen(context)
        answer = await self.gate.acall(
            self.name,
            given,
            context=live,
            decision=decision_on(decision_of(context, self.name), seen),
            evidence=ids_of(context),
            seen=seen,
        )
        return _given(answer, live)

    def _seen(self, context: ToolContext[Any]) -> Mapping[str, Any] | None:
        """What the person who approved this very call saw, if it was kept."""
        if not decision_of(context, self.name):
            return None
        held = [self.seen, _kept_in(context)]
        return next((kept[context.tool_call_id] for kept in held if context.tool_call_id in kept), None)

    def approval_of(self, policy: Any) -> Any:
        """The tool's own approval policy; what it could not judge by needs a person.

        The SDK asks a policy about the arguments as the model wrote them, and where the function would get others, a person. It knows
        which those are by its own invoker, which is no longer the one in front.
        """
        if not policy or getattr(policy, "reads_facts", False):
            return policy

        async def asks(context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
            if not callable(policy) or self.entrance.would_change(arguments, self.hidden):
                return True
            said = policy(context, arguments, call_id)
            return bool(await said if inspect.isawaitable(said) else said)

        async def needs_approval(context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
            needed = await asks(context, arguments, call_id)
            if needed:
                await self._see(context, arguments, call_id)
            return needed

        needs_approval.reads_facts = True  # type: ignore[attr-defined]  # so that it is not put around itself
        return needs_approval

    async def _see(self, context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> None:
        """Read the facts that a person will approve this call on, and keep them."""
        asking: ToolContext[Any] = ToolContext(
            context=context.context,
            usage=context.usage,
            tool_name=self.name,
            tool_call_id=call_id,
            tool_arguments=json.dumps(arguments),
        )
        seen = await self.gate.aread_facts(self.name, arguments, context=LiveCall(self.name, asking))
        if seen is not None:
            self.seen[call_id] = seen
            if isinstance(context.context, MutableMapping):
                context.context.setdefault(SEEN, {})[call_id] = seen  # which the SDK saves with its RunState


class GatedTool(Recoverable, FunctionTool):
    """A function tool behind the gate, with the face of the tool inside it, and `recover()`."""

    def __setattr__(self, name: str, value: Any) -> None:
        # Also an approval policy that is set later asks by the facts of the call.
        invoker = getattr(self, "on_invoke_tool", None)
        if name == "needs_approval" and isinstance(invoker, GatedInvoker):
            value = invoker.approval_of(value)
        super().__setattr__(name, value)

    @property
    def gate(self) -> ToolGate:
        """The gate that it is behind."""
        invoker: Any = self.on_invoke_tool
        gate: ToolGate = invoker.gate
        return gate


def protect_tools(
    tools: Sequence[Any],
    config: Config,
    *,
    asks: Sequence[FunctionTool] = (),
    journal: Where = None,
    context: Any = NOT_GIVEN,
    seen: MutableMapping[str, Any] | None = None,
) -> ProtectedTools[Any]:
    """Put the tools with outside effects behind the gate, and leave the others as they are.

    Args:
        tools: an agent's tools; the SDK's hosted tools may be among them.
        config: which tools are gated and how: a dict, a JSON or TOML file, or a `ToolsConfig`.
        asks: further tools that premises and look-ups ask, and that the model does not get.
        journal: where the journal lives, if not where the configuration says.
        context: for recovery, the object that `Runner.run(context=...)` gets; needed where a tool's function takes the run's context.
        seen: where what approvers saw is kept, by id of the tool call, as JSON data. Save it with the `RunState` and hand it over again. It
            is not needed where the run's context is a dict, which the SDK saves itself, nor where the approval comes in this process.

    Returns:
        The tools in the same order, as a list with `recover()`.

    Raises:
        ConfigurationError: the configuration names a tool that is not there, or has an option that does not exist.
    """
    table = ToolTable([*tools, *asks], context, seen)
    gate = table.gate(config, journal)
    return ProtectedTools([table.protected(tool, gate) for tool in tools], gate)


def protect_tool(
    tool: FunctionTool,
    config: Config | ToolConfig,
    *,
    asks: Sequence[FunctionTool] = (),
    journal: Where = None,
    context: Any = NOT_GIVEN,
    seen: MutableMapping[str, Any] | None = None,
) -> GatedTool:
    """Put one tool behind the gate.

    Args:
        tool: a function tool with an outside effect.
        config: how it is gated: a configuration that names this tool alone.
        asks: the tools that its premises and look-up ask.
        journal: where the journal lives, if not where the configuration says; an `Interlock` to share one among several tools.
        context: as for `protect_tools`.
        seen: as for `protect_tools`.

    Returns:
        The same tool with `recover()`; schema, approval and guardrails are kept.

    Raises:
        ConfigurationError: as for `protect_tools`; or the configuration gates another tool, too.
    """
    if not isinstance(config, Mapping | str | os.PathLike):
        from interlock.extend import ToolConfig, ToolsConfig  # here, since tools that are all Effects need neither

        if isinstance(config, ToolConfig):
            config = ToolsConfig(tools={tool.name: config})
    protected = protect_tools([tool], config, asks=asks, journal=journal, context=context, seen=seen)
    gated = list(protected.gate.declared)
    if gated != [tool.name]:
        protected.close()
        raise ConfigurationError(
            f"protect_tool() gates {tool.name!r} alone, and the configuration gates {', '.join(gated)}. "
            "Use protect_tools() for several."
        )
    only: GatedTool = protected[0]
    return only


class ToolTable:
    """The function tools that a gate gets, each under its one name.

    Args:
        tools: of one agent or several; what is no function tool is left out.
        context: the application's context object for recovery.
        seen: where what approvers saw is kept.
    """

    def __init__(
        self, tools: Iterable[Any], context: Any = NOT_GIVEN, seen: MutableMapping[str, Any] | None = None
    ) -> None:
        self._seen: MutableMapping[str, Any] = {} if seen is None else seen
        self._entrances: dict[str, ToolEntrance] = {}
        self._twice: set[str] = set()
        self._gated: dict[int, GatedTool] = {}
        for tool in tools:
            if not isinstance(tool, FunctionTool):
                if callable(tool) or not hasattr(tool, "name"):
                    raise ConfigurationError(
                        f"{tool!r} is no tool of the OpenAI Agents SDK; make one of it (@function_tool)."
                    )
            elif isinstance(tool, GatedTool):
                raise ConfigurationError(f"the tool {tool.name!r} is behind a gate already.")
            elif tool.name not in self._entrances:
                self._entrances[tool.name] = ToolEntrance(tool, context)
            elif self._entrances[tool.name].tool is not tool:
                self._twice.add(tool.name)

    def gate(self, config: Config, journal: Where) -> ToolGate:
        """The gate of these tools.

        Raises:
            ConfigurationError: the configuration does not fit them.
        """
        gate = ToolGate(
            config,
            tools={name: own.call for name, own in self._entrances.items()},
            journal=journal,
            # An agent as a tool is refused for what it is (below), not for what it takes.
            parameters={name: own.parameters for name, own in self._entrances.items() if not own.is_agent},
        )
        try:
            for name in _named_in(gate):
                self._check(name, gate)
        except BaseException:
            gate.close()
            raise
        return gate

    def protected(self, tool: Any, gate: ToolGate) -> Any:
        """The tool behind the gate, or the tool itself where the gate has nothing to say about it.

        Raises:
            ConfigurationError: it has the name of a gated tool, and is another one.
        """
        if isinstance(tool, GatedTool) or not isinstance(tool, FunctionTool) or not gate.is_gated(tool.name):
            return tool
        entrance = self._entrances[tool.name]
        if entrance.tool is not tool:
            raise ConfigurationError(_two(tool.name))
        if id(tool) not in self._gated:
            self._gated[id(tool)] = _gated(entrance, gate, self._seen)
        return self._gated[id(tool)]

    def _check(self, name: str, gate: ToolGate) -> None:
        if name in self._twice:
            raise ConfigurationError(_two(name))
        if gate.is_gated(name) and self._entrances[name].is_agent:
            raise ConfigurationError(
                f"the tool {name!r} runs an agent, which may pause for an approval in its middle. Gate the tools of that agent instead."
            )


def _gated(entrance: ToolEntrance, gate: ToolGate, seen: MutableMapping[str, Any]) -> GatedTool:
    """The tool with another invoker. As `dataclasses.replace`, which would lose what some releases keep outside the constructor."""
    tool = entrance.tool
    invoker = GatedInvoker(entrance, gate, seen)
    gated = object.__new__(GatedTool)
    gated.__dict__.update(tool.__dict__)
    gated.on_invoke_tool = invoker
    gated.params_json_schema = without_argument(tool.params_json_schema, invoker.hidden)
    gated.needs_approval = invoker.approval_of(tool.needs_approval)
    if hasattr(tool, "timeout_error_function") and tool.timeout_error_function is None:
        gated.timeout_error_function = _timed_out
    return gated


def _timed_out(context: Any, error: Exception) -> str:
    """What a model is told when the SDK stops waiting for a gated tool: the SDK's own sentence invites it to try another way."""
    return f"{error} It may still happen. Do not start it another way; call again later with the same arguments for the result."


def _kept_in(context: ToolContext[Any]) -> Mapping[str, Any]:
    held = context.context.get(SEEN) if isinstance(context.context, Mapping) else None
    return held if isinstance(held, Mapping) else {}


def _given(answer: Answer, live: LiveCall) -> Any:
    """The answer as the tool's output: what the tool returned, or a sentence."""
    if not answer.ok:
        return answer.message
    if live.ran:
        return live.output
    return answer.message if answer.value is None or answer.value is True else answer.value


def _parsed(arguments: str) -> Any:
    """The arguments that a model wrote; what is no JSON stays a text, which the gate refuses."""
    if not arguments:
        return {}
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def decision_of(context: ToolContext[Any], name: str) -> str:
    """Names the decision that a call rests on: a person's approval of this very call, or none.

    An approval that stands for every later call (`always_approve`) is no decision about this one.
    """
    if not context.is_tool_approved(name, context.tool_call_id):
        return ""
    sticky = context.is_tool_approved(name, f"{context.tool_call_id} and any other")
    return "" if sticky else f"approval of {context.tool_call_id}"


def ids_of(context: ToolContext[Any]) -> dict[str, Any]:
    """The SDK's ids of this call: evidence for the record, never a key."""
    trace = get_current_trace()
    config = getattr(context, "run_config", None)
    item = getattr(context.tool_call, "id", None)
    return {
        "tool_call_id": context.tool_call_id,
        "tool_call_item": item,
        "agent": getattr(getattr(context, "agent", None), "name", None),
        "approved": context.is_tool_approved(context.tool_name, context.tool_call_id),
        "trace_id": None if trace is None or trace.trace_id == "no-op" else trace.trace_id,
        "group_id": getattr(config, "group_id", None),
        "workflow_name": getattr(config, "workflow_name", None),
    }


def _named_in(gate: ToolGate) -> list[str]:
    """Every tool that the configuration names: the gated ones, and those that are asked."""
    names: list[str] = []
    for name, how in gate.declared.items():
        names.append(name)
        if not isinstance(how, Effect):
            asked = [*how.premises, how.allowed, how.approval, how.lookup]
            names += [question.tool for question in asked if question is not None]
    return names


def _two(name: str) -> str:
    return f"two tools are named {name!r}; the gate could not tell which one to call. Give each a name of its own."
