"""Records and named tuples that cost little to define. Owns `record` and `NamedTuple`, and knows none of the classes made with them.

A process that comes back after a crash defines its classes before it can look at what was left open. `dataclass(frozen=True)` writes and
compiles six methods for each class, at 0.5 to 1.5 ms a class. A record has the fields and the behaviour of a frozen dataclass
(`dataclasses.fields`, `replace` and `asdict` take it), by methods that read its fields when they are called. `typing.NamedTuple` compiles
a constructor for each class, and every annotation once more, at 0.13 ms a class; the one of here has one constructor for all.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass
from inspect import Parameter, Signature
from operator import itemgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, NoReturn


class _Methods:
    __dataclass_fields__: dict[str, Field[Any]]
    __match_args__: tuple[str, ...]
    _defaults: tuple[dict[str, Any], list[tuple[str, Callable[[], Any]]]]

    def __init__(self, /, *values: Any, **named: Any) -> None:
        fields, by_place, state = self.__dataclass_fields__, self.__match_args__, self.__dict__
        defaults, makers = self._defaults
        state.update(defaults)
        for name, make in makers:
            if name not in named:
                state[name] = make()
        state.update(zip(by_place, values, strict=False))
        state.update(named)
        # What is missing leaves the state short, and what is unknown or given twice shows among the names.
        if (
            len(values) > len(by_place)
            or len(state) != len(fields)
            or not (named.keys() <= fields.keys() and named.keys().isdisjoint(by_place[: len(values)]))
        ):
            self._refuse(values, named)
        check = getattr(self, "__post_init__", None)
        if check is not None:
            check()

    def _refuse(self, values: tuple[Any, ...], named: Mapping[str, Any]) -> NoReturn:
        """Raise what is wrong with the arguments of `__init__`."""
        init = f"{type(self).__name__}.__init__()"
        fields, by_place = self.__dataclass_fields__, self.__match_args__
        if len(values) > len(by_place):
            raise TypeError(f"{init} takes {len(by_place)} positional arguments but {len(values)} were given")
        for name in named:
            if name not in fields:
                raise TypeError(f"{init} got an unexpected keyword argument {name!r}")
            if name in by_place[: len(values)]:
                raise TypeError(f"{init} got multiple values for argument {name!r}")
        missing = next(name for name in fields if name not in self.__dict__)
        raise TypeError(f"{init} missing a required argument: {missing!r}")

    @recursive_repr()
    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name, field in self.__dataclass_fields__.items() if field.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        return _compared(self) == _compared(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(_compared(self))

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")


def _compared(one: Any) -> tuple[Any, ...]:
    """What a record is compared by."""
    return tuple(getattr(one, name) for name, field in one.__dataclass_fields__.items() if field.compare)


__all__ = ["NamedTuple", "record"]

_SHARED = ("__init__", "_refuse", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__")

if TYPE_CHECKING:
    from dataclasses import dataclass as record
    from typing import NamedTuple
else:
    # What `collections.namedtuple` reads a field by, while it has that.
    _getter = getattr(collections, "_tuplegetter", lambda place, doc: property(itemgetter(place), doc=doc))

    class _Signature:
        """A class's `__signature__`, made when somebody looks."""

        def __get__(self, one: object, kind: type[_Tuple]) -> Signature:
            places = [
                Parameter(
                    name, Parameter.POSITIONAL_OR_KEYWORD, default=kind._field_defaults.get(name, Parameter.empty)
                )
                for name in kind._fields
            ]
            return Signature(places)

    class _Tuple(tuple):
        __slots__ = ()
        __signature__ = _Signature()
        _fields = ()
        _field_defaults = {}  # noqa: RUF012 - each class has its own
        _last = ()  # its defaults, in the order of its fields

        def __new__(cls, /, *values: Any, **named: Any) -> Any:
            short = len(cls._fields) - len(values)
            if named or short < 0 or short > len(cls._last):
                values = _filled(cls, values, named)
            elif short:
                values += cls._last[-short:]
            return tuple.__new__(cls, values)

        @classmethod
        def _make(cls, values: Iterable[Any]) -> Any:
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"expected {len(cls._fields)} values, got {len(made)}")
            return made

        def _replace(self, /, **named: Any) -> Any:
            made = tuple.__new__(type(self), map(named.pop, self._fields, self))
            if named:
                raise ValueError(f"no fields: {', '.join(named)}")
            return made

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

    def _filled(cls: type[_Tuple], values: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """All values of a named tuple: those by place, then those by name, then the defaults."""
        rest = cls._fields[len(values) :]
        given = {**cls._field_defaults, **named}
        if len(values) > len(cls._fields) or not named.keys() <= set(rest) or not given.keys() >= set(rest):
            raise TypeError(
                f"{cls.__name__} takes {', '.join(cls._fields)}; given were {values!r:.200} and {named!r:.200}"
            )
        return values + tuple([given[name] for name in rest])

    class _Named(type):
        def __new__(mcs, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
            if not bases:
                return super().__new__(mcs, name, bases, body)
            fields = tuple(body["__annotations__"])
            defaults = {field: body[field] for field in fields if field in body}
            if len(bases) > 1 or tuple(defaults) != fields[len(fields) - len(defaults) :]:
                raise TypeError(
                    f"{name}: a named tuple has no other base, and no field without a default after one with"
                )
            body |= {field: _getter(place, None) for place, field in enumerate(fields)}
            body |= {"__slots__": (), "__match_args__": fields, "_fields": fields}
            body |= {"_field_defaults": defaults, "_last": tuple(defaults.values())}
            return type(name, (_Tuple,), body)

    class NamedTuple(metaclass=_Named):
        """As `typing.NamedTuple`, which is what a type checker takes it for."""

    def record(*, frozen: bool, kw_only: bool = False) -> Any:
        """As `dataclass(frozen=True, kw_only=...)`, which is what a type checker takes it for."""
        assert frozen, "a record cannot be changed"

        def made(cls: type) -> type:
            dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
            cls.__dataclass_params__.frozen = True  # else a frozen dataclass could not inherit from it
            for name in _SHARED:
                setattr(cls, name, getattr(_Methods, name))
            fields = cls.__dataclass_fields__.values()
            cls._defaults = (
                {field.name: field.default for field in fields if field.default is not MISSING},
                [(field.name, field.default_factory) for field in fields if field.default_factory is not MISSING],
            )
            return cls

        return made
