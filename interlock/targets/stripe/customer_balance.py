"""`stripe_customer_balance`: a change of what a customer owes or is owed, once (docs.stripe.com/api/customer_balance_transactions).

A negative amount is a credit: the customer's next invoice is less by so much. Facts: the customer is there, and what others changed in the
same direction since the decision.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import stripe

from interlock.outcomes import Outcome
from interlock.targets.stripe._connection import Calls, path_of
from interlock.targets.stripe._duplicate import Duplicates
from interlock.targets.stripe._move import EXISTS, Kind, StripeMove, Whom, existing

if TYPE_CHECKING:
    from interlock.decorator import Interlock
    from interlock.targets.stripe._effect import Options


def _facts(given: Mapping[str, Any]) -> Calls[dict[str, Any]]:
    customer = yield from existing(given["subject"])
    return {"customer": customer, "_can_be_listed": customer == "exists"}


_CHANGE = Kind(
    name="stripe_customer_balance",
    whom=Whom("customer", ("customer",), ("cus_",)),
    path=lambda given: path_of("/v1/customers", given["subject"], "balance_transactions"),
    params=lambda given: {"amount": given["amount"], "currency": given["currency"]},
    narrowed=lambda given: {"created": {"gte": given["since"]}},
    facts=_facts,
    expect=EXISTS,
    counts=lambda thing: thing.get("type") == "adjustment",  # those that an invoice makes are nobody's decision
    signed=True,
)


@overload
def stripe_customer_balance(
    gate: Interlock,
    client: stripe.StripeClient,
    *,
    key: Callable[..., str],
    customer: str | Callable[..., str] | None = None,
    currency: str | None = None,
    duplicates: Duplicates = "by_amount",
    asynchronous: Literal[False] = False,
    **options: Unpack[Options],
) -> StripeMove[Outcome]: ...
@overload
def stripe_customer_balance(
    gate: Interlock,
    client: stripe.StripeClient,
    *,
    key: Callable[..., str],
    customer: str | Callable[..., str] | None = None,
    currency: str | None = None,
    duplicates: Duplicates = "by_amount",
    asynchronous: Literal[True],
    **options: Unpack[Options],
) -> StripeMove[Awaitable[Outcome]]: ...
def stripe_customer_balance(
    gate: Interlock,
    client: stripe.StripeClient,
    *,
    key: Callable[..., str],
    customer: str | Callable[..., str] | None = None,
    currency: str | None = None,
    duplicates: Duplicates = "by_amount",
    asynchronous: bool = False,
    **options: Unpack[Options],
) -> StripeMove[Any]:
    """Changes of customers' balances, each made once.

    Args:
        gate: the gate.
        client: a `stripe.StripeClient`. It is not changed; see `stripe_refund`.
        key: names the approved request.
        customer: the `cus_...`, or a function of the case; by default its `customer`.
        currency: the currency of every call; else each call says it.
        duplicates: which changes by others, made since the decision, may be this very one made by hand; see `stripe_refund`.
        asynchronous: whether calls are awaited.
        **options: `Options`: approval, premises, expect, budget, case, metadata, timeout, settle_after, wait, watch_for, name.

    Raises:
        ConfigurationError: something of this cannot be kept.
    """
    return StripeMove(
        gate,
        client,
        _CHANGE,
        key=key,
        whom=customer,
        currency=currency,
        duplicates=duplicates,
        asynchronous=asynchronous,
        options=options,
    )
