"""A journal with very many finished effects, quickly, that `verify()` accepts.

The bytes are those of a real effect: one is made through the gate, and its entries are the pattern from which the others are
made by putting in their own id, order, digest and previous hash. They go into the journal's own tables, in its own order, linked as
the journal links them, with its index up to date, in large transactions with synchronous=OFF. Nothing here is a way to write a
journal for any other purpose.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.performance.subject import opened
from interlock.effects import Entry
from interlock.journal import Journal
from interlock.journal._base import link_hash
from interlock.rules.canonical import derive_id, digest

BATCH = 20_000
ORDER = "filled-%09d"
AMOUNT = 2000

_ENTRIES = "INSERT INTO entries (seq, effect_id, prev_seq, body, hash, link) VALUES (?, ?, ?, ?, ?, ?)"
_HEADS = "INSERT INTO heads (effect_id, name, first_seq, head_seq, head, worker, is_open) VALUES (?, ?, ?, ?, ?, ?, 0)"


@dataclass(frozen=True)
class Pattern:
    """The entries of one finished effect with holes: `%(id)b`, `%(order)b`, `%(digest)b`, `%(prev)b`."""

    name: str
    worker: str
    bodies: tuple[bytes, ...]

    def entries(self, number: int) -> tuple[str, list[bytes]]:
        """The effect id and the entries' bytes of one more effect."""
        order = ORDER % number
        effect_id = derive_id(self.name, f"refund:{order}")
        holes = {
            b"id": effect_id.encode(),
            b"order": order.encode(),
            b"digest": digest({"order": order, "amount": AMOUNT}).encode(),
            b"prev": b"",
        }
        made = []
        for body in self.bodies:
            made.append(body % holes)
            holes[b"prev"] = hashlib.sha256(made[-1]).hexdigest().encode()
        return effect_id, made


def fill(directory: Path, count: int) -> None:
    """A journal in that directory with so many finished effects (one of them made by the gate itself).

    **Durable when** this returns: all of it.
    """
    with opened(directory) as subject:
        order = ORDER % 0
        outcome = subject.null(order, amount=AMOUNT)
        pattern = _pattern(subject.gate.journal, outcome.effect_id, order)
    connection = sqlite3.connect(directory / "journal.db", isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -262144")
        connection.execute("PRAGMA wal_autocheckpoint = 65536")
        seq, link = connection.execute("SELECT seq, link FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
        rows = _Rows(pattern, seq, bytes(link).hex())
        for first in range(1, count, BATCH):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(_ENTRIES, rows.entries(range(first, min(first + BATCH, count))))
            connection.execute("COMMIT")
        # In the order of the ids: a million inserts at random places would be a million pages.
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(_HEADS, sorted(rows.effects))
        connection.execute("UPDATE indexed SET seq = (SELECT max(seq) FROM entries)")
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()
    _sync(directory / "journal.db")


class _Rows:
    """Rows of the journal's two tables, linked one to the next."""

    def __init__(self, pattern: Pattern, seq: int, link: str) -> None:
        self._pattern = pattern
        self._seq, self._link = seq, link
        self.effects: list[tuple[str, str, int, int, bytes, str]] = []

    def entries(self, numbers: range) -> Iterator[tuple[int, str, int | None, bytes, bytes, bytes]]:
        """The entries of these effects, in the order of the journal."""
        pattern = self._pattern
        for number in numbers:
            effect_id, bodies = pattern.entries(number)
            previous: int | None = None
            first = self._seq + 1
            for body in bodies:
                self._seq += 1
                hashed = hashlib.sha256(body)
                self._link = link_hash(self._link, hashed.hexdigest())
                yield self._seq, effect_id, previous, body, hashed.digest(), bytes.fromhex(self._link)
                previous = self._seq
            self.effects.append((effect_id, pattern.name, first, self._seq, hashed.digest(), pattern.worker))


def _pattern(journal: Journal, effect_id: str, order: str) -> Pattern:
    entries = journal.load(effect_id).entries
    written = digest({"order": order, "amount": AMOUNT})
    bodies = []
    prev = ""
    for entry in entries:
        body = entry.body.replace(b"%", b"%%")
        for text, hole in ((effect_id, b"id"), (order, b"order"), (written, b"digest")):
            body = body.replace(text.encode(), b"%(" + hole + b")b")
        bodies.append(body.replace(f'"prev":"{prev}"'.encode(), b'"prev":"%(prev)b"'))
        prev = entry.hash
    return _checked(Pattern(entries[0].data["effect"], entries[-1].by, tuple(bodies)), entries)


def _checked(pattern: Pattern, entries: tuple[Entry, ...]) -> Pattern:
    """The pattern gives back the very bytes that it was taken from, or it must not be used."""
    if pattern.entries(0)[1] != [entry.body for entry in entries]:
        raise RuntimeError("the journal's entries have changed their form: benchmarks/performance/fill.py must follow")
    return pattern


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
