"""What stands on the journal is listed: a person must find what nobody can know, also when nobody was told at the time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock, NotSent
from interlock.errors import JournalError
from interlock.testing import SimulatedCrash
from tests.unit.conftest import World


def test_what_nobody_can_know_is_found_by_a_process_that_declares_nothing(tmp_path: Path) -> None:
    """The recovery that found out told nobody; any later gate on the directory lists it, with its key, since when, and its receipt."""
    gate = Interlock(tmp_path)
    mail = gate.effect(key=lambda to: f"mail:{to}", name="mail")(lambda to: {"to": to})
    with pytest.raises(SimulatedCrash):
        gate.submit(mail.proposal("ann"), crash_after_effect=True)
    with Interlock(tmp_path) as gate:
        mail = gate.effect(key=lambda to: f"mail:{to}", name="mail")(lambda to: {"to": to})
        gate.recover()
        mail("bob")
        assert list(gate.recover()) == []
    with Interlock(tmp_path) as gate:
        (unknown,) = [outcome for outcome in gate.outcomes() if outcome.status == "AMBIGUOUS"]
        assert (unknown.effect, unknown.key, bool(unknown.since)) == ("mail", "mail:ann", True)
        assert unknown.receipt().verify().ok
        assert [outcome.value for outcome in gate.outcomes() if outcome.ok] == [{"to": "bob"}]


def test_each_stands_as_it_does_on_the_record_and_what_is_open_is_left_out() -> None:
    """Landed, refused and failed, oldest first; one that is open is recovery's."""
    world = World()
    gate = world.gate()
    answers: dict[str, Any] = {"down": NotSent("no network")}

    @gate.effect(key=lambda order: order, allowed=lambda order: order != "denied")
    def refund(order: str) -> int:
        if order in answers:
            raise answers[order]
        return 7

    for order in ("done", "denied", "down"):
        refund(order)
    with pytest.raises(SimulatedCrash):
        gate.submit(refund.proposal("open"), crash_at="after_dispatch")
    gate = world.gate()
    listed = [(outcome.key, str(outcome), outcome.value) for outcome in gate.outcomes()]
    assert listed == [("done", "COMMITTED", 7), ("denied", "REFUSED:lease", None), ("down", "FAILED:not_sent", None)]
    gate.close()
    with pytest.raises(JournalError):
        next(gate.outcomes())
