"""Every run of the real protocol that any worker has been in, as a tree of what it was answered.

    begin(submit) --History--> Authorize? --True--> ReadFacts? --facts--> Dispatch? --None--> ...
                                                                             +------History--> Send? ...

A node is one suspended generator of `interlock.protocol`. It is reached again by answering a new generator as before, with the
clock as it stood each time, which is cheap since a generator only decides. Nodes that freeze alike are one node, so two ways to the
same place are explored once from there. With `merge=False` every way is a node of its own: the same search without this shortcut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.simulator.clock import VirtualClock
from benchmarks.simulator.freeze import freeze, freeze_run
from interlock.effects import History
from interlock.outcomes import Outcome
from interlock.protocol import Run, Step


@dataclass(slots=True)
class Node:
    """One place in a run.

    Attributes:
        number: its name.
        task: what the run is.
        began: the clock when it began.
        log: what it was answered so far, each with the clock: (answer, raised, now, wall offset).
        step: what it asks for now, if it is not over.
        result: what it came to, if it is: an outcome, or the exception that left it.
        answered: the type of the step that was answered to get here.
        next: by answer and clock, the node that follows.
    """

    number: int
    task: str
    began: tuple[int, int]
    log: tuple[tuple[Any, bool, int, int], ...]
    step: Step | None
    result: Outcome | Exception | None
    answered: type | None = None
    next: dict[tuple[Any, bool, int, int], int] = field(default_factory=dict)


class Runs:
    """The tree.

    Args:
        make: builds the generator of a task on a clock.
        merge: whether nodes that freeze alike are one.
    """

    def __init__(self, make: Callable[[str, VirtualClock], Run], *, merge: bool = True) -> None:
        self._make = make
        self._merge = merge
        self._clock = VirtualClock()
        self._nodes: list[Node] = []
        self._by_form: dict[Any, int] = {}
        self._roots: dict[tuple[str, int, int], int] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def __getitem__(self, number: int) -> Node:
        return self._nodes[number]

    def begin(self, task: str, now: int, wall_offset: int) -> int:
        """The node at which a new run of `task` stands, begun at this moment."""
        place = (task, now, wall_offset)
        if place not in self._roots:
            self._clock.put(now, wall_offset)
            self._roots[place] = self._enter(task, (now, wall_offset), (), self._make(task, self._clock))
        return self._roots[place]

    def advance(self, number: int, answer: Any, now: int, wall_offset: int, *, raised: bool = False) -> int:
        """The node that follows when a node's step is answered at this moment."""
        node = self._nodes[number]
        form = answer.head if type(answer) is History else freeze(answer)
        edge = (form, raised, now, wall_offset)
        found = node.next.get(edge)
        if found is None:
            generator = self._rebuild(node)
            self._clock.put(now, wall_offset)
            log = (*node.log, (answer, raised, now, wall_offset))
            found = node.next[edge] = self._enter(
                node.task, node.began, log, generator, answer=answer, raised=raised, answered=type(node.step)
            )
        return found

    def _rebuild(self, node: Node) -> Run:
        self._clock.put(*node.began)
        generator = self._make(node.task, self._clock)
        generator.send(None)
        for answer, raised, now, wall_offset in node.log:
            self._clock.put(now, wall_offset)
            if raised:
                generator.throw(answer)
            else:
                generator.send(answer)
        return generator

    def _enter(
        self,
        task: str,
        began: tuple[int, int],
        log: tuple[tuple[Any, bool, int, int], ...],
        generator: Run,
        *,
        answer: Any = None,
        raised: bool = False,
        answered: type | None = None,
    ) -> int:
        step: Step | None = None
        result: Outcome | Exception | None = None
        try:
            step = generator.throw(answer) if raised else generator.send(answer)
            form: Any = (task, freeze_run(generator))
        except StopIteration as stop:
            result = stop.value
            form = (task, freeze(result))
        except Exception as error:  # noqa: BLE001 - how a run ended is what is asked here
            result = error
            form = (task, freeze(error))
        if not self._merge:
            form = (task, began, freeze(log))
        known = self._by_form.get(form)
        if known is not None:
            return known
        number = len(self._nodes)
        self._nodes.append(Node(number, task, began, log, step, result, answered))
        self._by_form[form] = number
        return number
