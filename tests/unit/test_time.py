"""What the clocks say: when an absence can be believed, a deadline is over, and a window is still open."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.effects import Entry, History, Kind
from interlock.ports import Capabilities, Liveness
from interlock.protocol._step import Sighting
from interlock.protocol._time import deadline_left_s, dispatched_draft, is_within_window, rfc3339, untrusted_s
from interlock.rules.lifecycle import State, fold
from interlock.testing import SettableClock

CAPABILITIES = Capabilities(
    dedupes=True, window_s=100.0, can_look_up=True, lookup_lag_s=8.0, settle_after_s=4.0, timeout_s=16.0
)


def dispatched(clock: SettableClock, **declared: Any) -> tuple[Entry, Capabilities]:
    """What stands on the record of a send that is claimed now."""
    capabilities = CAPABILITIES._replace(**declared)
    now = clock.now()
    draft = dispatched_draft(capabilities, clock, now, rfc3339(now), attempt=1, key="key", extra={})
    return Entry("effect", 0, draft.kind, draft.at, "worker", draft.data, b"", ""), capabilities


def state_of(entry: Entry) -> State:
    """An effect that was sent once."""
    before = (entry._replace(kind=kind, data={}) for kind in (Kind.PROPOSED, Kind.AUTHORIZED))
    return fold(History("effect", (*before, entry)))


def since(clock: SettableClock) -> float:
    """This moment, by the clock that nobody sets."""
    return clock.uptime().seconds


@pytest.mark.parametrize("lag_s", [0.0, 8.0])
def test_a_look_up_lags_behind_what_leaves_last(lag_s: float) -> None:
    """However long ago it was claimed: the last request may be on its way until `settle_after`, and shows after the lag from then on."""
    clock = SettableClock(frozen=True)
    entry, capabilities = dispatched(clock, lookup_lag_s=lag_s)
    clock.advance(1000)
    gone = Sighting(Liveness.GONE, since(clock))
    assert untrusted_s(entry, gone, capabilities, clock) == pytest.approx(4 + lag_s)
    clock.advance(4 + lag_s - 0.5)
    assert untrusted_s(entry, gone, capabilities, clock) == pytest.approx(0.5)
    clock.advance(1)
    assert untrusted_s(entry, gone, capabilities, clock) < 0


def test_what_has_certainly_ended_is_only_waited_for_by_the_lag() -> None:
    """Nothing is on its way; what was sent before may still not show."""
    clock = SettableClock(frozen=True)
    entry, capabilities = dispatched(clock)
    clock.advance(3)
    assert untrusted_s(entry, Sighting(Liveness.ENDED), capabilities, clock) == pytest.approx(5)
    assert untrusted_s(entry, Sighting(Liveness.GONE), capabilities, clock) == float("inf")


def test_a_sender_out_of_sight_may_send_at_its_last_moment() -> None:
    """Its deadline, then what is on its way, then the lag; however long this gate has not seen it."""
    clock = SettableClock(frozen=True)
    entry, capabilities = dispatched(clock)
    cut_off = Sighting(Liveness.CUT_OFF, since(clock) - 1000)
    assert untrusted_s(entry, cut_off, capabilities, clock) == pytest.approx(16 + 4 + 8)
    clock.advance(20)
    assert untrusted_s(entry, cut_off, capabilities, clock) == pytest.approx(8)


@pytest.mark.parametrize(
    ("boot", "jump_s", "left_s"), [("", -0.5, 16.0), ("", -3600, 16.0), ("other", 6, 10.0), ("", 6, 10.0)]
)
def test_a_deadline_by_another_boot_s_wall_clock(boot: str, jump_s: float, left_s: float) -> None:
    """Where only the wall clock can be asked, one that went back makes it the whole time again: no less, and no more."""
    clock = SettableClock(frozen=True, boot=boot)
    entry, _ = dispatched(clock)
    clock.boot = "another"
    clock.jump(jump_s)
    assert deadline_left_s(entry, clock) == pytest.approx(left_s)


def test_a_wall_clock_that_is_set_says_nothing_in_the_same_boot() -> None:
    """A deadline goes by the clock that nobody sets, a window by whichever says more."""
    clock = SettableClock(frozen=True)
    entry, capabilities = dispatched(clock)
    state = state_of(entry)
    clock.jump(10_000)
    assert deadline_left_s(entry, clock) == pytest.approx(16)
    assert not is_within_window(state, capabilities, clock)
    clock.jump(-20_000)
    assert deadline_left_s(entry, clock) == pytest.approx(16)
    assert is_within_window(state, capabilities, clock)


def test_a_window_ends_before_a_send_and_what_it_leaves_on_its_way_could_end_after_it() -> None:
    """The margin is the longest a send may take, and what may still arrive after that."""
    clock = SettableClock(frozen=True)
    entry, capabilities = dispatched(clock)
    state = state_of(entry)
    clock.advance(100 - 16 - 4 - 0.5)
    assert is_within_window(state, capabilities, clock)
    clock.advance(1)
    assert not is_within_window(state, capabilities, clock)
