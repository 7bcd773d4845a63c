"""Group commit: concurrent writes share one transaction and one fsync, without a thread of its own.

    A  leads: commits [A] ------------ fsync --> done, hands on to B
    B     waits ................................ leads: commits [B, C, D] --- fsync --> done, wakes C
    C        waits ................................................................... done, wakes D
    D           waits ................................................................ done, hands on to whoever came since

Whoever comes while nobody leads, leads; the others wait, and the first of them leads the next batch, which holds all that came
meanwhile. A lone writer pays no hand-over. Knows nothing of SQL.

Those of a batch go on one after the other, each woken by the one before, and only then does the next one lead. Woken all at once, they
wait for the interpreter's lock instead, each a second time and each in the way of all others, and the next batch starts with few in it.

An interrupt (Ctrl-C, a signal handler that raises) may come between any two steps. So the lead bears a name that whoever takes it brings
along: it is taken within the `try` that gives it back, and to give it back twice is of no matter. Where it is lost all the same, it is a
thread's that is no longer in here; those who wait look for that now and then, and one of them goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import get_ident
from types import FrameType
from typing import TYPE_CHECKING

from interlock.errors import JournalError, JournalUnavailable
from interlock.journal._base import Prepared

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

Result = bool | Exception

LOOK_S = 1.0
"""How long somebody waits before looking whether whoever leads is still there, in seconds."""
_ELSEWHERE = -1
"""Stands for the thread of the pool, before it has begun."""
_HELD = -2
"""Stands for a thread that keeps commits away, and need not be in here meanwhile."""
_INTERRUPTED = "the write was interrupted; it may not be there."


class _Request:
    """One write and who waits for it."""

    __slots__ = ("_done", "_future", "is_gone", "is_leader", "is_woken", "prepared", "result", "thread", "wake")

    def __init__(self, prepared: Prepared, future: asyncio.Future[bool] | None = None) -> None:
        self.prepared = prepared
        self.result: Result | None = None
        self.is_leader = False
        self.is_woken = False
        self.is_gone = False
        self.thread = get_ident() if future is None else _ELSEWHERE
        self._future = future
        self._done = threading.Lock()
        self.wake = self._done.release
        if future is None:
            self._done.acquire()

    @property
    def is_async(self) -> bool:
        return self._future is not None

    def wait(self, look: Callable[[], None]) -> None:
        """Block until it is stored, or until it is this one's turn to lead."""
        while not (self._done.acquire(timeout=LOOK_S) or self.is_leader or self.is_woken):
            look()

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop on which it is awaited, if it is."""
        return self._future.get_loop() if self._future is not None else None

    def deliver(self) -> None:
        """Give the result to whoever awaits it; on its event loop."""
        future, result = self._future, self.result
        if future is None or future.done():
            return
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(bool(result))


class GroupCommit:
    """Turns single writes into batches.

    Args:
        commit: stores a batch; gives for each write whether its condition held, or the error that is its own. Called by one thread at
            a time. Must not raise.
        modules: names of the modules besides this one that lead: a thread that leads is in one of them.
    """

    def __init__(self, commit: Callable[[Sequence[Prepared]], list[Result]], *, modules: Sequence[str] = ()) -> None:
        self._commit = commit
        self._modules = frozenset({__name__, *modules})
        self._lock = threading.RLock()
        self._queue: list[_Request] = []
        self._taken: list[_Request] = []  # what is committed now
        self._passing: deque[_Request] = deque()  # what was committed, and has yet to be woken
        self._leader: object | None = None
        self._thread = 0
        self._is_closed = False
        self._holders: list[tuple[object, threading.Lock]] = []
        self._pool: ThreadPoolExecutor | None = None

    def write(self, prepared: Prepared) -> bool:
        """Store one write, blocking this thread.

        Raises:
            JournalUnavailable: this very thread is in the middle of another, as a signal handler can find it; nothing was written.
            Exception: what `commit` gave for it.
        """
        leads = False
        try:
            with self._lock:
                if self._leader is None and not self._is_closed:
                    self._leader, self._thread, leads = prepared, get_ident(), True
            if leads:  # most writes: no queue, nobody to wake
                (result,) = self._commit((prepared,))
                self.hand_on(prepared)
        except BaseException:
            self.go_on(prepared)
            raise
        if not leads:
            return self._write_with_others(prepared)
        if isinstance(result, Exception):
            raise result
        return result

    def _write_with_others(self, prepared: Prepared) -> bool:
        if self._is_mine():
            raise JournalUnavailable(NESTED)
        request = _Request(prepared)
        try:
            self._enter(request)
            if not request.is_leader:
                request.wait(self._look)
                if request.is_woken:
                    self._pass_on(request)
            if request.is_leader:
                self._lead(request)
        except BaseException:  # interrupted; if a batch holds the write, it may happen all the same
            self._leave(request)
            raise
        if isinstance(request.result, Exception):
            raise request.result
        return bool(request.result)

    async def write_async(self, prepared: Prepared) -> bool:
        """Store one write. If the caller is cancelled, the write may happen all the same.

        Raises:
            Exception: what `commit` gave for it.
        """
        if self._is_mine():
            raise JournalUnavailable(NESTED)
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        request = _Request(prepared, future)
        try:
            self._enter(request)
            if request.is_leader:
                self._lead_elsewhere()
        except BaseException:
            self._tell_again()
            raise
        return await future

    def close(self, lead: object) -> bool:
        """Refuse further writes, wait for those that have come, and keep out until `hand_on`. False if that was done before."""
        with self._lock:
            if self._is_closed:
                return False
            self._is_closed = True
        if not self.hold(lead):
            return False
        if self._pool is not None:
            self._pool.shutdown(wait=True)
        return True

    def hold(self, lead: object, timeout_s: float = -1) -> bool:
        """Wait until no commit is under way, and keep commits away until `hand_on`. False if that took too long, or this thread commits."""
        if self._is_mine():
            return False
        turn = threading.Lock()
        turn.acquire()
        until = time.monotonic() + timeout_s if timeout_s >= 0 else float("inf")
        try:
            with self._lock:
                if self._leader is None:
                    self._leader, self._thread = lead, _HELD
                    return True
                self._holders.append((lead, turn))
            while not turn.acquire(timeout=max(0.0, min(LOOK_S, until - time.monotonic()))):
                if self._leader is not lead and time.monotonic() < until:
                    self._look()
                    continue
                with self._lock:
                    if self._leader is lead:
                        break
                    self._holders = [holder for holder in self._holders if holder[0] is not lead]
                    return False
        except BaseException:
            with self._lock:
                self._holders = [holder for holder in self._holders if holder[0] is not lead]
            self.go_on(lead)
            raise
        return True

    def try_lead(self, lead: object) -> bool:
        """Keep commits away for a moment, if none is under way. Whoever asked calls `hand_on` soon, in any case.

        Args:
            lead: stands for whoever asks, this time alone.
        """
        with self._lock:
            if self._leader is None:
                self._leader, self._thread = lead, get_ident()
                return True
        self._is_mine()
        return False

    def hand_on(self, lead: object) -> None:
        """Let the first of those that came meanwhile lead. Does nothing where `lead` does not."""
        with self._lock:
            if self._leader is not lead:
                return
            following = self._queue[0] if self._queue else None
            if self._holders and (following is None or not self._is_closed):
                holder, turn = self._holders[0]
                self._leader, self._thread = holder, _HELD
                del self._holders[0]
                turn.release()
                return
            if following is None:
                self._leader = None
                return
            self._leader, self._thread, following.is_leader = following, following.thread, True
        if following.is_async:
            self._lead_elsewhere()
        else:
            following.wake()

    def _enter(self, request: _Request) -> None:
        """Queue a request; it leads if nobody does."""
        with self._lock:
            if self._is_closed:
                raise JournalError("this journal was closed; open a new one.")
            self._queue.append(request)
            if self._leader is None:
                self._leader, self._thread, request.is_leader = request, request.thread, True

    def _leave(self, request: _Request) -> None:
        """A request that nobody waits for any more; if it was to lead, or to wake another, that is still done."""
        request.is_gone = True
        with self._lock:
            self._queue = [other for other in self._queue if other is not request]
        self.go_on(request)

    def go_on(self, lead: object) -> None:
        """Do what is left to do of a lead that was interrupted, wherever it was; nothing where `lead` does not lead."""
        if self._leader is not lead:
            self._tell_again()
        elif self._taken:
            self._settle(lead, [JournalUnavailable(_INTERRUPTED)] * len(self._taken))
        else:
            self._pass_on(lead)

    def _tell_again(self) -> None:
        """The thread of the pool may not have been told that it leads; to be told twice is of no matter."""
        if self._leader is not None and self._thread == _ELSEWHERE:
            self._lead_elsewhere()

    def _lead_elsewhere(self) -> None:
        try:
            if self._pool is None:
                from concurrent.futures import ThreadPoolExecutor  # here, since most processes write without it

                self._pool = ThreadPoolExecutor(1, thread_name_prefix="interlock-journal")
            self._pool.submit(self._lead_for_others)
        except RuntimeError:  # the interpreter is ending and gives no more threads: this one writes, rather than nobody
            self._lead_for_others()

    def _lead_for_others(self) -> None:
        """Lead for the one whose turn it is, which is awaited; nothing if that was done."""
        lead = object()
        with self._lock:
            if self._leader is None or self._thread != _ELSEWHERE:
                return
            self._leader, self._thread = lead, get_ident()
        try:
            self._lead(lead)
        except BaseException:
            self.go_on(lead)
            raise

    def _lead(self, lead: object) -> None:
        """Commit what has come, then hand on."""
        with self._lock:
            self._taken, self._queue = self._queue, []
        self._settle(lead, self._commit([request.prepared for request in self._taken]))

    def _settle(self, lead: object, results: Sequence[Result]) -> None:
        """Tell what became of a batch. To do so twice is of no matter: what was told first stands."""
        awaited: dict[asyncio.AbstractEventLoop, list[_Request]] = {}
        waiting: deque[_Request] = deque()
        for request, result in zip(self._taken, results, strict=True):
            if request.result is None:
                request.result = result
            if request.loop is not None:
                awaited.setdefault(request.loop, []).append(request)
            elif request is not lead:
                waiting.append(request)
        for loop, requests in awaited.items():
            # Waking a loop costs a system call: once for all that it waits for.
            with contextlib.suppress(RuntimeError):  # it is closed: nobody waits any more, and the writes stand
                loop.call_soon_threadsafe(_deliver, requests)
        self._taken, self._passing = [], waiting
        self._pass_on(lead)

    def _pass_on(self, lead: object) -> None:
        """Wake the next one of those whose commit is over; after the last, let others lead. Each that is woken calls this first thing."""
        with self._lock:
            if self._leader is not lead:
                return
            while self._passing:
                request = self._passing[0]
                if request.is_gone:
                    del self._passing[0]
                    continue
                self._leader, self._thread, request.is_woken = request, request.thread, True
                del self._passing[0]
                request.wake()
                return
        self.hand_on(lead)

    # --- whether whoever leads is still there ------------------------------------------------------------------------

    def _is_mine(self) -> bool:
        """Whether this thread leads already, further down; then it must not wait. A lead that it had and lost is handed on."""
        lead = self._leader
        if lead is None or self._thread != get_ident():
            return False
        if self.is_below():
            return True
        self._take_over(lead)
        return False

    def is_below(self) -> bool:
        """Whether what runs now came in the middle of something in here: a signal handler, or a finalizer."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and self._is_ours(frame):
            frame = frame.f_back
        return self._is_in(frame)

    def _look(self) -> None:
        """Go on in the place of a leader that has gone without a word.

        Raises:
            JournalUnavailable: this thread waits for itself.
        """
        with self._lock:
            lead, thread = self._leader, self._thread
        frames = sys._current_frames()
        if (
            lead is None or thread == _HELD or get_ident() not in frames
        ):  # where threads are not real ones, nothing can be seen
            return
        if thread == _ELSEWHERE:
            self._tell_again()
        elif thread == get_ident():
            if self._is_mine():
                raise JournalUnavailable(NESTED)
        elif not self._is_in(frames.get(thread)):
            self._take_over(lead)

    def _take_over(self, lead: object) -> None:
        mine = object()
        with self._lock:
            if self._leader is not lead:
                return
            self._leader, self._thread = mine, get_ident()
            if isinstance(lead, _Request):
                lead.is_gone = True
                self._queue = [request for request in self._queue if request is not lead]
        self.go_on(mine)

    def _is_in(self, frame: FrameType | None) -> bool:
        while frame is not None:
            if self._is_ours(frame):
                return True
            frame = frame.f_back
        return False

    def _is_ours(self, frame: FrameType) -> bool:
        return frame.f_globals.get("__name__") in self._modules


NESTED = (
    "this thread is in the middle of a write to this journal, and cannot wait for itself: a signal handler came in between. Nothing was "
    "written. Let the handler only note that it came, or do its work in another thread."
)


def _deliver(requests: Sequence[_Request]) -> None:
    for request in requests:
        request.deliver()
