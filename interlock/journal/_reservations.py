"""Budgets in the SQLite journal: who holds how much of which, and the sum of each, written in the transaction of the entries.

    reservations   one row for each effect and budget that it holds, the greatest first within a budget
    budgets        one row for each budget that anybody holds: the sum, so that a dispatch reads one row however many hold it

Called by the one writer, inside its transaction. Both tables are made by the first write that needs them: a journal without budgets
has none, and one that an earlier version wrote gets them as they are needed. Knows nothing of entries.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from interlock.journal._base import Denied, Prepared
from interlock.rules.budgets import HOLDERS_TOLD, Holder, Shortfall, has_room

Execute = Callable[..., sqlite3.Cursor]

_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS reservations (
        budget TEXT NOT NULL, amount INTEGER NOT NULL, effect_id TEXT NOT NULL, name TEXT NOT NULL, key TEXT NOT NULL,
        PRIMARY KEY (budget, amount DESC, effect_id)
    ) WITHOUT ROWID""",
    "CREATE TABLE IF NOT EXISTS budgets (budget TEXT PRIMARY KEY, held INTEGER NOT NULL) WITHOUT ROWID",
)
_HELD = "SELECT held FROM budgets WHERE budget = ?"
_TAKE = "INSERT INTO reservations (budget, amount, effect_id, name, key) VALUES (?, ?, ?, ?, ?)"
_GIVE_BACK = "DELETE FROM reservations WHERE budget = ? AND amount = ? AND effect_id = ?"
_ADD = "INSERT INTO budgets (budget, held) VALUES (?, ?) ON CONFLICT (budget) DO UPDATE SET held = held + excluded.held"
_DROP = "DELETE FROM budgets WHERE budget = ? AND held = 0"
_HOLDERS = "SELECT name, key, amount FROM reservations WHERE budget = ? AND effect_id != ? ORDER BY amount DESC, effect_id LIMIT ?"
_COUNT = "SELECT count(*) FROM reservations WHERE budget = ? AND effect_id != ?"
_HOLDS = "SELECT 1 FROM reservations WHERE budget = ? AND amount = ? AND effect_id = ?"


def has_to_do(prepared: Prepared) -> bool:
    """Whether a write has anything to do with budgets."""
    return bool(prepared.guards or prepared.releases or prepared.reserves)


def prepare(execute: Execute) -> None:
    """Make the tables, if they are not there."""
    for statement in _SCHEMA:
        execute(statement)


def reserve(execute: Execute, prepared: Prepared) -> Denied | None:
    """Judge the guards of a write whose head has held, then give back and take what it says.

    Returns:
        None if it may be written; otherwise why not, and nothing was changed.
    """
    shortfalls: list[Shortfall] = []
    for guard in prepared.guards:
        budget, limit, amount = guard.data["key"], guard.data["limit"], guard.data["amount"]
        row = execute(_HELD, (budget,)).fetchone()
        held = row[0] if row is not None else 0
        own = prepared.held.get(budget)
        if own is not None and execute(_HOLDS, (budget, own, prepared.effect_id)).fetchone() is not None:
            held -= own
        if not has_room(limit=limit, amount=amount, held=held):
            holders = tuple(Holder(*row) for row in execute(_HOLDERS, (budget, prepared.effect_id, HOLDERS_TOLD)))
            (count,) = execute(_COUNT, (budget, prepared.effect_id)).fetchone()
            shortfalls.append(Shortfall(budget, limit, amount, held, holders, count - len(holders)))
    if shortfalls:
        return Denied(shortfalls)
    for budget, amount in prepared.releases:
        # What is not there is not given back: a sum is never below what its reservations add up to.
        if execute(_GIVE_BACK, (budget, amount, prepared.effect_id)).rowcount:
            execute(_ADD, (budget, -amount))
            execute(_DROP, (budget,))
    for budget, amount in prepared.reserves:
        execute(_TAKE, (budget, amount, prepared.effect_id, prepared.name, prepared.key))
        execute(_ADD, (budget, amount))
    return None


def read(
    query: Callable[[str, tuple[object, ...]], list[tuple[Any, ...]]],
) -> tuple[list[tuple[str, str, int]], dict[str, int]]:
    """Every reservation, and every sum as it is kept."""
    if not query("SELECT name FROM sqlite_master WHERE name = 'reservations'", ()):
        return [], {}
    return query("SELECT budget, effect_id, amount FROM reservations", ()), dict(
        query("SELECT budget, held FROM budgets", ())
    )
