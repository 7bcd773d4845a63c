"""What must never happen (DESIGN 6), checked after every action. Pure: looks at states, changes nothing.

`RULES` names them. Each is about the truth in the simulated service, which the gate cannot see, beside what the journal says.
"""

from __future__ import annotations

from benchmarks.simulator.state import SECOND, State, Violation, Worker
from interlock.effects import History, Kind
from interlock.outcomes import Outcome, Reason, Status
from interlock.ports import Capabilities
from interlock.protocol import Send

ONE_LANDING = "one approved request lands at most once"
DURABLE_FIRST = "nothing is sent without a durable DISPATCHED entry of that sender"
LATEST_CLAIM = "nobody sends under a claim that has passed to another"
ONE_SENDER = "never two live senders at once"
TAKEN_OVER = "what a live sender sends is concluded or sent by nobody else"
CHECKED = "nothing is dispatched but on a permission and facts that held when they were last read"
TRUE_REFUSAL = "REFUSED and FAILED are never said of something that landed"
TRUE_COMMIT = "COMMITTED is never said of something that did not land"
GROUNDS = "a refusal has grounds: the permission or a fact did change"
KNOWABLE = "AMBIGUOUS only where nobody can know"
HEARD = "who was told that it landed answers so"
TRUE_OUTCOME = "an outcome says what is true"
JOURNAL = "the journal is as it was written"
CHAIN = "the journal's chain verifies"
WITHIN = "a budget is never exceeded by what landed"
HOLDS = "what is reserved is what the entries say"
SETTLES = "once faults stop, every effect comes to an end"
DONE = "once faults stop, what is allowed and unchanged is done"

RULES = (
    ONE_LANDING,
    DURABLE_FIRST,
    LATEST_CLAIM,
    ONE_SENDER,
    TAKEN_OVER,
    CHECKED,
    TRUE_REFUSAL,
    TRUE_COMMIT,
    GROUNDS,
    KNOWABLE,
    HEARD,
    TRUE_OUTCOME,
    JOURNAL,
    CHAIN,
    WITHIN,
    HOLDS,
    SETTLES,
    DONE,
)


def last_kind(state: State) -> Kind | None:
    """The kind of the journal's last entry."""
    return state.entries[-1][0].kind if state.entries else None


def check_state(
    before: State, state: State, senders: int, capabilities: Capabilities, sending: frozenset[tuple[str, int]]
) -> None:
    """Everything that can be said of a moment.

    Args:
        before: the moment before it.
        state: the moment.
        senders: how many live workers are about to send, or are sending.
        capabilities: of the service.
        sending: worker and place of each send by a live worker that was under way before.

    Raises:
        Violation: with the rule that does not hold.
    """
    landed = len(state.landings)
    if landed > 1:
        raise Violation(ONE_LANDING, f"it landed {landed} times: {', '.join(map(str, state.landings))}")
    if senders > 1:
        raise Violation(ONE_SENDER, f"{senders} live workers are about to send, or are sending")
    kind = last_kind(state)
    if landed and kind in (Kind.REFUSED, Kind.FAILED):
        raise Violation(TRUE_REFUSAL, f"the journal says {kind} and it landed: {state.landings[0]}")
    if not landed and kind is Kind.COMMITTED:
        raise Violation(TRUE_COMMIT, "the journal says COMMITTED and it did not land")
    if len(state.entries) > len(before.entries):
        for name, n in sending:
            writer = state.entries[-1][0].by
            # Who knows that an earlier request of this effect landed says so at any time; that it is true is another rule's.
            if n == len(before.entries) - 1 and writer != name and kind is not Kind.COMMITTED:
                raise Violation(TAKEN_OVER, f"{writer} wrote {kind} while {name} lives and has not ended its send")
        if kind is Kind.AMBIGUOUS and can_be_known(state, capabilities):
            raise Violation(KNOWABLE, "the service could have told, or made it safe to send again")
        reason = state.entries[-1][0].data.get("reason")
        if kind is Kind.REFUSED and not (state.revoked or state.hand_refunded or reason == Reason.OVER_LIMIT):
            raise Violation(GROUNDS, "it was refused, though neither permission nor facts changed")


def can_be_known(state: State, capabilities: Capabilities) -> bool:
    """Whether the service, or a resend, could still bring out what became of the effect."""
    if capabilities.can_look_up:
        return True
    if not capabilities.dedupes or state.revoked or state.hand_refunded or state.wall_offset:
        return False
    first = next(entry for entry, _ in state.entries if entry.kind is Kind.DISPATCHED)
    elapsed_s = state.now / SECOND - float(first.data["uptime_s"])
    return elapsed_s + capabilities.timeout_s + capabilities.settle_after_s < capabilities.window_s


def check_dispatch(worker: Worker, name: str, claimed: History) -> None:
    """A dispatch was written: it must stand on checks that held, made since the history was read.

    Raises:
        Violation: it does not.
    """
    if worker.allowed is not True or worker.facts_hold is not True:
        raise Violation(
            CHECKED,
            f"{name} dispatched on permission {worker.allowed} and facts {worker.facts_hold} (None: not asked since it last read)",
        )
    if claimed.entries[-1].by != name:
        raise Violation(DURABLE_FIRST, f"{name} got a claim in the name of {claimed.entries[-1].by}")


def check_send(state: State, name: str, step: Send, *, is_cut_off: bool) -> None:
    """A request is about to leave.

    Raises:
        Violation: without a durable record of it, or under a claim that has passed on.
    """
    n = len(step.history.entries) - 1
    stored = state.entries[n][0] if n < len(state.entries) else None
    if (
        stored is None
        or stored.kind is not Kind.DISPATCHED
        or stored.by != name
        or stored.data["key"] != step.idempotency_key
    ):
        raise Violation(DURABLE_FIRST, f"{name} sends under entry {n}, which is {stored and (stored.kind, stored.by)}")
    later = [entry for entry, _ in state.entries[n + 1 :] if entry.kind is Kind.DISPATCHED]
    if later and not is_cut_off:
        raise Violation(LATEST_CLAIM, f"{name} sends under entry {n}, but {later[-1].by} holds the claim by now")


def check_outcome(state: State, worker: Worker, outcome: Outcome) -> None:
    """A run has answered its caller.

    Raises:
        Violation: with something that is not so.
    """
    landed = bool(state.landings)
    if worker.heard and not outcome.ok:
        raise Violation(HEARD, f"the sender was told that it landed and answered {outcome}")
    if outcome.ok and not landed:
        raise Violation(TRUE_OUTCOME, f"answered {outcome}, and it did not land")
    if (
        landed
        and outcome.status in (Status.REFUSED, Status.FAILED)
        and outcome.reason != Reason.CONFLICTING_PAYLOAD
        and last_kind(state) is not Kind.COMMITTED
    ):
        raise Violation(TRUE_OUTCOME, f"answered {outcome}, and it landed")
