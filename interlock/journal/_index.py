"""The index of effects in a SQLite journal, and the entries that it does not know yet.

    entries   1 2 3 4 5 6 7 8 9 | 10 11 12 13      appended by every commit
    heads     up to 9, on disk  |                  brought up to date by one commit in some `TAIL_ENTRIES`
    tail                        | 10 11 12 13      kept in memory; whoever opens the journal reads it again

A commit that moved its effect's row in the index would write three pages where one does: the rows of the index lie where the ids fall.
So a commit appends its entries and nothing else, by a single statement that needs no look beforehand: an entry's number is the last
one known and one more, and where another process has taken that number the statement fails, and this one looks again.

Owns the texts of SQL for both and what is known of them; connections, waiting and errors are `_sqlite`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from interlock.effects import Kind
from interlock.errors import JournalCorrupt
from interlock.journal._base import Prepared
from interlock.rules.lifecycle import OPEN

TAIL_ENTRIES = 512
"""How many entries the index may lack before a commit brings it up to date; what opening a journal reads at the most."""
ABSENT_IDS = 4096
"""How many effects are remembered as unknown to the journal."""

MOST_NEWER = 4 * TAIL_ENTRIES
"""How many entries of others are taken in one by one."""

Execute = Callable[..., Any]

SCHEMA = (
    """CREATE TABLE IF NOT EXISTS entries (
        seq INTEGER PRIMARY KEY, effect_id TEXT NOT NULL, prev_seq INTEGER, body BLOB NOT NULL, hash BLOB NOT NULL, link BLOB NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS heads (
        effect_id TEXT PRIMARY KEY, name TEXT NOT NULL, first_seq INTEGER NOT NULL, head_seq INTEGER NOT NULL, head BLOB NOT NULL,
        worker TEXT NOT NULL, is_open INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS open_effects ON heads (first_seq) WHERE is_open = 1",
    "CREATE TABLE IF NOT EXISTS indexed (seq INTEGER NOT NULL)",
    "INSERT INTO indexed SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM indexed)",
)
FROM_LAYOUT_1 = (
    "ALTER TABLE effects RENAME TO heads",
    "CREATE TABLE indexed (seq INTEGER NOT NULL)",
    "INSERT INTO indexed SELECT coalesce(max(seq), 0) FROM entries",
)
"""In layout 1 every commit moved its effect's row. A process of that version that still runs finds its table gone, and stops."""

HISTORY = """WITH RECURSIVE chain (seq, prev_seq, body, hash) AS (
    SELECT e.seq, e.prev_seq, e.body, e.hash FROM entries e WHERE e.seq = ?
    UNION ALL
    SELECT e.seq, e.prev_seq, e.body, e.hash FROM chain c JOIN entries e ON e.seq = c.prev_seq AND e.seq < c.seq
) SELECT body, hash FROM chain"""
INDEXED = "SELECT i.seq, e.link FROM indexed i LEFT JOIN entries e ON e.seq = i.seq"
_NEWER = "SELECT seq, effect_id, hash, link FROM entries WHERE seq > ? ORDER BY seq LIMIT ?"
_NEWER_AND_HEAD = f"""SELECT * FROM ({_NEWER})
UNION ALL SELECT head_seq, NULL, head, NULL FROM heads WHERE effect_id = ?"""  # noqa: S608


def _field(body: str, path: str) -> str:
    """SQL for a field of an entry; empty for bytes that are no JSON any more, which is told where that effect is read."""
    text = f"CAST({body} AS TEXT)"
    return f"CASE WHEN json_valid({text}) THEN coalesce(json_extract({text}, '{path}'), '') ELSE '' END"


_OPEN_KINDS = ", ".join(f"'{kind.value}'" for kind in Kind if kind in OPEN)
_TAIL = f"""WITH newer AS (
    SELECT effect_id, min(seq) AS first_seq, max(seq) AS head_seq FROM entries WHERE seq > (SELECT seq FROM indexed) GROUP BY effect_id
), tail AS (
    SELECT n.effect_id, {_field("f.body", "$.data.effect")} AS name, n.first_seq, f.prev_seq AS indexed_seq, n.head_seq, l.hash AS head,
        {_field("l.body", "$.by")} AS worker, ({_field("l.body", "$.kind")}) IN ({_OPEN_KINDS}, '') AS is_open
    FROM newer n JOIN entries f ON f.seq = n.first_seq JOIN entries l ON l.seq = n.head_seq
)"""  # noqa: S608
"""The effects with entries that the index does not know, as it will know them."""
_BRING_UP = f"""{_TAIL} INSERT INTO heads (effect_id, name, first_seq, head_seq, head, worker, is_open)
    SELECT effect_id, name, first_seq, head_seq, head, worker, is_open FROM tail WHERE true
    ON CONFLICT (effect_id) DO UPDATE
    SET head_seq = excluded.head_seq, head = excluded.head, worker = excluded.worker, is_open = excluded.is_open"""  # noqa: S608
OPEN_EFFECTS = f"""{_TAIL} SELECT effect_id, name, first_seq, head_seq FROM heads
    WHERE is_open = 1 AND effect_id NOT IN (SELECT effect_id FROM tail)
UNION ALL SELECT t.effect_id, coalesce(h.name, t.name), coalesce(h.first_seq, t.first_seq), t.head_seq
    FROM tail t LEFT JOIN heads h ON h.effect_id = t.effect_id WHERE t.is_open
ORDER BY 3"""  # noqa: S608
ALL_HEADS = f"""{_TAIL} SELECT effect_id, head FROM tail
UNION ALL SELECT effect_id, head FROM heads WHERE effect_id NOT IN (SELECT effect_id FROM tail)"""  # noqa: S608
POINTERS = (
    (
        """SELECT h.effect_id FROM heads h LEFT JOIN entries e ON e.seq = h.head_seq
        WHERE e.effect_id IS NOT h.effect_id OR e.hash IS NOT h.head""",
        "its row in the index does not point to its last entry",
    ),
    (
        """SELECT h.effect_id FROM heads h LEFT JOIN entries e ON e.seq = h.first_seq
        WHERE e.effect_id IS NOT h.effect_id OR e.prev_seq IS NOT NULL""",
        "its row in the index does not point to its first entry",
    ),
    (
        """SELECT effect_id FROM
        (SELECT effect_id, prev_seq, lag(seq) OVER (PARTITION BY effect_id ORDER BY seq) AS before FROM entries)
        WHERE prev_seq IS NOT before""",
        "an entry of it does not point to the one before",
    ),
    (
        f"""{_TAIL} SELECT t.effect_id FROM tail t LEFT JOIN heads h ON h.effect_id = t.effect_id
        WHERE t.indexed_seq IS NOT h.head_seq""",  # noqa: S608
        "the index does not end where its later entries begin",
    ),
)
"""What would lead a reader astray though every byte is right, for `verify`."""


class _Rows:
    """A statement over many rows, run in few steps.

    Each step gives up the interpreter's lock and has to get it back from the threads that run meanwhile, which costs more than the
    step itself. Texts are few, so that they stay prepared.
    """

    def __init__(self, statement: str, row: str, counts: Iterable[int]) -> None:
        self._width = row.count("?")
        self._texts = {count: statement.format(", ".join([row] * count)) for count in counts}

    def text(self, values: list[Any]) -> str | None:
        """The one statement for exactly these rows, if there is one."""
        return self._texts.get(len(values) // self._width)

    def run(self, execute: Execute, values: list[Any]) -> Iterable[Any]:
        count = len(values) // self._width
        if count in self._texts:
            rows: Iterable[Any] = execute(self._texts[count], values)
            return rows
        found: list[Any] = []
        at = 0
        for size in reversed(self._texts):
            while count >= size:
                found += execute(self._texts[size], values[at : at + size * self._width])
                at += size * self._width
                count -= size
        return found


_HEADS = _Rows("SELECT effect_id, head, head_seq FROM heads WHERE effect_id IN ({})", "?", (1, 2, 3, 4, 8, 16, 32, 64))
_INTO_ENTRIES = "INSERT INTO entries (seq, effect_id, prev_seq, body, hash, link)"
_ROW = "(?, ?, ?, ?, ?, ?)"
INSERT = _Rows(_INTO_ENTRIES + " VALUES {}", _ROW, range(1, 65))
INSERT_IF_NEW = _Rows(
    _INTO_ENTRIES + " SELECT * FROM (VALUES {}) WHERE NOT EXISTS (SELECT 1 FROM heads WHERE effect_id = ?)",  # noqa: S608
    _ROW,
    range(1, 9),
)
"""The first entries of one effect, if the index does not know it. Its id comes last among the values."""

Head = tuple[str, "int | None"]
UNKNOWN: Head = ("", None)


class Planned:
    """A batch made into rows: what to insert, what then is known, and whose condition held."""

    __slots__ = ("heads", "held", "link", "rows", "seq")

    def __init__(self, seq: int, link: str) -> None:
        self.seq = seq
        self.link = link
        self.rows: list[Any] = []
        self.heads: dict[str, Head] = {}
        self.held: list[bool | Exception] = []


class Tail:
    """The end of the journal as this process last saw it: never ahead of the file, and complete up to `seq`.

    For an effect that is in `heads`, that is its last entry up to `seq`; for any other, the index has it; one in `absent` is in neither.
    Only the leader of the group commit changes it; others may look.

    Attributes:
        seq: number of the last entry.
        link: the link of that entry, hex.
        since: the index knows all up to here; it may by now know more.
    """

    __slots__ = ("absent", "heads", "link", "seq", "since")

    def __init__(self, execute: Execute) -> None:
        self._start(execute)

    def _start(self, execute: Execute) -> None:
        """Read what the index does not know."""
        found = execute(INDEXED).fetchone()
        if found is None or (found[0] > 0 and found[1] is None):
            raise JournalCorrupt(
                "the journal does not hold the entries that its index knows: some were removed. Nothing was sent. Run "
                "`gate.journal.verify()`, and restore the journal from a copy that verifies."
            )
        since: int = found[0]
        rows = execute(_NEWER, (since, -1)).fetchall()
        _check_complete(since, rows)
        # In this order: see `look`.
        self.heads: dict[str, Head] = {effect_id: (raw(head).hex(), seq) for seq, effect_id, head, _ in rows}
        self.seq: int = rows[-1][0] if rows else since
        self.link = raw(rows[-1][3] if rows else found[1] or b"").hex()
        self.since = since
        self.absent: set[str] = set()

    @property
    def is_long(self) -> bool:
        """Whether the index should be brought up to date."""
        return self.seq - self.since >= TAIL_ENTRIES

    def catch_up(self, execute: Execute) -> bool:
        """Take in what other processes have appended. True if there was something."""
        rows = execute(_NEWER, (self.seq, MOST_NEWER)).fetchall()
        self._take_in(rows, execute)
        return bool(rows)

    def lead(self, execute: Execute, effect_id: str) -> Head:
        """An effect's last entry, as it is in the file now; for the leader, who also takes in what is new."""
        rows, indexed = self._newer(execute, self.seq, effect_id)
        if len(rows) >= MOST_NEWER:
            # Not all that is new was read, and what was not may be in the index by the time that this starts anew: asked once more.
            self._start(execute)
            return self.lead(execute, effect_id)
        self._take_in(rows, execute)
        known = self.heads.get(effect_id)
        if known is not None:
            return known
        if indexed is UNKNOWN:
            if len(self.absent) >= ABSENT_IDS:
                self.absent.clear()
            self.absent.add(effect_id)
        return indexed

    def look(self, execute: Execute, effect_id: str) -> Head:
        """An effect's last entry, as it is in the file now; for those who do not lead.

        Meanwhile the leader may bring the index up to date and forget: what was known is taken hold of first, in this order.
        """
        seq = self.seq
        heads = self.heads
        rows, indexed = self._newer(execute, seq, effect_id)
        if len(rows) >= MOST_NEWER:
            return Tail(execute).look(execute, effect_id)
        for number, other, head, _ in reversed(rows):
            if other == effect_id:
                return raw(head).hex(), number
        return heads.get(effect_id) or indexed

    @staticmethod
    def _newer(execute: Execute, seq: int, effect_id: str) -> tuple[list[Any], Head]:
        rows = execute(_NEWER_AND_HEAD, (seq, MOST_NEWER, effect_id)).fetchall()
        if rows and rows[-1][1] is None:
            head_seq, _, head, _ = rows.pop()
            return rows, (raw(head).hex(), head_seq)
        return rows, UNKNOWN

    def unknown(self, batch: Sequence[Prepared]) -> list[str]:
        """The effects of a batch that only the index can tell of."""
        heads, absent = self.heads, self.absent
        return [effect_id for effect_id, *_ in batch if effect_id not in heads and effect_id not in absent]

    @staticmethod
    def look_up(execute: Execute, unknown: list[str]) -> dict[str, Head]:
        """What the index tells of them; nothing of one that is not in it."""
        return {effect_id: (raw(head).hex(), head_seq) for effect_id, head, head_seq in _HEADS.run(execute, unknown)}

    def plan(
        self,
        batch: Sequence[Prepared],
        looked_up: Mapping[str, Head],
        admit: Callable[[Prepared], Exception | None] | None = None,
    ) -> Planned:
        """Rows for those of the batch whose condition holds, as far as is known here; `admit` says what is against one of those."""
        heads = self.heads
        seq, link = self.seq, self.link
        planned = Planned(seq, link)
        moved, rows, held = planned.heads, planned.rows, planned.held
        for prepared in batch:
            effect_id = prepared.effect_id
            head, previous = moved.get(effect_id) or heads.get(effect_id) or looked_up.get(effect_id) or UNKNOWN
            if head != prepared.expected_head:
                held.append(False)
                continue
            against = admit(prepared) if admit is not None else None
            if against is not None:
                held.append(against)
                continue
            for entry in prepared.entries:
                seq += 1
                head = entry.hash
                linked = sha256((link + head).encode()).digest()  # as `link_hash`
                link = linked.hex()
                rows += (seq, effect_id, previous, entry.body, bytes.fromhex(head), linked)
                previous = seq
            moved[effect_id] = (head, seq)
            held.append(True)
        planned.seq, planned.link = seq, link
        return planned

    def advance(self, planned: Planned) -> None:
        """What was planned is stored."""
        self.heads.update(planned.heads)
        if self.absent:
            self.absent.difference_update(planned.heads)
        self.seq, self.link = planned.seq, planned.link

    def brought_up(self, seq: int) -> None:
        """The index knows all up to `seq`."""
        self.since = seq
        self.absent.clear()
        self.heads = {effect_id: head for effect_id, head in self.heads.items() if (head[1] or 0) > seq}

    def _take_in(self, rows: Sequence[tuple[int, str, Any, Any]], execute: Execute) -> None:
        if not rows:
            return
        if len(rows) >= MOST_NEWER:  # after a long silence: others have brought the index up to date meanwhile
            self._start(execute)
            return
        _check_complete(self.seq, rows)
        for seq, effect_id, head, _ in rows:
            self.heads[effect_id] = (raw(head).hex(), seq)
            self.absent.discard(effect_id)
        self.seq, self.link = rows[-1][0], raw(rows[-1][3]).hex()


def _check_complete(after: int, rows: Sequence[tuple[int, str, Any, Any]]) -> None:
    if rows and (rows[0][0] != after + 1 or rows[-1][0] != after + len(rows)):
        raise JournalCorrupt(
            f"entries are missing from the journal after entry {after}. Nothing was sent. Run `gate.journal.verify()`, and "
            "restore the journal from a copy that verifies."
        )


def bring_up(execute: Execute, *, at_least: int) -> int:
    """Within a write transaction: bring the index up to date, if it lacks so many entries. The number up to which it then knows."""
    indexed: int
    (indexed,) = execute("SELECT seq FROM indexed").fetchone()
    last: int = execute("SELECT coalesce(max(seq), 0) FROM entries").fetchone()[0]
    if last - indexed < at_least:
        return indexed
    execute(_BRING_UP)
    execute("UPDATE indexed SET seq = ?", (last,))
    return last


def raw(value: Any) -> bytes:
    """The bytes of a stored value, also where an edit left a text or a number in their place: then no hash matches."""
    return value if type(value) is bytes else str(value).encode()
