"""Cases: what a call is about, kept as plain data so that the callbacks can be asked about it again after a restart.

A case may be a dataclass, a pydantic model, a dict, a text or a number. It is written to the journal in its JSON form, and every callback
gets what was written, on the first call too: the class that `case=` (or the annotation of `key=`) names, else a `CaseView`.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

import pydantic
from pydantic_core import PydanticSerializationError, to_jsonable_python

from interlock.callbacks import named
from interlock.errors import BadInput, ConfigurationError


class CaseView(dict[str, Any]):
    """The fields of a case, read as items or as attributes: `case["order"]`, `case.order`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self:
            raise AttributeError(
                f"this case has no {name!r}; on the record it has: {', '.join(self) or 'nothing'}. A method or a property of its class "
                "is there once the class is named: case=YourClass."
            )
        value = self[name]
        return CaseView(value) if isinstance(value, dict) else value


def plain(case: Any, effect: str) -> Any:
    """The JSON form of a case.

    Raises:
        BadInput: it has none, or is nothing.
    """
    if case is None or case == "":
        raise BadInput(f"effect {effect!r}: the call names no case. Pass what it is about. Nothing was sent.")
    if isinstance(case, float):
        raise BadInput(f"effect {effect!r}: the case is {case!r}; a float names nothing. Nothing was sent.")
    try:
        return to_jsonable_python(case, inf_nan_mode="constants")
    except (PydanticSerializationError, ValueError, TypeError) as error:
        raise BadInput(
            f"effect {effect!r}: the case, a {type(case).__name__}, cannot be written down: {error}. Pass a dataclass, a pydantic model, "
            "a dict or a text. Nothing was sent."
        ) from error


class CaseReader:
    """Gives callbacks their case.

    Args:
        kind: the class that cases are rebuilt as; None for a `CaseView`.
    """

    def __init__(self, kind: type[Any] | None, *, key: Callable[..., Any], effect: str) -> None:
        self._adapter: pydantic.TypeAdapter[Any] | None = None
        kind = kind if kind is not None else _annotated(key)
        if kind is None or kind is Any or kind in (dict, str, int):
            return
        try:
            self._adapter = pydantic.TypeAdapter(kind)
        except Exception as error:
            raise ConfigurationError(
                f"effect {effect!r}: case= is {kind!r}, which pydantic cannot build: {error}. Name a dataclass or a pydantic model."
            ) from error

    def read(self, written: Any) -> Any:
        """The case from its JSON form."""
        if self._adapter is not None:
            return self._adapter.validate_python(written)
        return CaseView(written) if isinstance(written, dict) else written


class CaseCallback:
    """A user's callback: the case first, whatever that parameter is called, then what else it names.

    Args:
        function: sync or async.
        role: which option it is; used in errors.
        effect: name of the effect.
        offered: names it may take beside the case.
        reader: rebuilds the case.
        may_wait: whether it may be async. What names a request may not: it is a function of the case alone.

    Raises:
        ConfigurationError: it is no function, asks for what it cannot get, or is async where it may not be.
    """

    def __init__(
        self,
        function: Any,
        *,
        role: str,
        effect: str,
        offered: tuple[str, ...],
        reader: CaseReader,
        may_wait: bool = True,
    ) -> None:
        if not callable(function):
            raise ConfigurationError(
                f"effect {effect!r}: {role}= is {function!r}; give a function of the case, e.g. {role}=lambda case: ..."
            )
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            raise ConfigurationError(
                f"effect {effect!r}: the signature of {role}= cannot be read; wrap it in a lambda."
            ) from None
        positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self._takes_case = bool(positional) and (positional[0].name not in offered)
        rest = parameters[1:] if self._takes_case else parameters
        self._names: list[str] = []
        for parameter in rest:
            if parameter.name in offered:
                self._names.append(parameter.name)
            elif parameter.default is parameter.empty:
                raise ConfigurationError(
                    f"effect {effect!r}: {role}= asks for {parameter.name!r}. It gets the case first, and by name any of: "
                    f"{named(offered)}."
                )
        self.role = role
        self._function = function
        self._reader = reader
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - not whether it can be called, but how
        )
        self._must_be_plain = (
            None if may_wait else f"effect {effect!r}: {role}= must not be async: it may only look at the case."
        )
        if self.is_async and self._must_be_plain:
            raise ConfigurationError(
                f"{self._must_be_plain} Read what it needs before the call, and put it in the case."
            )

    def __call__(self, case: Any, given: Mapping[str, Any]) -> Any:
        """Ask it."""
        named = {name: given[name] for name in self._names}
        answer = self._function(self._reader.read(case), **named) if self._takes_case else self._function(**named)
        if self._must_be_plain and inspect.isawaitable(answer):
            if inspect.iscoroutine(answer):
                answer.close()
            raise BadInput(f"{self._must_be_plain} It answered {answer!r:.100}. Nothing was sent.")
        return answer


def _annotated(function: Callable[..., Any]) -> type[Any] | None:
    """The class that a function's first parameter is annotated with, if any."""
    try:
        first = next(iter(inspect.signature(function).parameters))
        hint = typing.get_type_hints(function).get(first)
    except Exception:  # noqa: BLE001 - an annotation that cannot be resolved is the same as none
        return None
    return hint if isinstance(hint, type) else None
