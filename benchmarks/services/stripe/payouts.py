"""Payouts: docs.stripe.com/api/payouts, docs.stripe.com/connect/manual-payouts, docs.stripe.com/payouts.

Owns the life of one:

    pending --cancel--> canceled        (the money is back in the balance)
    pending --arrive--> in_transit --arrive--> paid --arrive--> failed   (a bank may send it back some days later)
    in_transit --arrive--> failed       (the money is back in the balance, `failure_code` says why)
    paid --reverse--> a second payout of the negative amount

Made by hand only; a schedule of payouts is not modelled. What the bank does is said by the control verb `arrive`.
"""

from __future__ import annotations

from benchmarks.services.stripe import balance
from benchmarks.services.stripe.accounts import BANK_ACCOUNTS
from benchmarks.services.stripe.endpoint import PAGING, Call, Endpoint, updated_metadata
from benchmarks.services.stripe.errors import missing, refused
from benchmarks.services.stripe.happening import happened
from benchmarks.services.stripe.ledger import PLATFORM, Json
from benchmarks.services.stripe.objects import new_id
from benchmarks.services.stripe.params import Choice, Parameters, Whole, currency, metadata, text, texts
from benchmarks.services.stripe.payments import MAXIMUM_MINOR

PLATFORM_BANK = "ba_local"
"""Where the platform's own payouts go."""

ARRIVAL_S = 2 * 24 * 60 * 60
"""When a standard payout is expected at the bank, after it was made."""

REVERSIBLE_S = 90 * 24 * 60 * 60
"""How long after its arrival a payout can be reversed; docs.stripe.com/connect/payout-reversals."""

STATUSES = ("canceled", "failed", "in_transit", "paid", "pending")

FAILURES = {
    "account_closed": "The bank account has been closed.",
    "account_frozen": "The bank account has been frozen.",
    "bank_account_restricted": "The bank account has restrictions on either the type, or the number, of payouts allowed.",
    "could_not_process": "The bank could not process this payout.",
    "debit_not_authorized": "Debit transactions are not approved on the bank account.",
    "declined": "The bank has declined this transfer.",
    "insufficient_funds": "Your Stripe account has insufficient funds to cover the payout.",
    "invalid_account_number": "The routing number seems correct, but the account number is invalid.",
    "invalid_currency": "The bank was unable to process this payout because of its currency.",
    "no_account": "The bank account details on file are probably incorrect. No bank account could be located with those details.",
}
"""`failure_code` and what it says; docs.stripe.com/api/payouts/failures."""

_MOVES = {"pending": ("in_transit", "paid", "failed"), "in_transit": ("paid", "failed"), "paid": ("failed",)}


def _create(call: Call) -> Json:
    params = call.params
    bank = _destination(call, params["currency"], params.get("destination"))
    balance.require_available(call, params["amount"], params["currency"], account=call.account, is_payout=True)
    made = _payout(call, params["amount"], params["currency"], destination=bank)
    made["description"] = params.get("description")
    made["statement_descriptor"] = params.get("statement_descriptor")
    return _entered(call, made)


def _payout(call: Call, amount: int, currency: str, *, destination: str) -> Json:
    now = call.clock.stamp()
    return {
        "id": new_id("po"),
        "object": "payout",
        "amount": amount,
        "application_fee": None,
        "application_fee_amount": None,
        "arrival_date": now + ARRIVAL_S,
        "automatic": False,
        "balance_transaction": None,
        "created": now,
        "currency": currency,
        "description": None,
        "destination": destination,
        "failure_balance_transaction": None,
        "failure_code": None,
        "failure_message": None,
        "livemode": False,
        "metadata": updated_metadata({}, call.params.get("metadata")),
        "method": "standard",
        "original_payout": None,
        "payout_method": None,
        "reconciliation_status": "not_applicable",
        "reversed_by": None,
        "source_type": "card",
        "statement_descriptor": None,
        "status": "pending",
        "trace_id": None,
        "type": "bank_account",
    }


def _entered(call: Call, made: Json) -> Json:
    made["balance_transaction"] = balance.enter(
        call, "payout", -made["amount"], made, account=call.account, available_on=call.clock.stamp()
    )
    call.ledger.add("payouts", made, account=call.account)
    happened(call, "payout.created", made)
    return call.shown(made)


def _destination(call: Call, currency: str, asked: str | None) -> str:
    if call.account == PLATFORM:
        if asked not in (None, PLATFORM_BANK):
            raise missing("external account", str(asked), param="destination", status=400)
        return PLATFORM_BANK
    account = call.find("accounts", call.account, param="account")
    if not account["payouts_enabled"]:
        raise refused(
            "Cannot create payouts: this account has requirements that are past due, so its payouts are disabled. "
            f"Currently due: {', '.join(account['requirements']['currently_due']) or 'the transfers capability'}.",
            code="payouts_not_allowed",
        )
    banks = account["external_accounts"]["data"]
    if asked is not None:
        banks = [bank for bank in banks if bank["id"] == asked]
        if not banks:
            raise missing("external account", asked, param="destination", status=400)
    for bank in banks:
        if bank["currency"] == currency:
            return str(bank["id"])
    raise refused(f"Sorry, you don't have any external accounts in that currency ({currency}).", param="currency")


def _find(call: Call) -> Json:
    found = call.ledger.find("payouts", call.identifier, account=call.account)
    if found is None:
        raise missing("payout", call.identifier, param="payout")
    return found


def _update(call: Call) -> Json:
    found = _find(call)
    before = dict(found)
    found["metadata"] = updated_metadata(found["metadata"], call.params.get("metadata"))
    return _changed(call, found, before, "payout.updated")


def _cancel(call: Call) -> Json:
    found = _find(call)
    before = dict(found)
    if found["status"] != "pending" or found["original_payout"] is not None:
        raise refused(
            f"Payouts can only be canceled while they are pending; this one is {found['status']}.", param="payout"
        )
    found["status"] = "canceled"
    _give_back(call, found, "payout_cancel")
    return _changed(call, found, before, "payout.canceled")


def _reverse(call: Call) -> Json:
    found = _find(call)
    before = dict(found)
    if call.account == PLATFORM:
        raise refused("Only payouts of connected accounts can be reversed.", param="payout")
    if call.clock.stamp() - found["arrival_date"] >= REVERSIBLE_S:
        raise refused("Payouts can be reversed for 90 days after they were expected to arrive.", param="payout")
    if found["status"] not in ("in_transit", "paid") or found["reversed_by"] or found["original_payout"]:
        raise refused(
            f"This payout cannot be reversed: it is {found['status']}"
            f"{', and has been reversed already' if found['reversed_by'] else ''}. A pending one can be canceled.",
            param="payout",
        )
    account = call.find("accounts", call.account, param="account")
    if account["country"] not in ("US", "CA"):
        raise refused("Only payouts to bank accounts in the US and in Canada can be reversed.", param="payout")
    made = _payout(call, -found["amount"], found["currency"], destination=found["destination"])
    made["original_payout"] = found["id"]
    found["reversed_by"] = made["id"]
    # The original is told of first (docs.stripe.com/connect/payout-reversals).
    _changed(call, found, before, "payout.updated")
    return _entered(call, made)


def arrive(call: Call, status: str, failure_code: str | None = None) -> Json:
    """Let the bank say what became of a payout: `in_transit`, `paid` or `failed`. A control verb, not an endpoint.

    Args:
        call: Whose payout, and which: `call.account`, `call.identifier`.
        status: What it becomes.
        failure_code: Why it failed; default is what the test account number stands for, else `could_not_process`.

    Raises:
        ApiError: There is no such payout.
        ValueError: It cannot become that, or there is no such failure code.
    """
    found = _find(call)
    before = dict(found)
    if status not in _MOVES.get(found["status"], ()):
        raise ValueError(f"payout {found['id']} is {found['status']}; it cannot become {status}")
    if failure_code is not None and (status != "failed" or failure_code not in FAILURES):
        raise ValueError(f"a failed payout has one of these failure codes: {', '.join(FAILURES)}")
    found["status"] = status
    if status == "failed":
        code = failure_code or _code_of(call, found["destination"]) or "could_not_process"
        found.update(failure_code=code, failure_message=FAILURES[code])
        _give_back(call, found, "payout_failure")
        _cancel_reversal(call, found["reversed_by"])
    kinds = {"in_transit": "payout.updated", "paid": "payout.paid", "failed": "payout.failed"}
    return _changed(call, found, before, kinds[status])


def _cancel_reversal(call: Call, identifier: str | None) -> None:
    """The reversal of a payout that failed is canceled, if it is still pending (docs.stripe.com/connect/payout-reversals)."""
    found = None if identifier is None else call.ledger.find("payouts", identifier)
    if found is None or found["status"] != "pending":
        return
    before = dict(found)
    found["status"] = "canceled"
    _give_back(call, found, "payout_cancel")
    _changed(call, found, before, "payout.canceled")


def _code_of(call: Call, bank: str) -> str | None:
    account = call.ledger.find("accounts", call.account)
    banks = [] if account is None else account["external_accounts"]["data"]
    ends = {one["last4"] for one in banks if one["id"] == bank}
    return next((code for number, code in BANK_ACCOUNTS.items() if number[-4:] in ends), None)


def _give_back(call: Call, found: Json, kind: str) -> None:
    found["failure_balance_transaction"] = balance.enter(
        call, kind, found["amount"], found, account=call.account, available_on=call.clock.stamp()
    )


def _changed(call: Call, found: Json, before: Json, kind: str) -> Json:
    call.ledger.replace("payouts", found)
    happened(call, kind, found, before=before if kind == "payout.updated" else None)
    return call.shown(found)


def _list(call: Call) -> Json:
    return call.listed("payouts", "destination", "status", equal={"account": call.account})


_SHOWN = Parameters(takes={"expand": texts})
_CHANGED = Parameters(takes={"metadata": metadata, "expand": texts})

ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/payouts",
        Parameters(
            takes={
                "amount": Whole(1, MAXIMUM_MINOR),
                "currency": currency,
                "description": text,
                "destination": text,
                "metadata": metadata,
                "method": Choice(("standard",)),
                "source_type": Choice(("card",)),
                "statement_descriptor": text,
                "expand": texts,
            },
            needs=("amount", "currency"),
            unmodelled=frozenset({"payout_method"}),
        ),
        _create,
        is_per_account=True,
    ),
    Endpoint("POST", "/v1/payouts/{id}", _CHANGED, _update, is_per_account=True),
    Endpoint("POST", "/v1/payouts/{id}/cancel", _SHOWN, _cancel, is_per_account=True),
    Endpoint("POST", "/v1/payouts/{id}/reverse", _CHANGED, _reverse, is_per_account=True),
    Endpoint("GET", "/v1/payouts/{id}", _SHOWN, lambda call: call.shown(_find(call)), is_per_account=True),
    Endpoint(
        "GET",
        "/v1/payouts",
        Parameters(
            takes={**PAGING, "destination": text, "status": Choice(STATUSES)}, unmodelled=frozenset({"arrival_date"})
        ),
        _list,
        is_per_account=True,
    ),
)
