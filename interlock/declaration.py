"""Declarations: what `@gate.effect(...)` was given, and the checks of it that need no function.

Owns the options, their defaults and their units.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from interlock.callbacks import KEY_ARGUMENT, Callback
from interlock.errors import ConfigurationError
from interlock.ports import Capabilities, Verdict
from interlock.record import record
from interlock.rules.premises import Condition, condition
from interlock.rules.recovery import DEFAULT_WINDOW_S
from interlock.settlement import WATCH_FOR_S

log = logging.getLogger("interlock")

ExceptionTypes = type[BaseException] | tuple[type[BaseException], ...]

SETTLE_AFTER_S = 1.0
"""What `settle_after=` is where it is not said."""


@record(frozen=True)
class Declaration:
    """What `@gate.effect(...)` was given. See `Interlock.effect` for the meaning of each."""

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
    settle_after: float | timedelta | None = None
    timeout: float | timedelta = 30.0
    wait: float | timedelta = 0.0
    rejected_on: ExceptionTypes = ()
    not_sent_on: ExceptionTypes = ()
    in_use_on: ExceptionTypes = ()
    classify: Callable[[BaseException], Verdict | None] | None = None
    binds: Iterable[str] | None = None
    ignore: Iterable[str] = ()
    context: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None = None
    name: str | None = None


def watch_for_s(declared: Declaration, effect: str) -> float:
    """How long an accepted effect is watched; 0 for one that declares no settlement.

    Raises:
        ConfigurationError: an option that needs `settlement=` is given without it.
    """
    if declared.settlement is None:
        for option, given in (("references", declared.references), ("watch_for", declared.watch_for)):
            if given is not None:
                raise ConfigurationError(
                    f"effect {effect!r}: {option}= is for watching what became of an accepted effect; it needs settlement=."
                )
        return 0.0
    if declared.watch_for is None:
        return WATCH_FOR_S
    return seconds("watch_for", declared.watch_for, effect, positive=True)


def expectations(declared: Declaration, effect: str, *, arguments: tuple[str, ...]) -> dict[str, Condition]:
    """The conditions that `expect=` stands for."""
    if declared.expect is None:
        return {}
    if declared.premises is None:
        raise ConfigurationError(f"effect {effect!r}: expect= without premises= has nothing to judge. Give premises=.")
    if not isinstance(declared.expect, Mapping):
        raise ConfigurationError(f"effect {effect!r}: expect= is a dict from the name of a premise to its condition.")
    conditions = {name: condition(wanted) for name, wanted in declared.expect.items()}
    for name, rule in conditions.items():
        for wanted in rule.takes:
            if wanted not in arguments:
                raise ConfigurationError(
                    f"effect {effect!r}: the condition of premise {name!r} asks for {wanted!r}, which is not an argument of it. "
                    f"It has: {', '.join(arguments)}."
                )
    return conditions


def capabilities(declared: Declaration, effect: str, *, takes_key: bool, lookup: Callback | None) -> Capabilities:
    """What the service can do, as declared.

    Raises:
        ConfigurationError: it is not what the function and the options bear out.
    """
    if declared.dedupes not in (True, False):
        raise ConfigurationError(f"effect {effect!r}: dedupes= is {declared.dedupes!r}; say True or False.")
    if declared.dedupes and not takes_key:
        raise ConfigurationError(
            f"effect {effect!r}: dedupes=True, but the function takes no {KEY_ARGUMENT}, so the service never gets one. "
            f"Add the parameter and pass it on."
        )
    if lookup is not None and lookup.names(KEY_ARGUMENT) and not takes_key:
        raise ConfigurationError(
            f"effect {effect!r}: lookup= takes {KEY_ARGUMENT}, but the function takes none, so the service never gets the key and the "
            "look-up would never find what was sent. Add the parameter and pass it on, or look it up by the call's own arguments."
        )
    if lookup is not None and not lookup.takes(KEY_ARGUMENT) and not takes_key:
        warn_of_others(effect)
    if not declared.dedupes and declared.window is not None:
        raise ConfigurationError(
            f"effect {effect!r}: window= is how long the service remembers a key; it needs dedupes=True."
        )
    timeout_s = seconds("timeout", declared.timeout, effect, positive=True)
    window_s = (
        DEFAULT_WINDOW_S if declared.window is None else seconds("window", declared.window, effect, positive=True)
    )
    if declared.dedupes and declared.window is None:
        log.warning(
            "effect %r: window= is not said, so a resend is trusted for %g minutes only. Say how long the service "
            "remembers an idempotency key, e.g. window=timedelta(hours=24).",
            effect,
            DEFAULT_WINDOW_S / 60,
        )
    if declared.dedupes and declared.lookup is None and (declared.allowed is not None or declared.premises is not None):
        log.warning(
            "effect %r: there is no lookup=. If the process dies in a send and permission or a fact is gone when it comes back, nobody "
            "can know whether it landed, and it ends as AMBIGUOUS. With lookup= it would be settled.",
            effect,
        )
    settle_after_s = (
        SETTLE_AFTER_S if declared.settle_after is None else seconds("settle_after", declared.settle_after, effect)
    )
    lookup_lag_s = seconds("lookup_lag", declared.lookup_lag, effect)
    if declared.lookup is not None and not declared.dedupes and declared.settle_after is None:
        log.warning(
            "effect %r: settle_after= is not said. A request that the look-up does not show %g s after its sender died, or its call ended "
            "without an answer, counts as absent and is sent again; if it lands later, it is done twice. Say how long the service may take "
            "until what was sent to it shows in the look-up, e.g. settle_after=timedelta(minutes=1).",
            effect,
            settle_after_s + lookup_lag_s,
        )
    if declared.dedupes and window_s <= timeout_s + settle_after_s:
        raise ConfigurationError(
            f"effect {effect!r}: window= ({window_s:g} s) is not longer than timeout= and settle_after= together ({timeout_s:g} s and "
            f"{settle_after_s:g} s): a resend near its end could reach a service that has just forgotten the key. Shorten the timeout."
        )
    return Capabilities(
        dedupes=declared.dedupes,
        window_s=window_s,
        can_look_up=declared.lookup is not None,
        lookup_lag_s=lookup_lag_s,
        settle_after_s=settle_after_s,
        timeout_s=timeout_s,
        passes_key=takes_key,
        looks_up_by_key=lookup is not None and lookup.takes(KEY_ARGUMENT),
    )


def warn_of_others(effect: str) -> None:
    """Say what a look-up without the key may take for ours, where the service never gets the key."""
    log.warning(
        "effect %r: neither lookup= nor the function takes idempotency_key, so whatever the look-up finds by the call's own arguments "
        "counts as ours. What somebody else did, by hand for instance, would be taken for this call, which then is never sent. Take "
        "idempotency_key in both, pass it on and look it up, unless the arguments name a thing that only this call can have done.",
        effect,
    )


def seconds(option: str, value: Any, effect: str, *, positive: bool = False) -> float:
    """An option in seconds.

    Raises:
        ConfigurationError: it is not a time, or negative.
    """
    given = value.total_seconds() if isinstance(value, timedelta) else value
    if (
        isinstance(given, bool)
        or not isinstance(given, int | float)
        or not 0 <= given < 10**10
        or (positive and given == 0)
    ):
        raise ConfigurationError(
            f"effect {effect!r}: {option}= is {value!r}; give seconds or a timedelta, not negative."
        )
    return float(given)


def is_address(place: str) -> bool:
    """Whether a text is an address of something (`sqlite:///a.db`, `:memory:`), and not the path of a directory."""
    first = place.split("/", 1)[0]
    return first.endswith(":") and len(first) > 2


def is_unfilled(place: str) -> bool:
    """Whether a text holds what a shell would fill in: `~`, `$NAME`, `%NAME%`."""
    if place.startswith("~"):
        return True
    return ("$" in place or "%" in place) and re.search(r"\$\w|\$\{|%\w+%", place) is not None


def directory_of(given: Any) -> str:
    """The directory that a journal is to live in, as it was given.

    Raises:
        ConfigurationError: it is none, or the journal would be in another place than the one that was meant.
    """
    place = os.fspath(given) if isinstance(given, str | os.PathLike) else given
    if not isinstance(place, str):
        raise ConfigurationError(
            f'the journal lives in a directory, which {given!r:.200} does not name. Give its path: Interlock(".interlock"); for a journal '
            "of another kind: Interlock(journal=...)."
        )
    if not place.strip() or "\0" in place:
        raise ConfigurationError(
            f'{place!r} is no name of a directory. Say where the journal lives, e.g. Interlock(".interlock").'
        )
    if is_address(place):
        raise ConfigurationError(
            f"{place!r} is no path of a directory; the journal would be in one of just that name. Give the directory's own path, e.g. "
            'Interlock(".interlock"); for a journal of another kind: Interlock(journal=...), e.g. interlock.journal.MemoryJournal().'
        )
    if is_unfilled(place):
        fill_in = "os.path.expanduser" if place[0] == "~" else "os.path.expandvars"
        raise ConfigurationError(
            f"nothing is filled in in {place!r}, so the journal would be in a directory of just that name. Write the path out, or give "
            f"{fill_in}({place!r})."
        )
    return place


def exceptions(option: str, given: Any, effect: str) -> tuple[type[BaseException], ...]:
    """Exception classes, as a tuple.

    Raises:
        ConfigurationError: something else, or a class that says nothing.
    """
    listed = given if isinstance(given, tuple) else (given,)
    for kind in listed:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise ConfigurationError(f"effect {effect!r}: {option}= holds {kind!r}, which is not an exception class.")
        if kind in (BaseException, Exception):
            raise ConfigurationError(
                f"effect {effect!r}: {option}= holds {kind.__name__}, which would call every failure certain, a lost answer too. "
                "Name the exceptions that certainly mean it."
            )
    return listed
