"""What an account has: docs.stripe.com/api/balance and docs.stripe.com/payments/balances.

Owns the sums over balance transactions: pending until `available_on`, available from then on. Nothing is kept beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.services.stripe import balance_transactions
from benchmarks.services.stripe.endpoint import Call, Endpoint
from benchmarks.services.stripe.errors import refused
from benchmarks.services.stripe.ledger import PLATFORM, Json, Ledger
from benchmarks.services.stripe.params import Parameters, texts

enter = balance_transactions.enter
"""How money moves into an account's balance, or out of it."""


def available_on(call: Call, charged: Json) -> int:
    """When the money of a charge becomes available."""
    found = call.ledger.find("balance_transactions", charged["balance_transaction"])
    return call.clock.stamp() if found is None else int(found["available_on"])


def available_minor(ledger: Ledger, currency: str, *, account: str, now: int) -> tuple[int, int]:
    """What is available to an account in a currency, and what is pending, in minor units."""
    query = (
        "SELECT coalesce(sum(json_extract(body, '$.net')) FILTER (WHERE json_extract(body, '$.available_on') <= ?), 0),"
        " coalesce(sum(json_extract(body, '$.net')) FILTER (WHERE json_extract(body, '$.available_on') > ?), 0)"
        " FROM balance_transactions WHERE account = ? AND currency = ?"
    )
    row = ledger.rows(query, (now, now, account, currency))[0]
    return int(row[0]), int(row[1])


def require_available(
    call: Call,
    amount: int,
    currency: str,
    *,
    account: str = PLATFORM,
    is_pending_enough: bool = False,
    is_payout: bool = False,
) -> None:
    """Refuse what the account's balance in this currency does not cover.

    Args:
        call: The request.
        amount: In minor units.
        currency: In which balance.
        account: Whose.
        is_pending_enough: True if pending funds count too, as for the reversal of a transfer.
        is_payout: True for a payout, of which Stripe says it in other words.

    Raises:
        ApiError: 400, `balance_insufficient` (docs.stripe.com/error-codes).
    """
    available, pending = available_minor(call.ledger, currency, account=account, now=call.clock.stamp())
    if amount <= available + (pending if is_pending_enough else 0):
        return
    if is_payout:
        raise refused(
            "You have insufficient funds in your Stripe account for this transfer. Your card balance is too low. You can use "
            "the /v1/balance endpoint to view your Stripe balance (for more details, see stripe.com/docs/api#balance).",
            code="balance_insufficient",
        )
    raise refused(
        "You have insufficient available funds in your Stripe account. Try adding funds directly to your available balance "
        "by creating Charges using the 4000000000000077 test card. See: https://stripe.com/docs/testing#available-balance",
        code="balance_insufficient",
    )


def _retrieve(call: Call) -> Json:
    now = call.clock.stamp()
    query = "SELECT DISTINCT currency FROM balance_transactions WHERE account = ? ORDER BY currency"
    currencies = [str(row[0]) for row in call.ledger.rows(query, (call.account,))] or ["usd"]
    sums = {name: available_minor(call.ledger, name, account=call.account, now=now) for name in currencies}
    told: dict[str, Any] = {
        "object": "balance",
        "available": list(_amounts({name: available for name, (available, _) in sums.items()})),
        "livemode": False,
        "pending": list(_amounts({name: pending for name, (_, pending) in sums.items()})),
    }
    return call.shown(told)


def _amounts(sums: dict[str, int]) -> Iterator[Json]:
    for currency, amount in sums.items():
        yield {"amount": amount, "currency": currency, "source_types": {"card": amount}}


ENDPOINTS = (Endpoint("GET", "/v1/balance", Parameters(takes={"expand": texts}), _retrieve, is_per_account=True),)
