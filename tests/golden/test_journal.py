"""What stands on disk: entries byte for byte, and a whole journal of an earlier day."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock
from interlock.effects import Draft, Entry, History, Kind
from interlock.errors import JournalTooNew
from interlock.journal import MemoryJournal
from interlock.journal._base import read_entry
from interlock.rules.values import encode
from interlock.testing import SettableClock

AT = "2026-01-02T03:04:05.000006+00:00"


def test_an_entry_is_these_bytes() -> None:
    """The bytes of an entry, which its hash is over, are laid out as they always were; so is the link to the one before it."""
    journal = MemoryJournal()
    journal._worker = "worker-1"
    history = journal.append(
        History("0pe094m482db624h7ego7lgp"),
        [
            Draft(Kind.PROPOSED, AT, {"effect": "pay", "key": "é\u2028", "payload": {"b": 1, "a": [1.5, None, True]}}),
            Draft(Kind.AUTHORIZED, AT, {"allowed": True}),
        ],
    )
    assert history is not None
    assert [entry.body.decode() for entry in history.entries] == [
        '{"v":1,"id":"0pe094m482db624h7ego7lgp","n":0,"kind":"PROPOSED","at":"2026-01-02T03:04:05.000006+00:00",'
        '"by":"worker-1","prev":"","data":{"effect":"pay","key":"é\u2028","payload":{"b":1,"a":[1.5,null,true]}}}',
        '{"v":1,"id":"0pe094m482db624h7ego7lgp","n":1,"kind":"AUTHORIZED","at":"2026-01-02T03:04:05.000006+00:00",'
        f'"by":"worker-1","prev":"{history.entries[0].hash}","data":{{"allowed":true}}}}',
    ]
    assert all(entry.hash == hashlib.sha256(entry.body).hexdigest() for entry in history.entries)


def test_values_are_written_so() -> None:
    """The JSON form of arguments, which open effects are rebuilt from, is what it always was."""
    value = {
        "d": Decimal("20.00"),
        "t": datetime(2026, 1, 2, tzinfo=UTC),
        "b": b"\x00",
        "p": (1, "x"),
        "m": {"$x": 1},
    }
    assert encode(value) == {
        "d": {"$decimal": "20.00"},
        "t": {"$datetime": "2026-01-02T00:00:00+00:00"},
        "b": {"$bytes": "AA=="},
        "p": {"$tuple": [1, "x"]},
        "m": {"$map": [["$x", 1]]},
    }


def stored(n: int, prev: str, kind: str, data: dict[str, Any], **more: Any) -> Entry:
    """An entry as another version may have written it."""
    fields = {"v": 1, "id": "e1", "n": n, "kind": kind, "at": AT, "by": "w", "prev": prev, "data": data, **more}
    body = json.dumps(fields, indent=1).encode()
    return read_entry(body, hashlib.sha256(body).hexdigest(), expected_prev=prev)


def test_unknown_fields_survive() -> None:
    """Fields and spacing of another version are neither lost nor changed when the journal is read and written on."""
    first = stored(0, "", "PROPOSED", {"effect": "pay", "key": "k", "later": {"x": 1}}, tenant="acme")
    journal = MemoryJournal()
    journal.store.effects["e1"] = [first]
    history = journal.load("e1")
    assert history.entries[0].data["later"] == {"x": 1}
    written = journal.append(history, [Draft(Kind.REFUSED, AT, {"reason": "lease"})])
    assert written is not None
    again = journal.load("e1")
    assert again.entries[0].body == first.body
    assert json.loads(again.entries[0].body)["tenant"] == "acme"
    assert json.loads(again.entries[1].body)["prev"] == first.hash


def test_a_later_format_is_refused() -> None:
    """An entry of a later format is not read, and the error says what to do."""
    with pytest.raises(JournalTooNew, match="Upgrade"):
        stored(0, "", "PROPOSED", {}, v=2)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Interlock]:
    """A gate over the frozen journal, a day after it was written."""
    with sqlite3.connect(tmp_path / "journal.db") as db:
        db.executescript(Path(__file__).with_name("journal_v1.sql").read_text(encoding="utf-8"))
    db.close()
    a_day_later = datetime(2026, 11, 30, 16, tzinfo=UTC)
    clock = SettableClock(offset_s=(a_day_later - datetime.now(UTC)).total_seconds(), boot="another")
    with Interlock(tmp_path, clock=clock) as gate:
        yield gate


def test_a_journal_of_an_earlier_day_verifies(gate: Interlock) -> None:
    """The frozen journal is whole, to its last link."""
    verification = gate.journal.verify()
    assert verification.problems == ()
    assert (verification.entries, verification.effects) == (17, 4)
    assert verification.head == "99919e012ea05e9543436d885170e8b0fbdc18828a7c453a64640536f7cbe4a3"


def test_a_journal_of_an_earlier_day_is_carried_on(gate: Interlock) -> None:
    """What was done is still known, what failed has its second attempt, what was refused stays so, what is open is recovered."""
    sent: list[str] = []
    asked: list[tuple[str, str]] = []

    def find(order: str, idempotency_key: str) -> dict[str, Any]:
        asked.append((order, idempotency_key))
        return {"id": "re_1", "order": order}

    @gate.effect(
        key=lambda order: f"refund:{order}",
        premises=lambda: {"others": 0, "eligible": True},
        allowed=lambda: True,
        lookup=find,
        dedupes=True,
        window=3600,
    )
    def refund(order: str, amount: int, note: str = "", idempotency_key: str = "") -> None:
        sent.append(order)

    assert gate.journal.open_effects() == [("3fvvehj1q8sklpoln7aq7d5s", "refund")]
    assert [str(outcome) for outcome in gate.recover()] == ["COMMITTED_ON_QUERY"]
    assert asked == [("884", "3fvvehj1q8sklpoln7aq7d5s")]
    outcomes = [refund("881", 2000), refund("882", 2000), refund("883", 2000), refund("881", 1)]
    assert [str(outcome) for outcome in outcomes] == [
        "DUPLICATE_IGNORED",
        "DUPLICATE_IGNORED",
        "REFUSED:stale_premise",
        "REFUSED:conflicting_payload",
    ]
    assert outcomes[0].value == {"id": "re_1", "order": "881", "amount": 2000}
    assert all(outcome.receipt().verify().ok for outcome in outcomes)
    assert refund("884", 2000, "é \U0001f600").ok
    assert sent == []
    assert gate.journal.verify().ok
