"""The mark: the metadata by which an object of ours is found again at Stripe, and told from what others made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from interlock.effects import Own
from interlock.targets.stripe._money import shown

MARK = "interlock_effect_id"
"""The metadata by which our own object is found again."""
CAPTURE_MARK = "interlock_capture_id"
"""The same for a capture, which is written on a payment: that of the effect which made the payment must stay on it."""
MARKS = (MARK, CAPTURE_MARK)


def marked(metadata: Mapping[str, str], key: str, *, mark: str = MARK) -> dict[str, str]:
    """Metadata with our mark."""
    return {**metadata, mark: key}


def own_of(
    things: Iterable[Mapping[str, Any]], key: str, amount: int | None, currency: str | None, *, mark: str = MARK
) -> Own | None:
    """Our own object among others, by its mark; and whether it is what is asked for, for which its amount is held against ours.

    Args:
        things: with `id`, `amount`, `currency` and `metadata`.
        key: the idempotency key.
        amount: as asked for; None if any will do.
        currency: the same.
        mark: by which it is known.
    """
    ours = [thing for thing in things if is_ours(thing, key, mark=mark)]
    if not ours:
        return None
    for thing in ours:
        if amount in (None, thing["amount"]) and currency in (None, thing["currency"]):
            return Own(dict(thing))
    has = " and ".join(f"{thing['id']} of {shown(thing['amount'], thing['currency'])}" for thing in ours)
    asked = shown(amount or 0, currency or ours[0]["currency"])
    return Own(
        dict(ours[0]),
        f"At Stripe {has} carries this effect's mark, and {asked} was asked for. Most often another journal (a lost one, a test's) sent it "
        "under the same key=. If both are wanted, ask under another key.",
    )


def is_ours(thing: Mapping[str, Any], key: str, *, mark: str = MARK) -> bool:
    """Whether an object carries our mark for this key."""
    return (thing.get("metadata") or {}).get(mark) == key
