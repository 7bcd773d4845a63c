"""The refund as a careful engineer writes it: look for our own first, then permission and facts, then send under a stable key.

The queue hands a case out again when its worker died, so this runs again from the top: that is its recovery. `python -m benchmarks lines`
counts the marked region.
"""

from __future__ import annotations

import stripe
from desk import Case, Desk


def refund_case(client: stripe.StripeClient, desk: Desk, case: Case, *, amount: int) -> str:
    """Refund it once; says what became of it."""
    # region: hand check
    key = f"refund-{case.order}"
    page = client.v1.refunds.list({"payment_intent": case.payment_intent, "limit": 100})
    refunds = list(page.auto_paging_iter())
    if own := [refund for refund in refunds if refund.metadata and refund.metadata.to_dict().get("key") == key]:
        return "sent" if own[0].amount == amount else "refused: another amount was sent for this case"
    approval = desk.approval(case.order)
    if approval is None or approval["revoked"] or amount > approval["amount_minor"]:
        return "refused: not approved"
    payment = client.v1.payment_intents.retrieve(case.payment_intent, {"expand": ["latest_charge"]})
    charge = payment.latest_charge
    if not isinstance(charge, stripe.Charge) or not charge.captured or charge.disputed:
        return "refused: the payment cannot be refunded"
    standing = [refund for refund in refunds if refund.status not in ("failed", "canceled")]
    if sum(refund.amount for refund in standing if refund.id not in case.seen) >= amount:
        return "refused: refunded by others meanwhile"
    if charge.amount_captured - sum(refund.amount for refund in standing) < amount:
        return "refused: not enough is left"
    try:
        client.v1.refunds.create(
            {"payment_intent": case.payment_intent, "amount": amount, "metadata": {"key": key}},
            {"idempotency_key": key, "max_network_retries": 0},
        )
    except (stripe.CardError, stripe.InvalidRequestError) as error:
        return f"refused: {error.user_message}"
    return "sent"
    # endregion
