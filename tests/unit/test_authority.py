"""`Approval` and what it permits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from interlock.authority import Approval, permission_of
from interlock.errors import BadInput

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
        (Approval(id="a", revoked=True), 100, False),
        (Approval(id="a", until=NOW), 100, False),
        (Approval(id="a", until=NOW + timedelta(seconds=1)), 100, True),
    ],
)
def test_what_an_answer_permits(answer: Any, amount: int | None, allowed: bool) -> None:
    """True and a standing approval permit; all else does not, and says why; a credit counts by its size."""
    permission = permission_of(answer, amount_minor=amount, now=NOW)
    assert bool(permission) is allowed
    assert bool(permission.why) is not allowed


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
    ],
)
def test_wrong_fields_are_refused(fields: dict[str, Any]) -> None:
    """An approval with a field of the wrong kind cannot be made."""
    with pytest.raises(BadInput):
        Approval(**fields)
