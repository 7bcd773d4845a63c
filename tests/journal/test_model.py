"""The model argues with the code: random histories on the SQLite journal and on the journal in memory must read the same."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from interlock.effects import Draft, History, Kind
from interlock.errors import InterlockError
from interlock.journal import BUDGET, Denied, Guard, Journal, MemoryJournal, SQLiteJournal
from interlock.journal._memory import MemoryStore
from interlock.rules.budgets import Budget
from interlock.rules.lifecycle import TRANSITIONS

_AT = "2026-03-01T12:00:00+00:00"
_EFFECTS = ("e1", "e2", "E2", "ü")
_WORKERS = (0, 1)
_TOWARDS_DISPATCH = (Kind.DISPATCHED, Kind.AUTHORIZED, Kind.DECIDED, Kind.PROPOSED)
_DATA = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5), st.lists, max_leaves=4
    ),
    max_size=2,
)
_WATCH = st.fixed_dictionaries(
    {
        "watch": st.fixed_dictionaries(
            {
                "until": st.sampled_from(["2026-06-01", "2026-06-02", ""]),
                "references": st.lists(st.sampled_from(["re_1", "ch_1", "ü"]), max_size=3),
            }
        )
    }
)


_BUDGETS = st.lists(
    st.sampled_from([Budget("a", 5, 3), Budget("a", 5, 2), Budget("a", 9, 3), Budget("b", 3, 1), Budget("ü", 1, 2)]),
    max_size=2,
    unique_by=lambda budget: budget.key,
)


def _told(call: Any) -> object:
    """What a call gave, who left no room, or the type of the error that it raised."""
    try:
        return call()
    except Denied as denied:
        return denied.shortfalls
    except InterlockError as error:
        return type(error)


def _shape(history: object) -> object:
    """What two journals must agree on: all but who wrote it, and so the hashes."""
    if isinstance(history, History):
        return [(entry.effect_id, entry.n, entry.kind, entry.at, dict(entry.data)) for entry in history.entries]
    return history


def _sorted(reservations: tuple[list[tuple[str, str, int]], dict[str, int]]) -> object:
    """Reservations in an order that does not matter."""
    return sorted(reservations[0]), sorted(reservations[1].items())


class Comparison(RuleBasedStateMachine):
    """Two workers on each kind of journal, doing the same; `remembered` are old histories that races are lost with."""

    @initialize()
    def begin(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.store = MemoryStore()
        self.pairs: list[tuple[Journal, Journal]] = [self._new() for _ in _WORKERS]
        self.remembered: dict[str, list[tuple[History, History]]] = {effect_id: [] for effect_id in _EFFECTS}
        self.names = [self._names(pair) for pair in self.pairs]
        self.before: list[tuple[str, str]] = []
        self.places: set[tuple[str, int]] = set()
        self.calls = 0

    def _new(self) -> tuple[Journal, Journal]:
        return MemoryJournal(self.store), SQLiteJournal(self.directory)

    @staticmethod
    def _names(pair: tuple[Journal, Journal]) -> tuple[str, str]:
        return pair[0].worker, pair[1].worker

    def _both(self, worker: int, call: Any) -> None:
        model, real = (_told(lambda journal=journal: call(journal)) for journal in self.pairs[worker])
        assert _shape(model) == _shape(real)

    def _append(
        self,
        worker: int,
        histories: tuple[History, History],
        drafts: list[Draft],
        how: str,
        budgets: tuple[Budget, ...] = (),
    ) -> None:
        results = []
        for journal, history in zip(self.pairs[worker], histories, strict=True):
            guards = [Guard("unknown", {})] if how == "guarded" else []
            guards += [Guard(BUDGET, budget.to_json()) for budget in budgets]
            if how == "async":
                results.append(
                    _told(lambda j=journal, h=history, g=guards: asyncio.run(j.append_async(h, drafts, guards=g)))
                )
            else:
                results.append(_told(lambda j=journal, h=history, g=guards: j.append(h, drafts, guards=g)))
        assert _shape(results[0]) == _shape(results[1])

    @rule(
        worker=st.sampled_from(_WORKERS),
        effect_id=st.sampled_from(_EFFECTS),
        choices=st.lists(st.integers(0, 20), min_size=1, max_size=4),
        data=st.one_of(_DATA, _WATCH),
        how=st.sampled_from(["sync", "sync", "async", "guarded"]),
    )
    def append_lawfully(self, worker: int, effect_id: str, choices: list[int], data: dict[str, Any], how: str) -> None:
        """Append entries that may follow, on the head that is there."""
        histories = tuple(journal.load(effect_id) for journal in self.pairs[worker])
        kind = histories[0].kind
        drafts = []
        for choice in choices:
            following = sorted(TRANSITIONS[kind])
            if not following:
                break
            kind = following[choice % len(following)]
            drafts.append(Draft(kind, _AT, {**data, "effect": "pay"}))
        if not drafts:  # it was reversed, and nothing may follow
            return
        self.remembered[effect_id].append((histories[0], histories[1]))
        self._append(worker, (histories[0], histories[1]), drafts, how)

    @rule(
        worker=st.sampled_from(_WORKERS),
        effect_id=st.sampled_from(_EFFECTS),
        kinds=st.lists(st.sampled_from(list(Kind)), min_size=1, max_size=3),
    )
    def append_anything(self, worker: int, effect_id: str, kinds: list[Kind]) -> None:
        """Append entries of which most may not follow."""
        histories = tuple(journal.load(effect_id) for journal in self.pairs[worker])
        drafts = [Draft(kind, _AT, {"effect": "pay"}) for kind in kinds]
        self._append(worker, (histories[0], histories[1]), drafts, "sync")

    @precondition(lambda self: any(self.remembered.values()))
    @rule(
        worker=st.sampled_from(_WORKERS),
        choice=st.integers(0, 1000),
        data=st.data(),
    )
    def append_on_an_old_head(self, worker: int, choice: int, data: st.DataObject) -> None:
        """Append on a history read before: it holds only if nothing was written since."""
        effect_id = data.draw(st.sampled_from([effect_id for effect_id, old in self.remembered.items() if old]))
        old = self.remembered[effect_id]
        histories = old[choice % len(old)]
        following = sorted(TRANSITIONS[histories[0].kind]) or sorted(Kind)
        draft = Draft(following[choice % len(following)], _AT, {"effect": "pay", "late": True})
        self._append(worker, histories, [draft], "sync")

    @rule(
        worker=st.sampled_from(_WORKERS),
        effect_id=st.sampled_from(_EFFECTS),
        budgets=_BUDGETS,
        how=st.sampled_from(["sync", "async"]),
    )
    def dispatch(self, worker: int, effect_id: str, budgets: list[Budget], how: str) -> None:
        """Begin to send, and claim the effect, from wherever it stands; a first send takes budgets."""
        histories = tuple(journal.load(effect_id) for journal in self.pairs[worker])
        kind, kinds = histories[0].kind, []
        while kind is not Kind.DISPATCHED or not kinds:
            kind = next((step for step in _TOWARDS_DISPATCH if step in TRANSITIONS[kind]), None)
            if kind is None:
                return
            kinds.append(kind)
        place = (effect_id, len(histories[0].entries) + len(kinds) - 1)
        self.calls += 1
        call = self.calls
        self._both(worker, lambda journal: journal.begin_send(*place, call))
        self.places.add(place)
        taken = () if histories[0].kind is Kind.DISPATCHED else tuple(budgets)
        drafts = [Draft(kind, _AT, {"effect": "pay", "key": f"key of {effect_id}"}) for kind in kinds]
        if taken:
            drafts[-1] = Draft(Kind.DISPATCHED, _AT, {"budget": [budget.to_json() for budget in taken]})
        self._append(worker, (histories[0], histories[1]), drafts, how, taken)

    @precondition(lambda self: self.places)
    @rule(worker=st.sampled_from(_WORKERS), answered=st.booleans(), in_flight=st.booleans(), data=st.data())
    def end_send(self, worker: int, answered: bool, in_flight: bool, data: st.DataObject) -> None:
        """End a send that is running."""
        running = [place for place in sorted(self.places) if place in self.pairs[worker][0]._sending]
        if running:
            effect_id, n = data.draw(st.sampled_from(running))
            call = data.draw(st.sampled_from(sorted(self.pairs[worker][0]._sending[(effect_id, n)])))
            self._both(
                worker, lambda journal: journal.end_send(effect_id, n, call, answered=answered, in_flight=in_flight)
            )

    @rule(worker=st.sampled_from(_WORKERS), how=st.sampled_from(["close", "abandon"]))
    def restart(self, worker: int, how: str) -> None:
        """End a worker, and go on with another; the one before is remembered, and still asked about."""
        self._both(worker, lambda journal: getattr(journal, how)())
        self.before.append(self.names[worker])
        self.pairs[worker] = self._new()
        self.names[worker] = self._names(self.pairs[worker])

    @invariant()
    def they_read_the_same(self) -> None:
        """Histories, open effects and the number of entries agree."""
        if not hasattr(self, "pairs"):
            return
        for worker in _WORKERS:
            for effect_id in _EFFECTS:
                self._both(worker, lambda journal, effect_id=effect_id: journal.load(effect_id))
            self._both(worker, lambda journal: journal.open_effects())
            self._both(worker, lambda journal: (journal.watched(), journal.watched(after="2026-06-01")))
            self._both(worker, lambda journal: [journal.find(reference) for reference in ("re_1", "ch_1", "ü", "no")])
            self._both(worker, lambda journal: _sorted(journal._reservations()))
            self._both(
                worker, lambda journal: (journal.verify().ok, journal.verify().entries, journal.verify().effects)
            )

    @invariant()
    def they_see_the_same_workers_die(self) -> None:
        """Of the sender of every open effect, living or not, each worker is told the same by both."""
        if not hasattr(self, "pairs"):
            return
        real_names = dict((*self.names, *self.before))
        for effect_id in _EFFECTS:
            last = (self.pairs[0][0].load(effect_id).entries or (None,))[-1]
            # Nobody asks about a send that its worker never began, or whose effect is not open.
            if last is None or last.kind is not Kind.DISPATCHED or (effect_id, last.n) not in self.places:
                continue
            for model, real in self.pairs:
                seen = model.liveness(last.by, effect_id, last.n)
                assert real.liveness(real_names[last.by], effect_id, last.n) is seen

    def teardown(self) -> None:
        if hasattr(self, "pairs"):
            for pair in self.pairs:
                pair[1].abandon()
            shutil.rmtree(self.directory, ignore_errors=True)


TestComparison = Comparison.TestCase
TestComparison.settings = settings(
    max_examples=25,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
