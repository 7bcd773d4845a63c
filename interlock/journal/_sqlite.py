"""The journal on one machine: SQLite in WAL mode, synchronous=FULL, any number of processes and threads.

    <directory>/journal.db        entries (append-only, by position), heads (one row an effect: its last entry, whether it is open)
    <directory>/workers/*.lock    one file for each worker, locked for its life (see `liveness`)

A commit is one transaction: compare the head, link the entries, insert them; one fsync of the log, shared by all that commit at the same
time (`_group`). Entries are only ever appended at the end of the table, the index of heads is brought up to date by one commit in some
two hundred (`_index`), and an effect's history is walked backwards from its head, so all cost the same however much is stored. SQLite
folds its log into the file once it holds `CHECKPOINT_PAGES` pages, within the commit that reaches that number.

What is not noticed: the log (`journal.db-wal`) removed by hand after it was last folded in, an effect's row taken out of the index
before `verify` is run, or the very last entries taken out of a journal that was not closed; each makes the journal forget. Copy it with
SQLite's own backup, never file by file while it is in use; and open `journal.db` in no other way than through SQLite in a process that
uses it, since closing any descriptor of it drops the locks that SQLite holds there for the whole process.

Names in the file are API: pinned by a test.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from interlock.errors import (
    ConfigurationError,
    JournalCorrupt,
    JournalError,
    JournalTooNew,
    JournalUnavailable,
    JournalUnsuitable,
)
from interlock.journal import _reservations, _watches, liveness
from interlock.journal._base import BUDGET, WATCHING, Denied, Journal, Prepared
from interlock.journal._group import GroupCommit, Result
from interlock.journal._index import (
    ALL_HEADS,
    FROM_LAYOUT_1,
    HISTORY,
    INDEXED,
    INSERT,
    INSERT_IF_NEW,
    OPEN_EFFECTS,
    POINTERS,
    SCHEMA,
    TAIL_ENTRIES,
    Execute,
    Head,
    Tail,
    bring_up,
    raw,
)
from interlock.ports import Liveness
from interlock.settlement import STATE_OF, Watched

APPLICATION_ID = 0x494E544C
"""Marks the file as a journal of ours ("INTL")."""
LAYOUT_VERSION = 2
"""Of the file. The entries carry a version of their own."""
CHECKPOINT_PAGES = 2000
"""How long the log grows before it is folded into the file. Until it has once reached that length each fsync also writes the file's new
size, at about twice the cost; and whoever opens the journal after a crash reads all of it first (some 3 ms for each 1,000 pages)."""
BUSY_S = 10.0
"""How long a commit waits for another process's commit, in seconds."""

_SCAN = "SELECT seq, effect_id, body, hash, link FROM entries WHERE seq > ? ORDER BY seq LIMIT 1000"


_OURS = (__name__, Journal.__module__, liveness.__name__)
"""Where a thread that leads is, or one that holds a lock of the journal's."""
_TORN = (
    "this process was forked from one that had a journal open, in the middle of a write or without Python's knowledge, and SQLite "
    "cannot be used safely in it. Nothing was sent. Fork before the journal is opened, or by os.fork or multiprocessing."
)
_CLOSED = "this journal was closed, or its worker died in a simulated crash; open a new one."
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA})
_UNSUITABLE = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM})


T = TypeVar("T")


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
        self._fork: object | None = None
        with _connecting:
            self._start()
            _journals.add(self)

    @staticmethod
    def is_at(directory: str | os.PathLike[str]) -> bool:
        """Whether a directory holds a journal, or what is left of one; nothing is opened."""
        return (Path(directory) / "journal.db").exists() or (Path(directory) / "workers").is_dir()

    def _start(self) -> None:
        """Connect as a new worker of this process."""
        self._opened: list[_Reader] = []
        self._idle: list[_Reader] = []
        self._is_freed = False
        self._pinned = threading.local()
        self._writer: sqlite3.Connection | None = self._connect_writer()
        self._tail: Tail | None = None
        self._is_alone = True
        self._group = GroupCommit(self._store, modules=_OURS)
        try:
            self._me = liveness.new_worker(self._workers)
        except OSError as error:
            raise JournalUnavailable(
                f"no lock file can be made in {self._workers}: {error.strerror}. Nothing was sent. "
                "See to the disk (space, permission, open files), then try again."
            ) from error
        self._pid = os.getpid()
        # Where it is dropped without close(), nobody sends by it any more, and its lock goes, too.
        weakref.finalize(self, self._me.close).atexit = False
        liveness.clean(self._workers, self._workers_of_open_effects)

    def _here(self, effect_id: str | None = None) -> None:
        """Be usable, in the process that connected: a forked child starts over as a worker of its own.

        Once closed, only an effect whose send is still running is served, so that its late answer is recorded.
        """
        is_child = self._pid != os.getpid()
        if not (is_child or self._is_closed or self._is_torn):
            return
        if self._is_torn or (is_child and self._is_connected):  # the latter after a fork that Python knows nothing of
            raise JournalUnavailable(_TORN)
        if is_child and not self._is_closed:
            with _connecting:
                if self._pid != os.getpid():
                    self._start()
        if self._is_closed and (is_child or effect_id is None or not self._me.is_sending(effect_id)):
            raise JournalError(_CLOSED)

    @property
    def worker(self) -> str:
        """The id of this worker."""
        if self._pid != os.getpid() or self._is_torn or (self._is_closed and not self._me.sending):
            self._here()
        return self._me.id

    def begin_send(self, effect_id: str, n: int, call: Hashable = None) -> None:
        """As the base says."""
        if self._pid != os.getpid() or self._is_torn or self._is_closed:
            self._here()
        self._me.begin((effect_id, n), call)

    def end_send(
        self, effect_id: str, n: int, call: Hashable = None, *, answered: bool, in_flight: bool = True
    ) -> None:
        """As the base says."""
        if self._pid == os.getpid():
            self._me.end((effect_id, n), call, answered=answered, in_flight=in_flight)
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
        if self._pid != os.getpid():
            return
        if self._group.is_below():
            # A signal handler closes what this very thread is in the middle of, and would wait for itself. Another thread can wait.
            with contextlib.suppress(RuntimeError):  # no more threads: the interpreter is ending, and with it all this
                threading.Thread(target=self._close, name="interlock-close").start()
        else:
            self._close()

    def _close(self) -> None:
        self._me.close()
        self._free()

    def _free(self) -> None:
        """Close the connections, once no send is running whose answer could still come."""
        if self._me.sending:
            return
        lead = object()
        try:
            if self._group.close(lead):
                if not self._me.is_abandoned:
                    self._index_all()
                self._disconnect()
                self._group.hand_on(lead)
        except BaseException:
            self._group.go_on(lead)
            raise

    def _disconnect(self) -> None:
        with _connecting:
            self._is_freed = True
            opened, self._opened, self._idle = self._opened, [], []
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
        lead = object()
        self._fork = lead if self._group.hold(lead, BUSY_S) else None

    def _after_fork_in_parent(self) -> None:
        if self._fork is not None:
            self._group.hand_on(self._fork)

    def _after_fork_in_child(self) -> None:
        """Close what was inherited.

        SQLite knows a file's locks by process. While the child has a connection of the parent's open, SQLite takes the
        parent's locks for the child's; then the parent, or another, can find itself alone, and delete the log that the
        child writes to. Closing takes nothing from the parent: locks of this kind are not inherited.
        """
        if self._fork is None:
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
        # Else SQLite makes a file in the system's temporary directory whenever the index is brought up to date, for what it changes.
        connection.execute("PRAGMA temp_store = MEMORY")
        if application == APPLICATION_ID and version == LAYOUT_VERSION:
            return
        connection.execute("BEGIN IMMEDIATE")
        now = self._owner(connection)  # another process may have made it meanwhile
        if now == (APPLICATION_ID, 1):
            for statement in FROM_LAYOUT_1:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {LAYOUT_VERSION}")
        elif now == (0, 0):
            if any(self._workers.glob("*.lock")):
                # A worker makes its lock file after the journal, so there was one: an empty journal would forget what was sent.
                raise JournalCorrupt(
                    f"workers have written to the journal in {self.directory}, but its file is empty or gone. Nothing was sent. Restore "
                    "journal.db from a copy. If all that it held may be sent again, remove the whole directory instead."
                )
            for statement in SCHEMA:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {LAYOUT_VERSION}")
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
        if version > LAYOUT_VERSION:
            raise JournalTooNew(
                f"{self.directory} holds a journal of format {version}, and this version reads up to {LAYOUT_VERSION}. "
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
                if self._is_freed:  # since it was looked at: by a signal handler, or another thread
                    raise JournalError(_CLOSED) from None
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
        if prepared.guards or self._is_closed or self._is_torn:
            self._check(prepared)  # the rest was looked at when this worker was named
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

    def _store(self, batch: Sequence[Prepared]) -> list[Result]:
        """Store a batch in one transaction; if that fails, each write alone, so that an error goes to its owner."""
        try:
            for prepared in batch:
                if prepared.sends:
                    self._me.check_held()  # once for all of them
                    break
            return self._transaction(batch)
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
            if self._tail is None:
                self._tail = _patiently(Tail, execute)
            tail = self._tail
            if self._is_alone and not tail.is_long and not _has_more_to_write(batch):
                held = self._at_once(execute, tail, batch)
                if held is not None:
                    return held
            return self._step_by_step(execute, tail, batch)
        except BaseException:
            self._reset_writer()
            raise

    def _at_once(self, execute: Execute, tail: Tail, batch: Sequence[Prepared]) -> list[Result] | None:
        """Store a batch by one statement; None if somebody else has appended, or it takes more than one."""
        unknown = tail.unknown(batch)
        looked_up: dict[str, Head] = {}
        insert = INSERT
        if unknown:
            if len(batch) == 1 and not batch[0].expected_head:
                # One that its writer takes for new is not looked up before it is written: the statement that writes it does both.
                insert = INSERT_IF_NEW
            else:
                looked_up = _patiently(tail.look_up, execute, unknown)
        planned = tail.plan(batch, looked_up)
        rows = planned.rows
        statement = insert.text(rows)
        if statement is None or False in planned.held:
            return None
        if insert is INSERT_IF_NEW:
            rows += unknown
        try:
            written = _patiently(execute, statement, rows)
        except sqlite3.IntegrityError:  # their numbers are taken
            return None
        if insert is INSERT_IF_NEW and not written.rowcount:
            return [False]
        tail.advance(planned)
        return planned.held

    def _step_by_step(self, execute: Execute, tail: Tail, batch: Sequence[Prepared]) -> list[Result]:
        """Store a batch: look, decide, write; nobody else writes meanwhile."""
        _patiently(execute, "BEGIN IMMEDIATE")
        self._is_alone = not tail.catch_up(execute)
        if any(map(_reservations.has_to_do, batch)):
            _reservations.prepare(execute)
        unknown = tail.unknown(batch)
        looked_up = tail.look_up(execute, unknown) if unknown else {}
        planned = tail.plan(batch, looked_up, functools.partial(_admit, execute))
        if planned.rows:
            INSERT.run(execute, planned.rows)
        indexed = bring_up(execute, at_least=TAIL_ENTRIES) if tail.is_long else tail.since
        execute("COMMIT")
        tail.advance(planned)
        if indexed != tail.since:
            tail.brought_up(indexed)
        return planned.held

    def _index_all(self) -> None:
        """Leave an index that is up to date to whoever opens the journal next, so that it need not read what is newer."""
        writer, tail = self._writer, self._tail
        if writer is None or tail is None or tail.seq == tail.since:
            return
        with contextlib.suppress(sqlite3.Error):  # then it does
            writer.execute("BEGIN IMMEDIATE")
            bring_up(writer.execute, at_least=1)
            writer.execute("COMMIT")

    def _reset_writer(self) -> None:
        """After an error nothing of the transaction may stay, and the connection may be in any state: start with another."""
        writer, self._writer = self._writer, None
        self._tail = None
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
        lead = object()
        try:
            got = self._history_at_once(effect_id) if self._group.try_lead(lead) else None
            if got is None:
                tail = self._tail
                with self._reading() as connection:
                    execute = connection.execute
                    found = (Tail(execute) if tail is None else tail).look(execute, effect_id)
                    got = found, _history(execute, found)
            self._group.hand_on(lead)
        except BaseException as error:
            self._group.go_on(lead)
            if isinstance(error, sqlite3.Error):
                raise self._translated(error) from error
            raise
        (head, head_seq), rows = got
        history = [(raw(body), raw(stored).hex()) for body, stored in reversed(rows)]
        if head_seq is not None and (not history or history[-1][1] != head):
            raise JournalCorrupt(
                f"effect {effect_id}: its last entry is not the one that the index names: an entry was removed, or the index was "
                "edited. Nothing was sent. Restore the journal from a copy that verifies."
            )
        return history

    def _is_presumably_new(self, effect_id: str) -> bool:
        tail = self._tail  # what a forked child inherits of it is no less true; it never writes by it
        return tail is not None and effect_id not in tail.heads

    def _history_at_once(self, effect_id: str) -> tuple[Head, list[Any]] | None:
        """The history, or None where that would have to wait for another process: the writer's connection does not wait."""
        if self._writer is None:
            return None
        execute = self._writer.execute
        try:
            if self._tail is None:
                self._tail = Tail(execute)
            found = self._tail.lead(execute, effect_id)
            return found, _history(execute, found)
        except BaseException as error:
            if isinstance(error, sqlite3.OperationalError) and _code(error) in _BUSY:
                return None
            self._tail = None  # an interrupt may have come between two of its parts
            raise

    def _open_ids(self) -> list[tuple[str, str]]:
        return [(effect_id, name) for effect_id, name, *_ in self._query_by_either(OPEN_EFFECTS, ())]

    def _query_by_either(self, statement: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        """As `_query`, by the writer's connection while that is free: a process that only recovers makes no second one."""
        self._here()
        found: list[tuple[Any, ...]] | None = None
        lead = object()
        try:
            if getattr(self._pinned, "connection", None) is None and self._group.try_lead(lead):
                try:
                    if self._writer is not None:
                        found = self._writer.execute(statement, values).fetchall()
                except sqlite3.OperationalError as error:
                    if _code(error) not in _BUSY:  # that connection does not wait for other processes; a reader's does
                        raise
                self._group.hand_on(lead)
        except BaseException as error:
            self._group.go_on(lead)
            if isinstance(error, sqlite3.Error):
                raise self._translated(error) from error
            raise
        return self._query(statement, values) if found is None else found

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
                yield effect_id, raw(body), raw(stored).hex(), raw(link).hex()

    def _watched(self, after: str) -> list[Watched]:
        return _watches.watched(self._query, after)

    def _find(self, reference: str) -> list[str]:
        return _watches.find(self._query, reference)

    def _references(self) -> list[tuple[str, str]]:
        return _watches.references(self._query)

    def _reservations(self) -> tuple[list[tuple[str, str, int]], dict[str, int]]:
        return _reservations.read(self._query)

    def _check_heads(self, heads: dict[str, str]) -> list[str]:
        rows = self._query(ALL_HEADS, ())
        known = {effect_id: raw(head).hex() for effect_id, head in rows}
        problems = [
            f"effect {effect_id}: its row in the index does not name its last entry"
            for effect_id in sorted(heads.keys() | known.keys())
            if heads.get(effect_id) != known.get(effect_id)
        ]
        indexed = self._query(INDEXED, ())
        if len(indexed) != 1 or (indexed[0][0] and indexed[0][1] is None):
            problems.append("the index does not end at an entry of the journal")
        for statement, what in POINTERS:
            problems.extend(f"effect {effect_id}: {what}" for (effect_id,) in self._query(statement, ()))
        return problems

    # --- liveness ----------------------------------------------------------------------------------------------------

    def _liveness(self, worker: str, effect_id: str, n: int) -> Liveness:
        self._here()
        return liveness.probe(self._workers, worker, (effect_id, n))

    def _workers_of_open_effects(self) -> set[str]:
        """Workers that wrote to an open effect: their lock files still have something to tell, the earlier senders' too."""
        workers = set()
        # The statements of a recovery, which comes next: each stays prepared.
        for *_, head_seq in self._query_by_either(OPEN_EFFECTS, ()):
            for body, _ in self._query_by_either(HISTORY, (head_seq,)):
                with contextlib.suppress(ValueError, KeyError, TypeError):  # damage is told where that effect is read
                    workers.add(json.loads(raw(body))["by"])
        return workers


def _has_more_to_write(batch: Sequence[Prepared]) -> bool:
    """Whether any of it is more than its entries."""
    for prepared in batch:
        if prepared.guards or prepared.releases or prepared.reserves:
            return True
        for entry in prepared.entries:
            if entry.kind in STATE_OF or "watch" in entry.data:
                return True
    return False


def _admit(execute: Execute, prepared: Prepared) -> Denied | None:
    """Judge the guards of a write whose head has held, and write what it has beside its entries."""
    denied = _reservations.reserve(execute, prepared) if _reservations.has_to_do(prepared) else None
    if denied is None:
        for entry in prepared.entries:
            if entry.kind in WATCHING:
                _watches.keep(execute, entry, prepared.name)
    return denied


def _patiently(step: Callable[..., T], *given: Any) -> T:
    """Take a step that other processes may be in the way of.

    SQLite's own waiting grows to 0.1 s a step, in which a process that commits in a row has dozens of turns: waits of seconds.
    """
    until = 0.0
    pause_s = 0.0001
    while True:
        try:
            return step(*given)
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


def _history(execute: Execute, found: Head) -> list[Any]:
    rows: list[Any] = execute(HISTORY, found[1:]).fetchall() if found[1] is not None else []
    return rows


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
