"""The journal on one machine: SQLite in WAL mode, synchronous=FULL, any number of processes and threads.

    <directory>/journal.db        entries (append-only, by position), effects (one row each: its head, whether it is open)
    <directory>/workers/*.lock    one file for each worker, locked for its life (see `liveness`)

A commit is one transaction: compare the head, insert the entries, link them, move the head; one fsync of the log, shared by all that
commit at the same time (`_group`). Entries are only ever appended at the end of the table, and an effect's history is walked backwards
from its head, so both cost the same however much is stored. SQLite folds its log into the file once it holds `CHECKPOINT_PAGES`
pages, within the commit that reaches that number: about one commit in five hundred.

What is not noticed: the log (`journal.db-wal`) removed by hand after it was last folded in, or an effect's row taken out of the index
before `verify` is run; both make the journal forget. Copy it with SQLite's own backup, never file by file while it is in use; and open
`journal.db` in no other way than through SQLite in a process that uses it, since closing any descriptor of it drops the locks that
SQLite holds there for the whole process.

Names in the file are API: pinned by a test.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from interlock.effects import FORMAT_VERSION, Kind
from interlock.errors import (
    ConfigurationError,
    JournalCorrupt,
    JournalError,
    JournalTooNew,
    JournalUnavailable,
    JournalUnsuitable,
)
from interlock.journal import _reservations, liveness
from interlock.journal._base import BUDGET, Denied, Journal, Prepared, link_hash
from interlock.journal._group import GroupCommit, Result
from interlock.ports import Liveness

APPLICATION_ID = 0x494E544C
"""Marks the file as a journal of ours ("INTL")."""
CHECKPOINT_PAGES = 2000
"""How long the log grows before it is folded into the file. Until it has once reached that length each fsync also writes the file's new
size, at about twice the cost; and whoever opens the journal after a crash reads all of it first (some 3 ms for each 1,000 pages)."""
BUSY_S = 10.0
"""How long a commit waits for another process's commit, in seconds."""

_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS entries (
        seq INTEGER PRIMARY KEY, effect_id TEXT NOT NULL, prev_seq INTEGER, body BLOB NOT NULL, hash BLOB NOT NULL, link BLOB NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS effects (
        effect_id TEXT PRIMARY KEY, name TEXT NOT NULL, first_seq INTEGER NOT NULL, head_seq INTEGER NOT NULL, head BLOB NOT NULL,
        worker TEXT NOT NULL, is_open INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS open_effects ON effects (first_seq) WHERE is_open = 1",
)
_LAST = "SELECT seq, link FROM entries ORDER BY seq DESC LIMIT 1"
_HEAD = "SELECT head_seq, head FROM effects WHERE effect_id = ?"
_HISTORY = """WITH RECURSIVE chain (seq, prev_seq, body, hash) AS (
    SELECT e.seq, e.prev_seq, e.body, e.hash FROM entries e WHERE e.seq = ?
    UNION ALL
    SELECT e.seq, e.prev_seq, e.body, e.hash FROM chain c JOIN entries e ON e.seq = c.prev_seq AND e.seq < c.seq
) SELECT body, hash FROM chain"""
_OPEN = "SELECT effect_id, name FROM effects WHERE is_open = 1 ORDER BY first_seq"
_OPEN_BODIES = """WITH RECURSIVE chain (seq, prev_seq, body) AS (
    SELECT e.seq, e.prev_seq, e.body FROM effects f JOIN entries e ON e.seq = f.head_seq WHERE f.is_open = 1
    UNION ALL
    SELECT e.seq, e.prev_seq, e.body FROM chain c JOIN entries e ON e.seq = c.prev_seq AND e.seq < c.seq
) SELECT body FROM chain"""
_POINTERS = (
    (
        """SELECT f.effect_id FROM effects f LEFT JOIN entries e ON e.seq = f.head_seq
        WHERE e.effect_id IS NOT f.effect_id OR e.hash IS NOT f.head""",
        "its row in the index does not point to its last entry",
    ),
    (
        """SELECT f.effect_id FROM effects f LEFT JOIN entries e ON e.seq = f.first_seq
        WHERE e.effect_id IS NOT f.effect_id OR e.prev_seq IS NOT NULL""",
        "its row in the index does not point to its first entry",
    ),
    (
        """SELECT effect_id FROM
        (SELECT effect_id, prev_seq, lag(seq) OVER (PARTITION BY effect_id ORDER BY seq) AS before FROM entries)
        WHERE prev_seq IS NOT before""",
        "an entry of it does not point to the one before",
    ),
)
"""What would lead a reader astray though every byte is right, for `verify`."""
_SCAN = "SELECT seq, effect_id, body, hash, link FROM entries WHERE seq > ? ORDER BY seq LIMIT 1000"


class _Rows:
    """A statement over many rows, run in few steps.

    Each step gives up the interpreter's lock and has to get it back from the threads that run meanwhile, which costs more than the
    step itself. Texts are few, so that they stay prepared.
    """

    def __init__(self, statement: str, row: str) -> None:
        self._width = row.count("?")
        self._texts = {count: statement.format(", ".join([row] * count)) for count in (1, 2, 3, 4, 8, 16, 32, 64)}

    def run(self, execute: Callable[[str, list[Any]], sqlite3.Cursor], values: list[Any]) -> Iterable[Any]:
        count = len(values) // self._width
        if count in self._texts:
            return execute(self._texts[count], values)
        found: list[Any] = []
        at = 0
        for size in reversed(self._texts):
            while count >= size:
                found += execute(self._texts[size], values[at : at + size * self._width])
                at += size * self._width
                count -= size
        return found


_HEADS = _Rows("SELECT effect_id, head, head_seq FROM effects WHERE effect_id IN ({})", "?")
_INSERT = _Rows("INSERT INTO entries (seq, effect_id, prev_seq, body, hash, link) VALUES {}", "(?, ?, ?, ?, ?, ?)")
_MOVE = _Rows(
    """INSERT INTO effects (effect_id, name, first_seq, head_seq, head, worker, is_open) VALUES {}
    ON CONFLICT (effect_id) DO UPDATE
    SET head_seq = excluded.head_seq, head = excluded.head, worker = excluded.worker, is_open = excluded.is_open""",
    "(?, ?, ?, ?, ?, ?, ?)",
)
_UNKNOWN: tuple[str, int | None] = ("", None)
_TORN = (
    "this process was forked from one that had a journal open, in the middle of a write or without Python's knowledge, and SQLite "
    "cannot be used safely in it. Nothing was sent. Fork before the journal is opened, or by os.fork or multiprocessing."
)
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA})
_UNSUITABLE = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM})


class SQLiteJournal(Journal):
    """The embedded journal.

    **Durable when** an append returns: on disk, in the log, with everything that was appended before it.
    **If the process dies** at any moment: the next to open it finds each append whole or not at all, and sees this worker gone at once.

    Args:
        directory: where it lives; made if it is not there.

    Raises:
        JournalUnsuitable: not a directory, not writable, a network file system, or no working locks.
        JournalTooNew: a later version wrote it.
        JournalCorrupt: the file is not a journal.
        JournalUnavailable: it cannot be opened now.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory).absolute()
        self._workers = self.directory / "workers"
        try:
            _make(self._workers)
        except (FileExistsError, NotADirectoryError) as error:
            raise JournalUnsuitable(f"{self.directory} is not a directory: {error}. Name a directory.") from error
        except OSError as error:
            raise JournalUnsuitable(
                f"{self.directory} cannot be made: {error.strerror}. Give a writable place."
            ) from error
        liveness.check_locks(self._workers)
        self._is_closed = False
        self._is_torn = False
        self._is_held = False
        with _connecting:
            self._start()
            _journals.add(self)

    def _start(self) -> None:
        """Connect as a new worker of this process."""
        self._opened: list[_Reader] = []
        self._idle: list[_Reader] = []
        self._pinned = threading.local()
        self._writer: sqlite3.Connection | None = self._connect_writer()
        self._group = GroupCommit(self._store)
        try:
            self._me = liveness.new_worker(self._workers)
        except OSError as error:
            raise JournalUnavailable(
                f"no lock file can be made in {self._workers}: {error.strerror}. Nothing was sent. "
                "See to the disk (space, permission, open files), then try again."
            ) from error
        self._pid = os.getpid()
        liveness.clean(self._workers, self._workers_of_open_effects)

    def _here(self, effect_id: str | None = None) -> None:
        """Be usable, in the process that connected: a forked child starts over as a worker of its own.

        Once closed, only an effect whose send is still running is served, so that its late answer is recorded.
        """
        is_child = self._pid != os.getpid()
        if self._is_torn or (is_child and self._is_connected):  # the latter after a fork that Python knows nothing of
            raise JournalUnavailable(_TORN)
        if is_child and not self._is_closed:
            with _connecting:
                if self._pid != os.getpid():
                    self._start()
        if self._is_closed and (is_child or effect_id is None or not self._me.is_sending(effect_id)):
            raise JournalError("this journal was closed, or its worker died in a simulated crash; open a new one.")

    @property
    def worker(self) -> str:
        """The id of this worker."""
        if not (self._is_closed and self._me.sending and self._pid == os.getpid()):
            self._here()
        return self._me.id

    def begin_send(self, effect_id: str, n: int) -> None:
        """As the base says."""
        self._here()
        self._me.begin((effect_id, n))

    def end_send(self, effect_id: str, n: int, *, answered: bool, in_flight: bool = True) -> None:
        """As the base says."""
        if self._pid == os.getpid():
            self._me.end((effect_id, n), answered=answered, in_flight=in_flight)
            if self._is_closed:
                self._free()

    def abandon(self) -> None:
        """As the base says."""
        self._is_closed = True
        if self._pid == os.getpid():
            self._me.abandon()
            self._free()

    def close(self) -> None:
        """As the base says."""
        self._is_closed = True
        if self._pid == os.getpid():
            self._me.close()
            self._free()

    def _free(self) -> None:
        """Close the connections, once no send is running whose answer could still come."""
        if self._me.sending:
            return
        if self._group.close():
            self._disconnect()
            self._group.hand_on()

    def _disconnect(self) -> None:
        with _connecting:
            opened, self._opened = self._opened, []
            writer, self._writer = self._writer, None
        for reader in opened:
            with reader.lock, contextlib.suppress(sqlite3.Error):
                reader.connection.close()
        if writer is not None:
            with contextlib.suppress(sqlite3.Error):
                writer.close()

    # --- fork --------------------------------------------------------------------------------------------------------

    def _before_fork(self) -> None:
        """Keep this process out of SQLite, so that a child inherits no connection in the middle of something."""
        self._is_held = self._group.hold(BUSY_S)

    def _after_fork_in_parent(self) -> None:
        if self._is_held:
            self._group.hand_on()

    def _after_fork_in_child(self) -> None:
        """Close what was inherited.

        SQLite knows a file's locks by process. While the child has a connection of the parent's open, SQLite takes the
        parent's locks for the child's; then the parent, or another, can find itself alone, and delete the log that the
        child writes to. Closing takes nothing from the parent: locks of this kind are not inherited.
        """
        if not self._is_held:
            self._is_torn = True
            _LEFT_TO_THE_PARENT.append((self._opened, self._writer))
            return
        for reader in self._opened:
            with contextlib.suppress(sqlite3.Error):
                reader.connection.close()
        if self._writer is not None:
            with contextlib.suppress(sqlite3.Error):
                self._writer.close()
        self._opened, self._idle, self._writer = [], [], None

    # --- connections -------------------------------------------------------------------------------------------------

    @property
    def _is_connected(self) -> bool:
        return self._writer is not None or bool(self._opened)

    def _connect(self) -> sqlite3.Connection:
        path = self.directory / "journal.db"
        pid = os.getpid()
        if any(journal._is_torn or (journal._pid != pid and journal._is_connected) for journal in _journals.copy()):
            raise JournalUnavailable(_TORN)
        until = time.monotonic() + BUSY_S
        while True:
            connection: sqlite3.Connection | None = None
            try:
                connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
                self._set_up(connection)
                return connection
            except sqlite3.Error as error:
                if connection is not None:
                    connection.close()
                # Two processes that make the file at the same moment: one of them is told that it is locked, at once.
                if _code(error) in _BUSY and time.monotonic() < until:
                    time.sleep(0.01)
                    continue
                raise self._translated(error, is_opening=True) from error
            except BaseException:
                if connection is not None:
                    connection.close()
                raise

    def _connect_writer(self) -> sqlite3.Connection:
        connection = self._connect()
        connection.execute("PRAGMA busy_timeout = 0")  # see `_begin`
        return connection

    def _set_up(self, connection: sqlite3.Connection) -> None:
        # Look before anything is set: a file of somebody else stays as it is.
        application, version = self._owner(connection)
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise JournalUnsuitable(
                f"{self.directory} cannot hold SQLite's write-ahead log (mode {mode}). Put the journal on a local disk."
            )
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # macOS: through the drive's cache, too; of no effect elsewhere
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute("PRAGMA cache_size = -65536")
        if application == APPLICATION_ID and version == FORMAT_VERSION:
            return
        connection.execute("BEGIN IMMEDIATE")
        if self._owner(connection) == (0, 0):  # still: another process may have made it meanwhile
            if any(self._workers.glob("*.lock")):
                # A worker makes its lock file after the journal, so there was one: an empty journal would forget what was sent.
                raise JournalCorrupt(
                    f"workers have written to the journal in {self.directory}, but its file is empty or gone. Nothing was sent. Restore "
                    "journal.db from a copy. If all that it held may be sent again, remove the whole directory instead."
                )
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
        connection.execute("COMMIT")

    def _owner(self, connection: sqlite3.Connection) -> tuple[int, int]:
        """Application and format version of the file; both 0 for a new one.

        Raises:
            JournalCorrupt: it is somebody else's.
            JournalTooNew: a later version's.
        """
        is_alone = not connection.in_transaction
        if is_alone:
            connection.execute("BEGIN")  # one moment: another process may be making it
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if is_alone:
            connection.execute("COMMIT")
        if application != APPLICATION_ID and (application or version or tables):
            raise JournalCorrupt(
                f"{self.directory / 'journal.db'} is a database of something else. Give the journal a directory of its own."
            )
        if version > FORMAT_VERSION:
            raise JournalTooNew(
                f"{self.directory} holds a journal of format {version}, and this version reads up to {FORMAT_VERSION}. "
                "Upgrade interlock-gate in every process that shares it."
            )
        return application, version

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """A connection to read with, this thread's until it is given back. There are as many as ever read at one time."""
        pinned: sqlite3.Connection | None = getattr(self._pinned, "connection", None)
        if pinned is not None:
            yield pinned
            return
        try:
            reader = self._idle.pop()
        except IndexError:
            with _connecting:
                reader = _Reader(self._connect())
                self._opened.append(reader)
        with reader.lock:
            try:
                yield reader.connection
            except sqlite3.Error:  # it may be in any state
                with contextlib.suppress(sqlite3.Error):
                    reader.connection.close()
                with contextlib.suppress(ValueError):
                    self._opened.remove(reader)
                raise
            self._idle.append(reader)

    def _translated(self, error: sqlite3.Error, *, is_opening: bool = False) -> JournalError:
        code = _code(error)
        text = f"{error} ({getattr(error, 'sqlite_errorname', type(error).__name__)})"
        if code in _DAMAGED or "Could not decode" in text:
            return JournalCorrupt(
                f"{self.directory / 'journal.db'} is damaged or no journal: {text}. Nothing was sent. Restore it from a copy that "
                "verifies."
            )
        if is_opening and code in _UNSUITABLE:
            return JournalUnsuitable(
                f"{self.directory / 'journal.db'} cannot be opened for writing: {text}. Give a directory that this user may write."
            )
        return JournalUnavailable(
            f"the journal in {self.directory} cannot be used now: {text}. Nothing that is not on it is sent. "
            "See to the disk (space, permission, another program that holds it), then try again."
        )

    # --- writing -----------------------------------------------------------------------------------------------------

    def _commit(self, prepared: Prepared) -> bool:
        self._check(prepared)
        return self._group.write(prepared)

    async def _commit_async(self, prepared: Prepared) -> bool:
        self._check(prepared)
        return await self._group.write_async(prepared)

    def _check(self, prepared: Prepared) -> None:
        self._here(prepared.effect_id)
        for guard in prepared.guards:
            if guard.kind == BUDGET:
                continue
            raise ConfigurationError(f"this journal does not know the guard {guard.kind!r}; nothing was written.")
        for entry in prepared.entries:
            if entry.kind is Kind.DISPATCHED:
                self._me.check_held()

    def _store(self, batch: Sequence[Prepared]) -> list[Result]:
        """Store a batch in one transaction; if that fails, each write alone, so that an error goes to its owner."""
        try:
            return list(self._transaction(batch))
        except Exception as error:  # noqa: BLE001 - handed to the writers that wait for it
            is_anybodys = (
                isinstance(error, sqlite3.Error) and _code(error) in _BUSY
            )  # each alone would wait as long again
            if len(batch) == 1 or is_anybodys:
                return [self._translated(error) if isinstance(error, sqlite3.Error) else error] * len(batch)
        return [self._store((prepared,))[0] for prepared in batch]

    def _transaction(self, batch: Sequence[Prepared]) -> list[Result]:
        if self._writer is None:
            with _connecting:
                self._writer = self._connect_writer()
        execute = self._writer.execute
        try:
            _begin(execute)
            last = execute(_LAST).fetchone()
            seq, link = (last[0], _raw(last[1]).hex()) if last is not None else (0, "")
            heads = {
                effect_id: (_raw(head).hex(), head_seq)
                for effect_id, head, head_seq in _HEADS.run(execute, [prepared.effect_id for prepared in batch])
            }
            held: list[Result] = []
            if any(map(_reservations.has_to_do, batch)):
                _reservations.prepare(execute)
            rows: list[object] = []
            moves: list[object] = []
            for prepared in batch:
                effect_id = prepared.effect_id
                head, previous = heads.get(effect_id, _UNKNOWN)
                if head != prepared.expected_head:
                    held.append(False)
                    continue
                if _reservations.has_to_do(prepared):
                    denied: Denied | None = _reservations.reserve(execute, prepared)
                    if denied is not None:
                        held.append(denied)
                        continue
                first = seq + 1
                for entry in prepared.entries:
                    seq += 1
                    link = link_hash(link, entry.hash)
                    rows += (seq, effect_id, previous, entry.body, bytes.fromhex(entry.hash), bytes.fromhex(link))
                    previous = seq
                moves += (effect_id, prepared.name, first, seq, bytes.fromhex(entry.hash), entry.by, prepared.is_open)
                heads[effect_id] = (entry.hash, seq)
                held.append(True)
            if rows:
                _MOVE.run(execute, moves)
                _INSERT.run(execute, rows)
            execute("COMMIT")
            return held
        except BaseException:
            self._reset_writer()
            raise

    def _reset_writer(self) -> None:
        """After an error nothing of the transaction may stay, and the connection may be in any state: start with another."""
        writer, self._writer = self._writer, None
        if writer is not None:
            with contextlib.suppress(sqlite3.Error):
                if writer.in_transaction:
                    writer.execute("ROLLBACK")
            with contextlib.suppress(sqlite3.Error):
                writer.close()

    # --- reading -----------------------------------------------------------------------------------------------------

    def _read(self, effect_id: str) -> Sequence[tuple[bytes, str]]:
        self._here(effect_id)
        # The writer's connection keeps its pages over its own commits; every other one has to read them again. It is free for
        # a moment where nobody commits.
        is_writers = self._group.try_lead()
        try:
            got = _history_at_once(self._writer, effect_id) if is_writers and self._writer is not None else None
            if got is not None:
                found, rows = got
            else:
                with self._reading() as connection:
                    found, rows = _history(connection, effect_id)
        except sqlite3.Error as error:
            raise self._translated(error) from error
        finally:
            if is_writers:
                self._group.hand_on()
        history = [(_raw(body), _raw(stored).hex()) for body, stored in reversed(rows)]
        if found is not None and (not history or history[-1][1] != _raw(found[1]).hex()):
            raise JournalCorrupt(
                f"effect {effect_id}: its last entry is not the one that the index names: an entry was removed, or the index was "
                "edited. Nothing was sent. Restore the journal from a copy that verifies."
            )
        return history

    def _open_ids(self) -> list[tuple[str, str]]:
        return self._query(_OPEN, ())

    def _query(self, statement: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        self._here()
        try:
            with self._reading() as connection:
                return connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._translated(error) from error

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[None]:
        """One moment of the file; a fork waits until it is over, and the log is folded into the file only afterwards."""
        self._here()
        try:
            with self._reading() as connection:
                connection.execute("BEGIN")
                self._pinned.connection = connection
                try:
                    yield
                finally:
                    del self._pinned.connection
                    connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise self._translated(error) from error

    def _scan(self) -> Iterator[tuple[str, bytes, str, str]]:
        seq = 0
        while rows := self._query(_SCAN, (seq,)):
            for seq, effect_id, body, stored, link in rows:  # noqa: B007 - the last one is where the next page begins
                yield effect_id, _raw(body), _raw(stored).hex(), _raw(link).hex()

    def _reservations(self) -> tuple[list[tuple[str, str, int]], dict[str, int]]:
        return _reservations.read(self._query)

    def _check_heads(self, heads: dict[str, str]) -> list[str]:
        rows = self._query("SELECT effect_id, head FROM effects", ())
        known = {effect_id: _raw(head).hex() for effect_id, head in rows}
        problems = [
            f"effect {effect_id}: its row in the index does not name its last entry"
            for effect_id in sorted(heads.keys() | known.keys())
            if heads.get(effect_id) != known.get(effect_id)
        ]
        for statement, what in _POINTERS:
            problems.extend(f"effect {effect_id}: {what}" for (effect_id,) in self._query(statement, ()))
        return problems

    # --- liveness ----------------------------------------------------------------------------------------------------

    def _liveness(self, worker: str, effect_id: str, n: int) -> Liveness:
        self._here()
        return liveness.probe(self._workers, worker, (effect_id, n))

    def _workers_of_open_effects(self) -> set[str]:
        """Workers that wrote to an open effect: their lock files still have something to tell, the earlier senders' too."""
        try:
            with self._reading() as connection:
                bodies = connection.execute(_OPEN_BODIES).fetchall()
        except sqlite3.Error as error:
            raise self._translated(error) from error
        workers = set()
        for (body,) in bodies:
            with contextlib.suppress(ValueError, KeyError, TypeError):  # damage is told where that effect is read
                workers.add(json.loads(body)["by"])
        return workers


def _begin(execute: Callable[[str], object]) -> None:
    """Become the file's one writer, after those of other processes.

    SQLite's own waiting grows to 0.1 s a step, in which a process that commits in a row has dozens of turns: waits of seconds.
    """
    until = 0.0
    pause_s = 0.0001
    while True:
        try:
            execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            now = time.monotonic()
            until = until or now + BUSY_S
            if _code(error) not in _BUSY or now >= until:
                raise
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.001)


class _Reader:
    """A connection to read with, and the lock that is held while it is used."""

    __slots__ = ("connection", "lock")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.lock = threading.Lock()


def _history(connection: sqlite3.Connection, effect_id: str) -> tuple[tuple[int, Any] | None, list[tuple[Any, Any]]]:
    found: tuple[int, Any] | None = connection.execute(_HEAD, (effect_id,)).fetchone()
    return found, connection.execute(_HISTORY, found[:1]).fetchall() if found is not None else []


def _history_at_once(
    connection: sqlite3.Connection, effect_id: str
) -> tuple[tuple[int, Any] | None, list[tuple[Any, Any]]] | None:
    """The history, or None where that would have to wait for another process: the writer's connection does not wait."""
    try:
        return _history(connection, effect_id)
    except sqlite3.OperationalError as error:
        if _code(error) in _BUSY:
            return None
        raise


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary result code; 0 where the error is not SQLite's own."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def _make(directory: Path) -> None:
    """Make a directory, and those above it, so that they are still there after a power failure."""
    missing = [place for place in (directory, *directory.parents) if not place.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    for place in reversed(missing):
        with contextlib.suppress(OSError):  # not every system can do this for a directory, or lets this user
            descriptor = os.open(place.parent, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _raw(value: Any) -> bytes:
    """The bytes of a stored value, also where an edit left a text or a number in their place: then no hash matches."""
    return value if type(value) is bytes else str(value).encode()


_journals: weakref.WeakSet[SQLiteJournal] = weakref.WeakSet()
"""The journals of this process."""
_connecting = threading.RLock()
"""Held while a connection is made or let go. Taken after a journal's lead, before a reader's lock."""
_held_for_fork: list[tuple[list[SQLiteJournal], list[_Reader]]] = []
_LEFT_TO_THE_PARENT: list[object] = []
"""What a forked child inherited in the middle of something, and must neither use nor close."""


def _before_fork() -> None:
    journals = list(_journals)
    for journal in journals:
        journal._before_fork()
    _connecting.acquire()
    readers = [reader for journal in journals for reader in journal._opened]
    for reader in readers:
        reader.lock.acquire()
    _held_for_fork.append((journals, readers))


def _after_fork_in_parent() -> None:
    journals, readers = _held_for_fork.pop()
    for reader in readers:
        reader.lock.release()
    _connecting.release()
    for journal in journals:
        journal._after_fork_in_parent()


def _after_fork_in_child() -> None:
    if not _held_for_fork:  # an embedding server that forks by itself and tells only the child
        for journal in _journals.copy():
            journal._is_torn = True
        return
    journals, _ = _held_for_fork.pop()
    for journal in journals:
        journal._after_fork_in_child()
    _connecting.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
