"""Moves: effects that make a new object with an amount for somebody (a transfer, a payout, a credit). Owns the call that they share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

import stripe

from interlock.effects import Facts, Own, Proposal
from interlock.errors import BadInput
from interlock.record import NamedTuple
from interlock.rules.premises import equals
from interlock.targets.stripe._connection import Call, Calls, as_dict, listed, path_of
from interlock.targets.stripe._decision import came_later
from interlock.targets.stripe._duplicate import Duplicates, rule_of, shown_of
from interlock.targets.stripe._effect import AT_MOST, A, Parts, StripeEffect, common_of, refuse_own
from interlock.targets.stripe._error import is_missing
from interlock.targets.stripe._mark import is_ours, marked, own_of
from interlock.targets.stripe._money import checked_amount, checked_currency
from interlock.targets.stripe._plan import Plan
from interlock.targets.stripe.settlement import ids_in, settlement_calls

if TYPE_CHECKING:
    from interlock.decorator import Interlock
    from interlock.targets.stripe._effect import Decider, Options

Given = Mapping[str, Any]
OWN = frozenset({"amount", "currency", "metadata"})
"""What a call says by its own arguments."""


class Whom(NamedTuple):
    """For whom it is.

    Attributes:
        option: the option and the word for it: `destination`, `customer`, `account`.
        fields: where a case names it, first to last.
        prefixes: what its id begins with.
        is_needed: whether there must be one.
    """

    option: str
    fields: tuple[str, ...]
    prefixes: tuple[str, ...]
    is_needed: bool = True


class Kind(NamedTuple):
    """One kind of move.

    Attributes:
        name: of the effect, unless the user gives another.
        whom: for whom it is.
        path: where such objects are made and listed.
        params: what the created object takes, from the recorded arguments.
        note: what Stripe calls a text for people on it.
        narrowed: what the list is narrowed to, from the recorded arguments.
        amount_of: the amount and the currency of a listed object.
        counts: whether a listed object moved something in the end.
        facts: further facts.
        expect: what they must be.
        signed: whether an amount may be negative.
        settles: whether it has a later fate that can be read.
        on_account: whether requests are made for the connected account that it is for.
    """

    name: str
    whom: Whom
    path: Callable[[Given], str]
    params: Callable[[Given], dict[str, Any]]
    narrowed: Callable[[Given], dict[str, Any]]
    facts: Callable[[Given], Calls[dict[str, Any]]]
    expect: Mapping[str, Any]
    note: str = "description"
    amount_of: Callable[[Given], tuple[int, str]] = lambda thing: (thing["amount"], thing["currency"])
    counts: Callable[[Given], bool] = lambda thing: True
    signed: bool = False
    settles: bool = False
    on_account: bool = False


class StripeMove(StripeEffect[A]):
    """A gated move of money: `pay(case, amount=2000, currency="usd")`."""

    def __init__(
        self,
        gate: Interlock,
        client: Any,
        kind: Kind,
        *,
        key: Callable[..., str],
        whom: Any,
        currency: str | None,
        duplicates: Duplicates,
        asynchronous: bool,
        options: Options,
    ) -> None:
        self._currency = None if currency is None else checked_currency(currency)
        self._kind = kind
        common = common_of(kind.name, key, asynchronous, options)
        super().__init__(gate, client, _plan(kind, rule_of(duplicates, common.name)), common)
        self._whom = (
            whom if whom is None or isinstance(whom, str) else self._callback(whom, kind.whom.option, may_wait=False)
        )

    def __call__(
        self,
        case: Any,
        *,
        amount: int,
        currency: str | None = None,
        params: Mapping[str, Any] | None = None,
        description: str | None = None,
        metadata: Mapping[str, str] | None = None,
        **decider: Unpack[Decider],
    ) -> A:
        """Move it once.

        Args:
            case: what it is about; `key=` and the other callbacks get it.
            amount: in the currency's smallest unit.
            currency: three letters; by default the one that was declared.
            params: further parameters of Stripe's, which make it this very request.
            description: for people. May differ between tries; what was recorded first is sent.
            metadata: further metadata of what is made.
            **decider: `decision=`, `seen=`, `wait=`, as for a refund.

        Returns:
            An `Outcome`; of an asynchronous effect an awaitable of one.

        Raises:
            BadInput: an argument is not acceptable; nothing was sent.
            CallbackFailed: the facts or the approval could not be read; nothing was sent.

        **Durable when** this returns: what was sent and what came back, or why nothing was.
        **If the process dies** before that: `gate.recover()`, or the next call with the same key, settles it.
        """
        parts = self._parts(
            case, amount=amount, currency=currency, params=params, description=description, metadata=metadata
        )
        return self.submit_call(case, parts, decider)

    def proposal(
        self,
        case: Any,
        *,
        amount: int,
        currency: str | None = None,
        params: Mapping[str, Any] | None = None,
        description: str | None = None,
        metadata: Mapping[str, str] | None = None,
        **decider: Unpack[Decider],
    ) -> Proposal:
        """Decide now, and make it into a `Proposal` for `gate.submit`; takes what a call takes."""
        parts = self._parts(
            case, amount=amount, currency=currency, params=params, description=description, metadata=metadata
        )
        return self.propose_call(case, parts, decider)

    def _parts(
        self,
        case: Any,
        *,
        amount: Any,
        currency: Any = None,
        params: Any = None,
        description: Any = None,
        metadata: Any = None,
    ) -> Parts:
        if currency is None and self._currency is None:
            raise BadInput(f"effect {self.name!r}: no currency is named. Give currency='usd'. Nothing was sent.")
        refuse_own(params, OWN | {self._kind.whom.option}, self.name)
        code = checked_currency(currency) if currency is not None else self._currency
        if self._currency is not None and code != self._currency:
            raise BadInput(
                f"effect {self.name!r}: currency= is {code!r}, and it was declared for {self._currency!r}. Nothing was sent."
            )
        if description is not None and not isinstance(description, str):
            raise BadInput(f"effect {self.name!r}: description= is {description!r}; give a text. Nothing was sent.")
        return Parts(
            self._whom_of(case),
            checked_amount(amount, currency=code, signed=self._kind.signed),
            code,
            params=params,
            notes={} if description is None else {self._kind.note: description},
            metadata=metadata,
        )

    def _whom_of(self, case: Any) -> str | None:
        whom = self._kind.whom
        if isinstance(self._whom, str):
            named: Any = self._whom
        elif self._whom is not None or not isinstance(case, str) or case.startswith(whom.prefixes):
            named = self.named_by(self._whom, case, whom.fields)
        else:
            named = None
        if named is None and not whom.is_needed:
            return None
        if not isinstance(named, str) or not named.startswith(whom.prefixes):
            raise BadInput(
                f"effect {self.name!r}: no {whom.option} is named ({named!r}). Give the case a field {whom.fields[0]}, or say where it is: "
                f"{whom.option}=lambda case: ... Nothing was sent."
            )
        return named


def existing(customer: str) -> Calls[str]:
    """Whether a customer is there: `exists`, `deleted` or `no such customer`."""
    try:
        found = as_dict((yield Call(path_of("/v1/customers", customer))))
    except stripe.InvalidRequestError as error:
        if is_missing(error):
            return "no such customer"
        raise
    return "deleted" if found.get("deleted") else "exists"


EXISTS = {"customer": equals("exists")}


def _plan(kind: Kind, duplicates: Any) -> Plan:
    def account_of(given: Given) -> str | None:
        return given["subject"] if kind.on_account else None

    def mine(given: Given) -> Calls[list[dict[str, Any]]]:
        return listed(kind.path(given), kind.narrowed(given), at_most=AT_MOST, account=account_of(given))

    def create(given: Given, key: str) -> Call:
        params = {
            **kind.params(given),
            **given["params"],
            **given["notes"],
            "metadata": marked(given["metadata"], key),
        }
        return Call(kind.path(given), params, key, account_of(given))

    def own(things: list[dict[str, Any]], given: Given, key: str) -> Own | None:
        counted = [
            {**thing, **dict(zip(("amount", "currency"), kind.amount_of(thing), strict=True))} for thing in things
        ]
        found = own_of(counted, key, given["amount"], given["currency"])
        return found and found._replace(evidence=next(one for one in things if one["id"] == found.evidence["id"]))

    def find(given: Given, key: str) -> Calls[Own | None]:
        try:
            things = yield from mine(given)
        except stripe.InvalidRequestError as error:
            if not is_missing(error):
                raise
            # What is gone cannot be listed any more, today or ever: that is no absence, and waiting does not help.
            return Own(
                True,
                f"{given['subject']} is not there any more, and Stripe shows nothing that was done for it. Whether this was, its "
                "events and the account's balance tell.",
            )
        return own(things, given, key)

    def facts(given: Given, key: str) -> Calls[Facts]:
        told = yield from kind.facts(given)
        things = [] if not told.pop("_can_be_listed", True) else (yield from mine(given))
        others: list[dict[str, Any]] = []
        for thing in reversed(things):
            amount, currency = kind.amount_of(thing)
            if currency == given["currency"] and kind.counts(thing) and not is_ours(thing, key):
                others.append({**thing, "amount": amount})
        later = came_later(others, given)
        before = {"others": [shown_of(thing) for thing in others if thing not in later]} if later else None
        return Facts({**told, "others": [shown_of(thing) for thing in others]}, own(things, given, key), before)

    def settlement(given: Given, made: Given) -> Calls[Any]:
        account = account_of(given)
        calls = settlement_calls(made)
        return calls if account is None else _on_account(calls, account)

    return Plan(
        create,
        find,
        facts,
        {**kind.expect, "others": duplicates},
        settlement=settlement if kind.settles else None,
        references=ids_in if kind.settles else None,
    )


def _on_account(calls: Calls[Any], account: str) -> Calls[Any]:
    """The same requests, made for a connected account."""
    try:
        call = next(calls)
        while True:
            call = calls.send((yield call._replace(account=account)))
    except StopIteration as done:
        return done.value
