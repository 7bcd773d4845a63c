"""The journal's promises. Public verbs are final and keep the invariants; a backend fills a few primitives.

    writer A   load(history of 0) ---- append(PROPOSED, AUTHORIZED, DISPATCHED | head is "") ---> written, durable; A sends
    writer B   load(history of 0) ------------- append(... | head is "") ---> None: history moved, B must look again

The one lock is that conditional append: "the head of this effect is still the one I read", decided and made durable in one
transaction together with the claim (the worker named in DISPATCHED) and whatever else must be true (`Guard`). An entry's
bytes are built before the transaction, since they depend only on the history that was read; the journal-wide link is added in it.

This module must not know what a target or a premise is.
"""

from __future__ import annotations

import abc
import contextlib
import json
import sys
from collections.abc import Hashable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, final

from pydantic_core import PydanticSerializationError, from_json, to_json

from interlock.effects import FORMAT_VERSION, Draft, Entry, History, Kind
from interlock.errors import BadInput, JournalCorrupt, JournalError, JournalTooNew
from interlock.ports import Liveness
from interlock.record import NamedTuple
from interlock.rules.budgets import STANDS_AFTER, Shortfall, asked, reserved
from interlock.rules.lifecycle import OPEN, TRANSITIONS, check_transition
from interlock.settlement import ACCEPTED, STATE_OF, Watched, watch_of

_decode = json.JSONDecoder().decode
_HOLDS = "budget"
"""Where an entry names the budgets that it is about."""


class Guard(NamedTuple):
    """A further condition of a write, decided in the same transaction: a budget to reserve, an approval to use up.

    Attributes:
        kind: which rule the backend applies.
        data: what that rule needs.
    """

    kind: str
    data: dict[str, Any]


BUDGET = "budget"
"""The kind of guard that reserves a budget: `data` is `Budget.to_json()`, as the DISPATCHED entry of the same write has it."""


class Denied(Exception):
    """A guard said no: nothing was written, though the history had not moved. Between journal and gate only; callers get an outcome.

    Attributes:
        shortfalls: each budget without room, and who holds it.
    """

    def __init__(self, shortfalls: Sequence[Shortfall]) -> None:
        super().__init__(" ".join(map(str, shortfalls)))
        self.shortfalls = tuple(shortfalls)


class Prepared(NamedTuple):
    """A conditional write, ready to be stored. What a backend gets.

    Attributes:
        effect_id: the effect.
        name: name of the effect, so that open effects can be listed by function.
        expected_head: hash of the last entry the writer has read, empty for an unknown effect. The condition.
        entries: the new entries, in order, with their bytes and hashes.
        is_open: whether the effect still needs somebody after this write.
        sends: whether its writer sends once this is written: the last entry is DISPATCHED.
        guards: further conditions; a backend that does not know a guard's kind must raise, never ignore it.
        releases: (budget key, amount) of each reservation that this write ends. Stored with the entries, or not at all.
        reserves: likewise those that it begins, with or without a guard: what landed after all holds its budget, room or not.
        key: business key of the effect, to name it as a holder.
        held: what it held before this write, by budget key; no guard counts that against it.
    """

    effect_id: str
    name: str
    expected_head: str
    entries: tuple[Entry, ...]
    is_open: bool
    sends: bool = False
    guards: tuple[Guard, ...] = ()
    releases: tuple[tuple[str, int], ...] = ()
    reserves: tuple[tuple[str, int], ...] = ()
    key: str = ""
    held: Mapping[str, int] = {}


WATCHING = frozenset({Kind.COMMITTED, *STATE_OF})
"""The kinds of entry that can change the list of watched effects."""


def watched_after(entry: Entry, name: str, before: Watched | None) -> Watched | None:
    """The row of an effect in the list of watched effects once an entry of one of the kinds in `WATCHING` was written.

    Args:
        entry: the new entry.
        name: name of the effect.
        before: its row so far; None for an effect that is not watched, and settlement entries alone do not change that.
    """
    watch = watch_of(entry)
    if watch is not None:
        return Watched(entry.effect_id, name, watch.until, ACCEPTED, entry.at)
    return before if before is None else before._replace(state=STATE_OF.get(entry.kind, before.state), since=entry.at)


class Verification(NamedTuple):
    """What `Journal.verify` found.

    Attributes:
        entries: how many entries were read.
        effects: how many effects they belong to.
        problems: one sentence each; empty means that what is stored is what was written, in that order. An unsigned
            chain shows damage and careless edits. It does not show a rewrite of the whole, or a cut-off tail.
        head: the journal-wide link after the last entry, hex; write it down elsewhere to notice a cut-off tail.
    """

    entries: int
    effects: int
    problems: tuple[str, ...]
    head: str

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.problems


def link_hash(previous: str, entry_hash: str) -> str:
    """The journal-wide link: SHA-256 over the previous link and this entry's hash (both as hex text)."""
    return sha256((previous + entry_hash).encode("ascii")).hexdigest()


def read_entry(body: bytes, stored_hash: str, *, expected_prev: str | None) -> Entry:
    """An entry from its stored bytes.

    Args:
        body: the bytes as stored.
        stored_hash: the hash stored beside them.
        expected_prev: hash of the effect's entry before it, empty for the first; None to leave that unchecked.

    Raises:
        JournalCorrupt: the bytes are not those that were hashed, or do not follow the entry before.
        JournalTooNew: a later version wrote them.
    """
    if sha256(body).hexdigest() != stored_hash:
        raise JournalCorrupt(
            f"an entry's bytes do not match its hash {stored_hash[:12]}: it was damaged or edited. "
            "Nothing was sent. Run `gate.journal.verify()`, and restore the journal from a copy that verifies."
        )
    try:
        fields = _decode(body.decode("utf-8"))
        version = fields["v"]
        if version > FORMAT_VERSION:
            raise JournalTooNew(
                f"an entry has format {version}, and this version reads up to {FORMAT_VERSION}. "
                "Upgrade interlock-gate in every process that shares this journal. Nothing was sent."
            )
        prev = fields["prev"]
        entry = Entry(
            fields["id"],
            fields["n"],
            Kind(fields["kind"]),
            fields["at"],
            fields["by"],
            fields["data"],
            body,
            stored_hash,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise JournalCorrupt(
            f"entry {stored_hash[:12]} cannot be read ({type(error).__name__}: {error}). Nothing was sent. "
            "Restore the journal from a copy that verifies."
        ) from error
    if expected_prev is not None and prev != expected_prev:
        raise JournalCorrupt(
            f"effect {entry.effect_id}: entry {entry.n} does not follow the one stored before it: an entry was removed or "
            "put in. Nothing was sent. Restore the journal from a copy that verifies."
        )
    return entry


def _holds_budgets(known: Sequence[Entry], entries: Sequence[Entry]) -> bool:
    for some in (known, entries):
        for entry in some:
            if _HOLDS in entry.data:
                return True
    return False


class Journal(abc.ABC):
    """An append-only record of effects, with one conditional write and proven liveness of its writers.

    A backend fills `_read`, `_commit`, `_commit_async`, `_open_ids`, `_scan`, `_liveness`, and the worker primitives.
    Appends and look-ups cost the same however long the journal is. Every method may be called from any thread.
    """

    @property
    @abc.abstractmethod
    def worker(self) -> str:
        """The id of this worker: of this journal object in this process. A forked child has one of its own."""

    @final
    def load(self, effect_id: str) -> History:
        """All that is known of one effect.

        Raises:
            JournalCorrupt: bytes or chain do not agree.
            JournalTooNew: a later version wrote it.
            JournalUnavailable: it cannot be read now.
        """
        entries: list[Entry] = []
        prev = ""
        before: Kind | None = None
        for body, stored_hash in self._read(effect_id):
            entry = read_entry(body, stored_hash, expected_prev=prev)
            if entry.effect_id != effect_id or entry.n != len(entries):
                raise JournalCorrupt(
                    f"effect {effect_id}: entry {len(entries)} is stored as {entry.effect_id} #{entry.n}. Nothing was sent. "
                    "Restore the journal from a copy that verifies."
                )
            check_transition(before, entry.kind, effect_id=effect_id)
            entries.append(entry)
            prev, before = stored_hash, entry.kind
        return History(effect_id, tuple(entries))

    @final
    def presume(self, effect_id: str) -> History:
        """As `load`, but an effect that this process knows nothing of may be taken for new without a look at what is stored.

        Good for nothing but an append, which is refused if the effect is not new: so a new effect costs no look-up of its own.
        """
        return History(effect_id) if self._is_presumably_new(effect_id) else self.load(effect_id)

    @final
    def append(self, history: History, drafts: Sequence[Draft], *, guards: Sequence[Guard] = ()) -> History | None:
        """Write entries if the effect's history is still the one given; decide and store it as one.

        Returns:
            The history with the new entries, or None if it had moved (nothing was written).

        Raises:
            Denied: the history had not moved, and a guard does not hold; nothing was written.
            BadInput: the budgets of a DISPATCHED entry are not those of the guards.
            IllegalTransition: an entry may not follow the one before it.
            JournalUnavailable: it could not be made durable; nothing counts as written.

        **Durable when** this returns a history: on disk, for SQLite with synchronous=FULL.
        **If the process dies** before: all of the entries are there, or none.
        """
        prepared = self._prepare(history, drafts, guards)
        return History(history.effect_id, history.entries + prepared.entries) if self._commit(prepared) else None

    @final
    async def append_async(
        self, history: History, drafts: Sequence[Draft], *, guards: Sequence[Guard] = ()
    ) -> History | None:
        """As `append`, without blocking the event loop."""
        prepared = self._prepare(history, drafts, guards)
        is_stored = await self._commit_async(prepared)
        return History(history.effect_id, history.entries + prepared.entries) if is_stored else None

    @final
    def open_effects(self) -> list[tuple[str, str]]:
        """(effect id, effect name) of every effect that still needs somebody, oldest first. Costs what is open, not what is stored."""
        return self._open_ids()

    @final
    def effects(self) -> Iterator[str]:
        """Effect ids of all there are, open or not, oldest first. Costs what is stored; what others add meanwhile comes last."""
        listed: set[str] = set()
        for effect_id, *_ in self._scan():
            if effect_id not in listed:
                listed.add(effect_id)
                yield effect_id

    @final
    def watched(self, *, after: str = "") -> list[Watched]:
        """Effects whose settlement is watched until later than `after` (RFC 3339 text, UTC), the first to end first.

        Costs what it lists, not what is stored. Those that were reversed are listed too, until their watch ends.
        """
        return self._watched(after)

    @final
    def find(self, reference: str) -> list[str]:
        """Effect ids of the landed effects that an id of the service's refers to, in the order of their text. Costs what it finds."""
        return self._find(reference)

    @final
    def liveness(self, worker: str, effect_id: str, n: int) -> Liveness:
        """What can be proven about the worker that wrote entry `n` (DISPATCHED) of that effect."""
        return self._liveness(worker, effect_id, n)

    @final
    def verify(self) -> Verification:
        """Read everything and check bytes, both chains, the order of entries, and the list of open effects.

        What others write meanwhile is not seen; they are not held up.
        """
        with self._snapshot():
            return self._verify()

    def _verify(self) -> Verification:
        problems: list[str] = []
        heads: dict[str, tuple[str, int, Kind]] = {}
        names: dict[str, str] = {}
        watched: dict[str, Watched] = {}
        found_by: set[tuple[str, str]] = set()
        sent: dict[str, dict[str, int]] = {}
        link = ""
        count = 0
        for effect_id, body, stored_hash, stored_link in self._readable(problems):
            count += 1
            link = link_hash(link, stored_hash)
            if stored_link != link:
                problems.append(f"entry {count} of the journal is not linked to the one before it")
                link = stored_link
            prev, n, before = heads.get(effect_id, ("", 0, None))
            try:
                entry = read_entry(body, stored_hash, expected_prev=prev)
                if entry.effect_id != effect_id or entry.n != n:
                    problems.append(
                        f"entry {count} is stored under {effect_id} #{n} but says {entry.effect_id} #{entry.n}"
                    )
                check_transition(before, entry.kind, effect_id=effect_id)
                heads[effect_id] = (stored_hash, n + 1, entry.kind)
                if entry.kind is Kind.DISPATCHED and (before is not Kind.DISPATCHED or _HOLDS in entry.data):
                    sent.pop(effect_id, None)
                    if _HOLDS in entry.data:
                        sent[effect_id] = asked(entry.data)
                if n == 0:
                    names[effect_id] = sys.intern(str(entry.data.get("effect", "")))
                if entry.kind in WATCHING:
                    now = watched_after(entry, names.get(effect_id, ""), watched.get(effect_id))
                    if now is not None:
                        watched[effect_id] = now
                    watch = watch_of(entry)
                    found_by.update((reference, effect_id) for reference in (watch.references if watch else ()))
            except Exception as error:  # noqa: BLE001 - every defect becomes a sentence; verify never stops at the first
                problems.append(f"entry {count}: {error}")
                heads[effect_id] = (stored_hash, n + 1, before or Kind.PROPOSED)
        try:
            problems += self._check_index(heads, names)
            problems += self._check_watched(watched, found_by)
            problems += self._check_reservations(
                {
                    (budget, effect_id, amount)
                    for effect_id, budgets in sent.items()
                    if heads[effect_id][2] in STANDS_AFTER
                    for budget, amount in budgets.items()
                }
            )
        except JournalCorrupt as error:
            problems.append(f"the index of effects cannot be read: {error}")
        return Verification(count, len(heads), tuple(problems), link)

    def _readable(self, problems: list[str]) -> Iterator[tuple[str, bytes, str, str]]:
        """What can be read of the journal; that the rest cannot is a problem, not the end of the check."""
        try:
            yield from self._scan()
        except JournalCorrupt as error:
            problems.append(f"the journal cannot be read to its end: {error}")

    def _check_index(self, heads: Mapping[str, tuple[str, int, Kind]], names: Mapping[str, str]) -> list[str]:
        problems: list[str] = []
        expected = {effect_id for effect_id, (_, _, kind) in heads.items() if kind in OPEN}
        listed = dict(self._open_ids())
        problems += [
            f"effect {effect_id} is open but not listed as open" for effect_id in sorted(expected - listed.keys())
        ]
        problems += [
            f"effect {effect_id} is listed as open but is not" for effect_id in sorted(listed.keys() - expected)
        ]
        problems += [
            f"effect {effect_id} is listed as one of {listed[effect_id]!r}, but was proposed as one of {names[effect_id]!r}"
            for effect_id in sorted(expected & listed.keys() & names.keys())
            if listed[effect_id] != names[effect_id]
        ]
        return problems + self._check_heads({effect_id: head for effect_id, (head, _, _) in heads.items()})

    def _check_reservations(self, expected: set[tuple[str, str, int]]) -> list[str]:
        stored, sums = self._reservations()
        problems = [
            f"effect {effect_id} holds {amount} of budget {budget!r} by its entries, and no such reservation is stored"
            for budget, effect_id, amount in sorted(expected.difference(stored))
        ]
        problems += [
            f"a reservation of {amount} of budget {budget!r} is stored for effect {effect_id}, which does not hold it by its entries"
            for budget, effect_id, amount in sorted(set(stored) - expected)
        ]
        added: dict[str, int] = {}
        for budget, _, amount in stored:
            added[budget] = added.get(budget, 0) + amount
        problems += [
            f"budget {budget!r} is stored as holding {sums.get(budget, 0)}, and its reservations add up to {added.get(budget, 0)}"
            for budget in sorted(added.keys() | sums.keys())
            if added.get(budget, 0) != sums.get(budget, 0)
        ]
        return problems

    def _check_watched(self, watched: Mapping[str, Watched], found_by: set[tuple[str, str]]) -> list[str]:
        listed = {row.effect_id: row for row in self._watched("")}
        problems = [
            f"effect {effect_id}: the list of watched effects does not say of it what its entries say"
            for effect_id in sorted(watched.keys() | listed.keys())
            if watched.get(effect_id) != listed.get(effect_id)
        ]
        return problems + [
            f"effect {effect_id}: the index of references and its entries do not agree on {reference!r}"
            for reference, effect_id in sorted(found_by ^ set(self._references()))
        ]

    @abc.abstractmethod
    def begin_send(self, effect_id: str, n: int, call: Hashable = None) -> None:
        """Say, before entry `n` (DISPATCHED) is written, that a call of this worker is about to send. Kept in memory only.

        Args:
            effect_id: the effect.
            n: the place of its DISPATCHED entry.
            call: tells it from other calls of this worker that try for the same place, and is brought along when it ends.
        """

    @abc.abstractmethod
    def end_send(
        self, effect_id: str, n: int, call: Hashable = None, *, answered: bool, in_flight: bool = True
    ) -> None:
        """Say that a call's send is over. Never raises; one that never began, or has ended, has no end.

        Args:
            effect_id: the effect.
            n: the place of its DISPATCHED entry.
            call: as it began.
            answered: the answer is on the journal, so nobody will ask. Otherwise other processes must be able to learn
                that this send is over though this worker lives.
            in_flight: whether what was sent may still be on its way.
        """

    @abc.abstractmethod
    def abandon(self) -> None:
        """Be dead to others, with nothing in flight: what a simulated crash does. Further use of this journal object raises."""

    @abc.abstractmethod
    def close(self) -> None:
        """Give up this worker's claim to be alive and free the resources. Sends still running keep it alive until they end."""

    @abc.abstractmethod
    def _read(self, effect_id: str) -> Sequence[tuple[bytes, str]]:
        """(body, hash) of the effect's entries, in order."""

    def _is_presumably_new(self, effect_id: str) -> bool:
        """Whether to let `_commit` find out if the effect is new. It must, whatever is said here."""
        del effect_id
        return False

    @abc.abstractmethod
    def _commit(self, prepared: Prepared) -> bool:
        """Store if the head is as expected; True only when durable. All or nothing."""

    @abc.abstractmethod
    async def _commit_async(self, prepared: Prepared) -> bool:
        """As `_commit`, without blocking the event loop."""

    @abc.abstractmethod
    def _open_ids(self) -> list[tuple[str, str]]:
        """(effect id, name) of the open effects, oldest first."""

    def _reservations(self) -> tuple[list[tuple[str, str, int]], dict[str, int]]:
        """(budget key, effect id, amount) of every reservation, and the sum by budget key as it is kept. None where it keeps none."""
        return [], {}

    @abc.abstractmethod
    def _watched(self, after: str) -> list[Watched]:
        """As `watched`, ordered by `until`, then by effect id. `_commit` keeps the list, by `watched_after`, with the entries."""

    @abc.abstractmethod
    def _find(self, reference: str) -> list[str]:
        """As `find`. `_commit` keeps the index, by `watch_of`, with the entries."""

    @abc.abstractmethod
    def _references(self) -> list[tuple[str, str]]:
        """(reference, effect id) of the whole index, for `verify`."""

    def _snapshot(self) -> contextlib.AbstractContextManager[None]:
        """Within it, `_scan`, `_open_ids`, `_check_heads` and `_reservations` show one moment to this thread."""
        return contextlib.nullcontext()

    @abc.abstractmethod
    def _scan(self) -> Iterator[tuple[str, bytes, str, str]]:
        """(effect id, body, hash, link) of every entry, in the order of the journal."""

    @abc.abstractmethod
    def _check_heads(self, heads: dict[str, str]) -> list[str]:
        """Problems of the backend's own index against the heads that the entries add up to."""

    @abc.abstractmethod
    def _liveness(self, worker: str, effect_id: str, n: int) -> Liveness:
        """As `liveness`."""

    def _prepare(self, history: History, drafts: Sequence[Draft], guards: Sequence[Guard]) -> Prepared:
        effect_id, known = history
        worker = self.worker
        n = len(known)
        head = prev = known[-1].hash if n else ""
        before = known[-1].kind if n else None
        name = known[0].data["effect"] if n else drafts[0].data["effect"]
        entries: list[Entry] = []
        for kind, at, data in drafts:
            if kind not in TRANSITIONS[before]:
                check_transition(before, kind, effect_id=effect_id)
            body = _written(
                {
                    "v": FORMAT_VERSION,
                    "id": effect_id,
                    "n": n,
                    "kind": kind._value_,  # the plain text: pydantic takes four times as long over an enum
                    "at": at,
                    "by": worker,
                    "prev": prev,
                    "data": data,
                }
            )
            prev = sha256(body).hexdigest()
            entries.append(Entry(effect_id, n, kind, at, worker, data, body, prev))
            before = kind
            n += 1
        sends = before is Kind.DISPATCHED
        prepared = Prepared(effect_id, name, head, tuple(entries), sends or before in OPEN, sends, tuple(guards))
        return self._with_budgets(history, prepared) if guards or _holds_budgets(known, entries) else prepared

    @staticmethod
    def _with_budgets(history: History, prepared: Prepared) -> Prepared:
        """What a write changes of the effect's reservations; they follow from its entries."""
        after = (*history.entries, *prepared.entries)
        was, now = reserved(history.entries), reserved(after)
        last = prepared.entries[-1]
        begun = asked(last.data) if last.kind is Kind.DISPATCHED else {}
        guarded = {guard.data["key"]: guard.data["amount"] for guard in prepared.guards if guard.kind == BUDGET}
        if begun != guarded:
            raise BadInput(
                f"effect {prepared.effect_id}: the dispatch reserves {begun}, and its guards are for {guarded}. A budget is reserved "
                "by a guard and a DISPATCHED entry that say the same. Nothing was written."
            )
        key = next(entry.data.get("key", "") for entry in reversed(after) if entry.kind is Kind.PROPOSED)
        return prepared._replace(
            releases=tuple((budget, amount) for budget, amount in was.items() if now.get(budget) != amount),
            reserves=tuple((budget, amount) for budget, amount in now.items() if was.get(budget) != amount),
            key=key,
            held=was,
        )


_LONGEST_NUMBER = 4300
"""Digits of the longest whole number that what reads the journal takes."""


def _written(document: dict[str, Any]) -> bytes:
    """The bytes of an entry. What could not be read again is not written: what is recorded was let in at several doors."""
    try:
        body = to_json(document)
        if len(body) > _LONGEST_NUMBER:
            from_json(body)
    except (PydanticSerializationError, ValueError) as error:
        raise JournalError(
            f"effect {document['id']}: an entry {document['kind']} cannot be written so that it can be read again: {error}. "
            "Nothing was written. Pass plain values."
        ) from error
    return body
