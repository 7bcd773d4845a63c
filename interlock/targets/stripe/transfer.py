"""`stripe_transfer`: money from the platform's balance to a connected account, once.

docs.stripe.com/api/transfers, docs.stripe.com/connect. Facts: the account can take transfers (`transfers` is `active` among its
capabilities, docs.stripe.com/api/accounts/object), and what others transferred to it since the decision. Whether the balance suffices is
for Stripe to say: `balance_insufficient`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import stripe

from interlock.outcomes import Outcome
from interlock.rules.premises import equals
from interlock.targets.stripe._connection import Call, Calls, as_dict, path_of
from interlock.targets.stripe._duplicate import Duplicates
from interlock.targets.stripe._error import is_missing
from interlock.targets.stripe._move import Kind, StripeMove, Whom

if TYPE_CHECKING:
    from interlock.decorator import Interlock
    from interlock.targets.stripe._effect import Options


def _facts(given: Mapping[str, Any]) -> Calls[dict[str, Any]]:
    try:
        account = as_dict((yield Call(path_of("/v1/accounts", given["subject"]))))
    except (stripe.InvalidRequestError, stripe.PermissionError) as error:
        # docs.stripe.com/error-codes: an account of somebody else's answers account_invalid.
        if is_missing(error) or error.code == "account_invalid":
            return {"takes_transfers": "no such account"}
        raise
    capabilities: dict[str, Any] = account.get("capabilities") or {}
    return {"takes_transfers": capabilities.get("transfers") or "not asked for"}


_TRANSFER = Kind(
    name="stripe_transfer",
    whom=Whom("destination", ("destination", "account"), ("acct_",)),
    path=lambda given: "/v1/transfers",
    params=lambda given: {
        "amount": given["amount"],
        "currency": given["currency"],
        "destination": given["subject"],
    },
    narrowed=lambda given: {"destination": given["subject"], "created": {"gte": given["since"]}},
    facts=_facts,
    expect={"takes_transfers": equals("active")},
    counts=lambda thing: not thing.get("reversed"),
    settles=True,
)


@overload
def stripe_transfer(
    gate: Interlock,
    client: stripe.StripeClient,
    *,
    key: Callable[..., str],
    destination: str | Callable[..., str] | None = None,
    currency: str | None = None,
    duplicates: Duplicates = "by_amount",
    asynchronous: Literal[False] = False,
    **options: Unpack[Options],
) -> StripeMove[Outcome]: ...
@overload
def stripe_transfer(
    gate: Interlock,
    client: stripe.StripeClient,
    *,
    key: Callable[..., str],
    destination: str | Callable[..., str] | None = None,
    currency: str | None = None,
    duplicates: Duplicates = "by_amount",
    asynchronous: Literal[True],
    **options: Unpack[Options],
) -> StripeMove[Awaitable[Outcome]]: ...
def stripe_transfer(
    gate: Interlock,
    client: stripe.StripeClient,
    *,
    key: Callable[..., str],
    destination: str | Callable[..., str] | None = None,
    currency: str | None = None,
    duplicates: Duplicates = "by_amount",
    asynchronous: bool = False,
    **options: Unpack[Options],
) -> StripeMove[Any]:
    """Transfers to connected accounts, each made once.

    Args:
        gate: the gate.
        client: a `stripe.StripeClient`. It is not changed; see `stripe_refund`.
        key: names the approved request.
        destination: the `acct_...`, or a function of the case; by default its `destination` or `account`.
        currency: the currency of every call; else each call says it.
        duplicates: which transfers by others, made since the decision, may be this very one made by hand; see `stripe_refund`.
        asynchronous: whether calls are awaited.
        **options: `Options`: approval, premises, expect, budget, case, metadata, timeout, settle_after, wait, watch_for, name.

    Raises:
        ConfigurationError: something of this cannot be kept.
    """
    return StripeMove(
        gate,
        client,
        _TRANSFER,
        key=key,
        whom=destination,
        currency=currency,
        duplicates=duplicates,
        asynchronous=asynchronous,
        options=options,
    )
