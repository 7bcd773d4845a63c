"""One gated tool: its configuration, or its `Effect`, made into one effect on an `Interlock`.

Owns what of a call is payload, and which callbacks an effect gets. It must not know what a model is told.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from interlock.binding import no_longer_taken
from interlock.calling import Asked, Call, ToolCall, by_name, conditions, is_async, run_tool, takes_key
from interlock.declaration import warn_of_others
from interlock.decorator import Interlock
from interlock.errors import BadInput, ConfigurationError, NotSerializable, Rejected, Unanswered
from interlock.extend._answer import NotSeen
from interlock.extend._effect import Effect, ToolFailed
from interlock.extend._parameters import Parameters
from interlock.function import EffectFunction
from interlock.naming import EFFECT_ID, NotAsConfigured, instead_of
from interlock.outcomes import Outcome, Reason
from interlock.rules.lifecycle import fold
from interlock.rules.premises import same
from interlock.rules.values import decode, is_text, repr_of, storable, text_of

if TYPE_CHECKING:
    from interlock.config import ToolConfig

log = logging.getLogger("interlock")


class GatedTool:
    """One gated tool: its configuration made into an effect.

    Args:
        name: of the tool.
        how: it is gated.
        tools: all tools by name.
        value_of: what callbacks that take the result get of a recorded value.
        gated: the names of the tools that are gated, which none may ask.

    Attributes:
        faults: the callbacks whose last answer had not the form that the configuration says, by their roles.
    """

    effect: EffectFunction[Any]

    def __init__(
        self,
        name: str,
        how: ToolConfig | Effect,
        tools: Mapping[str, ToolCall],
        value_of: Callable[[Any], Any] | None = None,
        *,
        gated: Collection[str] = (),
    ) -> None:
        self.name = name
        self.how = how
        self.faults: set[str] = set()
        self._told: set[str] = set()
        self._takes: Parameters | None = None
        refuse_unknown(name, "", tools)
        self.tool = tools[name]
        self.binds = None if how.binds is None else _paths(name, how.binds)
        self.passes_key = how.idempotency_argument is not None or takes_key(self.tool)
        if not self.passes_key:
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
        self.options, parts = _of_python(name, how) if isinstance(how, Effect) else _of_config(name, how, tools, gated)
        self.needs_loop = is_async(self.tool) or any(asked.is_async for asked in parts.values())
        for role, asked in parts.items():
            self.options[role] = _callback(self._watched(role, asked), role, value_of or _as_it_is)

    def declare(self, interlock: Interlock, takes: Parameters | None = None) -> None:
        """Put it on a gate.

        Args:
            interlock: the gate.
            takes: what the tool takes, as far as it is known.
        """
        how = self.how
        self._takes = takes
        self.effect = interlock.effect(
            name=how.name or self.name,
            dedupes=how.dedupes,
            window=how.window,
            lookup_lag=how.lookup_lag,
            settle_after=how.settle_after,
            timeout=how.timeout,
            wait=how.wait,
            ignore=("context",),
            binds=None if self.binds is None else ("arguments",),
            **self.options,
        )(self._function())
        if takes is not None and not takes.takes_any:
            self.effect.check_record(lambda payload: self._check_record(payload, takes))
        self.effect.capabilities = self.effect.capabilities._replace(passes_key=self.passes_key)
        if isinstance(how, Effect) and how.lookup is not None and not self.passes_key:
            warn_of_others(self.effect.name)  # data says `counts_as_ours`

    def _check_record(self, payload: Mapping[str, Any], takes: Parameters) -> None:
        """What is on the record must be what the tool takes: it may leave out what it does not, and that would be another request.

        Raises:
            ConfigurationError: there is an argument that it no longer takes.
        """
        recorded = _joined(payload.get("arguments") or {}, payload.get("unbound"))
        unknown = [name for name in recorded if name not in (*takes.names, *takes.filled)]
        if unknown:
            taken = [name for name in takes.names if name != self.how.idempotency_argument]
            raise ConfigurationError(no_longer_taken(self.effect.name, unknown, taken))

    def given(
        self,
        arguments: Mapping[str, Any],
        context: Any,
        decision: str,
        evidence: Mapping[str, Any] | None,
        seen: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """A call in the form that the effect takes.

        Raises:
            BadInput: the arguments are no object with names, or what was seen is nothing that `read_facts` gave.
            CallbackFailed: the facts could not be read when the approval was asked for.
        """
        given: Any = arguments  # a model wrote them
        if not isinstance(given, Mapping) or not all(is_text(argument) for argument in given):
            raise BadInput(f"the arguments are {given!r:.200}; give them by name.")
        taken = {name: value for name, value in arguments.items() if name != self.how.idempotency_argument}
        kwargs: dict[str, Any] = {"arguments": taken, "context": context}
        if self.binds is not None:
            kwargs["arguments"], kwargs["unbound"] = _split(taken, self.binds)
        call = {"kwargs": kwargs, "decision": decision, "origin": origin_of(evidence)}
        return call if seen is None else {**call, "seen": facts_seen(self.effect, kwargs, seen)}

    def as_recorded(self, outcome: Outcome, given: Mapping[str, Any]) -> dict[str, Any] | None:
        """A call that was refused for its other arguments, in the record's own spelling of them.

        A model leaves a default out in one try and writes it in the next, or writes "20" for 20. To the tool that is one request.

        Returns:
            None if it was not refused for that, or the tool would get something else, or nobody can tell.
        """
        if outcome.reason != Reason.CONFLICTING_PAYLOAD or self._takes is None or outcome.history is None:
            return None
        kwargs = given["kwargs"]
        payload = fold(outcome.history).proposed["payload"]
        if not {"arguments"} <= payload.keys() <= kwargs.keys():
            return None  # what is told apart by `binds` on the record no longer is
        try:
            recorded = {name: decode(part) for name, part in payload.items()}
            both = [_joined(one["arguments"], one.get("unbound")) for one in (recorded, kwargs)]
            first, now = map(self._meant, both)
        except NotSerializable:
            return None
        if first is None or now is None or not _is_equal(first, now):
            return None
        written = {**kwargs, "arguments": recorded["arguments"]}
        if "unbound" in kwargs:  # whatever `binds` named when it was recorded, the tool gets all that this call brings
            written["unbound"] = {name: value for name, value in both[1].items() if name not in recorded["arguments"]}
        return {**given, "kwargs": written}

    def _meant(self, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
        """What the tool would get for the arguments that must not change; None if nobody can tell."""
        own, takes = self.how.idempotency_argument, self._takes
        assert takes is not None
        meant = takes.as_meant({**arguments, own: ""} if own in takes.names else arguments)
        if meant is None:
            return None
        return {
            name: value for name, value in meant.items() if name != own and (self.binds is None or name in self.binds)
        }

    def _watched(self, role: str, asked: Asked) -> Asked:
        """A callback whose answer is not as configured, told to an operator once, since no later call will change that."""
        if asked.is_async:

            async def aof(call: Call) -> Any:
                with self._configured(role):
                    return await asked.of(call)

            return Asked(aof, is_async=True)

        def of(call: Call) -> Any:
            with self._configured(role):
                return asked.of(call)

        return Asked(of)

    @contextmanager
    def _configured(self, role: str) -> Iterator[None]:
        try:
            yield
        except NotAsConfigured as error:
            self.faults.add(role)
            if role not in self._told:
                self._told.add(role)
                log.error(
                    "tool %r: its configuration does not fit what it asks: %s: %s. No call of it that needs this can go through until the "
                    "configuration is corrected.",
                    self.name,
                    role,
                    error,
                )
            raise type(error)(f"{error}. The configuration of {role!r} has to be corrected") from error
        else:
            self.faults.discard(role)

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
                    with self._tools_word():
                        return await run(arguments, None, context, idempotency_key)

                return asend

            async def asend_bound(
                arguments: dict[str, Any],
                idempotency_key: str,
                unbound: dict[str, Any] | None = None,  # of a call that was recorded before `binds` was named
                context: Any = None,
            ) -> Any:
                with self._tools_word():
                    return await run(arguments, unbound, context, idempotency_key)

            return asend_bound
        if self.binds is None:

            def send(arguments: dict[str, Any], idempotency_key: str, context: Any = None) -> Any:
                with self._tools_word():
                    return run(arguments, None, context, idempotency_key)

            return send

        def send_bound(
            arguments: dict[str, Any],
            idempotency_key: str,
            unbound: dict[str, Any] | None = None,
            context: Any = None,
        ) -> Any:
            with self._tools_word():
                return run(arguments, unbound, context, idempotency_key)

        return send_bound

    @contextmanager
    def _tools_word(self) -> Iterator[None]:
        """A tool's own word that it failed, as what the configuration says that it means.

        Raises:
            Rejected: it certainly did not happen.
            Unanswered: nobody knows from that.
        """
        try:
            yield
        except ToolFailed as error:
            if self.how.rejected_on_error:
                raise Rejected(str(error)) from error
            if isinstance(self.how, Effect) and (self.how.classify is not None or _names(self.how, error)):
                raise  # which judges it
            log.warning(
                "tool %r answered that it failed: %s. Nobody can tell from that whether it happened, so it is treated as unknown. If an "
                "error result of this tool means that it certainly did not happen, configure rejected_on_error for it.",
                self.name,
                text_of(error)[:300],
            )
            raise Unanswered(f"the tool answered that it failed: {error}") from error


def ask_facts(effect: EffectFunction[Any], kwargs: Mapping[str, Any]) -> Any:
    """The facts of a call as they are now, encoded; or an awaitable of those.

    Raises:
        BadInput: the arguments cannot be taken.
        CallbackFailed: the facts could not be read.
    """
    proposal, target, _ = effect._ready((), kwargs, "", None, None, None)
    return target.read_facts(proposal.payload, proposal.effect_id)


def key_of(effect: EffectFunction[Any], kwargs: Mapping[str, Any]) -> str:
    """The key of a call.

    Raises:
        BadInput: the arguments cannot be taken.
    """
    return effect._ready((), kwargs, "", None, None, None)[0].key


def seen_of(effect: EffectFunction[Any], kwargs: Mapping[str, Any], **what: Any) -> dict[str, Any]:
    """What `read_facts` gives: the facts, or why they could not be read, and of which request of which effect they are.

    Raises:
        BadInput: the arguments cannot be taken.
    """
    return {"effect": effect.name, "key": key_of(effect, kwargs), **what}


def facts_seen(
    effect: EffectFunction[Any], kwargs: Mapping[str, Any], seen: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The facts that an approval rests on; None if it was asked for another request, as a reviewer who changes key or tool makes it.

    Raises:
        BadInput: it is nothing that was read for an approval.
        NotSeen: the facts could not be read when the approval was asked for.
    """
    facts = seen.get("facts")
    if not is_text(seen.get("key")) or not (isinstance(facts, Mapping) or is_text(seen.get("unreadable"))):
        raise BadInput("seen= is not what read_facts() gave. Ask for the approval again.")
    of = seen.get("effect", effect.name)  # earlier versions did not say it
    if of != effect.name or key_of(effect, kwargs) != seen["key"] or not effect.has_premises:
        return None
    if not isinstance(facts, Mapping):
        raise NotSeen(
            f"{effect.name!r}: the facts could not be read when approval was asked for, so nobody has approved on them: "
            f"{seen['unreadable']} Nothing was sent. Call again, which asks for approval anew."
        )
    return {fact: decode(value) for fact, value in facts.items()}


def decision_on(name: str, seen: Mapping[str, Any] | None) -> str:
    """Names a person's decision by the facts that it rests on, too: another look at them is another decision.

    A framework that goes back to before it asked (a fork of a thread, a session that is rewound) asks again under the same ids of its own.

    Args:
        name: of the approval, by the framework's ids; empty if there was none.
        seen: what `read_facts` gave when the person was asked.
    """
    if not name or seen is None:
        return name
    facts = json.dumps(seen, sort_keys=True, default=repr)
    return f"{name} on {hashlib.sha256(facts.encode()).hexdigest()[:16]}"


def refuse_unknown(name: str, why: str, tools: Mapping[str, ToolCall]) -> None:
    """A tool that is named must have been handed over.

    Raises:
        ConfigurationError: it was not.
    """
    if name not in tools:
        what = f"{why} asks the tool {name!r}, which" if why else f"the configuration gates the tool {name!r}, which"
        raise ConfigurationError(f"{what} was not handed over; {instead_of(name, tools)}")


def _needs_id(how: ToolConfig | Effect) -> bool:
    """Whether a look-up goes by the idempotency key; one in Python may."""
    if isinstance(how, Effect):
        return how.lookup is not None and not isinstance(how.lookup, type) and takes_key(how.lookup)
    return how.lookup is not None and how.lookup.asks_for_id


def _of_config(
    name: str, how: ToolConfig, tools: Mapping[str, ToolCall], gated: Collection[str]
) -> tuple[dict[str, Any], dict[str, Asked]]:
    from interlock.extend._configured import callbacks_of  # here, since an Effect needs no configuration of data

    return callbacks_of(name, how, tools, gated)


def _of_python(name: str, how: Effect) -> tuple[dict[str, Any], dict[str, Asked]]:
    roles = ("key", "premises", "allowed", "budget", "lookup", "settlement", "references")
    parts = {
        role: by_name(getattr(how, role), role=role, tool=name) for role in roles if getattr(how, role) is not None
    }
    options: dict[str, Any] = {
        "rejected_on": how.rejected_on,
        "not_sent_on": how.not_sent_on,
        "in_use_on": how.in_use_on,
        "classify": how.classify,
        "watch_for": how.watch_for,
    }
    if how.expect is not None:
        options["expect"] = conditions(how.expect)
    return options, parts


def _names(how: Effect, error: ToolFailed) -> bool:
    """Whether an `Effect` itself says what this exception means."""
    return any(isinstance(error, kinds) for kinds in (how.rejected_on, how.not_sent_on, how.in_use_on))


def _as_it_is(value: Any) -> Any:
    return value


def _callback(asked: Asked, role: str, value_of: Callable[[Any], Any]) -> Callable[..., Any]:
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
                return await of(Call(_joined(arguments, unbound), context, idempotency_key, value_of(value)))

            return alater

        def later(arguments: Any, idempotency_key: str, value: Any, unbound: Any = None, context: Any = None) -> Any:
            return of(Call(_joined(arguments, unbound), context, idempotency_key, value_of(value)))

        return later
    if asked.is_async:

        async def anow(arguments: Any, idempotency_key: str, unbound: Any = None, context: Any = None) -> Any:
            return await of(Call(_joined(arguments, unbound), context, idempotency_key))

        return anow

    def now(arguments: Any, idempotency_key: str, unbound: Any = None, context: Any = None) -> Any:
        return of(Call(_joined(arguments, unbound), context, idempotency_key))

    return now


def _is_equal(first: Any, now: Any) -> bool:
    """Whether two things are equal, and look it as data: True is not 1, and a text that hides what it holds is not any other such."""
    try:
        return bool(first == now) and same(
            to_jsonable_python(first, fallback=repr_of), to_jsonable_python(now, fallback=repr_of)
        )
    except Exception:  # noqa: BLE001 - a tool's own types may raise anything when they are compared or shown
        return False


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


def origin_of(evidence: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The framework's ids, in a form that can always be written: they must never be the reason why a call is not taken."""
    if not evidence:
        return None
    kept = {
        _text(name): value if isinstance(value, bool | int) and abs(value) < 2**53 else _text(value)
        for name, value in evidence.items()
        if value is not None and value != ""
    }
    return kept or None


def _text(value: Any) -> str:
    """A framework's id as a text that can be stored. Cannot fail: some numbers are too long to be shown."""
    try:
        return storable(str(value))
    except Exception:  # noqa: BLE001 - an object's own text may raise anything
        return repr_of(value)
