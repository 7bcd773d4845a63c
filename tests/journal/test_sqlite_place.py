"""Where a journal can live and where it cannot: locks that lie, network disks, no permission, no space."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.errors import ConfigurationError, JournalUnavailable, JournalUnsuitable
from interlock.journal import SQLiteJournal, liveness
from tests.journal.worker import write

_IS_ROOT = os.geteuid() == 0


def test_directory_is_made(tmp_path: Path) -> None:
    """A directory that is not there is made, with those above it, and the journal is two known names in it."""
    directory = tmp_path / "a" / "b"
    journal = SQLiteJournal(directory)
    write(journal, "e1")
    assert {path.name for path in directory.iterdir()} == {"journal.db", "journal.db-wal", "journal.db-shm", "workers"}
    journal.close()
    assert {path.name for path in directory.iterdir()} == {"journal.db", "workers"}


def test_a_relative_directory_stays_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later change of the working directory does not move the journal."""
    monkeypatch.chdir(tmp_path)
    journal = SQLiteJournal("journal")
    monkeypatch.chdir("/")
    write(journal, "e1")
    journal.close()
    assert (tmp_path / "journal" / "journal.db").exists()


@pytest.mark.parametrize("below", ["", "journal", "a/b"])
def test_a_file_is_not_a_directory(tmp_path: Path, below: str) -> None:
    """A file where the directory, or one above it, should be: refused, by name."""
    (tmp_path / "file").write_text("mine")
    with pytest.raises(JournalUnsuitable, match=r"not a directory.*Name a directory"):
        SQLiteJournal(tmp_path / "file" / below)
    assert (tmp_path / "file").read_text() == "mine"


def test_no_lock_support_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without locks is refused when the journal is opened, as a matter of configuration."""

    def no_locks(fd: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(JournalUnsuitable, match=r"locks do not work.*local disk") as caught:
        SQLiteJournal(tmp_path)
    assert isinstance(caught.value, ConfigurationError)
    assert list((tmp_path / "workers").iterdir()) == [], "the probe leaves nothing behind"


def test_locks_that_exclude_nobody_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that grants every lock would make every living sender look dead: refused."""
    monkeypatch.setattr(fcntl, "flock", lambda fd, how: None)
    with pytest.raises(JournalUnsuitable, match=r"do not exclude each other.*local disk"):
        SQLiteJournal(tmp_path)
    assert not (tmp_path / "journal.db").exists()


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "9p", "fuse.sshfs"])
def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Locks of a network file system prove nothing about another machine: refused, by its type."""
    mounts = (
        f"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 0:40 / {tmp_path} rw,relatime shared:1 - {kind} server:/x rw\n"
    )
    read = Path.read_text
    monkeypatch.setattr(
        Path, "read_text", lambda self, *a, **k: mounts if str(self) == "/proc/self/mountinfo" else read(self, *a, **k)
    )
    with pytest.raises(JournalUnsuitable, match=rf"network file system \({kind}\)"):
        SQLiteJournal(tmp_path / "journal")


@pytest.mark.parametrize(
    ("mounts", "kind"),
    [
        ("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n", "ext4"),
        (
            "22 1 8:1 / / rw - ext4 a rw\n30 22 0:40 / {parent} rw - nfs4 s:/x rw\n31 30 0:41 / {here} rw - tmpfs t rw\n",
            "tmpfs",
        ),
        ("22 1 8:1 / / rw - ext4 a rw\n30 22 0:40 / {here}-other rw - nfs4 s:/x rw\n", "ext4"),
        ("30 22 0:40 / {spaced} rw - nfs4 s:/x rw\n", "nfs4"),
        ("", ""),
    ],
)
def test_the_file_system_is_that_of_the_innermost_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounts: str, kind: str
) -> None:
    """The mount that holds the directory decides, not one above it, beside it, or of a similar name."""
    here = tmp_path / "with space"
    here.mkdir()
    escaped = str(here).replace(" ", "\\040")
    text = mounts.format(parent=tmp_path, here=escaped, spaced=escaped)
    monkeypatch.setattr(Path, "read_text", lambda self, *a, **k: text)
    assert liveness._file_system(here) == kind


# --- no permission, no space: for real, in a process of its own ---------------------------------------------------------------


def _run(program: str, *words: object, prefix: tuple[str, ...] = ()) -> str:
    root = Path(__file__).resolve().parents[2]
    head = f"import os, sys\nsys.path.insert(0, {str(root)!r})\nfrom tests.journal.worker import *\n"
    head += "from interlock.errors import *\n"
    done = subprocess.run(
        [*prefix, sys.executable, "-c", head + program, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _own_mounts() -> tuple[str, ...]:
    """Return the start of a command that has mounts of its own; skip where that cannot be."""
    if not _IS_ROOT:
        pytest.skip("mounts of one's own need root")
    prefix = ("unshare", "-m", "--propagation", "private")
    with contextlib.suppress(OSError):
        if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0:
            return prefix
    pytest.skip("unshare -m cannot run here")


_READ_ONLY = """
try:
    SQLiteJournal(sys.argv[1])
except JournalUnsuitable as error:
    print(error)
"""


def test_a_read_only_directory_is_refused(tmp_path: Path) -> None:
    """A directory that cannot be written: refused with what to do, whether or not a journal is in it."""
    SQLiteJournal(tmp_path / "old").close()
    (tmp_path / "empty").mkdir()
    for name in ("old", "empty"):
        directory = tmp_path / name
        if _IS_ROOT:
            mount = (
                f'mount --bind "{directory}" "{directory}" && mount -o remount,bind,ro "{directory}" && exec "$0" "$@"'
            )
            message = _run(_READ_ONLY, directory, prefix=(*_own_mounts(), "sh", "-c", mount))
        else:
            for path in (directory / "workers", directory):
                if path.exists():
                    path.chmod(0o500)
            message = _run(_READ_ONLY, directory)
            for path in (directory, directory / "workers"):
                if path.exists():
                    path.chmod(0o700)
        assert str(directory) in message
        assert "writable" in message


_NO_MORE_SPACE = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = SQLiteJournal(sys.argv[1])
write(journal, "before")
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
acknowledged, refused = ["before"], []
for number in range(40):
    effect_id = f"e{number}"
    try:
        assert journal.append(History(effect_id), [Draft(Kind.PROPOSED, AT, {"effect": "pay", "fill": "x" * 20_000})])
        acknowledged.append(effect_id)
    except JournalUnavailable as error:
        message = str(error)
        refused.append(effect_id)
assert len(acknowledged) > 2 and len(refused) > 5, (acknowledged, refused)
assert "See to the disk" in message and "Nothing that is not on it is sent" in message, message
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
for effect_id in refused:
    assert journal.load(effect_id).kind is None, effect_id
write(journal, "after")
write(journal, refused[0])
assert journal.verify().ok, journal.verify()
journal.close()
print(*acknowledged, "after", refused[0])
"""


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """At the limit of a file's size: a clear error, nothing acknowledged is lost, nothing refused is there, and it works again after."""
    acknowledged = _run(_NO_MORE_SPACE, tmp_path / "journal").split()
    journal = SQLiteJournal(tmp_path / "journal")
    assert [effect_id for effect_id, _ in journal.open_effects()] == acknowledged
    assert journal.verify().ok
    journal.close()


_DISK_FULL = """
place = sys.argv[1]
journal = SQLiteJournal(place + "/journal")
filler = place + "/filler"
acknowledged, refused = [], []
with open(filler, "wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(65536))
    except OSError:
        pass
    file.truncate(file.tell() - 400_000)
for number in range(40):
    effect_id = f"e{number}"
    try:
        assert journal.append(History(effect_id), [Draft(Kind.PROPOSED, AT, {"effect": "pay", "fill": "x" * 20_000})])
        acknowledged.append(effect_id)
    except JournalUnavailable as error:
        refused.append((effect_id, str(error)))
assert acknowledged and refused, (acknowledged, refused)
try:
    SQLiteJournal(place + "/other")
except JournalError as error:
    assert "space" in str(error), error
else:
    raise AssertionError("a journal was made on a full disk")
for effect_id in acknowledged:
    assert journal.load(effect_id).kind is Kind.PROPOSED
os.unlink(filler)
for effect_id, message in refused:
    assert "disk" in message, message
    assert journal.load(effect_id).kind is None
    write(journal, effect_id)
assert journal.verify().ok
journal.close()
again = SQLiteJournal(place + "/journal")
assert [effect_id for effect_id, _ in again.open_effects()] == acknowledged + [effect_id for effect_id, _ in refused]
again.close()
print("done")
"""


def test_a_full_disk(tmp_path: Path) -> None:
    """On a disk of 2 MB that is full: a clear error, nothing acknowledged is lost, and it works again when there is space."""
    mount = 'mount -t tmpfs -o size=2m none "$1" && shift && exec "$@"'
    prefix = (*_own_mounts(), "sh", "-c", mount, "sh", str(tmp_path))
    assert _run(_DISK_FULL, tmp_path, prefix=prefix) == "done\n"


def test_no_descriptor_left(tmp_path: Path) -> None:
    """Out of file descriptors: JournalError, and once there are some again, the journal works."""
    program = """
import resource
journal = SQLiteJournal(sys.argv[1])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (40, hard))
held = []
try:
    while True:
        held.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
for use in (lambda: SQLiteJournal(sys.argv[1]), journal.watched, lambda: SQLiteJournal(sys.argv[1] + "-other")):
    try:
        use()
    except JournalError as error:
        print(type(error).__name__)
for fd in held:
    os.close(fd)
write(journal, "e1")
assert journal.verify().ok
"""
    assert len(_run(program, tmp_path / "journal").split()) == 3


def test_a_journal_that_another_program_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A foreign program that keeps the file locked: JournalUnavailable after a while, nothing written, and it works after."""
    import sqlite3

    from interlock.journal import _sqlite

    monkeypatch.setattr(_sqlite, "BUSY_S", 0.2)
    journal = SQLiteJournal(tmp_path)
    holder = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(JournalUnavailable, match="locked"):
        write(journal, "e1")
    assert journal.load("e1").kind is None, "reading goes on"
    holder.execute("ROLLBACK")
    holder.close()
    write(journal, "e1")
    journal.close()
