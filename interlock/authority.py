"""Authority: who allowed what, how much of it, and until when. Owns the rule by which an approval permits or does not.

An `approval=` callback answers with an `Approval`, with True or False, or with None for "nobody approved it". It is asked right before
the send and again after a crash, so it must read the approval where a person can still take it back. Does no I/O and reads no clock.

An approval with an amount is a cap, shared by all that is done under its id: $20 approved is $20 in all, not $20 for each. What an effect
takes of it is reserved in the write that dispatches it, as a budget `approval:<id>`, and stands by the rules of budgets.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from interlock.errors import BadInput
from interlock.record import NamedTuple, record
from interlock.rules.budgets import Budget

AHEAD = timedelta(seconds=5)
"""How far the clock that an approval's `at` was taken from may be ahead of this machine's."""


@record(frozen=True, kw_only=True)
class Approval:
    """Somebody's word that something may happen: who, how much, until when.

    Attributes:
        id: names the approval where it is kept; a new id is a new decision.
        by: who gave it.
        amount_minor: the most that it covers in all, in the currency's smallest unit; None for no cap.
        currency: three letters; what is in another currency is not covered. Empty for any, and then amounts are added up as they are.
        at: when it was given, with a timezone, by the clock of whoever keeps it. What others did since then has been done since the
            decision, though no call was made yet. None: the decision is as old as the first call, or as the proposal. The effects of
            `interlock.targets.stripe` hold it against Stripe's times, in whole seconds; what has the same second came later. More than
            5 seconds in the future by this machine's clock permits nothing until then. It stays as it is: another time needs another id.
        until: when it ends, with a timezone; None for never.
        revoked: whether it was taken back.

    Raises:
        BadInput: a field is of the wrong kind.
    """

    id: str
    by: str = ""
    amount_minor: int | None = None
    currency: str = ""
    at: datetime | None = None
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
        code: Any = given.currency
        if not isinstance(code, str) or (code and not (len(code) == 3 and code.isascii() and code.isalpha())):
            raise BadInput(f"approval {self.id!r}: currency= is {code!r}; give a three-letter code such as 'usd'.")
        for name, moment in (("at", given.at), ("until", given.until)):
            if moment is not None and (not isinstance(moment, datetime) or moment.utcoffset() is None):
                raise BadInput(f"approval {self.id!r}: {name}= is {moment!r}; give a datetime with a timezone.")
        if given.revoked is not True and given.revoked is not False:
            raise BadInput(f"approval {self.id!r}: revoked= is {self.revoked!r}; say True or False.")


class Permission(NamedTuple):
    """The answer to "may it happen now", and why not. True in a condition if it may.

    Attributes:
        allowed: whether it may.
        why: if not, why, in one sentence.
        approval: the id of the approval that was judged; empty if there was none.
        budgets: what it takes of the approval, to be reserved with the dispatch.
    """

    allowed: bool
    why: str = ""
    approval: str = ""
    budgets: tuple[Budget, ...] = ()

    def __bool__(self) -> bool:
        return self.allowed


def cap_of(approval: str) -> str:
    """The key of the budget that is an approval's amount."""
    return f"approval:{approval}"


def permission_of(answer: Any, *, amount_minor: int | None, now: datetime, currency: str = "") -> Permission:
    """Whether an approval permits an amount now.

    Args:
        answer: what the `approval=` callback gave.
        amount_minor: what the effect would move; 0 if it moves nothing, None if that is not known.
        now: the present, with a timezone.
        currency: of the amount; empty if that is not known.

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
    elif answer.at is not None and answer.at - now > AHEAD:
        why = (
            f"{whose} is said to be given at {answer.at.isoformat(timespec='seconds')}, and by this machine's clock it is "
            f"{now.astimezone(answer.at.tzinfo).isoformat(timespec='seconds')}: one of the clocks is wrong."
        )
    elif answer.until is not None and now >= answer.until:
        why = f"{whose} ended at {answer.until.isoformat(timespec='seconds')}."
    elif answer.currency and amount_minor != 0 and currency.lower() != answer.currency.lower():
        why = f"{whose} is in {answer.currency.upper()}, not in {currency.upper() or 'a currency that is not known'}."
    elif answer.amount_minor is not None and (amount_minor is None or abs(amount_minor) > answer.amount_minor):
        asked = "an amount that is not known" if amount_minor is None else str(amount_minor)
        why = f"{whose} covers {answer.amount_minor}, not {asked} (in the currency's smallest unit)."
    else:
        takes = answer.amount_minor is not None and amount_minor
        cap = Budget(cap_of(answer.id), answer.amount_minor or 0, abs(amount_minor or 0)) if takes else None
        return Permission(True, approval=answer.id, budgets=() if cap is None else (cap,))
    return Permission(False, why, answer.id)
