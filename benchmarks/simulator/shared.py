"""Two effects that share one budget: two simulated worlds side by side, over one clock, one bound on what goes wrong, and one cap.

    state   (world of refund 881, world of refund 882)     each as `world` has it, with a service, workers and a history of its own
    between them: what the entries of the one reserve is held before the other, and the real guard of the real journal judges it

After every action the money that the service paid out is held against the cap. An action is named as in one world, with 100 added to
`who` for each world before it.
"""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.simulator.invariant import DONE, HOLDS, SETTLES, WITHIN, last_kind
from benchmarks.simulator.scenario import Scenario
from benchmarks.simulator.state import Action, State, Violation, Worker
from benchmarks.simulator.world import EFFECT_ID, World
from interlock.effects import Kind
from interlock.rules.budgets import Budget, Holder, reserved

CAP = "refunds:customer:7"
LIMIT = 3000
AMOUNT = 2000
ROUNDS = 12
_APART = 100


class SharedState(NamedTuple):
    """Both worlds at one moment."""

    states: tuple[State, ...]

    @property
    def workers(self) -> tuple[Worker, ...]:
        """The workers of both."""
        return tuple(worker for state in self.states for worker in state.workers)

    @property
    def now(self) -> int:
        """Microseconds since the beginning, the same in both."""
        return self.states[0].now

    @property
    def landed_minor(self) -> int:
        """What the service has paid out, in minor units."""
        return AMOUNT * sum(len(state.landings) for state in self.states)

    def key(self, *, with_budget: bool = True) -> int:
        """A 64-bit fingerprint of everything that matters for what can happen next."""
        return hash(tuple(state.key(with_budget=with_budget) for state in self.states))


class SharedWorld:
    """Two effects and one cap.

    Args:
        scenario: each effect's workers, its service, and how much may go wrong in both together. Without events of the environment.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.worlds = tuple(World(scenario, budgets=(Budget(CAP, LIMIT, AMOUNT),)) for _ in range(2))

    @property
    def crash_points(self) -> set[str]:
        """The crash points at which a worker has died."""
        return set().union(*(world.crash_points for world in self.worlds))

    @property
    def outcomes(self) -> dict[str, int]:
        """What runs came to, counted."""
        found: dict[str, int] = {}
        for world in self.worlds:
            for text, count in world.outcomes.items():
                found[text] = found.get(text, 0) + count
        return found

    def initial(self) -> SharedState:
        """Before anything happened."""
        return SharedState(tuple(world.initial() for world in self.worlds))

    def actions(self, state: SharedState) -> list[Action]:
        """Everything that can happen next, in either world."""
        found: list[Action] = []
        for number, (world, one) in enumerate(zip(self.worlds, state.states, strict=True)):
            actions = [_apart(number, action) for action in world.actions(one) if self._has_time(state, number, action)]
            if any(world._reads_what_is_fixed(one, worker) for worker in one.workers):
                return actions
            found += actions
        return found

    def _has_time(self, state: SharedState, number: int, action: Action) -> bool:
        """Whether the other world lets time pass to where an action takes it."""
        one = state.states[number]
        if action.kind == "wake":
            until = one.workers[action.who].due
        elif action.kind == "land" and action.choice == "late":
            until = next(request.limit - 1 for request in one.pending if request.number == action.who)
        else:
            return True
        return until <= one.now or all(
            world._can_advance(other, until)
            for place, (world, other) in enumerate(zip(self.worlds, state.states, strict=True))
            if place != number
        )

    def apply(self, state: SharedState, action: Action) -> SharedState:
        """Both worlds after an action.

        Raises:
            Violation: something happened that must never happen.
        """
        number, inner = _within(action)
        world, before = self.worlds[number], state.states[number]
        world.others = _holders(state, number)
        after = world.apply(before, inner)
        if len(after.entries) > len(before.entries):
            wanted = _holders(state, number)
            for budget, amount in reserved(entry for entry, _ in after.entries).items():
                wanted.setdefault(budget, {})[EFFECT_ID] = Holder("refund", "refund:881", amount)
            if world._store.reservations != wanted:
                raise Violation(HOLDS, f"the journal holds {world._store.reservations}, and its entries {wanted}")
        states = tuple(
            after if place == number else other._replace(now=after.now, budget=after.budget)
            for place, other in enumerate(state.states)
        )
        moved = SharedState(states)
        if moved.landed_minor > LIMIT:
            raise Violation(WITHIN, f"{moved.landed_minor} was paid out under a cap of {LIMIT}")
        return moved

    def is_possible(self, state: SharedState, action: Action) -> bool:
        """Whether an action makes sense in a state, whatever its bound."""
        number, inner = _within(action)
        return self.worlds[number].is_possible(state.states[number], inner) and self._has_time(state, number, inner)

    def describe(self, state: SharedState, action: Action) -> str:
        """An action in words."""
        number, inner = _within(action)
        return f"refund {881 + number}, {self.worlds[number].describe(state.states[number], inner)}"

    def difference(self, before: SharedState, after: SharedState) -> str:
        """What an action changed that a reader wants to know."""
        return "".join(
            world.difference(old, new) for world, old, new in zip(self.worlds, before.states, after.states, strict=True)
        )

    def play_end(self, state: SharedState, way: str, first: int, played: list[Action]) -> None:
        """Faults stop, workers restart, time passes, both requests are delivered again; what there is room for must be done.

        Args:
            state: where it begins.
            way: what becomes of requests that nobody waits for: `land` or `lost`.
            first: which effect recovers and is delivered first.
            played: gets the actions taken.

        Raises:
            Violation: something is not as it must be at the end.
        """

        def act(state: SharedState, number: int, action: Action) -> SharedState:
            played.append(_apart(number, action))
            return self.apply(state, played[-1])

        def rest(state: SharedState) -> SharedState:
            for _ in range(1000):
                found = self._next_of_end(state, way)
                if found is None:
                    return state
                state = act(state, *found)
            raise Violation(SETTLES, "1000 actions without a fault, and something is still under way")

        order = (first, 1 - first)
        state = rest(state)
        for turn in range(ROUNDS):
            if not any(one.is_open for one in state.states):
                break
            if turn:
                event = "rest" if turn < 4 else "past_timeout" if turn < 6 else "next_day"
                state = act(state, 0, Action("event", -1, event))
            for number in order:
                if state.states[number].is_open:
                    workers = state.states[number].workers
                    state = rest(act(state, number, Action("begin", turn % len(workers), "recover")))
        for number in order:
            state = rest(act(state, number, Action("begin", 0, "submit")))
        kinds = [last_kind(one) for one in state.states]
        if any(one.is_open for one in state.states):
            raise Violation(SETTLES, f"recovered and delivered again, they were left {kinds}")
        if Kind.AMBIGUOUS not in kinds and state.landed_minor != AMOUNT:
            raise Violation(
                DONE, f"there is room for one of two, and {state.landed_minor} was paid out; the journal says {kinds}"
            )
        for number, world in enumerate(self.worlds):
            world.others = {}  # each has a journal of its own here, which knows nothing of the other's entries
            world.verify(state.states[number])

    def _next_of_end(self, state: SharedState, way: str) -> tuple[int, Action] | None:
        for number, one in enumerate(state.states):
            for request in one.pending:
                is_orphan = request.hold == "orphan"
                return number, Action(way if is_orphan else "answer", request.number, "" if is_orphan else "ok")
        asleep: tuple[int, Action] | None = None
        for number, one in enumerate(state.states):
            for index, worker in enumerate(one.workers):
                if worker.phase == "ready":
                    can = self.worlds[number].may_step(one, index)
                    return number, Action("step" if can else "crash", index)
                if worker.phase == "asleep":
                    asleep = asleep or (number, Action("wake", index))
        return asleep


def _apart(number: int, action: Action) -> Action:
    return action._replace(who=number * _APART + max(action.who, 0)) if action.kind != "event" else action


def _within(action: Action) -> tuple[int, Action]:
    if action.kind == "event":
        return 0, action
    number, who = divmod(action.who, _APART)
    return number, action._replace(who=who)


def _holders(state: SharedState, number: int) -> dict[str, dict[str, Holder]]:
    """What the other effect holds, by its entries."""
    found: dict[str, dict[str, Holder]] = {}
    for place, other in enumerate(state.states):
        if place != number:
            for budget, amount in reserved(entry for entry, _ in other.entries).items():
                found.setdefault(budget, {})[f"other-{place}"] = Holder("refund", f"refund:{881 + place}", amount)
    return found
