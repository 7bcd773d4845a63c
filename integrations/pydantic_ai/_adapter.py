"""Pydantic AI tools behind the gate: what of a call is payload, how a tool is called with and without a run, what the model is told.

Owns the translation between the framework's call of a tool and `ToolGate.acall`. The two ways in (`_capability.py`, `_toolset.py`) hand it
the rest of the framework's own chain as `proceed`. It must not know order, journal, retries or clocks; those are the gate's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, cast

import pydantic_core
from pydantic_ai import Agent, RunContext, Tool, exceptions
from pydantic_ai.exceptions import (
    ApprovalRequired,
    CallDeferred,
    ModelRetry,
    SkipToolExecution,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import ToolReturn
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import (
    AbstractToolset,
    ApprovalRequiredToolset,
    CombinedToolset,
    FunctionToolset,
    PrefixedToolset,
    RenamedToolset,
    WrapperToolset,
)
from pydantic_ai.usage import RunUsage

from interlock import BadInput, ConfigurationError, NotSent
from interlock.extend import Answer, Parameters, ToolFailed, ToolGate, decision_on, not_taken, without_argument

Proceed = Callable[[dict[str, Any]], Awaitable[Any]]
"""The rest of the framework's chain, down to the tool itself; takes the arguments."""

SEEN = "interlock_seen"
"""In the metadata of a call that waits for an approval: the facts that a person approves on."""

NO_DEPS: Any = object()
"""There is nothing that a tool could find as `ctx.deps` outside a run."""

_FAILED: type[Exception] | None = getattr(
    exceptions, "ToolFailed", None
)  # releases before it have no form for an error that is final
_TOLD: tuple[type[BaseException], ...] = (
    UnexpectedModelBehavior,  # too many corrections
    *(kind for kind in (getattr(exceptions, name, None) for name in ("ToolRetryError", "ToolFailedError")) if kind),
)
"""What the framework makes of a tool's own `ModelRetry` or `ToolFailed`, with that as its cause."""


@dataclasses.dataclass(slots=True, eq=False)
class LiveCall:
    """What of one call is not payload: it belongs to this run of the framework and cannot be resumed from a journal.

    Attributes:
        tool: name of the tool that was called; tools that the gate asks meanwhile get only the context.
        ctx: the framework's context of the call.
        args: the arguments as the framework validated them.
        proceed: the rest of the framework's chain.
        sent: the arguments that were handed to it, in JSON form.
        entered: whether it has come to the tool itself; None where nobody can see that.
        returned: whether the tool itself has returned.
        result: what the chain gave.
        signal: what the framework is to be told instead of a result: the tool asked for an approval, deferred, or wants a correction.
    """

    tool: str
    ctx: RunContext[Any]
    args: Mapping[str, Any]
    proceed: Proceed
    sent: Any = None
    entered: bool | None = None
    returned: bool = False
    result: Any = None
    has_result: bool = False
    signal: BaseException | None = None


LIVE: ContextVar[LiveCall | None] = ContextVar("interlock_pydantic_ai_live", default=None)
"""The call that the gate is sending in this task."""


class ToolEntrance:
    """How the gate calls one tool, in a run and without one.

    Args:
        name: the tool's name, as the model sees it.
        tool: the framework's tool.
        deps: what a tool that takes a context finds as `ctx.deps` where there is no run.
    """

    def __init__(self, name: str, tool: Tool[Any], deps: Any) -> None:
        self.name = name
        self.tool = tool
        self.deps = deps

    async def call(self, arguments: Mapping[str, Any], context: Any) -> Any:
        """Call the tool: through the framework's chain if this is the call of a run, and by itself otherwise."""
        live = context if isinstance(context, LiveCall) else None
        if live is not None and live.tool == self.name:
            return await self._in_run(arguments, live)
        result = await self.tool.function_schema.call(self.typed(arguments), self._context(live))
        return as_data(result)

    def changed_since_shown(self, shown: Any, args: Mapping[str, Any]) -> list[str]:
        """The arguments that are not what was shown to the person who approved the call: a hook changed them after that."""
        given = pydantic_core.from_json(shown) if isinstance(shown, str | bytes) else dict(shown or {})
        typed: Any = self.tool.function_schema.validator.validate_json(pydantic_core.to_json(given))
        single = getattr(self.tool.function_schema, "single_arg_name", None)
        whole = typed if single is None or (isinstance(typed, Mapping) and single in typed) else {single: typed}
        meant, now = ({name: as_json(value) for name, value in one.items()} for one in (whole, args))
        return sorted(name for name in meant.keys() | now.keys() if meant.get(name, NO_DEPS) != now.get(name, NO_DEPS))

    async def _in_run(self, arguments: Mapping[str, Any], live: LiveCall) -> Any:
        live.sent = dict(arguments)
        changed = {name: value for name, value in arguments.items() if as_json(live.args.get(name, NO_DEPS)) != value}
        # The live objects where they are what is on the record; else what is on the record, made into objects again.
        args = {**live.args, **self._only(self.typed(arguments), changed)} if changed else dict(live.args)
        mark = LIVE.set(live)
        try:
            live.result = await live.proceed(args)
        except (ApprovalRequired, CallDeferred, SkipToolExecution) as signal:
            live.signal = signal
            raise NotSent(f"the tool did not act: {type(signal).__name__}") from signal
        except Exception as error:  # noqa: BLE001 - told apart, and raised again where it says nothing
            return self._settled(error, live)
        finally:
            LIVE.reset(mark)
        live.has_result = True
        return as_data(live.result)

    def _settled(self, error: Exception, live: LiveCall) -> Any:
        """What an exception out of the chain says about the effect.

        Raises:
            NotSent: the tool itself turned the call down before it acted, or was not reached.
            Exception: nobody knows from this what happened.
        """
        if live.returned:  # the tool had acted; a hook after it did not like the result, which is therefore not kept
            live.signal = error
            return None
        cause = error.__cause__ if isinstance(error, _TOLD) and isinstance(error.__cause__, Exception) else error
        if live.entered is False and isinstance(error, ModelRetry):
            live.signal = error
            raise NotSent("a hook turned the call down before the tool was reached") from error
        # A time-out of the framework, and `except ...: raise ModelRetry` in a tool, are raised over another exception: unknown.
        if isinstance(cause, ModelRetry) and cause.__cause__ is None and cause.__context__ is None:
            live.signal = error
            raise NotSent(f"the tool asks for a correction: {cause.message}") from error
        if _FAILED is not None and isinstance(cause, _FAILED):
            raise ToolFailed(str(cause)) from cause
        raise cause

    def typed(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments in JSON form as the tool's own types."""
        schema = self.tool.function_schema
        given = dict(arguments)
        single = getattr(schema, "single_arg_name", None)
        if single is not None and set(given) == {single}:
            given = given[single]
        typed: dict[str, Any] = schema.validator.validate_json(pydantic_core.to_json(given))
        return typed

    @staticmethod
    def _only(typed: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
        return {name: typed[name] for name in names}

    def _context(self, live: LiveCall | None) -> RunContext[Any]:
        """A context for a tool that is not called by the run itself.

        Raises:
            NotSent: the tool takes one, and there is none.
        """
        if live is not None:
            return dataclasses.replace(live.ctx, tool_name=self.name, tool_call_id=None)
        if not self.tool.takes_ctx:
            return cast("RunContext[Any]", None)
        if self.deps is NO_DEPS:
            raise NotSent(
                f"{self.name!r} takes a RunContext, and outside a run there is none. Give deps=, or resume the run; that settles it"
            )
        deps = self.deps() if callable(self.deps) else self.deps
        return RunContext(deps=deps, model=cast(Any, None), usage=RunUsage(), tool_name=self.name)


class Door:
    """The gate of one agent or toolset: tools go in by name, a call comes out as what the framework is given.

    Args:
        config: which tools are gated and how (docs/config.md).
        tools: all tools, by the names that the model sees.
        journal: where the journal lives, if not where the configuration says.
        deps: what tools that take a context find as `ctx.deps` outside a run; a callable is called for it.
        decision: names the decision of a call from its context; by default an approval is one, and all else another.
    """

    def __init__(
        self,
        config: Any,
        tools: Mapping[str, Tool[Any]],
        *,
        journal: Any = None,
        deps: Any = NO_DEPS,
        decision: Callable[[RunContext[Any]], str] | None = None,
    ) -> None:
        self.decision = decision
        self._asking: set[str] = set()
        self._entrances = entrances = {name: ToolEntrance(name, tool, deps) for name, tool in tools.items()}
        self.gate = ToolGate(
            config,
            tools={name: entrance.call for name, entrance in entrances.items()},
            journal=journal,
            parameters={
                name: Parameters.of_schema(_schema_of(tool))._replace(meant=entrances[name].typed)
                for name, tool in tools.items()
            },
        )
        try:
            for name, tool in tools.items():
                self._check(name, tool)
        except BaseException:
            self.gate.close()
            raise

    def _check(self, name: str, tool: Tool[Any]) -> None:
        argument = self.gate.argument_of_gate(name)
        if argument is not None and argument in tool.function_schema.json_schema.get("required", ()):
            raise ConfigurationError(
                f"tool {name!r}: the argument {argument!r} is filled in by the gate, and the framework refuses calls without it "
                f'before the gate sees them. Give it a default: {argument}: str = "".'
            )

    async def call(
        self,
        name: str,
        args: Mapping[str, Any],
        ctx: RunContext[Any],
        proceed: Proceed,
        *,
        seen: bool,
        shown: Any = None,
    ) -> Any:
        """One call of a gated tool.

        Args:
            name: the tool.
            args: its arguments, validated by the framework.
            ctx: the framework's context of the call.
            proceed: the rest of the framework's chain.
            seen: whether the chain says when it comes to the tool itself.
            shown: the arguments as they were shown to whoever approved the call; None where the chain does not tell.

        Returns:
            What the framework takes as the tool's result.

        Raises:
            JournalError: the journal could not do its part.
            Exception: what the framework takes as the tool's own word: an approval that is needed, a correction, a final failure.
        """
        live = LiveCall(tool=name, ctx=ctx, args=args, proceed=proceed, entered=False if seen else None)
        if ctx.tool_call_approved and shown is not None:
            changed = self._entrances[name].changed_since_shown(shown, args)
            if changed:
                said = f"{', '.join(changed)} was changed after a person had approved the call; what was not shown is not sent"
                return give(not_taken(name, BadInput(said)), live)
        facts = seen_in(ctx)
        decision = decision_on(decision_of(ctx), facts) if self.decision is None else self.decision(ctx)
        payload = {argument: as_json(value) for argument, value in args.items()}
        answer = await self.gate.acall(name, payload, context=live, decision=decision, evidence=ids_of(ctx), seen=facts)
        return give(answer, live)

    async def ask(self, name: str, args: Mapping[str, Any], ctx: RunContext[Any]) -> ApprovalRequired:
        """The framework's question for an approval, with the facts as they are now: a person approves on them."""
        payload = {argument: as_json(value) for argument, value in args.items()}
        live = LiveCall(tool=name, ctx=ctx, args=args, proceed=_nowhere)
        seen = await self.gate.aread_facts(name, payload, context=live)
        return ApprovalRequired(metadata=None if seen is None else {SEEN: seen})

    def is_to_be_asked(self, name: str, ctx: RunContext[Any]) -> bool:
        """Whether the tool says of itself that a person has to approve its calls, and nobody has approved this one."""
        return name in self._asking and not ctx.tool_call_approved

    def face(self, tool_def: ToolDefinition) -> ToolDefinition:
        """The tool's definition for the model, without the argument that the gate fills in.

        A tool that requires approval is one that the gate asks for: the framework itself would ask before anybody could read a fact.
        """
        if not self.gate.is_gated(tool_def.name):
            return tool_def
        if tool_def.kind == "unapproved":
            self._asking.add(tool_def.name)
            tool_def = dataclasses.replace(tool_def, kind="function")
        schema = tool_def.parameters_json_schema
        shown = without_argument(schema, self.gate.argument_of_gate(tool_def.name))
        return tool_def if shown is schema else dataclasses.replace(tool_def, parameters_json_schema=shown)


def give(answer: Answer, live: LiveCall) -> Any:
    """The answer in the framework's own form.

    Raises:
        Exception: `ToolFailed`, which the framework tells to the model as a failed call; or what the tool itself asked for.
    """
    if live.signal is not None and (not answer.ok or live.returned):
        raise live.signal
    if answer.is_error:
        if _FAILED is None:
            return answer.message
        raise _FAILED(answer.message)
    if live.has_result:
        return live.result
    value = answer.message if answer.value is None else answer.value
    return ToolReturn(return_value=value, metadata={"interlock": answer.as_dict()})


async def _nowhere(args: dict[str, Any]) -> Any:
    raise NotSent("the call was only looked at")


def seen_in(ctx: RunContext[Any]) -> Mapping[str, Any] | None:
    """What the person who approved this call saw, if the metadata of the question was handed over with the approval."""
    metadata = ctx.tool_call_metadata if ctx.tool_call_approved else None
    seen = metadata.get(SEEN) if isinstance(metadata, Mapping) else None
    return seen if isinstance(seen, Mapping) else None


def decision_of(ctx: RunContext[Any]) -> str:
    """Which decision a call follows: a person's approval of just this call, or none."""
    return f"approval of {ctx.tool_call_id}" if ctx.tool_call_approved else ""


def asks_for_approval(name: str, tool_def: ToolDefinition, args: Mapping[str, Any], ctx: RunContext[Any]) -> bool:
    """Whether a toolset of the agent will ask for an approval of this call, which comes before anything that the gate does."""
    if ctx.tool_call_approved or ctx.agent is None:
        return False
    return any(
        asking.approval_required_func(ctx, tool_def, dict(args))
        for toolset in ctx.agent.toolsets
        for asking in _asking(toolset)
        if name in dict(_walk(asking))
    )


def _asking(toolset: Any) -> Iterator[ApprovalRequiredToolset[Any]]:
    if isinstance(toolset, ApprovalRequiredToolset):
        yield toolset
    if isinstance(toolset, CombinedToolset):
        for inner in toolset.toolsets:
            yield from _asking(inner)
    elif isinstance(toolset, WrapperToolset):
        yield from _asking(toolset.wrapped)


def ids_of(ctx: RunContext[Any]) -> dict[str, Any]:
    """The framework's ids of this call: evidence for the record, never a key."""
    ids = {name: getattr(ctx, name, None) for name in ("tool_call_id", "conversation_id", "run_id")}
    return {**ids, "tool_call_approved": True} if ctx.tool_call_approved else ids


def as_json(value: Any) -> Any:
    """A value in JSON form; what has none stays as it is, and the gate refuses it with a sentence."""
    try:
        return pydantic_core.to_jsonable_python(value)
    except (pydantic_core.PydanticSerializationError, ValueError, RecursionError):
        return value


def as_data(result: Any) -> Any:
    """What of a tool's result goes on the record: what the model sees of it."""
    return as_json(result.return_value if isinstance(result, ToolReturn) else result)


def _schema_of(tool: Tool[Any]) -> dict[str, Any]:
    """What a tool takes. The framework shows one that takes a single model by that model's fields, and calls it by its argument."""
    schema = tool.function_schema
    single = getattr(schema, "single_arg_name", None)
    if single is None:
        return schema.json_schema
    return {"type": "object", "properties": {single: schema.json_schema}, "required": [single]}


def named_tools(given: Any) -> dict[str, Tool[Any]]:
    """Tools by the names that the model sees.

    Args:
        given: an agent, a toolset, or a list of functions, `Tool`s and toolsets.

    Raises:
        ConfigurationError: two tools have one name, or a thing in the list is no tool.
    """
    named: dict[str, Tool[Any]] = {}
    for name, tool in _walk(given):
        if name in named and named[name] is not tool:
            raise ConfigurationError(f"two tools are named {name!r}; the gate could not tell which one to call.")
        named[name] = tool
    return named


def _walk(given: Any) -> Iterator[tuple[str, Tool[Any]]]:
    if isinstance(given, Agent):
        yield from _walk(given.toolsets)
    elif isinstance(given, FunctionToolset):
        yield from given.tools.items()
    elif isinstance(given, CombinedToolset):
        yield from _walk(given.toolsets)
    elif isinstance(given, PrefixedToolset):
        yield from ((f"{given.prefix}_{name}", tool) for name, tool in _walk(given.wrapped))
    elif isinstance(given, RenamedToolset):
        own = {old: new for new, old in given.name_map.items()}
        yield from ((own.get(name, name), tool) for name, tool in _walk(given.wrapped))
    elif isinstance(given, WrapperToolset):
        yield from _walk(given.wrapped)
    elif isinstance(given, AbstractToolset):
        return  # its tools are known in a run only; a configuration that names one is refused for want of it
    elif isinstance(given, Tool):
        yield given.name, given
    elif isinstance(given, Sequence) and not isinstance(given, str):
        for each in given:
            yield from _walk(each)
    elif callable(given):
        tool: Tool[Any] = Tool(given)
        yield tool.name, tool
    else:
        raise ConfigurationError(f"{given!r:.200} is no tool; give functions, Tools, toolsets, or the agent.")
