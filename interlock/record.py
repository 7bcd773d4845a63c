"""Records: frozen dataclasses that share their methods. Owns `record`, and knows none of them.

`dataclass(frozen=True)` writes and compiles six methods for each class, at 0.5 to 1.5 ms a class, whenever a process starts; a process
that comes back after a crash does that before it can look at what was left open. A record has the fields and the behaviour of a
frozen dataclass (`dataclasses.fields`, `replace` and `asdict` take it), by methods that read its fields when they are called.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, FrozenInstanceError, dataclass
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any


class _Methods:
    __dataclass_fields__: dict[str, Field[Any]]
    __match_args__: tuple[str, ...]

    def __init__(self, /, *values: Any, **named: Any) -> None:
        init = f"{type(self).__name__}.__init__()"
        fields, by_place, state = self.__dataclass_fields__, self.__match_args__, self.__dict__
        if len(values) > len(by_place):
            raise TypeError(f"{init} takes {len(by_place)} positional arguments but {len(values)} were given")
        state.update(zip(by_place, values, strict=False))
        for name in named:
            if name not in fields:
                raise TypeError(f"{init} got an unexpected keyword argument {name!r}")
            if name in state:
                raise TypeError(f"{init} got multiple values for argument {name!r}")
        state.update(named)
        for name, field in fields.items():
            if name in state:
                continue
            if field.default is not MISSING:
                state[name] = field.default
            elif field.default_factory is not MISSING:
                state[name] = field.default_factory()
            else:
                raise TypeError(f"{init} missing a required argument: {name!r}")
        check = getattr(self, "__post_init__", None)
        if check is not None:
            check()

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


__all__ = ["record"]

_SHARED = ("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__")

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:

    def record(*, frozen: bool, kw_only: bool = False) -> Any:
        """As `dataclass(frozen=True, kw_only=...)`, which is what a type checker takes it for."""
        assert frozen, "a record cannot be changed"

        def made(cls: type) -> type:
            dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
            cls.__dataclass_params__.frozen = True  # else a frozen dataclass could not inherit from it
            for name in _SHARED:
                setattr(cls, name, getattr(_Methods, name))
            return cls

        return made
