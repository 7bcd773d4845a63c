"""LangGraph behind the gate: the two functions that `ToolNode` takes, and a node that does one effect and routes by what became of it.

Owns what is LangGraph's own: `ToolNode(wrap_tool_call=...)`, `Command`, and a run's ids. The tools themselves are LangChain's and are
translated in `interlock.integrations.langchain`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import BaseTool
from langgraph.types import Command

from interlock import ConfigurationError, EffectFunction, Outcome, Status
from interlock.extend import Recoverable, decision_on, recorded_value
from interlock.integrations.langchain._adapter import ids_of, protect_tools

if TYPE_CHECKING:
    from pathlib import Path

    from langgraph.prebuilt.tool_node import ToolCallRequest

    from interlock.extend import ToolsConfig

log = logging.getLogger("interlock")

ROUTES = ("landed", "refused", "failed", "ambiguous", "in_flight")
"""What an effect can come to, in the words that `effect_node(routes=...)` takes."""

SEEN = "interlock_seen"
"""Where the state of a graph holds what the approvers of its tool calls saw, by id of the call."""

_ROUTE_OF: Mapping[Status, str] = {
    Status.REFUSED: "refused",
    Status.FAILED: "failed",
    Status.AMBIGUOUS: "ambiguous",
    Status.IN_FLIGHT: "in_flight",
}


class ToolCallGate(Recoverable):
    """The functions for `ToolNode(tools, wrap_tool_call=..., awrap_tool_call=...)`.

    The tool of each request is exchanged for the gated one, so that the gate stands where the tool is run, whatever else wraps the call.

    Args:
        tools: the tools of the node, and those that the configuration asks (a look-up).
        config: which of them are gated and how: a dict, a JSON or TOML file, or a `ToolsConfig` (docs/config.md).
        journal: where the journal lives, if not where the configuration says.

    Raises:
        ConfigurationError: the configuration names a tool that is not there, or has an option that does not exist.
    """

    def __init__(
        self,
        tools: Sequence[BaseTool],
        config: ToolsConfig | Mapping[str, Any] | str | Path,
        *,
        journal: Any = None,
    ) -> None:
        super().__init__()
        protected = protect_tools(tools, config, journal=journal)
        self._gate = protected.gate
        self._offered = list(protected)
        self._gated = {tool.name: tool for tool in protected if self.gate.is_gated(tool.name)}

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """Run the call with the gated tool in the place of its own."""
        return handler(self._exchange(request, handler))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """As `wrap_tool_call`, without blocking the event loop."""
        return await handler(self._exchange(request, handler))

    @property
    def offered(self) -> list[BaseTool]:
        """The tools that this gate was given, in order, as a model is to see them: the gated ones without the argument that it fills in.

        For `bind_tools`. What only the gate asks (a look-up) is among them; leave out what the model may not call.
        """
        return list(self._offered)

    def see(self, calls: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Read the facts of tool calls that a person is about to be asked for: an update of the graph's state.

        Return it from a node of its own, in front of the one that calls `interrupt()`: that one is run again when it is resumed. Give the
        state the key `interlock_seen`, a dict, so that the checkpoint keeps what was seen. It must still hold at the send.

        Args:
            calls: the tool calls of the model's message.
        """
        seen = {}
        for call in calls:
            if self._is_read(call):
                seen[call["id"]] = self.gate.read_facts(call["name"], call["args"])
        return {SEEN: {call_id: facts for call_id, facts in seen.items() if facts is not None}}

    async def asee(self, calls: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """As `see`, without blocking the event loop."""
        seen = {}
        for call in calls:
            if self._is_read(call):
                seen[call["id"]] = await self.gate.aread_facts(call["name"], call["args"])
        return {SEEN: {call_id: facts for call_id, facts in seen.items() if facts is not None}}

    def _is_read(self, call: Mapping[str, Any]) -> bool:
        return self.gate.is_gated(call["name"])

    def _exchange(self, request: ToolCallRequest, handler: Callable[..., Any]) -> ToolCallRequest:
        gated = self._gated.get(request.tool_call["name"])
        if gated is None:
            return request
        seen = _seen_in(request.state).get(str(request.tool_call["id"]))
        return request.override(tool=gated if seen is None else gated.model_copy(update={"seen": seen}))


def _seen_in(state: Any) -> Mapping[str, Any]:
    """What approvers saw, by id of the tool call, as the graph's state holds it."""
    held = state.get(SEEN) if isinstance(state, Mapping) else getattr(state, SEEN, None)
    return held if isinstance(held, Mapping) else {}


def route_of(outcome: Outcome) -> str:
    """The route of an outcome: one of `ROUTES`."""
    return _ROUTE_OF.get(outcome.status, "landed")


def effect_node(
    effect: Any,
    *,
    arguments: Callable[[Any], Mapping[str, Any]],
    routes: Mapping[str, str] | None = None,
    decision: Callable[[Any], str] | None = None,
    seen: Callable[[Any], Mapping[str, Any] | None] | None = None,
    result: str = "outcome",
) -> RunnableLambda[Any, Any]:
    """A LangGraph node that does one effect through the gate, and routes by what became of it.

    The node may be run as often as LangGraph likes: after a crash, after an interrupt further down, from an old checkpoint, under a
    `RetryPolicy`. The effect's key decides what is one request, so every further run gets the recorded result.

    Args:
        effect: a function declared with `@gate.effect`, or a ready-made one such as `stripe_refund(...)`. An async one makes an async node.
        arguments: the effect's arguments by name, from the graph's state.
        routes: the next node for each of `ROUTES`; "otherwise" stands for those not named. Without it the node only writes its result,
            and the graph's own edges decide.
        decision: names the decision, from the state (an approval's id). A refusal stands for its decision. By default what `seen` gives
            names it, if that is given; and without either all runs of the node are one decision.
        seen: gives, from the state, the facts as an approver saw them: what `effect.proposal(...)` read in a node in front of the
            approval, by name of the fact. By default they are read when the node runs.
        result: the key of the state that gets a plain dict: status, ok, message, value, effect_id, key, retry_after.

    Returns:
        A node for `StateGraph.add_node`. Give `add_node(..., destinations=...)` the nodes of `routes` if the graph is to be drawn.

    Raises:
        ConfigurationError: a route that does not exist, or an outcome without a route.

    **Durable when** the node returns: what was sent and what came back, or why nothing was.
    **If the process dies** before that: running the node again settles it, and so does `gate.recover()`.
    """
    declared = effect if isinstance(effect, EffectFunction) else getattr(effect, "effect", None)
    if not isinstance(declared, EffectFunction):
        raise ConfigurationError(
            f"effect_node() takes a function declared with @gate.effect, or a ready-made effect, not {type(effect).__name__}."
        )
    where = _routes(routes)

    def do(state: Any, config: RunnableConfig) -> Any:
        named = "" if decision is None else decision(state)
        facts = None if seen is None else seen(state)
        if effect is declared:
            named = named or decision_on("" if facts is None else "approval", facts)
            return declared.submit(kwargs=dict(arguments(state)), decision=named, seen=facts, origin=ids_of(config))
        # A ready-made effect names the decision itself, by its approval, unless it is told.
        further: dict[str, Any] = {"decision": named} if named else {}
        if facts is not None:
            further["seen"] = facts
        return effect(**arguments(state), **further)

    def told(outcome: Outcome) -> Any:
        update = {result: summary(outcome)}
        return update if where is None else Command(update=update, goto=where[route_of(outcome)])

    def node(state: Any, config: RunnableConfig) -> Any:
        return told(do(state, config))

    async def anode(state: Any, config: RunnableConfig) -> Any:
        return told(await do(state, config))

    return RunnableLambda(anode if declared.is_coroutine else node, name=declared.name)


def summary(outcome: Outcome) -> dict[str, Any]:
    """An outcome as plain data that any checkpointer can keep."""
    return {
        "status": str(outcome),
        "ok": outcome.ok,
        "message": outcome.for_model,
        "value": recorded_value(outcome),
        "effect_id": outcome.effect_id,
        "key": outcome.key,
        "retry_after": outcome.retry_after,
    }


def _routes(routes: Mapping[str, str] | None) -> dict[str, str] | None:
    if routes is None:
        return None
    unknown = sorted(routes.keys() - {*ROUTES, "otherwise"})
    if unknown:
        raise ConfigurationError(
            f"routes= names {', '.join(map(repr, unknown))}; the routes are: {', '.join(ROUTES)}, otherwise."
        )
    open_ended = [route for route in ROUTES if route not in routes and "otherwise" not in routes]
    if open_ended:
        raise ConfigurationError(
            f"routes= says nothing of {', '.join(open_ended)}; name a node for each, or one for 'otherwise'."
        )
    return {route: routes.get(route, routes.get("otherwise", "")) for route in ROUTES}
