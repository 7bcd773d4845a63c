"""Budgets: a cap that effects of any kind share. What may be asked for, when a reservation stands, and whether there is room.

    budget customer:7, limit 3000        held
      refund 881 asks 2000  DISPATCHED   2000   reserved in the dispatch write
      refund 882 asks 2000  REFUSED      2000   over_limit: 1000 is left, refund 881 holds the rest
      refund 881            FAILED          0   certainly not sent: given back, once
      refund 882 asks 2000  DISPATCHED   2000

Theory of operation. A reservation is nothing of its own: it follows from an effect's entries, by `reserved`. A journal keeps sums beside
the entries so that it need not add them up, and whoever doubts those adds them up again (`Journal.verify`). The room is decided in the
same write as the dispatch, by `shortfall`; what an effect holds itself never stands in its own way, and is replaced, not added to.

Once sent, a reservation stands until it is certain that nothing happened: open, landed and AMBIGUOUS effects hold theirs, and so does
one that the service took and later reversed. Money that came back is a new fact, and whether it may be spent again is for whoever sets
the limit. An effect that landed after all, though it was called refused before, holds its reservation again, room or not.

Whole minor units only (cents), never fractions. This module must not know where sums are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from interlock.effects import Draft, Entry, Kind
from interlock.errors import BadInput
from interlock.record import NamedTuple, record

GREATEST = 2**53
"""Beyond this not every whole number survives JSON, so none is taken."""
HOLDERS_TOLD = 10
"""How many holders a refusal names, the greatest first."""

STANDS_AFTER = frozenset(
    {Kind.DISPATCHED, Kind.COMMITTED, Kind.AMBIGUOUS, Kind.RESOLVED, Kind.SETTLED, Kind.REVERSED, Kind.AT_RISK}
)
"""Last entries of an effect that holds its reservation. After the others nothing was sent, or it is certain that nothing happened."""


@record(frozen=True)
class Budget:
    """A cap shared by effects of any kind, and what this call takes of it: never more than `limit` is held under `key`.

    The limit is that of the call: where two calls name one key with different limits, each is judged by its own.

    Attributes:
        key: names the cap, such as `refunds:customer:7:2026-03`. Everything that names the same key shares it.
        limit: the most that may be held, in minor units (cents); 0 lets nothing through.
        amount: what this call takes, in minor units. More than the limit is refused as over_limit.

    Raises:
        BadInput: the key is empty or no text, or a number is not a whole one in range.
    """

    key: str
    limit: int
    amount: int

    def __post_init__(self) -> None:
        key: Any = self.key
        if not isinstance(key, str) or not key.strip():
            raise BadInput(
                f"a budget's key is {self.key!r}; give a text that names the cap, such as 'refunds:customer:7'."
            )
        try:
            self.key.encode("utf-8")
        except UnicodeEncodeError:
            raise BadInput(f"a budget's key is {self.key!r}, which is no valid Unicode.") from None
        value: Any
        for name, value, least in (("limit", self.limit, 0), ("amount", self.amount, 1)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise BadInput(
                    f"budget {self.key!r}: {name} is {value!r} ({type(value).__name__}); give a whole number of minor units, "
                    "such as 2000 for 20.00."
                )
            if not least <= value <= GREATEST:
                remedy = " Where a call takes nothing, return None." if name == "amount" and value == 0 else ""
                raise BadInput(f"budget {self.key!r}: {name} is {value}; give one from {least} to {GREATEST}.{remedy}")

    def to_json(self) -> dict[str, Any]:
        """The form on the record."""
        return {"key": self.key, "limit": self.limit, "amount": self.amount}


class Holder(NamedTuple):
    """An effect that holds part of a budget.

    Attributes:
        effect: name of the effect.
        key: its business key.
        amount: what it holds, in minor units.
    """

    effect: str
    key: str
    amount: int


class Shortfall(NamedTuple):
    """A budget without room for a call.

    Attributes:
        budget: its key.
        limit: the call's limit.
        amount: what the call asked for.
        held: what others hold.
        holders: who, the greatest first, as many as are told.
        others: how many more hold something.
    """

    budget: str
    limit: int
    amount: int
    held: int
    holders: tuple[Holder, ...] = ()
    others: int = 0

    def to_json(self) -> dict[str, Any]:
        """The form on the record and in `outcome.changes`."""
        return {
            "rule": f"at most {self.limit}",
            "limit": self.limit,
            "amount": self.amount,
            "held": self.held,
            "left": max(0, self.limit - self.held),
            "holders": [holder._asdict() for holder in self.holders],
            "others": self.others,
        }

    def __str__(self) -> str:
        """In words, for a person."""
        text = f"Budget {self.budget!r}: {self.amount} was asked for, and {max(0, self.limit - self.held)} of {self.limit} is left."
        if self.holders:
            listed = ", ".join(f"{holder.effect} {holder.key!r} {holder.amount}" for holder in self.holders)
            text += f" Held by: {listed}{f' and {self.others} more' if self.others else ''}."
        return text


def several(given: Any) -> tuple[Budget, ...]:
    """The budgets of one call, from a `Budget`, a list of them, or None.

    Raises:
        BadInput: something else, or one key twice.
    """
    if given is None:
        return ()
    listed = given if isinstance(given, list | tuple) else (given,)
    for budget in listed:
        if not isinstance(budget, Budget):
            raise BadInput(f"{budget!r:.200} is no Budget; give a Budget, a list of them, or None for no cap.")
    keys = [budget.key for budget in listed]
    for key in keys:
        if keys.count(key) > 1:
            raise BadInput(f"budget {key!r} is named twice in one call; name it once, with the sum.")
    return tuple(listed)


def has_room(*, limit: int, amount: int, held: int) -> bool:
    """Whether so much more may be held, where others hold `held`."""
    return held + amount <= limit


def asked(data: Mapping[str, Any]) -> dict[str, int]:
    """What a DISPATCHED entry reserves: amount by key."""
    return {budget["key"]: budget["amount"] for budget in data.get("budget", ())}


def reserved(entries: Iterable[Entry | Draft]) -> dict[str, int]:
    """What an effect holds, by the key of the budget, in minor units.

    A DISPATCHED that follows a DISPATCHED is a recovery's resend. It stands under the same reservation, unless it names one of its
    own: the permission that it was sent under is another by then.
    """
    before: Kind | None = None
    sent: dict[str, int] = {}
    for entry in entries:
        if entry.kind is Kind.DISPATCHED and (before is not Kind.DISPATCHED or "budget" in entry.data):
            sent = asked(entry.data)
        before = entry.kind
    return sent if before in STANDS_AFTER else {}
