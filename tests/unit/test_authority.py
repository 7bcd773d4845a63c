"""`Approval` and what it permits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from interlock.authority import Approval, permission_of
from interlock.errors import BadInput
from interlock.rules.budgets import Budget

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("answer", "amount", "allowed"),
    [
        (True, 100, True),
        (False, 100, False),
        (None, 100, False),
        (Approval(id="a"), 100, True),
        (Approval(id="a"), None, True),
        (Approval(id="a", amount_minor=100), 100, True),
        (Approval(id="a", amount_minor=100), 101, False),
        (Approval(id="a", amount_minor=100), -101, False),
        (Approval(id="a", amount_minor=100), None, False),
        (Approval(id="a", amount_minor=100), 0, True),
        (Approval(id="a", currency="USD"), 100, True),
        (Approval(id="a", currency="eur"), 100, False),
        (Approval(id="a", currency="eur"), 0, True),
        (Approval(id="a", revoked=True), 100, False),
        (Approval(id="a", until=NOW), 100, False),
        (Approval(id="a", until=NOW + timedelta(seconds=1)), 100, True),
    ],
)
def test_what_an_answer_permits(answer: Any, amount: int | None, allowed: bool) -> None:
    """True and a standing approval permit; all else does not, and says why; a credit counts by its size."""
    permission = permission_of(answer, amount_minor=amount, currency="usd", now=NOW)
    assert bool(permission) is allowed
    assert bool(permission.why) is not allowed


def test_a_cap_is_one_budget_of_the_approval() -> None:
    """What an effect takes of a capped approval is a budget under its id; nothing is taken of one without a cap, or by nothing."""
    capped = Approval(id="a", amount_minor=100)
    assert permission_of(capped, amount_minor=-60, now=NOW).budgets == (Budget("approval:a", limit=100, amount=60),)
    assert permission_of(capped, amount_minor=0, now=NOW).budgets == ()
    assert permission_of(Approval(id="a"), amount_minor=60, now=NOW).budgets == ()
    assert permission_of(capped, amount_minor=101, now=NOW).budgets == ()


def test_an_unknown_currency_is_not_the_approvals() -> None:
    """An approval in a currency does not cover an amount whose currency nobody knows."""
    permission = permission_of(Approval(id="a", by="ann", currency="eur"), amount_minor=1, now=NOW)
    assert permission.why == "Approval 'a' by ann is in EUR, not in a currency that is not known."


@pytest.mark.parametrize("answer", [1, 0, "yes", [], {"id": "a"}, object()])
def test_odd_answers_are_errors(answer: Any) -> None:
    """Nothing is taken for a permission that is none."""
    with pytest.raises(BadInput, match="Answer an Approval"):
        permission_of(answer, amount_minor=1, now=NOW)


@pytest.mark.parametrize(
    "fields",
    [
        {"id": ""},
        {"id": 5},
        {"id": "a", "by": None},
        {"id": "a", "amount_minor": 20.0},
        {"id": "a", "amount_minor": True},
        {"id": "a", "amount_minor": -1},
        {"id": "a", "until": datetime(2026, 1, 1)},  # noqa: DTZ001 - the point
        {"id": "a", "until": "2026-01-01"},
        {"id": "a", "revoked": "no"},
        {"id": "a", "currency": None},
        {"id": "a", "currency": "euro"},
    ],
)
def test_wrong_fields_are_refused(fields: dict[str, Any]) -> None:
    """An approval with a field of the wrong kind cannot be made."""
    with pytest.raises(BadInput):
        Approval(**fields)
