"""What an arm answers, what that claims about the world, and whether the world agrees.

PURE: no service, no disk. A verdict is made of three things only: the money on the service's ledger, the money the row
allows, and what the answer claims.

    money not allowed, or a claim the ledger contradicts      violated
    otherwise, an answer that says nobody can tell            unknown
    otherwise                                                 held
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from benchmarks.harness.document import Verdict


class Claim(StrEnum):
    """What an answer says about the refund that was asked for."""

    LANDED = "landed"
    NOT_LANDED = "not_landed"
    UNKNOWN = "unknown"


CLAIMS: dict[str, Claim] = {
    # the gate
    "COMMITTED": Claim.LANDED,
    "COMMITTED_BY_RETRY": Claim.LANDED,
    "COMMITTED_ON_QUERY": Claim.LANDED,
    "REAPPLIED_AFTER_QUERY": Claim.LANDED,
    "DUPLICATE_IGNORED": Claim.LANDED,
    "REFUSED": Claim.NOT_LANDED,
    "FAILED": Claim.NOT_LANDED,
    "AMBIGUOUS": Claim.UNKNOWN,
    "IN_FLIGHT": Claim.UNKNOWN,
    # the hand check
    "SENT": Claim.LANDED,
    "FOUND": Claim.LANDED,
    "STOPPED": Claim.NOT_LANDED,
    "DECLINED": Claim.NOT_LANDED,
    "ASK_A_PERSON": Claim.UNKNOWN,
    # results of the baselines, after their status
    "ok": Claim.LANDED,
    "already_processed": Claim.LANDED,
    "key_reused_with_different_params": Claim.NOT_LANDED,
    "declined": Claim.NOT_LANDED,
    "rejected": Claim.NOT_LANDED,
    # an error nobody could make sense of
    "UNCLEAR": Claim.UNKNOWN,
    "unclear": Claim.UNKNOWN,
    "ERROR": Claim.UNKNOWN,
    # a bare status of a baseline that reports no result
    "APPLIED": Claim.LANDED,
    "RETRIED": Claim.LANDED,
}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one worker said about one request."""

    status: str
    refund: str | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As it travels from a worker."""
        return asdict(self)


def claim_of(status: str) -> Claim:
    """What a status claims: its last part where that says it (`RERUN:ok`), else its first (`REFUSED:lease`)."""
    parts = status.split(":")
    return CLAIMS[parts[-1]] if parts[-1] in CLAIMS else CLAIMS[parts[0]]


def is_true(status: str, *, asked_minor: int, landed_minor: Sequence[int]) -> bool:
    """Whether the ledger bears the claim out.

    Args:
        status: The answer.
        asked_minor: The amount that was asked for last.
        landed_minor: The amounts of the refunds on the ledger that the agent itself made.
    """
    match claim_of(status):
        case Claim.LANDED:
            return bool(landed_minor)
        case Claim.NOT_LANDED:
            return asked_minor not in landed_minor
        case Claim.UNKNOWN:
            return True


def judge(*, money_minor: int, allowed_minor: Collection[int], claim: Claim, answer_true: bool) -> Verdict:
    """The verdict of a cell; see the module's head.

    An answer that claims nothing may also leave less than the whole on the ledger: nothing was lost that anybody was told
    had landed. It may never leave more.
    """
    undecided = claim is Claim.UNKNOWN and 0 <= money_minor <= max(allowed_minor)
    if not answer_true or not (money_minor in allowed_minor or undecided):
        return Verdict.VIOLATED
    return Verdict.UNKNOWN if claim is Claim.UNKNOWN else Verdict.HELD
