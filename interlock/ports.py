"""Contracts between the gate and the world: the clock, the target of an effect, and what liveness means.

Nothing here does I/O. `Target` is what the protocol knows of an effect function; the decorator and the ready-made targets fill it in.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from interlock.record import NamedTuple


class Liveness(StrEnum):
    """What can be proven about the sender that holds a claim.

    ALIVE: it may be sending now, even if stopped or hung. Never taken over.
    GONE: it provably sends no more, but what it sent last may still be on its way.
    ENDED: it provably sends no more, and nothing it sent is on its way.
    CUT_OFF: nothing can be proven (its lock file was removed; its session ended): it may send until its `send_deadline`.
    """

    ALIVE = "ALIVE"
    GONE = "GONE"
    ENDED = "ENDED"
    CUT_OFF = "CUT_OFF"


class Uptime(NamedTuple):
    """A reading of the clock that nobody can set.

    Attributes:
        boot: names this boot of this machine; readings of different boots cannot be compared. Empty when it cannot be told.
        seconds: seconds since some moment of this boot, counting sleep where the system can.
    """

    boot: str
    seconds: float


class Clock(Protocol):
    """The one clock of a gate. Read for windows, deadlines and reports; never to decide that a process is dead."""

    def now(self) -> datetime:
        """The wall clock, aware, UTC. May jump."""

    def uptime(self) -> Uptime:
        """The clock that nobody sets."""

    def sleep(self, seconds: float) -> None:
        """Wait, blocking this thread."""

    async def asleep(self, seconds: float) -> None:
        """Wait, without blocking the event loop."""


@lru_cache(maxsize=1)
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        """The wall clock, aware, UTC."""
        return datetime.now(UTC)

    def uptime(self) -> Uptime:
        """Seconds since boot, counting sleep where the system offers it; the boot is named on Linux only."""
        return Uptime(_boot_id(), time.clock_gettime(_BOOTTIME) if _BOOTTIME is not None else time.monotonic())

    def sleep(self, seconds: float) -> None:
        """Wait, blocking this thread."""
        time.sleep(seconds)

    async def asleep(self, seconds: float) -> None:
        """Wait, without blocking the event loop."""
        await asyncio.sleep(seconds)


class Verdict(StrEnum):
    """What a raised exception says about whether the effect landed."""

    NOT_SENT = "not_sent"
    REJECTED = "rejected"
    IN_USE = "in_use"
    UNKNOWN = "unknown"


class Capabilities(NamedTuple):
    """What a service can do for recovery, as declared. A tier is derived from this, never guessed.

    Attributes:
        dedupes: the service drops a second request with the same idempotency key.
        window_s: how long it remembers a key, in seconds.
        can_look_up: our own effect can be found by its idempotency key.
        lookup_lag_s: how long after a send a look-up may still miss it, in seconds.
        settle_after_s: once the sender is known gone, how long its last request may still be on its way, in seconds.
        timeout_s: the longest a send may take, in seconds; with `settle_after_s`, the margin kept at the end of the window.
        passes_key: the service gets the idempotency key.
        looks_up_by_key: the look-up asks for that key.
    """

    dedupes: bool
    window_s: float
    can_look_up: bool
    lookup_lag_s: float
    settle_after_s: float
    timeout_s: float
    passes_key: bool = True
    looks_up_by_key: bool = True

    @property
    def tier(self) -> int:
        """1: dedupes on a key. 2: can be looked up. 3: neither."""
        return 1 if self.dedupes else 2 if self.can_look_up else 3


class WatchFor(NamedTuple):
    """How an accepted effect is watched.

    Attributes:
        for_s: for how long from its acceptance on, in seconds.
        references: ids of the service's under which an event can find it.
    """

    for_s: float
    references: tuple[str, ...] = ()


class Target(Protocol):
    """What the gate knows of an effect function.

    `read_facts`, `is_allowed`, `look_up` and `send` may answer with a value or with an awaitable of it; `is_async` tells which.
    """

    @property
    def name(self) -> str:
        """Name of the effect, stable across restarts."""

    @property
    def capabilities(self) -> Capabilities:
        """What its service can do."""

    @property
    def binds(self) -> Collection[str] | None:
        """The arguments that must not change under one key; None means all."""

    def defaults(self) -> Mapping[str, Any]:
        """In encoded form, what an argument is for a call that was recorded before there was one."""

    def conditions(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        """For each premise with a declared condition, that condition (`rules.premises.Condition`) for this call."""

    @property
    def has_premises(self) -> bool:
        """Whether there are facts to read."""

    @property
    def has_authority(self) -> bool:
        """Whether anybody is asked for permission."""

    @property
    def has_budget(self) -> bool:
        """Whether a cap may be shared with other effects."""

    def is_async(self, role: str) -> bool:
        """Whether `role` (`premises`, `allowed`, `budget`, `lookup`, `send`) answers without blocking: with an awaitable."""

    def read_facts(self, payload: Mapping[str, Any], idempotency_key: str) -> Any:
        """The premises as they are now, in encoded form."""

    def is_allowed(self, payload: Mapping[str, Any], idempotency_key: str) -> Any:
        """Whether the effect is allowed now."""

    def read_budgets(self, payload: Mapping[str, Any], idempotency_key: str) -> Any:
        """The budgets of this call, a tuple of `rules.budgets.Budget`."""

    def look_up(self, payload: Mapping[str, Any], idempotency_key: str) -> Any:
        """Our own effect as the service has it, or None/False."""

    def watch(self, payload: Mapping[str, Any], idempotency_key: str, written: Any) -> WatchFor | None:
        """How to watch what has just landed, or None if the effect declares no settlement; never raises, since it has landed.

        Args:
            payload: its arguments.
            idempotency_key: the key that it landed under.
            written: the JSON form of its result.
        """

    def send(self, payload: Mapping[str, Any], idempotency_key: str) -> Any:
        """Do it."""

    def classify(self, error: BaseException) -> tuple[Verdict, str]:
        """What an exception from `send` says, and a short reason for `FAILED:`."""

    def encode_value(self, raw: Any) -> Any:
        """The JSON form of what `send` returned; never raises for a value, since the effect has landed."""

    def decode_value(self, written: Any) -> Any:
        """The result in the function's declared type, from its JSON form; never raises."""
