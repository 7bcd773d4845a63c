"""Premises: every condition, seen and now, compared strictly, and readers that lie."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from interlock import Condition, at_least, at_most, equals, matches, one_of, tolerates, unchanged
from interlock.errors import BadInput, ConfigurationError, PremiseUnreadable
from interlock.rules.premises import judge
from interlock.rules.values import encode

HOLDS, FALSE, STALE = "holds", "premise_false", "stale_premise"


def verdict(rule: Condition | None, seen: Any, now: Any) -> str:
    """What becomes of one premise."""
    judged = judge({} if rule is None else {"fact": rule}, {"fact": encode(seen)}, {"fact": encode(now)})
    return HOLDS if judged.holds else FALSE if judged.was_false else STALE


@pytest.mark.parametrize(
    ("rule", "seen", "now", "wanted"),
    [
        (None, 0, 0, HOLDS),
        (None, 0, 2000, STALE),
        (None, False, False, HOLDS),
        (unchanged(), [1, 2], [1, 2], HOLDS),
        (unchanged(), [1, 2], [2, 1], STALE),
        (unchanged(), {"a": 1, "b": 2}, {"b": 2, "a": 1}, HOLDS),
        (unchanged(), 1, True, STALE),
        (unchanged(), 0, False, STALE),
        (unchanged(), 0, None, STALE),
        (unchanged(), "1", 1, STALE),
        (unchanged(), 1, 1.0, HOLDS),
        (unchanged(), Decimal("20.0"), Decimal("20.00"), HOLDS),
        (unchanged(), Decimal("20"), 20, STALE),
        (unchanged(), date(2026, 1, 1), "2026-01-01", STALE),
        (equals(True), True, True, HOLDS),
        (equals(True), False, False, FALSE),
        (equals(True), True, False, STALE),
        (equals(True), 1, 1, FALSE),
        (equals(Decimal("5.0")), Decimal("5.00"), Decimal("5"), HOLDS),
        (one_of("open", "new"), "open", "new", HOLDS),
        (one_of("open", "new"), "open", "closed", STALE),
        (one_of("open", "new"), "closed", "open", FALSE),
        (at_least(10), 10, 11, HOLDS),
        (at_least(10), 10, 9, STALE),
        (at_least(10), 9, 10, FALSE),
        (at_most(Decimal("1.5")), Decimal("1.5"), Decimal("1.6"), STALE),
        (at_most(10), 3, 10, HOLDS),
        (matches(lambda text: text.startswith("pi_")), "pi_1", "pi_2", HOLDS),
        (matches(lambda text: text.startswith("pi_")), "pi_1", "ch_2", STALE),
        (tolerates(lambda seen, now: now > seen, why="it grew"), 1, 1, HOLDS),
        (tolerates(lambda seen, now: now > seen, why="it grew"), 1, 2, HOLDS),
        (tolerates(lambda seen, now: now > seen, why="it grew"), 1, 0, STALE),
    ],
)
def test_each_condition(rule: Condition | None, seen: Any, now: Any, wanted: str) -> None:
    """A premise holds, was false, or went stale, exactly as its condition says."""
    assert verdict(rule, seen, now) == wanted


def test_a_fact_that_is_missing_now_is_never_unchanged() -> None:
    """A reader that no longer gives a fact has changed it."""
    judged = judge({}, {"fact": None}, {})
    assert judged.changed == ("fact",)
    assert judged.verdicts["fact"]["missing_now"] is True


def test_a_fact_that_the_decider_did_not_hand_over_cannot_be_compared() -> None:
    """A comparison without its first half is refused at the door; a condition on the present alone needs no first half."""
    with pytest.raises(BadInput, match="'fact'"):
        judge({}, {}, {"fact": 1})
    assert judge({"fact": equals(1)}, {}, {"fact": 1}).holds


def test_a_condition_on_a_fact_that_nobody_gives_is_an_error() -> None:
    """A misspelt name in expect= is told, never passed over."""
    with pytest.raises(PremiseUnreadable, match="'eligibel'"):
        judge({"eligibel": equals(True)}, {"eligible": True}, {"eligible": True})


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        (at_least(10), "ten"),
        (at_most(10), None),
        (matches(lambda value: value.nothing), 1),
        (matches(lambda value: "yes"), 1),  # type: ignore[arg-type,return-value]
        (matches(lambda value: None), 1),  # type: ignore[arg-type,return-value]
    ],
)
def test_a_condition_that_cannot_judge_is_an_error(rule: Condition, value: Any) -> None:
    """A fact of the wrong type, or a function that fails or does not answer True or False, stops the send with an error."""
    with pytest.raises(PremiseUnreadable, match="fact"):
        judge({"fact": rule}, {"fact": value}, {"fact": value})


def test_the_record_names_rule_and_both_values() -> None:
    """What stands on the record is the rule in words, both values and the verdict."""
    rule = tolerates(lambda seen, now: True, why="others refunded other amounts")
    assert judge({"others": rule}, {"others": []}, {"others": [500]}).verdicts == {
        "others": {"rule": "unchanged, or others refunded other amounts", "now": [500], "seen": [], "holds": True}
    }


def test_conditions_are_checked_when_they_are_made() -> None:
    """A condition that could never hold, or has no words for the record, is refused where it is written."""
    with pytest.raises(ConfigurationError, match="no value"):
        one_of()
    with pytest.raises(ConfigurationError, match="why="):
        tolerates(lambda seen, now: True, why="")
    with pytest.raises(ConfigurationError, match="takes the fact first"):
        tolerates(lambda seen: True, why="it may")
