"""Stored and answered words are API: journals and programs hold them. A change here breaks somebody's data or code."""

from __future__ import annotations

from interlock import Status
from interlock.effects import FORMAT_VERSION, Kind
from interlock.outcomes import STATUS_OF_VIA, Reason, Via
from interlock.receipts import Receipt
from interlock.rules.canonical import derive_id
from interlock.testing import CRASH_POINTS


def test_kinds_of_entry() -> None:
    """The kinds that stand in journals are these texts."""
    assert [kind.value for kind in Kind] == [
        "PROPOSED", "ESCALATED", "DECIDED", "AUTHORIZED", "DISPATCHED", "COMMITTED", "REFUSED", "FAILED", "AMBIGUOUS",
        "RESOLVED", "SETTLED", "REVERSED", "AT_RISK",
    ]  # fmt: skip
    assert FORMAT_VERSION == 1


def test_statuses() -> None:
    """The codes that programs compare with are these texts."""
    assert [status.value for status in Status] == [
        "COMMITTED", "COMMITTED_BY_RETRY", "COMMITTED_ON_QUERY", "REAPPLIED_AFTER_QUERY", "DUPLICATE_IGNORED",
        "REFUSED", "FAILED", "AMBIGUOUS", "IN_FLIGHT",
    ]  # fmt: skip


def test_reasons() -> None:
    """The reasons that stand in journals and follow a status are these texts; more may come, none may go."""
    assert {reason.value for reason in Reason} >= {
        "conflicting_payload", "lease", "stale_premise", "premise_false", "lease_at_recovery", "stale_premise_at_recovery",
        "sender_alive", "key_in_use", "unanswered", "absence_not_yet_trusted", "lookup_failed", "check_unreadable",
        "race_lost", "no_function", "recovery_error", "over_limit", "bad_input", "unreadable",
    }  # fmt: skip


def test_how_it_came_to_be_known() -> None:
    """Each stored `via` is this text and stands for this status."""
    assert {str(via): str(status) for via, status in STATUS_OF_VIA.items()} == {
        "send": "COMMITTED",
        "late_answer": "COMMITTED",
        "retry": "COMMITTED_BY_RETRY",
        "query": "COMMITTED_ON_QUERY",
        "reapply": "REAPPLIED_AFTER_QUERY",
    }
    assert set(STATUS_OF_VIA) == set(Via)


def test_crash_points() -> None:
    """The names of crash points, which tests of users hold, are these."""
    assert CRASH_POINTS == (
        "before_load", "after_load", "before_read_facts", "after_read_facts", "before_authorize", "after_authorize",
        "before_read_budgets", "after_read_budgets",
        "before_append", "after_append", "before_dispatch", "after_dispatch", "before_send", "after_send",
        "before_look_up", "after_look_up", "before_probe", "after_probe", "before_wait", "after_wait",
    )  # fmt: skip


def test_identities() -> None:
    """The keys that services hold are derived as they always were."""
    assert {
        (effect, key, attempt): derive_id(effect, key, attempt) for effect, key, attempt in IDENTITIES
    } == IDENTITIES


IDENTITIES = {
    ("refund_money", "refund:881", 1): "0pe094m482db624h7ego7lgp",
    ("refund_money", "refund:881", 2): "daa6jlhijk28kjf3q8hspqba",
}


def test_the_form_of_a_receipt() -> None:
    """A receipt's document has these fields."""
    assert Receipt("e", ("b",), ("h",)).to_dict() == {
        "interlock_receipt": 1,
        "effect_id": "e",
        "entries": [{"body": "b", "hash": "h"}],
    }
