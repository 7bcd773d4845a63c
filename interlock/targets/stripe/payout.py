"""`stripe_payout`: money from a balance to a bank account, once (docs.stripe.com/api/payouts, docs.stripe.com/payouts).

For the platform itself, or for the connected account that the case names (docs.stripe.com/connect/authentication: `Stripe-Account`).
Facts: that account may pay out, and what others paid out since the decision. Whether the balance suffices is for Stripe to say.
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
    if given["subject"] is None:
        return {"payouts": "enabled"}  # the platform's own: Stripe refuses it by itself if it may not
    try:
        account = as_dict((yield Call(path_of("/v1/accounts", given["subject"]))))
    except (stripe.InvalidRequestError, stripe.PermissionError) as error:
        if is_missing(error) or error.code == "account_invalid":
            return {"payouts": "no such account", "_can_be_listed": False}
        raise
    return {"payouts": "enabled" if account.get("payouts_enabled") else "not enabled"}


_PAYOUT = Kind(
    name="stripe_payout",
    whom=Whom("account", ("account",), ("acct_",), is_needed=False),
    path=lambda given: "/v1/payouts",
    params=lambda given: {"amount": given["amount"], "currency": given["currency"]},
    narrowed=lambda given: {"created": {"gte": given["since"]}},
    facts=_facts,
    expect={"payouts": equals("enabled")},
    # Payouts that Stripe makes by itself are nobody's decision.
    counts=lambda thing: thing.get("status") not in ("failed", "canceled") and not thing.get("automatic"),
    settles=True,
    on_account=True,
)


@overload
def stripe_payout(
    gate: Interlock,
    client: stripe.StripeClient,
    *,
    key: Callable[..., str],
    account: str | Callable[..., str] | None = None,
    currency: str | None = None,
    duplicates: Duplicates = "by_amount",
    asynchronous: Literal[False] = False,
    **options: Unpack[Options],
) -> StripeMove[Outcome]: ...
@overload
def stripe_payout(
    gate: Interlock,
    client: stripe.StripeClient,
    *,
    key: Callable[..., str],
    account: str | Callable[..., str] | None = None,
    currency: str | None = None,
    duplicates: Duplicates = "by_amount",
    asynchronous: Literal[True],
    **options: Unpack[Options],
) -> StripeMove[Awaitable[Outcome]]: ...
def stripe_payout(
    gate: Interlock,
    client: stripe.StripeClient,
    *,
    key: Callable[..., str],
    account: str | Callable[..., str] | None = None,
    currency: str | None = None,
    duplicates: Duplicates = "by_amount",
    asynchronous: bool = False,
    **options: Unpack[Options],
) -> StripeMove[Any]:
    """Payouts to a bank account, each made once.

    Args:
        gate: the gate.
        client: a `stripe.StripeClient`. It is not changed; see `stripe_refund`.
        key: names the approved request.
        account: the connected account, or a function of the case; by default its `account`, else the platform itself.
        currency: the currency of every call; else each call says it.
        duplicates: which payouts by others, made since the decision, may be this very one made by hand; see `stripe_refund`.
        asynchronous: whether calls are awaited.
        **options: `Options`: approval, premises, expect, budget, case, metadata, timeout, settle_after, wait, watch_for, name.

    Raises:
        ConfigurationError: something of this cannot be kept.
    """
    return StripeMove(
        gate,
        client,
        _PAYOUT,
        key=key,
        whom=account,
        currency=currency,
        duplicates=duplicates,
        asynchronous=asynchronous,
        options=options,
    )
