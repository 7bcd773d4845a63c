"""The runners: they do what the protocol asks for, in this thread or on this event loop. The only place with order.

A runner answers each step and keeps one thing in mind that the journal cannot know: which sends of this process are going
on now. A send is announced before its DISPATCHED entry is written and called over when its answer stands on the journal, so
that another worker can tell a sender that still sends from one that lives but no longer does.

    Dispatch: begin_send, write ..... Send ..... Append the answer, end_send(answered)
                                       |
                                       +-- no clear answer, or the thread dies: end_send(not answered); anybody may recover it
                                       +-- given up on or cancelled, still running: nobody may; its late answer will count

This module must not know how effects are declared (`decorator.py`) or what may follow what (`rules`).
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from types import AsyncGeneratorType, GeneratorType
from typing import Any

from interlock.effects import Facts, History, Own
from interlock.errors import (
    BadInput,
    CallbackFailed,
    ConfigurationError,
    JournalError,
    NotSent,
    PremiseUnreadable,
    Rejected,
    SimulatedCrash,
    Unanswered,
)
from interlock.journal import Denied, Journal
from interlock.outcomes import Outcome, Reason, Status
from interlock.ports import Clock, Liveness, Target, Verdict
from interlock.protocol import (
    STEP_NAMES,
    Append,
    Authorize,
    Dispatch,
    Landed,
    Load,
    LookUp,
    NotLanded,
    OverLimit,
    Patience,
    Probe,
    ReadBudgets,
    ReadFacts,
    Run,
    Seen,
    Send,
    Sighting,
    Step,
    Unclear,
    Wait,
    late_answer,
    recover_one,
)
from interlock.rules.lifecycle import fold
from interlock.rules.values import raised_in, repr_of, storable, text_of, words_of

log = logging.getLogger("interlock")

RECOVER_AT_ONCE = 16
"""How many effects `arecover` works on at the same time."""

Answer = Landed | NotLanded | Unclear

NOT_STARTED = NotLanded(Verdict.NOT_SENT, "not_started", "the call ended before anything was sent")


class Runner:
    """Runs protocol generators over one journal and one clock.

    Args:
        journal: where effects are recorded.
        clock: the one clock.
    """

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self.journal = journal
        self.clock = clock
        self._gone_since: dict[tuple[str, int], float] = {}
        self._unrecorded: dict[str, tuple[History, Landed]] = {}
        self._running: set[Future[Answer] | asyncio.Task[Answer]] = set()

    def run(self, protocol: Run, target: Target, *, crash_at: str = "") -> Outcome:
        """Run to the outcome, in this thread.

        Raises:
            CallbackFailed: permission or facts could not be read before the send.
            JournalError: the journal could not do its part.
            SimulatedCrash: at the crash point named, if one is.
        """
        call = _Call(self, target, crash_at)
        outcome = _advance(call, protocol, None, stop_at_wait=False)
        assert isinstance(outcome, Outcome)
        return outcome

    async def arun(self, protocol: Run, target: Target, *, crash_at: str = "") -> Outcome:
        """As `run`, without blocking the event loop."""
        call = _Call(self, target, crash_at)
        try:
            return await _asteps(call, protocol)  # see `_advance`
        finally:
            protocol.close()
            call.finish()

    def recover(
        self, open_effects: Iterable[tuple[str, str]], find: Callable[[str], Target | None], wait_s: float
    ) -> list[Outcome]:
        """Settle every open effect that can be settled; their pauses overlap. One effect's failure never stops the others."""
        outcomes: list[Outcome] = []
        ready: list[tuple[_Call, Run, Any]] = []
        paused: list[tuple[float, int, _Call, Run]] = []
        for effect_id, name in open_effects:
            target = find(name)
            if target is None:
                outcomes.append(self._orphan(effect_id, name))
            else:
                call = _Call(self, target, "", effect_id=effect_id, name=name)
                ready.append((call, _recovery(effect_id, target, Patience(self.clock, wait_s)), None))
        order = 0
        while ready or paused:
            if not ready:
                due, _, call, protocol = heapq.heappop(paused)
                left = due - self.clock.uptime().seconds
                if left > 0:
                    self.clock.sleep(left)
                ready.append((call, protocol, None))
            call, protocol, answer = ready.pop(0)
            result: Outcome | Wait
            try:
                result = _advance(call, protocol, answer, stop_at_wait=True)
            except Exception as error:  # noqa: BLE001 - reported with the effect; the others must go on
                result = self._failed(call.effect_id, call.name, error)
            if isinstance(result, Wait):
                order += 1
                heapq.heappush(paused, (self.clock.uptime().seconds + result.seconds, order, call, protocol))
            else:
                outcomes.append(result)
        return outcomes

    async def arecover(
        self, open_effects: Iterable[tuple[str, str]], find: Callable[[str], Target | None], wait_s: float
    ) -> list[Outcome]:
        """As `recover`, without blocking the event loop, several effects at a time."""
        limit = asyncio.Semaphore(RECOVER_AT_ONCE)

        async def one(effect_id: str, name: str) -> Outcome:
            target = find(name)
            if target is None:
                return self._orphan(effect_id, name)
            async with limit:
                try:
                    return await self.arun(_recovery(effect_id, target, Patience(self.clock, wait_s)), target)
                except Exception as error:  # noqa: BLE001 - reported with the effect; the others must go on
                    return self._failed(effect_id, name, error)

        return list(await asyncio.gather(*(one(effect_id, name) for effect_id, name in open_effects)))

    def _orphan(self, effect_id: str, name: str) -> Outcome:
        log.error(
            "effect %s of %r is open, but no function of that name is registered; it was left as it is. "
            "Register the function under that name (name=%r; for a tool that was renamed, 'name' in its configuration), then recover "
            "again. Under another name the same request is another effect, and may be done twice.",
            effect_id,
            name,
            name,
        )
        return self._open_outcome(effect_id, name, Reason.NO_FUNCTION, "")

    def _failed(self, effect_id: str, name: str, error: Exception) -> Outcome:
        log.error(
            "recovery of effect %s of %r stopped and left it open: %s", effect_id, name, text_of(error), exc_info=error
        )
        return self._open_outcome(effect_id, name, Reason.RECOVERY_ERROR, text_of(error))

    def _open_outcome(self, effect_id: str, name: str, reason: Reason, detail: str) -> Outcome:
        key, owner, since, history = "", "", "", None
        try:
            history = self.journal.load(effect_id)
            state = fold(history)
            key = state.proposed.get("key", "")
            if state.dispatch is not None:
                owner, since = state.dispatch.by, state.dispatch.at
        except JournalError as error:
            detail = detail or str(error)
        return Outcome(
            Status.IN_FLIGHT,
            name,
            key,
            effect_id,
            reason=reason,
            detail=detail,
            owner=owner,
            since=since,
            history=history,
        )

    def sighting(self, step: Probe) -> Sighting:
        """What is proven about a sender, and since when this gate has known it to be gone."""
        liveness = self.journal.liveness(step.worker, step.effect_id, step.n)
        place = (step.effect_id, step.n)
        if liveness is Liveness.ALIVE:
            self._gone_since.pop(place, None)
            return Sighting(liveness)
        return Sighting(liveness, self._gone_since.setdefault(place, self.clock.uptime().seconds))

    def load(self, effect_id: str, *, presume: bool = False) -> History:
        """The history; an answer that this process knows but could not write before is written first."""
        unrecorded = self._unrecorded.get(effect_id)
        if unrecorded is not None:
            self.record_late(*unrecorded)
            self._unrecorded.pop(effect_id, None)
        return self.journal.presume(effect_id) if presume else self.journal.load(effect_id)

    def is_told(self, history: History) -> bool:
        """Whether an effect that was taken for new, and could not be written, is none: the record answers, without a write."""
        if history.entries:
            return False
        found = self.journal.load(history.effect_id)
        return bool(found.entries) and found.entries[-1].by != self.journal.worker

    def keep_unrecorded(self, history: History, answer: Landed) -> None:
        """Remember an answer that the journal could not take, until it can."""
        self._unrecorded[history.effect_id] = (history, answer)

    def record_late(self, history: History, answer: Answer) -> bool:
        """Write an answer that came after the gate had stopped waiting for it; tell whether it had something to say."""
        protocol = late_answer(history, answer, clock=self.clock)
        reply: Any = None
        while True:
            try:
                step = protocol.send(reply)
            except StopIteration as stop:
                return stop.value is not None
            match step:
                case Load(effect_id):
                    reply = self.journal.load(effect_id)
                case Append(current, drafts):
                    reply = self.journal.append(current, drafts)

    def record_not_sent(self, history: History) -> bool:
        """Write that a call ended between its dispatch and its send. What cannot be written now is for a recovery to judge."""
        try:
            return self.record_late(history, NOT_STARTED)
        except Exception as error:  # noqa: BLE001 - the call ends as it does
            log.error("effect %s was not sent, and that could not be recorded: %s", history.effect_id, text_of(error))
            return False

    def written_unheard(self, write: asyncio.Task[History | OverLimit | None]) -> None:
        """A dispatch was written when its call was gone."""
        if not write.cancelled() and write.exception() is None and isinstance(claimed := write.result(), History):
            self.record_not_sent(claimed)

    def adopt(self, task: Future[Answer] | asyncio.Task[Answer], history: History, call: _Call) -> None:
        """A send that its call does not wait for any more: the claim stays with it until it has ended, and its answer counts."""
        self._running.add(task)

        def ended(task: Future[Answer] | asyncio.Task[Answer]) -> None:
            self._running.discard(task)
            n = len(history.entries) - 1
            answered = False
            # A future that could be cancelled had no thread yet: nothing has left. A task may have sent before it was cancelled.
            in_flight = not (isinstance(task, Future) and task.cancelled())
            try:
                answer = (None if in_flight else NOT_STARTED) if task.cancelled() else task.result()
                if isinstance(answer, Landed | NotLanded):
                    answered = self.record_late(history, answer)
            except BaseException as error:
                text = text_of(error)
                log.error("a late answer of effect %s was not recorded: %s", history.effect_id, text, exc_info=error)
            self.journal.end_send(history.effect_id, n, call, answered=answered, in_flight=in_flight)

        task.add_done_callback(ended)

    async def adrain(self, wait_s: float) -> int:
        """Wait for adopted sends of this event loop and of threads; tell how many still run."""
        here = asyncio.get_running_loop()
        sends = {
            asyncio.wrap_future(send) if isinstance(send, Future) else send
            for send in self._running
            if isinstance(send, Future) or send.get_loop() is here
        }
        if not sends:
            return 0
        _, pending = await asyncio.wait(sends, timeout=wait_s)
        return len(pending)

    def forget_sighting(self, place: tuple[str, int]) -> None:
        """Drop what is remembered about a send that is over."""
        self._gone_since.pop(place, None)


def _recovery(effect_id: str, target: Target, patience: Patience) -> Run:
    history: History = yield Load(effect_id)
    return (yield from recover_one(history, target, clock=patience.clock, patience=patience))


def _advance(call: _Call, protocol: Run, answer: Any, *, stop_at_wait: bool) -> Outcome | Wait:
    """Run until the outcome or, if asked to, until the protocol wants to pause."""
    result: Outcome | Wait | None = None
    try:
        # Not here: an interrupt that comes as a loop goes round is raised outside a `try` that begins with it.
        result = _steps(call, protocol, answer, stop_at_wait=stop_at_wait)
        return result
    finally:
        if type(result) is not Wait:
            protocol.close()
            call.finish()


def _steps(call: _Call, protocol: Run, answer: Any, *, stop_at_wait: bool) -> Outcome | Wait:
    error: Exception | None = None
    while True:
        try:
            step = protocol.throw(error) if error is not None else protocol.send(answer)
        except StopIteration as stop:
            outcome: Outcome = stop.value
            return outcome
        answer, error = None, None
        if stop_at_wait and type(step) is Wait:
            return step
        try:
            answer = call.perform(step)
        except (CallbackFailed, BadInput) as failed:
            error = failed


async def _asteps(call: _Call, protocol: Run) -> Outcome:
    answer: Any = None
    error: Exception | None = None
    while True:
        try:
            step = protocol.throw(error) if error is not None else protocol.send(answer)
        except StopIteration as stop:
            outcome: Outcome = stop.value
            return outcome
        answer, error = None, None
        try:
            answer = await call.aperform(step)
        except (CallbackFailed, BadInput) as failed:
            error = failed


class _Call:
    """One run of the protocol: performs its steps and keeps track of the send that it may hold."""

    __slots__ = ("_claim", "_claimed", "_crash_at", "_landed", "_sent", "effect_id", "name", "runner", "target")

    def __init__(self, runner: Runner, target: Target, crash_at: str, *, effect_id: str = "", name: str = "") -> None:
        self.runner = runner
        self.target = target
        self.effect_id = effect_id
        self.name = name
        self._crash_at = crash_at
        self._claim: tuple[str, int] | None = None
        self._claimed: History | None = None
        self._sent = False
        self._landed: Landed | None = None

    def perform(self, step: Step) -> Any:
        """Do what a step asks for, in this thread."""
        kind = type(step)
        if self._crash_at:
            self._maybe_crash("before", kind)
        answer = _DOES[kind](self, step)
        if self._crash_at:
            self._maybe_crash("after", kind)
        return answer

    async def aperform(self, step: Step) -> Any:
        """Do what a step asks for, without blocking the event loop."""
        kind = type(step)
        if self._crash_at:
            self._maybe_crash("before", kind)
        answer = await self._ado(step)
        if self._crash_at:
            self._maybe_crash("after", kind)
        return answer

    def finish(self) -> None:
        """The run is over, one way or another: a send that it still holds has ended, and its answer is not on the journal."""
        place, self._claim = self._claim, None
        if place is not None:
            answered = False
            try:
                if self._claimed is not None and self._landed is not None:
                    self.runner.keep_unrecorded(self._claimed, self._landed)
                elif self._claimed is not None and not self._sent:
                    answered = self.runner.record_not_sent(self._claimed)
            finally:
                self.runner.journal.end_send(*place, self, answered=answered, in_flight=self._sent)

    def _maybe_crash(self, when: str, kind: type) -> None:
        if self._crash_at == f"{when}_{STEP_NAMES[kind]}":
            self._claim = None
            self.runner.journal.abandon()
            raise SimulatedCrash(f"simulated death of this worker at {self._crash_at}; make a new Interlock to recover")

    # --- what is noted of a send -------------------------------------------------------------------------------------

    def _announce(self, step: Dispatch) -> None:
        effect_id, entries = step.history
        n = len(entries) + len(step.drafts) - 1
        self._sent = False
        self._claimed = None
        # First: an interrupt may come at any moment, and a send that has not begun has no end.
        self._claim = effect_id, n
        self.runner.journal.begin_send(effect_id, n, self)

    def _note_dispatch(self, answer: History | OverLimit | None) -> None:
        self._claimed = answer if type(answer) is History else None
        if self._claimed is None:
            self._release(answered=True)

    def _note_append(self, answer: History | OverLimit | None) -> None:
        if answer is not None and self._claim is not None:
            self._release(answered=True)

    def _note_send(self) -> None:
        self._sent = True

    def _note_answer(self, answer: Answer) -> None:
        assert self._claimed is not None
        if self._claimed.entries[-1].by != self.runner.journal.worker:
            raise JournalError(
                f"effect {self._claimed.effect_id}: its function came back in a process that was forked in the middle of it. What became "
                "of the send is its parent's to say; nothing was recorded here. Let a forked child end by os._exit."
            )
        if type(answer) is Landed:
            self._landed = answer
        elif not (type(answer) is Unclear and answer.still_running):
            # This send is over, whatever is made of it: what recovers the effect now, here or elsewhere, must see so.
            # A clear refusal also says that nothing of this request is still on its way.
            self._sent = type(answer) is not NotLanded
            self._release(answered=False)

    def _release(self, *, answered: bool) -> None:
        place = self._claim
        assert place is not None
        self.runner.journal.end_send(*place, self, answered=answered, in_flight=self._sent)
        self._claim = self._landed = None  # last: if an interrupt comes before, `finish` ends it once more
        if self.runner._gone_since:
            self.runner.forget_sighting(place)

    # --- in this thread ----------------------------------------------------------------------------------------------

    def _load(self, step: Load) -> History:
        return self.runner.load(step.effect_id, presume=step.presume)

    def _append(self, step: Append) -> History | None:
        written = self.runner.journal.append(step.history, step.drafts)
        self._note_append(written)
        return written

    def _dispatch(self, step: Dispatch) -> History | OverLimit | None:
        self._announce(step)
        claimed: History | OverLimit | None
        try:
            claimed = self.runner.journal.append(step.history, step.drafts, guards=step.guards)
        except Denied as denied:
            claimed = OverLimit(denied.shortfalls)
        except JournalError:
            if not self.runner.is_told(step.history):
                raise
            claimed = None
        self._note_dispatch(claimed)
        return claimed

    def _send(self, step: Send) -> Answer:
        self._note_send()
        answer = self._answer(step)
        self._note_answer(answer)
        return answer

    def _answer(self, step: Send) -> Answer:
        try:
            raw = resolve(self.target.send(step.payload, step.idempotency_key))
            if type(raw) is AsyncGeneratorType:
                raw = resolve(_run_out(raw))
            return self._landing(raw, step)
        except Exception as error:  # noqa: BLE001 - every exception is classified, none is swallowed into "absent"
            return self._classified(error)

    def _probe(self, step: Probe) -> Sighting:
        return self.runner.sighting(step)

    def _read_facts(self, step: ReadFacts) -> Any:
        return _read(resolve(self.target.read_facts(step.payload, step.idempotency_key)), self.target, step)

    def _read_budgets(self, step: ReadBudgets) -> Any:
        return resolve(self.target.read_budgets(step.payload, step.idempotency_key))

    def _authorize(self, step: Authorize) -> Any:
        return resolve(self.target.is_allowed(step.payload, step.idempotency_key))

    def _look_up(self, step: LookUp) -> Seen:
        target = self.target
        try:
            return _seen(resolve(target.look_up(step.payload, step.idempotency_key)), target, step)
        except Exception as error:  # noqa: BLE001 - a look-up that fails is not absence
            return _told(_lookup_failed(error), target, step)

    def _wait(self, step: Wait) -> None:
        self.runner.clock.sleep(step.seconds)

    # --- on an event loop --------------------------------------------------------------------------------------------

    async def _ado(self, step: Step) -> Any:
        target = self.target
        match step:
            case Load():
                return self._load(step)
            case Probe():
                return self._probe(step)
            case Append():
                written = await self._uninterrupted(step)
                self._note_append(written)
                return written
            case Dispatch():
                self._announce(step)
                claimed = await self._uninterrupted(step)
                self._note_dispatch(claimed)
                return claimed
            case Send():
                self._note_send()
                answer = await self._asend(step)
                self._note_answer(answer)
                return answer
            case ReadFacts():
                return _read(await self._acall("premises", target.read_facts, step), target, step)
            case ReadBudgets():
                return await self._acall("budget", target.read_budgets, step)
            case Authorize():
                return await self._acall("allowed", target.is_allowed, step)
            case LookUp():
                try:
                    return _seen(await self._acall("lookup", target.look_up, step), target, step)
                except Exception as error:  # noqa: BLE001 - a look-up that fails is not absence
                    return _told(_lookup_failed(error), target, step)
            case Wait():
                return await self.runner.clock.asleep(step.seconds)

    async def _acall(
        self, role: str, call: Callable[..., Any], step: ReadFacts | Authorize | ReadBudgets | LookUp | Send
    ) -> Any:
        if self.target.is_async(role):
            result = call(step.payload, step.idempotency_key)
        else:
            result = await asyncio.to_thread(call, step.payload, step.idempotency_key)
        return await result if inspect.isawaitable(result) else result

    async def _awrite(self, step: Append | Dispatch) -> History | OverLimit | None:
        guards = step.guards if type(step) is Dispatch else ()
        try:
            return await self.runner.journal.append_async(step.history, step.drafts, guards=guards)
        except Denied as denied:
            return OverLimit(denied.shortfalls)
        except JournalError:
            if type(step) is Dispatch and self.runner.is_told(step.history):
                return None
            raise

    async def _uninterrupted(self, step: Append | Dispatch) -> History | OverLimit | None:
        """A write is seen to its end even if the caller is cancelled, so that what it came to is known."""
        task = asyncio.ensure_future(self._awrite(step))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                try:
                    await asyncio.wait({task})
                except asyncio.CancelledError:  # once more: it goes on without this call, which sends nothing
                    if type(step) is Dispatch:
                        task.add_done_callback(self.runner.written_unheard)
                    raise
            if not task.cancelled() and task.exception() is None:
                note = self._note_append if type(step) is Append else self._note_dispatch
                note(task.result())
            raise

    async def _asend(self, step: Send) -> Answer:
        # A thread cannot be cancelled. So its send is not a task, which the end of the loop would cancel while it goes on.
        thread = None if self.target.is_async("send") else self._in_thread(step)
        task = asyncio.ensure_future(self._aanswer(step)) if thread is None else asyncio.wrap_future(thread)
        timeout_s = self.target.capabilities.timeout_s
        try:
            done, _ = await asyncio.wait({task}, timeout=timeout_s)
        except asyncio.CancelledError:
            # The caller is cancelled, the send is not: what has left cannot be called back, and its answer will count.
            self._leave(task, thread, step)
            raise
        except GeneratorExit:  # its event loop was dropped in the middle, which ends no thread
            if thread is not None:
                self._leave(task, thread, step)
            raise
        if not done:
            if thread is not None and thread.cancel():
                return NotLanded(Verdict.NOT_SENT, "not_started", f"no thread was free within {timeout_s:g} s")
            self._leave(task, thread, step)
            detail = (
                f"no answer within {timeout_s:g} s; the send still runs, and its answer will be recorded when it comes."
            )
            return Unclear(detail, still_running=True)
        if task.cancelled():
            return Unclear("the send was cancelled from inside, which says nothing about what had left.")
        return task.result()

    def _leave(self, task: asyncio.Future[Answer], thread: Future[Answer] | None, step: Send) -> None:
        """Stop waiting for a send; it stays the runner's until it has ended."""
        self._claim = None  # first: an interrupt must not end what still runs
        if thread is not None:
            thread.cancel()  # does nothing to one that runs
            self.runner.adopt(thread, step.history, self)
            with contextlib.suppress(RuntimeError):  # the loop is closed
                task.cancel()  # it may be gone when the thread ends
        else:
            assert isinstance(task, asyncio.Task)
            self.runner.adopt(task, step.history, self)

    def _in_thread(self, step: Send) -> Future[Answer]:
        answer: Future[Answer] = Future()

        def send() -> None:
            if not answer.set_running_or_notify_cancel():
                return
            try:
                answer.set_result(self._answer(step))
            except BaseException as error:  # noqa: BLE001 - handed to whoever waits, or reported when it ends
                answer.set_exception(error)

        asyncio.get_running_loop().run_in_executor(None, contextvars.copy_context().run, send)
        return answer

    async def _aanswer(self, step: Send) -> Answer:
        try:
            raw = await self._acall("send", self.target.send, step)
            if type(raw) is AsyncGeneratorType:
                raw = await _run_out(raw)
            return self._landing(raw, step)
        except Exception as error:  # noqa: BLE001 - every exception is classified, none is swallowed into "absent"
            return self._classified(error)

    def _landing(self, raw: Any, step: Send) -> Landed:
        if type(raw) in _NOT_RUN_YET:
            raw = list(raw)  # part of the send: what it raises says that the function failed
        written = self.target.encode_value(raw)
        return Landed(written, raw, self.target.watch(step.payload, step.idempotency_key, written))

    def _classified(self, error: Exception) -> NotLanded | Unclear:
        detail = (isinstance(error, NotSent | Rejected | Unanswered) and words_of(error)) or text_of(error)
        try:
            verdict, reason = self.target.classify(error)
        except Exception as failed:
            verdict, reason = Verdict.UNKNOWN, ""
            log.error("%s: classify= failed on %s: %s", self.target.name, raised_in(error), raised_in(failed))
            log.debug("%s: the traceback of classify=", self.target.name, exc_info=failed)
        if verdict in (Verdict.NOT_SENT, Verdict.REJECTED):
            return NotLanded(verdict, reason, detail)
        if verdict is Verdict.IN_USE:
            return Unclear(detail, in_use=True)
        if isinstance(error, Unanswered):
            log.info("%s: %s", self.target.name, detail)
            return Unclear(detail)
        log.warning(
            "%s raised %s. The gate cannot know whether the effect landed and treats it as unknown. If this error means that it "
            "certainly did not, declare it (rejected_on=, not_sent_on=) or raise Rejected or NotSent.",
            self.target.name,
            raised_in(error),
        )
        log.debug("%s: the traceback of what it raised", self.target.name, exc_info=error)
        return Unclear(detail)


_DOES: Mapping[type, Callable[[_Call, Any], Any]] = {
    Load: _Call._load,
    ReadFacts: _Call._read_facts,
    Authorize: _Call._authorize,
    ReadBudgets: _Call._read_budgets,
    Append: _Call._append,
    Dispatch: _Call._dispatch,
    Send: _Call._send,
    LookUp: _Call._look_up,
    Probe: _Call._probe,
    Wait: _Call._wait,
}
"""What does a step in this thread."""


def _read(facts: Any, target: Target, step: ReadFacts) -> Any:
    """Facts as they were read, with what they showed of the effect itself as a look-up would tell it."""
    if type(facts) is Facts and facts.own is not None:
        own = _seen(facts.own, target, step)
        if not own.found:
            raise PremiseUnreadable(
                f"effect {target.name!r}: premises= showed the effect itself, but {own.failed} Nothing was sent."
            )
        facts.own = own
    return facts


def _seen(found: Any, target: Target, step: LookUp | ReadFacts) -> Seen:
    """What a look-up's answer means. Only None and False are absence; an empty or odd answer is unclear, not absent."""
    if found is None or found is False:
        return Seen(found=False)
    if isinstance(found, Own):
        return _seen(found.evidence, target, step)._replace(differs=storable(found.differs))
    if found is True:
        return Seen(found=True, evidence=True, watch=target.watch(step.payload, step.idempotency_key, None))
    if _says_nothing(found):
        return Seen(
            found=False,
            failed=f"the look-up answered {repr_of(found)}, which does not say whether the effect is there. "
            "Return None or False for absent, and True or the object that was found otherwise.",
        )
    written = target.encode_value(found)
    return Seen(found=True, evidence=written, watch=target.watch(step.payload, step.idempotency_key, written))


def _says_nothing(found: Any) -> bool:
    """Whether an answer is empty, false in some other way (status 404, `{"found": False}`), or an iterator that nobody has looked into."""
    if (
        found is NotImplemented
        or isinstance(found, BaseException)
        or hasattr(found, "__next__")
        or hasattr(found, "__aiter__")
    ):
        return True
    try:
        if not found or (hasattr(found, "__len__") and len(found) == 0):
            return True
        says = found.get("found") if isinstance(found, Mapping) else getattr(found, "found", None)
        return says is False
    except Exception:  # noqa: BLE001 - an answer that does not know whether it is true says nothing
        return True


def _lookup_failed(error: Exception) -> Seen:
    # The gate's own word says what has to change, for instance that the function no longer takes what is on the record.
    return Seen(found=False, failed=words_of(error) if isinstance(error, ConfigurationError) else text_of(error))


def _told(failed: Seen, target: Target, step: LookUp) -> Seen:
    """A look-up that raised, as it is; the log says of which effect, and why."""
    log.warning(
        "effect %r, idempotency key %s: it could not be looked up, which says nothing about whether it landed: %s",
        target.name,
        step.idempotency_key,
        failed.failed,
    )
    return failed


_NOT_RUN_YET = frozenset({GeneratorType, map, filter, zip})
"""Results whose code runs when somebody looks into them. A function that returns one may not have sent anything yet."""


async def _run_out(items: AsyncGeneratorType[Any, Any]) -> list[Any]:
    return [one async for one in items]


_PLAIN = frozenset({type(None), bool, int, str, dict, list, tuple})
"""Types that nobody can await. Most results have one of them, and to ask takes longer."""


def is_in_loop() -> bool:
    """Whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def resolve(result: Any) -> Any:
    """A callback's result; an awaitable one is awaited here, on an event loop of its own."""
    if type(result) in _PLAIN or not inspect.isawaitable(result):
        return result

    async def wait() -> Any:
        return await result

    if not is_in_loop():
        return asyncio.run(wait())
    from concurrent.futures import ThreadPoolExecutor  # here, since a process that awaits nothing needs no threads

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(contextvars.copy_context().run, asyncio.run, wait()).result()
