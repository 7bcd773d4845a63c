"""The contract of a journal, as tests that every backend passes: `JournalContract`. Shipped, for backends kept elsewhere too.

Knows the public promises of `interlock.journal.Journal` and nothing of any backend. Runs under pytest without a plugin.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from interlock.effects import Draft, History, Kind
from interlock.errors import IllegalTransition, InterlockError, JournalError
from interlock.journal import BUDGET, Denied, Guard, Journal
from interlock.ports import Liveness
from interlock.rules.budgets import GREATEST, HOLDERS_TOLD, Budget, Holder, Shortfall
from interlock.settlement import Watched

_AT = "2026-03-01T12:00:00+00:00"
_CHAIN = (Kind.PROPOSED, Kind.AUTHORIZED, Kind.DISPATCHED)


def draft(kind: Kind, **data: Any) -> Draft:
    """An entry of that kind with some content; a PROPOSED one names its effect, as every writer's must."""
    return Draft(kind, _AT, {"effect": "pay", **data} if kind is Kind.PROPOSED else data)


def drafts(*kinds: Kind) -> list[Draft]:
    """An entry of each kind, in order."""
    return [draft(kind) for kind in kinds]


def dispatching(*budgets: Budget, key: str) -> list[Draft]:
    """The entries of a dispatch that takes budgets."""
    taken = {"budget": [budget.to_json() for budget in budgets]} if budgets else {}
    return [draft(Kind.PROPOSED, key=key), draft(Kind.AUTHORIZED), draft(Kind.DISPATCHED, **taken)]


def guards(*budgets: Budget) -> list[Guard]:
    """The guards of such a dispatch."""
    return [Guard(BUDGET, budget.to_json()) for budget in budgets]


@contextlib.contextmanager
def _raises(expected: type[Exception]) -> Iterator[None]:
    try:
        yield
    except expected:
        return
    raise AssertionError(f"{expected.__name__} was not raised")


class JournalContract:
    """Every public promise of a `Journal`. Subclass it in a test module and say how a journal is made.

    pytest makes an object of the class for each test, so what belongs to one test's store can be an attribute:

        class TestMyJournal(JournalContract):
            @pytest.fixture(autouse=True)
            def _place(self, tmp_path):
                self.place = tmp_path

            def make_journal(self):
                return MyJournal(self.place)

    A test that does not apply to a backend is overridden with the reason, never deleted. What only a real process can
    show (its death, a full disk) is for the backend's own tests.
    """

    def make_journal(self) -> Journal:
        """A new worker on this test's store. Called again within one test: another worker on the same store."""
        raise NotImplementedError("a subclass of JournalContract says how a journal is made")

    def reopen(self, journal: Journal) -> Journal:
        """Another worker on the store of a journal, as after a restart. By default what `make_journal` gives."""
        del journal
        return self.make_journal()

    # --- what the tests share ------------------------------------------------------------------------------------------

    _made: list[Journal]

    def setup_method(self) -> None:
        """Called by pytest before each test."""
        self._made = []

    def teardown_method(self) -> None:
        """Called by pytest after each test: close what was opened."""
        for journal in self._made:
            with contextlib.suppress(JournalError):
                journal.close()

    def journal(self) -> Journal:
        """A new worker, closed after the test."""
        self._made.append(self.make_journal())
        return self._made[-1]

    def restarted(self, journal: Journal) -> Journal:
        """Another worker on the same store, closed after the test."""
        self._made.append(self.reopen(journal))
        return self._made[-1]

    @staticmethod
    def write(journal: Journal, effect_id: str, kinds: Sequence[Kind] = _CHAIN) -> History:
        """Append entries of these kinds to what is known of an effect; they must be accepted."""
        after = journal.append(journal.load(effect_id), drafts(*kinds))
        assert after is not None, "an append on the head just read was refused"
        return after

    # --- appending and reading -----------------------------------------------------------------------------------------

    def test_unknown_effect_has_an_empty_history(self) -> None:
        """An effect that nobody has proposed has no entries, and asking for it writes nothing."""
        journal = self.journal()
        assert journal.load("nobody") == History("nobody")
        assert journal.open_effects() == []
        assert journal.verify().entries == 0

    def test_what_is_appended_is_read_back(self) -> None:
        """The history that append returns is the one that load returns, byte for byte, in order."""
        journal = self.journal()
        written = self.write(journal, "e1")
        assert [entry.kind for entry in written.entries] == list(_CHAIN)
        assert [entry.n for entry in written.entries] == [0, 1, 2]
        assert {entry.by for entry in written.entries} == {journal.worker}
        assert {entry.at for entry in written.entries} == {_AT}
        assert journal.load("e1") == written

    def test_history_is_the_same_after_reopening(self) -> None:
        """Another worker on the same store reads the same bytes, hashes and order."""
        journal = self.journal()
        self.write(journal, "e1")
        written = self.write(journal, "e1", (Kind.COMMITTED, Kind.SETTLED))
        journal.close()
        again = self.restarted(journal)
        loaded = again.load("e1")
        assert loaded == written
        assert [(entry.body, entry.hash) for entry in loaded.entries] == [
            (entry.body, entry.hash) for entry in written.entries
        ]
        assert again.worker != written.entries[-1].by

    def test_data_survives_with_unknown_fields(self) -> None:
        """Content nobody here knows (nested, non-ASCII, empty, big, NUL inside a text) comes back as it was."""
        journal = self.journal()
        data = {
            "effect": "pay",
            "later": {"version": 9, "list": [1, -2.5, True, None, "ü€𝄞", "a\u0000b", {"deep": [[]]}], "empty": {}},
            "": "an empty name",
            "long": "x" * 100_000,
            "big": 2**53 - 1,
        }
        written = journal.append(History("e1"), [Draft(Kind.PROPOSED, _AT, data)])
        assert written is not None
        loaded = self.restarted(journal).load("e1")
        assert loaded.entries[0].data == data
        assert loaded == written

    def test_any_effect_id_is_kept_apart(self) -> None:
        """Effect ids are opaque text: none is folded, trimmed or taken as a pattern."""
        journal = self.journal()
        names = ["a", "A", "a ", "%", "_", "ü", "u\u0308", "'; DROP TABLE entries; --", "x" * 500]
        written = {name: self.write(journal, name) for name in names}
        assert {name: journal.load(name) for name in names} == written
        assert [effect_id for effect_id, _ in journal.open_effects()] == names

    def test_appending_in_steps_equals_appending_at_once(self) -> None:
        """A history grows by appends on its head; n and the chain go on where they were."""
        journal = self.journal()
        history = History("e1")
        for kind in (*_CHAIN, Kind.DISPATCHED, Kind.COMMITTED, Kind.SETTLED):
            after = journal.append(history, [draft(kind)])
            assert after is not None
            history = after
        assert [entry.n for entry in history.entries] == list(range(6))
        assert journal.load("e1") == history
        assert journal.verify().ok

    # --- the conditional write -----------------------------------------------------------------------------------------

    def test_loser_of_a_race_writes_nothing(self) -> None:
        """An append on a head that has moved gives None, and the store stays as the winner left it."""
        first = self.journal()
        second = self.journal()
        seen_by_both = first.load("e1")
        won = first.append(seen_by_both, drafts(*_CHAIN))
        assert second.append(seen_by_both, drafts(*_CHAIN)) is None
        assert second.load("e1") == won
        assert second.verify().entries == len(_CHAIN)

    def test_an_old_head_is_refused_later_too(self) -> None:
        """A history read before others went on cannot be appended to, however far they went."""
        journal = self.journal()
        old = self.write(journal, "e1")
        self.write(journal, "e1", (Kind.DISPATCHED,))
        self.write(journal, "e1", (Kind.COMMITTED,))
        assert journal.append(old, drafts(Kind.DISPATCHED)) is None
        assert journal.load("e1").kind is Kind.COMMITTED

    def test_what_was_taken_for_new_and_is_not_is_refused(self) -> None:
        """`presume` may say that an effect is new; if it is not, no append believes it, from this worker or another, however old it is."""
        writer = self.journal()
        last = self.write(writer, "old")
        others = [self.write(writer, f"other-{number}") for number in range(200)]
        for journal in (writer, self.restarted(writer)):
            self.write(journal, f"makes {journal.worker} begin")
            taken = History("old")
            assert journal.append(taken, drafts(*_CHAIN)) is None
            assert journal.presume("old") in (taken, last)
            assert journal.load("old") == last
            assert journal.load("other-7") == others[7]
        fresh = writer.presume("fresh")
        assert fresh == History("fresh")
        assert writer.append(fresh, drafts(*_CHAIN)) == writer.load("fresh")
        assert writer.append(fresh, drafts(*_CHAIN)) is None
        assert writer.verify().ok

    def test_a_history_of_another_store_is_refused(self) -> None:
        """A head that this store never had does not hold, even for an effect that it does not know."""
        journal = self.journal()
        self.write(journal, "e1")
        foreign = History("e2", journal.load("e1").entries)
        assert journal.append(foreign, drafts(Kind.COMMITTED)) is None
        assert journal.load("e2") == History("e2")

    def test_one_of_many_threads_wins(self) -> None:
        """Threads of two workers that dispatch one effect at the same moment: exactly one append holds."""
        workers = [self.journal(), self.journal()]
        for round_number in range(3):
            effect_id = f"e{round_number}"
            history = self.write(workers[0], effect_id, (Kind.PROPOSED, Kind.AUTHORIZED))

            def compete(number: int, history: History = history) -> bool:
                return workers[number % 2].append(history, [draft(Kind.DISPATCHED, racer=number)]) is not None

            won = _at_once(8, compete)
            assert sum(won) == 1
            assert workers[0].load(effect_id).entries[-1].data == {"racer": won.index(True)}
        assert workers[0].verify().ok

    def test_threads_on_different_effects_all_succeed(self) -> None:
        """Appends to different effects do not stand in each other's way, and the journal-wide chain holds."""
        workers = [self.journal(), self.journal()]

        def work(number: int) -> bool:
            for step in range(3):
                effect_id = f"e{number}-{step}"
                self.write(workers[number % 2], effect_id)
                self.write(workers[number % 2], effect_id, (Kind.COMMITTED,))
            return True

        assert all(_at_once(8, work))
        verification = workers[0].verify()
        assert verification.ok, verification.problems
        assert (verification.entries, verification.effects) == (8 * 3 * 4, 8 * 3)
        assert workers[1].open_effects() == []

    def test_async_append_is_the_same_append(self) -> None:
        """append_async writes what append writes, and its loser gets None too."""
        journal = self.journal()

        async def scenario() -> tuple[History | None, History | None]:
            first = await journal.append_async(History("e1"), drafts(*_CHAIN))
            second = await journal.append_async(History("e1"), drafts(*_CHAIN))
            return first, second

        first, second = asyncio.run(scenario())
        assert first is not None
        assert second is None
        assert self.journal().load("e1") == first

    def test_one_of_many_tasks_wins(self) -> None:
        """Tasks that dispatch one effect at the same moment: exactly one append holds; other effects all do."""
        journal = self.journal()
        history = self.write(journal, "e1", (Kind.PROPOSED, Kind.AUTHORIZED))

        async def scenario() -> tuple[list[History | None], list[History | None]]:
            racing = [journal.append_async(history, drafts(Kind.DISPATCHED)) for _ in range(8)]
            others = [journal.append_async(History(f"o{number}"), drafts(*_CHAIN)) for number in range(8)]
            results = await asyncio.gather(*racing, *others)
            return results[:8], results[8:]

        racing, others = asyncio.run(scenario())
        assert sum(result is not None for result in racing) == 1
        assert all(result is not None for result in others)
        assert journal.verify().ok

    def test_threads_and_tasks_together(self) -> None:
        """Blocking and async appends of one journal share it: nothing is lost, nothing waits for ever."""
        journal = self.journal()

        def work(number: int) -> bool:
            if number % 2:
                return all(self.write(journal, f"t{number}-{step}") for step in range(5))

            async def scenario() -> bool:
                results = await asyncio.gather(
                    *(journal.append_async(History(f"a{number}-{step}"), drafts(*_CHAIN)) for step in range(5))
                )
                return all(result is not None for result in results)

            return asyncio.run(scenario())

        assert all(_at_once(6, work))
        assert journal.verify().effects == 30

    # --- all or nothing ------------------------------------------------------------------------------------------------

    def test_illegal_transition_writes_nothing(self) -> None:
        """If one entry may not follow the one before it, none of that append is written."""
        journal = self.journal()
        with _raises(IllegalTransition):
            journal.append(History("e1"), drafts(Kind.PROPOSED, Kind.AUTHORIZED, Kind.COMMITTED))
        with _raises(IllegalTransition):
            journal.append(History("e1"), [Draft(Kind.DISPATCHED, _AT, {"effect": "pay"})])
        assert journal.load("e1") == History("e1")
        self.write(journal, "e1")
        self.write(journal, "e1", (Kind.COMMITTED,))
        with _raises(IllegalTransition):
            journal.append(journal.load("e1"), drafts(Kind.DISPATCHED))
        with _raises(IllegalTransition):
            asyncio.run(journal.append_async(journal.load("e1"), drafts(Kind.PROPOSED)))
        assert journal.load("e1").kind is Kind.COMMITTED
        assert journal.verify().entries == 4

    def test_unknown_guard_is_refused_and_nothing_is_written(self) -> None:
        """A condition that the backend does not know is an error, never ignored: neither the write nor a part of it happens."""
        journal = self.journal()
        guard = Guard("no such rule", {"limit": 1})
        with _raises(InterlockError):
            journal.append(History("e1"), drafts(*_CHAIN), guards=[guard])
        with _raises(InterlockError):
            asyncio.run(journal.append_async(History("e1"), drafts(*_CHAIN), guards=[guard]))
        assert journal.load("e1") == History("e1")
        assert journal.open_effects() == []
        self.write(journal, "e1")

    # --- budgets -------------------------------------------------------------------------------------------------------

    @staticmethod
    def dispatch(journal: Journal, effect_id: str, *budgets: Budget, key: str = "") -> History | None:
        """Propose and dispatch an effect that takes budgets, on what is known of it.

        Raises:
            Denied: there is no room.
        """
        return journal.append(
            journal.load(effect_id), dispatching(*budgets, key=key or effect_id), guards=guards(*budgets)
        )

    def test_a_budget_is_never_exceeded(self) -> None:
        """What fits is written, what does not is denied with who holds the rest, and nothing of it is written."""
        journal, other = self.journal(), self.journal()
        assert self.dispatch(journal, "e1", Budget("cap", 3000, 2000), key="refund:881") is not None
        denied = self._denied(other, "e2", Budget("cap", 3000, 2000))
        assert denied.shortfalls == (Shortfall("cap", 3000, 2000, 2000, (Holder("pay", "refund:881", 2000),), 0),)
        assert other.load("e2") == History("e2")
        assert [effect_id for effect_id, _ in other.open_effects()] == ["e1"]
        assert self.dispatch(other, "e3", Budget("cap", 3000, 1000)) is not None
        assert self.dispatch(other, "e4", Budget("another cap", 1, 1)) is not None
        self._denied(self.restarted(journal), "e5", Budget("cap", 3000, 1))
        assert journal.verify().ok, journal.verify().problems

    def test_more_than_the_limit_never_fits(self) -> None:
        """A call that asks for more than its limit alone is denied while nobody holds anything."""
        denied = self._denied(self.journal(), "e1", Budget("cap", 999, 1000))
        assert denied.shortfalls == (Shortfall("cap", 999, 1000, 0),)

    def test_a_reservation_stands_until_nothing_can_have_happened(self) -> None:
        """Open, landed, ambiguous and settled effects hold what they took; a failed or refused one gives it back."""
        stands: dict[tuple[Kind, ...], bool] = {
            (): True,
            (Kind.DISPATCHED,): True,
            (Kind.COMMITTED,): True,
            (Kind.DISPATCHED, Kind.COMMITTED): True,
            (Kind.AMBIGUOUS,): True,
            (Kind.AMBIGUOUS, Kind.COMMITTED): True,
            (Kind.COMMITTED, Kind.SETTLED): True,
            (Kind.COMMITTED, Kind.REVERSED): True,
            (Kind.COMMITTED, Kind.AT_RISK): True,
            (Kind.FAILED,): False,
            (Kind.REFUSED,): False,
            (Kind.DISPATCHED, Kind.FAILED): False,
            (Kind.FAILED, Kind.PROPOSED): False,
            (Kind.FAILED, Kind.PROPOSED, Kind.AUTHORIZED): False,
        }
        journal = self.journal()
        for number, (kinds, holds) in enumerate(stands.items()):
            cap = Budget(f"cap {number}", 1000, 1000)
            assert self.dispatch(journal, f"e{number}", cap) is not None
            for kind in kinds:
                self.write(journal, f"e{number}", (kind,))
            if holds:
                self._denied(journal, f"other {number}", cap)
            else:
                assert self.dispatch(journal, f"other {number}", cap) is not None, kinds
        assert journal.verify().ok, journal.verify().problems

    def test_a_resend_does_not_reserve_twice(self) -> None:
        """A recovery that sends again does so under the reservation that stands, and it is given back once."""
        journal = self.journal()
        self.dispatch(journal, "e1", Budget("cap", 3000, 2000))
        for _ in range(3):
            self.write(journal, "e1", (Kind.DISPATCHED,))
        assert self.dispatch(journal, "e2", Budget("cap", 3000, 1000)) is not None
        self.write(journal, "e1", (Kind.FAILED,))
        assert self.dispatch(journal, "e3", Budget("cap", 3000, 2000)) is not None
        self._denied(journal, "e4", Budget("cap", 3000, 1))
        assert journal.verify().ok, journal.verify().problems

    def test_another_attempt_reserves_anew(self) -> None:
        """After a failure the next attempt is judged like any other; what it takes may be another amount, or nothing."""
        journal = self.journal()
        for effect_id in ("e1", "e2", "e3"):
            self.dispatch(journal, effect_id, Budget("cap", 3000, 1000))
            self.write(journal, effect_id, (Kind.FAILED,))
        self.dispatch(journal, "e1", Budget("cap", 3000, 2500))
        self._denied(journal, "e2", Budget("cap", 3000, 1000))
        self.dispatch(journal, "e2", Budget("cap", 3000, 500))
        self.write(journal, "e1", (Kind.FAILED,))
        assert self.dispatch(journal, "e1") is not None
        self.dispatch(journal, "e3", Budget("cap", 3000, 2500))
        assert journal.verify().ok, journal.verify().problems

    def test_what_landed_after_all_holds_its_budget_again(self) -> None:
        """A late answer counts: the effect takes its budget again though others have taken it meanwhile, and none fits after that."""
        journal = self.journal()
        self.dispatch(journal, "e1", Budget("cap", 3000, 2000))
        self.write(journal, "e1", (Kind.REFUSED,))
        self.dispatch(journal, "e2", Budget("cap", 3000, 2000))
        self.write(journal, "e1", (Kind.COMMITTED,))
        denied = self._denied(journal, "e3", Budget("cap", 4000, 1))
        assert denied.shortfalls[0].held == 4000
        assert journal.verify().ok, journal.verify().problems

    def test_of_several_budgets_all_are_taken_or_none(self) -> None:
        """A call under several caps is let through by all of them; those without room are named, the others stay as they were."""
        journal = self.journal()
        self.dispatch(journal, "e1", Budget("a", 10, 8), Budget("b", 10, 1))
        denied = self._denied(journal, "e2", Budget("a", 10, 5), Budget("b", 10, 5))
        assert [shortfall.budget for shortfall in denied.shortfalls] == ["a"]
        assert self.dispatch(journal, "e3", Budget("a", 10, 2), Budget("b", 10, 9)) is not None
        denied = self._denied(journal, "e4", Budget("a", 10, 1), Budget("b", 10, 1), Budget("c", 10, 1))
        assert [shortfall.budget for shortfall in denied.shortfalls] == ["a", "b"]
        self.dispatch(journal, "e5", Budget("c", 10, 10))
        assert journal.verify().ok, journal.verify().problems

    def test_each_call_is_judged_by_its_own_limit(self) -> None:
        """Two limits under one key are two opinions about one sum: each call is judged by the one it brings."""
        journal = self.journal()
        self.dispatch(journal, "e1", Budget("cap", 1000, 1000))
        self._denied(journal, "e2", Budget("cap", 1000, 1))
        assert self.dispatch(journal, "e3", Budget("cap", 5000, 1000)) is not None
        self._denied(journal, "e4", Budget("cap", 2000, 1))

    def test_who_holds_is_told_in_bounds(self) -> None:
        """However many hold a budget, a denial names the greatest and counts the others."""
        journal = self.journal()
        for number in range(HOLDERS_TOLD + 3):
            self.dispatch(journal, f"e{number}", Budget("cap", 1000, number + 1))
        (shortfall,) = self._denied(journal, "late", Budget("cap", 1000, 1000)).shortfalls
        assert [holder.amount for holder in shortfall.holders] == list(range(HOLDERS_TOLD + 3, 3, -1))
        assert shortfall.others == 3
        assert shortfall.held == sum(range(1, HOLDERS_TOLD + 4))

    def test_any_budget_key_is_kept_apart(self) -> None:
        """Budget keys are opaque text: none is folded, trimmed or taken as a pattern; the greatest amounts are kept."""
        journal = self.journal()
        for number, key in enumerate(
            ["a", "A", "a ", "%", "_", "ü", "u\u0308", "'; DROP TABLE entries; --", "x" * 500, "a\u0000b"]
        ):
            assert self.dispatch(journal, f"e{number}", Budget(key, GREATEST, GREATEST)) is not None
            self._denied(journal, "late", Budget(key, GREATEST, 1))
        assert journal.verify().ok, journal.verify().problems

    def test_a_history_that_moved_is_no_question_of_room(self) -> None:
        """The loser of a race for one effect gets None as ever, also where there would be no room for it."""
        journal = self.journal()
        cap = Budget("cap", 1000, 1000)
        before = journal.load("e1")
        self.dispatch(journal, "e1", cap)
        assert journal.append(before, dispatching(cap, key="e1"), guards=guards(cap)) is None

    def test_a_resend_that_names_a_budget_holds_that_instead(self) -> None:
        """What the effect holds itself is not counted against it; without room nothing changes; one that names none leaves it as it was."""
        journal = self.journal()
        self.dispatch(journal, "e1", Budget("old", 2000, 1500), Budget("kept", 10, 1))
        self.dispatch(journal, "e2", Budget("new", 2000, 600))

        def resend(*budgets: Budget, says: bool = True) -> History | None:
            (draft,) = dispatching(*budgets, key="e1")[-1:]
            if says and not budgets:
                draft = draft._replace(data={**draft.data, "budget": []})
            return journal.append(journal.load("e1"), [draft], guards=guards(*budgets))

        with _raises(Denied):
            resend(Budget("new", 2000, 1500), Budget("kept", 10, 1))
        assert self._denied(journal, "late", Budget("old", 2000, 600)).shortfalls[0].held == 1500
        assert resend(Budget("new", 2100, 1500), Budget("kept", 10, 1)) is not None
        assert self.dispatch(journal, "e3", Budget("old", 2000, 2000)) is not None
        assert self._denied(journal, "late", Budget("new", 2100, 1)).shortfalls[0].held == 2100
        assert resend(says=False) is not None
        assert self._denied(journal, "late", Budget("new", 2100, 1)).shortfalls[0].held == 2100
        assert resend(Budget("new", 2100, 1500), Budget("kept", 1, 1)) is not None
        with _raises(Denied):
            resend(Budget("new", 2099, 1500))
        assert resend() is not None
        assert self._denied(journal, "late", Budget("new", 600, 1)).shortfalls[0].held == 600
        assert self.dispatch(journal, "e4", Budget("kept", 10, 10)) is not None
        assert journal.verify().ok, journal.verify().problems

    def test_a_budget_needs_its_guard(self) -> None:
        """A dispatch that says it takes a budget without a guard for just that, or a guard without it, is refused and not written."""
        journal = self.journal()
        cap, other = Budget("cap", 1000, 1000), Budget("cap", 1000, 999)
        for said, guarded in (((cap,), ()), ((), (cap,)), ((cap,), (other,))):
            with _raises(InterlockError):
                journal.append(History("e1"), dispatching(*said, key="e1"), guards=guards(*guarded))
        assert journal.load("e1") == History("e1")
        assert self.dispatch(journal, "e1", cap) is not None

    def test_threads_that_race_for_a_budget(self) -> None:
        """Effects of two workers that ask for one budget at the same moment: as many are let through as there is room for."""
        workers = [self.journal(), self.journal()]
        for turn in range(3):

            def compete(number: int, turn: int = turn) -> bool:
                try:
                    return (
                        self.dispatch(workers[number % 2], f"e{turn}-{number}", Budget(f"cap {turn}", 5000, 2000))
                        is not None
                    )
                except Denied:
                    return False

            assert sum(_at_once(8, compete)) == 2
        assert workers[0].verify().ok, workers[0].verify().problems

    def test_tasks_that_race_for_a_budget(self) -> None:
        """Asynchronous appends that may share a batch: judged in order within it, each sees what those before it took."""
        journal = self.journal()

        async def scenario() -> list[History | BaseException | None]:
            caps = [Budget("cap", 5000, 2000) if number % 2 else Budget("own", 2**40, 1) for number in range(16)]
            racing = [
                journal.append_async(History(f"e{number}"), dispatching(cap, key=f"e{number}"), guards=guards(cap))
                for number, cap in enumerate(caps)
            ]
            return list(await asyncio.gather(*racing, return_exceptions=True))

        results = asyncio.run(scenario())
        assert all(isinstance(result, History) for result in results[::2])
        assert sum(isinstance(result, History) for result in results[1::2]) == 2
        assert sum(isinstance(result, Denied) for result in results[1::2]) == 6
        assert journal.verify().ok, journal.verify().problems

    def test_a_release_and_a_dispatch_that_race(self) -> None:
        """However a release and a dispatch meet, the room is given out once."""
        workers = [self.journal(), self.journal()]
        for turn in range(5):
            cap = Budget(f"cap {turn}", 1000, 1000)
            self.dispatch(workers[0], f"e{turn}", cap)

            def meet(number: int, turn: int = turn, cap: Budget = cap) -> bool:
                if number == 0:
                    return self.write(workers[0], f"e{turn}", (Kind.FAILED,)) is None
                try:
                    return self.dispatch(workers[number % 2], f"e{turn}-{number}", cap) is not None
                except Denied:
                    return False

            assert sum(_at_once(4, meet)) <= 1
        assert workers[0].verify().ok, workers[0].verify().problems

    def _denied(self, journal: Journal, effect_id: str, *budgets: Budget) -> Denied:
        try:
            self.dispatch(journal, effect_id, *budgets)
        except Denied as denied:
            return denied
        raise AssertionError("it was let through")

    # --- open effects --------------------------------------------------------------------------------------------------

    def test_open_effects_are_those_that_need_somebody(self) -> None:
        """An effect is listed from PROPOSED until a last word, with its name; after a last word it is not."""
        journal = self.journal()
        expected = {
            (Kind.PROPOSED,): True,
            (Kind.PROPOSED, Kind.ESCALATED): True,
            (Kind.PROPOSED, Kind.ESCALATED, Kind.DECIDED): True,
            (Kind.PROPOSED, Kind.AUTHORIZED): True,
            _CHAIN: True,
            (*_CHAIN, Kind.DISPATCHED): True,
            (*_CHAIN, Kind.COMMITTED): False,
            (*_CHAIN, Kind.REFUSED): False,
            (*_CHAIN, Kind.FAILED): False,
            (*_CHAIN, Kind.AMBIGUOUS): False,
            (*_CHAIN, Kind.AMBIGUOUS, Kind.RESOLVED): False,
            (Kind.PROPOSED, Kind.REFUSED): False,
            (*_CHAIN, Kind.FAILED, Kind.PROPOSED): True,
        }
        for number, kinds in enumerate(expected):
            self.write(journal, f"e{number}", kinds)
        wanted = [(f"e{number}", "pay") for number, is_open in enumerate(expected.values()) if is_open]
        assert journal.open_effects() == wanted
        assert self.restarted(journal).open_effects() == wanted

    def test_open_effects_are_listed_oldest_first(self) -> None:
        """The order is that of the first proposal, whatever was written since, and also for one that was proposed anew."""
        journal = self.journal()
        for effect_id in ("z", "m", "a"):
            self.write(journal, effect_id, (Kind.PROPOSED,))
        self.write(journal, "m", (Kind.REFUSED,))
        assert [effect_id for effect_id, _ in journal.open_effects()] == ["z", "a"]
        self.write(journal, "z", (Kind.AUTHORIZED,))
        self.write(journal, "m", (Kind.PROPOSED,))
        assert [effect_id for effect_id, _ in journal.open_effects()] == ["z", "m", "a"]

    def test_all_effects_are_listed_oldest_first(self) -> None:
        """Each once, by its first proposal, open or not; another worker sees the same, and what is added while it looks."""
        journal = self.journal()
        assert list(journal.effects()) == []
        for effect_id in ("z", "m", "a"):
            self.write(journal, effect_id, (Kind.PROPOSED,))
        self.write(journal, "m", (Kind.REFUSED,))
        self.write(journal, "z", (Kind.AUTHORIZED, Kind.DISPATCHED, Kind.COMMITTED))
        listed = journal.effects()
        assert next(listed) == "z"
        assert list(listed) == ["m", "a"]
        other = self.restarted(journal)
        self.write(other, "b", (Kind.PROPOSED,))
        assert list(other.effects()) == ["z", "m", "a", "b"]

    # --- settlement ----------------------------------------------------------------------------------------------------

    @staticmethod
    def land(journal: Journal, effect_id: str, until: str, *references: str) -> History:
        """Append to an effect what makes it a landed one that is watched until then."""
        watch = {"until": until, "references": list(references)}
        history = JournalContract.write(journal, effect_id)
        after = journal.append(history, [draft(Kind.COMMITTED, via="send", value=None, watch=watch)])
        assert after is not None
        return after

    def test_watched_effects_are_those_within_their_horizon(self) -> None:
        """An effect that landed with a watch is listed until that ends, the first to end first; one without is never listed."""
        journal = self.journal()
        assert journal.watched() == []
        self.land(journal, "late", "2026-06-02", "re_1")
        self.land(journal, "early", "2026-06-01", "re_2")
        self.write(journal, "plain", (*_CHAIN, Kind.COMMITTED))
        self.write(journal, "open")
        for seen in (journal, self.journal(), self.restarted(journal)):
            assert seen.watched() == [
                Watched("early", "pay", "2026-06-01", "accepted", _AT),
                Watched("late", "pay", "2026-06-02", "accepted", _AT),
            ]
            assert [row.effect_id for row in seen.watched(after="2026-06-01")] == ["late"]
            assert seen.watched(after="2026-06-02") == []
        assert journal.verify().problems == ()

    def test_the_list_of_watched_effects_follows_the_entries(self) -> None:
        """Each settlement entry moves the state in the list, with the moment it was written, however many come in one append."""
        journal = self.journal()
        self.land(journal, "e1", "2026-06-01")
        for kinds, state in (
            ((Kind.SETTLED,), "settled"),
            ((Kind.AT_RISK,), "at_risk"),
            ((Kind.SETTLED, Kind.AT_RISK, Kind.SETTLED), "settled"),
            ((Kind.REVERSED,), "reversed"),
        ):
            later = f"2026-03-0{len(state)}"
            assert journal.append(journal.load("e1"), [Draft(kind, later, {}) for kind in kinds]) is not None
            assert journal.watched() == [Watched("e1", "pay", "2026-06-01", state, later)]
        self.write(journal, "plain", (*_CHAIN, Kind.COMMITTED))
        self.write(journal, "plain", (Kind.SETTLED,))
        assert len(journal.watched()) == 1
        assert self.restarted(journal).verify().problems == ()

    def test_a_loser_changes_neither_list_nor_index(self) -> None:
        """An append that is refused, lost or illegal leaves the list of watched effects and the index of references as they were."""
        journal, other = self.journal(), self.journal()
        history = self.write(journal, "e1")
        assert self.write(other, "e1", (Kind.REFUSED,)) is not None
        watch = {"until": "2026-06-01", "references": ["re_1"]}
        assert journal.append(history, [draft(Kind.COMMITTED, watch=watch)]) is None
        with _raises(IllegalTransition):
            journal.append(History("e2"), [draft(Kind.COMMITTED, effect="pay", watch=watch)])
        assert journal.watched() == []
        assert journal.find("re_1") == []

    def test_a_reference_leads_to_its_effects(self) -> None:
        """What the service calls something leads to every landed effect that named it, exactly, also after the watch has ended."""
        journal = self.journal()
        assert journal.find("re_1") == []
        self.land(journal, "e2", "2026-06-01", "re_2", "ch_1", "ch_1")
        self.land(journal, "e1", "2026-06-01", "re_1", "ch_1")
        self.write(journal, "e1", (Kind.REVERSED,))
        for seen in (journal, self.restarted(journal)):
            assert seen.find("ch_1") == ["e1", "e2"]
            assert (seen.find("re_1"), seen.find("re_2")) == (["e1"], ["e2"])
            for other in ("", "ch", "CH_1", "ch_1 ", "%", "ch_"):
                assert seen.find(other) == []
        assert journal.verify().problems == ()

    def test_a_watch_that_is_none_is_no_watch(self) -> None:
        """Data that only looks like a watch, as another version may write it, is kept and watches nothing."""
        journal = self.journal()
        none: list[Any] = [None, 7, [], {}, {"until": 5}, {"until": ""}, {"references": ["re_1"]}]
        for number, watch in enumerate(none):
            self.write(journal, f"e{number}")
            assert journal.append(journal.load(f"e{number}"), [draft(Kind.COMMITTED, watch=watch)]) is not None
        odd = {"until": "2026-06-01", "references": ["re_9", 7, None], "more": 1}
        self.write(journal, "odd")
        assert journal.append(journal.load("odd"), [draft(Kind.COMMITTED, watch=odd)]) is not None
        assert [row.effect_id for row in journal.watched()] == ["odd"]
        assert journal.find("re_1") == []
        assert journal.find("re_9") == ["odd"]
        assert journal.verify().problems == ()

    # --- verify --------------------------------------------------------------------------------------------------------

    def test_a_healthy_journal_verifies(self) -> None:
        """Verify finds nothing, counts everything, and its head changes with every entry."""
        journal = self.journal()
        heads = [journal.verify().head]
        for effect_id, kinds in itertools.product(("e1", "e2"), (_CHAIN, (Kind.COMMITTED,), (Kind.SETTLED,))):
            self.write(journal, effect_id, kinds)
            verification = journal.verify()
            assert verification.ok, verification.problems
            heads.append(verification.head)
        assert len(set(heads)) == len(heads)
        assert (verification.entries, verification.effects) == (10, 2)
        assert self.restarted(journal).verify() == verification

    def test_verify_looks_at_one_moment(self) -> None:
        """A journal that others write to meanwhile verifies: what comes during the look is not taken for damage."""
        writer, looker = self.journal(), self.journal()
        ending = threading.Event()

        def work(number: int) -> bool:
            if number == 0:
                try:
                    for _ in range(15):
                        verification = looker.verify()
                        assert verification.ok, verification.problems
                finally:
                    ending.set()
                return True
            step = 0
            while not ending.is_set() and step < 2_000:
                self.write(writer, f"e{step}")
                self.write(writer, f"e{step}", (Kind.COMMITTED,))
                step += 1
            return step > 0

        assert all(_at_once(2, work))

    # --- liveness ------------------------------------------------------------------------------------------------------

    def test_a_worker_that_sends_is_alive(self) -> None:
        """From begin_send on the sender is seen ALIVE, by itself and by others."""
        sender, other = self.journal(), self.journal()
        sender.begin_send("e1", 2)
        self.write(sender, "e1")
        for journal in (sender, other):
            assert journal.liveness(sender.worker, "e1", 2) is Liveness.ALIVE

    def test_a_send_that_ended_unanswered_is_gone(self) -> None:
        """A living worker whose send ended without a recorded answer: it sends no more, but something may be on its way."""
        sender, other = self.journal(), self.journal()
        sender.begin_send("e1", 2)
        self.write(sender, "e1")
        sender.begin_send("e2", 2)
        sender.end_send("e1", 2, answered=False)
        for journal in (sender, other):
            assert journal.liveness(sender.worker, "e1", 2) is Liveness.GONE
            assert journal.liveness(sender.worker, "e2", 2) is Liveness.ALIVE

    def test_the_end_of_one_call_is_not_that_of_another(self) -> None:
        """Two calls try for one place: each ends by itself, once, and whoever never began ends nothing."""
        sender, other = self.journal(), self.journal()
        sender.begin_send("e1", 2, "winner")
        sender.begin_send("e1", 2, "loser")
        self.write(sender, "e1")
        for _ in range(2):
            sender.end_send("e1", 2, "loser", answered=True)
            sender.end_send("e1", 2, "never began", answered=False, in_flight=False)
            for journal in (sender, other):
                assert journal.liveness(sender.worker, "e1", 2) is Liveness.ALIVE
        sender.end_send("e1", 2, "winner", answered=False)
        for journal in (sender, other):
            assert journal.liveness(sender.worker, "e1", 2) is Liveness.GONE

    def test_a_send_that_ended_with_nothing_in_flight_is_ended(self) -> None:
        """A living worker that knows that nothing left it says ENDED for that send, and for no other."""
        sender, other = self.journal(), self.journal()
        for effect_id in ("e1", "e2", "e3"):
            sender.begin_send(effect_id, 2)
        sender.end_send("e1", 2, answered=False, in_flight=False)
        sender.end_send("e2", 2, answered=False, in_flight=True)
        for journal in (sender, other):
            assert journal.liveness(sender.worker, "e1", 2) is Liveness.ENDED
            assert journal.liveness(sender.worker, "e2", 2) is Liveness.GONE
            assert journal.liveness(sender.worker, "e3", 2) is Liveness.ALIVE

    def test_a_later_send_of_the_same_effect_is_its_own(self) -> None:
        """Liveness is asked for one DISPATCHED entry: the end of an earlier send says nothing about a later one."""
        sender, other = self.journal(), self.journal()
        sender.begin_send("e1", 2)
        sender.end_send("e1", 2, answered=False)
        sender.begin_send("e1", 3)
        for journal in (sender, other):
            assert journal.liveness(sender.worker, "e1", 2) is Liveness.GONE
            assert journal.liveness(sender.worker, "e1", 3) is Liveness.ALIVE

    def test_an_abandoned_worker_has_ended(self) -> None:
        """What a simulated crash leaves: a dead worker with nothing in flight, for each of its sends."""
        sender, other = self.journal(), self.journal()
        worker = sender.worker
        sender.begin_send("e1", 2)
        self.write(sender, "e1")
        sender.abandon()
        assert other.liveness(worker, "e1", 2) is Liveness.ENDED
        assert other.liveness(worker, "e9", 2) is Liveness.ENDED

    def test_a_closed_worker_is_gone(self) -> None:
        """A worker that was closed sends no more; what it had sent may still be on its way."""
        sender, other = self.journal(), self.journal()
        worker = sender.worker
        sender.begin_send("e1", 2)
        self.write(sender, "e1")
        sender.end_send("e1", 2, answered=False)
        sender.close()
        assert other.liveness(worker, "e1", 2) is Liveness.GONE

    def test_what_a_worker_said_outlives_it(self) -> None:
        """A send that ended with nothing in flight is ENDED also after its worker was closed."""
        sender, other = self.journal(), self.journal()
        worker = sender.worker
        sender.begin_send("e1", 2)
        self.write(sender, "e1")
        sender.end_send("e1", 2, answered=False, in_flight=False)
        assert other.liveness(worker, "e1", 2) is Liveness.ENDED
        sender.close()
        assert other.liveness(worker, "e1", 2) is Liveness.ENDED

    def test_a_send_keeps_a_closed_worker_alive(self) -> None:
        """Close while a send is running: the worker stays ALIVE, its late answer can be written, and then it is gone."""
        sender, other = self.journal(), self.journal()
        worker = sender.worker
        sender.begin_send("e1", 2)
        history = self.write(sender, "e1")
        sender.close()
        assert other.liveness(worker, "e1", 2) is Liveness.ALIVE
        assert sender.load("e1") == history
        late = asyncio.run(sender.append_async(history, drafts(Kind.COMMITTED)))
        assert late is not None
        assert {entry.by for entry in late.entries} == {worker}
        sender.end_send("e1", 2, answered=True)
        assert other.load("e1") == late
        assert other.liveness(worker, "e1", 2) is Liveness.GONE
        self._refuses_use(sender)

    def test_a_closed_worker_begins_nothing(self) -> None:
        """Close while a send is running: nothing but that send's own effect may be written or sent any more."""
        sender = self.journal()
        sender.begin_send("e1", 2)
        self.write(sender, "e1")
        sender.close()
        with _raises(JournalError):
            sender.append(History("e2"), drafts(*_CHAIN))
        with _raises(JournalError):
            sender.begin_send("e2", 2)
        sender.end_send("e1", 2, answered=False)
        assert self.journal().load("e2") == History("e2")

    def test_nothing_is_proven_about_an_unknown_worker(self) -> None:
        """A worker that nobody has heard of is CUT_OFF, never dead."""
        assert self.journal().liveness("0123456789abcdef", "e1", 2) is Liveness.CUT_OFF

    def test_workers_have_ids_of_their_own(self) -> None:
        """No two journal objects share a worker id, at one time or after each other."""
        first, second = self.journal(), self.journal()
        ids = {first.worker, second.worker}
        first.close()
        ids.add(self.restarted(first).worker)
        assert len(ids) == 3

    # --- the end -------------------------------------------------------------------------------------------------------

    def test_use_after_close_is_refused(self) -> None:
        """A closed journal raises JournalError on use; closing it again and ending a send are of no matter."""
        journal = self.journal()
        self.write(journal, "e1")
        journal.close()
        journal.close()
        journal.end_send("e1", 2, answered=False)
        self._refuses_use(journal)

    def test_use_after_abandon_is_refused(self) -> None:
        """A journal whose worker died in a simulated crash raises JournalError on use, so the dead cannot write."""
        journal = self.journal()
        history = self.write(journal, "e1")
        journal.begin_send("e1", 2)
        journal.abandon()
        journal.abandon()
        journal.end_send("e1", 2, answered=False)
        with _raises(JournalError):
            journal.append(history, drafts(Kind.COMMITTED))
        self._refuses_use(journal)
        journal.close()
        assert self.restarted(journal).load("e1") == history

    @staticmethod
    def _refuses_use(journal: Journal) -> None:
        uses: list[Callable[[], object]] = [
            lambda: journal.load("e1"),
            lambda: journal.append(History("late"), drafts(*_CHAIN)),
            lambda: asyncio.run(journal.append_async(History("late"), drafts(*_CHAIN))),
            lambda: journal.open_effects(),
            lambda: journal.watched(),
            lambda: journal.find("re_1"),
            lambda: journal.liveness("0123456789abcdef", "e1", 2),
            lambda: journal.begin_send("e1", 2),
            lambda: journal.verify(),
        ]
        for use in uses:
            with _raises(JournalError):
                use()


def _at_once(count: int, work: Callable[[int], bool]) -> list[bool]:
    """Run `work(number)` in that many threads that start at the same moment; what each gave, and the first error of any."""
    barrier = threading.Barrier(count)
    results: list[bool | BaseException] = [False] * count

    def run(number: int) -> None:
        try:
            barrier.wait(30)
            results[number] = work(number)
        except BaseException as error:  # noqa: BLE001 - raised again below, in the thread of the test
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "an append did not come back"
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result is True for result in results]
