"""LangChain tools behind the gate: a `BaseTool` goes in, a `BaseTool` comes out, and only what happens at the call differs.

Owns the translation between `BaseTool.invoke` and `ToolGate.call`: which arguments are payload and which are injected by the framework,
and which message the model gets. It must not know order, journal, retries or clocks; those are the gate's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from interlock import ConfigurationError, NotSent
from interlock.extend import Answer, ProtectedTools, ToolFailed, ToolGate, decision_on
from interlock.integrations.langchain._schema import (
    ONE_TEXT,
    ONE_TEXT_SCHEMA,
    face_of,
    injected_names,
    is_async_only,
    misfit_of,
    parameters_of,
    payload_names,
    takes_one_text,
)

if TYPE_CHECKING:
    from pathlib import Path

    from interlock.extend import ToolsConfig

_KEPT = (
    "name",
    "description",
    "args_schema",
    "return_direct",
    "response_format",
    "callbacks",
    "tags",
    "metadata",
    "verbose",
    "handle_tool_error",
    "handle_validation_error",
    "extras",
)
"""What of a tool is its face to model and framework; the gated tool has the same."""

_CONFIG_IDS = ("thread_id", "checkpoint_id", "checkpoint_ns")
_METADATA_IDS = ("langgraph_node", "langgraph_step", "langgraph_checkpoint_ns")


@dataclass(slots=True)
class LiveCall:
    """What of one call is not payload: it belongs to this run of the framework and cannot be resumed from a journal.

    Attributes:
        tool: name of the tool that was called; a look-up tool that the gate calls meanwhile gets none of what follows.
        tool_call_id: the framework's id of the call; None when the tool was called by hand.
        config: the runnable's configuration.
        injected: arguments that the framework put in (runtime, state, store), by name.
        keywords: what else `invoke` was called with.
        message: what the tool itself answered with, in the call that ran it.
        bubble: a pause that the tool asked for (`interrupt()`), to be handed on to the framework.
    """

    tool: str = ""
    tool_call_id: str | None = None
    config: RunnableConfig | None = None
    injected: Mapping[str, Any] = field(default_factory=dict)
    keywords: Mapping[str, Any] = field(default_factory=dict)
    message: Any = None
    bubble: GraphBubbleUp | None = None


class ToolEntrance:
    """How the gate calls one LangChain tool, and reads what it says.

    Args:
        tool: the tool itself, not gated.
    """

    def __init__(self, tool: BaseTool) -> None:
        self.tool = tool
        self.is_async = is_async_only(tool)
        self.payload_names = payload_names(tool)
        self.parameters = parameters_of(tool, self.payload_names)

    @property
    def call(self) -> Any:
        """The callable that the gate gets: async only where the tool can do nothing else."""
        return self.acall_tool if self.is_async else self.call_tool

    def call_tool(self, arguments: Mapping[str, Any], context: Any) -> Any:
        """Run the tool with these arguments."""
        live = self._own(context)
        self._check_injected(live, arguments)
        try:
            answer = self.tool.invoke(self._input(arguments, live), live.config, **live.keywords)
        except GraphBubbleUp as bubble:
            raise self._paused(bubble, live) from bubble
        return self._read(answer, live)

    async def acall_tool(self, arguments: Mapping[str, Any], context: Any) -> Any:
        """As `call_tool`, without blocking the event loop."""
        live = self._own(context)
        self._check_injected(live, arguments)
        try:
            answer = await self.tool.ainvoke(self._input(arguments, live), live.config, **live.keywords)
        except GraphBubbleUp as bubble:
            raise self._paused(bubble, live) from bubble
        return self._read(answer, live)

    def split(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arguments that are payload, and those that the framework injected."""
        if self.payload_names is None:
            return dict(given), {}
        payload = {name: value for name, value in given.items() if name in self.payload_names}
        return payload, {name: value for name, value in given.items() if name not in self.payload_names}

    def problem_with(self, payload: Mapping[str, Any], live: LiveCall, hidden: str | None) -> str:
        """What the tool has against a call's arguments, for the model, in its own words if it has any; empty if it takes them."""
        error = misfit_of(self.tool, {**live.injected, **payload}, hidden=hidden)
        if error is None:
            return ""
        own = self.tool.handle_validation_error
        if own and isinstance(own, str):
            return own
        if callable(own):
            return str(own(error))
        said = "; ".join(f"{'.'.join(map(str, at['loc'])) or self.tool.name}: {at['msg']}" for at in error.errors()[:5])
        return f"Not done: {said}. Nothing was sent. Correct the arguments and call again."

    def _own(self, context: Any) -> LiveCall:
        """The live call if it is a call of this tool; of another's call only the configuration serves."""
        if not isinstance(context, LiveCall):
            return LiveCall()
        return context if context.tool == self.tool.name else LiveCall(config=context.config)

    def _input(self, arguments: Mapping[str, Any], live: LiveCall) -> dict[str, Any]:
        # As a tool call, so that the answer is a message with its status, also where a person called the tool by hand.
        return {
            "name": self.tool.name,
            "args": {**arguments, **live.injected},
            "id": live.tool_call_id or "interlock",
            "type": "tool_call",
        }

    def _check_injected(self, live: LiveCall, arguments: Mapping[str, Any]) -> None:
        """A tool that wants what only a run of the framework has cannot be called by a recovery.

        Raises:
            NotSent: nothing was called; resuming the run brings what is missing, and settles the effect.
        """
        missing = sorted(injected_names(self.tool) - live.injected.keys() - arguments.keys())
        if missing:
            raise NotSent(
                f"{self.tool.name!r} takes {', '.join(missing)} from a run of the framework, which a recovery has not. "
                "Resume the run; that settles it"
            )

    @staticmethod
    def _paused(bubble: GraphBubbleUp, live: LiveCall) -> NotSent:
        # LangGraph runs a tool from its top again after an interrupt(), so an interrupt stands before the effect or not at all.
        live.bubble = bubble
        return NotSent("the tool paused the run before it acted")

    def _read(self, answer: Any, live: LiveCall) -> Any:
        """The tool's answer as plain data.

        Raises:
            ToolFailed: it says of itself that it failed.
        """
        if isinstance(answer, ToolMessage) and answer.status == "error":
            raise ToolFailed(_text(answer))
        live.message = answer
        if isinstance(answer, Command):
            answer = next(_messages(answer), None)
        return _plain(answer.content if isinstance(answer, ToolMessage) else answer)


class GatedTool(BaseTool):
    """A tool behind the gate, with the face of the tool inside it.

    `invoke` and `ainvoke` are what agents, `ToolNode` and people call; both go through the gate. A refusal, a failure and what nobody can
    know become a `ToolMessage` with `status="error"` and a sentence that says whether asking again can help; never an exception.
    """

    inner: BaseTool
    gate: Any
    entrance: Any
    face: Any = None
    seen: Any = None

    @property
    def tool_call_schema(self) -> Any:
        """What a model is told that the tool takes: all that the tool inside says, but the argument that the gate fills in."""
        return self.inner.tool_call_schema if self.face is None else self.face

    @property
    def args(self) -> dict[str, Any]:
        """The arguments that a model gives, by name."""
        return {name: said for name, said in self.inner.args.items() if name != self.gate.argument_of_gate(self.name)}

    @property
    def func(self) -> Any:
        """What `ToolNode` reads the hints of injected arguments from."""
        return getattr(self.inner, "func", None)

    @property
    def coroutine(self) -> Any:
        """As `func`, of an async tool."""
        return getattr(self.inner, "coroutine", None)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 - the framework's name
        """Do it once, through the gate."""
        arguments, live = self._take(input, config, kwargs)
        problem = self.entrance.problem_with(arguments, live, self.gate.argument_of_gate(self.name))
        if problem:
            return self._told(problem, live, status="error")
        answer = self.gate.call(
            self.name,
            arguments,
            context=live,
            decision=self._decision(live),
            evidence=ids_of_call(live),
            seen=self.seen,
        )
        return self._give(answer, live)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 - the framework's name
        """As `invoke`, without blocking the event loop."""
        arguments, live = self._take(input, config, kwargs)
        problem = self.entrance.problem_with(arguments, live, self.gate.argument_of_gate(self.name))
        if problem:
            return self._told(problem, live, status="error")
        answer = await self.gate.acall(
            self.name,
            arguments,
            context=live,
            decision=self._decision(live),
            evidence=ids_of_call(live),
            seen=self.seen,
        )
        return self._give(answer, live)

    def _decision(self, live: LiveCall) -> str:
        """A person's approval is one of just this call; without one all calls for one request are one decision."""
        return decision_on("" if self.seen is None else f"approval of {live.tool_call_id}", self.seen)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("a gated tool is called by invoke() or ainvoke(); run() would go past the gate.")

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: `run` is how a tool calls itself, past the gate.

        Raises:
            ConfigurationError: always.
        """
        raise ConfigurationError(f"call the gated tool {self.name!r} by invoke(); run() would go past the gate.")

    async def arun(self, *args: Any, **kwargs: Any) -> Any:
        """Refused, as `run`.

        Raises:
            ConfigurationError: always.
        """
        raise ConfigurationError(f"call the gated tool {self.name!r} by ainvoke(); arun() would go past the gate.")

    def _take(
        self, given: Any, config: RunnableConfig | None, keywords: Mapping[str, Any]
    ) -> tuple[dict[str, Any], LiveCall]:
        call_id: str | None = None
        if isinstance(given, Mapping) and given.get("type") == "tool_call":
            call_id, given = given["id"], given["args"]
        elif isinstance(given, str):
            given = {ONE_TEXT if takes_one_text(self.inner) else next(iter(self.inner.args)): given}
        payload, injected = self.entrance.split(given)
        return payload, LiveCall(
            tool=self.name, tool_call_id=call_id, config=config, injected=injected, keywords=keywords
        )

    def _give(self, answer: Answer, live: LiveCall) -> Any:
        if live.bubble is not None and not answer.ok:
            raise live.bubble
        if answer.is_error:
            return self._message(answer, live, status="error", content=answer.message)
        if live.message is not None:
            by_hand = live.tool_call_id is None and isinstance(live.message, ToolMessage)
            return answer.value if by_hand else live.message  # bare, and the same as a replay gives
        if live.tool_call_id is None:
            return answer.value
        return self._message(answer, live, status="success", content=answer.message)

    def _message(self, answer: Answer, live: LiveCall, *, status: str, content: str) -> Any:
        return self._told(content, live, status=status, artifact={"interlock": answer.as_dict()})

    def _told(self, content: str, live: LiveCall, *, status: str, artifact: Any = None) -> Any:
        if live.tool_call_id is None:
            return content  # a person called it by hand: the sentence itself
        return ToolMessage(
            content=content, tool_call_id=live.tool_call_id, name=self.name, status=status, artifact=artifact
        )


def protect_tools(
    tools: Sequence[BaseTool],
    config: ToolsConfig | Mapping[str, Any] | str | Path,
    *,
    journal: Any = None,
) -> ProtectedTools[BaseTool]:
    """Put the tools with outside effects behind the gate, and leave the others as they are.

    Args:
        tools: the agent's tools. Premises and look-ups that the configuration names are among them.
        config: which tools are gated and how: a dict, a JSON or TOML file, or a `ToolsConfig` (docs/config.md).
        journal: where the journal lives, if not where the configuration says.

    Returns:
        The same tools in the same order, as a list with `recover()`.

    Raises:
        ConfigurationError: the configuration names a tool that is not there, or has an option that does not exist.
    """
    named = list(_named(tools))
    gate = ToolGate(
        config,
        tools={name: entrance.call for name, (_, entrance) in named},
        journal=journal,
        parameters={name: entrance.parameters for name, (_, entrance) in named},
    )
    return ProtectedTools([gated(tool, gate, entrance) for _, (tool, entrance) in named], gate)


def gated(tool: BaseTool, gate: ToolGate, entrance: ToolEntrance) -> BaseTool:
    """The tool behind the gate, or the tool itself where the gate has nothing to say about it."""
    if not gate.is_gated(tool.name):
        return tool
    fields = type(tool).model_fields
    kept = {name: getattr(tool, name) for name in _KEPT if name in fields}
    shown = ONE_TEXT_SCHEMA if takes_one_text(tool) else None
    face = shown or face_of(tool.tool_call_schema, gate.argument_of_gate(tool.name))
    return GatedTool(inner=tool, gate=gate, entrance=entrance, face=face, **kept)


def _named(tools: Sequence[BaseTool]) -> Iterator[tuple[str, tuple[BaseTool, ToolEntrance]]]:
    names: set[str] = set()
    for tool in tools:
        if not isinstance(tool, BaseTool):
            raise ConfigurationError(
                f"protect_tools() takes LangChain tools, not {type(tool).__name__}; make one of it first (@tool)."
            )
        if isinstance(tool, GatedTool):
            raise ConfigurationError(f"the tool {tool.name!r} is behind a gate already.")
        if tool.name in names:
            raise ConfigurationError(f"two tools are named {tool.name!r}; the gate could not tell which one to call.")
        names.add(tool.name)
        yield tool.name, (tool, ToolEntrance(tool))


def ids_of_call(live: LiveCall) -> dict[str, Any]:
    """The framework's ids of this call: evidence for the record, never a key."""
    call = {} if live.tool_call_id is None else {"tool_call_id": live.tool_call_id}
    return {**call, **ids_of(live.config)}


def ids_of(config: RunnableConfig | None) -> dict[str, Any]:
    """The framework's ids of this run: evidence for the record, never a key."""
    ids: dict[str, Any] = {}
    sections: Mapping[str, Any] = config or {}
    for section, names in (("configurable", _CONFIG_IDS), ("metadata", _METADATA_IDS)):
        for name in names:
            value = (sections.get(section) or {}).get(name)
            if value is not None and value != "":
                ids[name] = str(value)
    return ids


def _plain(answer: Any) -> Any:
    """A tool's answer as data: text that holds a JSON object or list is what it says, so that a path can reach into it."""
    if isinstance(answer, str) and answer.lstrip()[:1] in ("{", "["):
        with suppress(ValueError):
            return json.loads(answer)
    return answer


def _messages(command: Command[Any]) -> Iterator[ToolMessage]:
    """The messages of a tool that answers with an update of the state."""
    update = command.update if isinstance(command.update, Mapping) else {}
    yield from (message for message in update.get("messages") or () if isinstance(message, ToolMessage))


def _text(message: ToolMessage) -> str:
    return message.content if isinstance(message.content, str) else json.dumps(message.content, default=str)
