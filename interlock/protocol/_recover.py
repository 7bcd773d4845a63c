"""Recovery of one effect: what is known of its sender and at the service, the re-check, and one act by `rules.recovery.decide`.

It has no way of its own to send: it re-enters the stages of `_submit`, and ends by `_answer` as that does.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from typing import Any

from interlock.authority import Permission, cap_of
from interlock.effects import Draft, Entry, History, Kind
from interlock.errors import BadInput, CallbackFailed
from interlock.journal import BUDGET, Guard
from interlock.outcomes import Outcome, Reason, Via
from interlock.ports import Capabilities, Clock, Liveness, Target, Verdict, WatchFor
from interlock.protocol._answer import conclude, dispatches
from interlock.protocol._declared import in_force
from interlock.protocol._outcome import changes_of, is_other, outcome_from, waiting
from interlock.protocol._step import (
    Append,
    Authorize,
    Dispatch,
    Landed,
    Load,
    LookUp,
    NotLanded,
    OverLimit,
    Probe,
    ReadFacts,
    Run,
    Seen,
    Send,
    Sighting,
    Step,
    Unclear,
    Wait,
)
from interlock.protocol._time import (
    CHECKS_AT_MOST,
    HELD_UP,
    ROUNDING_S,
    SHORT_PAUSE_S,
    SHORTEST_PAUSE_S,
    Patience,
    deadline_left_s,
    dispatched_draft,
    is_held_up,
    is_too_old,
    is_within_window,
    rfc3339,
    untrusted_s,
    watched,
)
from interlock.record import NamedTuple
from interlock.rules.budgets import Budget
from interlock.rules.lifecycle import ABSENT, Request, State, fold, uncertain
from interlock.rules.premises import Judgement, judge
from interlock.rules.recovery import Action, Checks, Found, Resend, decide
from interlock.rules.values import storable, words_of

_WHY_NOT_AGAIN: Mapping[Checks, str] = {
    Checks.HOLD: "",
    Checks.UNREADABLE: "",
    Checks.LEASE: "The service still drops a second request with this key, but it is not allowed any more.",
    Checks.STALE: "The service still drops a second request with this key, but a fact has changed.",
}
"""Why an effect that could safely be sent again is not, and without a look-up nobody knows whether it landed."""


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
    declared = target.capabilities
    checked = 0
    no_room = ""
    own = len(history.entries) - 1  # where `resend` is not NONE, the dispatch that it speaks of
    if pause_s:
        yield Wait(max(pause_s, SHORTEST_PAUSE_S))
        history = yield Load(history.effect_id)
    while True:
        state = fold(history)
        dispatch = state.dispatch
        if state.kind is not Kind.DISPATCHED or dispatch is None:
            return outcome_from(history, state, target)
        sighting: Sighting = yield Probe(dispatch.by, dispatch.effect_id, dispatch.n)
        if sighting.liveness is Liveness.ALIVE:
            told = yield from _wait_for_sender(history, state, patience, detail)
            if told is not None:
                return told
            history = yield Load(history.effect_id)
            continue
        if resend is not Resend.NONE and dispatch.n != own:
            # Somebody has sent since. What this call was told says nothing of that, and it does not send a second time.
            return waiting(history, state, Reason.RACE_LOST, detail=detail)

        payload, key = state.proposed["payload"], dispatch.data["key"]
        force = in_force(history, key, declared)
        capabilities = force.capabilities
        dedupes_now = is_within_window(state, capabilities, clock)
        request = Request(state.proposed, key)
        # Requests of earlier decisions that were only ever found to be absent. Their keys are others, so no resend is dropped for them.
        earlier = [one for one in uncertain(history) if (one.key, one.digest) != (request.key, request.digest)]
        asked: _Asked | None = None
        if capabilities.can_look_up and (earlier or not (dedupes_now and resend is Resend.NONE)):
            asked = yield from _ask(
                history, sighting, target, capabilities, clock, request, earlier, unseen=force.unseen
            )
        checks, recheck, judgement = Checks.UNREADABLE, dict[str, Any](), None
        shared: tuple[Budget, ...] | None = None
        checked_at_s = clock.uptime().seconds
        if asked is None or asked.found in (Found.FOUND, Found.ABSENT, Found.UNSEEN):
            # The re-check comes last before an act, so that what it read is as fresh as it can be.
            checks, recheck, judgement, there, shared = yield from _recheck(state, target, payload, key)
            if no_room and checks is Checks.HOLD:
                checks, recheck = Checks.LEASE, {**recheck, "why": no_room}
            if there is not None:
                asked = _asked_of(there)
            if asked is None and capabilities.can_look_up and checks is not Checks.HOLD:
                asked = yield from _ask(
                    history, sighting, target, capabilities, clock, request, earlier, unseen=force.unseen
                )
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
                return waiting(history, state, Reason.LOOKUP_FAILED, detail=asked.failed)
            if asked.found is Found.NOT_YET:
                if asked.trusted_in_s == math.inf:
                    told = yield from _wait_for_sender(history, state, patience, detail)
                    if told is not None:
                        return told
                    history = yield Load(history.effect_id)
                    continue
                if asked.trusted_in_s > max(capabilities.settle_after_s, patience.left_s(for_service=True)):
                    return waiting(
                        history, state, Reason.ABSENCE_NOT_YET_TRUSTED, retry_after=asked.trusted_in_s, detail=detail
                    )
                # The look-up has taken time of its own, and what has passed meanwhile is not waited for again.
                took_s = clock.uptime().seconds - asked.asked_at_s
                if took_s < asked.trusted_in_s:
                    yield Wait(max(asked.trusted_in_s - took_s, SHORTEST_PAUSE_S))
                history = yield Load(history.effect_id)
                continue
            if asked.found in (Found.FOUND, Found.DIFFERS):
                extra["evidence"] = asked.evidence
                detail = asked.failed or detail
            else:
                extra["lookup"] = str(asked.found)
        if action is Action.GIVE_UP and sighting.liveness is Liveness.CUT_OFF:
            left = deadline_left_s(dispatch, clock)
            if left > 0:
                return waiting(history, state, Reason.SENDER_ALIVE, retry_after=left)
        if action is Action.WAIT:
            reason = Reason.CHECK_UNREADABLE if checks is Checks.UNREADABLE else Reason.UNANSWERED
            return waiting(history, state, reason, detail=recheck.get("unreadable", "") or detail)
        if action in (Action.RESEND, Action.REAPPLY):
            now_at = clock.now()
            caps = None if shared is None else _reserved_anew(history, shared)
            if caps is not None:
                extra["budget"] = caps
            draft = dispatched_draft(
                declared, clock, now_at, rfc3339(now_at), attempt=state.attempt, key=key, extra=extra
            )
            checked += 1
            if checked < CHECKS_AT_MOST and is_too_old(checked_at_s, draft.data["uptime_s"], declared):
                history = yield Load(history.effect_id)
                continue
            guards = tuple(Guard(BUDGET, cap) for cap in caps or ())
            claimed: History | OverLimit | None = yield Dispatch(history, (draft,), guards)
            if claimed is None or isinstance(claimed, OverLimit):
                no_room = "" if claimed is None else storable(" ".join(map(str, claimed.shortfalls)))
                history = yield Load(history.effect_id)
                continue
            late: NotLanded | None = None
            if action is Action.RESEND and not is_within_window(fold(claimed), capabilities, clock):
                # Held up since the window was looked at, a stopped process for one. The service may have forgotten the key.
                late = NotLanded(Verdict.NOT_SENT, "held_up", "held up until the key may be forgotten; not sent again")
            elif is_held_up(checked_at_s, declared, clock):
                late = HELD_UP
            if late is not None and action is Action.RESEND:
                # What it would have repeated is as open as before, and this call does not try once more.
                return waiting(claimed, fold(claimed), Reason.UNANSWERED, detail=late.detail)
            answer: Landed | NotLanded | Unclear = late or (yield Send(claimed, payload, key))
            via = Via.RETRY if action is Action.RESEND else Via.REAPPLY
            ended = yield from conclude(
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
            why = [force.no_resend, force.unseen]
            if dedupes_now:
                why.append(_WHY_NOT_AGAIN[checks])
            if asked is not None and asked.found is Found.DIFFERS:
                why = []
            draft = Draft(Kind.AMBIGUOUS, at, {"detail": " ".join(filter(None, (*why, detail))), **extra})
        written: History | None = yield Append(history, (draft,))
        if written is None:
            history = yield Load(history.effect_id)
            continue
        return outcome_from(written, fold(written), target, changes=changes_of(judgement))


def _wait_for_sender(
    history: History, state: State, patience: Patience, detail: str
) -> Generator[Step, Any, Outcome | None]:
    """A pause, since a sender of this decision is alive; the outcome where this call waits no longer."""
    pause = patience.next_poll_s()
    if pause is None:
        return waiting(history, state, Reason.SENDER_ALIVE, detail=detail)
    yield Wait(max(pause, SHORTEST_PAUSE_S))
    return None


class _Asked(NamedTuple):
    """What a look-up amounts to: `trusted_in_s` was settled before asking, since an answer is only as good as the moment it was asked.

    `asked_at_s` is that moment on the clock that nobody sets.

    `failed` says why nothing is known, or in what the thing that was found is not what was asked for.
    """

    found: Found
    evidence: Any
    failed: str
    trusted_in_s: float
    watch: WatchFor | None = None
    asked_at_s: float = 0.0


def _ask(
    history: History,
    sighting: Sighting,
    target: Target,
    capabilities: Capabilities,
    clock: Clock,
    request: Request,
    earlier: list[Request],
    *,
    unseen: str,
) -> Generator[Step, Any, _Asked]:
    trusted_in_s: float = yield from _unsettled_s(history, sighting, capabilities, clock)
    if 0 < trusted_in_s <= SHORT_PAUSE_S:
        # It is asked once, when an absence can be believed: that is sooner than a second question.
        yield Wait(max(trusted_in_s + ROUNDING_S, SHORTEST_PAUSE_S))
        trusted_in_s = yield from _unsettled_s(history, sighting, capabilities, clock)
    asked_at_s = clock.uptime().seconds
    seen: Seen = yield LookUp(request.payload, request.key)
    if seen.found:
        return _asked_of(seen)
    for before in earlier:
        if seen.failed:
            break
        seen = yield LookUp(before.payload, before.key)
        if seen.found:
            differs = _EARLIER_LANDED if is_other(before.proposed, request.digest, request.payload, target) else ""
            return _asked_of(seen._replace(differs=seen.differs or differs))
    if seen.failed:
        found = Found.FAILED
    elif trusted_in_s > 0:
        found = Found.NOT_YET
    else:
        found = Found.UNSEEN if unseen else Found.ABSENT
    return _Asked(found, seen.evidence, seen.failed, trusted_in_s, seen.watch, asked_at_s)


_EARLIER_LANDED = (
    "An earlier request of this effect, with other arguments, has landed since it was looked for and not found."
)


def _asked_of(seen: Seen) -> _Asked:
    """Of something that was found, whether a look-up was asked or the facts showed it."""
    return _Asked(Found.DIFFERS if seen.differs else Found.FOUND, seen.evidence, seen.differs, 0.0, seen.watch)


def _unsettled_s(
    history: History, sighting: Sighting, capabilities: Capabilities, clock: Clock
) -> Generator[Step, Any, float]:
    """Seconds until nothing of this decision can be on its way unseen: 0 or less when that is so now, infinity while a sender lives."""
    *earlier, last = dispatches(history)
    left_s = untrusted_s(last, sighting, capabilities, clock)
    for entry in earlier:
        # A resend at tier 1 does not wait for what came before it, so what is known of the last sender says nothing of them.
        before: Sighting = yield Probe(entry.by, entry.effect_id, entry.n)
        alive = before.liveness is Liveness.ALIVE
        left_s = math.inf if alive else max(left_s, untrusted_s(entry, before, capabilities, clock))
    return left_s


def permission_record(allowed: bool | Permission) -> dict[str, Any]:
    """The answer of whoever was asked for permission, for the record: with the approval, and why not, where that was said."""
    if not isinstance(allowed, Permission):
        return {"allowed": allowed}
    said = {"approval": allowed.approval, "why": allowed.why}
    return {"allowed": allowed.allowed, **{name: storable(text) for name, text in said.items() if text}}


def _reserved_anew(history: History, shared: tuple[Budget, ...]) -> list[dict[str, Any]] | None:
    """What a resend reserves under the permission that it goes by, in place of what the effect holds; None if that is the same.

    What `budget=` named stays; what the approvals so far gave is given back.
    """
    decided = 0
    approvals: set[str] = set()
    standing: list[dict[str, Any]] = []
    for n, entry in enumerate(history.entries):
        if entry.kind is Kind.PROPOSED:
            decided = n
    for entry in history.entries[decided:]:
        approval = _approval_of(entry)
        if approval:
            approvals.add(cap_of(approval))
        if entry.kind is Kind.DISPATCHED:
            standing = entry.data.get("budget", standing)
    caps = [budget.to_json() for budget in shared]
    given = {cap["key"] for cap in caps} | approvals
    caps += [cap for cap in standing if cap["key"] not in given]
    return None if caps == standing else caps


def _approval_of(entry: Entry) -> str:
    """The approval that an entry says was asked for permission."""
    checked: Mapping[str, Any] = entry.data.get("recheck", {}) if entry.kind is Kind.DISPATCHED else entry.data
    return str(checked.get("approval", "")) if entry.kind in (Kind.AUTHORIZED, Kind.DISPATCHED) else ""


def _recheck(
    state: State, target: Target, payload: Mapping[str, Any], key: str
) -> Generator[Step, Any, tuple[Checks, dict[str, Any], Judgement | None, Seen | None, tuple[Budget, ...] | None]]:
    """Permission, then premises, as they are now; the effect itself, if they showed it; and what the permission reserves, if it says so."""
    seen = state.proposed.get("seen")
    own: Seen | None = None
    try:
        allowed: bool | Permission = (yield Authorize(payload, key)) if target.has_authority else True
        record: dict[str, Any] = permission_record(allowed)
        judgement: Judgement | None = None
        if target.has_premises:
            now = yield ReadFacts(payload, key)
            own = getattr(now, "own", None)
            # Without facts on the record there were no premises yet: what is asked of the present alone counts, as in a new call.
            judgement = judge(target.conditions(payload), now if seen is None else seen, now)
            record["premises"] = judgement.verdicts
    except (CallbackFailed, BadInput) as error:
        return Checks.UNREADABLE, {"unreadable": words_of(error)}, None, own, None
    shared = allowed.budgets if isinstance(allowed, Permission) else None
    if not allowed:
        return Checks.LEASE, record, judgement, own, shared
    if judgement is not None and not judgement.holds:
        return Checks.STALE, record, judgement, own, shared
    return Checks.HOLD, record, judgement, own, shared
