"""Disputes and inquiries: docs.stripe.com/api/disputes and docs.stripe.com/disputes/how-disputes-work.

Owns a dispute's life, and the money that it takes and gives back:

    inquiry:     warning_needs_response -> warning_under_review -> warning_closed     no money moves; still refundable
                        '--- escalates ---.         |
    chargeback:         needs_response <------------'            amount and fee withdrawn; refunds are refused
                        needs_response -> under_review -> won (reinstated) | lost
"""

from __future__ import annotations

from benchmarks.services.stripe import balance_transactions, events, later, refunds
from benchmarks.services.stripe.endpoint import PAGING, Call, Endpoint, updated_metadata
from benchmarks.services.stripe.errors import refused
from benchmarks.services.stripe.evidence import EVIDENCE, FIELDS
from benchmarks.services.stripe.ledger import Json
from benchmarks.services.stripe.objects import new_id
from benchmarks.services.stripe.params import Parameters, flag, metadata, text, texts

REASONS = (
    "bank_cannot_process",
    "credit_not_processed",
    "customer_initiated",
    "duplicate",
    "fraudulent",
    "general",
    "noncompliant",
    "product_not_received",
    "product_unacceptable",
    "subscription_canceled",
    "unrecognized",
)
_NETWORK_CODES = {
    "fraudulent": "10.4",
    "product_not_received": "13.1",
    "duplicate": "12.6.1",
    "credit_not_processed": "13.6",
}

FEE_MINOR = 1500
"""What a dispute costs in the United States, in cents (stripe.com/pricing); in other currencies none is modelled."""

ANSWER_WITHIN_S = 9 * 24 * 60 * 60
"""How long evidence is awaited; networks give 7 to 21 days (docs.stripe.com/disputes/responding)."""

INQUIRY_S = 120 * 24 * 60 * 60
"""After which an inquiry that was not escalated is closed (docs.stripe.com/disputes/how-disputes-work)."""

INQUIRY_OPEN = ("warning_needs_response", "warning_under_review")
CHARGEBACK_OPEN = ("needs_response", "under_review")
CLOSED = ("won", "lost", "warning_closed")


def open_dispute(
    call: Call,
    charge_id: str,
    *,
    reason: str = "fraudulent",
    is_inquiry: bool = False,
    amount: int | None = None,
    fails_refunds: bool = False,
) -> Json:
    """The holder of the card disputes a charge: by a chargeback, or first by an inquiry.

    Refunds that are pending fail when the chargeback posts. Those that succeeded stand beside it, so that more may leave
    than was paid, unless `fails_refunds` sends them back too.

    Args:
        call: Who does it; inside its transaction.
        charge_id: Of which charge.
        reason: One of `REASONS`.
        is_inquiry: True for an inquiry.
        amount: What is disputed, in minor units; None: all that was captured, as networks mostly do.
        fails_refunds: True if refunds that succeeded fail as well: the bank had not yet booked them.

    Raises:
        ApiError: No such charge, nothing to dispute, or an open dispute.
    """
    if reason not in REASONS:
        raise refused(f"A dispute's reason is one of {', '.join(REASONS)}, not {reason}.")
    charged = call.find("charges", charge_id, param="charge")
    if not charged["captured"]:
        raise refused(f"Charge {charge_id} took no money, so there is nothing to dispute.")
    if any(one["status"] not in CLOSED for one in _of(call, charge_id)):
        raise refused(f"Charge {charge_id} has an open dispute already; escalate or close that one.")
    disputed = charged["amount_captured"] if amount is None else amount
    if not 0 < disputed <= charged["amount_captured"]:
        raise refused(f"A dispute on {charge_id} can be over 1 to {charged['amount_captured']}, not {disputed}.")
    _require_takable(call, charged, fails_refunds=fails_refunds)
    made = _dispute(call, charged, reason=reason, amount=disputed, is_inquiry=is_inquiry)
    call.ledger.add("disputes", made)
    later.plan(call, "dispute_runs_out", made["id"], after_s=INQUIRY_S if is_inquiry else ANSWER_WITHIN_S)
    charged["disputed"] = True
    call.ledger.replace("charges", charged)
    events.record(call, "charge.dispute.created", made)
    if not is_inquiry:
        _post(call, made, fails_refunds=fails_refunds)
    return made


def escalate(call: Call, dispute_id: str, *, fails_refunds: bool = False) -> Json:
    """An inquiry becomes a chargeback: the money is withdrawn, and refunds are refused from now on.

    Raises:
        ApiError: It is no open inquiry, or the charge was refunded in full meanwhile, which a chargeback cannot follow.
    """
    made = call.find("disputes", dispute_id, param="dispute")
    if made["status"] not in INQUIRY_OPEN:
        raise refused(f"The dispute {dispute_id} is {made['status']}; only an open inquiry can be escalated.")
    _require_takable(call, call.find("charges", made["charge"], param="charge"), fails_refunds=fails_refunds)
    before = dict(made)
    made.update(
        status="needs_response",
        payment_method_details=_details(made["payment_method_details"]["card"], "chargeback"),
        evidence_details={
            **made["evidence_details"],
            "due_by": call.clock.stamp() + ANSWER_WITHIN_S,
            "past_due": False,
        },
    )
    call.ledger.replace("disputes", made)
    later.plan(call, "dispute_runs_out", made["id"], after_s=ANSWER_WITHIN_S)
    _post(call, made, fails_refunds=fails_refunds, before=before)
    return made


def close_dispute(call: Call, dispute_id: str, outcome: str) -> Json:
    """The bank decides: `won` or `lost` for a chargeback, `warning_closed` for an inquiry.

    Raises:
        ApiError: The outcome does not fit what it is.
    """
    made = call.find("disputes", dispute_id, param="dispute")
    fits = {"warning_closed": INQUIRY_OPEN, "won": CHARGEBACK_OPEN, "lost": CHARGEBACK_OPEN}.get(outcome, ())
    if made["status"] not in fits:
        raise refused(f"The dispute {dispute_id} is {made['status']}; it cannot be closed as {outcome!r}.")
    made["status"] = outcome
    if outcome == "won":
        _move(call, made, made["amount"], -_fee(made), "dispute_reversal", "Chargeback reversal")
    call.ledger.replace("disputes", made)
    if outcome == "won":
        events.record(call, "charge.dispute.funds_reinstated", made)
    events.record(call, "charge.dispute.closed", made)
    return made


def runs_out(call: Call, dispute_id: str) -> None:
    """Nobody answered in time: a chargeback is lost; an inquiry that nobody escalated in 120 days is closed."""
    made = call.find("disputes", dispute_id, param="dispute")
    now = call.clock.stamp()
    if made["status"] in INQUIRY_OPEN and now >= made["created"] + INQUIRY_S:
        close_dispute(call, dispute_id, "warning_closed")
    elif made["status"] == "needs_response" and now >= made["evidence_details"]["due_by"]:
        made["evidence_details"] = {**made["evidence_details"], "past_due": True}
        call.ledger.replace("disputes", made)
        close_dispute(call, dispute_id, "lost")


def _post(call: Call, made: Json, *, fails_refunds: bool, before: Json | None = None) -> None:
    """The chargeback posts: money out, refunds under way back in."""
    made["is_charge_refundable"] = False
    _move(call, made, -made["amount"], _fee(made), "dispute", "Chargeback withdrawal")
    call.ledger.replace("disputes", made)
    if before is not None:
        events.record(call, "charge.dispute.updated", made, previous=events.changed(before, made))
    events.record(call, "charge.dispute.funds_withdrawn", made)
    refunds.charged_back(call, made["charge"], is_all=fails_refunds)


def _move(call: Call, made: Json, amount: int, fee: int, category: str, words: str) -> None:
    entered = balance_transactions.enter(
        call, "adjustment", amount, {**made, "description": words}, fee=fee, fee_words="Dispute fee", category=category
    )
    made["balance_transactions"] = [*made["balance_transactions"], call.ledger.find("balance_transactions", entered)]


def _require_takable(call: Call, charged: Json, *, fails_refunds: bool) -> None:
    """No dispute takes what has gone back already (docs.stripe.com/refunds: a charge refunded in full cannot be disputed)."""
    found, _ = call.ledger.page("refunds", equal={"charge": charged["id"]}, created={}, limit=1000)
    returned = sum(one["amount"] for one in found if one["status"] == "succeeded")
    if returned == charged["amount_captured"] and not fails_refunds:
        raise refused(
            f"Charge {charged['id']} is refunded in full, and a charge refunded in full cannot be charged back. For a bank that "
            "had not booked the refund yet, ask with fails_refunds."
        )


def _dispute(call: Call, charged: Json, *, reason: str, amount: int, is_inquiry: bool) -> Json:
    card = charged["payment_method_details"]["card"]
    case = {"brand": card["brand"], "network": card["network"], "network_reason_code": _NETWORK_CODES.get(reason, "83")}
    return {
        "id": new_id("du"),
        "object": "dispute",
        "amount": amount,
        "balance_transactions": [],
        "charge": charged["id"],
        "created": call.clock.stamp(),
        "currency": charged["currency"],
        "enhanced_eligibility_types": [],
        "evidence": {**dict.fromkeys(FIELDS), "enhanced_evidence": {}},
        "evidence_details": {
            "due_by": call.clock.stamp() + ANSWER_WITHIN_S,
            "enhanced_eligibility": {},
            "has_evidence": False,
            "past_due": False,
            "submission_count": 0,
        },
        "is_charge_refundable": True,
        "livemode": False,
        "metadata": {},
        "payment_intent": charged["payment_intent"],
        "payment_method_details": _details(case, "inquiry" if is_inquiry else "chargeback"),
        "reason": reason,
        "status": "warning_needs_response" if is_inquiry else "needs_response",
    }


def _details(card: Json, case: str) -> Json:
    return {"card": {**card, "case_type": case}, "type": "card"}


def _fee(made: Json) -> int:
    return FEE_MINOR if made["currency"] == "usd" else 0


def _of(call: Call, charge: str) -> list[Json]:
    return call.ledger.page("disputes", equal={"charge": charge}, created={}, limit=100)[0]


def _update(call: Call) -> Json:
    made, params = call.find("disputes", call.identifier, param="dispute"), call.params
    before = dict(made)
    made["metadata"] = updated_metadata(made["metadata"], params.get("metadata"))
    given = params.get("evidence")
    if given is not None or "submit" in params:
        if made["status"] in CLOSED or made["status"] in ("under_review", "warning_under_review"):
            raise refused(
                f"This dispute is {made['status']}: evidence can no longer be submitted for it.", param="evidence"
            )
        made["evidence"] = {**made["evidence"], **{name: value or None for name, value in (given or {}).items()}}
        has_evidence = any(made["evidence"][name] for name in FIELDS)
        made["evidence_details"] = {**made["evidence_details"], "has_evidence": has_evidence}
        if params.get("submit", True):
            return call.shown(_submitted(call, made, before))
    call.ledger.replace("disputes", made)
    events.record(call, "charge.dispute.updated", made, previous=events.changed(before, made))
    return call.shown(made)


def _submitted(call: Call, made: Json, before: Json) -> Json:
    """To the bank; the testing page's words in `uncategorized_text` decide at once (docs.stripe.com/testing)."""
    count = made["evidence_details"]["submission_count"] + 1
    made["evidence_details"] = {**made["evidence_details"], "submission_count": count}
    is_inquiry = made["status"] in INQUIRY_OPEN
    made["status"] = "warning_under_review" if is_inquiry else "under_review"
    call.ledger.replace("disputes", made)
    events.record(call, "charge.dispute.updated", made, previous=events.changed(before, made))
    word = made["evidence"]["uncategorized_text"]
    if is_inquiry and word == "escalate_inquiry_evidence":
        return escalate(call, made["id"])
    if word in ("winning_evidence", "losing_evidence"):
        outcome = "warning_closed" if is_inquiry else {"winning_evidence": "won", "losing_evidence": "lost"}[word]
        return close_dispute(call, made["id"], outcome)
    return made


def _close(call: Call) -> Json:
    made = call.find("disputes", call.identifier, param="dispute")
    if made["status"] != "needs_response":
        raise refused(f"This dispute is {made['status']}; only one that needs a response can be closed as lost.")
    return call.shown(close_dispute(call, made["id"], "lost"))


_SHOWN = Parameters(takes={"expand": texts})

ENDPOINTS = (
    Endpoint("POST", "/v1/disputes/{id}/close", _SHOWN, _close),
    Endpoint(
        "POST",
        "/v1/disputes/{id}",
        Parameters(
            takes={"evidence": EVIDENCE, "metadata": metadata, "submit": flag, "expand": texts},
            unmodelled=frozenset({"intended_submission_method"}),
        ),
        _update,
    ),
    Endpoint(
        "GET",
        "/v1/disputes/{id}",
        _SHOWN,
        lambda call: call.shown(call.find("disputes", call.identifier, param="dispute")),
    ),
    Endpoint(
        "GET",
        "/v1/disputes",
        Parameters(takes={**PAGING, "charge": text, "payment_intent": text}),
        lambda call: call.listed("disputes", "charge", "payment_intent"),
    ),
)
