"""What became of a refund, a payout, a transfer or a payment that Stripe accepted: read again, and made into a `Settlement`.

    refund     pending, requires_action              pending       (docs.stripe.com/refunds)
               succeeded                             settled; a bank may still send it back, which makes it `failed` later
               failed, canceled                      reversed, with Stripe's failure_reason
               a dispute of the charge that is open  at_risk       (docs.stripe.com/disputes/how-disputes-work)
               a dispute that was lost               at_risk, for good: the refund stood and the customer has the money twice
               an inquiry (warning_...)              at_risk; nothing was debited yet, and a full refund resolves it
               won, warning_closed, prevented        as if it had not been
    payout     pending, in_transit                   pending       (docs.stripe.com/api/payouts/object)
               paid                                  settled; some that fail show `paid` first, and turn to `failed` within days
               failed, canceled, sent back           reversed, with the failure code
    transfer   reversed in full                      reversed      (docs.stripe.com/api/transfers/object)
               reversed in part                      at_risk
               otherwise                             settled: it lands at once
    payment    processing and before                 pending       (docs.stripe.com/api/payment_intents/object)
    (intent)   succeeded                             settled
               canceled                              reversed
               a dispute                             at_risk while it is open, reversed once it was lost

A lost dispute reverses a payment: the money was taken back. It does not reverse a refund: that was paid out, and the chargeback came on
top of it. $20 refunded and $100 charged back is $120 out on a payment of $100, which nobody at Stripe puts right by itself. So that is
AT_RISK, and the reason names the sum; it is for a person. Sums leave Stripe's dispute fee out.

A dispute is debited when it is opened, not when it is lost (docs.stripe.com/disputes/how-disputes-work), so the sum is out from then on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import stripe

from interlock.errors import BadInput
from interlock.settlement import Settlement
from interlock.targets.stripe._connection import Call, Calls, Connection, as_dict, listed, path_of

DISPUTES_AT_MOST = 1_000
"""How many disputes of one charge are read before it cannot be told how it stands."""
TIMEOUT_S = 30.0
OPEN = frozenset({"needs_response", "under_review"})
INQUIRY = frozenset({"warning_needs_response", "warning_under_review"})
OVER = frozenset({"won", "warning_closed", "prevented", "charge_refunded"})


def stripe_settlement(client: stripe.StripeClient, value: Any) -> Settlement:
    """What became of an object of Stripe's, for `settlement=lambda value: ...` of a function of your own.

    The ready-made targets read it by themselves.

    Args:
        client: the one that can see the object. It is not changed; one attempt is made for each request, within 30 seconds each.
        value: the refund, payout, transfer or payment intent as it came back: the object, its fields, or its id.

    Raises:
        BadInput: it is none of these.
        stripe.StripeError: it could not be read.
    """
    connection = Connection(client, effect="settlement", timeout_s=TIMEOUT_S, asynchronous=False)
    return connection.run(settlement_calls(value))


def settlement_calls(value: Any) -> Calls[Settlement]:
    """The requests that tell what became of an object, and what they come to."""
    name = _name_of(value)
    if name.startswith(("re_", "pyr_")):
        return _refund(name)
    if name.startswith("po_"):
        return _payout(name)
    if name.startswith("tr_"):
        return _transfer(name)
    if name.startswith("pi_"):
        return _payment(name)
    raise BadInput(f"what became of {name!r} cannot be read: it is no refund, payout, transfer or payment intent.")


def stripe_references(value: Any) -> list[str]:
    """The ids in a Stripe object under which events speak of it: its own, its charge's, its payment intent's and so on."""
    fields = value if isinstance(value, Mapping) else getattr(value, "model_dump", getattr(value, "to_dict", dict))()
    return ids_in(fields)


REFERRING = (
    "id",
    "charge",
    "payment_intent",
    "refund",
    "dispute",
    "payout",
    "transfer",
    "latest_charge",
    "source_transaction",
    "destination_payment",
)
"""The fields in which Stripe's objects name one another (docs.stripe.com/api), those that our effects make or touch."""


def ids_in(fields: Mapping[str, Any]) -> list[str]:
    """The ids that the fields of an object name, each once; an expanded object counts by its own id."""
    found: list[str] = []
    for field in REFERRING:
        named = fields.get(field)
        if isinstance(named, Mapping):
            named = named.get("id")
        if isinstance(named, str) and named:
            found.append(named)
    return list(dict.fromkeys(found))


def _refund(name: str) -> Calls[Settlement]:
    refund = as_dict((yield Call(path_of("/v1/refunds", name))))
    status = refund.get("status")
    if status in ("failed", "canceled"):
        return Settlement("reversed", refund, str(refund.get("failure_reason") or status))
    of = {field: refund[field] for field in ("charge", "payment_intent") if refund.get(field)}
    disputes = yield from _disputes({"charge": of["charge"]} if "charge" in of else of)
    counting = [dispute for dispute in disputes if dispute["status"] not in OVER]
    if counting:
        charge = None
        if "charge" in of:
            charge = as_dict((yield Call(path_of("/v1/charges", of["charge"]))))
        return _disputed(refund, counting, charge)
    if status == "succeeded":
        return Settlement("settled", refund)
    if status in ("pending", "requires_action"):
        return Settlement("pending", refund, str(refund.get("pending_reason") or status))
    raise BadInput(
        f"refund {name} has the status {status!r}, which this version does not know; see docs.stripe.com/refunds."
    )


def _disputed(
    refund: Mapping[str, Any], disputes: Sequence[Mapping[str, Any]], charge: Mapping[str, Any] | None
) -> Settlement:
    """A refund of a charge that was disputed, worst first."""
    debited = [dispute for dispute in disputes if dispute["status"] not in INQUIRY]
    evidence: dict[str, Any] = {
        "refund": {field: refund.get(field) for field in ("id", "amount", "currency", "status", "charge")},
        "disputes": [
            {field: dispute.get(field) for field in ("id", "amount", "currency", "status", "reason")}
            for dispute in disputes
        ],
    }
    if not debited:
        return Settlement("at_risk", evidence, "inquiry_open")
    what = "dispute_lost" if any(dispute["status"] == "lost" for dispute in debited) else "dispute_open"
    if charge is None:
        return Settlement("at_risk", evidence, what)
    evidence["charge"] = {field: charge.get(field) for field in ("id", "amount", "amount_refunded", "currency")}
    if any(dispute["currency"] != charge["currency"] for dispute in debited):
        # docs.stripe.com/api/disputes/object: the amount is in the dispute's own currency, and amounts of two are not added up.
        return Settlement("at_risk", evidence, f"{what}: in another currency than the payment")
    paid = charge["amount_captured"] if charge.get("amount_captured") is not None else charge["amount"]
    out = charge["amount_refunded"] + sum(dispute["amount"] for dispute in debited)
    evidence["out_minor"], evidence["paid_minor"] = out, paid
    return Settlement("at_risk", evidence, f"{what}: {out} {charge['currency']} out on a payment of {paid}")


def _payout(name: str) -> Calls[Settlement]:
    payout = as_dict((yield Call(path_of("/v1/payouts", name))))
    status = payout.get("status")
    if status in ("failed", "canceled"):
        return Settlement("reversed", payout, str(payout.get("failure_code") or status))
    if payout.get("reversed_by"):
        return Settlement("reversed", payout, "reversed")
    if status == "paid":
        return Settlement("settled", payout)
    if status in ("pending", "in_transit"):
        return Settlement("pending", payout)
    raise BadInput(
        f"payout {name} has the status {status!r}, which this version does not know; see docs.stripe.com/api/payouts."
    )


def _transfer(name: str) -> Calls[Settlement]:
    transfer = as_dict((yield Call(path_of("/v1/transfers", name))))
    back, amount, currency = transfer.get("amount_reversed") or 0, transfer["amount"], transfer["currency"]
    if transfer.get("reversed") or back >= amount:
        return Settlement("reversed", transfer, "reversed")
    if back:
        return Settlement("at_risk", transfer, f"partly_reversed: {back} of {amount} {currency}")
    return Settlement("settled", transfer)


def _payment(name: str) -> Calls[Settlement]:
    payment = as_dict((yield Call(path_of("/v1/payment_intents", name))))
    status = payment.get("status")
    if status == "canceled":
        return Settlement("reversed", payment, str(payment.get("cancellation_reason") or status))
    if status != "succeeded":
        return Settlement("pending", payment, str(status))
    disputes = yield from _disputes({"payment_intent": name})
    statuses = {str(dispute["status"]) for dispute in disputes} - OVER
    evidence = {"payment_intent": payment, "disputes": disputes}
    if "lost" in statuses:
        return Settlement("reversed", evidence, "dispute_lost")
    if statuses & OPEN:
        return Settlement("at_risk", evidence, "dispute_open")
    if statuses:
        return Settlement("at_risk", evidence, "inquiry_open")
    return Settlement("settled", payment)


def _disputes(of: Mapping[str, Any]) -> Calls[list[dict[str, Any]]]:
    if not of:
        return []
    return (yield from listed("/v1/disputes", of, at_most=DISPUTES_AT_MOST))


def _name_of(value: Any) -> str:
    named = (
        value
        if isinstance(value, str)
        else value.get("id")
        if isinstance(value, Mapping)
        else getattr(value, "id", None)
    )
    if not isinstance(named, str) or not named:
        raise BadInput(f"what became of {value!r:.100} cannot be read: it names no Stripe object.")
    return named
