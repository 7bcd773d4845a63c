"""Canonical bytes and identities. Owns RFC 8785 here; knows nothing of entries or of storage.

A fingerprint must be the same on every machine and in every version of Python, so it is taken over the JSON
Canonicalization Scheme (RFC 8785, by `rfc8785`). What that standard cannot carry is refused, never rounded: NaN, infinities, and
integers of 2^53 and more, which another reader would read as a neighbour.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import rfc8785

from interlock.errors import NotSerializable

_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


def canonical_bytes(value: Any, *, what: str = "value") -> bytes:
    """The RFC 8785 form of a JSON value.

    Raises:
        NotSerializable: NaN, an infinity, an integer of 2^53 or more, or something that is not JSON.
    """
    try:
        return rfc8785.dumps(value)
    except rfc8785.FloatDomainError:
        raise NotSerializable(
            f"{what} holds NaN or an infinity, which JSON cannot carry. Send a finite number, or text."
        ) from None
    except rfc8785.IntegerDomainError:
        raise NotSerializable(
            f"{what} holds an integer of 2^53 or more, which JSON readers round. Pass it as text, or as Decimal."
        ) from None
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as error:
        raise NotSerializable(f"{what} has no JSON form: {error}. Pass plain values.") from None


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
    raw = hashlib.sha256(rfc8785.dumps(parts)).digest()[:15]
    return base64.b32hexencode(raw).decode("ascii").translate(_LOWER)
