"""The journal in memory: the reference model that every backend is compared with, and the store of the simulator.

Nothing here survives the process. Each `MemoryJournal` object is one worker; several of them on one `store` are several workers.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import threading
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from interlock.effects import Entry
from interlock.errors import ConfigurationError, JournalError, JournalUnavailable
from interlock.journal._base import BUDGET, WATCHING, Denied, Journal, Prepared, link_hash, watched_after
from interlock.journal._group import NESTED
from interlock.ports import Liveness
from interlock.rules.budgets import HOLDERS_TOLD, Holder, Shortfall, has_room
from interlock.settlement import Watched, watch_of

_numbers = itertools.count(1)


@dataclass
class MemoryStore:
    """What several workers share.

    Attributes:
        order: every entry with its journal-wide link, in order.
        effects: entries by effect.
        places: the order in which effects were first proposed.
        open: place and name of each open effect.
        workers: every worker by id.
        reservations: by budget key, then by effect, who holds how much.
        watched: the row of each effect that was ever watched.
        horizons: (end of its watch, effect id) of each, in that order.
        references: (the service's id, effect id), in that order.
        is_writing: whether a write is under way. The lock lets in a signal handler that comes in the middle of one.
    """

    order: list[tuple[Entry, str]] = field(default_factory=list)
    effects: dict[str, list[Entry]] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    open: dict[str, tuple[int, str]] = field(default_factory=dict)
    workers: dict[str, MemoryJournal] = field(default_factory=dict)
    reservations: dict[str, dict[str, Holder]] = field(default_factory=dict)
    watched: dict[str, Watched] = field(default_factory=dict)
    horizons: list[tuple[str, str]] = field(default_factory=list)
    references: list[tuple[str, str]] = field(default_factory=list)
    is_writing: bool = False
    lock: threading.RLock = field(default_factory=threading.RLock)


class MemoryJournal(Journal):
    """A journal in memory.

    Args:
        store: shared with other workers; by default a new one.
    """

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = store if store is not None else MemoryStore()
        self._worker = f"memory-{next(_numbers)}"
        self._sending: dict[tuple[str, int], frozenset[Hashable]] = {}
        self._ended: dict[tuple[str, int], bool] = {}
        self._fate: Liveness | None = None
        self._closing = False
        self.store.workers[self._worker] = self

    @property
    def worker(self) -> str:
        """The id of this worker."""
        with self.store.lock:
            if not self._sending:
                self._check_usable()
        return self._worker

    def die(self) -> None:
        """For tests: be dead, with something possibly in flight, as after SIGKILL."""
        self._fate = Liveness.GONE

    def cut_off(self) -> None:
        """For tests: be out of sight, possibly alive."""
        self._fate = Liveness.CUT_OFF

    def begin_send(self, effect_id: str, n: int, call: Hashable = None) -> None:
        """As the base says."""
        with self.store.lock:
            self._check_usable()
            place = (effect_id, n)
            self._sending[place] = self._sending.get(place, frozenset()) | {call}

    def end_send(
        self, effect_id: str, n: int, call: Hashable = None, *, answered: bool, in_flight: bool = True
    ) -> None:
        """As the base says."""
        with self.store.lock:
            place = (effect_id, n)
            calls = self._sending.get(place, frozenset())
            if call not in calls:
                return
            if not answered:
                self._ended[place] = in_flight or self._ended.get(place, False)
            if len(calls) > 1:
                self._sending[place] = calls - {call}
            else:
                del self._sending[place]
            if self._closing and not self._sending and self._fate is None:
                self._fate = Liveness.GONE

    def abandon(self) -> None:
        """As the base says."""
        with self.store.lock:
            self._fate = Liveness.ENDED
            self._sending.clear()

    def close(self) -> None:
        """As the base says."""
        with self.store.lock:
            self._closing = True
            if not self._sending and self._fate is None:
                self._fate = Liveness.GONE

    def _check_usable(self, effect_id: str | None = None) -> None:
        """Be usable; once closed, only for an effect whose send is still running."""
        if self._fate is Liveness.ENDED or (
            self._closing and not any(effect_id == sending for sending, _ in self._sending)
        ):
            raise JournalError("this journal was closed, or its worker died in a simulated crash; open a new one.")

    def _read(self, effect_id: str) -> Sequence[tuple[bytes, str]]:
        with self.store.lock:
            self._check_usable(effect_id)
            return [(entry.body, entry.hash) for entry in self.store.effects.get(effect_id, ())]

    def _commit(self, prepared: Prepared) -> bool:
        for guard in prepared.guards:
            if guard.kind != BUDGET:
                raise ConfigurationError(f"this journal does not know the guard {guard.kind!r}; nothing was written.")
        store = self.store
        with store.lock:
            self._check_usable(prepared.effect_id)
            if store.is_writing:  # this very thread
                raise JournalUnavailable(NESTED)
            try:
                store.is_writing = True
                return self._write(prepared)
            finally:
                store.is_writing = False

    def _write(self, prepared: Prepared) -> bool:
        store = self.store
        entries = store.effects.get(prepared.effect_id, [])
        if (entries[-1].hash if entries else "") != prepared.expected_head:
            return False
        self._reserve(prepared)
        for entry in prepared.entries:
            link = link_hash(store.order[-1][1] if store.order else "", entry.hash)
            store.order.append((entry, link))
        store.effects[prepared.effect_id] = [*entries, *prepared.entries]
        place = store.places.setdefault(prepared.effect_id, len(store.places))
        if prepared.is_open:
            store.open[prepared.effect_id] = (place, prepared.name)
        else:
            store.open.pop(prepared.effect_id, None)
        for entry in prepared.entries:
            if entry.kind in WATCHING:
                self._watch(entry, prepared.name)
        return True

    def _watch(self, entry: Entry, name: str) -> None:
        """Keep the list of watched effects and the index of references with an entry."""
        store, effect_id = self.store, entry.effect_id
        row = watched_after(entry, name, store.watched.get(effect_id))
        if row is not None:
            store.watched[effect_id] = row
        watch = watch_of(entry)
        if watch is not None:
            bisect.insort(store.horizons, (watch.until, effect_id))
            for reference in watch.references:
                bisect.insort(store.references, (reference, effect_id))

    def _reserve(self, prepared: Prepared) -> None:
        """Judge the guards, then give back and take what the write says."""
        if not (prepared.guards or prepared.releases or prepared.reserves):
            return
        budgets = self.store.reservations
        shortfalls = []
        for guard in prepared.guards:
            budget, limit, amount = guard.data["key"], guard.data["limit"], guard.data["amount"]
            others = {who: holder for who, holder in budgets.get(budget, {}).items() if who != prepared.effect_id}
            held = sum(holder.amount for holder in others.values())
            if not has_room(limit=limit, amount=amount, held=held):
                greatest = sorted(others.items(), key=lambda item: (-item[1].amount, item[0]))
                told = tuple(holder for _, holder in greatest[:HOLDERS_TOLD])
                shortfalls.append(Shortfall(budget, limit, amount, held, told, len(others) - len(told)))
        if shortfalls:
            raise Denied(shortfalls)
        for budget, _ in prepared.releases:
            budgets[budget].pop(prepared.effect_id, None)
            if not budgets[budget]:
                del budgets[budget]
        for budget, amount in prepared.reserves:
            budgets.setdefault(budget, {})[prepared.effect_id] = Holder(prepared.name, prepared.key, amount)

    async def _commit_async(self, prepared: Prepared) -> bool:
        return self._commit(prepared)

    def _open_ids(self) -> list[tuple[str, str]]:
        with self.store.lock:
            self._check_usable()
            listed = sorted((place, effect_id, name) for effect_id, (place, name) in self.store.open.items())
        return [(effect_id, name) for _, effect_id, name in listed]

    def _watched(self, after: str) -> list[Watched]:
        with self.store.lock:
            self._check_usable()
            first = bisect.bisect_right(self.store.horizons, after, key=lambda horizon: horizon[0])
            return [self.store.watched[effect_id] for _, effect_id in self.store.horizons[first:]]

    def _find(self, reference: str) -> list[str]:
        with self.store.lock:
            self._check_usable()
            references = self.store.references
            first = bisect.bisect_left(references, reference, key=lambda pair: pair[0])
            last = bisect.bisect_right(references, reference, key=lambda pair: pair[0])
            return [effect_id for _, effect_id in references[first:last]]

    def _references(self) -> list[tuple[str, str]]:
        with self.store.lock:
            return list(self.store.references)

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[None]:
        with self.store.lock:
            yield

    def _scan(self) -> Iterator[tuple[str, bytes, str, str]]:
        with self.store.lock:
            self._check_usable()
            order = list(self.store.order)
        for entry, link in order:
            yield entry.effect_id, entry.body, entry.hash, link

    def _reservations(self) -> tuple[list[tuple[str, str, int]], dict[str, int]]:
        with self.store.lock:
            listed = [
                (budget, effect_id, holder.amount)
                for budget, holders in self.store.reservations.items()
                for effect_id, holder in holders.items()
            ]
        sums: dict[str, int] = {}
        for budget, _, amount in listed:
            sums[budget] = sums.get(budget, 0) + amount
        return listed, sums

    def _check_heads(self, heads: dict[str, str]) -> list[str]:
        with self.store.lock:
            known = {effect_id: entries[-1].hash for effect_id, entries in self.store.effects.items()}
        return [] if known == heads else ["the index of effects does not agree with the entries"]

    def _liveness(self, worker: str, effect_id: str, n: int) -> Liveness:
        with self.store.lock:
            self._check_usable()
            other = self.store.workers.get(worker)
            if other is None:
                return Liveness.CUT_OFF
            place = (effect_id, n)
            if other._fate is Liveness.GONE and not other._ended.get(place, True):
                return Liveness.ENDED  # it said so before it was gone
            if other._fate is not None:
                return other._fate
            if place in other._sending:
                return Liveness.ALIVE
            return Liveness.GONE if other._ended.get(place, True) else Liveness.ENDED
