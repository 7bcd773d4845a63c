"""Faults on demand: which, for which requests, how many times. Knows nothing about sockets or the ledger.

Where each one strikes:

    arrives --drop_before / error_429, lock_timeout, bad_gateway--> delay_before --error_500_before / decline--> acts
            --error_500_after--> remembered --drop_after--> delay_after --> answer leaves --truncate--> half of it
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from benchmarks.services.stripe.errors import ApiError, bad_gateway, locked, rate_limited


class FaultKind(StrEnum):
    """What goes wrong. The names are frozen: the control API and the benchmarks use them."""

    DROP_BEFORE = "drop_before"
    """The connection closes with no answer; nothing was done and no key is remembered."""
    DROP_AFTER = "drop_after"
    """It acted, durably; then the connection closes with no answer."""
    ERROR_500_BEFORE = "error_500_before"
    """Answers 500 without having acted; the 500 is remembered under the key."""
    ERROR_500_AFTER = "error_500_after"
    """Acts, durably, and answers 500; the 500 is remembered under the key."""
    DELAY_BEFORE = "delay_before"
    """Waits, then acts, even if the client is gone by then. The key is in use meanwhile."""
    DELAY_AFTER = "delay_after"
    """Acts, durably, waits, and answers. The key's answer is remembered before the wait."""
    ERROR_429 = "error_429"
    """Refused by the rate limiter, in front of everything: nothing was done and no key is remembered."""
    LOCK_TIMEOUT = "lock_timeout"
    """Refused with a 429 because something else holds the object: nothing was done and no key is remembered."""
    BAD_GATEWAY = "bad_gateway"
    """Something in front answers 502 with a page of HTML: nothing was done and no key is remembered."""
    TRUNCATE = "truncate"
    """Acts, durably, and the key remembers; then half of the answer leaves and the connection closes."""
    DECLINE = "decline"
    """Refuses with a 402 card error; nothing is created; the 402 is remembered under the key."""


@dataclass(kw_only=True)
class Fault:
    """A fault that strikes the next `times` requests whose method and path match (`*` and `?` are wildcards)."""

    method: str
    path: str
    kind: FaultKind
    delay_s: float = 0.5
    times: int = 1

    def __post_init__(self) -> None:
        if self.times < 1 or self.delay_s < 0:
            raise ValueError(
                f"a fault strikes at least once and waits no negative time, not {self.times}, {self.delay_s}"
            )
        if self.kind is FaultKind.DECLINE and self.method.upper() != "POST":
            raise ValueError("only a POST can be declined")


REFUSALS: dict[FaultKind | None, Callable[[], ApiError]] = {
    FaultKind.ERROR_429: rate_limited,
    FaultKind.LOCK_TIMEOUT: locked,
    FaultKind.BAD_GATEWAY: bad_gateway,
}
"""The faults that refuse in front of everything."""


class Faults:
    """The faults asked for. In memory only: a service that starts anew has none.

    A request that matches uses one up on arrival, whatever becomes of it, so that `times` counts requests. Of several
    that match, the one asked for first strikes first; one request meets one fault.
    """

    def __init__(self) -> None:
        self._waiting: list[Fault] = []

    def add(self, fault: Fault) -> None:
        """Ask for one."""
        self._waiting.append(fault)

    def clear(self) -> None:
        """Forget all that have not struck."""
        self._waiting.clear()

    def take(self, method: str, path: str) -> Fault | None:
        """The fault that strikes this request, if any."""
        for fault in self._waiting:
            if fault.method.upper() == method and fnmatch.fnmatchcase(path, fault.path):
                fault.times -= 1
                if fault.times == 0:
                    self._waiting.remove(fault)
                return fault
        return None
