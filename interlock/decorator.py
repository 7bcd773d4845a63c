"""The door: `Interlock`, and `@gate.effect(...)` that puts a function behind it. Owns the public surface; the work is done below."""

from __future__ import annotations

import functools
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, overload

from interlock.declaration import Declaration, ExceptionTypes, directory_of, seconds
from interlock.effects import Proposal
from interlock.errors import BadInput, ConfigurationError
from interlock.function import EffectFunction
from interlock.gate import Runner, is_in_loop
from interlock.journal import Journal, SQLiteJournal
from interlock.outcomes import Outcome, Reason
from interlock.ports import Clock, SystemClock, Target, Verdict
from interlock.protocol import CRASH_POINTS, Patience, outcome_of, submit
from interlock.rules.lifecycle import fold

if TYPE_CHECKING:
    from interlock.watch import OnChange, Watcher

log = logging.getLogger("interlock")


class Recovery(Sequence[Outcome]):
    """What `recover()` found: one `Outcome` for each effect that was open."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        self._outcomes = tuple(outcomes)

    def __getitem__(self, index: Any) -> Any:
        return self._outcomes[index]

    def __len__(self) -> int:
        return len(self._outcomes)

    def __repr__(self) -> str:
        return f"Recovery({', '.join(f'{outcome.key}: {outcome}' for outcome in self._outcomes) or 'nothing was open'})"

    @property
    def still_open(self) -> tuple[Outcome, ...]:
        """Those that could not be settled now: claimed by a live sender, not to be known yet, or without their function."""
        return tuple(
            outcome for outcome in self._outcomes if outcome.retry_after is not None or outcome.status == "IN_FLIGHT"
        )

    @property
    def ambiguous(self) -> tuple[Outcome, ...]:
        """Those that nobody can know; a person must look at the service."""
        return tuple(outcome for outcome in self._outcomes if outcome.status == "AMBIGUOUS")


class Declare(Protocol):
    """What `gate.effect(...)` gives: it puts a function behind the gate."""

    @overload
    def __call__(self, function: Callable[..., Coroutine[Any, Any, Any]], /) -> EffectFunction[Awaitable[Outcome]]: ...
    @overload
    def __call__(self, function: Callable[..., Any], /) -> EffectFunction[Outcome]: ...
    def __call__(self, function: Callable[..., Any], /) -> EffectFunction[Any]:
        """Declare it.

        Raises:
            ConfigurationError: the function and the options do not go together.
        """
        ...


F = TypeVar("F", bound=Callable[..., Any])


def _told_kindly(effect: F) -> F:
    """What Python says of a call that does not fit, in the words of a declaration."""
    options = ("key", *(effect.__kwdefaults__ or ()))

    @functools.wraps(effect)
    def checked(self: Interlock, /, *given: Any, **said: Any) -> Any:
        if given:
            raise ConfigurationError(
                f"@gate.effect is given {given[0]!r:.100}; it takes options by name, in parentheses, before the function: "
                '@gate.effect(key=lambda order: f"refund:{order}").'
            )
        for option in said:
            if option not in options:
                from interlock.naming import instead_of  # here, since only a mistake needs it

                raise TypeError(f"gate.effect() has no option {option!r}; {instead_of(option, options)}")
        return effect(self, **said)

    return cast("F", checked)


class Interlock:
    """The gate: a journal in a directory, and the functions with outside effects that go through it.

    Any number of processes and threads of one machine may open the same directory. Call `recover()` once on start, after
    the functions are declared.

    Args:
        directory: where the journal lives; made if it is not there. On a local file system.
        clock: the one clock; by default the machine's.
        journal: another journal instead of SQLite in `directory`.

    Raises:
        JournalUnsuitable: the place cannot hold a journal.
        JournalTooNew: a later version wrote it.
        JournalCorrupt: it is not a journal, or a damaged one.
        ConfigurationError: both or neither of `directory` and `journal` are given, or it is none. Nothing is filled in in a path.

    **Durable when** this returns: an empty journal, or the one that was there.
    **If the process dies**, the kernel tells every other worker so, at once: a file lock held for the life of this object.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        clock: Clock | None = None,
        journal: Journal | None = None,
    ) -> None:
        if (directory is None) == (journal is None):
            raise ConfigurationError('say where the journal lives: Interlock(".interlock"), or Interlock(journal=...).')
        if journal is None:
            journal = SQLiteJournal(directory_of(directory))
        elif not isinstance(journal, Journal):
            raise ConfigurationError(
                f'journal= is {journal!r:.200}, which is no journal. To keep one in a directory, name it first: Interlock(".interlock").'
            )
        self.journal: Journal = journal
        self.clock: Clock = clock if clock is not None else SystemClock()
        self._runner = Runner(self.journal, self.clock)
        self._effects: dict[str, EffectFunction[Any]] = {}
        self._watching: Watcher | None = None
        self._recovered = False
        self._lock = threading.Lock()
        log.info("the journal is %s", place_of(journal))

    def __enter__(self) -> Interlock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def effects(self) -> Mapping[str, EffectFunction[Any]]:
        """The declared functions, by name."""
        return dict(self._effects)

    @_told_kindly
    def effect(
        self,
        *,
        key: Callable[..., str],
        premises: Callable[..., Any] | None = None,
        expect: Mapping[str, Any] | None = None,
        allowed: Callable[..., Any] | None = None,
        budget: Callable[..., Any] | None = None,
        lookup: Callable[..., Any] | None = None,
        settlement: Callable[..., Any] | None = None,
        references: Callable[..., Any] | None = None,
        watch_for: float | timedelta | None = None,
        dedupes: bool = False,
        window: float | timedelta | None = None,
        lookup_lag: float | timedelta = 0.0,
        settle_after: float | timedelta | None = None,
        timeout: float | timedelta = 30.0,
        wait: float | timedelta = 0.0,
        rejected_on: ExceptionTypes = (),
        not_sent_on: ExceptionTypes = (),
        in_use_on: ExceptionTypes = (),
        classify: Callable[[BaseException], Verdict | None] | None = None,
        binds: Iterable[str] | None = None,
        ignore: Iterable[str] = (),
        context: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None = None,
        name: str | None = None,
    ) -> Declare:
        """Put a function with one outside effect behind the gate.

        Callbacks may be sync or async, and take any of the function's arguments by name, and `idempotency_key`.

        Args:
            key: names the approved request, e.g. `refund:881`. From the request, never from what a model wrote.
            premises: reads the facts the decision relies on: a dict. They are re-read before the send and after a crash. A fact that
                our own effect changes must leave it out, by `idempotency_key`.
            expect: for each premise its condition (`equals`, `one_of`, `at_least`, `at_most`, `matches`, `tolerates`; another value means
                `equals`). A premise without one must be unchanged since the decision.
            allowed: whether it is permitted, True or False; asked right before the send and after a crash.
            budget: the cap that this call shares with other effects, and what it takes of it: a `Budget`, a list of them, or None for no
                cap. Asked right before the send; taken in the very write that lets it be sent, and given back only if it certainly
                did not happen.
            lookup: finds our own effect by `idempotency_key`: the object or True; None or False if absent. Raise if it cannot be told.
            settlement: reads what became of the accepted effect, later: a `Settlement`, or None while nothing is known. Also takes `value`:
                what the function returned, as `outcome.value`. Raise if it cannot be told.
            references: ids of the service's, from `value`, under which an event can find the effect (`gate.find`).
            watch_for: how long `gate.watch()` reads it again after it was accepted (seconds or timedelta); by default 120 days.
            dedupes: the service drops a second request with the same `idempotency_key`.
            window: how long it remembers a key (seconds or timedelta). Not said: ten minutes are trusted.
            lookup_lag: how long after a send a look-up may still miss it (an index that lags).
            settle_after: once a sender no longer sends (dead, or its call ended without an answer), how long its last request may still be
                on its way or in the service's hands; "absent" is not trusted before. Never less than your service's slowest answer. Not
                said: 1 s, and a warning where a look-up alone (tier 2) keeps it from being done twice.
            timeout: the longest a send takes. Async sends are not awaited longer; a sync function must set its SDK's own time-out.
            wait: how long a call waits while another live sender works on the same effect, instead of answering IN_FLIGHT.
            rejected_on: exceptions that mean: the service answered, and certainly did not do it.
            not_sent_on: exceptions that mean: nothing left this machine.
            in_use_on: exceptions that mean: the service still works on a request with this key.
            classify: what an exception means, where its class does not tell; None leaves it to the others.
            binds: the arguments that must not change under one key; by default all. What was recorded first is what is sent.
            ignore: arguments that are no payload (a client, a session).
            context: where recovery gets the ignored arguments from: a dict, or a function that returns one.
            name: name of the effect; by default the function's. Part of its identity.

        Raises:
            ConfigurationError: at once, if something of this cannot be kept.
        """
        declared = Declaration(
            key=key,
            premises=premises,
            expect=expect,
            allowed=allowed,
            budget=budget,
            lookup=lookup,
            settlement=settlement,
            references=references,
            watch_for=watch_for,
            dedupes=dedupes,
            window=window,
            lookup_lag=lookup_lag,
            settle_after=settle_after,
            timeout=timeout,
            wait=wait,
            rejected_on=rejected_on,
            not_sent_on=not_sent_on,
            in_use_on=in_use_on,
            classify=classify,
            binds=binds,
            ignore=ignore,
            context=context,
            name=name,
        )

        def declare(function: Callable[..., Any]) -> EffectFunction[Any]:
            effect: EffectFunction[Any] = EffectFunction(self, function, declared)
            with self._lock:
                if effect.name in self._effects:
                    raise ConfigurationError(
                        f"two functions are declared as effect {effect.name!r}: recovery could not tell which one to call. "
                        "If they are two effects, give one of them another name=. If this is the same function declared again (a "
                        "notebook cell run twice), make the Interlock anew as well: under a new name it would be a new effect, and "
                        "what was done before would not be recognised."
                    )
                self._effects[effect.name] = effect
            return effect

        return declare

    def submit(
        self,
        proposal: Proposal,
        *,
        wait: float | timedelta | None = None,
        crash_before_effect: bool = False,
        crash_after_effect: bool = False,
        crash_at: str = "",
    ) -> Outcome:
        """Take a proposal (`fn.proposal(...)`) to its outcome. Facts are read again now and compared with what the decider saw.

        Args:
            proposal: the decided call. Its arguments are checked against its digest; what it says of the facts and the decision is
                believed. So keep one where those who may not decide cannot write.
            wait: seconds to wait while another live sender has it; by default the effect's own.
            crash_before_effect: for tests: die after the effect is on the journal, before it is sent.
            crash_after_effect: for tests: die after it was sent, before the answer is recorded.
            crash_at: for tests: any of `interlock.testing.CRASH_POINTS`.

        Raises:
            BadInput: the proposal is not one of an effect declared here.
            SimulatedCrash: as asked for; this gate is dead then, and a new one recovers.
            CallbackFailed, JournalError: as calling the function.
        """
        effect, proposal, wait_s, crash = self._admit(proposal, wait, crash_before_effect, crash_after_effect, crash_at)
        return self._run(proposal, effect, wait_s=wait_s, crash_at=crash)

    async def asubmit(
        self,
        proposal: Proposal,
        *,
        wait: float | timedelta | None = None,
        crash_before_effect: bool = False,
        crash_after_effect: bool = False,
        crash_at: str = "",
    ) -> Outcome:
        """As `submit`, without blocking the event loop."""
        effect, proposal, wait_s, crash = self._admit(proposal, wait, crash_before_effect, crash_after_effect, crash_at)
        return await self._arun(proposal, effect, wait_s=wait_s, crash_at=crash)

    def recover(self, *, wait: float | timedelta | None = None) -> Recovery:
        """Settle what a crash left open: call it once on start, after the functions are declared. May also run on a schedule.

        What it costs follows what is open, not what is stored. One effect's failure never stops the others.

        Args:
            wait: seconds to wait for effects that another live sender holds, and for look-ups that lag. By default those are reported
                as IN_FLIGHT, and only short pauses (`settle_after`, a key in use) are waited out.

        Returns:
            One outcome for each effect that was open; `.still_open` and `.ambiguous` want attention.

        Raises:
            ConfigurationError: a declared function or a callback is async, and an event loop runs in this thread (await `arecover`).

        **Durable when** this returns: every outcome but IN_FLIGHT.
        **If the process dies** meanwhile: the next recovery starts over from the record.
        """
        if is_in_loop():
            self._refuse_what_needs_a_loop()
        self._recovered = True
        return _report(self._runner.recover(self.journal.open_effects(), self._find, self._wait_s(wait)))

    async def arecover(self, *, wait: float | timedelta | None = None) -> Recovery:
        """As `recover`, without blocking the event loop."""
        self._recovered = True
        return _report(await self._runner.arecover(self.journal.open_effects(), self._find, self._wait_s(wait)))

    def watch(self, *, every_s: float = 60.0, for_s: float = 0.0, on_change: OnChange | None = None) -> list[Outcome]:
        """See what became of accepted effects: read those that declare `settlement=` again, and record what changed.

        Each is read more rarely the longer nothing happens, and more rarely still once it has settled, but at least once a day until
        its `watch_for=` is over. May run in any number of processes and threads: each change is recorded once. What it costs follows
        what is watched, not what is stored. One effect's failure never stops the others; it is logged, and tried again.

        Args:
            every_s: the shortest pause between two readings of one effect, in seconds. An effect that has just been accepted is found
                within that time.
            for_s: how long to go on, in seconds. By default everything that is due is read once: what this gate has not read yet, or
                not for `every_s`.
            on_change: told the `Outcome` of each change that this call has recorded. If it raises, that is logged and the change
                stays on the record: `settlements()` shows it.

        Returns:
            The changes, in the order in which they were recorded.

        Raises:
            JournalError: the list of what is watched cannot be read.
            ConfigurationError: a time that is none.

        **Durable when** `on_change` is called: the change that it is told.
        **If the process dies** in between, the change is on the record and nobody was told: `settlements()` shows it. If it dies
        before, the next watch reads it again.
        """
        every_s, for_s = self._watch_times(every_s, for_s)
        return self._watcher.watch(every_s=every_s, for_s=for_s, on_change=on_change)

    async def awatch(
        self, *, every_s: float = 60.0, for_s: float = 0.0, on_change: OnChange | None = None
    ) -> list[Outcome]:
        """As `watch`, without blocking the event loop, several effects at a time."""
        every_s, for_s = self._watch_times(every_s, for_s)
        return await self._watcher.awatch(every_s=every_s, for_s=for_s, on_change=on_change)

    def resettle(self, effect_id: str, *, on_change: OnChange | None = None) -> Outcome:
        """Read one accepted effect again now, watched or not, and record what changed: what to do when an event tells of it.

        Args:
            effect_id: `outcome.effect_id`, or what `find` gave.
            on_change: as for `watch`; called only if this very call recorded a change.

        Returns:
            The effect as it stands now. One that has not landed yet, or was reversed for good, is left as it is.

        Raises:
            BadInput: the effect is not on this journal.
            ConfigurationError: its function is not registered, or declares no `settlement=`.
            SettlementUnreadable: the service could not be read, or gave no clear answer; nothing was written.
            JournalError: the journal could not do its part.
        """
        return self._watcher.resettle(effect_id, on_change=on_change)

    async def aresettle(self, effect_id: str, *, on_change: OnChange | None = None) -> Outcome:
        """As `resettle`, without blocking the event loop."""
        return await self._watcher.aresettle(effect_id, on_change=on_change)

    def settlements(self) -> list[Outcome]:
        """The effects that are watched, reversed ones included, each as it stands on the record: `outcome.settlement` says how."""
        return self._watcher.settlements()

    def find(self, reference: str) -> list[str]:
        """Ids of the landed effects that an id of the service's (`references=`) or an idempotency key leads to; often one, or none.

        Knows those that declare `settlement=`; `outcomes()` lists all.
        """
        return self.journal.find(reference)

    def outcomes(self) -> Iterator[Outcome]:
        """Every effect on the journal that is not open, as it stands on the record, oldest first: what nobody can know, or for an audit.

        Needs no function: where an effect's is not declared on this gate, `value` is plain JSON. What is open is for `recover()`. What it
        costs follows what is stored.

        Raises:
            JournalError: the journal, or one effect on it, cannot be read.
        """
        for effect_id in self.journal.effects():
            history = self.journal.load(effect_id)
            state = fold(history)
            if not state.is_open:
                yield outcome_of(history, self._find(state.proposed["effect"]))

    async def adrain(self, *, wait: float | timedelta = 60.0) -> int:
        """Wait for sends that nobody waits for any more, before an event loop ends: their calls were cancelled, or timed out.

        Args:
            wait: seconds to wait at most.

        Returns:
            How many of them still run. What they come to is unknown if the loop ends now; recovery finds out.

        **Durable when** this returns 0: the answers of all of them.
        **If the process dies** meanwhile: the next recovery settles what they left.
        """
        return await self._runner.adrain(seconds("wait", wait, "drain"))

    def close(self) -> None:
        """Give up this gate. Sends that still run keep their claim until they end."""
        self.journal.close()

    @property
    def _watcher(self) -> Watcher:
        """Made when it is first needed: most processes watch nothing, and recovery does not wait for its import."""
        from interlock.watch import Watcher

        with self._lock:
            if self._watching is None:
                self._watching = Watcher(self._runner, self._effects.get)
            return self._watching

    def _find(self, name: str) -> Target | None:
        return self._effects.get(name)

    def _refuse_what_needs_a_loop(self) -> None:
        for effect in self.effects.values():
            if effect.needs_loop:
                raise ConfigurationError(
                    f"effect {effect.name!r}, or a callback of it, is async, and an event loop runs in this thread: recover() would stop "
                    "that loop, and await it on another one, where a client of this one cannot be used. Await gate.arecover() instead."
                )

    @staticmethod
    def _wait_s(wait: float | timedelta | None) -> float:
        return 0.0 if wait is None else seconds("wait", wait, "recover")

    @staticmethod
    def _watch_times(every_s: float, for_s: float) -> tuple[float, float]:
        return seconds("every_s", every_s, "watch", positive=True), seconds("for_s", for_s, "watch")

    def _admit(
        self, proposal: Proposal, wait: float | timedelta | None, before: bool, after: bool, crash_at: str
    ) -> tuple[EffectFunction[Any], Proposal, float, str]:
        if not isinstance(proposal, Proposal):
            raise BadInput(
                f"submit() takes a proposal, as fn.proposal(...) makes one, not {type(proposal).__name__}. "
                "One that was kept as JSON: Proposal.from_dict(...), of what to_dict() gave."
            )
        effect = self._effects.get(proposal.effect)
        if effect is None:
            raise BadInput(
                f"no function is declared as effect {proposal.effect!r} on this gate. Declared: {', '.join(self._effects) or 'none'}."
            )
        proposal = effect.readmit(proposal)
        wait_s = effect.wait_s if wait is None else seconds("wait", wait, effect.name)
        crash = "after_dispatch" if before else "after_send" if after else crash_at
        if crash and crash not in CRASH_POINTS:
            raise ConfigurationError(f"crash_at= is {crash!r}; the crash points are: {', '.join(CRASH_POINTS)}.")
        return effect, proposal, wait_s, crash

    def _run(self, proposal: Proposal, target: Any, *, wait_s: float, crash_at: str = "") -> Outcome:
        if not self._recovered:
            self._warn_unrecovered()
        protocol = submit(proposal, target, clock=self.clock, patience=Patience(self.clock, wait_s))
        return self._runner.run(protocol, target, crash_at=crash_at)

    def _arun(self, proposal: Proposal, target: Any, *, wait_s: float, crash_at: str = "") -> Awaitable[Outcome]:
        if not self._recovered:
            self._warn_unrecovered()
        protocol = submit(proposal, target, clock=self.clock, patience=Patience(self.clock, wait_s))
        return self._runner.arun(protocol, target, crash_at=crash_at)

    def _warn_unrecovered(self) -> None:
        self._recovered = True
        log.warning(
            "recover() has not been called on this gate. What a crash left open is settled only when somebody asks for that effect "
            "again. Call gate.recover() once on start."
        )


def place_of(journal: Journal) -> str:
    """Where a journal is, for people: its absolute directory, or what kind of journal it is."""
    return str(journal.directory) if isinstance(journal, SQLiteJournal) else type(journal).__name__


def _report(outcomes: Sequence[Outcome]) -> Recovery:
    report = Recovery(outcomes)
    for outcome in report:
        if outcome.reason in (Reason.NO_FUNCTION, Reason.RECOVERY_ERROR):
            continue  # told when it was found, with what to do
        if outcome.reason == Reason.SENDER_ALIVE:
            log.info("%s %r is left to its live sender", outcome.effect, outcome.key)
        elif outcome.status == "IN_FLIGHT":
            why = f": {outcome.detail}" if outcome.detail else ""
            log.warning("%s %r is still open: %s%s", outcome.effect, outcome.key, outcome, why)
        else:
            level = logging.WARNING if outcome.status == "AMBIGUOUS" else logging.INFO
            log.log(level, "recovered %s %r: %s", outcome.effect, outcome.key, outcome)
    return report
