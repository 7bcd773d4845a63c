"""Binding: from a call to its payload and back. Owns the effect function's signature, its annotations, and what of a call is on the record.

    call:      refund("881", amount=20, client=c)      given      {"order": "881", "amount": 20, "client": c}
    record:    payload {"order": "881", "amount": 20}   digest     over the arguments that `binds=` names
    function:  refund(order="881", amount=20, client=<from the call, or from context= after a crash>)

What is sent is decoded from the payload, on the first call too, so that a crash changes nothing about it.
"""

from __future__ import annotations

import contextlib
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from interlock.callbacks import KEY_ARGUMENT
from interlock.errors import BadInput, ConfigurationError, NotSerializable
from interlock.rules.canonical import digest
from interlock.rules.values import SCALARS, Annotation, by_value, decode, encode


class Binding:
    """The arguments of one effect function.

    Args:
        function: the function.
        effect: name of the effect.
        binds: the arguments that must not change under one key; None means all.
        ignore: the arguments that are no payload.
        context: where those come from after a crash.

    Attributes:
        names: all arguments but the idempotency key, in order.
        binds: the arguments that must not change under one key; None means all.
        takes_key: whether the function takes the idempotency key.
        also_check: looks into a payload that is about to be used, and raises ConfigurationError if it holds what nobody takes any more.
        result: reads and writes the annotated result type.

    Raises:
        ConfigurationError: the signature cannot be put on record, or an option names what is not there.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        effect: str,
        binds: Iterable[str] | None,
        ignore: Iterable[str],
        context: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None,
    ) -> None:
        self.effect = effect
        self._what = f"the call of {effect!r}"
        parameters = _signature(function, effect).parameters
        self.takes_key = KEY_ARGUMENT in parameters
        names = tuple(name for name in parameters if name != KEY_ARGUMENT)
        self.names = names
        self._positional = tuple(n for n in names if parameters[n].kind is not inspect.Parameter.KEYWORD_ONLY)
        self._defaults = {
            n: parameters[n].default for n in names if parameters[n].default is not inspect.Parameter.empty
        }
        self._ignored = self._known("ignore", ignore, names)
        self._names = tuple(name for name in names if name not in self._ignored)
        bound = self._known("binds", binds, self._names) if binds is not None else None
        self.binds = None if bound is None else tuple(name for name in self._names if name in bound)
        self._context = context
        self._check_context()
        self.also_check: Callable[[Mapping[str, Any]], None] | None = None
        self._annotations, self.result = _annotations(function, self._names)
        self._written = tuple(
            (name, self._annotations.get(name), f"argument {name!r} of {effect!r}") for name in self._names
        )

    def payload_of(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """The payload of a call, and the digest of what it binds.

        Raises:
            NotSerializable: an argument has no faithful JSON form.
        """
        payload: dict[str, Any] = {}
        is_flat = True
        for name, annotation, what in self._written:
            value = given[name]
            if type(value) not in SCALARS:
                value = encode(value, annotation, what=what)
                is_flat = False
            payload[name] = value
        if is_flat and self.binds is None:
            return payload, digest(payload, what=self._what)
        return payload, self.digest_of(payload)

    def digest_of(self, payload: Mapping[str, Any]) -> str:
        """The digest of what a payload binds.

        Raises:
            NotSerializable: NaN, or a number that JSON readers round.
        """
        what = self._what
        whole = digest(by_value(payload), what=what)
        if self.binds is None:
            return whole
        return digest(by_value({name: payload[name] for name in self.binds if name in payload}), what=what)

    def defaults(self) -> dict[str, Any]:
        """The payload's part that a call brings without naming it, as far as it has a faithful JSON form."""
        defaults: dict[str, Any] = {}
        for name, annotation, what in self._written:
            if name in self._defaults:
                with contextlib.suppress(NotSerializable):
                    defaults[name] = encode(self._defaults[name], annotation, what=what)
        return defaults

    def live_of(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call that are no payload."""
        return {name: given[name] for name in self._ignored if name in given} if self._ignored else {}

    def arguments(
        self,
        payload: Mapping[str, Any],
        live: Mapping[str, Any],
        *,
        has_landed: bool = False,
        own: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The function's arguments: from the record, and those that are no payload from the call or from `context=`.

        Args:
            payload: the record.
            live: what the call brought beside it.
            own: the payload of the call that is made; what stands in it was let in at the door, and is not looked into.
            has_landed: they are only looked at, of an effect that is over: what the function no longer takes is left out.

        Raises:
            ConfigurationError: the record holds an argument that the function does not take, or lacks one that it needs.
        """
        annotations = self._annotations
        arguments = {
            name: value if type(value) in SCALARS else decode(value, annotations.get(name))
            for name, value in payload.items()
            if name in self.names
        }
        if not has_landed:
            if len(arguments) != len(payload):
                self.check_names(payload)
            if self.also_check is not None and payload != own:
                self.also_check(payload)
        for name in self._ignored:
            if name in live and name not in payload:
                arguments[name] = live[name]
        if len(arguments) == len(self.names):
            return arguments
        missing = [name for name in (*self._names, *self._ignored) if name not in arguments]
        if missing:
            supplied = self._from_context(missing)
            for name in missing:
                if name in supplied:
                    arguments[name] = supplied[name]
                elif name in self._defaults:
                    arguments[name] = self._defaults[name]
                else:
                    raise ConfigurationError(
                        f"effect {self.effect!r}: the argument {name!r} is neither on the record nor in context=. "
                        "The function changed since this effect was recorded: give it a default."
                    )
        return arguments

    def check_names(self, payload: Mapping[str, Any]) -> None:
        """That the function takes every argument on the record: to leave one out would make another request of it.

        Raises:
            ConfigurationError: it does not.
        """
        unknown = [name for name in payload if name not in self.names]
        if unknown:
            raise ConfigurationError(no_longer_taken(self.effect, unknown, self.names))

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, defaults filled in.

        Raises:
            TypeError: as Python does, for a call that does not fit.
            BadInput: the call brings an idempotency key of its own.
        """
        if KEY_ARGUMENT in kwargs or len(args) > len(self._positional):
            if KEY_ARGUMENT in kwargs:
                raise BadInput(
                    f"effect {self.effect!r}: {KEY_ARGUMENT} is supplied by the gate; leave it out of the call."
                )
            raise TypeError(
                f"{self.effect}() takes {len(self._positional)} positional arguments but {len(args)} were given"
            )
        given = dict(zip(self._positional, args, strict=False))
        for name, value in kwargs.items():
            if name in given:
                raise TypeError(f"{self.effect}() got multiple values for argument {name!r}")
            if name not in self._names and name not in self._ignored:
                raise TypeError(f"{self.effect}() got an unexpected keyword argument {name!r}")
            given[name] = value
        if len(given) == len(self.names):
            return given
        for name in self._names:
            if name not in given:
                if name not in self._defaults:
                    raise TypeError(f"{self.effect}() missing required argument {name!r}")
                given[name] = self._defaults[name]
        return given

    def _known(self, option: str, given: Any, names: tuple[str, ...]) -> tuple[str, ...]:
        if isinstance(given, str):
            raise ConfigurationError(
                f"effect {self.effect!r}: {option}= is one text; give a tuple of names: ({given!r},)."
            )
        listed = tuple(given or ())
        for name in listed:
            if name not in names:
                raise ConfigurationError(
                    f"effect {self.effect!r}: {option}= names {name!r}, which is not an argument of it. It has: {', '.join(names)}."
                )
        if option == "binds" and not listed:
            raise ConfigurationError(
                f"effect {self.effect!r}: binds= is empty, so any call would count as the same. Name arguments."
            )
        return listed

    def _check_context(self) -> None:
        if self._context is not None and not callable(self._context) and not isinstance(self._context, Mapping):
            raise ConfigurationError(
                f"effect {self.effect!r}: context= is {self._context!r}; give a dict, or a function that returns one."
            )
        offered = self._context if isinstance(self._context, Mapping) else None
        for name in self._ignored:
            in_context = (offered is None and self._context is not None) or (offered is not None and name in offered)
            if name not in self._defaults and not in_context:
                raise ConfigurationError(
                    f"effect {self.effect!r}: ignore= names {name!r}, which recovery after a crash could not supply. Give "
                    f"context={{{name!r}: ...}} (or a function that returns it), or give the argument a default."
                )

    def _from_context(self, wanted: list[str]) -> Mapping[str, Any]:
        context = self._context() if callable(self._context) else self._context
        if context is not None and not isinstance(context, Mapping):
            raise ConfigurationError(
                f"effect {self.effect!r}: context= returned {context!r}; return a dict of arguments."
            )
        return {name: context[name] for name in wanted if name in context} if context else {}


def no_longer_taken(effect: str, unknown: Iterable[str], takes: Iterable[str]) -> str:
    """What to say of arguments that are on the record and that the function does not take."""
    return (
        f"effect {effect!r}: the record holds {', '.join(map(repr, unknown))}, and the function takes {', '.join(takes) or 'nothing'}. It "
        "changed since this was recorded, and without what it no longer takes, another request would be sent. Let it take that again, "
        "with a default, until what is open is settled."
    )


def _signature(function: Callable[..., Any], name: str) -> inspect.Signature:
    if not callable(function):
        raise ConfigurationError(f"@gate.effect goes on a function, not on {function!r}.")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(
            f"effect {name!r}: a generator has no one moment of sending. Give a function that sends and returns."
        )
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ConfigurationError(
                f"effect {name!r}: its parameter {parameter} has no name that the record could keep. "
                "Give every parameter a name and let it be passed by name."
            )
    first = next(iter(signature.parameters), "")
    if first in ("self", "cls") and not inspect.ismethod(function):
        raise ConfigurationError(
            f"effect {name!r} is a method without its object, which could not be found again after a restart. "
            "Gate a function, or the bound method: gate.effect(...)(service.method)."
        )
    return signature


_JSON_TYPES = (str, int, float, bool, dict, list, type(None), Any, object)
"""Annotations that say no more than JSON does: nothing has to be written or read through them."""


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function. One that cannot be resolved is the same as none, and does not cost the others theirs."""
    with contextlib.suppress(Exception):
        return typing.get_type_hints(function, include_extras=True)
    hints: dict[str, Any] = {}
    inner = inspect.unwrap(getattr(function, "__func__", function))
    for name, annotation in getattr(inner, "__annotations__", {}).items():
        alone = types.SimpleNamespace(__annotations__={name: annotation})
        with contextlib.suppress(Exception):
            hints |= typing.get_type_hints(alone, getattr(inner, "__globals__", {}), include_extras=True)
    return hints


def _annotations(
    function: Callable[..., Any], names: tuple[str, ...]
) -> tuple[dict[str, Annotation], Annotation | None]:
    """For each annotated parameter, and for the result, what reads and writes that type."""
    hints = _hints(function)
    found = {
        name: Annotation(hints[name]) for name in (*names, "return") if name in hints and hints[name] not in _JSON_TYPES
    }
    result = found.pop("return", None)
    return found, result
