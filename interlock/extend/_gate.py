"""`ToolGate`: an agent's tools as plain callables, those with outside effects behind one gate.

Owns which tool is gated, and the calls of them. It must not know any framework.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlock.calling import ToolCall
from interlock.decorator import Interlock, Recovery, place_of
from interlock.errors import BadInput, CallbackFailed, ConfigurationError
from interlock.extend._answer import Answer, answer_of, not_taken
from interlock.extend._effect import Effect
from interlock.extend._gated import GatedTool, ask_facts, facts_seen, origin_of, seen_of
from interlock.extend._parameters import Parameters, check_arguments
from interlock.function import EffectFunction
from interlock.gate import is_in_loop, resolve
from interlock.journal import Journal, SQLiteJournal
from interlock.naming import JOURNAL
from interlock.rules.values import storable

if TYPE_CHECKING:
    from interlock.config import Placed, ToolConfig, ToolsConfig

log = logging.getLogger("interlock")


class ToolGate:
    """The tools of an agent, those with outside effects behind one gate.

    Args:
        config: which tools are gated and how: a dict, a `.json` or `.toml` file, or a `ToolsConfig`. In a dict a tool may also be given
            as an `Effect`.
        tools: all tools by name, as callables of `(arguments, context)`, sync or async; also those that premises and look-ups ask.
        journal: a directory, a `Journal` or an `Interlock` instead of the journal that the configuration names.
        parameters: what the tools take, by name of the tool, as far as it is known. With it, an argument that the configuration names and
            that a tool does not take is refused here, and not at the first call.
        value_of: what `settlement=` and `references=` of an `Effect` get of a recorded value, where that is more than data.

    Attributes:
        interlock: the `Interlock` behind it.

    Raises:
        ConfigurationError: an option, a tool or an argument that is named does not exist, or something cannot be kept.
        JournalError: the journal cannot be opened.

    **Durable when** this returns: the journal.
    **If the process dies**: `recover()`, once on start, settles what was open.
    """

    def __init__(
        self,
        config: ToolsConfig | Mapping[str, Any] | str | os.PathLike[str],
        *,
        tools: Mapping[str, ToolCall],
        journal: Journal | Interlock | str | os.PathLike[str] | None = None,
        parameters: Mapping[str, Parameters] | None = None,
        value_of: Callable[[Any], Any] | None = None,
    ) -> None:
        declared, place = _declared(config)
        self.tools = dict(tools)
        for name, tool in self.tools.items():
            if not callable(tool):
                raise ConfigurationError(f"the tool {name!r} is {tool!r}, which cannot be called.")
        file = None if isinstance(place, Path) else place.file
        with _told_of(file):
            prepared = {
                name: GatedTool(name, how, self.tools, value_of, gated=declared) for name, how in declared.items()
            }
            for name, how in declared.items():
                check_arguments(name, how, parameters or {})
        self._own = not isinstance(journal, Interlock)
        if isinstance(journal, Interlock):
            self.interlock = journal
        elif isinstance(journal, str | os.PathLike):
            self.interlock = Interlock(journal)
        else:
            self.interlock = Interlock(_place(place)) if journal is None else Interlock(journal=journal)
        try:
            with _told_of(file):
                for name, gated in prepared.items():
                    gated.declare(self.interlock, (parameters or {}).get(name))
        except BaseException:
            self.close()
            raise
        self._gated = prepared

    def __enter__(self) -> ToolGate:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def place(self) -> str:
        """Where the journal is, for people: its absolute directory, or what kind of journal it is."""
        return place_of(self.interlock.journal)

    @property
    def effects(self) -> dict[str, EffectFunction[Any]]:
        """The gated tools' effects, by name of the tool."""
        return {name: gated.effect for name, gated in self._gated.items()}

    @property
    def declared(self) -> dict[str, ToolConfig | Effect]:
        """How each gated tool is gated."""
        return {name: gated.how for name, gated in self._gated.items()}

    def is_gated(self, name: str) -> bool:
        """Whether calls of this tool go through the gate."""
        return name in self._gated

    def argument_of_gate(self, name: str) -> str | None:
        """The tool's argument that the gate fills in: it is dropped from what a model gives, and may be left out of the model's schema."""
        return self._gated[name].how.idempotency_argument if name in self._gated else None

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        context: Any = None,
        decision: str = "",
        evidence: Mapping[str, Any] | None = None,
        seen: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Call a gated tool once, in this thread.

        Args:
            name: the tool.
            arguments: the tool's arguments, as the model gave them.
            context: the framework's live object of this call; handed to the tool, never on the record.
            decision: names the decision, such as an approval's id. A refusal stands for its decision.
            evidence: the framework's ids, by name. They stand on the record beside the proposal and decide nothing.
            seen: what `read_facts` gave when a person was asked to approve this call; the facts must still hold. By default they are read
                now. A call with another key is another request, for which nobody saw anything: its facts are read now.

        Returns:
            The answer, whatever became of it: also for arguments that cannot be taken, and for facts that cannot be read.

        Raises:
            ConfigurationError: the tool is not gated, or is async and an event loop runs in this thread (use `acall`).
            JournalError: the journal could not do its part.

        **Durable when** this returns: what was sent and what came back, or why nothing was.
        **If the process dies** before that: `recover()`, or the next call with the same key, settles it.
        """
        gated = self._find(name)
        if gated.needs_loop:
            _refuse_inside_a_loop(name, "acall", " (in place of reply(): areply())")
        try:
            given = gated.given(arguments, context, decision, evidence, seen)
            outcome = gated.effect.submit_blocking((), **given)
            as_recorded = gated.as_recorded(outcome, given)
            if as_recorded is not None:
                outcome = gated.effect.submit_blocking((), **as_recorded)
        except (BadInput, CallbackFailed) as error:
            return not_taken(name, error)
        return answer_of(outcome, is_misconfigured=bool(gated.faults))

    async def acall(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        context: Any = None,
        decision: str = "",
        evidence: Mapping[str, Any] | None = None,
        seen: Mapping[str, Any] | None = None,
    ) -> Answer:
        """As `call`, without blocking the event loop; a sync tool is called in a thread."""
        gated = self._find(name)
        try:
            given = gated.given(arguments, context, decision, evidence, seen)
            outcome = await gated.effect.asubmit((), **given)
            as_recorded = gated.as_recorded(outcome, given)
            if as_recorded is not None:
                outcome = await gated.effect.asubmit((), **as_recorded)
        except (BadInput, CallbackFailed) as error:
            return not_taken(name, error)
        return answer_of(outcome, is_misconfigured=bool(gated.faults))

    def read_facts(self, name: str, arguments: Mapping[str, Any], *, context: Any = None) -> dict[str, Any] | None:
        """The facts of a call as they are now, for `call(seen=...)` later: read them when a person is asked to approve it.

        Returns:
            Plain JSON data that may be kept with the framework's own saved state; None where the tool has no premises, or the arguments
            cannot be taken, which `call` will say. Facts that cannot be read are no error here: the call will be refused for it.

        Raises:
            ConfigurationError: as for `call`.
        """
        gated = self._find(name)
        if gated.needs_loop:
            _refuse_inside_a_loop(name, "aread_facts")
        try:
            return _read(gated.effect, gated.given(arguments, context, "", None)["kwargs"])
        except BadInput:
            return None

    async def aread_facts(
        self, name: str, arguments: Mapping[str, Any], *, context: Any = None
    ) -> dict[str, Any] | None:
        """As `read_facts`, without blocking the event loop."""
        gated = self._find(name)
        try:
            return await _aread(gated.effect, gated.given(arguments, context, "", None)["kwargs"])
        except BadInput:
            return None

    def recover(self, *, wait: float | timedelta | None = None) -> Recovery:
        """Settle what a crash left open: once on start.

        Raises:
            ConfigurationError: a tool is async and an event loop runs in this thread (use `arecover`).

        **Durable when** this returns: every outcome but IN_FLIGHT.
        **If the process dies** meanwhile: the next recovery starts over from the record.
        """
        for name, gated in self._gated.items():
            if gated.needs_loop:
                _refuse_inside_a_loop(name, "arecover")
        return self.interlock.recover(wait=wait)

    async def arecover(self, *, wait: float | timedelta | None = None) -> Recovery:
        """As `recover`, without blocking the event loop."""
        return await self.interlock.arecover(wait=wait)

    def close(self) -> None:
        """Give up the gate, unless it is on an `Interlock` that was handed over."""
        if self._own:
            self.interlock.close()

    def _find(self, name: str) -> GatedTool:
        gated = self._gated.get(name)
        if gated is None:
            raise ConfigurationError(f"the tool {name!r} is not gated. Gated are: {', '.join(self._gated)}.")
        return gated


async def acall_effect(
    effect: EffectFunction[Any],
    arguments: Mapping[str, Any],
    *,
    decision: str = "",
    evidence: Mapping[str, Any] | None = None,
    seen: Mapping[str, Any] | None = None,
) -> Answer:
    """Do an effect that was declared with `@gate.effect` in a tool's stead, with a model's arguments, without blocking the event loop.

    Args:
        effect: the declared function, sync or async.
        arguments: its arguments by name.
        decision: names the decision, such as an approval's id. A refusal stands for its decision.
        evidence: the framework's ids, by name. They stand on the record beside the proposal and decide nothing.
        seen: what `aread_effect_facts` gave when a person was asked to approve it.

    Returns:
        The answer, whatever became of it: also for arguments that cannot be taken, and for facts that cannot be read.

    Raises:
        JournalError: the journal could not do its part.

    **Durable when** this returns: what was sent and what came back, or why nothing was.
    **If the process dies** before that: the `recover()` of the effect's `Interlock`, or the next call with the same key, settles it.
    """
    try:
        kwargs = dict(arguments)
        facts = None if seen is None else facts_seen(effect, kwargs, seen)
        outcome = await effect.asubmit((), kwargs, decision=decision, origin=origin_of(evidence), seen=facts)
    except (BadInput, CallbackFailed) as error:
        return not_taken(effect.name, error)
    return answer_of(outcome)


async def aread_effect_facts(effect: EffectFunction[Any], arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """As `ToolGate.aread_facts`, of an effect that is done in a tool's stead."""
    return await _aread(effect, dict(arguments))


async def _aread(effect: EffectFunction[Any], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    if not effect.has_premises:
        return None
    try:
        beside = not effect.is_async("premises")
        facts = await asyncio.to_thread(ask_facts, effect, kwargs) if beside else ask_facts(effect, kwargs)
        return seen_of(effect, kwargs, facts=dict(await facts if inspect.isawaitable(facts) else facts))
    except BadInput:
        return None
    except CallbackFailed as error:
        return seen_of(effect, kwargs, unreadable=storable(str(error)))


def _read(effect: EffectFunction[Any], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    if not effect.has_premises:
        return None
    try:
        return seen_of(effect, kwargs, facts=dict(resolve(ask_facts(effect, kwargs))))
    except BadInput:
        return None
    except CallbackFailed as error:
        return seen_of(effect, kwargs, unreadable=storable(str(error)))


def _declared(config: Any) -> tuple[dict[str, ToolConfig | Effect], Path | Placed]:
    """The gated tools, and where the journal is that the configuration names: beside its file, if it has one."""
    effects: dict[str, ToolConfig | Effect] = {}
    if isinstance(config, Mapping):
        if config and all(isinstance(how, Effect) for how in config.values()):
            return dict(config), Path(JOURNAL)
        named = config.get("tools")
        if isinstance(named, Mapping):
            effects = {name: how for name, how in named.items() if isinstance(how, Effect)}
            if effects and len(effects) == len(named) and set(config) == {"tools"}:
                return effects, Path(JOURNAL)
            config = {**config, "tools": {name: how for name, how in named.items() if name not in effects}}
    from interlock.config import Placed, load  # here, since tools that are all Effects need no configuration of data

    loaded = load(config)
    both: dict[str, ToolConfig | Effect] = {**loaded.tools, **effects}
    if not both:
        raise ConfigurationError(
            "the configuration gates no tool, so every tool would run without a gate. Name one in tools."
        )
    return both, loaded.journal if isinstance(loaded.journal, Placed) else Path(loaded.journal)


@contextmanager
def _told_of(file: Path | None) -> Iterator[None]:
    """A mistake in a configuration is told with the file that it stands in."""
    try:
        yield
    except ConfigurationError as error:
        if file is None or type(error) is not ConfigurationError:
            raise
        raise ConfigurationError(f"{file}: {error}") from error


def _place(journal: Path | Placed) -> Path:
    """The directory of the journal that a configuration names.

    Raises:
        ConfigurationError: it may be another one than the one that was used before, or that another name of the file leads to; with
            another journal, what was done before would be done again.
    """
    place = Path(journal).absolute()
    if isinstance(journal, Path):
        return place
    file, written = journal.file, journal.written
    beside = os.path.normpath(file.resolve().parent / written)
    if os.path.realpath(place) != os.path.realpath(beside):
        raise ConfigurationError(
            f"{file} is a link to {file.resolve()}, so that its journal {written!r} may be {place} or {beside}. Write the one that is "
            "meant as an absolute path."
        )
    # It once was followed from the working directory.
    before = Path(os.path.normpath(Path.cwd() / written))
    if os.path.realpath(before) == os.path.realpath(place) or not SQLiteJournal.is_at(before):
        return place
    if not SQLiteJournal.is_at(place):
        raise ConfigurationError(
            f"{file}: its journal {written!r} is {place}, where none is yet, and there is one at {before}, where an earlier version of "
            "Interlock kept it when it was started from this directory. What was done by that one would be done again, so nothing is "
            f"started. If that is the journal of these tools, move the directory to {place} while no process uses it; if not, write "
            f'"journal": {json.dumps(str(place))} in the file.'
        )
    log.warning(
        "the journal is %s, and there is another one at %s, where an earlier version kept it when it was started from this directory. What "
        "stands on that one is not known here.",
        place,
        before,
    )
    return place


def _refuse_inside_a_loop(name: str, instead: str, further: str = "") -> None:
    if not is_in_loop():
        return
    raise ConfigurationError(
        f"the tool {name!r}, or one that is asked for it, is async, and an event loop runs in this thread: waiting here would stop "
        f"the very loop that it needs. Await {instead}() instead{further}."
    )
