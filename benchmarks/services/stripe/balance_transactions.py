"""Balance transactions: docs.stripe.com/api/balance_transactions. Every movement of money, on each account's own balance.

To enter one, inside the transaction that moves the money (room for every kind of Stripe's `type`):

    made["balance_transaction"] = balance_transactions.enter(call, "transfer", -amount, made, account=PLATFORM, available_on=now)

Owns what a movement looks like, and its list. A movement is entered once and never changed. Must not know what moved it.
"""

from __future__ import annotations

from benchmarks.services.stripe.endpoint import PAGING, Call, Endpoint
from benchmarks.services.stripe.ledger import PLATFORM, Json
from benchmarks.services.stripe.objects import new_id
from benchmarks.services.stripe.params import Parameters, text, texts

CATEGORIES = {
    "adjustment": "other_adjustment",
    "payment": "charge",
    "payment_refund": "refund",
    "payout_cancel": "payout_reversal",
    "payout_failure": "payout_reversal",
    "transfer_cancel": "transfer_reversal",
    "transfer_failure": "transfer_reversal",
    "transfer_refund": "transfer_reversal",
}
"""`reporting_category` of a `type` where it is another word; docs.stripe.com/reports/reporting-categories."""


def enter(
    call: Call,
    kind: str,
    amount: int,
    subject: Json,
    *,
    account: str | None = None,
    available_on: int | None = None,
    source: str | None = None,
    fee: int = 0,
    fee_words: str = "Stripe processing fees",
    category: str | None = None,
    description: str | None = None,
) -> str:
    """Enter a movement of money; returns its id.

    **Durable when** the transaction around it is committed.

    Args:
        call: The request, or the control verb, that moves it.
        kind: Stripe's `type`.
        amount: Signed, in minor units: more on the balance, or less.
        subject: The object that it is about; gives the currency, the description, and the source.
        account: On whose balance; None: the call's.
        available_on: When it counts as available; None: now.
        source: The id of the source, if that is not the subject's.
        fee: Taken off the amount; negative gives one back.
        fee_words: What the fee is called.
        category: The `reporting_category`, if the kind does not say it.
        description: In place of the subject's.
    """
    owner = call.account if account is None else account
    now = call.clock.stamp()
    ready = now if available_on is None else available_on
    details = [
        {
            "amount": fee,
            "application": None,
            "currency": subject["currency"],
            "description": fee_words,
            "type": "stripe_fee",
        }
    ]
    made: Json = {
        "id": new_id("txn"),
        "object": "balance_transaction",
        "amount": amount,
        "available_on": ready,
        "balance_type": "payments",
        "created": now,
        "currency": subject["currency"],
        "description": subject.get("description") if description is None else description,
        "exchange_rate": None,
        "fee": fee,
        "fee_details": details if fee else [],
        "net": amount - fee,
        "reporting_category": category or CATEGORIES.get(kind, kind),
        "source": subject["id"] if source is None else source,
        "status": "available" if ready <= now else "pending",
        "type": kind,
    }
    call.ledger.add("balance_transactions", made, account=owner)
    return str(made["id"])


def aged(call: Call, found: Json) -> Json:
    """A movement with the status it has by now: pending until `available_on`."""
    return {**found, "status": "available" if found["available_on"] <= call.clock.stamp() else "pending"}


def _retrieve(call: Call) -> Json:
    found = call.ledger.find("balance_transactions", call.identifier, account=call.account)
    if found is None:
        found = call.find("balance_transactions", "" if call.account != PLATFORM else call.identifier, param="id")
    return call.shown(aged(call, found))


def _list(call: Call) -> Json:
    page = call.listed("balance_transactions", "source", "type", "currency", "payout", equal={"account": call.account})
    return {**page, "data": [aged(call, one) for one in page["data"]]}


ENDPOINTS = (
    Endpoint(
        "GET",
        "/v1/balance_transactions/{id}",
        Parameters(takes={"expand": texts}),
        _retrieve,
        is_per_account=True,
    ),
    Endpoint(
        "GET",
        "/v1/balance_transactions",
        Parameters(takes={**PAGING, "source": text, "type": text, "currency": text, "payout": text}),
        _list,
        is_per_account=True,
    ),
)
