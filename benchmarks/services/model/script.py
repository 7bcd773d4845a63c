"""What the scripted model says: a function of the request alone, so a run that is resumed gets the same script again.

PURE. Owns the script and the plain form of a conversation; the wires translate to and from it.

    no tool has answered yet                    call the tool that reads (its name begins with `read_`)
    it has answered, and a tool acts            call that one, with the amount the task names, at most what is left
    the acting tool has answered, or none acts  say so in one sentence
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

READS = "read_"
_IDENTIFIER = re.compile(r"\b(?:pi|ch|cus|po|re)_[A-Za-z0-9]+")
_AMOUNT = re.compile(r"\b(\d{1,9}) minor units\b")


class BadRequest(ValueError):
    """The request is not one this model can answer; the message says why, and the wire answers 400 with it."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A request in plain form.

    Attributes:
        text: Everything that was said to the model in words, the system's part included.
        tools: The tools on offer, by name, each with the names of its parameters.
        results: What tools answered so far, by name, in order.
    """

    text: str
    tools: Mapping[str, Sequence[str]] = field(default_factory=dict)
    results: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What the model says: a text, or one call of a tool."""

    text: str = ""
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def call_id(self) -> str:
        """An identifier of the call that depends on nothing but the call."""
        return hashlib.sha256(json.dumps([self.tool, dict(self.arguments)]).encode()).hexdigest()[:20]


def answer(turn: Turn) -> Reply:
    """What the model says to this request.

    Raises:
        BadRequest: The task names nothing a tool could be called with.
    """
    answered = {name for name, _ in turn.results}
    reading = [name for name in turn.tools if name.startswith(READS)]
    acting = [name for name in turn.tools if not name.startswith(READS)]
    if reading and not answered & set(reading):
        return Reply(tool=reading[0], arguments=_fill(turn, reading[0], None))
    if acting and not answered & set(acting):
        return Reply(tool=acting[0], arguments=_fill(turn, acting[0], _left_minor(turn)))
    return Reply(text=f"Done: {turn.results[-1][1]}" if turn.results else "There is nothing to do.")


def _fill(turn: Turn, tool: str, left_minor: int | None) -> dict[str, Any]:
    filled: dict[str, Any] = {}
    for parameter in turn.tools[tool]:
        if parameter == "amount_minor":
            found = _AMOUNT.search(turn.text)
            if found is None:
                raise BadRequest("the task names no amount; say 'N minor units'")
            asked = int(found[1])
            filled[parameter] = asked if left_minor is None else max(0, min(asked, left_minor))
        elif parameter == "reason":
            filled[parameter] = "requested_by_customer"
        else:
            identifier = _IDENTIFIER.search(turn.text)
            if identifier is None:
                raise BadRequest(f"the task names nothing to call {tool}({parameter}=) with")
            filled[parameter] = identifier[0]
    return filled


def _left_minor(turn: Turn) -> int | None:
    """What is left to refund by the last reading, where it says so."""
    for name, result in reversed(turn.results):
        if name.startswith(READS):
            try:
                told = json.loads(result)
            except ValueError:
                return None
            if isinstance(told, dict) and {"paid_minor", "refunded_minor"} <= told.keys():
                return int(told["paid_minor"]) - int(told["refunded_minor"])
    return None
