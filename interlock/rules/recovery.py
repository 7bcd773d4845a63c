"""What to do with an effect whose sender is gone: one table, from declared capabilities and what was found out.

    DISPATCHED ........ sender gone ..... re-check .......... look-up ................ act
    |                   |                 permission, then    found / absent (when     resend, settle, refuse,
    first request       proven, not       premises            that can be trusted)     or say AMBIGUOUS
    may have left       timed out

Theory of operation. Three things decide. *Does the service still dedupe the key?* Then sending again is safe whatever happened.
*Can the effect be found?* Found settles it; absent, once trusted, means that it did not happen. *Do permission and facts still hold?*
If not, nothing may be sent, so only a look-up can tell whether it landed. When none of this gives an answer nobody can know, and
the table says GIVE_UP, which is AMBIGUOUS, rather than guess. Pure: no clock, no service.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

SKEW_S = 1.0
"""How far a wall clock may step back between two readings, in seconds, before its windows are no longer believed."""

DEFAULT_WINDOW_S = 600.0
"""How long a resend is trusted when no window is declared: ten minutes, under the shortest key memory known (Brevo, 15 minutes)."""


class Checks(StrEnum):
    """The re-check of permission and premises."""

    HOLD = "hold"
    LEASE = "lease"
    STALE = "stale_premise"
    UNREADABLE = "unreadable"


class Found(StrEnum):
    """What a look-up told. UNSEEN: it was not found, by a look-up that need not see what was sent then."""

    NOT_ASKED = "not_asked"
    FOUND = "found"
    ABSENT = "absent"
    UNSEEN = "unseen"
    DIFFERS = "differs"
    NOT_YET = "not_yet"
    FAILED = "failed"


class Resend(StrEnum):
    """What became of a resend in this very recovery."""

    NONE = "none"
    UNANSWERED = "unanswered"
    REJECTED = "rejected"


class Action(StrEnum):
    """What to do next."""

    RESEND = "resend"
    LOOK_UP = "look_up"
    SETTLE = "settle"
    REAPPLY = "reapply"
    REFUSE = "refuse"
    FAIL = "fail"
    GIVE_UP = "give_up"
    WAIT = "wait"


def decide(
    *, dedupes: bool, window_open: bool, can_look_up: bool, checks: Checks, found: Found, resend: Resend = Resend.NONE
) -> Action:
    """The next step of a recovery.

    Args:
        dedupes: the service drops a second request with one key.
        window_open: it certainly still remembers this key.
        can_look_up: the effect can be found by its key.
        checks: the re-check.
        found: what the look-up told so far.
        resend: what became of a resend in this recovery.
    """
    if found is Found.FOUND:
        return Action.SETTLE
    if found is Found.DIFFERS:
        return Action.GIVE_UP  # under our key the service has something else, so whether ours is there too nobody knows
    if found in (Found.NOT_YET, Found.FAILED):
        return Action.WAIT
    if found is Found.UNSEEN:
        can_look_up = False  # it could have told that it landed, and does not: it cannot tell that it did not
    if dedupes and window_open:
        if checks is Checks.HOLD:
            if resend is Resend.NONE:
                return Action.RESEND
            if can_look_up:
                # The key answers, but not with the effect: only reading tells. Absent then means the key is spent on a failure.
                return Action.LOOK_UP if found is Found.NOT_ASKED else Action.FAIL
            # A rejection speaks for the resend alone: it may have come before the service looked at the key (a revoked
            # credential, say), and the first request may have landed.
            return Action.WAIT
        if can_look_up:
            if found is Found.NOT_ASKED:
                return Action.LOOK_UP
            return Action.WAIT if checks is Checks.UNREADABLE else Action.REFUSE
        return Action.WAIT if checks is Checks.UNREADABLE else Action.GIVE_UP
    if can_look_up:
        if found is Found.NOT_ASKED:
            return Action.LOOK_UP
        if checks is Checks.UNREADABLE:
            return Action.WAIT
        if checks is not Checks.HOLD:
            return Action.REFUSE
        if resend is Resend.NONE:
            return Action.REAPPLY
        return Action.FAIL if resend is Resend.REJECTED else Action.WAIT
    return Action.GIVE_UP


def surely_elapsed_s(
    *, at: datetime, boot: str, uptime_s: float, now: datetime, now_boot: str, now_uptime_s: float
) -> float | None:
    """Seconds that have certainly passed since a moment on the record, or None when no clock can be believed.

    The counterpart of `elapsed_s`, for what must not be over too early: a deadline, a look-up's lag. Where the same boot's own
    clock can be asked, its answer counts, whatever the wall clock was set to.

    Args:
        at: wall clock then.
        boot: boot id then, empty if it could not be told.
        uptime_s: that boot's seconds then.
        now: wall clock now.
        now_boot: boot id now.
        now_uptime_s: seconds of this boot.
    """
    if boot and boot == now_boot and now_uptime_s >= uptime_s:
        return now_uptime_s - uptime_s
    wall = (now - at).total_seconds()
    return wall if wall >= -SKEW_S else None


def elapsed_s(
    *, at: datetime, boot: str, uptime_s: float, now: datetime, now_boot: str, now_uptime_s: float
) -> float | None:
    """The most seconds that can have passed since a moment on the record, or None when no clock can be believed.

    For a window, which must not be believed open too long: both clocks are asked and the longer answer counts. The wall clock
    may be set, so one that went back is believed only as far as the same boot's own clock says how long it really was.

    Args:
        at: wall clock then.
        boot: boot id then, empty if it could not be told.
        uptime_s: that boot's seconds then.
        now: wall clock now.
        now_boot: boot id now.
        now_uptime_s: seconds of this boot.
    """
    wall = (now - at).total_seconds()
    if boot and boot == now_boot and now_uptime_s >= uptime_s:
        return max(wall, now_uptime_s - uptime_s)
    return wall if wall >= -SKEW_S else None


def is_window_open(elapsed: float | None, *, window_s: float, margin_s: float) -> bool:
    """Whether the service certainly still remembers a key first used `elapsed` seconds ago, with `margin_s` for one more send."""
    return elapsed is not None and elapsed + margin_s < window_s
