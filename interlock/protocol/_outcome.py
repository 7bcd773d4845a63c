"""From a history to the outcome it stands for. Asks for nothing and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.effects import Entry, History, Kind, Proposal
from interlock.outcomes import STATUS_OF_VIA, Outcome, Reason, Status, Via
from interlock.ports import Target, Verdict
from interlock.rules.lifecycle import State, fold
from interlock.rules.premises import Judgement, same
from interlock.settlement import settlement_of

RETRY_AFTER_S = 1.0
"""What an unclear answer advises, in seconds."""


_NOTHING_ARRIVED = frozenset({str(Verdict.NOT_SENT), "absent"})
"""Verdicts of a FAILED entry after which the same request may well go through; the other one is the service's own no."""


def changes_of(judgement: Judgement | None) -> dict[str, Any]:
    """The premises that do not hold."""
    if judgement is None:
        return {}
    return {name: judgement.verdicts[name] for name in (*judgement.was_false, *judgement.changed)}


def outcome_for(status: Status, history: History, proposal: Proposal, **more: Any) -> Outcome:
    """An outcome of this very proposal."""
    return Outcome(status, proposal.effect, proposal.key, proposal.effect_id, history=history, **more)


BINDS_ALL = (
    "Every argument counts here; one that does not make it another request counts no more once binds names the others."
)
"""Advice on a conflict, for an effect whose author has not said which arguments count."""


def is_other(recorded: Mapping[str, Any], digest: str, payload: Mapping[str, Any], target: Target) -> bool:
    """Whether a request is another one than what was recorded: an argument that counts is not the same.

    Equal digests tell that it is not. Different ones tell less: each was taken over the arguments that counted when it was recorded, and
    `binds=` may have come, gone or changed since, and so may an argument with a default. What counts now decides.
    """
    return recorded["digest"] != digest and bool(_differences(recorded["payload"], payload, target))


def _differences(recorded: Mapping[str, Any], given: Mapping[str, Any], target: Target) -> dict[str, Any]:
    recorded = {**target.defaults(), **recorded}
    counting = [name for name in {**given, **recorded} if target.binds is None or name in target.binds]
    return {
        name: {
            "rule": "as recorded first",
            "seen": recorded.get(name),
            **({"now": given[name]} if name in given else {"missing_now": True}),
        }
        for name in counting
        if name not in recorded or name not in given or not same(recorded[name], given[name])
    }


def conflict(proposal: Proposal, history: History, target: Target) -> Outcome:
    """The refusal of a proposal whose arguments are not those that were recorded first."""
    changes = _differences(fold(history).proposed["payload"], proposal.payload, target)
    advice = BINDS_ALL if target.binds is None else ""
    return outcome_for(
        Status.REFUSED, history, proposal, reason=Reason.CONFLICTING_PAYLOAD, changes=changes, detail=advice
    )


def replay(history: History, state: State, target: Target) -> Outcome:
    """The recorded result of an effect that has landed before."""
    committed = _committed(history)
    return Outcome(
        Status.DUPLICATE_IGNORED,
        state.proposed["effect"],
        state.proposed["key"],
        history.effect_id,
        via=Via(committed.data["via"]),
        value=target.decode_value(committed.data["value"]),
        evidence=committed.data.get("evidence"),
        changes=changed_before_found(committed),
        since=_since(state),
        history=history,
        **settled_as(history),
    )


def changed_before_found(committed: Entry) -> dict[str, Any]:
    """The premises that no longer held when an effect was found to have landed: too late to refuse, and somebody must know."""
    judged: Mapping[str, Mapping[str, Any]] = committed.data.get("recheck", {}).get("premises", {})
    return {name: dict(verdict) for name, verdict in judged.items() if not verdict["holds"]}


def settled_as(history: History) -> dict[str, Any]:
    """What an outcome says of the settlement of a landed effect."""
    settlement, reason = settlement_of(history)
    return {"settlement": settlement, "detail": reason} if settlement else {}


def outcome_of(history: History, target: Target | None) -> Outcome:
    """The outcome that a history stands for, whether its function is known or not."""
    state = fold(history)
    if state.kind is Kind.DISPATCHED:
        return waiting(history, state, Reason.UNANSWERED)
    return outcome_from(history, state, target)


def _committed(history: History) -> Entry:
    entry: Entry
    for entry in reversed(history.entries):
        if entry.kind is Kind.COMMITTED:
            return entry
    raise ValueError(f"effect {history.effect_id} has not landed")


def _since(state: State) -> str:
    return state.dispatch.at if state.dispatch else ""


def waiting(
    history: History, state: State, reason: Reason, *, retry_after: float = RETRY_AFTER_S, detail: str = ""
) -> Outcome:
    """It stands open, for this reason."""
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


def outcome_from(
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
            changes=changed_before_found(committed),
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
    return waiting(history, state, Reason.RACE_LOST)
