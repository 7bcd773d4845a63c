"""Naming: how a field is named by a path, what stands for the idempotency key, and what a name that does not exist is told as.

Owns how a path is followed into data. It must not know a configuration, nor how a tool is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from interlock.errors import BadInput

JOURNAL = ".interlock"
"""The directory of the journal, where none is named."""
EFFECT_ID = "$effect_id"
"""Stands for the idempotency key of the effect, where a tool's arguments are named."""


class NotAsConfigured(Exception):
    """What a tool answered has not the form that the configuration says: the same call will not help, an operator has to look."""


class NotThere(NotAsConfigured, LookupError):
    """A path leads to nothing: the answer has no such field."""


def steps_of(text: str) -> tuple[str, ...]:
    """The steps of a path such as `refund.total` or `items.0.id`.

    Raises:
        ValueError: it is malformed.
    """
    steps = tuple(text.split("."))
    if text.startswith("$"):
        raise ValueError(
            f'{text!r} is none of ours; the one name with a $ is {EFFECT_ID}. A plain text is {{"literal": ...}}'
        )
    if not all(step and step == step.strip() for step in steps):
        raise ValueError(f'{text!r} is no path; write names with single dots, such as "refund.total" or "items.0.id"')
    return steps


def follow(data: Any, path: str, *, of: str) -> Any:
    """What a path leads to.

    Raises:
        NotThere: nothing is there. A field that is missing is never the same as one that is empty.
    """
    for step in steps_of(path):
        if isinstance(data, Mapping) and step in data:
            data = data[step]
        elif (
            isinstance(data, Sequence)
            and not isinstance(data, str | bytes)
            and step.isdecimal()
            and int(step) < len(data)
        ):
            data = data[int(step)]
        else:
            has = (
                f"it has: {', '.join(map(str, data))}"
                if isinstance(data, Mapping)
                else f"there is {type(data).__name__}"
            )
            raise NotThere(f"{of} has no {path!r}: {step!r} is missing ({has:.200})")
    return data


def argument_at(path: str, arguments: Mapping[str, Any]) -> Any:
    """An argument of the call, or a part of one.

    Raises:
        BadInput: the model left it out.
        NotThere: it has no such part.
    """
    if path.partition(".")[0] not in arguments:
        raise BadInput(f"the argument {path!r} is missing.")
    return follow(arguments, path, of="the call")


def instead_of(name: str, choices: Iterable[str], *, there_are: str = "there are", end: str = ".") -> str:
    """The half sentence that helps with a name that does not exist: the one that was probably meant, or what there is."""
    import difflib  # here, since it takes a millisecond that only a mistake needs

    known = list(choices)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"{there_are}: {', '.join(known) or 'none'}{end}"
