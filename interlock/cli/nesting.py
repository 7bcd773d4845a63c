"""Who calls whom, and where the one gate of an effect belongs: at the tool, or at the function that it calls.

Owns that decision and the words for it. It must not know how source is read or what is proposed.

- The tool, if nothing but tools leads to the function: a tool's arguments name the approved request, and the model gets the gate's answer.
- The function, if something else leads to it, too: a gate at the tool would leave the other way open. Also if there is a ready-made effect
  for what it calls: that stands where the call is.
- Never both: a gate inside a gate has two records of one effect, and the outer one takes the inner one's refusal for an answer: done.
"""

from __future__ import annotations

import dataclasses
import re

from interlock.cli import known
from interlock.cli.source import Function, Source


class Ways:
    """Which functions of the project lead to which."""

    def __init__(self, sources: list[Source], functions: list[Function], *, root: str) -> None:
        self._root = root
        self._loose = set().union(*(source.loose for source in sources))
        self._doors = set().union(*(source.doors for source in sources))
        named: dict[str, list[Function]] = {}
        for function in functions:
            named.setdefault(function.name, []).append(function)
        self._used: dict[int, list[Function]] = {}
        self._users: dict[int, list[Function]] = {}
        for user in functions:
            names = user.uses - user.acts
            met = {name.rpartition(".")[2] for name in names} & named.keys()
            self._used[id(user)] = [
                used for last in met for used in named[last] if used is not user and self._leads(names, used)
            ]
            for used in self._used[id(user)]:
                self._users.setdefault(id(used), []).append(user)

    def used(self, function: Function) -> list[Function]:
        """The functions that it mentions."""
        return self._used[id(function)]

    def users(self, function: Function) -> list[Function]:
        """The functions that mention it."""
        return self._users.get(id(function), [])

    def is_loose(self, function: Function) -> bool:
        """Whether something outside of any function mentions it."""
        return self._leads(self._loose, function)

    def doors(self, function: Function) -> list[str]:
        """The gated effects that it calls by a variable: ready-made ones, and what `gate.effect(...)(function)` gave."""
        found = []
        for call in function.calls:
            last = call.rpartition(".")[2]
            if last in self._doors or re.match(r"interlock\.(targets\.|.*\beffect\(\))", call):
                found.append(last.removesuffix("()"))
        return sorted(found)

    def _leads(self, names: set[str], function: Function) -> bool:
        """Whether one of the names is the function: bare, or with the file or the folder that it stands in; of a method, with anything."""
        where = {self._root, *re.split(r"[/\\]", function.file.removesuffix(".py"))}
        for name in names:
            before, _, last = name.rpartition(".")
            if last != function.name:
                continue
            if bool(before) == function.is_method and (function.is_method or not before):
                return True
            if before and not function.is_method and where & set(before.split(".")):
                return True
        return False


@dataclasses.dataclass
class Placed:
    """Where the gates belong.

    Attributes:
        elsewhere: functions that act and get no gate of their own, by `id()`.
        served: what goes through a gate that is there already, in words.
        notes: what is to be said of a function that is proposed.
    """

    elsewhere: set[int]
    served: set[str]
    notes: dict[int, list[str]]


def place_gates(functions: list[Function], ways: Ways) -> Placed:
    """Decide it for each function that acts, and say of a tool what it does through others (its `why`)."""
    placed = Placed(set(), set(), {})
    inner = [function for function in functions if function.why and not function.is_gated and not function.is_tool]
    for function in inner:
        leading = _leading(function, ways, set())
        if leading is None:
            continue
        if all(user.is_gated for user in leading):
            placed.elsewhere.add(id(function))
            placed.served.add(f"{function.name} (through what calls it)")
        elif not known.ready_made(function.acts):
            placed.elsewhere.add(id(function))
    for tool in functions:
        if tool.is_tool and not tool.is_gated:
            _judge_tool(tool, ways, placed)
    return placed


def _judge_tool(tool: Function, ways: Ways, placed: Placed) -> None:
    reached = _reached(tool, ways)
    gates = [function.name for function in reached if function.is_gated] + ways.doors(tool)
    gates += [door for function in reached if not function.is_gated for door in ways.doors(function)]
    acting = [function for function in reached if function.why and not function.is_gated]
    held = [function for function in acting if id(function) in placed.elsewhere]
    beside = [function for function in acting if id(function) not in placed.elsewhere]
    notes = placed.notes.setdefault(id(tool), [])
    if not tool.why and not held and (gates or beside):
        placed.elsewhere.add(id(tool))
        if beside:
            said = f"{tool.tool} ({tool.file}:{tool.line}) calls it"
            for function in beside:
                reason = (
                    "the ready-made effect stands where the call to the service is"
                    if known.ready_made(function.acts)
                    else "so does something else, and each way has to go through the gate"
                )
                placed.notes.setdefault(id(function), []).append(
                    f"the gate is here and not at the tool: {said}, {reason}; do not gate both, {_WHY}"
                )
        else:
            placed.served.add(f"{tool.tool} (through {', '.join(dict.fromkeys(gates))})")
        return
    notes += [
        f"one gate, here: only tools call {function.place}, and a tool's arguments name the request; do not gate it as well, {_WHY}"
        for function in held
    ]
    for name in dict.fromkeys([*gates, *(function.name for function in beside)]):
        word = "gated already" if name in gates else "proposed, too"
        notes.append(f"it calls {name}, which is {word}: gate only the rest, as a function of its own; {_WHY}")
    tool.why += [f"{why} through {function.name}" for function in held for why in function.why]


_WHY = "a gate inside a gate takes the inner one's refusal for an answer, and records it as done"


def _reached(tool: Function, ways: Ways) -> list[Function]:
    """What a tool leads to, up to what is gated and to other tools."""
    found: list[Function] = []
    waiting = [tool]
    seen = {id(tool)}
    while waiting:
        for function in ways.used(waiting.pop()):
            if id(function) in seen:
                continue
            seen.add(id(function))
            if function.is_gated or not function.is_tool:
                found.append(function)
            if not function.is_gated and not function.is_tool:
                waiting.append(function)
    return found


def _leading(function: Function, ways: Ways, seen: set[int]) -> list[Function] | None:
    """The tools and gated functions that lead to it; None if something else does, or nothing is seen to."""
    if id(function) in seen or ways.is_loose(function) or not ways.users(function):
        return None
    leading: list[Function] = []
    for user in ways.users(function):
        if user.is_gated or user.is_tool:
            leading.append(user)
        else:
            above = _leading(user, ways, seen | {id(function)})
            if above is None:
                return None
            leading += above
    return leading
