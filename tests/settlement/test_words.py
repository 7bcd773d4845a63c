"""Stored and answered words of settlement are API: journals and programs hold them."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from interlock import Interlock, Outcome, Settlement, Status
from interlock.effects import Draft, History, Kind
from interlock.settlement import ACCEPTED, KIND_OF, SettlementState, settlement_of, watch_of
from interlock.testing import SettableClock
from tests.settlement.conftest import SETTLED, World


def test_the_words() -> None:
    """States, their entries, and what an outcome says."""
    assert [str(state) for state in SettlementState] == ["pending", "settled", "at_risk", "reversed"]
    assert {str(state): str(kind) for state, kind in KIND_OF.items()} == {
        "settled": "SETTLED",
        "at_risk": "AT_RISK",
        "reversed": "REVERSED",
    }
    assert ACCEPTED == "accepted"
    assert Settlement("settled") == Settlement(SettlementState.SETTLED)


def test_what_stands_on_the_record(world: World) -> None:
    """The fields of a COMMITTED entry that is watched and of a settlement entry."""
    gate = world.gate()
    outcome = world.refund(gate, watch_for=60)("881")
    world.bank.fates["881"] = Settlement("settled", {"id": "re_881"}, "why")
    outcome = gate.resettle(outcome.effect_id)
    assert outcome.history is not None
    committed, settled = outcome.history.entries[-2:]
    until = datetime.fromisoformat(committed.data["watch"]["until"])
    assert (until - datetime.fromisoformat(committed.at)).total_seconds() == 60
    assert until.tzinfo == UTC
    assert committed.data["watch"]["references"] == [outcome.effect_id, "re_881", "ch_881"]
    assert settled.data == {"reason": "why", "evidence": {"id": "re_881"}}


def test_the_tables() -> None:
    """Names in the file are API."""
    from interlock.journal._watches import _SCHEMA

    db = sqlite3.connect(":memory:")
    for statement in _SCHEMA:
        db.execute(statement)
    for table, columns in (
        ("watches", ["effect_id", "name", "until", "state", "since"]),
        ("found_by", ["reference", "effect_id"]),
    ):
        assert [row[1] for row in db.execute(f"PRAGMA table_info({table})")] == columns
    db.close()


def test_every_state_has_its_sentences() -> None:
    """For a model and for a person, whatever the status was; none says that it can be asked for again."""
    for status in (
        Status.COMMITTED,
        Status.COMMITTED_BY_RETRY,
        Status.COMMITTED_ON_QUERY,
        Status.REAPPLIED_AFTER_QUERY,
        Status.DUPLICATE_IGNORED,
    ):
        for settlement in ("accepted", "settled", "at_risk", "reversed"):
            outcome = Outcome(status, "pay", "k", "e", settlement=settlement, detail="why")
            assert "Do not ask again" in outcome.for_model
            assert outcome.for_person.endswith("why")
            if settlement != "settled":
                for text in (outcome.for_model, outcome.for_person):
                    assert "settled" not in text
                    assert "paid out" not in text
            for other in {"accepted", "settled", "at_risk", "reversed"} - {settlement}:
                assert outcome.for_person != Outcome(status, "pay", "k", "e", settlement=other, detail="why").for_person


def test_a_journal_of_an_earlier_day_is_watched_from_now_on(tmp_path: Path) -> None:
    """A journal from before there was settlement gets it with the first effect that declares it; what landed earlier can be read again."""
    page = Path(__file__).resolve().parents[1] / "golden" / "journal_v1.sql"
    with sqlite3.connect(tmp_path / "journal.db") as db:
        db.executescript(page.read_text(encoding="utf-8"))
    db.close()
    with Interlock(tmp_path, clock=SettableClock(boot="another")) as gate:
        assert gate.settlements() == []
        assert gate.find("re_1") == []

        @gate.effect(key=lambda order: f"refund:{order}", settlement=lambda: SETTLED, lookup=lambda: True, dedupes=True)
        def refund(order: str, amount: int, note: str = "", idempotency_key: str = "") -> str:
            return order

        gate.recover()
        old = refund("881", 2000)
        assert (str(old), old.settlement) == ("DUPLICATE_IGNORED", "")
        assert gate.resettle(old.effect_id).settlement == "settled"
        assert refund("999", 1).settlement == "accepted"
        assert {outcome.key for outcome in gate.settlements()} == {"refund:884", "refund:999"}
        assert gate.journal.verify().problems == ()


def test_what_is_no_watch_is_none() -> None:
    """An empty history says nothing, and only COMMITTED begins a watch."""
    assert settlement_of(History("e1")) == ("", "")
    from interlock.journal import MemoryJournal

    journal = MemoryJournal()
    history = journal.append(
        History("e1"), [Draft(Kind.PROPOSED, "t", {"effect": "pay", "watch": {"until": "z", "references": ["r"]}})]
    )
    assert history is not None
    assert watch_of(history.entries[0]) is None
    assert journal.watched() == []
    journal.close()
