"""What the clocks say: how long a call may wait, whether a window is still open, and when an absence can be believed.

Moments go on the record here, and are read from it here. Owns no order: `_submit` and `_recover` do.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from interlock.effects import Draft, Entry, Kind
from interlock.ports import Capabilities, Clock, Liveness, Verdict, WatchFor
from interlock.protocol._declared import as_declared
from interlock.protocol._step import NotLanded, Sighting
from interlock.rules.lifecycle import State
from interlock.rules.recovery import elapsed_s, is_window_open, surely_elapsed_s

POLL_S = 0.02
"""First pause while another sender is alive and the caller wants to wait, in seconds; doubles up to `POLL_MAX_S`."""
POLL_MAX_S = 0.5
SERVICE_POLL_MAX_S = 5.0
"""The same while a service works on a request with the key, in seconds: each look there is a request and a record."""
SHORTEST_PAUSE_S = 0.001
"""A pause too short for a clock to show is none: rounding would leave a remainder of it for ever, in seconds."""
ROUNDING_S = 1e-6
"""By how much the difference of two readings of a clock may be off, in seconds: a pause of exactly the rest may leave some of it."""
SHORT_PAUSE_S = 0.02
"""A pause this short costs no more than a request whose answer could not be believed yet, in seconds."""
PAUSE_S = 2.0
"""How long a call waits for a service by default (a key in use, a look-up that lags), in seconds."""


class Patience:
    """How long this call may wait for others.

    Args:
        clock: the gate's clock.
        wait_s: for a claim that a live sender holds.
        pause_s: for the service: a key in use, an absence that cannot be trusted yet. The longer of the two counts there.
    """

    __slots__ = ("_began", "_poll_s", "clock", "pause_s", "wait_s")

    def __init__(self, clock: Clock, wait_s: float = 0.0, pause_s: float = PAUSE_S) -> None:
        self.clock = clock
        self.wait_s = wait_s
        self.pause_s = pause_s
        self._began = clock.uptime().seconds
        self._poll_s = POLL_S

    def left_s(self, *, for_service: bool = False) -> float:
        """Seconds left, counted from when this was made."""
        limit = max(self.wait_s, self.pause_s) if for_service else self.wait_s
        return self._began + limit - self.clock.uptime().seconds

    def next_poll_s(self, *, for_service: bool = False) -> float | None:
        """How long to pause before looking again, or None when patience is at an end."""
        left = self.left_s(for_service=for_service)
        if left <= 0:
            return None
        longest = SERVICE_POLL_MAX_S if for_service else POLL_MAX_S
        pause, self._poll_s = min(self._poll_s, left), min(self._poll_s * 2, longest)
        return pause


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@functools.lru_cache(maxsize=16)
def _second(days: int, seconds: int) -> str:
    return (_EPOCH + timedelta(days, seconds)).isoformat().removesuffix("+00:00")


def rfc3339(moment: datetime) -> str:
    """The text of a moment on the record, in UTC."""
    since = moment - _EPOCH
    return f"{_second(since.days, since.seconds)}.{since.microseconds:06}+00:00"


def watched(watch: WatchFor | None, clock: Clock) -> dict[str, Any]:
    """What a COMMITTED entry says of how its effect is watched from now on; nothing for an effect that declares no settlement."""
    if watch is None:
        return {}
    until = rfc3339(clock.now() + timedelta(seconds=watch.for_s))
    return {"watch": {"until": until, "references": list(watch.references)}}


HELD_UP = NotLanded(
    Verdict.NOT_SENT, "held_up", "held up since permission and facts were checked, so they are too old to send on"
)


CHECKS_AT_MOST = 3
"""How often one call reads permission and facts, if each time they are too old once it could be sent."""


def is_too_old(checked_at_s: float, now_s: float, capabilities: Capabilities) -> bool:
    """Whether what was checked then is nothing to send on now: a send should have been over by this time.

    Both are readings of the clock that nobody sets, which counts a stopped process and a machine asleep.
    """
    return now_s - checked_at_s > capabilities.timeout_s


def is_held_up(checked_at_s: float, capabilities: Capabilities, clock: Clock) -> bool:
    """Whether a send that was just claimed is too late: a stopped process, a slow check, or a journal that was busy for long.

    What was permitted then may have been taken back since, so it is not sent.
    """
    return is_too_old(checked_at_s, clock.uptime().seconds, capabilities)


def dispatched_draft(
    capabilities: Capabilities,
    clock: Clock,
    now: datetime,
    at: str,
    *,
    attempt: int,
    key: str,
    extra: Mapping[str, Any],
) -> Draft:
    """The claim; `at` is the text of `now`."""
    boot, uptime_s = clock.uptime()
    data: dict[str, Any] = {
        "attempt": attempt,
        "key": key,
        "deadline": rfc3339(now + timedelta(seconds=capabilities.timeout_s)),
        "boot": boot,
        "uptime_s": uptime_s,
        **as_declared(capabilities),
        **extra,
    }
    return Draft(Kind.DISPATCHED, at, data)


def _clocks(dispatch: Entry, clock: Clock) -> dict[str, Any]:
    """A dispatch's clocks beside the present ones."""
    uptime = clock.uptime()
    return {
        "at": datetime.fromisoformat(dispatch.at),
        "boot": dispatch.data["boot"],
        "uptime_s": dispatch.data["uptime_s"],
        "now": clock.now(),
        "now_boot": uptime.boot,
        "now_uptime_s": uptime.seconds,
    }


def is_within_window(state: State, capabilities: Capabilities, clock: Clock) -> bool:
    """Whether the service still drops a second request with the key, for as long as a send may take."""
    if not capabilities.dedupes or state.first_dispatch is None:
        return False
    elapsed = elapsed_s(**_clocks(state.first_dispatch, clock))
    # A send may take until its time-out, and what its sender then no longer waits for may arrive later still.
    margin_s = capabilities.timeout_s + capabilities.settle_after_s
    return is_window_open(elapsed, window_s=capabilities.window_s, margin_s=margin_s)


def deadline_left_s(dispatch: Entry, clock: Clock) -> float:
    """Seconds until the sender's own deadline; a clock that went back makes it the whole time again, never less."""
    length = (datetime.fromisoformat(dispatch.data["deadline"]) - datetime.fromisoformat(dispatch.at)).total_seconds()
    elapsed = surely_elapsed_s(**_clocks(dispatch, clock))
    return length if elapsed is None else length - max(elapsed, 0.0)


def untrusted_s(dispatch: Entry, sighting: Sighting, capabilities: Capabilities, clock: Clock) -> float:
    """Seconds until "absent" can be believed; 0 or less when it can be now."""
    elapsed = surely_elapsed_s(**_clocks(dispatch, clock))
    lag_left = capabilities.lookup_lag_s - (elapsed if elapsed is not None else 0.0)
    if sighting.liveness is Liveness.ENDED:
        return lag_left
    # A request that left at the last moment is on its way for settle_after more, and the look-up lags behind even that.
    in_flight = capabilities.settle_after_s - (clock.uptime().seconds - sighting.gone_since_s)
    if sighting.liveness is Liveness.CUT_OFF:
        in_flight = max(in_flight, deadline_left_s(dispatch, clock) + capabilities.settle_after_s)
    if capabilities.lookup_lag_s:
        in_flight += capabilities.lookup_lag_s
    return max(lag_left, in_flight)
