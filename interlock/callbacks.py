"""Callbacks: functions of the user that take a subset of an effect's arguments by name. Owns how they are checked and called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from interlock.errors import ConfigurationError

KEY_ARGUMENT = "idempotency_key"
"""The argument that the gate supplies. A function or a callback takes it by naming it."""


RESULT_ARGUMENT = "value"
"""The argument by which a callback that is asked after the send takes what the function returned."""


def named(offered: Iterable[str]) -> str:
    """What a callback may take, in words, with what the one is that is no argument of the effect."""
    return ", ".join(f"{name} (what it is sent under)" if name == KEY_ARGUMENT else name for name in offered)


class Callback:
    """A function of the user, called with those of the available arguments that it names.

    Args:
        function: sync or async.
        role: what it is for: `key`, `premises`, ...; used in errors.
        effect: name of the effect, for errors.
        available: names of the arguments it may take.

    Raises:
        ConfigurationError: it needs an argument that it cannot get, or its signature cannot be read.
    """

    __slots__ = ("_optional", "_takes_all", "function", "is_async", "required", "role")

    def __init__(self, function: Callable[..., Any], *, role: str, effect: str, available: Iterable[str]) -> None:
        offered = tuple(available)
        if not callable(function):
            raise ConfigurationError(
                f"effect {effect!r}: {role}= is {function!r}, which cannot be called. Give a function."
            )
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            raise ConfigurationError(
                f"effect {effect!r}: the signature of {role}= cannot be read. Wrap it: {role}=lambda {', '.join(offered)}: ..."
            ) from None
        names: list[str] = []
        required: list[str] = []
        takes_all = False
        for parameter in parameters:
            if parameter.kind is parameter.VAR_KEYWORD:
                takes_all = True
            elif parameter.kind is parameter.VAR_POSITIONAL or parameter.kind is parameter.POSITIONAL_ONLY:
                raise ConfigurationError(
                    f"effect {effect!r}: {role}= takes {parameter} by position; arguments are given by name. "
                    f"Name those you need out of: {named(offered)}."
                )
            elif parameter.name in offered:
                names.append(parameter.name)
                if parameter.default is parameter.empty:
                    required.append(parameter.name)
            elif parameter.default is parameter.empty:
                raise ConfigurationError(
                    f"effect {effect!r}: {role}= asks for {parameter.name!r}, which the effect does not have. "
                    f"It may take any of: {named(offered)}."
                )
        self.function = function
        self.role = role
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an object whose call is async
        )
        self.required = tuple(required)
        self._optional = tuple(name for name in names if name not in required)
        self._takes_all = takes_all

    def takes(self, name: str) -> bool:
        """Whether it is given this argument."""
        return self._takes_all or name in self.required or name in self._optional

    def names(self, name: str) -> bool:
        """Whether it asks for this argument by its name, and not for whatever there is."""
        return name in self.required or name in self._optional

    def __call__(self, arguments: Mapping[str, Any]) -> Any:
        """Call it with what it names out of `arguments`."""
        if self._takes_all:
            return self.function(**arguments)
        given = {name: arguments[name] for name in self.required}
        for name in self._optional:
            if name in arguments:
                given[name] = arguments[name]
        return self.function(**given)
