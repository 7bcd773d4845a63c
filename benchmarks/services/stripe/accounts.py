"""Connected accounts, as far as transfers and payouts need them: docs.stripe.com/api/accounts, docs.stripe.com/connect/testing.

Owns when a capability is active and when payouts are enabled. Real Stripe verifies a business for that; here it takes the
acceptance of the terms and a bank account, both of which real Stripe asks for too.
"""

from __future__ import annotations

from typing import Any

from benchmarks.services.stripe.endpoint import PAGING, Call, Endpoint, updated_metadata
from benchmarks.services.stripe.errors import invalid
from benchmarks.services.stripe.happening import happened
from benchmarks.services.stripe.ledger import PLATFORM, Json
from benchmarks.services.stripe.objects import listing, new_id
from benchmarks.services.stripe.params import (
    Choice,
    Group,
    Parameters,
    Whole,
    currency,
    flag,
    metadata,
    text,
    texts,
)

BANK_ACCOUNTS: dict[str, str | None] = {
    "000123456789": None,
    "000111111116": "no_account",
    "000111111113": "account_closed",
    "000222222227": "insufficient_funds",
    "000333333335": "debit_not_authorized",
    "000444444440": "invalid_currency",
}
"""Test account numbers, and the `failure_code` of a payout to each; docs.stripe.com/connect/testing."""

CURRENCY_OF_COUNTRY = {
    "US": "usd",
    "CA": "cad",
    "GB": "gbp",
    "DE": "eur",
    "FR": "eur",
    "JP": "jpy",
    "AU": "aud",
    "CH": "chf",
}

_MOMENT = Whole(1, 2**40)
_ADDRESS = Group(dict.fromkeys(("city", "country", "line1", "line2", "postal_code", "state"), text))
_DATE = Group({"day": Whole(1, 31), "month": Whole(1, 12), "year": Whole(1900, 2100)})
_PERSON = Group(
    {
        **dict.fromkeys(("first_name", "last_name", "email", "phone", "id_number", "ssn_last_4"), text),
        "address": _ADDRESS,
        "dob": _DATE,
    }
)
_BUSINESS = Group(dict.fromkeys(("mcc", "name", "product_description", "support_email", "support_phone", "url"), text))
_BANK = Group(
    {
        "object": Choice(("bank_account",)),
        "account_holder_name": text,
        "account_holder_type": Choice(("company", "individual")),
        "account_number": text,
        "country": text,
        "currency": currency,
        "routing_number": text,
    },
    needs=("object", "account_number", "country"),
)
_CAPABILITY = Group({"requested": flag})
_CAPABILITIES = Group(dict.fromkeys(("card_payments", "transfers"), _CAPABILITY))
_CONTROLLER = Group(
    {
        "fees": Group({"payer": Choice(("account", "application"))}),
        "losses": Group({"payments": Choice(("application", "stripe"))}),
        "requirement_collection": Choice(("application", "stripe")),
        "stripe_dashboard": Group({"type": Choice(("express", "full", "none"))}),
    }
)


def _create(call: Call) -> Json:
    params = call.params
    if ("type" in params) == ("controller" in params):
        raise invalid("Say either `type` or `controller` for a connected account, not both.", param="type")
    country = params.get("country", "US")
    if country not in CURRENCY_OF_COUNTRY:
        known = ", ".join(CURRENCY_OF_COUNTRY)
        raise invalid(f"This local service has connected accounts in {known}, not in {country}.", param="country")
    bank = params.get("external_account")
    if bank is not None and bank["account_number"] not in BANK_ACCOUNTS:
        raise invalid(
            "You must use a test bank account number in test mode: " + ", ".join(BANK_ACCOUNTS),
            code="account_number_invalid",
            param="external_account[account_number]",
        )
    made = _account(params, country=country, created=call.clock.stamp())
    call.ledger.add("accounts", made)
    happened(call, "account.updated", made)
    return call.shown(made)


def _account(params: dict[str, Any], *, country: str, created: int) -> Json:
    identifier = new_id("acct", 16)
    default_currency = params.get("default_currency", CURRENCY_OF_COUNTRY[country])
    bank = params.get("external_account")
    wanted = {
        "external_account": bank,
        "tos_acceptance.date": params.get("tos_acceptance", {}).get("date"),
        "tos_acceptance.ip": params.get("tos_acceptance", {}).get("ip"),
    }
    due = [name for name, value in wanted.items() if not value]
    asked = [name for name, one in params.get("capabilities", {}).items() if one.get("requested")]
    status = "inactive" if due else "active"
    profile = dict.fromkeys(
        ("annual_revenue", "mcc", "name", "product_description", "support_email", "support_phone", "url")
    )
    people = (
        {"individual": _person(params["individual"], account=identifier, created=created)}
        if "individual" in params
        else {}
    )
    banks = [] if bank is None else [_bank_account(bank, account=identifier, default_currency=default_currency)]
    return {
        "id": identifier,
        "object": "account",
        "business_profile": {**profile, **params.get("business_profile", {})},
        "business_type": params.get("business_type"),
        "capabilities": dict.fromkeys(asked, status),
        "charges_enabled": "card_payments" in asked and not due,
        "controller": params.get("controller", {"type": "application"}),
        "country": country,
        "created": created,
        "default_currency": default_currency,
        "details_submitted": not due,
        "email": params.get("email"),
        "external_accounts": listing(banks, has_more=False, url=f"/v1/accounts/{identifier}/external_accounts"),
        "future_requirements": _requirements([]),
        "metadata": updated_metadata({}, params.get("metadata")),
        "payouts_enabled": "transfers" in asked and not due,
        "requirements": _requirements(due),
        "settings": {
            "payouts": {
                "debit_negative_balances": False,
                "schedule": {"delay_days": 2, "interval": "manual"},
                "statement_descriptor": None,
            }
        },
        "tos_acceptance": {"date": None, "ip": None, "user_agent": None, **params.get("tos_acceptance", {})},
        "type": params.get("type", "none"),
        **people,
    }


def _person(given: Json, *, account: str, created: int) -> Json:
    """The person as the API shows them: what is secret is only said to have been given."""
    secret = ("id_number", "ssn_last_4")
    return {
        "id": new_id("person", 14),
        "object": "person",
        "account": account,
        "created": created,
        **{name: value for name, value in given.items() if name not in secret},
        **{f"{name}_provided": name in given for name in secret},
    }


def _requirements(due: list[str]) -> Json:
    return {
        "alternatives": [],
        "current_deadline": None,
        "currently_due": due,
        "disabled_reason": "requirements.past_due" if due else None,
        "errors": [],
        "eventually_due": due,
        "past_due": due,
        "pending_verification": [],
    }


def _bank_account(bank: Json, *, account: str, default_currency: str) -> Json:
    return {
        "id": new_id("ba"),
        "object": "bank_account",
        "account": account,
        "account_holder_name": bank.get("account_holder_name"),
        "account_holder_type": bank.get("account_holder_type"),
        "account_type": None,
        "available_payout_methods": ["standard"],
        "bank_name": "STRIPE TEST BANK",
        "country": bank["country"],
        "currency": bank.get("currency", default_currency),
        "default_for_currency": True,
        "fingerprint": f"local{bank['account_number'][-4:]}",
        "last4": bank["account_number"][-4:],
        "metadata": {},
        "routing_number": bank.get("routing_number"),
        "status": "new",
    }


def _retrieve(call: Call) -> Json:
    return call.shown(call.find("accounts", call.identifier, param="account"))


def _update(call: Call) -> Json:
    found = call.find("accounts", call.identifier, param="account")
    before = dict(found)
    found["metadata"] = updated_metadata(found["metadata"], call.params.get("metadata"))
    if "email" in call.params:
        found["email"] = call.params["email"]
    call.ledger.replace("accounts", found)
    happened(call, "account.updated", found, before=before)
    return call.shown(found)


def _own(call: Call) -> Json:
    """The account that the request acts for; of the platform, only what identifies it."""
    if call.account != PLATFORM:
        return call.shown(call.find("accounts", call.account, param="account"))
    return {
        "id": PLATFORM,
        "object": "account",
        "business_type": None,
        "capabilities": {"card_payments": "active", "transfers": "active"},
        "charges_enabled": True,
        "country": "US",
        "default_currency": "usd",
        "details_submitted": True,
        "email": None,
        "metadata": {},
        "payouts_enabled": True,
        "type": "standard",
    }


_UNMODELLED = frozenset({"account_token", "company", "documents", "groups", "settings"})

ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/accounts",
        Parameters(
            takes={
                "type": Choice(("custom", "express", "standard")),
                "controller": _CONTROLLER,
                "business_profile": _BUSINESS,
                "business_type": Choice(("company", "government_entity", "individual", "non_profit")),
                "capabilities": _CAPABILITIES,
                "country": text,
                "default_currency": currency,
                "email": text,
                "external_account": _BANK,
                "individual": _PERSON,
                "metadata": metadata,
                "tos_acceptance": Group({"date": _MOMENT, "ip": text, "service_agreement": text, "user_agent": text}),
                "expand": texts,
            },
            unmodelled=_UNMODELLED,
        ),
        _create,
    ),
    Endpoint(
        "POST",
        "/v1/accounts/{id}",
        Parameters(
            takes={"email": text, "metadata": metadata, "expand": texts},
            unmodelled=_UNMODELLED
            | {"business_profile", "business_type", "capabilities", "external_account", "individual", "tos_acceptance"},
        ),
        _update,
    ),
    Endpoint("GET", "/v1/accounts/{id}", Parameters(takes={"expand": texts}), _retrieve),
    Endpoint("GET", "/v1/accounts", Parameters(takes=PAGING), lambda call: call.listed("accounts")),
    Endpoint("GET", "/v1/account", Parameters(takes={"expand": texts}), _own, is_per_account=True),
)
