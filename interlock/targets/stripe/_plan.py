"""What one kind of effect at Stripe is made of, and what Stripe answers with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from interlock.effects import Facts, Own
from interlock.record import NamedTuple
from interlock.settlement import Settlement
from interlock.targets.stripe._connection import Call, Calls

ARGUMENTS = ("case", "subject", "amount", "currency", "params", "notes", "metadata", "since", "approved")
"""What is recorded of a call. `since`: where lists begin that are narrowed by time. `approved`: when it was decided, see `_decision`."""


class StripeObject(BaseModel):
    """What Stripe answered: the fields that every object has, and all others as they came.

    Attributes:
        id: Stripe's name for it.
        object: what kind it is.
        status: its state, if that kind has one.
        amount: in the currency's smallest unit, if that kind has one.
        currency: three letters, if that kind has one.
        metadata: with `interlock_effect_id`.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    id: str
    object: str = ""
    status: str | None = None
    amount: int | dict[str, Any] | None = None
    currency: str | None = None
    metadata: dict[str, str] | None = None

    @classmethod
    def of(cls, fields: dict[str, Any]) -> StripeObject:
        """What Stripe answered. Never raises: it has landed, and an odd field must not hide that."""
        try:
            return cls.model_validate(fields)
        except ValidationError:
            return cls.model_construct(**fields)


class Moved(NamedTuple):
    """An amount in the currency's smallest unit; None if that is not known. The currency is empty if it is not known."""

    amount: int | None
    currency: str


class Plan:
    """What one kind of effect is made of. Each function gets the recorded arguments by name.

    Attributes:
        create: the request that does it.
        find: reads until our own object, marked with the key, is found; None if it is certainly not there.
        facts: reads what the decision relies on; with our own object, if it is among what was read.
        expect: what each fact must be.
        moves: reads what it would move, and in which currency, where the call does not say it; an amount of 0 if it moves nothing.
        settlement: reads what became of it, from the recorded arguments and the object that was made.
        references: Stripe's ids under which an event can find it, from the object that was made.
    """

    def __init__(
        self,
        create: Callable[[Mapping[str, Any], str], Call],
        find: Callable[[Mapping[str, Any], str], Calls[Own | None]],
        facts: Callable[[Mapping[str, Any], str], Calls[Facts]] | None = None,
        expect: Mapping[str, Any] | None = None,
        moves: Callable[[Mapping[str, Any], str], Calls[Moved]] | None = None,
        settlement: Callable[[Mapping[str, Any], Mapping[str, Any]], Calls[Settlement | None]] | None = None,
        references: Callable[[Mapping[str, Any]], list[str]] | None = None,
    ) -> None:
        self.create = create
        self.find = find
        self.facts = facts
        self.expect: Mapping[str, Any] = expect or {}
        self.moves = moves
        self.settlement = settlement
        self.references = references
