"""Group commit: concurrent writes share one transaction and one fsync, without a thread of its own.

    A  leads: commits [A] ------------ fsync --> done, hands on to B
    B     waits ................................ leads: commits [B, C, D] --- fsync --> done, wakes C
    C        waits ................................................................... done, wakes D
    D           waits ................................................................ done, hands on to whoever came since

Whoever comes while nobody leads, leads; the others wait, and the first of them leads the next batch, which holds all that came
meanwhile. A lone writer pays no hand-over. Knows nothing of SQL.

Those of a batch go on one after the other, each woken by the one before, and only then does the next one lead. Woken all at once, they
wait for the interpreter's lock instead, each a second time and each in the way of all others, and the next batch starts with few in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from interlock.errors import JournalError, JournalUnavailable
from interlock.journal._base import Prepared

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

Result = bool | Exception


class _Request:
    """One write and who waits for it."""

    __slots__ = ("_done", "_future", "batch", "is_gone", "is_leader", "prepared", "result")

    def __init__(self, prepared: Prepared, future: asyncio.Future[bool] | None = None) -> None:
        self.prepared = prepared
        self.result: Result | None = None
        self.is_leader = False
        self.batch: _Batch | None = None
        self.is_gone = False
        self._future = future
        self._done = threading.Lock()
        if future is None:
            self._done.acquire()

    @property
    def is_async(self) -> bool:
        return self._future is not None

    def wait(self) -> None:
        """Block until it is stored, or until it is this one's turn to lead."""
        self._done.acquire()

    def wake(self) -> None:
        """Wake the thread that waits."""
        self._done.release()

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


class _Batch:
    """Those who wait for one commit that is over, and go on one after the other.

    Args:
        waiting: the requests of other threads, in order.
        lock: what guards the queue.
        then: called once, when the last has been woken.
    """

    __slots__ = ("_lock", "_then", "_waiting")

    def __init__(self, waiting: Iterable[_Request], lock: threading.Lock, then: Callable[[], None]) -> None:
        self._waiting = deque(waiting)
        self._lock = lock
        self._then: Callable[[], None] | None = then

    def pass_on(self) -> None:
        """Wake the next one. Each that is woken calls this first thing."""
        with self._lock:
            while self._waiting:
                request = self._waiting.popleft()
                if not request.is_gone:
                    request.batch = self
                    request.wake()
                    return
            then, self._then = self._then, None
        if then is not None:
            then()


class GroupCommit:
    """Turns single writes into batches.

    Args:
        commit: stores a batch; gives for each write whether its condition held, or the error that is its own. Called by one thread at
            a time. Must not raise.
    """

    def __init__(self, commit: Callable[[Sequence[Prepared]], list[Result]]) -> None:
        self._commit = commit
        self._lock = threading.Lock()
        self._queue: list[_Request] = []
        self._is_led = False
        self._is_closed = False
        self._holders: list[threading.Lock] = []
        self._pool: ThreadPoolExecutor | None = None

    def write(self, prepared: Prepared) -> bool:
        """Store one write, blocking this thread.

        Raises:
            Exception: what `commit` gave for it.
        """
        with self._lock:
            is_alone = not (self._is_led or self._is_closed)
            if is_alone:
                self._is_led = True
        if is_alone:  # most writes: no queue, nobody to wake
            try:
                (result,) = self._commit((prepared,))
            finally:  # an interrupt (Ctrl-C) must not leave the others waiting for ever
                self.hand_on()
            if isinstance(result, Exception):
                raise result
            return result
        request = _Request(prepared)
        leads = self._enter(request)
        if not leads:
            try:
                request.wait()
                if request.batch is not None:
                    request.batch.pass_on()
            except BaseException:  # interrupted; if a batch holds the write, it may happen all the same
                self._leave(request)
                raise
        if leads or request.is_leader:
            self._lead(request)
        if isinstance(request.result, Exception):
            raise request.result
        return bool(request.result)

    async def write_async(self, prepared: Prepared) -> bool:
        """Store one write. If the caller is cancelled, the write may happen all the same.

        Raises:
            Exception: what `commit` gave for it.
        """
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        request = _Request(prepared, future)
        if self._enter(request):
            self._lead_elsewhere()
        return await future

    def close(self) -> bool:
        """Refuse further writes, wait for those that have come, and keep out until `hand_on`. False if that was done before."""
        with self._lock:
            if self._is_closed:
                return False
            self._is_closed = True
        self.hold()
        if self._pool is not None:
            self._pool.shutdown(wait=True)
        return True

    def hold(self, timeout_s: float = -1) -> bool:
        """Wait until no commit is under way, and keep commits away until `hand_on`. False if that took too long."""
        with self._lock:
            leads, self._is_led = not self._is_led, True
            if leads:
                return True
            turn = threading.Lock()
            turn.acquire()
            self._holders.append(turn)
        if turn.acquire(timeout=timeout_s):
            return True
        with self._lock:
            if turn in self._holders:
                self._holders.remove(turn)
                return False
        return True

    def try_lead(self) -> bool:
        """Keep commits away for a moment, if none is under way. Whoever got True calls `hand_on` soon."""
        with self._lock:
            leads, self._is_led = not self._is_led, True
        return leads

    def hand_on(self) -> None:
        """Let the first of those that came meanwhile lead."""
        with self._lock:
            following = self._queue[0] if self._queue else None
            if self._holders and (following is None or not self._is_closed):
                self._holders.pop(0).release()
                return
            if following is None:
                self._is_led = False
                return
            following.is_leader = True
        if following.is_async:
            self._lead_elsewhere()
        else:
            following.wake()

    def _enter(self, request: _Request) -> bool:
        """Queue a request. True if it leads."""
        with self._lock:
            if self._is_closed:
                raise JournalError("this journal was closed; open a new one.")
            self._queue.append(request)
            leads, self._is_led = not self._is_led, True
        return leads

    def _leave(self, request: _Request) -> None:
        """A request that nobody waits for any more; if it was to lead, or to wake another, that is still done."""
        with self._lock:
            request.is_gone = True
            if request in self._queue:
                self._queue.remove(request)
        if request.is_leader:
            self.hand_on()
        elif request.batch is not None:
            request.batch.pass_on()

    def _lead_elsewhere(self) -> None:
        try:
            if self._pool is None:
                from concurrent.futures import ThreadPoolExecutor  # here, since most processes write without it

                self._pool = ThreadPoolExecutor(1, thread_name_prefix="interlock-journal")
            self._pool.submit(self._lead, None)
        except RuntimeError:  # the interpreter is ending and gives no more threads: this one writes, rather than nobody
            self._lead(None)

    def _lead(self, own: _Request | None) -> None:
        """Commit what has come, then hand on."""
        with self._lock:
            batch, self._queue = self._queue, []
        results: list[Result] = [JournalUnavailable("the write was interrupted; it may not be there.")] * len(batch)
        try:
            results = self._commit([request.prepared for request in batch])
        finally:  # an interrupt (Ctrl-C) must not leave the others waiting for ever
            self._settle(batch, results, own)

    def _settle(self, batch: Sequence[_Request], results: Sequence[Result], own: _Request | None) -> None:
        for request, result in zip(batch, results, strict=True):
            request.result = result
        awaited: dict[asyncio.AbstractEventLoop, list[_Request]] = {}
        waiting: list[_Request] = []
        for request in batch:
            if request.loop is not None:
                awaited.setdefault(request.loop, []).append(request)
            elif request is not own:
                waiting.append(request)
        _Batch(waiting, self._lock, self.hand_on).pass_on()
        for loop, requests in awaited.items():
            # Waking a loop costs a system call: once for all that it waits for.
            with contextlib.suppress(RuntimeError):  # it is closed: nobody waits any more, and the writes stand
                loop.call_soon_threadsafe(_deliver, requests)


def _deliver(requests: Sequence[_Request]) -> None:
    for request in requests:
        request.deliver()
