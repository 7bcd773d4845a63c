from __future__ import annotations

import pytest

from benchmarks.harness.document import Verdict
from benchmarks.suites.refund_agent.answer import Claim, claim_of, is_true, judge
from benchmarks.suites.refund_agent.arms import COLUMNS
from benchmarks.suites.refund_agent.rows import ROWS
from benchmarks.suites.refund_agent.wanted import (
    FURTHER_COLUMNS,
    FURTHER_ROWS,
    HANDED_COLUMNS,
    HANDED_ROWS,
    WANTED,
)


@pytest.mark.parametrize(
    ("status", "claim"),
    [
        ("COMMITTED_BY_RETRY", Claim.LANDED),
        ("DUPLICATE_IGNORED", Claim.LANDED),
        ("REFUSED:stale_premise_at_recovery", Claim.NOT_LANDED),
        ("FAILED:declined", Claim.NOT_LANDED),
        ("AMBIGUOUS", Claim.UNKNOWN),
        ("IN_FLIGHT:sender_alive", Claim.UNKNOWN),
        ("REPLAYED:RERUN:already_processed", Claim.LANDED),
        ("APPLIED:key_reused_with_different_params", Claim.NOT_LANDED),
        ("RETRIED", Claim.LANDED),
        ("STOPPED:permission", Claim.NOT_LANDED),
        ("ASK_A_PERSON", Claim.UNKNOWN),
    ],
)
def test_what_a_status_claims(status: str, claim: Claim) -> None:
    """Every arm's words are read as one of three claims."""
    assert claim_of(status) is claim


def test_an_unknown_status_is_an_error() -> None:
    """A status nobody has given a meaning to is never read as a claim."""
    with pytest.raises(KeyError):
        claim_of("PERHAPS")


def test_a_claim_is_checked_against_the_ledger() -> None:
    """An answer of "refused" is a lie if the refund that was asked for landed, "landed" is one if none did."""
    assert is_true("COMMITTED", asked_minor=2000, landed_minor=[2000])
    assert not is_true("COMMITTED", asked_minor=2000, landed_minor=[])
    assert not is_true("REFUSED:lease", asked_minor=2000, landed_minor=[2000])
    assert is_true("REFUSED:conflicting_payload", asked_minor=3000, landed_minor=[2000])
    assert is_true("AMBIGUOUS", asked_minor=2000, landed_minor=[2000])


@pytest.mark.parametrize(
    ("money", "claim", "true", "verdict"),
    [
        (2000, Claim.LANDED, True, Verdict.HELD),
        (4000, Claim.LANDED, True, Verdict.VIOLATED),
        (0, Claim.LANDED, False, Verdict.VIOLATED),
        (0, Claim.NOT_LANDED, True, Verdict.VIOLATED),
        (2000, Claim.NOT_LANDED, False, Verdict.VIOLATED),
        (0, Claim.UNKNOWN, True, Verdict.UNKNOWN),
        (2000, Claim.UNKNOWN, True, Verdict.UNKNOWN),
        (4000, Claim.UNKNOWN, True, Verdict.VIOLATED),
    ],
)
def test_verdicts(money: int, claim: Claim, true: bool, verdict: Verdict) -> None:
    """Where $20 must be refunded: too much, too little or a false answer violates, and "nobody can tell" excuses only less."""
    assert judge(money_minor=money, allowed_minor=(2000,), claim=claim, answer_true=true) is verdict


def test_the_specification_is_whole() -> None:
    """Every handed and every further cell has a wanted value, and every row that is wanted is played."""
    assert len(HANDED_ROWS) == 11
    assert len(HANDED_COLUMNS) == 6
    assert len(WANTED) == 11 * 6 + len(FURTHER_ROWS) * len(FURTHER_COLUMNS)
    assert {row.name for row in ROWS} == {*HANDED_ROWS, *FURTHER_ROWS}
    assert {column for _, column in WANTED} <= set(COLUMNS)
