"""What a simulated world is at one moment: plain tuples, so that a moment can be kept, compared and returned to.

Owns the words of the simulator: `State`, `Worker`, `Request`, `Landing`, `Action`, `Violation`. Times are whole microseconds since the
world began, so that nothing depends on how a float rounds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from interlock.effects import Entry
from interlock.ports import Liveness

SECOND = 1_000_000
"""Microseconds in a second."""


class Worker(NamedTuple):
    """One worker process and the run of the protocol that it is in.

    Attributes:
        life: which incarnation this is; a restart begins a new one.
        phase: `ready` to do its next step, `sending` (its request has left), `asleep`, `done`, or `dead`.
        node: where its run of the protocol stands (`runs.Runs`).
        due: when it wants to wake.
        call: the gate's own memory of this call (`gate._Call`).
        gone: since when this process has known senders to be gone (`gate.Runner`).
        unrecorded: answers that this process knows and could not write (`gate.Runner`).
        allowed: the last answer on permission since it last read the history; None if it has not asked.
        facts_hold: likewise for the facts.
        heard: it was told in this run that the effect landed.
    """

    life: int
    phase: str
    node: int
    due: int = 0
    call: tuple[Any, ...] = (None, None, False, None)
    gone: tuple[Any, ...] = ()
    unrecorded: tuple[Any, ...] = ()
    allowed: bool | None = None
    facts_hold: bool | None = None
    heard: bool = False


class Request(NamedTuple):
    """A request that has left its sender and that the service has not dealt with.

    Attributes:
        number: names it in a trace.
        key: its idempotency key.
        n: place of the DISPATCHED entry it was sent under.
        worker: index of its sender.
        life: the sender's incarnation.
        limit: the last moment by which it is answered, given up on, or (when `hold` is `orphan`) before which it lands, if ever.
        hold: `awaited` by its sender, `adopted` (still running, but the call has been answered), or `orphan` (nobody waits).
    """

    number: int
    key: str
    n: int
    worker: int
    life: int
    limit: int
    hold: str


class Landing(NamedTuple):
    """One time that the effect really happened."""

    key: str
    at: int
    n: int
    worker: int


class Known(NamedTuple):
    """A key that a deduplicating service has seen, and what it answers from then on."""

    key: str
    since: int
    result: str


class JournalState(NamedTuple):
    """What one worker's journal object holds in memory."""

    name: str
    sending: tuple[tuple[str, int], ...]
    ended: tuple[tuple[tuple[str, int], bool], ...]
    fate: Liveness | None


class Budget(NamedTuple):
    """How much may still go wrong.

    Attributes:
        crashes: deaths, cancellations and cut-offs.
        faults: unclear or negative answers of service, callbacks and journal.
        runs: further runs of the protocol: a restart with recovery, or the request delivered again.
        events: things that the environment does: a hand refund, a revocation, time.
    """

    crashes: int
    faults: int
    runs: int
    events: int


class State(NamedTuple):
    """A moment of the world."""

    now: int
    wall_offset: int
    entries: tuple[tuple[Entry, str], ...]
    open: tuple[tuple[str, Any], ...]
    places: tuple[tuple[str, int], ...]
    journals: tuple[JournalState, ...]
    workers: tuple[Worker, ...]
    pending: tuple[Request, ...]
    known: tuple[Known, ...]
    landings: tuple[Landing, ...]
    requests: int
    hand_refunded: bool
    revoked: bool
    budget: Budget

    @property
    def is_open(self) -> bool:
        """Whether the effect still needs somebody."""
        return bool(self.open)

    def key(self, *, with_budget: bool = True) -> int:
        """A 64-bit fingerprint of everything that matters for what can happen next."""
        entries = self.entries
        return hash(
            (
                self.now,
                self.wall_offset,
                entries[-1][1] if entries else "",
                self.journals,
                tuple(_worker_key(worker) for worker in self.workers),
                self.pending,
                self.known,
                self.landings,
                self.hand_refunded,
                self.revoked,
                self.budget if with_budget else None,
            )
        )


def _worker_key(worker: Worker) -> tuple[Any, ...]:
    claim, claimed, sent, landed = worker.call
    return (
        *worker[:4],
        claim,
        "" if claimed is None else claimed.head,
        sent,
        landed is None,
        worker.gone,
        tuple((effect_id, history.head) for effect_id, (history, _) in worker.unrecorded),
        *worker[7:],
    )


class Action(NamedTuple):
    """One thing that can happen next.

    Attributes:
        kind: what (`step`, `wake`, `crash`, `answer`, ...).
        who: index of the worker, or number of the request, or -1.
        choice: which of several ways; empty for the plain one.
    """

    kind: str
    who: int
    choice: str = ""


class Violation(Exception):
    """Something that must never happen, happened.

    Attributes:
        rule: the invariant that does not hold, by name.
        detail: what was seen.
        decisions: the actions that led here, set by whoever searched.
    """

    def __init__(self, rule: str, detail: str) -> None:
        super().__init__(f"{rule}: {detail}")
        self.rule = rule
        self.detail = detail
        self.decisions: tuple[Action, ...] = ()
