"""The service's books: what was paid, what was refunded, which keys are remembered, which requests came in.

Owns the SQLite file. It is the ground truth of every benchmark, so it shares nothing with the gate, and a rule that
must never break (refunds within the charge) is also a constraint of the table. Must not know HTTP.

Two connections write to one file. The books commit with synchronous=FULL before an answer leaves. The log of requests
commits with synchronous=NORMAL: it survives a SIGKILL of the service as well, only not a loss of power.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from benchmarks.services.stripe.schema import PLATFORM, SCHEMA, Json, Kind

__all__ = ["PLATFORM", "Json", "Kind", "Ledger", "LedgerInUse", "read", "read_refunded"]

FILE = "ledger.sqlite3"
_LOCK = "service.lock"


class LedgerInUse(RuntimeError):
    """Another service process keeps its books in this directory."""


class Ledger:
    """The open books of one running service.

    **Durable when** `transaction()` has ended without an exception: all of it, or none of it.
    **If the process dies** inside a transaction, nothing of it is there when the service starts again on the directory.
    """

    def __init__(self, directory: Path) -> None:
        """Open or create the books.

        Raises:
            LedgerInUse: A live service has them open. In-flight keys live in that process, so two would not see each other's.
        """
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.woken: Callable[[], None] = lambda: None
        """Called when a webhook delivery was queued; the one who sends them sets it."""
        self.planned: Callable[[], None] = lambda: None
        """Called when something was planned; the one who lets it happen sets it."""
        self._lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise LedgerInUse(
                f"another service process is running on {directory}; end it, or use another --dir"
            ) from error
        path = directory / FILE
        self._books = _connect(path, synchronous="FULL")
        self._books.executescript(SCHEMA)
        self._log = _connect(path, synchronous="NORMAL")

    def close(self) -> None:
        """Close the books and let another process open them."""
        self._log.close()
        self._books.close()
        os.close(self._lock)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything written inside is durable when this ends, or undone if it ends by an exception."""
        self._books.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._books.execute("ROLLBACK")
            raise
        self._books.execute("COMMIT")

    def add(self, kind: Kind, body: Json, *, account: str = PLATFORM) -> None:
        """Enter a new object, of the platform or of an account connected to it."""
        if account == PLATFORM:
            self._books.execute(f"INSERT INTO {kind} (body) VALUES (?)", (json.dumps(body),))
        else:
            self._books.execute(f"INSERT INTO {kind} (body, account) VALUES (?, ?)", (json.dumps(body), account))

    def replace(self, kind: Kind, body: Json) -> None:
        """Enter an object's new state."""
        self._books.execute(f"UPDATE {kind} SET body = ? WHERE id = ?", (json.dumps(body), body["id"]))

    def find(self, kind: Kind, identifier: str, *, account: str | None = None) -> Json | None:
        """One object, as it stands; with `account`, only if it is that account's."""
        owned = "" if account is None else " AND account = ?"
        values = (identifier,) if account is None else (identifier, account)
        row = self._books.execute(f"SELECT body FROM {kind} WHERE id = ?{owned}", values).fetchone()
        return None if row is None else _load(row["body"])

    def account_of(self, kind: Kind, identifier: str) -> str:
        """Whose an object is; of one that is not there, the platform's."""
        row = self._books.execute(f"SELECT account FROM {kind} WHERE id = ?", (identifier,)).fetchone()
        return PLATFORM if row is None else str(row["account"])

    def refunded_minor(self, charge: str) -> int:
        """What was refunded on a charge: the sum of its refunds that stand, not a figure kept beside them."""
        query = "SELECT coalesce(sum(amount_minor), 0) AS total FROM refunds WHERE charge = ? AND stands"
        return int(self._books.execute(query, (charge,)).fetchone()["total"])

    def page(
        self,
        kind: Kind,
        *,
        equal: Mapping[str, str | None],
        created: Mapping[str, int],
        limit: int,
        patterns: Mapping[str, Sequence[str]] | None = None,
        after: str | None = None,
        before: str | None = None,
    ) -> tuple[list[Json], bool]:
        """Objects of a kind, newest first, and whether there are more in the direction of travel.

        Args:
            kind: Which table.
            equal: Columns and the value each must have.
            created: Bounds on the time of creation: `gt`, `gte`, `lt`, `lte`.
            limit: At most so many.
            patterns: Columns and the patterns of which each must match one; `*` stands for anything.
            after: Start behind this object, going to older ones.
            before: End in front of this object, coming from newer ones.
        """
        compare = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
        where = [f"{column} IS ?" for column in equal] + [f"created {compare[bound]} ?" for bound in created]
        values: list[Any] = [*equal.values(), *created.values()]
        for column, globs in (patterns or {}).items():
            where.append(f"({' OR '.join([f'{column} GLOB ?'] * len(globs))})")
            values += globs
        for cursor, sign in ((after, "<"), (before, ">")):
            if cursor is not None:
                where.append(f"seq {sign} (SELECT seq FROM {kind} WHERE id = ?)")
                values.append(cursor)
        order = "ASC" if before is not None else "DESC"
        condition = f"WHERE {' AND '.join(where)}" if where else ""
        query = f"SELECT body FROM {kind} {condition} ORDER BY seq {order} LIMIT ?"
        found = [_load(row["body"]) for row in self._books.execute(query, (*values, limit + 1))]
        page = found[:limit]
        return (page[::-1] if before is not None else page), len(found) > limit

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """What a query of one of the modules of this service finds."""
        return list(self._books.execute(query, values))

    def execute(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Change the books inside the transaction that is open; returns how many rows it touched."""
        return self._books.execute(statement, values).rowcount

    def note(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Enter something that no answer rests on, outside any transaction, as the log of requests is entered."""
        return self._log.execute(statement, values).rowcount

    def find_key(self, account: str, key: str) -> sqlite3.Row | None:
        """What is remembered under an idempotency key."""
        row: sqlite3.Row | None = self._books.execute(
            "SELECT * FROM keys WHERE account = ? AND key = ?", (account, key)
        ).fetchone()
        return row

    def remember_key(
        self,
        account: str,
        key: str,
        *,
        path: str,
        fingerprint: str,
        request_id: str,
        status: int,
        body: str,
        created_at: float,
    ) -> None:
        """Remember an answer under a key, in place of what was remembered under it before."""
        self._books.execute(
            "INSERT OR REPLACE INTO keys (account, key, path, fingerprint, request_id, status, body, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (account, key, path, fingerprint, request_id, status, body, created_at),
        )

    def forget_keys(self) -> int:
        """Prune every key; returns how many there were."""
        with self.transaction():
            return self._books.execute("DELETE FROM keys").rowcount

    def log_arrival(
        self, request_id: str, *, method: str, path: str, params: Json, idempotency_key: str | None, at: float
    ) -> int:
        """Enter a request when it arrives, before anything is done about it; returns its number."""
        cursor = self._log.execute(
            "INSERT INTO requests (id, method, path, params, idempotency_key, at) VALUES (?, ?, ?, ?, ?, ?)",
            (request_id, method, path, json.dumps(params), idempotency_key, at),
        )
        return int(cursor.lastrowid or 0)

    def log_fault(self, number: int, fault: str) -> None:
        """Enter which fault struck the request."""
        self._log.execute("UPDATE requests SET fault = ? WHERE seq = ?", (fault, number))

    def log_answer(self, number: int, *, status: int, is_replayed: bool) -> None:
        """Enter the answer that is about to leave. A request without one has none: dropped, or still under way."""
        self._log.execute(
            "UPDATE requests SET status = ?, replayed = ? WHERE seq = ?", (status, int(is_replayed), number)
        )

    def setting(self, name: str, default: float) -> float:
        """A number that outlives the process."""
        row = self._books.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return default if row is None else float(row["value"])

    def keep_setting(self, name: str, value: float) -> None:
        """Set such a number."""
        self._books.execute("INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)", (name, value))


def read(directory: Path) -> dict[str, list[Json]]:
    """The books as they are on disk, whether the service runs or not: a list for each `Kind` and `requests`, oldest first.

    Objects have the shape of the API, and an `account` if that is not the platform; requests have `id`, `method`, `path`,
    `params`, `idempotency_key`, `status`
    (None: no answer left), `replayed`, `fault` and `at`.
    """
    with _reading(directory) as books:
        told: dict[str, list[Json]] = {
            kind: [_owned(row) for row in books.execute(f"SELECT * FROM {kind} ORDER BY seq")]
            for kind in get_args(Kind)
        }
        told["requests"] = [
            {
                **{name: row[name] for name in row.keys() if name != "seq"},  # noqa: SIM118 (a Row iterates over values)
                "params": _load(row["params"]),
                "replayed": bool(row["replayed"]),
            }
            for row in books.execute("SELECT * FROM requests ORDER BY seq")
        ]
    return told


def read_refunded(directory: Path, payment_intent: str) -> tuple[int, int]:
    """How much was refunded on a payment, in minor units, and by how many refunds; failed and canceled ones do not count."""
    with _reading(directory) as books:
        row = books.execute(
            "SELECT coalesce(sum(amount_minor), 0) AS total, count(*) AS number FROM refunds"
            " WHERE payment_intent = ? AND stands",
            (payment_intent,),
        ).fetchone()
    return int(row["total"]), int(row["number"])


@contextlib.contextmanager
def _reading(directory: Path) -> Iterator[sqlite3.Connection]:
    path = directory / FILE
    if not path.exists():
        raise FileNotFoundError(f"no service has kept books in {directory} yet")
    with contextlib.closing(_connect(path, synchronous="NORMAL")) as books:
        # Not mode=ro: after a SIGKILL the first reader has to recover the write-ahead log.
        books.execute("PRAGMA query_only = ON")
        books.execute("BEGIN")
        yield books


def _connect(path: Path, *, synchronous: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=10.0)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    return connection


def _owned(row: sqlite3.Row) -> Json:
    body = _load(row["body"])
    account = row["account"] if "account" in row.keys() else PLATFORM  # noqa: SIM118 (a Row iterates over values)
    return body if account == PLATFORM else {**body, "account": account}


def _load(text: str) -> Json:
    loaded: Json = json.loads(text)
    return loaded
