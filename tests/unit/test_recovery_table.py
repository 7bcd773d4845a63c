"""The recovery table, every cell, against the wanted one written out by hand from the design, not from the code."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from interlock.rules.recovery import Action, Checks, Found, Resend, decide, elapsed_s, is_window_open

HOLD, LEASE, STALE, UNREADABLE = Checks.HOLD, Checks.LEASE, Checks.STALE, Checks.UNREADABLE
FAILING = (LEASE, STALE)


def wanted(tier: str, checks: Checks, found: Found, resend: Resend, *, can_look_up: bool) -> Action:
    """The design's table (4.3), read row by row. `tier` is 1 while the service still dedupes the key, else 2 or 3."""
    if found is Found.FOUND:
        return Action.SETTLE  # whatever else holds: it landed
    if found is Found.DIFFERS:
        return Action.GIVE_UP  # something else stands under our key: a person must look
    if found in (Found.NOT_YET, Found.FAILED):
        return Action.WAIT  # "absent" that cannot be trusted, and a look-up that fails, are not absence
    if found is Found.UNSEEN:  # by a look-up that need not see what was sent then: as if there were none
        tier, can_look_up = "3" if tier == "2" else tier, False
    absent = found is Found.ABSENT
    match tier, checks:
        case "3", _:
            return Action.GIVE_UP
        case "2", _ if not absent:
            return Action.LOOK_UP
        case (("1" | "2"), Checks.UNREADABLE):
            return Action.LOOK_UP if can_look_up and not absent else Action.WAIT
        case "2", Checks.HOLD:
            return {
                Resend.NONE: Action.REAPPLY,
                Resend.UNANSWERED: Action.WAIT,  # one resend in one recovery
                Resend.REJECTED: Action.FAIL,
            }[resend]
        case "2", _:
            return Action.REFUSE
        case "1", Checks.HOLD if resend is Resend.NONE:
            return Action.RESEND  # no look-up needed: the service drops a second one
        case "1", Checks.HOLD if can_look_up:
            return Action.FAIL if absent else Action.LOOK_UP
        case "1", Checks.HOLD:
            return Action.WAIT  # a rejected resend says nothing of the request before it
        case _ if can_look_up:
            return Action.REFUSE if absent else Action.LOOK_UP
    return Action.GIVE_UP


CELLS = [
    cell
    for cell in itertools.product((True, False), (True, False), (True, False), Checks, Found, Resend)
    if cell[2] or cell[4] is Found.NOT_ASKED  # without a look-up there is nothing to have found out
]


@pytest.mark.parametrize(("dedupes", "window_open", "can_look_up", "checks", "found", "resend"), CELLS)
def test_every_cell(
    dedupes: bool, window_open: bool, can_look_up: bool, checks: Checks, found: Found, resend: Resend
) -> None:
    """Each combination of what is declared and what was found out leads to the one action that the design names."""
    tier = "1" if dedupes and window_open else "2" if can_look_up else "3"
    action = decide(
        dedupes=dedupes, window_open=window_open, can_look_up=can_look_up, checks=checks, found=found, resend=resend
    )
    assert action is wanted(tier, checks, found, resend, can_look_up=can_look_up)


@pytest.mark.parametrize("checks", [LEASE, STALE, UNREADABLE])
def test_nothing_is_sent_when_a_check_does_not_hold(checks: Checks) -> None:
    """No combination sends while permission or facts do not hold or cannot be read."""
    for dedupes, window_open, can_look_up, _, found, resend in CELLS:
        action = decide(
            dedupes=dedupes, window_open=window_open, can_look_up=can_look_up, checks=checks, found=found, resend=resend
        )
        assert action not in (Action.RESEND, Action.REAPPLY)


def test_refused_or_failed_only_on_trusted_absence() -> None:
    """Nothing that may have been sent is said not to have landed unless a trusted look-up found it absent."""
    for dedupes, window_open, can_look_up, checks, found, resend in CELLS:
        action = decide(
            dedupes=dedupes, window_open=window_open, can_look_up=can_look_up, checks=checks, found=found, resend=resend
        )
        if action is Action.REFUSE:
            assert found is Found.ABSENT
        if action is Action.FAIL:
            assert found is Found.ABSENT


NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("wall_s", "same_boot", "uptime_s", "expected"),
    [
        (60, True, 60, 60),
        (60, True, 90, 90),  # the wall clock was set back by half a minute
        (90, True, 60, 90),  # set forward, or the machine was suspended unseen
        (-25 * 3600 + 60, True, 60, 60),  # back by 25 hours: the boot's own clock tells
        (60, False, 5, 60),  # another boot: only the wall clock is left
        (-0.5, False, 5, -0.5),  # within the skew that is tolerated
        (-25 * 3600, False, 5, None),  # another boot and a clock that went back: nobody knows
        (-10, True, -5, None),  # a boot id that repeats with a smaller uptime is not the same boot
    ],
)
def test_elapsed_time(wall_s: float, same_boot: bool, uptime_s: float, expected: float | None) -> None:
    """The longer of two clocks counts, and a clock that cannot be believed gives no time at all."""
    elapsed = elapsed_s(
        at=NOON,
        boot="a",
        uptime_s=1000.0,
        now=NOON + timedelta(seconds=wall_s),
        now_boot="a" if same_boot else "b",
        now_uptime_s=1000.0 + uptime_s,
    )
    assert elapsed == expected


def test_no_boot_id_is_no_boot() -> None:
    """Where the system names no boot, two readings of its uptime are never compared."""
    assert (
        elapsed_s(at=NOON, boot="", uptime_s=0.0, now=NOON - timedelta(hours=1), now_boot="", now_uptime_s=9999.0)
        is None
    )


@pytest.mark.parametrize(
    ("elapsed", "is_open"), [(0.0, True), (69.0, True), (70.0, False), (100.0, False), (None, False)]
)
def test_window_keeps_a_margin(elapsed: float | None, is_open: bool) -> None:
    """A window counts as open only while one more send still fits into it, and never when the time is not known."""
    assert is_window_open(elapsed, window_s=100.0, margin_s=30.0) is is_open
