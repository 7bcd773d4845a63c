"""Idempotency keys, by the rules of docs.stripe.com/api/idempotent_requests and docs.stripe.com/error-low-level.

Owns what a key means. Must not know what the request does.

    key unknown or past its window   -> the request executes; its answer is remembered with what it did, in one transaction
    known, same path and parameters  -> the remembered status and body again, and nothing executes
    known, another path or parameter -> 400 idempotency_error
    executing right now              -> 409 idempotency_key_in_use

Remembered is every answer of an endpoint that began to execute, a 402 and a 500 too. Not remembered: what was refused
before that (wrong parameters, 401, 409, an unknown endpoint).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.services.stripe.clock import ServiceClock
from benchmarks.services.stripe.errors import invalid, key_in_use, key_reused
from benchmarks.services.stripe.ledger import Ledger

WINDOW_S = 24 * 60 * 60
"""Keys may be pruned once they are at least this old. This service prunes at exactly this age."""

MAX_LENGTH = 255


@dataclass(frozen=True, kw_only=True)
class Keyed:
    """What binds a key: who used it, where, and with which parameters."""

    account: str
    key: str
    path: str
    params: dict[str, Any]

    @property
    def fingerprint(self) -> str:
        """The parameters in one line; the order in which they were sent does not matter."""
        return hashlib.sha256(json.dumps(self.params, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Remembered:
    """An answer from the past, and the id of the request that first got it."""

    status: int
    body: str
    request_id: str


class Keys:
    """The keys of one service.

    Which keys are executing is known in memory only: when the process dies, nothing is executing any more.
    """

    def __init__(self, ledger: Ledger, clock: ServiceClock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._executing: set[tuple[str, str]] = set()

    @contextlib.contextmanager
    def held(self, keyed: Keyed) -> Iterator[Remembered | None]:
        """Hold the key while its request executes; gives the remembered answer if there is one.

        Raises:
            ApiError: 400 or 409; nothing may execute.
        """
        if not keyed.key or len(keyed.key) > MAX_LENGTH:
            raise invalid(f"Idempotency keys have 1 to {MAX_LENGTH} characters, this one {len(keyed.key)}.")
        name = (keyed.account, keyed.key)
        if name in self._executing:
            raise key_in_use(keyed.key)
        remembered = self._remembered(keyed)
        self._executing.add(name)
        try:
            yield remembered
        finally:
            self._executing.discard(name)

    def remember(self, keyed: Keyed, *, status: int, body: str, request_id: str) -> None:
        """Remember an answer. To be called inside the transaction that holds what the request did."""
        self._ledger.remember_key(
            keyed.account,
            keyed.key,
            path=keyed.path,
            fingerprint=keyed.fingerprint,
            request_id=request_id,
            status=status,
            body=body,
            created_at=self._clock.now(),
        )

    def _remembered(self, keyed: Keyed) -> Remembered | None:
        row = self._ledger.find_key(keyed.account, keyed.key)
        if row is None or self._clock.now() - row["created_at"] >= WINDOW_S:
            return None
        if row["path"] != keyed.path:
            bound = f"for the same endpoint they were first used for ('{keyed.path}' vs '{row['path']}')"
            raise key_reused(keyed.key, bound=bound)
        if row["fingerprint"] != keyed.fingerprint:
            raise key_reused(keyed.key, bound="with the same parameters they were first used with")
        return Remembered(status=row["status"], body=row["body"], request_id=row["request_id"])
