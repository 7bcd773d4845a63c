"""Canonical bytes and identities. Owns RFC 8785 here; knows nothing of entries or of storage.

A fingerprint must be the same on every machine and in every version of Python, so it is taken over the JSON
Canonicalization Scheme (RFC 8785, by `rfc8785`). What that standard cannot carry is refused, never rounded: NaN, infinities, and
integers of 2^53 and more, which another reader would read as a neighbour.
"""

from __future__ import annotations

import hashlib
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from interlock.errors import NotSerializable


def canonical_bytes(value: Any, *, what: str = "value") -> bytes:
    """The RFC 8785 form of a JSON value.

    Raises:
        NotSerializable: NaN, an infinity, an integer of 2^53 or more, or something that is not JSON.
    """
    try:
        return to_json(_ordered(value))
    except (_NotSimple, TypeError, PydanticSerializationError, RecursionError):
        pass  # the standard's own library decides, and says what is wrong
    import rfc8785  # here, since most values never come this far

    try:
        return rfc8785.dumps(value)
    except rfc8785.FloatDomainError:
        raise NotSerializable(
            f"{what} holds NaN or an infinity, which JSON cannot carry. Send a finite number, or text."
        ) from None
    except (rfc8785.CanonicalizationError, ValueError, RecursionError) as error:
        # Of an integer that is too long even to be shown, that library raises a bare ValueError.
        if isinstance(error, rfc8785.IntegerDomainError) or type(error) is ValueError:
            raise NotSerializable(
                f"{what} holds an integer of 2^53 or more, which JSON readers round. Pass it as text, or as Decimal."
            ) from None
        raise NotSerializable(f"{what} has no JSON form: {error}. Pass plain values.") from None


class _NotSimple(Exception):
    """A value for which the quick way is not sure to give the canonical bytes."""


def _ordered(value: Any) -> Any:
    """The value with its keys in canonical order, if it holds nothing but texts, whole numbers, true, false and null under ASCII names.

    For those pydantic's JSON is the canonical form, at a tenth of the time: texts are escaped in the same way, and ASCII keys
    have one order. Floats are written differently, and other keys ordered differently. A test compares the two.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is int and -_MOST < value < _MOST:
        return value
    if kind is dict:
        ordered = {}
        for key in sorted(value) if len(value) > 1 else value:
            if type(key) is not str or not key.isascii():
                raise _NotSimple
            item = value[key]
            ordered[key] = item if type(item) is str else _ordered(item)  # texts are most of what there is
        return ordered
    if kind is list:
        return [item if type(item) is str else _ordered(item) for item in value]
    raise _NotSimple


_MOST = 2**53


def digest(value: Any, *, what: str = "value") -> str:
    """SHA-256 over the canonical bytes, lower-case hex.

    Raises:
        NotSerializable: as `canonical_bytes`.
    """
    return hashlib.sha256(canonical_bytes(value, what=what)).hexdigest()


def derive_id(effect: str, key: str, attempt: int = 1) -> str:
    """The effect id (attempt 1), or the idempotency key of a later attempt.

    The first 120 bits of SHA-256 over the canonical JSON array `[effect, key]` (later attempts: `[effect, key, attempt]`),
    in lower-case base32hex: 24 characters out of `0-9a-v`, legal as a key or as an object id at every service we know.
    """
    parts: list[Any] = [effect, key] if attempt == 1 else [effect, key, attempt]
    number = int.from_bytes(hashlib.sha256(canonical_bytes(parts)).digest()[:15], "big")
    return "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])


_DIGITS = "0123456789abcdefghijklmnopqrstuv"
_PAIRS = [first + second for first in _DIGITS for second in _DIGITS]
_SHIFTS = range(110, -1, -10)
