"""The tables of the service's books, and the rules that the file itself keeps.

Owns what kinds of objects there are. Must not know who reads or writes them.
"""

from __future__ import annotations

from typing import Any, Literal

Kind = Literal[
    "payment_intents",
    "charges",
    "refunds",
    "customers",
    "customer_balance_transactions",
    "credit_grants",
    "accounts",
    "transfers",
    "transfer_reversals",
    "payouts",
    "balance_transactions",
    "disputes",
    "early_fraud_warnings",
    "events",
    "webhook_endpoints",
]
Json = dict[str, Any]

PLATFORM = "acct_local"
"""The account of the service whose keys open it; every other one is connected to it."""

_FIXED = """
CREATE TABLE IF NOT EXISTS payment_intents (
    seq INTEGER PRIMARY KEY,
    body TEXT NOT NULL,
    id TEXT GENERATED ALWAYS AS (json_extract(body, '$.id')) STORED UNIQUE,
    created INTEGER GENERATED ALWAYS AS (json_extract(body, '$.created')) STORED,
    customer TEXT GENERATED ALWAYS AS (json_extract(body, '$.customer')) STORED
);
CREATE TABLE IF NOT EXISTS charges (
    seq INTEGER PRIMARY KEY,
    body TEXT NOT NULL,
    id TEXT GENERATED ALWAYS AS (json_extract(body, '$.id')) STORED UNIQUE,
    created INTEGER GENERATED ALWAYS AS (json_extract(body, '$.created')) STORED,
    payment_intent TEXT GENERATED ALWAYS AS (json_extract(body, '$.payment_intent')) STORED,
    customer TEXT GENERATED ALWAYS AS (json_extract(body, '$.customer')) STORED,
    transfer_group TEXT GENERATED ALWAYS AS (json_extract(body, '$.transfer_group')) STORED,
    CHECK (json_extract(body, '$.amount_refunded') BETWEEN 0 AND json_extract(body, '$.amount'))
);
CREATE TABLE IF NOT EXISTS refunds (
    seq INTEGER PRIMARY KEY,
    body TEXT NOT NULL,
    id TEXT GENERATED ALWAYS AS (json_extract(body, '$.id')) STORED UNIQUE,
    created INTEGER GENERATED ALWAYS AS (json_extract(body, '$.created')) STORED,
    payment_intent TEXT GENERATED ALWAYS AS (json_extract(body, '$.payment_intent')) STORED,
    charge TEXT GENERATED ALWAYS AS (json_extract(body, '$.charge')) STORED,
    amount_minor INTEGER GENERATED ALWAYS AS (json_extract(body, '$.amount')) STORED CHECK (amount_minor > 0),
    stands INTEGER GENERATED ALWAYS AS (json_extract(body, '$.status') NOT IN ('failed', 'canceled')) STORED
);
CREATE TRIGGER IF NOT EXISTS refunds_within_charge AFTER INSERT ON refunds
WHEN (SELECT sum(amount_minor) FROM refunds WHERE charge = new.charge AND stands)
   > (SELECT json_extract(body, '$.amount_captured') FROM charges WHERE id = new.charge)
BEGIN
    SELECT raise(ABORT, 'refunds exceed their charge');
END;
CREATE INDEX IF NOT EXISTS charges_of_payment ON charges (payment_intent);
CREATE INDEX IF NOT EXISTS refunds_of_payment ON refunds (payment_intent);
CREATE INDEX IF NOT EXISTS refunds_of_charge ON refunds (charge);
CREATE TABLE IF NOT EXISTS keys (
    account TEXT NOT NULL,
    key TEXT NOT NULL,
    path TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    request_id TEXT NOT NULL,
    status INTEGER NOT NULL,
    body TEXT NOT NULL,
    created_at REAL NOT NULL,
    PRIMARY KEY (account, key)
);
CREATE TABLE IF NOT EXISTS requests (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    method TEXT NOT NULL,
    path TEXT NOT NULL,
    params TEXT NOT NULL,
    idempotency_key TEXT,
    status INTEGER,
    replayed INTEGER NOT NULL DEFAULT 0,
    fault TEXT,
    at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS deliveries (
    seq INTEGER PRIMARY KEY,
    event TEXT NOT NULL,
    type TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    body TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('queued', 'held', 'delivered', 'failed')),
    due_at REAL NOT NULL,
    place INTEGER NOT NULL DEFAULT 0,
    struck INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    told TEXT
);
CREATE INDEX IF NOT EXISTS deliveries_waiting ON deliveries (endpoint, state, due_at);
CREATE INDEX IF NOT EXISTS deliveries_of_event ON deliveries (event);
CREATE TABLE IF NOT EXISTS secrets (endpoint TEXT PRIMARY KEY, secret TEXT NOT NULL, connect INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS plans (seq INTEGER PRIMARY KEY, deed TEXT NOT NULL, subject TEXT NOT NULL, due_at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS revoked_keys (key TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value REAL NOT NULL);
"""

_PLAIN: dict[Kind, tuple[str, ...]] = {
    "customers": ("email", "deleted"),
    "customer_balance_transactions": ("customer",),
    "credit_grants": ("customer",),
    "accounts": (),
    "transfers": ("destination", "transfer_group", "source_transaction"),
    "transfer_reversals": ("transfer",),
    "payouts": ("destination", "status"),
    "balance_transactions": ("source", "type", "currency", "payout"),
    "disputes": ("charge", "payment_intent"),
    "early_fraud_warnings": ("charge", "payment_intent"),
    "events": ("type",),
    "webhook_endpoints": (),
}
"""Tables whose rules their endpoints keep, with the fields that can be searched by. Each row belongs to an account."""


def _plain_table(kind: Kind, fields: tuple[str, ...]) -> str:
    searched = "".join(
        f", {field} TEXT GENERATED ALWAYS AS (json_extract(body, '$.{field}')) STORED" for field in fields
    )
    indexes = "".join(f"CREATE INDEX IF NOT EXISTS {kind}_by_{field} ON {kind} ({field});" for field in fields)
    return (
        f"CREATE TABLE IF NOT EXISTS {kind} (seq INTEGER PRIMARY KEY, body TEXT NOT NULL"
        f", account TEXT NOT NULL DEFAULT '{PLATFORM}'"
        ", id TEXT GENERATED ALWAYS AS (json_extract(body, '$.id')) STORED UNIQUE"
        f", created INTEGER GENERATED ALWAYS AS (json_extract(body, '$.created')) STORED{searched}); {indexes}"
    )


SCHEMA = _FIXED + "".join(_plain_table(*one) for one in _PLAIN.items())
"""Makes every table that is not there yet."""
