"""Watching accepted effects: read the service again, and write down what became of them. A bounded poller, and the re-read of one.

    load -> read the service -> is it news? -> append (if the history has not moved; else begin again)

`resettle` is a generator of steps like those of the protocol, so a test can stop it wherever a process can die. An entry is written
only if nothing was written since the history was read, so of two watchers one writes a change, and the other reads again and finds no
news. What a death loses is a reading, and the next one gets it again.

A watcher keeps in memory when it read each effect last; after a restart every effect is due once, at once. What is watched is the
journal's to say.
This module must not know how effects are declared, or any service.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from interlock.effects import Draft, Entry, History, Kind
from interlock.errors import BadInput, ConfigurationError
from interlock.gate import RECOVER_AT_ONCE, Runner, resolve
from interlock.outcomes import Outcome
from interlock.ports import Target
from interlock.protocol import Append, Load, outcome_of, rfc3339
from interlock.record import NamedTuple
from interlock.rules.lifecycle import LANDED, fold
from interlock.rules.values import encode_result, raised_in, storable
from interlock.settlement import Settlement, SettlementState, Watched, entry_for, pause_s

log = logging.getLogger("interlock")

OnChange = Callable[[Outcome], Any]
"""Told of each change, after it is on the record. May be async where the watcher is."""


class SettlingTarget(Target, Protocol):
    """The target of an effect that may declare settlement."""

    @property
    def watch_for_s(self) -> float:
        """How long an accepted effect is watched, in seconds; 0 if it declares no settlement."""

    def read_settlement(self, payload: Mapping[str, Any], idempotency_key: str, written: Any) -> Any:
        """What became of it: a `Settlement`, None, or an awaitable of one. Raises `SettlementUnreadable`."""


Find = Callable[[str], SettlingTarget | None]


class ReadSettlement(NamedTuple):
    """Ask the service what became of an accepted effect. Answer: a `Settlement` or None; raises `SettlementUnreadable`."""

    payload: Mapping[str, Any]
    idempotency_key: str
    written: Any


class Reading(NamedTuple):
    """What reading an effect again came to: its history, and whether this very reading wrote something."""

    history: History
    is_news: bool


SettlementStep = Load | ReadSettlement | Append


def resettle(effect_id: str, *, now: Callable[[], datetime]) -> Generator[SettlementStep, Any, Reading]:
    """Read one effect again, and record what is news. An effect that has not landed, or was reversed, is left as it is.

    **Durable when** this returns: what the service said, if it was news.
    **If the process dies** meanwhile: nothing or all of it is recorded; the next reading starts over.
    """
    while True:
        history: History = yield Load(effect_id)
        if history.kind not in LANDED or history.kind is Kind.REVERSED:
            return Reading(history, False)
        sent = _as_sent(history)
        found: Settlement | None = yield ReadSettlement(sent.payload, sent.key, sent.written)
        kind = entry_for(history, found)
        if kind is None or found is None:
            return Reading(history, False)
        data = {"reason": storable(found.reason), "evidence": encode_result(found.evidence)}
        written: History | None = yield Append(history, (Draft(kind, rfc3339(now()), data),))
        if written is not None:
            return Reading(written, True)


class _Sent(NamedTuple):
    payload: Mapping[str, Any]
    key: str
    written: Any


def _as_sent(history: History) -> _Sent:
    """What was sent last, under which key, and what came back."""
    payload: Mapping[str, Any] = {}
    sent: Mapping[str, Any] = {}
    key, written = history.effect_id, None
    entry: Entry
    for entry in history.entries:
        if entry.kind is Kind.PROPOSED:
            payload = entry.data["payload"]
        elif entry.kind is Kind.DISPATCHED:
            sent, key = payload, entry.data["key"]
        elif entry.kind is Kind.COMMITTED:
            written = entry.data["value"]
    return _Sent(sent, key, written)


@dataclass
class _Last:
    """When a watcher read an effect last, by its uptime, and how often in a row that has failed."""

    read_s: float
    failures: int = 0


@dataclass
class Watcher:
    """Reads effects again, one or all that are due.

    Attributes:
        runner: the gate's.
        find: the function of an effect, by its name.
    """

    runner: Runner
    find: Find
    _last: dict[str, _Last] = field(default_factory=dict)

    def resettle(self, effect_id: str, *, on_change: OnChange | None = None) -> Outcome:
        """Read one effect again now. As `Interlock.resettle`."""
        target = self._target_of(effect_id)
        run = resettle(effect_id, now=self.runner.clock.now)
        answer: Any = None
        try:
            while True:
                step = run.send(answer)
                if isinstance(step, Load):
                    answer = self.runner.load(step.effect_id)
                elif isinstance(step, ReadSettlement):
                    answer = resolve(target.read_settlement(*step))
                else:
                    answer = self.runner.journal.append(step.history, step.drafts)
        except StopIteration as stop:
            reading: Reading = stop.value
        outcome = outcome_of(reading.history, target)
        if reading.is_news:
            self._tell(outcome, on_change)
        return outcome

    async def aresettle(self, effect_id: str, *, on_change: OnChange | None = None) -> Outcome:
        """As `resettle`, without blocking the event loop."""
        target = await asyncio.to_thread(self._target_of, effect_id)
        run = resettle(effect_id, now=self.runner.clock.now)
        answer: Any = None
        try:
            while True:
                step = run.send(answer)
                if isinstance(step, Load):
                    answer = self.runner.load(step.effect_id)
                elif isinstance(step, ReadSettlement):
                    is_async = target.is_async("settlement")
                    answer = (
                        target.read_settlement(*step)
                        if is_async
                        else await asyncio.to_thread(target.read_settlement, *step)
                    )
                    answer = await answer if inspect.isawaitable(answer) else answer
                else:
                    answer = await self.runner.journal.append_async(step.history, step.drafts)
        except StopIteration as stop:
            reading: Reading = stop.value
        outcome = outcome_of(reading.history, target)
        if reading.is_news:
            await self._atell(outcome, on_change)
        return outcome

    def watch(self, *, every_s: float, for_s: float, on_change: OnChange | None) -> list[Outcome]:
        """Read what is due until `for_s` is over, at least once. As `Interlock.watch`."""
        changes: list[Outcome] = []
        end = self._uptime_s() + for_s
        while True:
            for row in self._rows_due(every_s):
                try:
                    self.resettle(row.effect_id, on_change=_noting(changes, on_change))
                except Exception as error:  # noqa: BLE001 - one effect's failure never stops the others
                    self._was_read(row, error)
                else:
                    self._was_read(row, None)
            left_s = end - self._uptime_s()
            if left_s <= 0:
                return changes
            # Every pause is at least every_s, and others may land meanwhile.
            self.runner.clock.sleep(min(every_s, left_s))

    async def awatch(self, *, every_s: float, for_s: float, on_change: OnChange | None) -> list[Outcome]:
        """As `watch`, without blocking the event loop, several effects at a time."""
        changes: list[Outcome] = []
        limit = asyncio.Semaphore(RECOVER_AT_ONCE)

        async def one(row: Watched) -> None:
            async with limit:
                try:
                    await self.aresettle(row.effect_id, on_change=_noting(changes, on_change))
                except Exception as error:  # noqa: BLE001 - one effect's failure never stops the others
                    self._was_read(row, error)
                else:
                    self._was_read(row, None)

        end = self._uptime_s() + for_s
        while True:
            await asyncio.gather(*(one(row) for row in await asyncio.to_thread(self._rows_due, every_s)))
            left_s = end - self._uptime_s()
            if left_s <= 0:
                return changes
            await self.runner.clock.asleep(min(every_s, left_s))

    def settlements(self) -> list[Outcome]:
        """Every effect within its horizon, as it stands. As `Interlock.settlements`."""
        return [outcome_of(self.runner.journal.load(row.effect_id), self.find(row.name)) for row in self._rows()]

    def _rows(self) -> list[Watched]:
        return self.runner.journal.watched(after=rfc3339(self.runner.clock.now()))

    def _rows_due(self, every_s: float) -> list[Watched]:
        """Those within their horizon that are to be read now. What is no longer watched is forgotten."""
        rows = [row for row in self._rows() if row.state != SettlementState.REVERSED]
        last = {row.effect_id: self._last[row.effect_id] for row in rows if row.effect_id in self._last}
        self._last = last
        now, now_s = self.runner.clock.now(), self._uptime_s()
        due = []
        for row in rows:
            read = last.get(row.effect_id)
            if read is not None:
                quiet_s = max((now - datetime.fromisoformat(row.since)).total_seconds(), 0.0)
                pause = pause_s(row.state, quiet_s=quiet_s, every_s=every_s)
                pause = max(pause, every_s * 2 ** min(read.failures, 6)) if read.failures else pause
                if read.read_s + pause > now_s:
                    continue
            due.append(row)
        return due

    def _was_read(self, row: Watched, error: Exception | None) -> None:
        """Remember when an effect was read; a reading that failed is told, and tried again more rarely each time."""
        last = self._last.setdefault(row.effect_id, _Last(0.0))
        last.read_s = self._uptime_s()
        last.failures = 0 if error is None else last.failures + 1
        if error is not None:
            log.error(
                "effect %s of %r is watched and could not be read again; it stays watched: %s",
                row.effect_id,
                row.name,
                raised_in(error),
            )
            log.debug("effect %s: the traceback of that", row.effect_id, exc_info=error)

    def _uptime_s(self) -> float:
        return self.runner.clock.uptime().seconds

    def _target_of(self, effect_id: str) -> SettlingTarget:
        history = self.runner.load(effect_id)
        if not history.entries:
            raise BadInput(f"effect {effect_id!r} is not on this journal.")
        name = fold(history).proposed["effect"]
        target = self.find(name)
        if target is None:
            raise ConfigurationError(
                f"effect {effect_id} is one of {name!r}, but no function of that name is registered, so it cannot be read again. "
                f"Register it under that name (name={name!r})."
            )
        if not target.watch_for_s:
            raise ConfigurationError(
                f"effect {effect_id} is one of {name!r}, which declares no settlement=, so there is nothing to read again."
            )
        return target

    @staticmethod
    def _tell(outcome: Outcome, on_change: OnChange | None) -> None:
        try:
            if on_change is not None:
                resolve(on_change(outcome))
        except Exception as error:  # noqa: BLE001 - the change is on the record, whatever the hook makes of it
            _hook_failed(outcome, error)

    @staticmethod
    async def _atell(outcome: Outcome, on_change: OnChange | None) -> None:
        try:
            told = on_change(outcome) if on_change is not None else None
            if inspect.isawaitable(told):
                await told
        except Exception as error:  # noqa: BLE001 - the change is on the record, whatever the hook makes of it
            _hook_failed(outcome, error)


def _noting(changes: list[Outcome], on_change: OnChange | None) -> OnChange:
    def note(outcome: Outcome) -> Any:
        changes.append(outcome)
        return on_change(outcome) if on_change is not None else None

    return note


def _hook_failed(outcome: Outcome, error: Exception) -> None:
    log.error(
        "%s %r is now %s, which is on the record, but on_change= raised %s. gate.settlements() shows it again.",
        outcome.effect,
        outcome.key,
        outcome.settlement,
        raised_in(error),
    )
    log.debug("%s %r: the traceback of on_change=", outcome.effect, outcome.key, exc_info=error)
