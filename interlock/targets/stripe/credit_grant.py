"""`stripe_credit_grant`: billing credit for a customer, once (docs.stripe.com/api/billing/credit-grant).

Facts: the customer is there, and what others granted since the decision. Without `params=` the grant is promotional and applies to metered
prices.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import stripe

from interlock.outcomes import Outcome
from interlock.targets.stripe._connection import Calls
from interlock.targets.stripe._duplicate import Duplicates
from interlock.targets.stripe._move import EXISTS, Kind, StripeMove, Whom, existing

if TYPE_CHECKING:
    from interlock.decorator import Interlock
    from interlock.targets.stripe._effect import Options


def _facts(given: Mapping[str, Any]) -> Calls[dict[str, Any]]:
    customer = yield from existing(given["subject"])
    return {"customer": customer, "_can_be_listed": customer == "exists"}


def _params(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "customer": given["subject"],
        "amount": {"type": "monetary", "monetary": {"value": given["amount"], "currency": given["currency"]}},
        "category": "promotional",
        "applicability_config": {"scope": {"price_type": "metered"}},
    }


def _amount_of(thing: Mapping[str, Any]) -> tuple[int, str]:
    granted: dict[str, Any] = thing["amount"]["monetary"]
    return granted["value"], granted["currency"]


_GRANT = Kind(
    name="stripe_credit_grant",
    whom=Whom("customer", ("customer",), ("cus_",)),
    path=lambda given: "/v1/billing/credit_grants",
    params=_params,
    narrowed=lambda given: {"customer": given["subject"]},
    facts=_facts,
    expect=EXISTS,
    amount_of=_amount_of,
    note="name",
    counts=lambda thing: not thing.get("voided_at"),
)


@overload
def stripe_credit_grant(
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
def stripe_credit_grant(
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
def stripe_credit_grant(
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
    """Billing credits for customers, each granted once.

    Args:
        gate: the gate.
        client: a `stripe.StripeClient`. It is not changed; see `stripe_refund`.
        key: names the approved request.
        customer: the `cus_...`, or a function of the case; by default its `customer`.
        currency: the currency of every call; else each call says it.
        duplicates: which grants by others, made since the decision, may be this very one made by hand; see `stripe_refund`.
        asynchronous: whether calls are awaited.
        **options: `Options`: approval, premises, expect, budget, case, metadata, timeout, settle_after, wait, watch_for, name.

    Raises:
        ConfigurationError: something of this cannot be kept.
    """
    return StripeMove(
        gate,
        client,
        _GRANT,
        key=key,
        whom=customer,
        currency=currency,
        duplicates=duplicates,
        asynchronous=asynchronous,
        options=options,
    )
