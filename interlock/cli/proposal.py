"""How a finding is written up: what it was recognised by, which tier it stands in, and a configuration or code that loads as it is printed.

Owns the words of a proposal. It must not know how source is read. What it cannot know is written as `NAME_A_FIELD`, or as an argument
`request_id` that is to be added: the gate refuses both at the start or at the first reading, and never takes them for "unchanged".
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from interlock.cli import known
from interlock.cli.source import Function

FIELD = "NAME_A_FIELD"
ADDED = "request_id"


@dataclasses.dataclass
class Finding:
    """One tool or function with an outside effect that is not gated.

    Attributes:
        name: what it is called; of a tool, the name the model knows it by.
        why: what it was recognised by.
        key: parameters that could name the approved request, the likeliest first.
        carries: the parameter that takes an idempotency key to the service; empty if none.
        tier: what can be kept without further declarations, and what would raise it.
        ready_made: an effect of this library that does the same; empty if there is none.
        to_do: what a person has to fill in or change.
        proposal: configuration or code to start from.
    """

    file: str
    line: int
    name: str
    is_tool: bool
    why: list[str]
    key: list[str]
    carries: str
    premises: list[str]
    lookups: list[str]
    tier: str
    ready_made: str
    to_do: list[str]
    proposal: str


def propose(function: Function, readers: list[Function]) -> Finding:
    """Write up a function.

    Args:
        function: acts outside and is not gated.
        readers: tools that only read, and could say a fact or find an effect.
    """
    why = [*function.why, *(["its annotation says that it writes"] if function.says == "writes" else [])]
    carries = next((name for name in function.parameters if known.carries_key(name)), "")
    key = [name for name in function.parameters if known.is_id(name) and name != carries]
    finds = [reader for reader in readers if known.finds(reader.name)]
    facts = [reader for reader in readers if reader not in finds]
    # A fact is about the same thing: it is asked by an argument that this call has, too.
    facts.sort(key=lambda reader: not set(reader.parameters) & set(key or function.parameters))
    to_do: list[str] = []
    if not key:
        to_do.append(
            f"no parameter looks like an id: add one that names the approved request; {ADDED} stands for it below"
        )
    if function.is_tool:
        how = _how(function, key, carries, facts, finds)
        to_do += [f"{FIELD}: a field of that tool's answer"] if FIELD in json.dumps(how) else []
        proposal = json.dumps({"tools": {function.tool: how}}, indent=2)
    else:
        proposal = _code(function, key)
        to_do += ["it is a method: declare a plain function that calls it"] if function.is_method else []
    return Finding(
        file=function.file,
        line=function.line,
        name=function.tool,
        is_tool=function.is_tool,
        why=why or ["a tool whose name says that it changes something"],
        key=key,
        carries=carries,
        premises=list(dict.fromkeys(reader.tool for reader in facts)),
        lookups=list(dict.fromkeys(reader.tool for reader in finds)),
        tier=_tier(carries),
        ready_made=known.ready_made(function.calls),
        to_do=to_do,
        proposal=proposal,
    )


def _tier(carries: str) -> str:
    if carries:
        return f"2 with a look-up by {carries!r}, 1 if the service drops a second request with that key (dedupes); 3 as it stands"
    return (
        "3: after a crash nobody can know. An argument that carries the idempotency key to the service would raise it"
    )


def _how(
    function: Function, key: list[str], carries: str, facts: list[Function], finds: list[Function]
) -> dict[str, Any]:
    how: dict[str, Any] = {"key": key[:1] or [ADDED]}
    if facts and (shared := [name for name in facts[0].parameters if name in function.parameters]):
        how["premises"] = {
            "tool": facts[0].tool,
            "arguments": {name: name for name in shared},
            "fields": [name for name in facts[0].gives if name not in shared] or [FIELD],
        }
    if carries:
        how["idempotency_argument"] = carries
        if finds and finds[0].parameters:
            gives = finds[0].gives
            how["lookup"] = {
                "tool": finds[0].tool,
                "arguments": {finds[0].parameters[0]: "$effect_id"},
                "found": "found" if "found" in gives else (gives or [FIELD])[0],
            }
    return how


def _code(function: Function, key: list[str]) -> str:
    named = (key or [ADDED])[0]
    parameters = [
        *([] if key else [ADDED]),
        *function.parameters,
        *([] if "idempotency_key" in function.parameters else ["idempotency_key"]),
    ]
    head = "async def" if function.is_async else "def"
    return "\n".join(
        [
            "from interlock import Interlock",
            "",
            'gate = Interlock(".interlock")',
            "",
            f'@gate.effect(key=lambda {named}: f"{function.name}:{{{named}}}")',
            f"{head} {function.name}({', '.join(dict.fromkeys(parameters))}):",
            "    ...  # the body as it is, with idempotency_key handed to the service where it takes one",
            "",
            "gate.recover()  # once on start, after all are declared",
        ]
    )
