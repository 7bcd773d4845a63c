"""What an endpoint is, and what all of them share: finding an object, expanding references, listing pages.

Owns docs.stripe.com/api/pagination and docs.stripe.com/api/expanding_objects. Must not know HTTP.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.services.stripe.clock import ServiceClock
from benchmarks.services.stripe.errors import invalid, missing
from benchmarks.services.stripe.ledger import PLATFORM, Json, Kind, Ledger
from benchmarks.services.stripe.objects import listing
from benchmarks.services.stripe.params import UNSET_ALL, Check, Parameters, Whole, created, text, texts

NOUNS: dict[Kind, str] = {
    "payment_intents": "payment_intent",
    "charges": "charge",
    "refunds": "refund",
    "customers": "customer",
    "customer_balance_transactions": "customer_balance_transaction",
    "credit_grants": "billing.credit_grant",
    "accounts": "account",
    "transfers": "transfer",
    "transfer_reversals": "transfer_reversal",
    "payouts": "payout",
    "balance_transactions": "balance transaction",
    "disputes": "dispute",
    "early_fraud_warnings": "early fraud warning",
    "events": "event",
    "webhook_endpoints": "webhook endpoint",
}
"""What Stripe's messages call an object of each kind."""

PAGING: dict[str, Check] = {
    "limit": Whole(1, 100),
    "starting_after": text,
    "ending_before": text,
    "created": created,
    "expand": texts,
}
"""The parameters every list takes."""

PAGE_SIZE = 10

_REFERENCES: dict[str, dict[str, Kind]] = {
    "payment_intent": {"customer": "customers", "latest_charge": "charges"},
    "charge": {
        "balance_transaction": "balance_transactions",
        "customer": "customers",
        "payment_intent": "payment_intents",
    },
    "refund": {
        "balance_transaction": "balance_transactions",
        "charge": "charges",
        "failure_balance_transaction": "balance_transactions",
        "payment_intent": "payment_intents",
    },
    "dispute": {"charge": "charges", "payment_intent": "payment_intents"},
    "radar.early_fraud_warning": {"charge": "charges", "payment_intent": "payment_intents"},
    "billing.credit_grant": {"customer": "customers"},
    "customer_balance_transaction": {"customer": "customers"},
    "transfer": {
        "balance_transaction": "balance_transactions",
        "destination": "accounts",
        "source_transaction": "charges",
    },
    "transfer_reversal": {"balance_transaction": "balance_transactions", "transfer": "transfers"},
    "payout": {
        "balance_transaction": "balance_transactions",
        "failure_balance_transaction": "balance_transactions",
        "original_payout": "payouts",
        "reversed_by": "payouts",
    },
}


_SOURCES: dict[str, Kind] = {
    "ch": "charges",
    "du": "disputes",
    "po": "payouts",
    "re": "refunds",
    "tr": "transfers",
    "trr": "transfer_reversals",
}
"""What the source of a balance transaction is, by the letters its id begins with."""


@dataclass(frozen=True)
class Call:
    """One request as an endpoint sees it."""

    ledger: Ledger
    clock: ServiceClock
    params: dict[str, Any]
    identifier: str = ""
    """What stands in the path in place of `{id}`."""
    child: str = ""
    """What stands in the path in place of `{child}`."""
    account: str = PLATFORM
    """Whom the request acts for: the platform, or the account that the `Stripe-Account` header names."""
    request_id: str | None = None
    """Of the request, for the events that it causes; None if a control verb acts."""
    idempotency_key: str | None = None
    """Of the request, for the same."""

    def find(self, kind: Kind, identifier: str, *, param: str, status: int = 404) -> Json:
        """The object, or the refusal that there is none."""
        found = self.ledger.find(kind, identifier)
        if found is None:
            raise missing(NOUNS[kind], identifier, param=param, status=status)
        return found

    def shown(self, body: Json) -> Json:
        """The object with what the request asked to expand."""
        for path in self.params.get("expand", ()):
            body = self._expanded(body, path, path)
        return body

    def listed(
        self,
        kind: Kind,
        *filters: str,
        equal: dict[str, str | None] | None = None,
        patterns: dict[str, list[str]] | None = None,
        url: str | None = None,
    ) -> Json:
        """One page of the objects of a kind for which the columns `filters` are as the parameters of these names say.

        Args:
            kind: Of what.
            *filters: Columns that a parameter of the same name may narrow.
            equal: Columns and what they must be, whatever the parameters say.
            patterns: Columns and the patterns of which each must match one.
            url: The list's own address, if it is not the kind's.
        """
        cursors = {name: self.params.get(name) for name in ("starting_after", "ending_before")}
        if all(cursors.values()):
            raise invalid("You can only specify one of `starting_after` or `ending_before`.", param="ending_before")
        for name, cursor in cursors.items():
            if cursor is not None:
                self.find(kind, cursor, param=name, status=400)
        data, has_more = self.ledger.page(
            kind,
            equal={**{name: self.params[name] for name in filters if name in self.params}, **(equal or {})},
            created=self.params.get("created", {}),
            limit=self.params.get("limit", PAGE_SIZE),
            patterns=patterns,
            after=cursors["starting_after"],
            before=cursors["ending_before"],
        )
        page = listing(data, has_more=has_more, url=url or f"/v1/{kind}")
        return self.shown(page)

    def _expanded(self, body: Json, path: str, whole: str) -> Json:
        name, _, rest = path.partition(".")
        if body["object"] == "list" and name == "data" and rest:
            return {**body, "data": [self._expanded(item, rest, whole) for item in body["data"]]}
        kind = _REFERENCES.get(body["object"], {}).get(name)
        if body["object"] == "balance_transaction" and name == "source":
            kind = _SOURCES.get(str(body["source"]).partition("_")[0])
        if body["object"] == "charge" and name == "refunds":
            target: Json | str | None = self._refunds_of(body)
        elif kind is None:
            raise invalid(f"This property cannot be expanded ({whole}).", param="expand")
        else:
            target = body[name]
        if kind is not None and isinstance(target, str):
            target = self.ledger.find(kind, target)
        if rest and isinstance(target, dict):
            target = self._expanded(target, rest, whole)
        return {**body, name: target}

    def _refunds_of(self, charged: Json) -> Json:
        """A charge shows its newest refunds only when asked to."""
        data, has_more = self.ledger.page("refunds", equal={"charge": charged["id"]}, created={}, limit=PAGE_SIZE)
        return listing(data, has_more=has_more, url=f"/v1/charges/{charged['id']}/refunds")


@dataclass(frozen=True)
class Endpoint:
    """One address of the API."""

    method: str
    path: str
    parameters: Parameters
    run: Callable[[Call], Json]
    """Acts and returns the answer's body; raises ApiError to refuse. A POST runs inside one transaction, which also
    commits when it is refused, so what an endpoint writes before it refuses stays."""
    is_per_account: bool = False
    """True if the `Stripe-Account` header may name a connected account here (docs.stripe.com/connect/authentication)."""


def updated_metadata(before: dict[str, str], change: dict[str, str] | None) -> dict[str, str]:
    """Metadata after an update: named values replace, an empty one unsets, an empty text for all unsets all."""
    if change is None:
        return before
    if change == UNSET_ALL:
        return {}
    return {name: value for name, value in {**before, **change}.items() if value}
