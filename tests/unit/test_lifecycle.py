"""The lifecycle table, every pair, and the fold."""

from __future__ import annotations

import itertools

import pytest

from interlock.effects import Entry, History, Kind
from interlock.errors import IllegalTransition
from interlock.rules.lifecycle import LANDED, OPEN, TRANSITIONS, check_transition, fold

ALLOWED = """
nothing    -> PROPOSED
PROPOSED   -> AUTHORIZED REFUSED ESCALATED COMMITTED
ESCALATED  -> DECIDED REFUSED
DECIDED    -> AUTHORIZED REFUSED
AUTHORIZED -> DISPATCHED REFUSED
DISPATCHED -> DISPATCHED COMMITTED REFUSED FAILED AMBIGUOUS
COMMITTED  -> SETTLED REVERSED AT_RISK
REFUSED    -> PROPOSED COMMITTED
FAILED     -> PROPOSED COMMITTED
AMBIGUOUS  -> RESOLVED COMMITTED
RESOLVED   -> COMMITTED SETTLED REVERSED AT_RISK
SETTLED    -> SETTLED REVERSED AT_RISK
REVERSED   ->
AT_RISK    -> SETTLED REVERSED AT_RISK
"""
PAIRS = {
    (None if before.strip() == "nothing" else Kind(before.strip()), Kind(after))
    for before, afters in (line.split("->") for line in ALLOWED.strip().splitlines())
    for after in afters.split()
}


@pytest.mark.parametrize(("before", "after"), list(itertools.product([None, *Kind], Kind)))
def test_every_pair(before: Kind | None, after: Kind) -> None:
    """An entry may follow another exactly where the design says so, and the error names the effect otherwise."""
    if (before, after) in PAIRS:
        check_transition(before, after, effect_id="e1")
    else:
        with pytest.raises(IllegalTransition, match="e1"):
            check_transition(before, after, effect_id="e1")


def test_every_kind_has_a_row() -> None:
    """No kind of entry is left without a row, and an open effect can always go on."""
    assert set(TRANSITIONS) == {None, *Kind}
    assert [kind for kind in Kind if not TRANSITIONS[kind]] == [Kind.REVERSED]
    assert not OPEN & LANDED


def history(*kinds: Kind, decisions: tuple[str, ...] = ()) -> History:
    """A history of these kinds; each PROPOSED carries the next decision."""
    names = iter(decisions)
    entries = tuple(
        Entry(
            "e1",
            n,
            kind,
            f"t{n}",
            f"w{n}",
            {"decision": next(names, "")} if kind is Kind.PROPOSED else {},
            b"",
            f"h{n}",
        )
        for n, kind in enumerate(kinds)
    )
    return History("e1", entries)


P, A, D = Kind.PROPOSED, Kind.AUTHORIZED, Kind.DISPATCHED


def test_fold_of_nothing() -> None:
    """An effect nobody has proposed has no state, is not open, and its first attempt is number 1."""
    state = fold(History("e1"))
    assert (state.kind, state.attempt, state.is_open, state.has_landed) == (None, 1, False, False)


def test_the_last_dispatch_holds_the_claim_and_the_first_opens_the_window() -> None:
    """After a resend the claim is the resender's, and the key's window still counts from the first send."""
    state = fold(history(P, A, D, D, D))
    assert state.dispatch is not None
    assert state.first_dispatch is not None
    assert (state.dispatch.n, state.first_dispatch.n) == (4, 2)


@pytest.mark.parametrize(
    ("end", "attempt", "first"),
    [(Kind.FAILED, 2, 6), (Kind.REFUSED, 1, 2)],
)
def test_only_a_failure_begins_a_new_attempt(end: Kind, attempt: int, first: int) -> None:
    """After FAILED the next dispatch is a new attempt with a key and a window of its own; after REFUSED it is not."""
    state = fold(history(P, A, D, end, P, A, D))
    assert state.attempt == attempt
    assert state.first_dispatch is not None
    assert state.first_dispatch.n == first


def test_a_new_proposal_holds_no_claim() -> None:
    """A proposal after a refusal is not dispatched, whatever was dispatched before."""
    state = fold(history(P, A, D, Kind.REFUSED, P, decisions=("a", "b")))
    assert state.dispatch is None
    assert state.proposed["decision"] == "b"


def test_a_late_answer_wins() -> None:
    """An effect that was judged ambiguous, refused or failed has landed once its sender's answer says so."""
    for judged in (Kind.AMBIGUOUS, Kind.REFUSED, Kind.FAILED):
        assert fold(history(P, A, D, judged, Kind.COMMITTED)).has_landed


def test_fold_refuses_an_illegal_history() -> None:
    """A history in which an entry follows one that it may not follow is refused, not read."""
    with pytest.raises(IllegalTransition):
        fold(history(P, D))
