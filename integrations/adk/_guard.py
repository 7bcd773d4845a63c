"""`Guard`: which of an agent's tools are gated and how, and the callback that stands in the tool's place.

Owns the ways in which a tool is matched to what gates it: a configuration, an `Effect`, or an effect declared with `@gate.effect` that is
done in the tool's stead. What is translated from and to ADK is in `_adapter`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from google.adk.agents import BaseAgent
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext

from interlock import BadInput, ConfigurationError, EffectFunction, Interlock, Recovery
from interlock.extend import Answer, Effect, ToolGate, acall_effect, aread_effect_facts, decision_on
from interlock.integrations.adk._adapter import (
    PROPOSED_KEY,
    LiveCall,
    ToolEntrance,
    as_response,
    as_tool,
    asked_first,
    decision_of,
    given_to_adk,
    ids_of,
    is_same_tool,
    keep_seen,
    missing_arguments,
    named_tools,
    parameters_of,
    refusal,
    refuse_generators,
    seen_in,
    was_asked,
)

if TYPE_CHECKING:
    import os

    from interlock.extend import Journal, ToolConfig, ToolsConfig

    Chosen = EffectFunction[Any] | Effect | ToolConfig | Mapping[str, Any]

log = logging.getLogger("interlock")


class Guard:
    """The gate for an agent's tools: `before_tool_callback=guard.before_tool_callback`, and `guard.recover()` once on start.

    Args:
        config: which tools are gated and how: a dict, a JSON or TOML file, or a `ToolsConfig` (docs/config.md). Without one, say it tool by
            tool: `gate()`.
        tools: the agent's tools (functions, `BaseTool`s), or the root agent, which stands for its tools and those of all agents below it.
            Premises and look-ups that the configuration names are among them.
        journal: a directory, a `Journal` or an `Interlock` instead of the journal that the configuration names.

    Attributes:
        configured: the `ToolGate` of the tools that the configuration names; None without one.

    Raises:
        ConfigurationError: the configuration names a tool that is not there, or has an option that does not exist.
        JournalError: the journal cannot be opened.
    """

    def __init__(
        self,
        config: ToolsConfig | Mapping[str, Any] | str | os.PathLike[str] | None = None,
        *,
        tools: Sequence[Any] | BaseAgent = (),
        journal: Journal | Interlock | str | os.PathLike[str] | None = None,
    ) -> None:
        self._tools = named_tools(tools)
        self._journal = journal
        self._interlock: Interlock | None = journal if isinstance(journal, Interlock) else None
        self._gated: dict[str, _Gated] = {}
        self._told = False
        self.configured: ToolGate | None = None
        if config is not None:
            self.configured = gate = self._open(config)
            self._gated = {name: _Gated(self._tools[name], gate) for name in gate.effects}

    def gate(
        self,
        tool: Any,
        *,
        target_for: Chosen | Callable[[dict[str, Any]], EffectFunction[Any]] | None = None,
        proposal: Callable[[dict[str, Any], ToolContext], Any] | None = None,
    ) -> BaseTool:
        """Put one tool behind the gate.

        Args:
            tool: the function or `BaseTool` that the agent has.
            target_for: what gates it. An `Effect`, a `ToolConfig` or the dict of one: the tool itself is what is sent. An effect declared
                with `@gate.effect`, or a callable that gives one for a call's arguments: that effect is done in the tool's stead, and
                the tool's own function is never called.
            proposal: makes, of the call's arguments and its `tool_context`, what is proposed: a dict of arguments for the target (by
                default the call's own), or a text, which is the key. Name the approved request there, never an id of ADK.

        Returns:
            The tool, for the agent's `tools=[...]`.

        Raises:
            ConfigurationError: the tool is gated already, or what gates it cannot be kept.
        """
        made = as_tool(tool)
        if made.name in self._gated:
            raise ConfigurationError(f"the tool {made.name!r} is behind the gate already.")
        if not is_same_tool(self._tools.setdefault(made.name, made), made):
            raise ConfigurationError(f"two tools are named {made.name!r}; the gate could not tell which one to call.")
        _refuse_what_cannot_be_gated(made)
        self._gated[made.name] = _Gated(made, self._target(made, target_for, proposal), proposal)
        return made

    @property
    def interlock(self) -> Interlock:
        """The `Interlock` behind it: the journal, the receipts, what is open."""
        if self._interlock is None:
            given: Any = self._journal
            if given is None:
                self._interlock = Interlock()
            else:
                self._interlock = Interlock(given) if _is_directory(given) else Interlock(journal=given)
        return self._interlock

    def is_gated(self, name: str) -> bool:
        """Whether calls of this tool go through the gate."""
        return name in self._gated

    def gates(self, tool: BaseTool) -> bool:
        """Whether a call of this tool is answered by the guard's callback: not that of a tool which is behind a gate itself."""
        return self.is_gated(tool.name) and not _is_gated_itself(tool)

    def argument_of_gate(self, name: str) -> str | None:
        """The tool's argument that the gate fills in; what a model gives for it is dropped."""
        target = self._gated[name].target if name in self._gated else None
        return target.argument_of_gate(name) if isinstance(target, ToolGate) else None

    async def before_tool_callback(
        self, tool: BaseTool, args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Answer the call of a gated tool; None lets ADK run a tool that is not gated.

        The last callback of an agent that has several: those after it are not asked.
        """
        if not self.gates(tool):
            return None
        invocation: Any = tool_context._invocation_context
        callbacks = getattr(invocation.agent, "canonical_before_tool_callbacks", ())
        if not self._told and callbacks and callbacks[-1] != self.before_tool_callback:
            self._told = True
            log.warning(
                "guard.before_tool_callback is not the agent's last before_tool_callback: those after it are not asked before a gated "
                "tool is called. List it last."
            )
        return await self.answer(tool, args, tool_context)

    async def answer(self, tool: BaseTool, args: dict[str, Any], tool_context: ToolContext) -> dict[str, Any]:
        """As `run`, in the form of a callback's answer."""
        return as_response(tool, await self.run(tool, args, tool_context))

    async def run(self, tool: BaseTool, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """Do the call of a gated tool once, and give what the tool gives; whatever else became of it, a dict with `error`.

        A person's confirmation comes first: without it nothing is proposed, and a declined call is over.

        Raises:
            JournalError: the journal could not do its part.

        **Durable when** this returns: what was sent and what came back, or why nothing was.
        **If the process dies** before that: `recover()`, or the next call for the same request, settles it.
        """
        gated = self._gated[tool.name]
        if not is_same_tool(gated.tool, tool):
            log.error("a tool named %r was called which is not the one behind the gate; it was not run.", tool.name)
            return refusal(
                "unknown_tool", f"Not done: another tool named {tool.name} is behind the gate. Do not call it again."
            )
        missing = missing_arguments(tool, args, self.argument_of_gate(tool.name))
        if missing and gated.runs_the_tool:
            told = ", ".join(map(repr, missing))
            return refusal(
                "bad_input", f"Not done: missing arguments: {told}. Nothing was sent. Correct them and call again."
            )
        given = [name for name in args if name != PROPOSED_KEY]
        unknown = parameters_of(tool).problem_of(tool.name, given, hidden=self.argument_of_gate(tool.name))
        if unknown and gated.runs_the_tool:
            return refusal("bad_input", f"Not done: {unknown} Nothing was sent. Correct the call and make it again.")
        waits = await asked_first(tool, args, tool_context)
        if waits is not None:
            await self.see(tool, args, tool_context)
            return waits
        live = LiveCall(tool, tool_context)
        try:
            target, arguments = await gated.propose(args, live)
        except ConfigurationError:
            raise
        except Exception as error:  # noqa: BLE001 - the user's own callables, before anything was proposed
            log.warning("tool %r: the call could not be made into a proposal: %r", tool.name, error)
            return refusal("bad_input", f"Not done: the call could not be taken ({error!r:.300}). Nothing was sent.")
        ids, seen = ids_of(tool_context), seen_in(tool_context)
        decision = decision_on(decision_of(tool_context), seen)
        if isinstance(target, ToolGate):
            answer: Answer = await target.acall(
                tool.name, arguments, context=live, decision=decision, evidence=ids, seen=seen
            )
        else:
            answer = await acall_effect(target, arguments, decision=decision, evidence=ids, seen=seen)
        return given_to_adk(answer, live)

    async def see(self, tool: BaseTool, args: dict[str, Any], tool_context: ToolContext) -> None:
        """Read the facts of a call that a person is asked to confirm, and keep them in the session's state, with ADK's own question.

        Called by what asks; a call that cannot be made into a proposal is told so once it is confirmed.
        """
        if tool_context.tool_confirmation is not None or was_asked(tool_context):
            return
        gated = self._gated[tool.name]
        live = LiveCall(tool, tool_context)
        try:
            target, arguments = await gated.propose(args, live)
        except ConfigurationError:
            raise
        except Exception as error:  # noqa: BLE001 - the user's own callables; the confirmed call says the same to the model
            log.warning("tool %r: the call could not be made into a proposal: %r", tool.name, error)
            return
        if isinstance(target, ToolGate):
            seen = await target.aread_facts(tool.name, arguments, context=live)
        else:
            seen = await aread_effect_facts(target, arguments)
        if seen is not None:
            keep_seen(tool_context, seen)

    def recover(self) -> Recovery:
        """Settle what a crash left open: once on start, before the agent runs, where no event loop runs.

        Raises:
            ConfigurationError: a tool is async and an event loop runs in this thread (use `arecover`).

        **Durable when** this returns: every outcome but IN_FLIGHT.
        **If the process dies** meanwhile: the next recovery starts over from the record.
        """
        if any(ToolEntrance(tool).is_async for tool in self._tools.values()):
            _refuse_inside_a_loop()
        return Recovery([outcome for gate in self._interlocks() for outcome in gate.recover()])

    async def arecover(self) -> Recovery:
        """As `recover`, without blocking the event loop."""
        return Recovery([outcome for gate in self._interlocks() for outcome in await gate.arecover()])

    def close(self) -> None:
        """Give up the gate, unless it is on an `Interlock` that was handed over."""
        if self._interlock is not None and not isinstance(self._journal, Interlock):
            self._interlock.close()

    def _interlocks(self) -> list[Interlock]:
        """The gates on which something may be open: our own, and those of the effects that are done in a tool's stead."""
        found = [] if self._interlock is None else [self._interlock]
        for gated in self._gated.values():
            if isinstance(gated.target, EffectFunction) and gated.target.gate not in found:
                found.append(gated.target.gate)
        return found

    def _open(self, config: Any) -> ToolGate:
        calls = {name: ToolEntrance(tool).call for name, tool in self._tools.items()}
        gate = ToolGate(
            config,
            tools=calls,
            journal=self._journal if self._interlock is None else self._interlock,
            parameters={name: parameters_of(tool) for name, tool in self._tools.items()},
        )
        try:
            for name in gate.effects:
                _refuse_what_cannot_be_gated(self._tools[name])
        except ConfigurationError:
            gate.close()
            raise
        self._interlock = gate.interlock
        return gate

    def _target(self, tool: BaseTool, target_for: Any, proposal: Any) -> Any:
        if isinstance(target_for, EffectFunction):
            return target_for
        if target_for is None:
            if proposal is None:
                raise ConfigurationError(
                    f"the tool {tool.name!r}: say what gates it: target_for=, or proposal= for its key."
                )
            target_for = Effect(key=_proposed_key)
        if isinstance(target_for, Effect):
            if proposal is not None and target_for.key is not _proposed_key:
                target_for = dataclasses.replace(target_for, key=_proposed_key_or(target_for.key))
        elif not isinstance(target_for, Mapping) and not _is_config(target_for):
            if not callable(target_for):
                raise ConfigurationError(
                    f"the tool {tool.name!r}: target_for= is {target_for!r:.200}; give an Effect, a configuration, an effect declared with "
                    "@gate.effect, or a callable that gives one of those for a call's arguments."
                )
            if not isinstance(self._journal, Interlock):
                raise ConfigurationError(
                    f"the tool {tool.name!r}: target_for= chooses an effect when it is called, so recover() could not know it. Name the "
                    "Interlock of those effects: Guard(journal=gate)."
                )
            return target_for
        return self._open({"tools": {tool.name: target_for}})


def _is_config(target_for: Any) -> bool:
    from interlock.extend import ToolConfig  # here, since an Effect needs no configuration of data

    return isinstance(target_for, ToolConfig)


@dataclasses.dataclass(frozen=True)
class _Gated:
    """One gated tool, and what gates it.

    Attributes:
        target: the gate of the tool itself; or the effect in its stead, or a callable that chooses that.
    """

    tool: BaseTool
    target: Any
    proposal: Callable[[dict[str, Any], ToolContext], Any] | None = None

    @property
    def runs_the_tool(self) -> bool:
        return isinstance(self.target, ToolGate)

    @property
    def takes_key(self) -> bool:
        """Whether a proposal may be the key itself; a configuration names the key by the arguments."""
        return isinstance(self.target, ToolGate) and isinstance(self.target.declared[self.tool.name], Effect)

    async def propose(
        self, args: dict[str, Any], live: LiveCall
    ) -> tuple[ToolGate | EffectFunction[Any], Mapping[str, Any]]:
        """What this call goes to, and with which arguments."""
        target = self.target
        args = {name: value for name, value in args.items() if name != PROPOSED_KEY}  # never the model's to give
        if not isinstance(target, ToolGate | EffectFunction):
            target = await _awaited(target(dict(args)))
            if not isinstance(target, EffectFunction):
                raise ConfigurationError(
                    f"the tool {self.tool.name!r}: target_for= gave {target!r:.200}; give an effect declared with @gate.effect."
                )
        if self.proposal is None:
            return target, args
        proposed = await _awaited(self.proposal(dict(args), live.context))
        if isinstance(proposed, str) and isinstance(target, ToolGate) and self.takes_key:
            return target, {**args, PROPOSED_KEY: proposed}
        if not isinstance(proposed, Mapping):
            raise ConfigurationError(
                f"the tool {self.tool.name!r}: proposal= gave {proposed!r:.200}; give a dict of arguments. A text, as the key, serves only "
                "with an Effect or without target_for=."
            )
        return target, proposed


def _proposed_key(**arguments: Any) -> Any:
    if PROPOSED_KEY not in arguments:
        raise BadInput("the proposal gave no key; without an Effect it has to be a text.")
    return arguments[PROPOSED_KEY]


def _proposed_key_or(key: Callable[..., str]) -> Callable[..., Any]:
    """The key that a proposal gave as a text, or else the effect's own."""
    parameters = inspect.signature(key).parameters
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())

    def chosen(**arguments: Any) -> Any:
        if PROPOSED_KEY in arguments:
            return arguments[PROPOSED_KEY]
        for name, parameter in parameters.items():
            if name not in arguments and parameter.default is parameter.empty and not takes_all:
                raise BadInput(f"the argument {name!r} is missing.")
        return key(**{name: value for name, value in arguments.items() if takes_all or name in parameters})

    return chosen


async def _awaited(given: Any) -> Any:
    return await given if inspect.isawaitable(given) else given


def _is_gated_itself(tool: BaseTool) -> bool:
    from interlock.integrations.adk._tool import GatedTool  # which needs the guard

    return isinstance(tool, GatedTool)


def _refuse_what_cannot_be_gated(tool: BaseTool) -> None:
    if _is_gated_itself(tool):
        raise ConfigurationError(f"the tool {tool.name!r} is behind a gate already.")
    refuse_generators(tool)


def _is_directory(given: Any) -> bool:
    return isinstance(given, str) or hasattr(given, "__fspath__")


def _refuse_inside_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigurationError("a tool is async, and an event loop runs in this thread. Await arecover() instead.")
