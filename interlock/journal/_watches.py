"""Watched effects in the SQLite journal: which are within their horizon, and under which ids of the service an event finds them.

    watches      one row for each effect that was ever watched, by the end of its watch
    found_by     one row for each reference of such an effect

Called by the one writer, inside the transaction of the entries. Both tables are made by the first write that needs them: a journal
without settlement has none, and one that an earlier version wrote gets them as they are needed. Knows nothing of services.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from interlock.effects import Entry
from interlock.settlement import ACCEPTED, STATE_OF, Watched, watch_of

Execute = Callable[..., sqlite3.Cursor]
Query = Callable[[str, tuple[object, ...]], list[tuple[Any, ...]]]

_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS watches (
        effect_id TEXT PRIMARY KEY, name TEXT NOT NULL, until TEXT NOT NULL, state TEXT NOT NULL, since TEXT NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS watches_until ON watches (until, effect_id)",
    """CREATE TABLE IF NOT EXISTS found_by (
        reference TEXT NOT NULL, effect_id TEXT NOT NULL, PRIMARY KEY (reference, effect_id)
    ) WITHOUT ROWID""",
)
_EXISTS = "SELECT 1 FROM sqlite_master WHERE name = 'watches'"
_WATCH = "INSERT OR REPLACE INTO watches (effect_id, name, until, state, since) VALUES (?, ?, ?, ?, ?)"
_MOVE = "UPDATE watches SET state = ?, since = ? WHERE effect_id = ?"
_REFER = "INSERT OR IGNORE INTO found_by (reference, effect_id) VALUES (?, ?)"
_WATCHED = "SELECT effect_id, name, until, state, since FROM watches WHERE until > ? ORDER BY until, effect_id"
_FIND = "SELECT effect_id FROM found_by WHERE reference = ? ORDER BY effect_id"


def keep(execute: Execute, entry: Entry, name: str) -> None:
    """Keep both tables with an entry of one of the kinds in `WATCHING`, as `watched_after` says."""
    watch = watch_of(entry)
    if watch is not None:
        for statement in _SCHEMA:
            execute(statement)
        execute(_WATCH, Watched(entry.effect_id, name, watch.until, ACCEPTED, entry.at))
        for reference in watch.references:
            execute(_REFER, (reference, entry.effect_id))
    elif entry.kind in STATE_OF and execute(_EXISTS).fetchone():
        execute(_MOVE, (STATE_OF[entry.kind], entry.at, entry.effect_id))


def watched(query: Query, after: str) -> list[Watched]:
    """The rows whose watch ends later than `after`."""
    return [Watched(*row) for row in query(_WATCHED, (after,))] if query(_EXISTS, ()) else []


def find(query: Query, reference: str) -> list[str]:
    """The effects that a reference leads to."""
    return [effect_id for (effect_id,) in query(_FIND, (reference,))] if query(_EXISTS, ()) else []


def references(query: Query) -> list[tuple[str, str]]:
    """The whole index."""
    return query("SELECT reference, effect_id FROM found_by", ()) if query(_EXISTS, ()) else []
