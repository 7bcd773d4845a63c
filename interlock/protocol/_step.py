"""The steps that the protocol asks for, and what answers them. Words alone: nothing here decides or does anything."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from typing import Any

from interlock.effects import Draft, History
from interlock.journal import Guard
from interlock.outcomes import Outcome
from interlock.ports import Liveness, Verdict, WatchFor
from interlock.record import NamedTuple
from interlock.rules.budgets import Shortfall


class Load(NamedTuple):
    """Read an effect's history. Answer: `History`.

    `presume`: nothing is asked or answered before a write that is refused if the effect is not new, so it may be taken for new.
    """

    effect_id: str
    presume: bool = False


class _Question(NamedTuple):
    """What is asked about a call, which is told by its arguments and its key."""

    payload: Mapping[str, Any]
    idempotency_key: str


class ReadFacts(_Question):
    """Read the premises now. Answer: encoded facts, as `Facts` with a `Seen` if they showed the effect; raises `PremiseUnreadable`."""

    __slots__ = ()


class Authorize(_Question):
    """Ask whether it is allowed now. Answer: bool; raises `AuthorityUnclear`."""

    __slots__ = ()


class ReadBudgets(_Question):
    """Ask which caps the call shares, and what it takes of them. Answer: a tuple of `Budget`; raises `BudgetUnclear`."""

    __slots__ = ()


class Append(NamedTuple):
    """Write entries if the history has not moved. Answer: the new `History`, or None."""

    history: History
    drafts: tuple[Draft, ...]


class Dispatch(NamedTuple):
    """As `Append`, and take the claim: the last draft is DISPATCHED. From here on silence is not "no effect".

    Answer: the new `History`, None if it had moved, or `OverLimit` if it had not and a guard does not hold.
    """

    history: History
    drafts: tuple[Draft, ...]
    guards: tuple[Guard, ...] = ()


class Send(NamedTuple):
    """Do it. Answer: `Landed`, `NotLanded` or `Unclear`."""

    history: History
    payload: Mapping[str, Any]
    idempotency_key: str


class LookUp(_Question):
    """Ask the service for our own effect. Answer: `Seen`."""

    __slots__ = ()


class Probe(NamedTuple):
    """Ask what can be proven about a sender. Answer: `Sighting`."""

    worker: str
    effect_id: str
    n: int


class Wait(NamedTuple):
    """Pause. Answer: None."""

    seconds: float


Step = Load | ReadFacts | Authorize | ReadBudgets | Append | Dispatch | Send | LookUp | Probe | Wait

STEPS: tuple[type, ...] = (Load, ReadFacts, Authorize, ReadBudgets, Append, Dispatch, Send, LookUp, Probe, Wait)

_WORDS = ("load", "read_facts", "authorize", "read_budgets", "append", "dispatch", "send", "look_up", "probe", "wait")

CRASH_POINTS: tuple[str, ...] = tuple(f"{when}_{name}" for name in _WORDS for when in ("before", "after"))
"""Every point at which a process can die, by name. `after_dispatch` is before the send; `after_send` is before the answer is recorded."""

STEP_NAMES: Mapping[type, str] = dict(zip(STEPS, _WORDS, strict=True))


class OverLimit(NamedTuple):
    """A dispatch found no room in a shared budget; nothing was written."""

    shortfalls: tuple[Shortfall, ...]


class Landed(NamedTuple):
    """The service did it. `value` is the JSON form of what the function returned, `raw` the live object.

    `watch`: for an effect that declares settlement, how long it is watched and under which references an event finds it.
    """

    value: Any
    raw: Any = None
    watch: WatchFor | None = None


class NotLanded(NamedTuple):
    """It certainly did not happen, in this request."""

    verdict: Verdict
    reason: str
    detail: str


class Unclear(NamedTuple):
    """No clear answer. `still_running`: the send was given up on but has not ended; its late answer will count."""

    detail: str
    in_use: bool = False
    still_running: bool = False


class Seen(NamedTuple):
    """What a look-up gave. `failed` is not absence; `differs` says in what that which was found is not what was asked for."""

    found: bool
    evidence: Any = None
    failed: str = ""
    watch: WatchFor | None = None
    differs: str = ""


class Sighting(NamedTuple):
    """What is proven about a sender, and since when this gate has known it to be gone, on the clock that nobody sets.

    Without such a moment nothing of it can be believed to have arrived.
    """

    liveness: Liveness
    gone_since_s: float = math.inf


Run = Generator[Step, Any, Outcome]
