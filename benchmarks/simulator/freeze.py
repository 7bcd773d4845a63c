"""What a suspended run of the protocol knows, as a hashable value: two runs that freeze alike behave alike from here on.

A generator cannot be copied, but what it will do next follows from where its frames stand and what their locals hold. Both
are read off the real generators. A type that is not known here raises, so that nothing is left out unseen.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from benchmarks.simulator.clock import VirtualClock
from interlock.effects import Entry, History
from interlock.outcomes import Outcome
from interlock.protocol import Patience
from interlock.rules.lifecycle import State

_BOOLEANS = {True: "<true>", False: "<false>"}  # True == 1 would let two values freeze alike


def freeze_run(generator: Generator[Any, Any, Any]) -> tuple[Any, ...]:
    """Where a suspended generator stands, and all of its locals, through every `yield from` below it."""
    frames: list[Any] = []
    current: Any = generator
    while current is not None:
        frame = current.gi_frame
        frames.append((current.gi_code.co_name, frame.f_lasti, freeze(frame.f_locals)))
        current = current.gi_yieldfrom
    return tuple(frames)


def freeze(value: Any) -> Any:
    """The hashable form of a value.

    Raises:
        TypeError: its type is not known here.
    """
    if value is None or (isinstance(value, str | int | float | bytes) and not isinstance(value, bool | Enum)):
        return value
    if isinstance(value, bool):
        return _BOOLEANS[value]
    if isinstance(value, Enum):
        return (type(value).__name__, str(value.value))
    if isinstance(value, History):
        return ("history", value.effect_id, value.head)
    if isinstance(value, Entry):
        return ("entry", value.hash)
    if isinstance(value, State):
        return ("state", *(freeze(part) for part in value))
    if isinstance(value, Outcome):
        return ("outcome", str(value), freeze(value.history), freeze(value.value), value.retry_after, value.owner)
    if isinstance(value, tuple | list):
        return (type(value).__name__, *(freeze(part) for part in value))
    if isinstance(value, Mapping):
        return ("mapping", *((name, freeze(part)) for name, part in value.items()))
    if isinstance(value, BaseException):
        return (type(value).__name__, str(value))
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, VirtualClock) or getattr(value, "is_simulated_target", False):
        return type(value).__name__
    if is_dataclass(value):
        return (type(value).__name__, *(freeze(getattr(value, part.name)) for part in fields(value)))
    if isinstance(value, Patience):
        return (type(value).__name__, *(freeze(getattr(value, part)) for part in Patience.__slots__))
    raise TypeError(f"the simulator does not know how to compare a {type(value).__name__}")
