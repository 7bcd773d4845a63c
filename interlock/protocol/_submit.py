"""From a proposal to its outcome: what the record answers, the checks, the dispatch, the send."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from interlock.authority import Permission
from interlock.effects import Draft, History, Kind, Proposal, as_decided
from interlock.errors import BadInput, BudgetUnclear
from interlock.journal import BUDGET, Guard
from interlock.outcomes import Outcome, Reason, Status, Via
from interlock.ports import Clock, Target
from interlock.protocol._answer import conclude
from interlock.protocol._outcome import changes_of, conflict, is_other, outcome_for, outcome_from, replay, waiting
from interlock.protocol._recover import permission_record, recover_one
from interlock.protocol._step import (
    Append,
    Authorize,
    Dispatch,
    Landed,
    Load,
    LookUp,
    NotLanded,
    OverLimit,
    ReadBudgets,
    ReadFacts,
    Run,
    Seen,
    Send,
    Step,
    Unclear,
)
from interlock.protocol._time import (
    CHECKS_AT_MOST,
    HELD_UP,
    Patience,
    dispatched_draft,
    is_held_up,
    is_too_old,
    rfc3339,
    watched,
)
from interlock.rules.budgets import Budget, several
from interlock.rules.canonical import derive_id
from interlock.rules.lifecycle import State, fold, uncertain
from interlock.rules.premises import judge


def submit(proposal: Proposal, target: Target, *, clock: Clock, patience: Patience) -> Run:
    """Take one approved request to its outcome: at most one send of it, ever, by anybody.

    **Durable when** this returns: an outcome other than IN_FLIGHT and a refusal of a conflicting payload stands on the journal.
    **If the process dies** before `Dispatch` was answered, nothing was sent. After it, `recover_one` takes over from the record.
    """
    is_checked = target.has_premises or target.has_authority
    presume = not (is_checked or target.has_budget)
    checked = 0
    while True:
        history: History = yield Load(proposal.effect_id, presume)
        presume = False
        state = fold(history)
        if history.entries:
            answered = yield from _answer_from_record(history, state, proposal, target, clock=clock, patience=patience)
            if answered is not None:
                return answered
        again = state.kind is not None and _is_same_decision(state, proposal)
        attempt = state.attempt + 1 if state.kind is Kind.FAILED else state.attempt
        key = proposal.effect_id if attempt == 1 else derive_id(proposal.effect, proposal.key, attempt)
        # A refusal stands for its decision: judged on the facts that it saw; and what was recorded first is what is sent.
        payload = state.proposed["payload"] if again else proposal.payload
        checked_at_s = clock.uptime().seconds if is_checked else 0.0
        now = (yield ReadFacts(payload, key)) if target.has_premises else None
        own: Seen | None = getattr(now, "own", None)
        seen = state.proposed.get("seen") if again else as_decided(now) if proposal.fresh else proposal.seen
        allowed: bool | Permission = (yield Authorize(payload, key)) if target.has_authority else True
        judgement = None if now is None else judge(target.conditions(payload), now if seen is None else seen, now)
        now_at = clock.now()
        at = rfc3339(now_at)
        record: dict[str, Any] = {
            "effect": proposal.effect,
            "key": proposal.key,
            "payload": payload,
            "digest": proposal.digest,
            "decision": state.proposed["decision"] if again else proposal.decision,
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
        checks: dict[str, Any] = permission_record(allowed)
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
            claim = dispatched_draft(
                target.capabilities, clock, now_at, dispatched_at, attempt=attempt, key=key, extra=extra
            )
            if not is_checked:
                checked_at_s = claim.data["uptime_s"]
            checked += 1
            if checked < CHECKS_AT_MOST and is_too_old(checked_at_s, claim.data["uptime_s"], target.capabilities):
                if proposal.fresh and now is not None:
                    proposal = proposal._replace(
                        seen=dict(as_decided(now)), fresh=False
                    )  # decided on what was read first
                continue
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
            late = is_held_up(checked_at_s, target.capabilities, clock)
            answer = HELD_UP if late else (yield Send(claimed, payload, key))
            ended = yield from conclude(claimed, record, answer, target, clock=clock, patience=patience, via=Via.SEND)
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
        return outcome_for(
            Status.REFUSED, history, proposal, reason=reason, changes=changes_of(judgement), detail=detail
        )


def _is_same_decision(state: State, proposal: Proposal) -> bool:
    """Whether a proposal stands under the decision on record: it names that one, or none, which is no new one."""
    return proposal.decision in ("", state.proposed["decision"])


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
            return outcome_from(history, state, target)
        kind = Kind.REFUSED
    else:
        kind, data = Kind.COMMITTED, _found(own, clock)
    written: History | None = yield Append(history, (proposed, Draft(kind, rfc3339(clock.now()), data)))
    return None if written is None else outcome_from(written, fold(written), target)


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
    return outcome_for(Status.REFUSED, history, proposal, reason=Reason.OVER_LIMIT, changes=changes, detail=detail)


def _answer_from_record(
    history: History, state: State, proposal: Proposal, target: Target, *, clock: Clock, patience: Patience
) -> Generator[Step, Any, Outcome | None]:
    """The answer that the record already holds, or None if this proposal may be judged and sent."""
    if state.kind is None:
        return None
    other = is_other(state.proposed, proposal.digest, proposal.payload, target)
    same_decision = _is_same_decision(state, proposal)
    if state.kind is Kind.DISPATCHED:
        outcome: Outcome = yield from recover_one(history, target, clock=clock, patience=patience)
        settled = outcome.history or history
        if other and (same_decision or outcome.status is not Status.IN_FLIGHT):
            return conflict(proposal, settled, target)  # in flight, too: it is not this call's effect that is under way
        # Waited for and done by its own sender: this call did nothing, it gets that sender's result.
        return replay(settled, fold(settled), target) if outcome.via in (Via.SEND, Via.LATE_ANSWER) else outcome
    if state.kind in (Kind.REFUSED, Kind.FAILED):
        if other and same_decision:
            return conflict(proposal, history, target)
        if not target.capabilities.can_look_up:
            return None
        return (yield from _found_after_all(history, proposal, target, clock=clock))
    if other:
        return conflict(proposal, history, target)
    if state.has_landed:
        return replay(history, state, target)
    return outcome_from(history, state, target)


def _found_after_all(
    history: History, proposal: Proposal, target: Target, *, clock: Clock
) -> Generator[Step, Any, Outcome | None]:
    """Before an effect is sent that was refused or failed as absent: whether a request of it has landed since, later than any should."""
    for request in uncertain(history):
        seen: Seen = yield LookUp(request.payload, request.key)
        if seen.failed:
            return waiting(history, fold(history), Reason.LOOKUP_FAILED, detail=seen.failed)
        if seen.found:
            break
    else:
        return None
    if seen.differs:
        return outcome_for(Status.REFUSED, history, proposal, reason=Reason.CONFLICTING_PAYLOAD, detail=seen.differs)
    at = rfc3339(clock.now())
    drafts: tuple[Draft, ...] = (Draft(Kind.COMMITTED, at, _found(seen, clock)),)
    if request.digest != fold(history).proposed["digest"]:
        # What was decided after it was not done. The request that was stands last, so that the record says what has landed.
        drafts = (Draft(Kind.PROPOSED, at, request.proposed), *drafts)
    written: History | None = yield Append(history, drafts)
    if written is None:
        written = yield Load(history.effect_id)
    settled = fold(written)
    if settled.kind in (Kind.REFUSED, Kind.FAILED):
        return None
    if is_other(request.proposed, proposal.digest, proposal.payload, target):
        return conflict(proposal, written, target)
    return outcome_from(written, settled, target)
