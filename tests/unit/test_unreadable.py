"""What could be written and not read again, or not even shown: no door lets it in, and the journal never holds it."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock, Proposal
from interlock.effects import Draft, History, Kind
from interlock.errors import JournalError, NotSerializable
from interlock.extend._gated import origin_of
from interlock.journal import MemoryJournal, SQLiteJournal
from interlock.tools import protect

LONG = 10**5000
HALF = "\ud800"


@pytest.mark.parametrize(
    "bad",
    [LONG, HALF, float("nan"), [LONG], {HALF: 1}, {"a": [{"b": HALF}]}],
    ids=["long", "half", "nan", "long inside", "half a name", "half inside"],
)
def test_an_origin_is_checked_like_a_payload(bad: Any) -> None:
    """Nothing is sent and nothing is written where the record of whence a call came could not be read again."""
    gate = Interlock(journal=MemoryJournal())
    sent: list[str] = []

    @gate.effect(key=lambda order: order)
    def refund(order: str) -> None:
        sent.append(order)

    gate.recover()
    with pytest.raises(NotSerializable, match="origin"):
        refund.submit_blocking(("881",), origin={"run": bad})
    told = refund.proposal("881").to_dict()
    with pytest.raises(NotSerializable, match="origin"):
        gate.submit(Proposal.from_dict({**told, "origin": {"run": bad}}))
    assert sent == []
    assert str(refund("881")) == "COMMITTED"
    assert gate.journal.verify().ok


@pytest.mark.parametrize("bad", [LONG, HALF], ids=["long", "half"])
def test_the_journal_writes_nothing_that_it_could_not_read(tmp_path: Path, bad: Any) -> None:
    """Whatever door let it in: an error, nothing written, and the journal goes on."""
    for journal in (SQLiteJournal(tmp_path), MemoryJournal()):
        for where in ({"reason": bad}, {"evidence": [{"a": bad}]}):
            with pytest.raises(JournalError, match="cannot be written so that it can be read again"):
                journal.append(
                    History("e1"), [Draft(Kind.PROPOSED, "2026-01-01T00:00:00Z", {"effect": "pay", **where})]
                )
        assert journal.load("e1").kind is None
        assert journal.append(History("e1"), [Draft(Kind.PROPOSED, "2026-01-01T00:00:00Z", {"effect": "pay"})])
        assert journal.verify().ok
        journal.close()


def test_a_number_that_is_too_long_is_answered_to_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Malformed arguments are for the model to correct, also those that Python does not even show."""
    monkeypatch.chdir(tmp_path)
    made: list[str] = []

    def create_refund(order_id: str, amount: int) -> None:
        made.append(order_id)

    tools = protect([create_refund], {"tools": {"create_refund": {"key": ["order_id"]}}})
    tools.recover()
    for given in (
        {"order_id": "1", "amount": LONG},
        {"order_id": LONG, "amount": 1},
        {"order_id": "1", "amount": [LONG]},
    ):
        reply = tools.reply({"type": "tool_use", "id": "t", "name": "create_refund", "input": given})
        assert reply["is_error"]
        assert reply["content"].startswith("Not done")
    assert made == []


def test_a_frameworks_ids_never_stop_a_call() -> None:
    """An id that cannot be shown or stored as it is is kept in another form."""
    kept = origin_of({"run": LONG, HALF: HALF, "n": 3, "big": 2**60})
    assert kept is not None
    assert {"n": 3, "big": str(2**60), "\\ud800": "\\ud800"}.items() <= kept.items()
    assert "run" in kept


def test_a_gate_that_is_dropped_without_close_keeps_no_descriptor(tmp_path: Path) -> None:
    """Its files are closed when nobody has it any more, and other processes see its worker gone."""

    def make() -> str:
        gate = Interlock(tmp_path)
        gate.recover()
        return gate.journal.worker

    make()
    gc.collect()
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    workers = [make() for _ in range(5)]
    gc.collect()
    assert (len(os.listdir("/proc/self/fd")) if before else 0) == before
    journal = SQLiteJournal(tmp_path)
    assert not any((tmp_path / "workers" / f"{worker}.lock").exists() for worker in workers)
    journal.close()
