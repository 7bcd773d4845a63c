"""What is known of an effect that certainly did not happen: whether the very same request may go through later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock, Kind, NotSent, Outcome, Rejected
from interlock.protocol import outcome_of


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (NotSent("x"), True),
        (NotSent("x", reason="queue_full"), True),
        (ConnectionRefusedError(), True),
        (Rejected("no"), False),
        (Rejected("no", reason="not_sent"), False),
    ],
)
def test_it_follows_from_what_was_known_and_stays(tmp_path: Path, raised: Exception, expected: bool) -> None:
    """It does not hang on the words of a reason, and is read back from the record as it was told."""
    with Interlock(tmp_path / "journal") as gate:

        @gate.effect(key=lambda order: order)
        def refund(order: str) -> None:
            raise raised

        outcome: Outcome = refund("881")
        again = outcome_of(gate.journal.load(outcome.effect_id), refund)
    assert (str(outcome.status), outcome.can_ask_again) == ("FAILED", expected)
    assert again.can_ask_again is expected


@pytest.mark.parametrize(("reason", "expected"), [("not_sent", True), ("absent", True), ("card_declined", False)])
def test_a_record_without_it_goes_by_the_usual_reasons(tmp_path: Path, reason: str, expected: bool) -> None:
    """What an earlier version wrote is read by its reason, and anything that is not plainly harmless is final."""
    with Interlock(tmp_path / "journal") as gate:

        @gate.effect(key=lambda order: order)
        def refund(order: str) -> None:
            raise Rejected("no")

        history = gate.journal.load(refund("881").effect_id)
    data: dict[str, Any] = {"reason": reason, "detail": ""}
    kept = [entry for entry in history.entries if entry.kind is not Kind.FAILED]
    old = history._replace(entries=(*kept, history.entries[-1]._replace(data=data)))
    assert outcome_of(old, refund).can_ask_again is expected
