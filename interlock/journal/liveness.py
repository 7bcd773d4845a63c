"""Liveness on one machine: a file lock that the kernel holds for a worker's life, and drops at its death, SIGKILL included.

    worker W   create workers/W.lock, flock it exclusively .................... dies
    prober     flock shared, no waiting: refused = W lives ................... granted = W is gone; nothing was timed

`flock` and not POSIX record locks: those vanish when any descriptor of the file is closed anywhere in the process, which would
make a living sender look dead. An inherited `flock` outlives a parent, so a forked child closes its copies first thing; a copy that
slipped through keeps the parent "alive", which is late but never wrong. No pid is looked at, so containers that share a volume
need not share a pid namespace. A lock file that is missing proves nothing: CUT_OFF.

A worker that lives but no longer sends says so in its own lock file, a line for each send that ended without a recorded answer.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import random
import re
import secrets
import threading
from collections.abc import Callable, Hashable
from pathlib import Path

from interlock.errors import JournalError, JournalUnavailable, JournalUnsuitable
from interlock.ports import Liveness

_NETWORK = frozenset(
    {
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "ncpfs",
        "afs",
        "coda",
        "ceph",
        "9p",
        "lustre",
        "glusterfs",
        "beegfs",
        "gpfs",
        "pvfs2",
    }
    | {
        "ocfs2",
        "gfs2",
        "vboxsf",
        "prl_fs",
        "fuse.vmhgfs-fuse",
        "fuse.sshfs",
        "fuse.glusterfs",
        "fuse.ceph",
        "fuse.cephfs",
    }
    | {"fuse.s3fs", "fuse.gcsfuse", "fuse.mount-s3", "fuse.blobfuse2", "fuse.juicefs", "fuse.rclone"}
)
"""File systems that several machines may have mounted, or whose memory maps are not those of one kernel."""
_WHOLE = "worker ended\n"

_NONE: frozenset[Hashable] = frozenset()

_local: dict[str, Worker] = {}
"""The workers of this process, by id: of every journal object in it."""
_local_lock = threading.RLock()  # a worker that nobody holds any more is let go wherever a thread happens to be


class Worker:
    """This process's side of one worker: its lock, and the sends that it has going.

    Args:
        id: names it; random, never used again.
        path: its lock file.
        fd: the descriptor that holds the lock.

    Attributes:
        id: names it.
        path: its lock file.
        fd: the descriptor; -1 once it is released.
        sending: for each (effect id, n), the calls here that have announced a send there. Two may try for the same place at the same
            moment; one of them gets it, and the other's giving up must not look like the end of that one's send.
        ended: places where sends ended without a recorded answer, and whether something may still be on its way.
    """

    def __init__(self, id: str, path: Path, fd: int) -> None:  # noqa: A002 - it is its id
        self.id = id
        self.path = path
        self.fd = fd
        self.sending: dict[tuple[str, int], frozenset[Hashable]] = {}
        self.ended: dict[tuple[str, int], bool] = {}
        self.is_abandoned = False
        self.is_closing = False
        self.lock = threading.RLock()  # a signal handler may make a call in the middle of another
        self._is_torn = False
        # Looked at before every send: as plain text and numbers, which is half the time of a Path and a second look.
        held = os.fstat(self.fd)
        self._name, self._inode, self._device = str(self.path), held.st_ino, held.st_dev

    def check_held(self) -> None:
        """Make sure that others can still see this worker alive.

        Raises:
            JournalUnavailable: its lock file was removed or replaced, so another worker could take it for dead.
        """
        try:
            found = os.stat(self._name)
            is_ours = self.fd >= 0 and found.st_ino == self._inode and found.st_dev == self._device
        except OSError:
            is_ours = False
        if not is_ours:
            raise JournalUnavailable(
                f"the lock file of this worker is gone: {self.path}. Others could take it for dead, so it sends nothing more. "
                "Find what cleans that directory, keep it away, and restart this process."
            )

    def begin(self, place: tuple[str, int], call: Hashable) -> None:
        """A send is about to begin.

        Raises:
            JournalUnavailable: an earlier try at that place has ended, and it cannot be told to others that this one begins.
        """
        with self.lock:
            if self.is_closing or self.is_abandoned:
                raise JournalError("this journal was closed, or its worker died in a simulated crash; open a new one.")
            self.sending[place] = self.sending.get(place, _NONE) | {call}
            if place in self.ended:
                self._begin_again(place, call)

    def _begin_again(self, place: tuple[str, int], call: Hashable) -> None:
        """Take back, for others, that the sends at a place have ended; until they end, when the last word is said again."""
        try:
            self._write(place, "begun")
            os.fsync(self.fd)  # after a power failure, too, this must stand behind the end that it takes back
        except BaseException as error:
            self._one_less(place, call)
            if not isinstance(error, OSError):
                raise
            raise JournalUnavailable(
                f"it cannot be told to other processes that a send begins: {self.path} cannot be written ({error.strerror}). They would "
                "take it for over. Nothing was sent. See to the disk (space), then try again."
            ) from error

    def end(self, place: tuple[str, int], call: Hashable, *, answered: bool, in_flight: bool) -> None:
        """A call's send is over; if its answer is not on the journal, say so to everybody. To be told twice is of no matter."""
        with self.lock:
            if call in self.sending.get(place, _NONE):
                if not answered:
                    self.ended[place] = in_flight or self.ended.get(place, False)
                self._one_less(place, call)
            if self.is_closing and not self.sending:
                self.release()

    def _one_less(self, place: tuple[str, int], call: Hashable) -> None:
        calls = self.sending[place]
        if len(calls) > 1:
            self.sending[place] = calls - {call}
            return
        if place in self.ended:
            with contextlib.suppress(OSError):  # then others take it for alive until this process ends
                self._write(place, "in_flight" if self.ended[place] else "ended")
        del self.sending[place]  # last: if an interrupt comes before, it is ended once more

    def _write(self, place: tuple[str, int], what: str) -> None:
        """Say something to everybody.

        Raises:
            OSError: it is not there, or not whole; then it does not count.
        """
        line = f"{place[0]} {place[1]} {what}\n".encode()
        if self._is_torn:
            line = b"\n" + line
        self._is_torn = True
        if os.write(self.fd, line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._is_torn = False

    def abandon(self) -> None:
        """Be dead to others, with nothing in flight."""
        with self.lock:
            self.is_abandoned = True
            self.sending.clear()
            with contextlib.suppress(OSError):
                os.write(self.fd, _WHOLE.encode())
            self.release()

    def close(self) -> None:
        """Release the lock, now or when the last send has ended."""
        with self.lock:
            self.is_closing = True
            if not self.sending:
                self.release()

    def release(self) -> None:
        """Let go of the lock. The file stays: it tells what ended, until nobody needs to know."""
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)
        with _local_lock:
            _local.pop(self.id, None)

    def is_sending(self, effect_id: str) -> bool:
        """Whether a send of that effect is running."""
        with self.lock:
            return any(effect_id == sending for sending, _ in self.sending)

    def sighting(self, place: tuple[str, int]) -> Liveness:
        """What this process knows about a send of its own."""
        with self.lock:
            if place in self.sending:
                return Liveness.ALIVE
            return Liveness.GONE if self.ended.get(place, True) else Liveness.ENDED


def new_worker(directory: Path) -> Worker:
    """A new worker, seen alive by every other from when this returns.

    Raises:
        JournalUnsuitable: the place has no working locks.
    """
    while True:
        worker_id = secrets.token_hex(8)
        path = directory / f"{worker_id}.lock"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            same = os.stat(path).st_ino == os.fstat(fd).st_ino
        except FileNotFoundError:
            same = False
        if same:
            break
        os.close(fd)  # a cleaner took the file between its making and its locking
    worker = Worker(worker_id, path, fd)
    with _local_lock:
        _local[worker_id] = worker
    return worker


def probe(directory: Path, worker_id: str, place: tuple[str, int]) -> Liveness:
    """What can be proven about the worker that made a send."""
    with _local_lock:
        local = _local.get(worker_id)
    if local is not None:
        return local.sighting(place)
    try:
        fd = os.open(directory / f"{worker_id}.lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return Liveness.CUT_OFF
    except OSError as error:
        raise JournalUnavailable(
            f"it cannot be told whether worker {worker_id} still sends: its lock file in {directory} cannot be opened "
            f"({error.strerror}). Nothing was sent. Give this process access to it, or more file descriptors."
        ) from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            is_held = False
        except BlockingIOError:
            is_held = True
        marks = _read_all(fd).splitlines(keepends=True)
    finally:
        os.close(fd)
    if not is_held and _WHOLE in marks:
        return Liveness.ENDED
    name = f"{place[0]} {place[1]} "
    for mark in reversed(marks):  # the last word counts: a place may be tried for again; what is not whole is no word
        if not mark.startswith(name):
            continue
        what = mark[len(name) :]
        if what == "begun\n":
            break
        if what == "ended\n":
            return Liveness.ENDED
        if what == "in_flight\n":
            return Liveness.GONE
    return Liveness.ALIVE if is_held else Liveness.GONE


def clean(directory: Path, workers_of_open_effects: Callable[[], set[str]], *, at_most: int = 64) -> None:
    """Remove lock files of workers that are gone and that no open effect names. Bounded work; a failure is of no matter.

    What is open is read only once their locks are ours: a worker that is gone for certain dispatches nothing more, so its
    file cannot come to be needed in between.
    """
    with contextlib.ExitStack() as held, contextlib.suppress(OSError):
        paths = [path for path in directory.glob("*.lock") if path.stem not in _local]
        random.shuffle(paths)  # else the same ones would be looked at each time
        gone: list[Path] = []
        for path in paths[:at_most]:
            with contextlib.suppress(OSError):
                fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                held.callback(os.close, fd)
                # Shared, as a prober's: meanwhile nobody takes the dead for living.
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(fd), os.stat(path)):
                    gone.append(path)
        if gone:
            keep = workers_of_open_effects()
            for path in gone:
                if path.stem not in keep:
                    path.unlink(missing_ok=True)


def check_locks(directory: Path) -> None:
    """Make sure that locks work here: two descriptors of one file exclude each other.

    Raises:
        JournalUnsuitable: they do not, or this is a network file system, whose locks prove nothing about another machine.
    """
    kind = _file_system(directory)
    if kind in _NETWORK:
        raise JournalUnsuitable(
            f"{directory} is on a network file system ({kind}), whose locks do not prove that a sender is dead. "
            "Put the journal on a local disk."
        )
    path = directory / f"probe-{secrets.token_hex(8)}"
    try:
        first = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            second = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                works = _excludes(first, second)
            finally:
                os.close(second)
        finally:
            os.close(first)
            path.unlink()
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM, errno.ENOSPC):
            raise JournalUnsuitable(
                f"{directory} cannot be written: {error.strerror}. Give a writable directory."
            ) from error
        raise JournalUnsuitable(
            f"file locks do not work in {directory}: {error}. Put the journal on a local disk."
        ) from error
    if not works:
        raise JournalUnsuitable(
            f"file locks do not exclude each other in {directory}, so it could not be told whether a sender lives. "
            "Put the journal on a local disk."
        )


def _excludes(first: int, second: int) -> bool:
    fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        fcntl.flock(second, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        pass
    fcntl.flock(first, fcntl.LOCK_UN)
    fcntl.flock(second, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return True


def _file_system(directory: Path) -> str:
    """The type of the file system that holds a directory, where the system tells; else an empty text."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text()
    except OSError:
        return ""
    best, kind = "", ""
    resolved = str(directory.resolve())
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        point = _unescaped(left.split(" ", 5)[4])
        inside = resolved == point or resolved.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, right.split(" ")[0]
    return kind


def _unescaped(text: str) -> str:
    """A path as mountinfo writes it: space, tab, newline and backslash in octal."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text) if "\\" in text else text


def _read_all(fd: int) -> str:
    parts = []
    while part := os.read(fd, 65536):
        parts.append(part)
    return b"".join(parts).decode("utf-8", "replace")


def _forget_parent() -> None:
    """In a forked child: the parent's locks are the parent's alone."""
    global _local_lock
    _local_lock = threading.RLock()
    for worker in _local.values():
        fd, worker.fd = worker.fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)
        worker.lock = threading.RLock()
    _local.clear()


os.register_at_fork(after_in_child=_forget_parent)
