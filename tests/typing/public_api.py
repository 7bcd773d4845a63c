"""A typed reader's view of the public door. Checked by pyright in strict mode; never run.

`assert_type` pins what a user's editor shows. A line with `pyright: ignore[...]` must be an error: when it is not one any more,
pyright reports the comment as unnecessary, so this page also fails when a check is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import assert_type

from interlock import (
    Condition,
    Interlock,
    Kind,
    NotSent,
    Outcome,
    OutcomeError,
    Proposal,
    Receipt,
    Rejected,
    Status,
    at_least,
    at_most,
    equals,
    matches,
    one_of,
    tolerates,
    unchanged,
)
from interlock.testing import SimulatedCrash

gate = Interlock(".interlock")
Interlock()  # the check that there is a directory or a journal is made when it runs
Interlock(7)  # pyright: ignore[reportArgumentType]


class CardError(Exception):
    """An error of the reader's SDK."""


def key_of(order: str, amount: Decimal) -> str:
    return f"refund:{order}"


def facts_of(order: str, idempotency_key: str) -> dict[str, object]:
    return {"eligible": True, "refunded_by_others": 0}


def is_written(note: str) -> bool:
    return bool(note)


def has_grown(seen: int, now: int, amount: Decimal) -> bool:
    return now > seen


async def may_refund(order: str) -> bool:
    return True


def look_up(idempotency_key: str) -> dict[str, str] | None:
    return None


@gate.effect(
    key=key_of,
    premises=facts_of,
    expect={
        "eligible": True,
        "refunded_by_others": unchanged(),
        "stock": at_least(1),
        "price": at_most(100),
        "state": one_of("open", "paid"),
        "owner": equals("support"),
        "note": matches(is_written),
        "other": tolerates(has_grown, why="an unrelated refund"),
    },
    allowed=may_refund,
    lookup=look_up,
    dedupes=True,
    window=timedelta(hours=24),
    lookup_lag=0.5,
    settle_after=0.05,
    timeout=30,
    wait=5.0,
    rejected_on=CardError,
    not_sent_on=(ConnectionRefusedError,),
    binds=("order", "amount"),
    ignore=("client",),
    context=lambda: {"client": object()},
    name="refund_money",
)
def refund_money(order: str, amount: Decimal, idempotency_key: str, client: object = None) -> dict[str, str]:
    if amount < 0:
        raise Rejected("no", reason="negative")
    if client is None:
        raise NotSent("no client")
    return {"id": idempotency_key}


def mail_key(order: str) -> str:
    return f"mail:{order}"


@gate.effect(key=mail_key)
async def send_mail(order: str) -> str:
    return order


gate.effect()  # pyright: ignore[reportCallIssue]
gate.effect(key="refund:881")  # pyright: ignore[reportArgumentType]
gate.effect(key=key_of, windows=3)  # pyright: ignore[reportCallIssue]
gate.effect(key=key_of, dedupes="yes")  # pyright: ignore[reportArgumentType]

assert_type(unchanged(), Condition)
assert_type(refund_money.gate, Interlock)
assert_type(refund_money("881", amount=Decimal("20.00"), decision="case-4471"), Outcome)

proposal = refund_money.proposal("881", amount=Decimal("20.00"))
assert_type(proposal, Proposal)
assert_type(Proposal.from_dict(proposal.to_dict()), Proposal)
proposal.key = "other"  # pyright: ignore[reportAttributeAccessIssue]

outcome = gate.submit(proposal, wait=5.0)
assert_type(outcome, Outcome)
assert_type(outcome.status, Status)
assert_type(outcome.ok, bool)
assert_type(outcome.for_person, str)
assert_type(outcome.for_model, str)
assert_type(outcome.effect_id, str)
assert_type(outcome.retry_after, float | None)
assert_type(outcome.receipt(), Receipt)
assert_type(outcome.raise_for_status(), Outcome)
if outcome.status in (Status.COMMITTED, Status.DUPLICATE_IGNORED):
    print(outcome.value, outcome.evidence)


def misuse(outcome: Outcome) -> None:
    outcome.status = Status.FAILED  # pyright: ignore[reportAttributeAccessIssue]
    outcome.states()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    outcome + 1  # pyright: ignore[reportOperatorIssue, reportUnusedExpression]


report = gate.recover(wait=timedelta(seconds=2))
assert_type(report.ambiguous, tuple[Outcome, ...])
plain: Sequence[Outcome] = report
for settled in report:
    assert_type(settled, Outcome)


async def main() -> None:
    """The same, on an event loop."""
    assert_type(await send_mail("881"), Outcome)
    assert_type(await send_mail.aproposal("881"), Proposal)
    assert_type(await gate.asubmit(send_mail.proposal("881")), Outcome)
    for settled in await gate.arecover():
        assert_type(settled, Outcome)


try:
    gate.submit(proposal, crash_after_effect=True)
except SimulatedCrash:
    gate.close()
except OutcomeError as error:
    print(error)

with Interlock(".interlock") as opened:
    assert_type(opened, Interlock)

stored: str = Kind.COMMITTED


async def calls() -> None:
    """A call answers with an outcome; that of an `async def` function is awaited."""
    assert_type(refund_money("881", amount=Decimal("20.00")), Outcome)
    assert_type(refund_money.submit(("881",), {"amount": Decimal("20.00")}, decision="case-9"), Outcome)
    assert_type(await send_mail("881"), Outcome)
    print(send_mail("881").ok)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType, reportUnknownMemberType]
