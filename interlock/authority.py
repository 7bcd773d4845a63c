"""Authority: who allowed an effect, how much of it, and until when. Owns the rule by which an approval permits or does not.

An `approval=` callback answers with an `Approval`, with True or False, or with None for "nobody approved it". It is asked right before
the send and again after a crash, so it must read the approval where a person can still take it back. Does no I/O and reads no clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from interlock.errors import BadInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """Somebody's word that an effect may happen: who, how much, until when.

    Attributes:
        id: names the approval where it is kept; a new id is a new decision.
        by: who gave it.
        amount_minor: the most that it covers, in the currency's smallest unit; None for no cap.
        until: when it ends, with a timezone; None for never.
        revoked: whether it was taken back.

    Raises:
        BadInput: a field is of the wrong kind.
    """

    id: str
    by: str = ""
    amount_minor: int | None = None
    until: datetime | None = None
    revoked: bool = False

    def __post_init__(self) -> None:
        given: Any = self  # what the annotations promise is what is checked here
        if not isinstance(given.id, str) or not self.id.strip():
            raise BadInput(f"an approval needs an id that names it, not {self.id!r}.")
        if not isinstance(given.by, str):
            raise BadInput(f"approval {self.id!r}: by= is {self.by!r}; give the name of who approved it.")
        if self.amount_minor is not None and (
            isinstance(given.amount_minor, bool) or not isinstance(given.amount_minor, int) or self.amount_minor < 0
        ):
            raise BadInput(
                f"approval {self.id!r}: amount_minor= is {self.amount_minor!r}; give a whole number of the currency's smallest unit."
            )
        if self.until is not None and (not isinstance(given.until, datetime) or self.until.utcoffset() is None):
            raise BadInput(f"approval {self.id!r}: until= is {self.until!r}; give a datetime with a timezone.")
        if given.revoked is not True and given.revoked is not False:
            raise BadInput(f"approval {self.id!r}: revoked= is {self.revoked!r}; say True or False.")


class Permission(NamedTuple):
    """The answer to "may it happen now", and why not. True in a condition if it may.

    Attributes:
        allowed: whether it may.
        why: if not, why, in one sentence.
        approval: the id of the approval that was judged; empty if there was none.
    """

    allowed: bool
    why: str = ""
    approval: str = ""

    def __bool__(self) -> bool:
        return self.allowed


def permission_of(answer: Any, *, amount_minor: int | None, now: datetime) -> Permission:
    """Whether an approval permits an amount now.

    Args:
        answer: what the `approval=` callback gave.
        amount_minor: what the effect would move; None if it moves no amount.
        now: the present, with a timezone.

    Raises:
        BadInput: the answer is none of Approval, True, False and None.
    """
    if answer is None:
        return Permission(False, "Nobody approved it.")
    if answer is True or answer is False:
        return Permission(bool(answer), "" if answer else "The approval was withheld.")
    if not isinstance(answer, Approval):
        raise BadInput(f"approval= answered {answer!r:.200}. Answer an Approval, True, False, or None.")
    whose = f"Approval {answer.id!r}" + (f" by {answer.by}" if answer.by else "")
    if answer.revoked:
        why = f"{whose} was revoked."
    elif answer.until is not None and now >= answer.until:
        why = f"{whose} ended at {answer.until.isoformat(timespec='seconds')}."
    elif answer.amount_minor is not None and (amount_minor is None or abs(amount_minor) > answer.amount_minor):
        asked = "an amount that is not known" if amount_minor is None else str(amount_minor)
        why = f"{whose} covers {answer.amount_minor}, not {asked} (in the currency's smallest unit)."
    else:
        return Permission(True, approval=answer.id)
    return Permission(False, why, answer.id)
