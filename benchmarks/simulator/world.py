"""The simulated world: what can happen next, and what comes of it, over the real protocol, runner and journal.

Real: `protocol.submit` and `recover_one`, all rules, `MemoryJournal` behind the journal's own checks, and the runner's bookkeeping of
sends (`gate.Runner`, `gate._Call`). Simulated: the clock, the service, the user's callbacks, death, and who comes next. A send is the
one step in two parts, the request leaving and its answer coming back, so that anything can happen between.

    state --actions()--> [step 0, crash 0, answer #1 ok, hand_refund, ...] --apply()--> state, or Violation

The real objects are set to a state before each action and read back after it; a `State` itself is never changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from benchmarks.simulator.clock import VirtualClock
from benchmarks.simulator.invariant import check_dispatch, check_outcome, check_send, check_state
from benchmarks.simulator.runs import Node, Runs
from benchmarks.simulator.scenario import Scenario
from benchmarks.simulator.state import (
    SECOND,
    Action,
    Budget,
    JournalState,
    Known,
    Landing,
    Request,
    State,
    Violation,
    Worker,
)
from interlock import gate
from interlock.effects import History, Kind, Proposal
from interlock.errors import AuthorityUnclear, BudgetUnclear, JournalError, JournalUnavailable, PremiseUnreadable
from interlock.journal._base import Prepared
from interlock.journal._memory import MemoryJournal, MemoryStore
from interlock.outcomes import Outcome
from interlock.ports import Capabilities, Liveness, Verdict
from interlock.protocol import (
    STEP_NAMES,
    Append,
    Authorize,
    Dispatch,
    Landed,
    Load,
    LookUp,
    NotLanded,
    Patience,
    ReadBudgets,
    ReadFacts,
    Run,
    Send,
    Unclear,
    Wait,
    submit,
)
from interlock.rules.budgets import Budget as Cap
from interlock.rules.budgets import Holder, reserved
from interlock.rules.canonical import derive_id, digest
from interlock.rules.premises import Condition

EFFECT = "refund"
KEY = "refund:881"
PAYLOAD = {"order": "881", "amount": 2000}
EFFECT_ID = derive_id(EFFECT, KEY)

LANDED = Landed({"refund": "re_1"}, None)
REJECTED = NotLanded(Verdict.REJECTED, "rejected", "simulated rejection")
UNCLEAR = Unclear("simulated: no clear answer")
IN_USE = Unclear("simulated: key in use", in_use=True)
STILL_RUNNING = Unclear("simulated: given up on, still running", still_running=True)

WALL_BACK_S = 25 * 3600.0

FAULTY_STEPS = {
    Authorize: "unreadable",
    ReadFacts: "unreadable",
    ReadBudgets: "unreadable",
    LookUp: "failed",
    Append: "down",
    Dispatch: "down",
}


def facts(hand_refunded: bool) -> dict[str, Any]:
    """The premises of the simulated effect."""
    return {"refunded_by_others": 500 if hand_refunded else 0}


class SimulatedTarget:
    """The effect function as the protocol sees it; its callbacks read the simulated world."""

    name = EFFECT
    has_premises = True
    has_authority = True
    binds = None
    is_simulated_target = True

    def __init__(self, capabilities: Capabilities) -> None:
        self.capabilities = capabilities
        self.hand_refunded = False
        self.revoked = False
        self.found: Any = None
        self.budgets: tuple[Cap, ...] = ()

    @property
    def has_budget(self) -> bool:
        return bool(self.budgets)

    def read_budgets(self, payload: Mapping[str, Any], idempotency_key: str) -> Any:
        return self.budgets

    def defaults(self) -> Mapping[str, Any]:
        return {}

    def conditions(self, payload: Mapping[str, Any]) -> Mapping[str, Condition]:
        return {}

    def is_async(self, role: str) -> bool:
        return False

    def read_facts(self, payload: Mapping[str, Any], idempotency_key: str) -> Any:
        return facts(self.hand_refunded)

    def is_allowed(self, payload: Mapping[str, Any], idempotency_key: str) -> Any:
        return not self.revoked

    def look_up(self, payload: Mapping[str, Any], idempotency_key: str) -> Any:
        return self.found

    def send(self, payload: Mapping[str, Any], idempotency_key: str) -> Any:
        raise AssertionError("the simulator sends in two parts")

    def classify(self, error: BaseException) -> tuple[Verdict, str]:
        raise AssertionError("the simulator classifies its answers itself")

    def watch(self, payload: Mapping[str, Any], idempotency_key: str, written: Any) -> None:
        """It declares no settlement."""

    def encode_value(self, raw: Any) -> Any:
        return raw

    def decode_value(self, written: Any) -> Any:
        return written


class SimulatedJournal(MemoryJournal):
    """The real journal in memory, under a name that is the same in every run, with a disk that can fail."""

    def __init__(self, store: MemoryStore, name: str) -> None:
        super().__init__(store)
        del store.workers[self._worker]
        self._worker = name
        store.workers[name] = self
        self.is_down = False

    def _commit(self, prepared: Prepared) -> bool:
        if self.is_down:
            raise JournalUnavailable("simulated: the disk is full; nothing was written.")
        return super()._commit(prepared)


class World:
    """One scenario's world.

    Args:
        scenario: what there is and what may go wrong.
        merge: whether places in a run that freeze alike count as one (see `runs`).
        budgets: the caps that the effect shares with others; what those hold is set from outside, in `others`.
    """

    def __init__(self, scenario: Scenario, *, merge: bool = True, budgets: tuple[Cap, ...] = ()) -> None:
        self.scenario = scenario
        self.capabilities = scenario.capabilities
        self.runs = Runs(self._make, merge=merge)
        self.crash_points: set[str] = set()
        self.outcomes: dict[str, int] = {}
        self._last_result = ""
        self.others: dict[str, dict[str, Holder]] = {}
        self._target = SimulatedTarget(scenario.capabilities)
        self._target.budgets = budgets
        self._clock = VirtualClock()
        self._store = MemoryStore()
        self._journals: dict[str, SimulatedJournal] = {}
        self._runners: dict[str, gate.Runner] = {}
        self._calls: dict[str, gate._Call] = {}
        self._settle = _microseconds(self.capabilities.settle_after_s)
        self._timeout = _microseconds(self.capabilities.timeout_s)
        self._lag = _microseconds(self.capabilities.lookup_lag_s)
        self._window = _microseconds(self.capabilities.window_s)

    # --- the beginning and what can follow -----------------------------------------------------------------------------

    def initial(self) -> State:
        """The world before anything happened."""
        workers = tuple(
            Worker(0, "done", -1) if task == "later" else self._begun(task, 0, 0, 0) for task in self.scenario.workers
        )
        journals = tuple(JournalState(_name(index, 0), (), (), None) for index in range(len(workers)))
        return State(0, 0, (), (), (), journals, workers, (), (), (), 0, False, False, self.scenario.budget)

    def actions(self, state: State) -> list[Action]:
        """Everything that can happen next.

        Where a worker is about to read something that cannot change any more, only what this worker does is listed: the others
        can do theirs just as well after that, to the same end, and a death leaves the same behind before and after it.
        """
        found: list[Action] = []
        budget = state.budget
        for index, worker in enumerate(state.workers):
            if self._reads_what_is_fixed(state, worker):
                return self._worker_actions(state, index, worker)
        for index, worker in enumerate(state.workers):
            found += self._worker_actions(state, index, worker)
        for request in state.pending:
            found += self._request_actions(state, request)
        if budget.events:
            found += [Action("event", -1, name) for name in self.scenario.events if self._can_happen(state, name)]
        return found

    def _reads_what_is_fixed(self, state: State, worker: Worker) -> bool:
        if worker.phase != "ready":
            return False
        kind = type(self.runs[worker.node].step)
        if kind is ReadBudgets:
            return True
        if kind is Authorize:
            return state.revoked or not state.budget.events or "revoke" not in self.scenario.events
        if kind is ReadFacts:
            return state.hand_refunded or not state.budget.events or "hand_refund" not in self.scenario.events
        return False

    def _worker_actions(self, state: State, index: int, worker: Worker) -> list[Action]:
        budget, scenario = state.budget, self.scenario
        phase = worker.phase
        if phase in ("done", "dead"):
            if not budget.runs:
                return []
            return [Action("begin", index, task) for task in scenario.again if task != "recover" or state.is_open]
        found: list[Action] = []
        if phase == "ready":
            step = self.runs[worker.node].step
            kind = type(step)
            if kind is not Send or self._may_send(state, index, worker):
                found.append(Action("step", index))
                if kind is LookUp and self._is_hidden(state, step):
                    found.append(Action("step", index, "miss"))
                fault = FAULTY_STEPS.get(kind, "")
                if budget.faults and fault in scenario.faults:
                    found.append(Action("step", index, fault))
        elif phase == "asleep" and self._can_advance(state, max(state.now, worker.due)):
            found.append(Action("wake", index))
        if budget.crashes:
            found += [
                Action(way, index)
                for way in scenario.deaths
                if way != "cut_off" or self._can_be_cut_off(state, index, worker)
            ]
        return found

    def _request_actions(self, state: State, request: Request) -> list[Action]:
        number, has_faults = request.number, state.budget.faults > 0
        dedupes = self.capabilities.dedupes
        known = self._known(state, request.key)
        if request.hold == "orphan":
            found = [Action("land", number), Action("lost", number)]
            if self.scenario.late and request.limit - 1 > state.now:
                others = state._replace(pending=tuple(other for other in state.pending if other is not request))
                if self._can_advance(others, request.limit - 1):
                    found.append(Action("land", number, "late"))
            return found
        found = [Action("answer", number, "ok")]
        if not has_faults:
            return found
        choices = ["drop_after", "drop"]
        if known is None:
            choices.append("reject")
            if dedupes:
                choices += ["e500_after", "e500_before"]
        if dedupes and any(other.key == request.key and other is not request for other in state.pending):
            choices.append("in_use")
        if request.hold == "awaited":
            choices.append("give_up")
        return found + [Action("answer", number, choice) for choice in choices if choice in self.scenario.faults]

    def _can_happen(self, state: State, event: str) -> bool:
        if event == "hand_refund":
            return not state.hand_refunded
        if event == "revoke":
            return not state.revoked
        if event in ("wall_forward", "wall_back"):
            return state.wall_offset == 0
        until = self._until(state, event)
        return until is not None and until > state.now and self._can_advance(state, until)

    def _until(self, state: State, event: str) -> int | None:
        """The moment that an event lets time pass to."""
        if event == "timeout":
            limits = [request.limit for request in state.pending if request.hold != "orphan"]
            return min(limits, default=None)
        if event == "rest":
            return state.now + 2 * SECOND
        if event == "past_timeout":
            return state.now + self._timeout + self._settle + SECOND
        if event == "next_day":
            return state.now + self._window + self._timeout + self._settle
        first = next((entry for entry, _ in state.entries if entry.kind is Kind.DISPATCHED), None)
        if first is None:
            return None
        dispatched = _microseconds(first.data["uptime_s"])
        if event == "near_window":
            return dispatched + self._window - self._timeout - SECOND // 2
        return dispatched + self._window + SECOND

    def _can_advance(self, state: State, until: int) -> bool:
        """Whether time may pass to `until`: what has left is dealt with within its limit, whoever is paused."""
        for request in state.pending:
            if until > request.limit or (request.hold == "orphan" and until == request.limit):
                return False
        for index, worker in enumerate(state.workers):
            step = self.runs[worker.node].step if worker.phase == "ready" else None
            if isinstance(step, Send) and until > state.now:
                # The moment between the last look at the clock and the leaving of a resend is taken as no time.
                if self.capabilities.dedupes and _is_resend(step.history):
                    return False
                if self._is_cut_off(state, index, worker) and until > self._deadline(step):
                    return False
        return True

    def _is_cut_off(self, state: State, index: int, worker: Worker) -> bool:
        return _journal(state, _name(index, worker.life)).fate is Liveness.CUT_OFF

    def _can_be_cut_off(self, state: State, index: int, worker: Worker) -> bool:
        return worker.call[0] is not None and not self._is_cut_off(state, index, worker)

    def _deadline(self, step: Send) -> int:
        dispatch = step.history.entries[-1]
        length = datetime.fromisoformat(dispatch.data["deadline"]) - datetime.fromisoformat(dispatch.at)
        return _microseconds(dispatch.data["uptime_s"]) + _microseconds(length.total_seconds())

    def _may_send(self, state: State, index: int, worker: Worker) -> bool:
        step = self.runs[worker.node].step
        assert isinstance(step, Send)
        return not self._is_cut_off(state, index, worker) or state.now < self._deadline(step)

    # --- what comes of it ---------------------------------------------------------------------------------------------

    def apply(self, state: State, action: Action) -> State:
        """The world after an action.

        Raises:
            Violation: something happened that must never happen.
        """
        kind, who, choice = action
        before = state
        match kind:
            case "step":
                state = self._step(state, who, choice)
            case "wake":
                worker = state.workers[who]
                state = state._replace(now=max(state.now, worker.due))
                state = self._answered(state, who, None)
            case "answer":
                state = self._answer(state, who, choice)
            case "land":
                request = _request(state, who)
                if choice == "late":
                    state = state._replace(now=request.limit - 1)
                state, _ = self._act(_without(state, request), request, "ok")
            case "lost":
                state = _without(state, _request(state, who))
            case "crash":
                state = self._crash(state, who)
            case "cancel":
                state = self._cancel(state, who)
            case "cut_off":
                state = self._cut_off(state, who)
            case "begin":
                state = self._begin(state, who, choice)
            case "event":
                state = self._event(state, choice)
            case _:
                raise AssertionError(f"no such action: {action}")
        check_state(before, state, len(self._sending(state)), self.capabilities, frozenset(self._sending(before)))
        return state

    def _step(self, state: State, index: int, choice: str) -> State:
        worker = state.workers[index]
        node = self.runs[worker.node]
        step = node.step
        assert step is not None
        name = _name(index, worker.life)
        kind = type(step)
        if choice and choice != "miss":
            state = _spend(state, faults=1)
        if isinstance(step, Send):
            return self._leave(state, index, step)
        if isinstance(step, Authorize | ReadFacts):
            if choice == "unreadable":
                error = AuthorityUnclear("simulated") if isinstance(step, Authorize) else PremiseUnreadable("simulated")
                return self._answered(state, index, error, raised=True)
            self._target.revoked, self._target.hand_refunded = state.revoked, state.hand_refunded
            answer = self._call(index, worker, name).perform(step)
            if isinstance(step, Authorize):
                worker = worker._replace(allowed=answer)
            else:
                worker = worker._replace(facts_hold=answer == self._seen(state, answer))
            return self._answered(_put(state, index, worker), index, answer)
        if isinstance(step, ReadBudgets):
            if choice == "unreadable":
                return self._answered(state, index, BudgetUnclear("simulated"), raised=True)
            return self._answered(state, index, self._call(index, worker, name).perform(step))
        if isinstance(step, LookUp):
            if choice == "failed":
                return self._answered(state, index, gate._lookup_failed(TimeoutError("simulated")))
            landing = next((landing for landing in state.landings if landing.key == step.idempotency_key), None)
            self._target.found = None if landing is None or choice == "miss" else {"refund": "re_1"}
            return self._answered(state, index, self._call(index, worker, name).perform(step))
        self._restore(state)
        journal = self._journals[name]
        journal.is_down = choice == "down"
        try:
            answer = self._call(index, worker, name).perform(step)
        except JournalError as error:
            if not journal.is_down:
                raise Violation("the journal is as it was written", str(error)) from error
            journal.is_down = False
            self._calls[name].finish()
            return self._saved(state, index, _ended(worker))
        finally:
            journal.is_down = False
        if kind is Load or (kind is Dispatch and type(answer) is History):
            if kind is Dispatch:
                check_dispatch(worker, name, answer)
            worker = worker._replace(allowed=None, facts_hold=None)
        state = self._saved(state, index, worker)
        return self._answered(state, index, answer)

    def _leave(self, state: State, index: int, step: Send) -> State:
        """A request leaves its sender."""
        worker = state.workers[index]
        name = _name(index, worker.life)
        is_cut_off = self._is_cut_off(state, index, worker)
        check_send(state, name, step, is_cut_off=is_cut_off)
        call = self._call(index, worker, name)
        call._note_send()
        number = state.requests + 1
        limit = self._deadline(step) if is_cut_off else state.now + self._timeout
        request = Request(
            number, step.idempotency_key, len(step.history.entries) - 1, index, worker.life, limit, "awaited"
        )
        worker = worker._replace(phase="sending", call=_call_state(call))
        state = _put(state, index, worker)
        return state._replace(pending=(*state.pending, request), requests=number)

    def _answer(self, state: State, number: int, choice: str) -> State:
        """The service deals with a request, or its sender stops waiting for that."""
        request = _request(state, number)
        if choice != "ok":
            state = _spend(state, faults=1)
        state = _without(state, request)
        if choice == "give_up":
            state = state._replace(pending=(*state.pending, request._replace(hold="adopted")))
            return self._told(state, request, STILL_RUNNING)
        if choice == "drop":
            orphan = request._replace(hold="orphan", limit=state.now + self._settle)
            state = state._replace(pending=(*state.pending, orphan))
            return self._told(state, request, UNCLEAR)
        state, answer = self._act(state, request, choice)
        return self._told(state, request, answer)

    def _act(self, state: State, request: Request, way: str) -> tuple[State, Landed | NotLanded | Unclear]:
        """What the service does with a request that reached it, and what it says."""
        if way == "in_use":
            return state, IN_USE
        known = self._known(state, request.key)
        if known is not None:
            replay: Landed | NotLanded | Unclear = (
                LANDED if known.result == "ok" else REJECTED if known.result == "rejected" else UNCLEAR
            )
            return state, UNCLEAR if way == "drop_after" else replay
        ways: dict[str, tuple[str, Landed | NotLanded | Unclear]] = {
            "ok": ("ok", LANDED),
            "drop_after": ("ok", UNCLEAR),
            "reject": ("rejected", REJECTED),
            "e500_after": ("e500", UNCLEAR),
            "e500_before": ("e500", UNCLEAR),
        }
        result, answer = ways[way]
        if way in ("ok", "drop_after", "e500_after"):
            state = state._replace(
                landings=(*state.landings, Landing(request.key, state.now, request.n, request.worker))
            )
        if self.capabilities.dedupes and not (result == "rejected" and self.scenario.forgets_rejections):
            kept = tuple(known for known in state.known if known.key != request.key)
            state = state._replace(known=(*kept, Known(request.key, state.now, result)))
        return state, answer

    def _known(self, state: State, key: str) -> Known | None:
        """What the service remembers of a key; nothing once its window has passed."""
        for known in state.known:
            if known.key == key and state.now - known.since < self._window:
                return known
        return None

    def _is_hidden(self, state: State, step: LookUp | Any) -> bool:
        """Whether a look-up may still miss what has landed."""
        return any(
            landing.key == step.idempotency_key and state.now - landing.at < self._lag for landing in state.landings
        )

    def _told(self, state: State, request: Request, answer: Landed | NotLanded | Unclear) -> State:
        """An answer reaches the sender's process."""
        index, name = request.worker, _name(request.worker, request.life)
        worker = state.workers[index]
        self._restore(state)
        if request.hold == "awaited":
            call = self._call(index, worker, name)
            step = self.runs[worker.node].step
            assert isinstance(step, Send)
            if answer is STILL_RUNNING:
                call._claim = None  # as the gate does when it stops waiting
            call._note_answer(answer)
            state = self._saved(state, index, worker._replace(heard=worker.heard or answer is LANDED))
            return self._answered(state, index, answer)
        # What `gate.Runner.adopt` does when the task ends.
        runner = self._runners[name]
        history = History(EFFECT_ID, tuple(entry for entry, _ in state.entries[: request.n + 1]))
        answered = runner.record_late(history, answer) if isinstance(answer, Landed | NotLanded) else False
        self._journals[name].end_send(EFFECT_ID, request.n, self._calls[name], answered=answered)
        return self._saved(state, index, worker, call=False)

    def _crash(self, state: State, index: int) -> State:
        worker = state.workers[index]
        self._note_crash(worker)
        state = self._orphaned(state, index, worker.life)
        name = _name(index, worker.life)
        journals = tuple(
            journal._replace(sending=(), fate=journal.fate or Liveness.GONE) if journal.name == name else journal
            for journal in state.journals
        )
        state = _spend(state._replace(journals=journals), crashes=1)
        return _put(state, index, Worker(worker.life, "dead", -1))

    def _cancel(self, state: State, index: int) -> State:
        """The call is interrupted; its process lives on."""
        worker = state.workers[index]
        name = _name(index, worker.life)
        if worker.phase == "sending":
            state = self._orphaned(state, index, worker.life, hold="awaited")
        self._restore(state)
        call = self._call(index, worker, name)
        call.finish()
        return _spend(self._saved(state, index, _ended(worker)), crashes=1)

    def _cut_off(self, state: State, index: int) -> State:
        name = _name(index, state.workers[index].life)
        journals = tuple(
            journal._replace(fate=Liveness.CUT_OFF) if journal.name == name else journal for journal in state.journals
        )
        return _spend(state._replace(journals=journals), crashes=1)

    def _orphaned(self, state: State, index: int, life: int, *, hold: str = "") -> State:
        """Nobody waits any more for what this worker has sent; it lands within `settle_after`, or never."""
        limit = state.now + self._settle
        pending = tuple(
            request._replace(hold="orphan", limit=limit)
            if request.worker == index
            and request.life == life
            and request.hold != "orphan"
            and (not hold or request.hold == hold)
            else request
            for request in state.pending
        )
        return state._replace(pending=pending)

    def _begin(self, state: State, index: int, task: str) -> State:
        worker = state.workers[index]
        life = worker.life
        if worker.phase == "dead":
            life += 1
            fresh = JournalState(_name(index, life), (), (), None)
            state = state._replace(journals=(*state.journals, fresh))
            worker = Worker(life, "dead", -1)
        begun = self._begun(task, life, state.now, state.wall_offset)
        begun = begun._replace(gone=worker.gone, unrecorded=worker.unrecorded)
        return _spend(_put(state, index, begun), runs=1)

    def _event(self, state: State, event: str) -> State:
        state = _spend(state, events=1)
        if event == "hand_refund":
            return state._replace(hand_refunded=True)
        if event == "revoke":
            return state._replace(revoked=True)
        if event == "wall_forward":
            return state._replace(wall_offset=self._window + 3600 * SECOND)
        if event == "wall_back":
            return state._replace(wall_offset=-_microseconds(WALL_BACK_S))
        until = self._until(state, event)
        assert until is not None
        return state._replace(now=max(state.now, until))

    # --- a worker's run -------------------------------------------------------------------------------------------------

    def _make(self, task: str, clock: VirtualClock) -> Run:
        """A run of the real protocol."""
        wait_s = self.scenario.wait_s if task == "submit" else 0.0
        patience = Patience(clock, wait_s)
        if task == "recover":
            return gate._recovery(EFFECT_ID, self._target, patience)
        fresh = self.scenario.fresh
        proposal = Proposal(
            EFFECT, KEY, EFFECT_ID, PAYLOAD, digest(PAYLOAD), None if fresh else facts(False), fresh, ""
        )
        return submit(proposal, self._target, clock=clock, patience=patience)

    def _begun(self, task: str, life: int, now: int, wall_offset: int) -> Worker:
        return Worker(life, "ready", self.runs.begin(task, now, wall_offset))

    def _answered(self, state: State, index: int, answer: Any, *, raised: bool = False) -> State:
        """A worker gets the answer to its step and goes on to its next one."""
        worker = state.workers[index]
        number = self.runs.advance(worker.node, answer, state.now, state.wall_offset, raised=raised)
        node = self.runs[number]
        if node.result is not None:
            return self._over(state, index, node)
        step = node.step
        if isinstance(step, Wait):
            due = state.now + max(0, math.ceil(step.seconds * SECOND))
            return _put(state, index, worker._replace(phase="asleep", node=number, due=due))
        return _put(state, index, worker._replace(phase="ready", node=number, due=0))

    def _over(self, state: State, index: int, node: Node) -> State:
        """A run has come to its end."""
        worker = state.workers[index]
        self._last_result = str(node.result)
        if isinstance(node.result, Outcome):
            text = str(node.result)
            self.outcomes[text] = self.outcomes.get(text, 0) + 1
            check_outcome(state, worker, node.result)
        if worker.call[0] is None:
            return _put(state, index, _ended(worker))
        self._restore(state)
        self._call(index, worker, _name(index, worker.life)).finish()
        return self._saved(state, index, _ended(worker))

    def _seen(self, state: State, now: Any) -> Any:
        """The facts that the decision stands on: those on the record, else those of the proposal, else the present ones."""
        for entry, _ in reversed(state.entries):
            if entry.kind is Kind.PROPOSED:
                return entry.data.get("seen")
        return now if self.scenario.fresh else facts(False)

    def _sending(self, state: State) -> list[tuple[str, int]]:
        """Each live worker that is about to send or is sending, and under which entry; not those declared out of sight."""
        found: list[tuple[str, int]] = []
        for index, worker in enumerate(state.workers):
            if worker.phase in ("ready", "sending"):
                step = self.runs[worker.node].step
                if isinstance(step, Send) and not self._is_cut_off(state, index, worker):
                    found.append((_name(index, worker.life), len(step.history.entries) - 1))
        for request in state.pending:
            if request.hold == "adopted":
                worker = state.workers[request.worker]
                if not self._is_cut_off(state, request.worker, worker):
                    found.append((_name(request.worker, request.life), request.n))
        return found

    def _note_crash(self, worker: Worker) -> None:
        """Which of the protocol's crash points this death is at."""
        node = self.runs[worker.node]
        if worker.phase == "sending":
            self.crash_points.add("during_send")
            return
        self.crash_points.add(f"before_{STEP_NAMES[type(node.step)]}")
        if node.answered is not None:
            self.crash_points.add(f"after_{STEP_NAMES[node.answered]}")

    # --- the real objects -------------------------------------------------------------------------------------------------

    def _call(self, index: int, worker: Worker, name: str) -> gate._Call:
        self._ensure(name)
        call = self._calls[name]
        call._claim, call._claimed, call._sent, call._landed = worker.call
        return call

    def _ensure(self, name: str) -> None:
        if name not in self._journals:
            journal = SimulatedJournal(self._store, name)
            self._journals[name] = journal
            self._runners[name] = runner = gate.Runner(journal, self._clock)
            self._calls[name] = gate._Call(runner, self._target, "")

    def _restore(self, state: State) -> None:
        """Set the real journal and runners to a state."""
        store = self._store
        self._clock.put(state.now, state.wall_offset)
        store.order[:] = state.entries
        store.effects.clear()
        if state.entries:
            store.effects[EFFECT_ID] = [entry for entry, _ in state.entries]
        store.reservations.clear()
        for budget, holders in self.others.items():
            store.reservations[budget] = dict(holders)
        for budget, amount in reserved(entry for entry, _ in state.entries).items():
            store.reservations.setdefault(budget, {})[EFFECT_ID] = Holder(EFFECT, KEY, amount)
        store.open.clear()
        store.open.update(state.open)
        store.places.clear()
        store.places.update(state.places)
        store.workers.clear()
        for saved in state.journals:
            name = saved.name
            self._ensure(name)
            journal = self._journals[name]
            store.workers[name] = journal
            journal._sending = {place: frozenset({self._calls[name]}) for place in saved.sending}
            journal._ended = dict(saved.ended)
            journal._fate = saved.fate
        for index, worker in enumerate(state.workers):
            runner = self._runners[_name(index, worker.life)]
            runner._gone_since = dict(worker.gone)
            runner._unrecorded = dict(worker.unrecorded)

    def _saved(self, state: State, index: int, worker: Worker, *, call: bool = True) -> State:
        """Read the real journal, and the runner of the worker that acted, back into a state."""
        store = self._store
        journals = []
        for saved in state.journals:
            journal = self._journals[saved.name]
            journals.append(
                JournalState(
                    saved.name,
                    tuple(sorted(journal._sending)),
                    tuple(sorted(journal._ended.items())),
                    journal._fate,
                )
            )
        name = _name(index, worker.life)
        runner = self._runners[name]
        worker = worker._replace(
            gone=tuple(sorted(runner._gone_since.items())), unrecorded=tuple(runner._unrecorded.items())
        )
        if call and worker.phase != "done":
            worker = worker._replace(call=_call_state(self._calls[name]))
        entries = state.entries if len(store.order) == len(state.entries) else tuple(store.order)
        state = state._replace(
            entries=entries,
            open=tuple(store.open.items()),
            places=tuple(store.places.items()),
            journals=tuple(journals),
        )
        return _put(state, index, worker)

    # --- words -----------------------------------------------------------------------------------------------------------

    def may_step(self, state: State, index: int) -> bool:
        """Whether a worker that is ready can do its next step."""
        worker = state.workers[index]
        return type(self.runs[worker.node].step) is not Send or self._may_send(state, index, worker)

    def is_possible(self, state: State, action: Action) -> bool:
        """Whether an action makes sense in a state, whatever its budget."""
        kind, who, choice = action
        if kind == "event":
            return self._can_happen(state, choice)
        if kind == "begin":
            return state.workers[who].phase in ("done", "dead") and (choice != "recover" or state.is_open)
        return action in self.actions(state._replace(budget=Budget(9, 9, 9, 9)))

    def describe(self, state: State, action: Action) -> str:
        """An action in words."""
        kind, who, choice = action
        if kind in ("answer", "land", "lost"):
            request = _request(state, who)
            return f"request #{who} of {_name(request.worker, request.life)}: {kind} {choice}".rstrip()
        if kind == "event":
            return f"the environment: {choice}"
        worker = state.workers[who]
        name = _name(who, worker.life)
        if kind == "step":
            step = self.runs[worker.node].step
            return f"{name}: {STEP_NAMES[type(step)]}{f' ({choice})' if choice else ''}"
        return f"{name}: {kind} {choice}".rstrip()

    def difference(self, before: State, after: State) -> str:
        """What an action changed that a reader wants to know."""
        told = [f"{entry.kind} by {entry.by}" for entry, _ in after.entries[len(before.entries) :]]
        if len(after.landings) > len(before.landings):
            told.append("IT LANDED")
        for index, (old, new) in enumerate(zip(before.workers, after.workers, strict=True)):
            if new.phase == "asleep" and old.node != new.node:
                told.append(f"{_name(index, new.life)} waits until {new.due / SECOND:.3f} s")
        for index, (old, new) in enumerate(zip(before.workers, after.workers, strict=True)):
            if new.phase == "done" and old.phase != "done":
                told.append(f"{_name(index, new.life)} answers {self._last_result or 'with an error'}")
        return f"  -> {', '.join(told)}" if told else ""

    def verify(self, state: State) -> None:
        """Check the journal's chain as anybody would.

        Raises:
            Violation: it does not verify.
        """
        self._restore(state)
        found = self._journals[state.journals[0].name].verify()
        if not found.ok:
            raise Violation("the journal's chain verifies", "; ".join(found.problems))


def _name(index: int, life: int) -> str:
    return f"w{index}.{life}"


def _is_resend(history: History) -> bool:
    return history.entries[-2].kind is Kind.DISPATCHED


def _microseconds(seconds: float) -> int:
    return round(seconds * SECOND)


def _journal(state: State, name: str) -> JournalState:
    return next(journal for journal in state.journals if journal.name == name)


def _request(state: State, number: int) -> Request:
    return next(request for request in state.pending if request.number == number)


def _without(state: State, gone: Request) -> State:
    return state._replace(pending=tuple(request for request in state.pending if request is not gone))


def _put(state: State, index: int, worker: Worker) -> State:
    workers = state.workers
    return state._replace(workers=(*workers[:index], worker, *workers[index + 1 :]))


def _ended(worker: Worker) -> Worker:
    return Worker(worker.life, "done", -1, gone=worker.gone, unrecorded=worker.unrecorded)


def _call_state(call: gate._Call) -> tuple[Any, ...]:
    return (call._claim, call._claimed, call._sent, call._landed)


def _spend(state: State, *, crashes: int = 0, faults: int = 0, runs: int = 0, events: int = 0) -> State:
    budget = state.budget
    return state._replace(
        budget=budget._replace(
            crashes=max(0, budget.crashes - crashes),
            faults=max(0, budget.faults - faults),
            runs=max(0, budget.runs - runs),
            events=max(0, budget.events - events),
        )
    )
