"""Parameters: from the form encoding of the wire to checked Python values, refusing what is not known.

Owns the words Stripe uses for a wrong parameter (docs.stripe.com/error-codes). Everything refused here is refused before
an endpoint executes. Must not know what is stored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import parse_qsl

from benchmarks.services.stripe.errors import ApiError, invalid
from benchmarks.services.stripe.objects import CURRENCIES

Raw = dict[str, Any]
"""Nested mappings with text at the leaves, as the wire has it; a list is a mapping from its positions."""

_NAME = re.compile(r"[^\[\]]+|\[[^\[\]]*\]")
_WHOLE = re.compile(r"-?\d{1,18}")


def decode(encoded: str) -> Raw:
    """Form encoding with brackets, nested: `metadata[order]=7` becomes `{"metadata": {"order": "7"}}`.

    Raises:
        ApiError: One name is used as a value and as a group.
    """
    tree: Raw = {}
    for name, value in parse_qsl(encoded, keep_blank_values=True):
        parts = [part.strip("[]") for part in _NAME.findall(name)] or [name]
        place = tree
        for part in parts[:-1]:
            branch = place.setdefault(part, {})
            if not isinstance(branch, dict):
                raise invalid(f"Invalid parameter: {name} is given as a value and as a group.", param=name)
            place = branch
        last = parts[-1] or str(len(place))
        if isinstance(place.get(last), dict):
            raise invalid(f"Invalid parameter: {name} is given as a value and as a group.", param=name)
        place[last] = value
    return tree


class Check(Protocol):
    """Turns what the wire has into a value, or refuses it under the parameter's full name."""

    def __call__(self, raw: Any, name: str, /) -> Any: ...


def text(raw: Any, name: str) -> str:
    """Text that is not empty."""
    if not isinstance(raw, str):
        raise invalid("Invalid string: expected text, not a group.", param=name)
    if not raw:
        raise invalid(
            f"You passed an empty string for '{name}'. We assume empty values are an attempt to unset a parameter; "
            f"however '{name}' cannot be unset. You should remove '{name}' from your request or supply a non-empty value.",
            code="parameter_invalid_empty",
            param=name,
        )
    return raw


def flag(raw: Any, name: str) -> bool:
    """`true` or `false`."""
    if raw not in ("true", "false"):
        raise invalid(f"Invalid boolean: {raw}", param=name)
    return bool(raw == "true")


def texts(raw: Any, name: str) -> list[str]:
    """A list of texts."""
    if not isinstance(raw, dict):
        raise invalid("Invalid array", param=name)
    return [text(value, f"{name}[{position}]") for position, value in raw.items()]


def currency(raw: Any, name: str) -> str:
    """A currency the service knows, in lower case (docs.stripe.com/currencies)."""
    word = text(raw, name).lower()
    if word not in CURRENCIES:
        raise invalid(
            f"Invalid currency: {word}. This local service supports these currencies: {', '.join(CURRENCIES)}",
            param=name,
        )
    return word


def optional(check: Check) -> Check:
    """The same check, for a field that an empty text unsets."""
    return lambda raw, name: None if raw == "" else check(raw, name)


@dataclass(frozen=True)
class Whole:
    """A whole number within bounds."""

    minimum: int
    maximum: int

    def __call__(self, raw: Any, name: str) -> int:
        """Check it."""
        if not isinstance(raw, str) or not _WHOLE.fullmatch(raw):
            raise invalid(f"Invalid integer: {raw}", code="parameter_invalid_integer", param=name)
        number = int(raw)
        if number < self.minimum:
            bound = f"greater than or equal to {self.minimum}"
        elif number > self.maximum:
            bound = f"less than or equal to {self.maximum}"
        else:
            return number
        raise invalid(f"This value must be {bound}.", code="parameter_invalid_integer", param=name)


@dataclass(frozen=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]

    def __call__(self, raw: Any, name: str) -> str:
        """Check it."""
        word = text(raw, name)
        if word not in self.words:
            listed = ", ".join(self.words[:-1]) + (f", or {self.words[-1]}" if len(self.words) > 1 else self.words[0])
            raise invalid(f"Invalid {name}: must be one of {listed}", param=name)
        return word


@dataclass(frozen=True)
class Group:
    """Parameters inside a parameter."""

    fields: Mapping[str, Check]
    needs: tuple[str, ...] = ()

    def __call__(self, raw: Any, name: str) -> dict[str, Any]:
        """Check them all."""
        if not isinstance(raw, dict):
            raise invalid("Invalid object", param=name)
        for inner in self.needs:
            if inner not in raw:
                raise invalid(
                    f"Missing required param: {name}[{inner}].", code="parameter_missing", param=f"{name}[{inner}]"
                )
        for inner in raw:
            if inner not in self.fields:
                raise unknown(f"{name}[{inner}]")
        return {inner: self.fields[inner](value, f"{name}[{inner}]") for inner, value in raw.items()}


@dataclass(frozen=True)
class Rows:
    """A list of groups."""

    row: Check

    def __call__(self, raw: Any, name: str) -> list[Any]:
        """Check every one."""
        if not isinstance(raw, dict):
            raise invalid("Invalid array", param=name)
        return [self.row(value, f"{name}[{position}]") for position, value in raw.items()]


UNSET_ALL = {"": ""}
"""What `metadata` gives for an empty text in place of the whole."""


def metadata(raw: Any, name: str) -> dict[str, str]:
    """Up to 50 names of up to 40 characters, values of up to 500; an empty text in place of it all, or of one value, unsets.

    docs.stripe.com/api/metadata.
    """
    if raw == "":
        return dict(UNSET_ALL)
    if not isinstance(raw, dict) or not all(isinstance(value, str) for value in raw.values()):
        raise invalid("Metadata is a set of key-value pairs of text.", param=name)
    if len(raw) > 50:
        raise invalid(f"Metadata can have at most 50 keys, not {len(raw)}.", param=name)
    for key, value in raw.items():
        if len(key) > 40 or len(value) > 500:
            raise invalid(
                f"Metadata keys can have up to 40 characters and values up to 500; '{key[:40]}' does not fit.",
                param=f"{name}[{key[:40]}]",
            )
    return dict(raw)


def created(raw: Any, name: str) -> dict[str, int]:
    """A moment, or bounds on it; as bounds."""
    moment = Whole(0, 2**40)
    if isinstance(raw, dict):
        return Group({"gt": moment, "gte": moment, "lt": moment, "lte": moment})(raw, name)
    exactly = moment(raw, name)
    return {"gte": exactly, "lte": exactly}


def unknown(name: str) -> ApiError:
    """A parameter nobody reads is refused, never dropped."""
    return invalid(f"Received unknown parameter: {name}", code="parameter_unknown", param=name)


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """What an endpoint takes.

    Attributes:
        takes: The parameters it reads, and how each is checked.
        needs: Those without which it cannot do anything.
        unmodelled: Parameters that real Stripe takes and this service does not: refused, and the message says so.
    """

    takes: Mapping[str, Check]
    needs: tuple[str, ...] = ()
    unmodelled: frozenset[str] = frozenset()

    def check(self, raw: Raw) -> dict[str, Any]:
        """The checked values of what was sent.

        Raises:
            ApiError: Something is unknown, missing or wrong.
        """
        for name in raw:
            if name in self.unmodelled:
                raise invalid(
                    f"Received unknown parameter: {name}. Stripe knows it, but this local service does not model it and "
                    "will not ignore it.",
                    code="parameter_unknown",
                    param=name,
                )
            if name not in self.takes:
                raise unknown(name)
        for name in self.needs:
            if name not in raw:
                raise invalid(f"Missing required param: {name}.", code="parameter_missing", param=name)
        return {name: self.takes[name](value, name) for name, value in raw.items()}
