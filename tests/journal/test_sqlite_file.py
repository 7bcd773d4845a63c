"""What is in the file: pinned names, versions, damage, edits, a foreign database, a log that was cut short."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from interlock.effects import History, Kind
from interlock.errors import IllegalTransition, JournalCorrupt, JournalError, JournalTooNew
from interlock.journal import SQLiteJournal
from interlock.journal._sqlite import LAYOUT_VERSION
from tests.journal.worker import Remote, drafts, write


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return the directory of a closed journal with three effects: e1 committed, e2 and e3 dispatched."""
    directory = tmp_path / "journal"
    journal = SQLiteJournal(directory)
    for effect_id in ("e1", "e2", "e3"):
        write(journal, effect_id)
    write(journal, "e1", "COMMITTED")
    assert journal.verify().ok
    journal.close()
    return directory


def edit(directory: Path, statement: str, *values: object) -> None:
    """Change the file behind the journal's back."""
    with closing(sqlite3.connect(directory / "journal.db", isolation_level=None)) as connection:
        changed = connection.execute(statement, values).rowcount
    assert changed, "the edit found nothing to change"


def read(directory: Path, statement: str) -> list[tuple[object, ...]]:
    """Look into the file."""
    with closing(sqlite3.connect(directory / "journal.db", isolation_level=None)) as connection:
        return connection.execute(statement).fetchall()


# --- pinned -------------------------------------------------------------------------------------------------------------------


def test_stored_names_are_pinned(directory: Path) -> None:
    """Names in the file are API: tables, columns, indexes, marks and file names stay as they are."""
    assert read(directory, "SELECT type, name, tbl_name FROM sqlite_master ORDER BY type, name") == [
        ("index", "open_effects", "heads"),
        ("table", "entries", "entries"),
        ("table", "heads", "heads"),
        ("table", "indexed", "indexed"),
    ]
    assert [row[1:4] for row in read(directory, "PRAGMA table_info(entries)")] == [
        ("seq", "INTEGER", 0),
        ("effect_id", "TEXT", 1),
        ("prev_seq", "INTEGER", 0),
        ("body", "BLOB", 1),
        ("hash", "BLOB", 1),
        ("link", "BLOB", 1),
    ]
    assert [row[1:4] for row in read(directory, "PRAGMA table_info(heads)")] == [
        ("effect_id", "TEXT", 1),
        ("name", "TEXT", 1),
        ("first_seq", "INTEGER", 1),
        ("head_seq", "INTEGER", 1),
        ("head", "BLOB", 1),
        ("worker", "TEXT", 1),
        ("is_open", "INTEGER", 1),
    ]
    assert read(directory, "PRAGMA application_id") == [(0x494E544C,)]
    assert read(directory, "PRAGMA user_version") == [(2,)]
    assert read(directory, "PRAGMA journal_mode") == [("wal",)]
    assert {path.name for path in directory.iterdir()} == {"journal.db", "workers"}
    assert {path.suffix for path in (directory / "workers").iterdir()} == {".lock"}


def test_stored_fields_of_an_entry_are_pinned(directory: Path) -> None:
    """An entry's bytes are this JSON, in this order; hash and link are SHA-256 as documented, so others can check them."""
    link = ""
    heads: dict[str, str] = {}
    for effect_id, body, stored, stored_link in read(
        directory, "SELECT effect_id, body, hash, link FROM entries ORDER BY seq"
    ):
        assert isinstance(body, bytes)
        fields = json.loads(body)
        assert list(fields) == ["v", "id", "n", "kind", "at", "by", "prev", "data"]
        assert (fields["v"], fields["id"]) == (1, effect_id)
        assert fields["prev"] == heads.get(str(effect_id), "")
        heads[str(effect_id)] = hashlib.sha256(body).hexdigest()
        link = hashlib.sha256((link + heads[str(effect_id)]).encode()).hexdigest()
        assert (stored, stored_link) == (bytes.fromhex(heads[str(effect_id)]), bytes.fromhex(link))


def test_writes_are_durable_by_setting(tmp_path: Path) -> None:
    """Every connection that writes has the write-ahead log and synchronous=FULL."""
    journal = SQLiteJournal(tmp_path)
    assert journal._writer is not None
    assert journal._writer.execute("PRAGMA synchronous").fetchone() == (2,)
    assert journal._writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    journal._reset_writer()
    write(journal, "e1")
    assert journal._writer.execute("PRAGMA synchronous").fetchone() == (2,)
    journal.close()


# --- versions and foreign files -----------------------------------------------------------------------------------------------


def test_a_newer_file_is_refused(directory: Path) -> None:
    """A file of a later format is refused at the door, with what to do, and stays as it is."""
    edit_version = f"PRAGMA user_version = {LAYOUT_VERSION + 1}"
    with closing(sqlite3.connect(directory / "journal.db")) as connection:
        connection.execute(edit_version)
    with pytest.raises(JournalTooNew, match=r"format 3, and this version reads up to 2.*Upgrade"):
        SQLiteJournal(directory)
    assert read(directory, "PRAGMA user_version") == [(LAYOUT_VERSION + 1,)]


def test_a_newer_entry_is_refused(directory: Path) -> None:
    """An entry of a later format is refused when it is read; effects without one still work."""
    body = read(directory, "SELECT body FROM entries WHERE effect_id = 'e2' ORDER BY seq DESC LIMIT 1")[0][0]
    assert isinstance(body, bytes)
    newer = body.replace(b'"v":1', b'"v":2')
    digest = hashlib.sha256(newer).digest()
    edit(directory, "UPDATE entries SET body = ?, hash = ? WHERE body = ?", newer, digest, body)
    edit(directory, "UPDATE heads SET head = ? WHERE effect_id = 'e2'", digest)
    journal = SQLiteJournal(directory)
    with pytest.raises(JournalTooNew, match=r"format 2.*Upgrade"):
        journal.load("e2")
    assert journal.load("e3").kind is Kind.DISPATCHED
    assert any("format 2" in problem for problem in journal.verify().problems)
    journal.close()


@pytest.mark.parametrize(
    "content", [b"no database at all, but long enough to be one" * 100, b"SQLite format 3\0" + b"\xff" * 4096]
)
def test_garbage_is_refused(tmp_path: Path, content: bytes) -> None:
    """A file that is no database is JournalCorrupt at the door, and is left alone."""
    (tmp_path / "journal.db").write_bytes(content)
    with pytest.raises(JournalCorrupt, match="no journal"):
        SQLiteJournal(tmp_path)
    assert (tmp_path / "journal.db").read_bytes() == content


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE customers (name TEXT)"],
        ["CREATE TABLE entries (x)", "CREATE TABLE effects (y)"],
        ["PRAGMA application_id = 7"],
        ["PRAGMA user_version = 1"],
        ["PRAGMA user_version = 9", "CREATE TABLE customers (name TEXT)"],
    ],
)
def test_a_foreign_database_is_refused_and_untouched(tmp_path: Path, statements: list[str]) -> None:
    """A database of something else under our name is refused and not changed by a byte, not even its journal mode."""
    with closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
    before = (tmp_path / "journal.db").read_bytes()
    with pytest.raises(JournalCorrupt, match="something else"):
        SQLiteJournal(tmp_path)
    assert (tmp_path / "journal.db").read_bytes() == before


def test_an_empty_file_becomes_a_journal(tmp_path: Path) -> None:
    """An empty file is what a death in the middle of making one leaves: it is taken."""
    (tmp_path / "journal.db").touch()
    journal = SQLiteJournal(tmp_path)
    write(journal, "e1")
    journal.close()


# --- damage and edits ---------------------------------------------------------------------------------------------------------

_LAST_OF_E2 = "(SELECT head_seq FROM heads WHERE effect_id = 'e2')"
_EDITS: dict[str, tuple[str, bool]] = {
    "a body": (f"UPDATE entries SET body = CAST(replace(body, 'pay', 'pax') AS BLOB) WHERE seq = {_LAST_OF_E2}", True),
    "a body, left as text": (f"UPDATE entries SET body = replace(body, 'pay', 'pax') WHERE seq = {_LAST_OF_E2}", True),
    "a body, left as a number": (f"UPDATE entries SET body = 7 WHERE seq = {_LAST_OF_E2}", True),
    "a body, emptied": (f"UPDATE entries SET body = x'' WHERE seq = {_LAST_OF_E2}", True),
    "a hash": (f"UPDATE entries SET hash = zeroblob(32) WHERE seq = {_LAST_OF_E2}", True),
    "a hash, as text": (f"UPDATE entries SET hash = lower(hex(hash)) WHERE seq = {_LAST_OF_E2}", True),
    "a link": (f"UPDATE entries SET link = zeroblob(32) WHERE seq = {_LAST_OF_E2}", False),
    "a link, as text": (f"UPDATE entries SET link = 'x' WHERE seq = {_LAST_OF_E2}", False),
    "last entry removed": (f"DELETE FROM entries WHERE seq = {_LAST_OF_E2}", True),
    "middle entry removed": (f"DELETE FROM entries WHERE seq = {_LAST_OF_E2} - 1", True),
    "first entry removed": (f"DELETE FROM entries WHERE seq = {_LAST_OF_E2} - 2", True),
    "all entries removed": ("DELETE FROM entries WHERE effect_id = 'e2'", True),
    "an entry given to another": (f"UPDATE entries SET effect_id = 'e3' WHERE seq = {_LAST_OF_E2}", False),
    "chain cut": (f"UPDATE entries SET prev_seq = NULL WHERE seq = {_LAST_OF_E2}", True),
    "chain skips": (f"UPDATE entries SET prev_seq = seq - 2 WHERE seq = {_LAST_OF_E2}", True),
    "chain into another": (f"UPDATE entries SET prev_seq = 1 WHERE seq = {_LAST_OF_E2}", True),
    "chain circle": (f"UPDATE entries SET prev_seq = seq WHERE seq = {_LAST_OF_E2}", True),
    "index, head": ("UPDATE heads SET head = zeroblob(32) WHERE effect_id = 'e2'", True),
    "index, head as text": ("UPDATE heads SET head = 'x' WHERE effect_id = 'e2'", True),
    "index, head_seq back": ("UPDATE heads SET head_seq = head_seq - 1 WHERE effect_id = 'e2'", True),
    "index, head_seq away": ("UPDATE heads SET head_seq = 10000 WHERE effect_id = 'e2'", True),
    "index, another's head": ("UPDATE heads SET head_seq = head_seq + 3 WHERE effect_id = 'e2'", True),
    "index, first_seq": ("UPDATE heads SET first_seq = 1 WHERE effect_id = 'e2'", False),
    "index, closed": ("UPDATE heads SET is_open = 0 WHERE effect_id = 'e2'", False),
    "index, opened": ("UPDATE heads SET is_open = 1 WHERE effect_id = 'e1'", False),
    "index, another function": ("UPDATE heads SET name = 'send_mail' WHERE effect_id = 'e2'", False),
    "index, row removed": ("DELETE FROM heads WHERE effect_id = 'e2'", False),
    "index, row added": ("INSERT INTO heads SELECT 'e9', '', 1, 1, head, '', 0 FROM heads WHERE effect_id = 'e2'", False),
    "index, row renamed": ("UPDATE heads SET effect_id = 'e9' WHERE effect_id = 'e2'", False),
}  # fmt: skip
"""What is changed, how, and whether reading that effect (and not verify alone) notices it."""


@pytest.mark.parametrize("what", _EDITS)
def test_an_edit_is_found(directory: Path, what: str) -> None:
    """Each careless edit is found by verify, and one of the effect's own entries when that effect is read."""
    statement, seen_by_load = _EDITS[what]
    edit(directory, statement)
    journal = SQLiteJournal(directory)
    verification = journal.verify()
    assert not verification.ok
    assert all(isinstance(problem, str) and problem for problem in verification.problems)
    if seen_by_load:
        with pytest.raises((JournalCorrupt, IllegalTransition), match=r"Nothing was sent|verify"):
            journal.load("e2")
    assert journal.load("e1").kind is Kind.COMMITTED, "others are not held up"
    journal.close()


def test_a_renamed_effect_is_found_under_its_new_name(directory: Path) -> None:
    """A history filed under another effect is not taken for that effect's."""
    edit(directory, "UPDATE heads SET effect_id = 'e9' WHERE effect_id = 'e2'")
    journal = SQLiteJournal(directory)
    with pytest.raises(JournalCorrupt, match="effect e9: entry 0 is stored as e2"):
        journal.load("e9")
    journal.close()


def test_swapped_entries_are_found(directory: Path) -> None:
    """Two entries that changed places are found, within an effect and between effects."""
    rows = read(directory, "SELECT seq, body, hash FROM entries ORDER BY seq")
    for one, other in ((0, 1), (2, 5)):
        copy = directory.parent / f"copy-{one}"
        shutil.copytree(directory, copy)
        for position, content in ((one, other), (other, one)):
            edit(
                copy,
                "UPDATE entries SET body = ?, hash = ? WHERE seq = ?",
                rows[content][1],
                rows[content][2],
                rows[position][0],
            )
        journal = SQLiteJournal(copy)
        assert not journal.verify().ok
        with pytest.raises(JournalError):
            journal.load("e1")
        journal.close()


def test_an_entry_put_in_by_hand_is_found(directory: Path) -> None:
    """An entry with a right hash of its own that does not follow the chain is found."""
    body = json.dumps(
        {"v": 1, "id": "e2", "n": 3, "kind": "COMMITTED", "at": "", "by": "", "prev": "0" * 64, "data": {}}
    ).encode()
    digest = hashlib.sha256(body).digest()
    edit(
        directory,
        f"INSERT INTO entries SELECT 11, 'e2', {_LAST_OF_E2}, ?, ?, zeroblob(32)",
        body,
        digest,
    )
    edit(directory, "UPDATE heads SET head = ?, head_seq = 11, is_open = 0 WHERE effect_id = 'e2'", digest)
    journal = SQLiteJournal(directory)
    assert not journal.verify().ok
    with pytest.raises(JournalCorrupt, match="does not follow"):
        journal.load("e2")
    journal.close()


def test_an_edited_head_cannot_be_appended_to(directory: Path) -> None:
    """Where the index was edited, no append holds: nothing is sent on such a record."""
    journal = SQLiteJournal(directory)
    history = journal.load("e2")
    edit(directory, "UPDATE heads SET head = 'text' WHERE effect_id = 'e2'")
    assert journal.append(history, drafts("COMMITTED")) is None
    assert journal.append(History("e2"), drafts("PROPOSED")) is None
    journal.close()


def test_a_damaged_page_is_corrupt(directory: Path) -> None:
    """Bytes overwritten in the file are JournalCorrupt (or a problem of verify), never an exception of another kind."""
    content = bytearray((directory / "journal.db").read_bytes())
    assert len(content) >= 8192
    for page in range(1, len(content) // 4096):
        copy = directory.parent / f"page-{page}"
        copy.mkdir()
        damaged = bytearray(content)
        damaged[page * 4096 : page * 4096 + 200] = b"\xa5" * 200
        (copy / "journal.db").write_bytes(damaged)
        with pytest.raises(JournalCorrupt):
            _read_everything(copy)


def _read_everything(directory: Path) -> None:
    journal = SQLiteJournal(directory)
    try:
        for effect_id in ("e1", "e2", "e3"):
            journal.load(effect_id)
        journal.open_effects()
        if problems := journal.verify().problems:
            raise JournalCorrupt(str(problems))
    finally:
        journal.close()


# --- the log of a killed writer -------------------------------------------------------------------------------------------------


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """Return the files that a killed writer left: most of its entries are in the log only."""
    directory = tmp_path / "killed"
    with Remote(directory) as writer:
        for number in range(6):
            writer.ask("write", f"e{number}")
        writer.kill()
    assert (directory / "journal.db-wal").stat().st_size > 10_000
    return directory


def _cuts(size: int) -> Iterator[int]:
    yield from (0, 1, 31, 32, 33, 55, 56, 4000)
    yield from range(4152, size, 4120 + 1009)
    yield from (size - 4121, size - 4120, size - 4096, size - 1, size)


def test_a_log_cut_anywhere_opens_whole(killed: Path, tmp_path: Path) -> None:
    """Whatever the end of the log has lost, what is read is a prefix of what was written, whole appends only, and verifies."""
    log = (killed / "journal.db-wal").read_bytes()
    seen = set()
    for cut in _cuts(len(log)):
        _check_prefix(killed, tmp_path / f"cut-{cut}", lambda log, cut=cut: log[:cut], seen)
    assert max(seen) == 6
    assert len(seen) > 4, "the cuts did take appends away"


def test_a_log_with_a_torn_page_opens_whole(killed: Path, tmp_path: Path) -> None:
    """A page of the log that was written half ends the log there: nothing of it and nothing after it is taken."""
    log = (killed / "journal.db-wal").read_bytes()
    seen: set[int] = set()
    for start in range(4500, len(log), 9000):
        _check_prefix(
            killed, tmp_path / f"torn-{start}", lambda log, at=start: log[:at] + bytes(512) + log[at + 512 :], seen
        )
    assert seen <= set(range(7))


def _check_prefix(killed: Path, copy: Path, change: Callable[[bytes], bytes], seen: set[int]) -> None:
    copy.mkdir()
    shutil.copy(killed / "journal.db", copy)
    (copy / "journal.db-wal").write_bytes(change((killed / "journal.db-wal").read_bytes()))
    try:
        journal = SQLiteJournal(copy)
    except JournalError as error:  # pragma: no cover
        raise AssertionError(f"{copy.name}: {error}") from error
    listed = [effect_id for effect_id, _ in journal.open_effects()]
    assert listed == [f"e{number}" for number in range(len(listed))]
    assert all(len(journal.load(effect_id).entries) == 3 for effect_id in listed), "an append came back in part"
    assert journal.verify().ok, journal.verify().problems
    seen.add(len(listed))
    write(journal, "next")
    assert journal.verify().ok
    journal.close()


@pytest.mark.parametrize("loss", ["emptied", "removed"])
def test_an_emptied_journal_is_not_taken_for_a_new_one(tmp_path: Path, loss: str) -> None:
    """A journal that lost its file is refused while its workers' lock files show that there was one; nothing is sent on it."""
    SQLiteJournal(tmp_path).close()
    for name in ("journal.db-wal", "journal.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    if loss == "emptied":
        (tmp_path / "journal.db").write_bytes(b"")
    else:
        (tmp_path / "journal.db").unlink()
    with pytest.raises(JournalCorrupt, match="remove the whole directory"):
        SQLiteJournal(tmp_path)
