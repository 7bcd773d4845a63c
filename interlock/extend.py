"""The seam for wrappers: tools as plain callables go in, one gated effect for each comes out, and each call is answered.

A wrapper translates its framework's tools and results and calls `ToolGate.call` or `acall`; it never sends, journals, retries or reads a
clock. Owns that seam: which tool is gated and how, what of a call is payload, and the sentence that goes back to a model. It must not
know any framework.
"""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from interlock.calling import (
    Asked,
    Call,
    ToolCall,
    allowed_by,
    budgets_of,
    by_name,
    condition_of,
    conditions,
    facts_of,
    found_by,
    is_async,
    key_of,
    plain,
    run_tool,
    takes_key,
)
from interlock.config import EFFECT_ID, Match, ToolConfig, ToolsConfig, load
from interlock.declaration import ExceptionTypes
from interlock.decorator import Interlock, Recovery
from interlock.effects import History, Kind
from interlock.errors import BadInput, CallbackFailed, ConfigurationError, NotSent, Rejected, Unanswered
from interlock.function import EffectFunction
from interlock.journal import Journal
from interlock.outcomes import Outcome, Reason, Status
from interlock.ports import Verdict
from interlock.rules.values import is_text, storable, text_of

__all__ = [
    "Answer",
    "ConfigurationError",
    "Effect",
    "EffectFunction",
    "History",
    "Interlock",
    "Journal",
    "NotSent",
    "Outcome",
    "Recovery",
    "Rejected",
    "ToolCall",
    "ToolConfig",
    "ToolFailed",
    "ToolGate",
    "ToolsConfig",
    "Unanswered",
    "acall_effect",
    "is_async",
    "load",
    "not_taken",
    "plain",
]

log = logging.getLogger("interlock")


class ToolFailed(Exception):
    """Raise this in a tool's callable: the tool answered, and its answer says of itself that it failed.

    By default nobody knows from that whether the effect happened, so it is looked up or called AMBIGUOUS; `rejected_on_error` of the
    tool's configuration says that it means it did not happen.

    Args:
        result: what the tool answered; its text stands on the record.
    """

    def __init__(self, result: Any = "") -> None:
        super().__init__(result if isinstance(result, str) else repr(result)[:500])
        self.result = result


@dataclasses.dataclass(frozen=True, kw_only=True)
class Effect:
    """How one tool is gated, in Python: the options of `@gate.effect`, with callbacks that take the tool's arguments by name.

    Callbacks may be sync or async; all but `key` also take `idempotency_key`, and `context`: the framework's live object, None in recovery.

    Attributes:
        key: names the approved request.
        idempotency_argument: the tool's argument that carries the idempotency key.
        rejected_on_error: an error result of the tool means that it certainly did not happen.
        binds: the arguments that must not change under one key, as paths; by default all.

    The others are those of `Interlock.effect`.
    """

    key: Callable[..., str]
    premises: Callable[..., Any] | None = None
    expect: Mapping[str, Any] | None = None
    allowed: Callable[..., Any] | None = None
    budget: Callable[..., Any] | None = None
    lookup: Callable[..., Any] | None = None
    settlement: Callable[..., Any] | None = None
    references: Callable[..., Any] | None = None
    watch_for: float | timedelta | None = None
    dedupes: bool = False
    window: float | timedelta | None = None
    lookup_lag: float | timedelta = 0.0
    settle_after: float | timedelta = 1.0
    timeout: float | timedelta = 30.0
    wait: float | timedelta = 0.0
    rejected_on: ExceptionTypes = ()
    not_sent_on: ExceptionTypes = ()
    in_use_on: ExceptionTypes = ()
    classify: Callable[[BaseException], Verdict | None] | None = None
    binds: Iterable[str] | None = None
    idempotency_argument: str | None = None
    rejected_on_error: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What became of one call of a gated tool, ready to be told in a framework's own form.

    Attributes:
        outcome: the gate's own account. For a call that could not be taken as it stands, REFUSED with `bad_input` or `unreadable`, and
            nothing on the journal.
        message: for the model: what the tool returned, as text; or a sentence that says what happened and whether asking again can help.
    """

    outcome: Outcome
    message: str

    @property
    def ok(self) -> bool:
        """Whether the effect has landed: now or before."""
        return self.outcome.ok

    @property
    def is_error(self) -> bool:
        """Whether the framework's own error form is due."""
        return not self.outcome.ok

    @property
    def value(self) -> Any:
        """What the tool returned, in JSON form; the same in the first call, on a replay and after a restart."""
        return self.outcome.value

    @property
    def raw(self) -> Any:
        """The tool's live result; None but in the call that sent."""
        return self.outcome.raw

    def as_dict(self) -> dict[str, Any]:
        """The answer as plain JSON data."""
        document = {
            "status": str(self.outcome),
            "ok": self.ok,
            "message": self.message,
            "value": self.outcome.value if _is_json(self.outcome.value) else self.message if self.ok else None,
            "effect_id": self.outcome.effect_id,
            "key": self.outcome.key,
        }
        if self.outcome.retry_after is not None:
            document["retry_after"] = self.outcome.retry_after
        return document


class ToolGate:
    """The tools of an agent, those with outside effects behind one gate.

    Args:
        config: which tools are gated and how: a dict, a `.json` or `.toml` file, or a `ToolsConfig`. In a dict a tool may also be given
            as an `Effect`.
        tools: all tools by name, as callables of `(arguments, context)`, sync or async; also those that premises and look-ups ask.
        journal: a directory, a `Journal` or an `Interlock` instead of the journal that the configuration names.

    Attributes:
        interlock: the `Interlock` behind it.

    Raises:
        ConfigurationError: an option does not exist, a tool that is named was not handed over, or something cannot be kept.
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
    ) -> None:
        declared, directory = _declared(config)
        self.tools = dict(tools)
        for name, tool in self.tools.items():
            if not callable(tool):
                raise ConfigurationError(f"the tool {name!r} is {tool!r}, which cannot be called.")
        prepared = {name: _Gated(name, how, self.tools) for name, how in declared.items()}
        self._own = not isinstance(journal, Interlock)
        if isinstance(journal, Interlock):
            self.interlock = journal
        elif isinstance(journal, str | os.PathLike):
            self.interlock = Interlock(journal)
        else:
            self.interlock = Interlock(directory) if journal is None else Interlock(journal=journal)
        try:
            for gated in prepared.values():
                gated.declare(self.interlock)
        except BaseException:
            self.close()
            raise
        self._gated = prepared

    def __enter__(self) -> ToolGate:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
    ) -> Answer:
        """Call a gated tool once, in this thread.

        Args:
            name: the tool.
            arguments: the tool's arguments, as the model gave them.
            context: the framework's live object of this call; handed to the tool, never on the record.
            decision: names the decision, such as an approval's id. A refusal stands for its decision.
            evidence: the framework's ids, by name. They stand on the record beside the proposal and decide nothing.

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
            _refuse_inside_a_loop(name, "acall")
        try:
            outcome = gated.effect.submit_blocking((), **gated.given(arguments, context, decision, evidence))
        except (BadInput, CallbackFailed) as error:
            return not_taken(name, error)
        return _answer(outcome)

    async def acall(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        context: Any = None,
        decision: str = "",
        evidence: Mapping[str, Any] | None = None,
    ) -> Answer:
        """As `call`, without blocking the event loop; a sync tool is called in a thread."""
        gated = self._find(name)
        try:
            outcome = await gated.effect.asubmit((), **gated.given(arguments, context, decision, evidence))
        except (BadInput, CallbackFailed) as error:
            return not_taken(name, error)
        return _answer(outcome)

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

    def _find(self, name: str) -> _Gated:
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
) -> Answer:
    """Do an effect that was declared with `@gate.effect` in a tool's stead, with a model's arguments, without blocking the event loop.

    Args:
        effect: the declared function, sync or async.
        arguments: its arguments by name.
        decision: names the decision, such as an approval's id. A refusal stands for its decision.
        evidence: the framework's ids, by name. They stand on the record beside the proposal and decide nothing.

    Returns:
        The answer, whatever became of it: also for arguments that cannot be taken, and for facts that cannot be read.

    Raises:
        JournalError: the journal could not do its part.

    **Durable when** this returns: what was sent and what came back, or why nothing was.
    **If the process dies** before that: the `recover()` of the effect's `Interlock`, or the next call with the same key, settles it.
    """
    try:
        outcome = await effect.asubmit((), dict(arguments), decision=decision, origin=_origin(evidence))
    except (BadInput, CallbackFailed) as error:
        return not_taken(effect.name, error)
    return _answer(outcome)


class _Gated:
    """One gated tool: its configuration made into an effect."""

    effect: EffectFunction[Any]

    def __init__(self, name: str, how: ToolConfig | Effect, tools: Mapping[str, ToolCall]) -> None:
        self.name = name
        self.how = how
        _known(name, "", tools)
        self.tool = tools[name]
        self.binds = None if how.binds is None else _paths(name, how.binds)
        if how.idempotency_argument is None and not takes_key(self.tool):
            if how.dedupes:
                raise ConfigurationError(
                    f"tool {name!r}: dedupes says that the service drops a second request with the same key, but nothing carries the key "
                    "to it. Name the tool's argument that does: idempotency_argument."
                )
            if how.lookup is not None and _needs_id(how):
                raise ConfigurationError(
                    f"tool {name!r}: the look-up asks for {EFFECT_ID}, but the tool never gets it, so it could not be found. Name the "
                    "tool's argument that carries it: idempotency_argument."
                )
        self.options, parts = _of_config(name, how, tools) if isinstance(how, ToolConfig) else _of_python(name, how)
        self.needs_loop = is_async(self.tool) or any(asked.is_async for asked in parts.values())
        for role, asked in parts.items():
            self.options[role] = _callback(asked, role)

    def declare(self, interlock: Interlock) -> None:
        """Put it on a gate."""
        how = self.how
        rejected: ExceptionTypes = getattr(how, "rejected_on", ())
        if how.rejected_on_error:
            rejected = (*(rejected if isinstance(rejected, tuple) else (rejected,)), ToolFailed)
        self.effect = interlock.effect(
            name=self.name,
            dedupes=how.dedupes,
            window=how.window,
            lookup_lag=how.lookup_lag,
            settle_after=how.settle_after,
            timeout=how.timeout,
            wait=how.wait,
            rejected_on=rejected,
            ignore=("context",),
            binds=None if self.binds is None else ("arguments",),
            **self.options,
        )(self._function())

    def given(
        self, arguments: Mapping[str, Any], context: Any, decision: str, evidence: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """A call in the form that the effect takes.

        Raises:
            BadInput: the arguments are no object with names.
        """
        given: Any = arguments  # a model wrote them
        if not isinstance(given, Mapping) or not all(is_text(argument) for argument in given):
            raise BadInput(f"the arguments are {given!r:.200}; give them by name.")
        taken = {name: value for name, value in arguments.items() if name != self.how.idempotency_argument}
        kwargs: dict[str, Any] = {"arguments": taken, "context": context}
        if self.binds is not None:
            kwargs["arguments"], kwargs["unbound"] = _split(taken, self.binds)
        return {"kwargs": kwargs, "decision": decision, "origin": _origin(evidence)}

    def _function(self) -> Callable[..., Any]:
        tool, argument = self.tool, self.how.idempotency_argument

        def run(arguments: Mapping[str, Any], unbound: Mapping[str, Any] | None, context: Any, key: str) -> Any:
            given = _joined(arguments, unbound)
            if argument is not None:
                given[argument] = key
            return run_tool(tool, given, context, key)

        if is_async(tool):
            if self.binds is None:

                async def asend(arguments: dict[str, Any], idempotency_key: str, context: Any = None) -> Any:
                    return await run(arguments, None, context, idempotency_key)

                return asend

            async def asend_bound(
                arguments: dict[str, Any], unbound: dict[str, Any], idempotency_key: str, context: Any = None
            ) -> Any:
                return await run(arguments, unbound, context, idempotency_key)

            return asend_bound
        if self.binds is None:

            def send(arguments: dict[str, Any], idempotency_key: str, context: Any = None) -> Any:
                return run(arguments, None, context, idempotency_key)

            return send

        def send_bound(
            arguments: dict[str, Any], unbound: dict[str, Any], idempotency_key: str, context: Any = None
        ) -> Any:
            return run(arguments, unbound, context, idempotency_key)

        return send_bound


def _declared(config: Any) -> tuple[dict[str, ToolConfig | Effect], str]:
    """The gated tools, and the directory of the journal."""
    effects: dict[str, ToolConfig | Effect] = {}
    if isinstance(config, Mapping):
        if config and all(isinstance(how, Effect) for how in config.values()):
            config = {"tools": config}
        named = config.get("tools")
        if isinstance(named, Mapping):
            effects = {name: how for name, how in named.items() if isinstance(how, Effect)}
            config = {**config, "tools": {name: how for name, how in named.items() if name not in effects}}
    loaded = load(config)
    both: dict[str, ToolConfig | Effect] = {**loaded.tools, **effects}
    if not both:
        raise ConfigurationError(
            "the configuration gates no tool, so every tool would run without a gate. Name one in tools."
        )
    return both, loaded.journal


def _known(name: str, why: str, tools: Mapping[str, ToolCall]) -> None:
    if name not in tools:
        close = difflib.get_close_matches(name, tools, n=1, cutoff=0.6)
        hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(tools) or 'none'}"
        what = f"{why} asks the tool {name!r}, which" if why else f"the configuration gates the tool {name!r}, which"
        raise ConfigurationError(f"{what} was not handed over; {hint}.")


def _needs_id(how: ToolConfig | Effect) -> bool:
    """Whether a look-up goes by the idempotency key; one in Python may."""
    if isinstance(how, Effect):
        return how.lookup is not None and not isinstance(how.lookup, type) and _names_key(how.lookup)
    lookup = how.lookup
    if lookup is None:
        return False
    asked = list(lookup.arguments.values())
    if isinstance(lookup.found, Match):
        asked += lookup.found.where.values()
    return EFFECT_ID in asked


def _names_key(function: Any) -> bool:
    return takes_key(function)


def _of_config(name: str, how: ToolConfig, tools: Mapping[str, ToolCall]) -> tuple[dict[str, Any], dict[str, Asked]]:
    parts = {"key": Asked(key_of(how.key))}
    premises = how.premises
    permissions = [question for question in (how.allowed, how.approval) if question is not None]
    for role, questions in (
        ("premises", premises),
        ("allowed", permissions),
        ("lookup", [how.lookup] if how.lookup else []),
    ):
        for question in questions:
            _known(question.tool, f"tool {name!r}: {role}", tools)
    if premises:
        facts = [fact for question in premises for fact in question.fields]
        twice = sorted({fact for fact in facts if facts.count(fact) > 1})
        if twice:
            raise ConfigurationError(
                f"tool {name!r}: two premises are named {', '.join(map(repr, twice))}. Name them: "
                '"fields": {"own name": "path"}.'
            )
        unknown = sorted(set(how.expect) - set(facts))
        if unknown:
            raise ConfigurationError(
                f"tool {name!r}: expect names {', '.join(map(repr, unknown))}, which premises does not read; it reads: {', '.join(facts)}."
            )
        parts["premises"] = facts_of(premises, tools)
    elif how.expect:
        raise ConfigurationError(f"tool {name!r}: expect without premises has nothing to judge.")
    if permissions:
        parts["allowed"] = allowed_by(permissions, tools)
    if how.lookup is not None:
        if not _needs_id(how):
            log.warning(
                "tool %r: the look-up does not ask for %s, so what anybody else did is found too, and taken for ours.",
                name,
                EFFECT_ID,
            )
        parts["lookup"] = found_by(how.lookup, tools)
    if how.budget:
        parts["budget"] = Asked(budgets_of(how.budget))
    expect = {fact: condition_of(said) for fact, said in how.expect.items()}
    return ({"expect": expect} if expect else {}), parts


def _of_python(name: str, how: Effect) -> tuple[dict[str, Any], dict[str, Asked]]:
    roles = ("key", "premises", "allowed", "budget", "lookup", "settlement", "references")
    parts = {
        role: by_name(getattr(how, role), role=role, tool=name) for role in roles if getattr(how, role) is not None
    }
    options: dict[str, Any] = {
        "not_sent_on": how.not_sent_on,
        "in_use_on": how.in_use_on,
        "classify": how.classify,
        "watch_for": how.watch_for,
    }
    if how.expect is not None:
        options["expect"] = conditions(how.expect)
    return options, parts


def _callback(asked: Asked, role: str) -> Callable[..., Any]:
    """A callback of a call as one that an effect takes."""
    of = asked.of
    if role == "key":

        def key(arguments: Any, unbound: Any = None) -> Any:
            return of(Call(_joined(arguments, unbound)))

        return key
    if role in ("settlement", "references"):
        if asked.is_async:

            async def alater(
                arguments: Any, idempotency_key: str, value: Any, unbound: Any = None, context: Any = None
            ) -> Any:
                return await of(Call(_joined(arguments, unbound), context, idempotency_key, value))

            return alater

        def later(arguments: Any, idempotency_key: str, value: Any, unbound: Any = None, context: Any = None) -> Any:
            return of(Call(_joined(arguments, unbound), context, idempotency_key, value))

        return later
    if asked.is_async:

        async def anow(arguments: Any, idempotency_key: str, unbound: Any = None, context: Any = None) -> Any:
            return await of(Call(_joined(arguments, unbound), context, idempotency_key))

        return anow

    def now(arguments: Any, idempotency_key: str, unbound: Any = None, context: Any = None) -> Any:
        return of(Call(_joined(arguments, unbound), context, idempotency_key))

    return now


def _paths(name: str, given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise ConfigurationError(f"tool {name!r}: binds= is one text; give a list of names: [{given!r}].")
    listed = tuple(given)
    if not listed:
        raise ConfigurationError(
            f"tool {name!r}: binds= is empty, so any call would count as the same. Name arguments."
        )
    nested = [path for path in listed if "." in path]
    if nested:
        raise ConfigurationError(f"tool {name!r}: binds= names {nested[0]!r}; name whole arguments, not parts of them.")
    return listed


def _split(arguments: Mapping[str, Any], bound: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    return (
        {name: value for name, value in arguments.items() if name in bound},
        {name: value for name, value in arguments.items() if name not in bound},
    )


def _joined(arguments: Mapping[str, Any], unbound: Mapping[str, Any] | None) -> dict[str, Any]:
    return {**arguments, **(unbound or {})}


def _origin(evidence: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The framework's ids, in a form that can always be written: they must never be the reason why a call is not taken."""
    if not evidence:
        return None
    kept = {
        storable(str(name)): value if isinstance(value, bool | int) and abs(value) < 2**53 else storable(str(value))
        for name, value in evidence.items()
        if value is not None and value != ""
    }
    return kept or None


def _refuse_inside_a_loop(name: str, instead: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigurationError(
        f"the tool {name!r}, or one that is asked for it, is async, and an event loop runs in this thread: waiting here would stop "
        f"the very loop that it needs. Await {instead}() instead."
    )


def _answer(outcome: Outcome) -> Answer:
    if not outcome.ok:
        message = outcome.for_model
        if outcome.status is Status.FAILED and outcome.detail:
            message = f"{message} What was said: {outcome.detail[:500]}"
        return Answer(outcome, message + _first_result(outcome))
    value = outcome.value
    if value is None or value is True:
        return Answer(outcome, outcome.for_model)
    return Answer(outcome, value if isinstance(value, str) else _text(value))


def _first_result(outcome: Outcome) -> str:
    """For a request that was made with other arguments before: what those came to. A model that is not told asks on and on."""
    if outcome.reason != Reason.CONFLICTING_PAYLOAD or outcome.history is None:
        return ""
    done = [entry.data.get("value") for entry in outcome.history.entries if entry.kind is Kind.COMMITTED]
    return f" It was done then, and returned: {_text(done[-1])[:500]}" if done else ""


def not_taken(name: str, error: BadInput | CallbackFailed) -> Answer:
    """The answer to a call that could not be taken: nothing was journalled and nothing sent, and the model is told what to do."""
    cause: BaseException = error
    while isinstance(cause.__cause__, BadInput):
        cause = cause.__cause__
    if isinstance(cause, BadInput):
        said = str(cause).replace(" Nothing was sent.", "")
        reason, message = Reason.BAD_INPUT, f"Not done: {said} Nothing was sent. Correct the arguments and call again."
    else:
        log.warning("tool %r: %s", name, error)
        reason = Reason.UNREADABLE
        why = text_of(cause)[:300]
        message = (
            f"Not done: what it depends on could not be read, so nothing was sent. It can be tried again later. ({why})"
        )
    return Answer(Outcome(Status.REFUSED, name, "", "", reason=reason, detail=str(error)), message)


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(value)
