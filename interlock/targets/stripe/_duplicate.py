"""Duplicates: whether what others did since the decision may be the very thing that is about to be done.

A person who finds the agent down may do the same by hand, without key and without metadata; or do something of their own. What they
did since the decision shows in a list, and `duplicates=` judges it. docs/refund-premises.md tells when each rule is right and wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from interlock.errors import ConfigurationError
from interlock.rules.premises import Condition, tolerates, unchanged

Duplicates = Literal["strict", "by_amount"] | Callable[[Mapping[str, Any], int], bool]


def rule_of(duplicates: Duplicates, effect: str) -> Condition:
    """The condition on what others did that `duplicates=` stands for."""
    if duplicates == "strict":
        return unchanged()
    if duplicates == "by_amount":
        return tolerates(comes_to_less, why="what others did since it was decided comes to less than this amount")
    if not callable(duplicates):
        raise ConfigurationError(
            f"effect {effect!r}: duplicates= is {duplicates!r}; say 'by_amount', 'strict', or give a function (other, amount) -> bool."
        )
    may_be_ours: Callable[[Mapping[str, Any], int], object] = duplicates
    told = getattr(duplicates, "__name__", "") or "a function of yours"

    def by_own_rule(seen: list[Any], now: list[Any], amount: int) -> bool:
        answers = [may_be_ours(other, amount) for other in came_since(seen, now)]
        if any(answer is not True and answer is not False for answer in answers):
            raise TypeError(f"duplicates= answered {answers!r}; answer True (it may be this one) or False")
        return True not in answers

    return tolerates(by_own_rule, why=f"nothing that others did since it was decided may be this one (by {told})")


def came_since(seen: list[Any], now: list[Any]) -> list[dict[str, Any]]:
    """What came after the decision."""
    known = {other["id"] for other in seen}
    return [other for other in now if other["id"] not in known]


def comes_to_less(seen: list[Any], now: list[Any], amount: int) -> bool:
    """Whether what others did since the decision is less than this, so that it cannot be this one in full.

    Amounts of the other sign (a customer balance) go the other way and do not count.
    """
    theirs = [int(other["amount"]) for other in came_since(seen, now)]
    return sum(abs(other) for other in theirs if (other < 0) == (amount < 0)) < abs(amount)


def shown_of(thing: Mapping[str, Any]) -> dict[str, Any]:
    """What of an object by others stands on the record, and what a rule of the user's gets."""
    told = {"id": thing["id"], "amount": thing["amount"], "metadata": dict(thing.get("metadata") or {})}
    return told | {name: thing[name] for name in ("reason", "description", "name") if thing.get(name)}
