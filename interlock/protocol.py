"""The protocol, once: `submit` and `recover_one` as generators that yield the I/O they need.

    load -> [recover] -> read facts -> authorize -> DISPATCH -> send -> append the answer
                                                       |          |
                                                       |          +-- no clear answer: recover, in this call
                                                       +-- history moved: somebody else got in; look again

A generator here decides and a runner (`gate.py`) does, so every `yield` is a point where the process can die: `CRASH_POINTS` is
read off the step types, and a simulator can interleave any number of workers over this very code. Nothing here sends, reads or
waits by itself, and nothing but this module orders those things.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from interlock.authority import Permission
from interlock.effects import Draft, Entry, History, Kind, Proposal
from interlock.errors import BadInput, BudgetUnclear, CallbackFailed
from interlock.journal import BUDGET, Guard
from interlock.outcomes import STATUS_OF_VIA, Outcome, Reason, Status, Via
from interlock.ports import Capabilities, Clock, Liveness, Target, Verdict, WatchFor
from interlock.rules.budgets import Budget, Shortfall, several
from interlock.rules.canonical import derive_id
from interlock.rules.lifecycle import State, fold
from interlock.rules.premises import Judgement, judge, same
from interlock.rules.recovery import Action, Checks, Found, Resend, decide, elapsed_s, is_window_open, surely_elapsed_s
from interlock.rules.values import storable
from interlock.settlement import ACCEPTED, settlement_of

POLL_S = 0.02
"""First pause while another sender is alive and the caller wants to wait, in seconds; doubles up to `POLL_MAX_S`."""
POLL_MAX_S = 0.5
SERVICE_POLL_MAX_S = 5.0
"""The same while a service works on a request with the key, in seconds: each look there is a request and a record."""
SHORTEST_PAUSE_S = 0.001
"""A pause too short for a clock to show is none: rounding would leave a remainder of it for ever, in seconds."""
PAUSE_S = 2.0
"""How long a call waits for a service by default (a key in use, a look-up that lags), in seconds."""
ABSENT = "absent"
"""The reason of an effect that failed because a trusted look-up did not find it: nobody said no to it."""
RETRY_AFTER_S = 1.0
"""What an unclear answer advises, in seconds."""


class Load(NamedTuple):
    """Read an effect's history. Answer: `History`.

    `presume`: nothing is asked or answered before a write that is refused if the effect is not new, so it may be taken for new.
    """

    effect_id: str
    presume: bool = False


class ReadFacts(NamedTuple):
    """Read the premises now. Answer: encoded facts, as `Facts` with a `Seen` if they showed the effect; raises `PremiseUnreadable`."""

    payload: Mapping[str, Any]
    idempotency_key: str


class Authorize(NamedTuple):
    """Ask whether it is allowed now. Answer: bool; raises `AuthorityUnclear`."""

    payload: Mapping[str, Any]
    idempotency_key: str


class ReadBudgets(NamedTuple):
    """Ask which caps the call shares, and what it takes of them. Answer: a tuple of `Budget`; raises `BudgetUnclear`."""

    payload: Mapping[str, Any]
    idempotency_key: str


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


class LookUp(NamedTuple):
    """Ask the service for our own effect. Answer: `Seen`."""

    payload: Mapping[str, Any]
    idempotency_key: str


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
    """What is proven about a sender, and for how many seconds this gate has known it to be gone."""

    liveness: Liveness
    gone_for_s: float = 0.0


class Patience:
    """How long this call may wait for others.

    Args:
        clock: the gate's clock.
        wait_s: for a claim that a live sender holds.
        pause_s: for the service: a key in use, an absence that cannot be trusted yet. The longer of the two counts there.
    """

    __slots__ = ("_began", "_poll_s", "clock", "pause_s", "wait_s")

    def __init__(self, clock: Clock, wait_s: float = 0.0, pause_s: float = PAUSE_S) -> None:
        self.clock = clock
        self.wait_s = wait_s
        self.pause_s = pause_s
        self._began = clock.uptime().seconds
        self._poll_s = POLL_S

    def left_s(self, *, for_service: bool = False) -> float:
        """Seconds left, counted from when this was made."""
        limit = max(self.wait_s, self.pause_s) if for_service else self.wait_s
        return self._began + limit - self.clock.uptime().seconds

    def next_poll_s(self, *, for_service: bool = False) -> float | None:
        """How long to pause before looking again, or None when patience is at an end."""
        left = self.left_s(for_service=for_service)
        if left <= 0:
            return None
        longest = SERVICE_POLL_MAX_S if for_service else POLL_MAX_S
        pause, self._poll_s = min(self._poll_s, left), min(self._poll_s * 2, longest)
        return pause


_WHY_NOT_AGAIN: Mapping[Checks, str] = {
    Checks.HOLD: "",
    Checks.UNREADABLE: "",
    Checks.LEASE: "The service still drops a second request with this key, but it is not allowed any more.",
    Checks.STALE: "The service still drops a second request with this key, but a fact has changed.",
}
"""Why an effect that could safely be sent again is not, and without a look-up nobody knows whether it landed."""

Run = Generator[Step, Any, Outcome]


def rfc3339(moment: datetime) -> str:
    """The text of a moment on the record."""
    return moment.isoformat("T", "microseconds")


def watched(watch: WatchFor | None, clock: Clock) -> dict[str, Any]:
    """What a COMMITTED entry says of how its effect is watched from now on; nothing for an effect that declares no settlement."""
    if watch is None:
        return {}
    until = rfc3339(clock.now() + timedelta(seconds=watch.for_s))
    return {"watch": {"until": until, "references": list(watch.references)}}


def submit(proposal: Proposal, target: Target, *, clock: Clock, patience: Patience) -> Run:
    """Take one approved request to its outcome: at most one send of it, ever, by anybody.

    **Durable when** this returns: an outcome other than IN_FLIGHT and a refusal of a conflicting payload stands on the journal.
    **If the process dies** before `Dispatch` was answered, nothing was sent. After it, `recover_one` takes over from the record.
    """
    presume = not (target.has_premises or target.has_authority or target.has_budget)
    while True:
        history: History = yield Load(proposal.effect_id, presume)
        presume = False
        state = fold(history)
        if history.entries:
            answered = yield from _answer_from_record(history, state, proposal, target, clock=clock, patience=patience)
            if answered is not None:
                return answered
        again = state.kind is not None and state.proposed["decision"] == proposal.decision
        attempt = state.attempt + 1 if state.kind is Kind.FAILED else state.attempt
        key = proposal.effect_id if attempt == 1 else derive_id(proposal.effect, proposal.key, attempt)
        # A refusal stands for its decision: judged on the facts that it saw; and what was recorded first is what is sent.
        payload = state.proposed["payload"] if again else proposal.payload
        now = (yield ReadFacts(payload, key)) if target.has_premises else None
        own: Seen | None = getattr(now, "own", None)
        seen = state.proposed.get("seen") if again else now if proposal.fresh else proposal.seen
        allowed: bool | Permission = (yield Authorize(payload, key)) if target.has_authority else True
        judgement = None if now is None else judge(target.conditions(payload), now if seen is None else seen, now)
        now_at = clock.now()
        at = rfc3339(now_at)
        record: dict[str, Any] = {
            "effect": proposal.effect,
            "key": proposal.key,
            "payload": payload,
            "digest": proposal.digest,
            "decision": proposal.decision,
        }
        if seen is not None:
            record["seen"] = dict(seen)
        if proposal.origin:
            record["origin"] = proposal.origin
        proposed = Draft(Kind.PROPOSED, at, record)
        if own is not None:
            before = state if again else None
            found = yield from _there_already(own, history, proposed, target, clock=clock, state=before)
            if found is None:
                continue
            return found
        checks: dict[str, Any] = _permission(allowed)
        if judgement is not None:
            checks["premises"] = judgement.verdicts

        if allowed and (judgement is None or judgement.holds):
            guards: tuple[Guard, ...] = ()
            extra: dict[str, Any] = {}
            dispatched_at = at
            shared: tuple[Budget, ...] = allowed.budgets if isinstance(allowed, Permission) else ()
            if target.has_budget or shared:
                budgets: tuple[Budget, ...] = (yield ReadBudgets(payload, key)) if target.has_budget else ()
                caps = [budget.to_json() for budget in _together(shared, budgets, proposal)]
                guards = tuple(Guard(BUDGET, cap) for cap in caps)
                extra = {"budget": caps} if caps else {}
                now_at = clock.now()
                dispatched_at = rfc3339(now_at)
            claim = _dispatched(
                target.capabilities, clock, now_at, dispatched_at, attempt=attempt, key=key, extra=extra
            )
            drafts = (proposed, Draft(Kind.AUTHORIZED, at, checks), claim)
            claimed: History | OverLimit | None = yield Dispatch(history, drafts, guards)
            if claimed is None:
                # Somebody got in between our reading and our write: what they made of it is the answer. Nothing was sent here.
                continue
            if isinstance(claimed, OverLimit):
                refused = yield from _over_limit(
                    claimed, history, proposed, checks, proposal, at=at, state=state if again else None
                )
                if refused is None:
                    continue
                return refused
            answer: Landed | NotLanded | Unclear
            answer = (
                _HELD_UP if _is_held_up(claimed, target.capabilities, clock) else (yield Send(claimed, payload, key))
            )
            ended = yield from _conclude(claimed, record, answer, target, clock=clock, patience=patience, via=Via.SEND)
            if isinstance(ended, Outcome):
                return ended
            return (
                yield from recover_one(
                    claimed,
                    target,
                    clock=clock,
                    patience=patience,
                    resend=ended.resend,
                    detail=ended.detail,
                    pause_s=ended.pause_s,
                )
            )

        if not allowed:
            reason = Reason.LEASE
        else:
            reason = Reason.PREMISE_FALSE if judgement is not None and judgement.was_false else Reason.STALE_PREMISE
        data = {"reason": str(reason), **checks}
        if not (again and state.kind is Kind.REFUSED and state.last == data):
            written: History | None = yield Append(history, (proposed, Draft(Kind.REFUSED, at, data)))
            if written is None:
                continue
            history = written
        detail = checks.get("why", "")
        return _outcome(Status.REFUSED, history, proposal, reason=reason, changes=_changes(judgement), detail=detail)


def _there_already(
    own: Seen, history: History, proposed: Draft, target: Target, *, clock: Clock, state: State | None
) -> Generator[Step, Any, Outcome | None]:
    """The outcome of an effect that the service has, and this journal never sent; None if the history has moved.

    `state`: of the same decision, asked before.
    """
    if own.differs:
        data: dict[str, Any] = {
            "reason": str(Reason.CONFLICTING_PAYLOAD),
            "detail": own.differs,
            "evidence": own.evidence,
        }
        if state is not None and state.kind is Kind.REFUSED and state.last == data:
            return _outcome_of(history, state, target)
        kind = Kind.REFUSED
    else:
        kind, data = Kind.COMMITTED, _found(own, clock)
    written: History | None = yield Append(history, (proposed, Draft(kind, rfc3339(clock.now()), data)))
    return None if written is None else _outcome_of(written, fold(written), target)


def _found(seen: Seen, clock: Clock) -> dict[str, Any]:
    """What a COMMITTED entry says of an effect that was found."""
    value = None if seen.evidence is True else seen.evidence
    return {"via": str(Via.QUERY), "value": value, "evidence": seen.evidence, **watched(seen.watch, clock)}


def _together(shared: tuple[Budget, ...], budgets: tuple[Budget, ...], proposal: Proposal) -> tuple[Budget, ...]:
    """What an effect takes of its approval, and of what `budget=` names.

    Raises:
        BudgetUnclear: both name one key.
    """
    if not shared:
        return budgets
    try:
        return several([*shared, *budgets])
    except BadInput:
        raise BudgetUnclear(
            f"effect {proposal.effect!r}: budget= names {shared[0].key!r}, which the gate keeps for the approval itself. Leave it out, or "
            "use another name. Nothing was sent."
        ) from None


def _over_limit(
    found: OverLimit,
    history: History,
    proposed: Draft,
    checks: Mapping[str, Any],
    proposal: Proposal,
    *,
    at: str,
    state: State | None,
) -> Generator[Step, Any, Outcome | None]:
    """The refusal for want of room, on the record; None if the history has moved. `state`: of the same decision, asked before."""
    changes = {shortfall.budget: shortfall.to_json() for shortfall in found.shortfalls}
    data = {"reason": str(Reason.OVER_LIMIT), **checks, "over_limit": changes}
    if state is None or state.kind is not Kind.REFUSED or state.last != data:
        written: History | None = yield Append(history, (proposed, Draft(Kind.REFUSED, at, data)))
        if written is None:
            return None
        history = written
    detail = " ".join(map(str, found.shortfalls))
    return _outcome(Status.REFUSED, history, proposal, reason=Reason.OVER_LIMIT, changes=changes, detail=detail)


def _answer_from_record(
    history: History, state: State, proposal: Proposal, target: Target, *, clock: Clock, patience: Patience
) -> Generator[Step, Any, Outcome | None]:
    """The answer that the record already holds, or None if this proposal may be judged and sent."""
    if state.kind is None:
        return None
    other = state.proposed["digest"] != proposal.digest
    if state.kind is Kind.DISPATCHED:
        outcome: Outcome = yield from recover_one(history, target, clock=clock, patience=patience)
        settled = outcome.history or history
        if other and outcome.status is not Status.IN_FLIGHT:
            return _conflict(proposal, settled)
        # Waited for and done by its own sender: this call did nothing, it gets that sender's result.
        return _replay(settled, fold(settled), target) if outcome.via in (Via.SEND, Via.LATE_ANSWER) else outcome
    if state.kind in (Kind.REFUSED, Kind.FAILED):
        same_decision = state.proposed["decision"] == proposal.decision
        if other and same_decision:
            return _conflict(proposal, history)
        is_certain = state.kind is Kind.FAILED and state.last["reason"] != ABSENT
        if is_certain or state.first_dispatch is None or not target.capabilities.can_look_up:
            return None
        return (yield from _found_after_all(history, proposal, target, clock=clock))
    if other:
        return _conflict(proposal, history)
    if state.has_landed:
        return _replay(history, state, target)
    return _outcome_of(history, state, target)


def _found_after_all(
    history: History, proposal: Proposal, target: Target, *, clock: Clock
) -> Generator[Step, Any, Outcome | None]:
    """Before an effect is sent that was refused or failed as absent: whether that request has landed since, later than any should."""
    payload, key = history.entries[0].data["payload"], history.effect_id
    sent: Mapping[str, Any] = payload
    for entry in history.entries:
        if entry.kind is Kind.PROPOSED:
            payload = entry.data["payload"]
        elif entry.kind is Kind.DISPATCHED:
            sent, key = payload, entry.data["key"]
    seen: Seen = yield LookUp(sent, key)
    if seen.failed:
        return _waiting(history, fold(history), Reason.LOOKUP_FAILED, detail=seen.failed)
    if not seen.found:
        return None
    if seen.differs:
        return _outcome(Status.REFUSED, history, proposal, reason=Reason.CONFLICTING_PAYLOAD, detail=seen.differs)
    written: History | None = yield Append(history, (Draft(Kind.COMMITTED, rfc3339(clock.now()), _found(seen, clock)),))
    if written is None:
        written = yield Load(history.effect_id)
    settled = fold(written)
    if settled.kind in (Kind.REFUSED, Kind.FAILED):
        return None
    landed = _committed_proposal(written)
    return _conflict(proposal, written) if landed != proposal.digest else _outcome_of(written, settled, target)


def _committed_proposal(history: History) -> str:
    """The digest of what was sent last."""
    proposed = sent = ""
    for entry in history.entries:
        if entry.kind is Kind.PROPOSED:
            proposed = entry.data["digest"]
        elif entry.kind is Kind.DISPATCHED:
            sent = proposed
    return sent


def recover_one(
    history: History,
    target: Target,
    *,
    clock: Clock,
    patience: Patience,
    resend: Resend = Resend.NONE,
    detail: str = "",
    pause_s: float = 0.0,
) -> Run:
    """Settle one effect that was dispatched, if its sender is gone: re-check, ask `decide`, and re-enter the stages of `submit`.

    Args:
        history: the effect as just read.
        target: its function.
        clock: the gate's clock.
        patience: how long to wait for a live sender and for long look-up lags; the short `settle_after` is always waited out.
        resend: what a send in this very call came to, so that one call resends at most once.
        detail: what that send said.
        pause_s: pause first: the service said that the key is in use.

    **Durable when** this returns: an outcome other than IN_FLIGHT stands on the journal.
    **If the process dies** meanwhile, the next recovery finds the effect DISPATCHED again and starts over.
    """
    capabilities = target.capabilities
    own = len(history.entries) - 1  # where `resend` is not NONE, the dispatch that it speaks of
    if pause_s:
        yield Wait(max(pause_s, SHORTEST_PAUSE_S))
        history = yield Load(history.effect_id)
    while True:
        state = fold(history)
        dispatch = state.dispatch
        if state.kind is not Kind.DISPATCHED or dispatch is None:
            return _outcome_of(history, state, target)
        sighting: Sighting = yield Probe(dispatch.by, dispatch.effect_id, dispatch.n)
        if sighting.liveness is Liveness.ALIVE:
            pause = patience.next_poll_s()
            if pause is None:
                return _waiting(history, state, Reason.SENDER_ALIVE, detail=detail)
            yield Wait(max(pause, SHORTEST_PAUSE_S))
            history = yield Load(history.effect_id)
            continue
        if resend is not Resend.NONE and dispatch.n != own:
            # Somebody has sent since. What this call was told says nothing of that, and it does not send a second time.
            return _waiting(history, state, Reason.RACE_LOST, detail=detail)

        payload, key = state.proposed["payload"], dispatch.data["key"]
        dedupes_now = _window_open(state, capabilities, clock)
        asked: _Asked | None = None
        if capabilities.can_look_up and not (dedupes_now and resend is Resend.NONE):
            asked = yield from _ask(history, sighting, capabilities, clock, payload, key)
        checks, recheck, judgement = Checks.UNREADABLE, dict[str, Any](), None
        if asked is None or asked.found in (Found.FOUND, Found.ABSENT):
            # The re-check comes last before an act, so that what it read is as fresh as it can be.
            checks, recheck, judgement, there = yield from _recheck(state, target, payload, key)
            if there is not None:
                asked = _asked_of(there)
            if asked is None and capabilities.can_look_up and checks is not Checks.HOLD:
                asked = yield from _ask(history, sighting, capabilities, clock, payload, key)
        action = decide(
            dedupes=capabilities.dedupes,
            window_open=dedupes_now,
            can_look_up=capabilities.can_look_up,
            checks=checks,
            found=asked.found if asked else Found.NOT_ASKED,
            resend=resend,
        )
        extra: dict[str, Any] = {"recheck": recheck}
        if asked is not None:
            if asked.found is Found.FAILED:
                return _waiting(history, state, Reason.LOOKUP_FAILED, detail=asked.failed)
            if asked.found is Found.NOT_YET:
                if asked.trusted_in_s > max(capabilities.settle_after_s, patience.left_s(for_service=True)):
                    return _waiting(
                        history, state, Reason.ABSENCE_NOT_YET_TRUSTED, retry_after=asked.trusted_in_s, detail=detail
                    )
                yield Wait(max(asked.trusted_in_s, SHORTEST_PAUSE_S))
                history = yield Load(history.effect_id)
                continue
            if asked.found in (Found.FOUND, Found.DIFFERS):
                extra["evidence"] = asked.evidence
                detail = asked.failed or detail
            else:
                extra["lookup"] = "absent"
        if action is Action.GIVE_UP and sighting.liveness is Liveness.CUT_OFF:
            left = _deadline_left_s(dispatch, clock)
            if left > 0:
                return _waiting(history, state, Reason.SENDER_ALIVE, retry_after=left)
        if action is Action.WAIT:
            reason = Reason.CHECK_UNREADABLE if checks is Checks.UNREADABLE else Reason.UNANSWERED
            return _waiting(history, state, reason, detail=recheck.get("unreadable", "") or detail)
        if action in (Action.RESEND, Action.REAPPLY):
            now_at = clock.now()
            draft = _dispatched(
                capabilities, clock, now_at, rfc3339(now_at), attempt=state.attempt, key=key, extra=extra
            )
            claimed: History | None = yield Dispatch(history, (draft,))
            if claimed is None:
                history = yield Load(history.effect_id)
                continue
            answer: Landed | NotLanded | Unclear
            if action is Action.RESEND and not _window_open(fold(claimed), capabilities, clock):
                # Held up since the window was looked at, a stopped process for one. The service may have forgotten the key.
                answer = NotLanded(
                    Verdict.NOT_SENT, "held_up", "held up until the key may be forgotten; not sent again"
                )
            elif _is_held_up(claimed, capabilities, clock):
                answer = _HELD_UP
            else:
                answer = yield Send(claimed, payload, key)
            via = Via.RETRY if action is Action.RESEND else Via.REAPPLY
            ended = yield from _conclude(
                claimed, state.proposed, answer, target, clock=clock, patience=patience, via=via
            )
            if isinstance(ended, Outcome):
                return ended
            own, resend, detail = len(claimed.entries) - 1, ended.resend, ended.detail
            if ended.pause_s:
                yield Wait(max(ended.pause_s, SHORTEST_PAUSE_S))
            history = yield Load(history.effect_id)
            continue
        at = rfc3339(clock.now())
        if action is Action.SETTLE:
            value = None if extra["evidence"] is True else extra["evidence"]
            watch = watched(asked.watch if asked is not None else None, clock)
            draft = Draft(Kind.COMMITTED, at, {"via": str(Via.QUERY), "value": value, **extra, **watch})
        elif action is Action.REFUSE:
            stale = checks is Checks.STALE
            refused = Reason.STALE_PREMISE_AT_RECOVERY if stale else Reason.LEASE_AT_RECOVERY
            why_not = {"detail": recheck["why"]} if not stale and "why" in recheck else {}
            draft = Draft(Kind.REFUSED, at, {"reason": str(refused), **why_not, **extra})
        elif action is Action.FAIL:
            failed = "rejected" if resend is Resend.REJECTED else ABSENT
            draft = Draft(Kind.FAILED, at, {"reason": failed, "detail": detail, "verdict": failed, **extra})
        else:
            why = _WHY_NOT_AGAIN[checks] if dedupes_now and (asked is None or asked.found is not Found.DIFFERS) else ""
            draft = Draft(Kind.AMBIGUOUS, at, {"detail": " ".join(filter(None, (why, detail))), **extra})
        written: History | None = yield Append(history, (draft,))
        if written is None:
            history = yield Load(history.effect_id)
            continue
        return _outcome_of(written, fold(written), target, changes=_changes(judgement))


_HELD_UP = NotLanded(
    Verdict.NOT_SENT, "held_up", "held up since permission and facts were checked, so they are too old to send on"
)


def _is_held_up(claimed: History, capabilities: Capabilities, clock: Clock) -> bool:
    """Whether a send that was just claimed should have been over by now: a stopped process, or a journal that was busy for long.

    What was permitted then may have been taken back since, so it is not sent.
    """
    uptime_s: float = claimed.entries[-1].data["uptime_s"]
    return clock.uptime().seconds - uptime_s > capabilities.timeout_s


class _Asked(NamedTuple):
    """What a look-up amounts to: `trusted_in_s` was settled before asking, since an answer is only as good as the moment it was asked.

    `failed` says why nothing is known, or in what the thing that was found is not what was asked for.
    """

    found: Found
    evidence: Any
    failed: str
    trusted_in_s: float
    watch: WatchFor | None = None


def _ask(
    history: History, sighting: Sighting, capabilities: Capabilities, clock: Clock, payload: Mapping[str, Any], key: str
) -> Generator[Step, Any, _Asked]:
    trusted_in_s: float = yield from _unsettled_s(history, sighting, capabilities, clock)
    seen: Seen = yield LookUp(payload, key)
    if seen.found:
        return _asked_of(seen)
    if seen.failed:
        found = Found.FAILED
    else:
        found = Found.NOT_YET if trusted_in_s > 0 else Found.ABSENT
    return _Asked(found, seen.evidence, seen.failed, trusted_in_s, seen.watch)


def _asked_of(seen: Seen) -> _Asked:
    """Of something that was found, whether a look-up was asked or the facts showed it."""
    return _Asked(Found.DIFFERS if seen.differs else Found.FOUND, seen.evidence, seen.differs, 0.0, seen.watch)


def _unsettled_s(
    history: History, sighting: Sighting, capabilities: Capabilities, clock: Clock
) -> Generator[Step, Any, float]:
    """Seconds until nothing of this decision can be on its way unseen; 0 or less when that is so now."""
    *earlier, last = _dispatches(history)
    left_s = _untrusted_s(last, sighting, capabilities, clock)
    for entry in earlier:
        # A resend at tier 1 does not wait for what came before it, so what is known of the last sender says nothing of them.
        before: Sighting = yield Probe(entry.by, entry.effect_id, entry.n)
        left_s = max(left_s, _untrusted_s(entry, before, capabilities, clock))
    return left_s


def late_answer(
    history: History, answer: Landed | NotLanded | Unclear, *, clock: Clock
) -> Generator[Step, Any, History | None]:
    """Record an answer that came after the gate had stopped waiting for it. The truth wins over what was concluded meanwhile.

    Args:
        history: the effect as it was when this send was dispatched.
        answer: what came back. That it did not land is recorded only while nobody has sent or concluded anything since.
        clock: the gate's clock.

    Returns:
        The history with the answer, or None if there was nothing to record.
    """
    while True:
        current: History = yield Load(history.effect_id)
        if isinstance(answer, Landed) and current.kind in (Kind.DISPATCHED, Kind.AMBIGUOUS, Kind.REFUSED, Kind.FAILED):
            watch = watched(answer.watch, clock)
            kind, data = Kind.COMMITTED, {"via": str(Via.LATE_ANSWER), "value": answer.value, **watch}
        elif isinstance(answer, NotLanded) and current.head == history.head and len(_dispatches(history)) == 1:
            kind, data = Kind.FAILED, _failure(answer)
        else:
            return None
        written: History | None = yield Append(current, (Draft(kind, rfc3339(clock.now()), data),))
        if written is not None:
            return written


def _failure(answer: NotLanded) -> dict[str, Any]:
    """What a FAILED entry says."""
    return {"reason": answer.reason, "detail": answer.detail, "verdict": str(answer.verdict)}


_NOTHING_ARRIVED = frozenset({str(Verdict.NOT_SENT), "absent"})
"""Verdicts of a FAILED entry after which the same request may well go through; the other one is the service's own no."""


def _dispatches(history: History) -> list[Entry]:
    """The sends since the last decision."""
    sends: list[Entry] = []
    for entry in history.entries:
        if entry.kind is Kind.PROPOSED:
            sends.clear()
        elif entry.kind is Kind.DISPATCHED:
            sends.append(entry)
    return sends


class _Again(NamedTuple):
    """A send came to nothing certain: recover, with what it came to, after a pause."""

    resend: Resend
    detail: str
    pause_s: float


def _conclude(
    history: History,
    proposed: Mapping[str, Any],
    answer: Landed | NotLanded | Unclear,
    target: Target,
    *,
    clock: Clock,
    patience: Patience,
    via: Via,
) -> Generator[Step, Any, Outcome | _Again]:
    """From the answer to a send to its outcome."""
    if isinstance(answer, Landed):
        value, raw, watch = answer
        data: dict[str, Any] = {"via": via._value_, "value": value}
        if watch is not None:
            data.update(watched(watch, clock))
        draft = Draft(Kind.COMMITTED, rfc3339(clock.now()), data)
        written: History | None = yield Append(history, (draft,))
        if written is not None:
            return Outcome(
                STATUS_OF_VIA[via],
                proposed["effect"],
                proposed["key"],
                history.effect_id,
                via=via,
                value=target.decode_value(value),
                raw=raw,
                evidence=value,
                since=history.entries[-1].at,
                settlement=ACCEPTED if watch is not None else "",
                history=written,
            )
        # Somebody who could not know that we live concluded without us. Our answer is the truth.
        written = yield from late_answer(history, answer, clock=clock)
        if written is None:
            written = yield Load(history.effect_id)
        return _outcome_of(written, fold(written), target, raw=raw)
    if isinstance(answer, NotLanded):
        # It speaks for this request alone. The first request is all there is; a reapplied one followed a trusted absence; but
        # a resend was made without asking, and a request before it may have landed.
        if via is not Via.RETRY:
            draft = Draft(Kind.FAILED, rfc3339(clock.now()), _failure(answer))
            failed: History | None = yield Append(history, (draft,))
            if failed is None:
                failed = yield Load(history.effect_id)
            return _outcome_of(failed, fold(failed), target)
        sent = Resend.REJECTED if answer.verdict is Verdict.REJECTED else Resend.UNANSWERED
        pause = 0.0
    elif answer.still_running:
        return _waiting(history, fold(history), Reason.SENDER_ALIVE, detail=answer.detail)
    elif answer.in_use:
        poll = patience.next_poll_s(for_service=True)
        if poll is None:
            return _waiting(history, fold(history), Reason.KEY_IN_USE, detail=answer.detail)
        sent, pause = Resend.NONE, poll
    else:
        sent, pause = Resend.NONE if via is Via.SEND else Resend.UNANSWERED, 0.0
    return _Again(sent, answer.detail, pause)


def _permission(allowed: bool | Permission) -> dict[str, Any]:
    """The answer of whoever was asked for permission, for the record: with the approval, and why not, where that was said."""
    if not isinstance(allowed, Permission):
        return {"allowed": allowed}
    said = {"approval": allowed.approval, "why": allowed.why}
    return {"allowed": allowed.allowed, **{name: storable(text) for name, text in said.items() if text}}


def _recheck(
    state: State, target: Target, payload: Mapping[str, Any], key: str
) -> Generator[Step, Any, tuple[Checks, dict[str, Any], Judgement | None, Seen | None]]:
    """Permission, then premises, as they are now; and the effect itself, if they showed it."""
    seen = state.proposed.get("seen")
    own: Seen | None = None
    try:
        allowed: bool | Permission = (yield Authorize(payload, key)) if target.has_authority else True
        record: dict[str, Any] = _permission(allowed)
        judgement: Judgement | None = None
        if seen is not None and target.has_premises:
            now = yield ReadFacts(payload, key)
            own = getattr(now, "own", None)
            judgement = judge(target.conditions(payload), seen, now)
            record["premises"] = judgement.verdicts
    except (CallbackFailed, BadInput) as error:
        return Checks.UNREADABLE, {"unreadable": storable(str(error))}, None, own
    if not allowed:
        return Checks.LEASE, record, judgement, own
    if judgement is not None and not judgement.holds:
        return Checks.STALE, record, judgement, own
    return Checks.HOLD, record, judgement, own


def _dispatched(
    capabilities: Capabilities,
    clock: Clock,
    now: datetime,
    at: str,
    *,
    attempt: int,
    key: str,
    extra: Mapping[str, Any],
) -> Draft:
    """The claim; `at` is the text of `now`."""
    boot, uptime_s = clock.uptime()
    data: dict[str, Any] = {
        "attempt": attempt,
        "key": key,
        "deadline": rfc3339(now + timedelta(seconds=capabilities.timeout_s)),
        "boot": boot,
        "uptime_s": uptime_s,
        **extra,
    }
    return Draft(Kind.DISPATCHED, at, data)


def _clocks(dispatch: Entry, clock: Clock) -> dict[str, Any]:
    """A dispatch's clocks beside the present ones."""
    uptime = clock.uptime()
    return {
        "at": datetime.fromisoformat(dispatch.at),
        "boot": dispatch.data["boot"],
        "uptime_s": dispatch.data["uptime_s"],
        "now": clock.now(),
        "now_boot": uptime.boot,
        "now_uptime_s": uptime.seconds,
    }


def _window_open(state: State, capabilities: Capabilities, clock: Clock) -> bool:
    if not capabilities.dedupes or state.first_dispatch is None:
        return False
    elapsed = elapsed_s(**_clocks(state.first_dispatch, clock))
    # A send may take until its time-out, and what its sender then no longer waits for may arrive later still.
    margin_s = capabilities.timeout_s + capabilities.settle_after_s
    return is_window_open(elapsed, window_s=capabilities.window_s, margin_s=margin_s)


def _deadline_left_s(dispatch: Entry, clock: Clock) -> float:
    """Seconds until the sender's own deadline; a clock that went back makes it the whole time again, never less."""
    length = (datetime.fromisoformat(dispatch.data["deadline"]) - datetime.fromisoformat(dispatch.at)).total_seconds()
    elapsed = surely_elapsed_s(**_clocks(dispatch, clock))
    return length if elapsed is None else length - max(elapsed, 0.0)


def _untrusted_s(dispatch: Entry, sighting: Sighting, capabilities: Capabilities, clock: Clock) -> float:
    """Seconds until "absent" can be believed; 0 or less when it can be now."""
    elapsed = surely_elapsed_s(**_clocks(dispatch, clock))
    lag_left = capabilities.lookup_lag_s - (elapsed if elapsed is not None else 0.0)
    if sighting.liveness is Liveness.ENDED:
        return lag_left
    # A request that left at the last moment is on its way for settle_after more, and the look-up lags behind even that.
    in_flight = capabilities.settle_after_s - sighting.gone_for_s
    if sighting.liveness in (Liveness.CUT_OFF, Liveness.ALIVE):
        in_flight = max(in_flight, _deadline_left_s(dispatch, clock) + capabilities.settle_after_s)
    if capabilities.lookup_lag_s:
        in_flight += capabilities.lookup_lag_s
    return max(lag_left, in_flight)


def _changes(judgement: Judgement | None) -> dict[str, Any]:
    if judgement is None:
        return {}
    return {name: judgement.verdicts[name] for name in (*judgement.was_false, *judgement.changed)}


def _outcome(status: Status, history: History, proposal: Proposal, **more: Any) -> Outcome:
    return Outcome(status, proposal.effect, proposal.key, proposal.effect_id, history=history, **more)


def _conflict(proposal: Proposal, history: History) -> Outcome:
    recorded = fold(history).proposed["payload"]
    changes = {
        name: {"rule": "as recorded first", "seen": recorded.get(name), "now": value}
        for name, value in proposal.payload.items()
        if name not in recorded or not same(recorded[name], value)
    }
    return _outcome(Status.REFUSED, history, proposal, reason=Reason.CONFLICTING_PAYLOAD, changes=changes)


def _replay(history: History, state: State, target: Target) -> Outcome:
    committed = _committed(history)
    return Outcome(
        Status.DUPLICATE_IGNORED,
        state.proposed["effect"],
        state.proposed["key"],
        history.effect_id,
        via=Via(committed.data["via"]),
        value=target.decode_value(committed.data["value"]),
        evidence=committed.data.get("evidence"),
        since=_since(state),
        history=history,
        **settled_as(history),
    )


def settled_as(history: History) -> dict[str, Any]:
    """What an outcome says of the settlement of a landed effect."""
    settlement, reason = settlement_of(history)
    return {"settlement": settlement, "detail": reason} if settlement else {}


def outcome_of(history: History, target: Target | None) -> Outcome:
    """The outcome that a history stands for, whether its function is known or not."""
    state = fold(history)
    if state.kind is Kind.DISPATCHED:
        return _waiting(history, state, Reason.UNANSWERED)
    return _outcome_of(history, state, target)


def _committed(history: History) -> Entry:
    entry: Entry
    for entry in reversed(history.entries):
        if entry.kind is Kind.COMMITTED:
            return entry
    raise ValueError(f"effect {history.effect_id} has not landed")


def _since(state: State) -> str:
    return state.dispatch.at if state.dispatch else ""


def _waiting(
    history: History, state: State, reason: Reason, *, retry_after: float = RETRY_AFTER_S, detail: str = ""
) -> Outcome:
    return Outcome(
        Status.IN_FLIGHT,
        state.proposed["effect"],
        state.proposed["key"],
        history.effect_id,
        reason=reason,
        retry_after=retry_after,
        owner=state.dispatch.by if state.dispatch else "",
        since=_since(state),
        detail=detail,
        history=history,
    )


def _outcome_of(
    history: History, state: State, target: Target | None, *, raw: Any = None, changes: Mapping[str, Any] | None = None
) -> Outcome:
    """The outcome that a history stands for."""
    name, key = state.proposed["effect"], state.proposed["key"]
    last = state.last
    if state.has_landed:
        committed = _committed(history)
        via = Via(committed.data["via"])
        return Outcome(
            STATUS_OF_VIA[via],
            name,
            key,
            history.effect_id,
            via=via,
            value=committed.data["value"] if target is None else target.decode_value(committed.data["value"]),
            raw=raw,
            evidence=committed.data.get("evidence", committed.data["value"]),
            since=_since(state),
            history=history,
            **settled_as(history),
        )
    common: dict[str, Any] = {"since": _since(state), "history": history, "detail": last.get("detail", "")}
    if state.kind is Kind.REFUSED:
        return Outcome(
            Status.REFUSED, name, key, history.effect_id, reason=last["reason"], changes=changes or {}, **common
        )
    if state.kind is Kind.FAILED:
        verdict = last.get("verdict", last["reason"])  # before it was recorded, the usual reasons were its words
        return Outcome(
            Status.FAILED,
            name,
            key,
            history.effect_id,
            reason=last["reason"],
            can_ask_again=verdict in _NOTHING_ARRIVED,
            **common,
        )
    if state.kind is Kind.AMBIGUOUS:
        return Outcome(Status.AMBIGUOUS, name, key, history.effect_id, changes=changes or {}, **common)
    return _waiting(history, state, Reason.RACE_LOST)
