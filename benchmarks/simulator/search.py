"""Looking for a violation: everything within a scenario's bounds, or at random by seed. Owns how a finding is repeated and told.

    exhaust    depth first over every action, each state once
    wander     one long random run, repeated exactly by its seed
    replay     the actions of a finding again, each told in words

Wherever nothing is under way any more, the end is played too: faults stop, workers restart, time passes; every effect must settle.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks.simulator.invariant import CHAIN, DONE, JOURNAL, SETTLES, last_kind
from benchmarks.simulator.scenario import Scenario
from benchmarks.simulator.shared import SharedWorld
from benchmarks.simulator.state import Action, State, Violation
from benchmarks.simulator.world import World
from interlock.effects import Kind
from interlock.errors import JournalError

ROUNDS = 12
"""After how many recoveries an effect must have settled."""


AnyWorld = World | SharedWorld
"""What can be searched. Its states are its own."""


@dataclass(slots=True)
class Tally:
    """What a search has seen.

    Attributes:
        states: different states visited.
        transitions: actions applied.
        ends: states in which nothing was under way, from which the end was played.
        schedules: ways through, from the beginning to where nothing new could be reached.
        deepest: actions on the longest way.
        complete: whether everything within the bounds was visited.
        seconds: how long it took.
        violation: what was found, if anything.
    """

    states: int = 0
    transitions: int = 0
    ends: int = 0
    schedules: int = 0
    deepest: int = 0
    complete: bool = True
    seconds: float = 0.0
    violation: Violation | None = None
    outcomes: dict[str, int] = field(default_factory=dict)


def world_of(scenario: Scenario, *, merge: bool = True) -> AnyWorld:
    """The world of a scenario: one effect, or two that share a cap."""
    return SharedWorld(scenario) if scenario.shares else World(scenario, merge=merge)


def exhaust(world: AnyWorld, *, depth: int | None = None, states: int | None = None) -> Tally:
    """Visit every state that can be reached, or stop at the first violation.

    Args:
        world: the world to search.
        depth: go no further than so many actions; then the search is not complete.
        states: stop after so many states; likewise.
    """
    tally = Tally()
    began = time.perf_counter()
    path: list[Action] = []
    try:
        state: Any = world.initial()
        seen = {state.key()}
        ended: set[int] = set()
        stack: list[tuple[Any, Iterator[Action]]] = [(state, iter(world.actions(state)))]
        tally.states = 1
        grew = True
        while stack:
            state, actions = stack[-1]
            action = next(actions, None)
            if action is None:
                stack.pop()
                if path:
                    path.pop()
                tally.schedules += grew
                grew = False
                continue
            path.append(action)
            after = apply(world, state, action)
            tally.transitions += 1
            key = after.key()
            if key in seen:
                path.pop()
                continue
            if (depth is not None and len(path) >= depth) or (states is not None and tally.states >= states):
                tally.complete = False
                path.pop()
                if states is not None and tally.states >= states:
                    break
                continue
            seen.add(key)
            grew = True
            tally.states += 1
            tally.deepest = max(tally.deepest, len(path))
            if is_quiet(after):
                end = after.key(with_budget=False)
                if end not in ended:
                    ended.add(end)
                    tally.ends += 1
                    tally.transitions += play_ends(world, after, path)
            stack.append((after, iter(world.actions(after))))
    except Violation as violation:
        violation.decisions = violation.decisions or tuple(path)
        tally.violation = violation
        tally.complete = False
    tally.seconds = time.perf_counter() - began
    tally.outcomes = dict(world.outcomes)
    return tally


def wander(world: World, chance: random.Random, *, steps: int = 150) -> Tally:
    """One random run of so many actions at most, then its end."""
    tally = Tally()
    began = time.perf_counter()
    path: list[Action] = []
    try:
        state = world.initial()
        while len(path) < steps:
            actions = world.actions(state)
            if not actions:
                break
            action = chance.choices(actions, [_weight(action) for action in actions])[0]
            path.append(action)
            state = apply(world, state, action)
        tally.deepest = len(path)
        tally.transitions = len(path) + play_ends(world, state, path)
        tally.schedules = tally.ends = 1
    except Violation as violation:
        violation.decisions = violation.decisions or tuple(path)
        tally.violation = violation
        tally.transitions = len(path)
    tally.seconds = time.perf_counter() - began
    return tally


_WEIGHTS = {
    "crash": 1.0,
    "cancel": 1.0,
    "cut_off": 1.0,
    "event": 0.6,
    "answer": 2.0,
    "land": 1.0,
    "lost": 0.5,
    "begin": 2.0,
}


def _weight(action: Action) -> float:
    """How often a random run does this: what ends everything (a revocation) seldom, so that more comes before it."""
    if action.choice in ("revoke", "hand_refund"):
        return 0.06
    return _WEIGHTS.get(action.kind, 5.0)


def apply(world: AnyWorld, state: Any, action: Action) -> Any:
    """As `World.apply`; a journal that cannot be read is a violation too.

    Raises:
        Violation: something happened that must never happen.
    """
    try:
        return world.apply(state, action)
    except JournalError as error:
        raise Violation(JOURNAL, str(error)) from error


def is_quiet(state: Any) -> bool:
    """Whether nobody is doing anything."""
    return all(worker.phase in ("done", "dead") for worker in state.workers)


def play_ends(world: AnyWorld, state: Any, path: list[Action]) -> int:
    """Play the end from here, once with everything on its way landing and once with it lost; returns how many actions that took.

    Raises:
        Violation: something is not as it must be at the end.
    """
    if isinstance(world, SharedWorld):
        return sum(_play_shared_end(world, state, path, way, first) for way in ("land", "lost") for first in (0, 1))
    ways = ("land", "lost") if any(request.hold == "orphan" for request in state.pending) else ("land",)
    if not is_quiet(state):
        ways = ("land", "lost")
    return sum(_play_end(world, state, path, way) for way in ways)


def _play_end(world: World, state: State, path: list[Action], way: str) -> int:
    played: list[Action] = []

    def act(state: State, action: Action) -> State:
        played.append(action)
        after: State = apply(world, state, action)
        return after

    try:
        state = _rest(world, state, way, act)
        for number in range(ROUNDS):
            if not state.is_open:
                break
            if number:
                event = "rest" if number < 4 else "past_timeout" if number < 6 else "next_day"
                state = act(state, Action("event", -1, event))
            index = number % len(state.workers)
            state = _rest(world, act(state, Action("begin", index, "recover")), way, act)
        if state.is_open:
            raise Violation(SETTLES, f"after {ROUNDS} recoveries it is still {last_kind(state)}")
        state = _rest(world, act(state, Action("begin", 0, "submit")), way, act)
        if state.is_open:
            raise Violation(SETTLES, f"delivered again, it was left {last_kind(state)}")
        must_be_done = not (state.revoked or state.hand_refunded) and last_kind(state) is not Kind.AMBIGUOUS
        if must_be_done and len(state.landings) != 1:
            raise Violation(DONE, f"the journal says {last_kind(state)}, and it landed {len(state.landings)} times")
        world.verify(state)
    except Violation as violation:
        violation.decisions = (*path, *played)
        raise
    except JournalError as error:
        broken = Violation(CHAIN, str(error))
        broken.decisions = (*path, *played)
        raise broken from error
    return len(played)


def _play_shared_end(world: SharedWorld, state: Any, path: list[Action], way: str, first: int) -> int:
    played: list[Action] = []
    try:
        world.play_end(state, way, first, played)
    except (Violation, JournalError) as error:
        violation = error if isinstance(error, Violation) else Violation(CHAIN, str(error))
        violation.decisions = (*path, *played)
        raise violation from error
    return len(played)


def _rest(world: World, state: State, way: str, act: Callable[[State, Action], State]) -> State:
    """Let everything that is under way come to its end, without another fault."""
    for _ in range(500):
        action = _next_of_end(world, state, way)
        if action is None:
            return state
        state = act(state, action)
    raise Violation(SETTLES, "500 actions without a fault, and something is still under way")


def _next_of_end(world: World, state: State, way: str) -> Action | None:
    for request in state.pending:
        return Action(
            way if request.hold == "orphan" else "answer", request.number, "" if request.hold == "orphan" else "ok"
        )
    for index, worker in enumerate(state.workers):
        if worker.phase == "ready":
            if world.may_step(state, index):
                return Action("step", index)
            return Action("crash", index)
        if worker.phase == "asleep":
            return Action("wake", index)
    return None


def text_of(actions: tuple[Action, ...]) -> str:
    """The decision string of a way: what `replay` takes."""
    return ";".join(":".join(str(part) for part in action if part not in ("", -1)) for action in actions)


def actions_of(text: str) -> tuple[Action, ...]:
    """The way that a decision string names."""
    actions = []
    for part in text.split(";"):
        kind, *rest = part.split(":")
        who = int(rest.pop(0)) if rest and rest[0].isdigit() else -1
        actions.append(Action(kind, who, rest[0] if rest else ""))
    return tuple(actions)


def replay(world: AnyWorld, actions: tuple[Action, ...]) -> tuple[list[str], Violation | None]:
    """Go a way again: each action in words, and the violation at its end, if it still is one."""
    lines: list[str] = []
    state: Any = world.initial()
    try:
        for action in actions:
            told = world.describe(state, action)
            try:
                after = apply(world, state, action)
            except Violation:
                lines.append(f"{_clock(state)}  {told}")
                raise
            lines.append(f"{_clock(after)}  {told}{world.difference(state, after)}")
            state = after
        if is_quiet(state):
            play_ends(world, state, list(actions))
    except Violation as violation:
        lines.append(f"VIOLATED: {violation.rule}. {violation.detail}")
        return lines, violation
    return lines, None


def shrink(world: AnyWorld, violation: Violation, *, tries: int = 2000) -> Violation:
    """A shorter way to a violation of the same rule, by leaving out actions one at a time."""
    best = violation
    improved = True
    while improved and tries > 0:
        improved = False
        for place in range(len(best.decisions)):
            tries -= 1
            candidate = (*best.decisions[:place], *best.decisions[place + 1 :])
            found = _same_rule(world, candidate, best.rule)
            if found is not None and len(found.decisions) < len(best.decisions):
                best, improved = found, True
                break
    return best


def _same_rule(world: AnyWorld, actions: tuple[Action, ...], rule: str) -> Violation | None:
    state: Any = world.initial()
    for place, action in enumerate(actions):
        try:
            if not world.is_possible(state, action):
                return None
            state = apply(world, state, action)
        except Violation as violation:
            violation.decisions = actions[: place + 1]
            return violation if violation.rule == rule else None
    return None


def _clock(state: Any) -> str:
    return f"{state.now / 1_000_000:>10.3f} s"
