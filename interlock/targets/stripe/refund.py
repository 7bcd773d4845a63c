"""`stripe_refund`: a refund of a payment, once, while it is approved and nobody else has made it.

Facts that are read before the send and again after a crash (docs.stripe.com/refunds, docs.stripe.com/disputes/how-disputes-work):

    charge_status, captured   there is a payment to refund
    disputes                  no chargeback; an inquiry (`warning_...`) does not stand in the way, since a refund answers it
    currency                  as the caller expects, if that was said
    left                      not refunded yet by others, in the smallest unit; enough for this refund
    others                    the refunds that others made, without our own; `duplicates=` judges what came since the decision

Our own refund is left out of `left` and `others` by its metadata, so that it never stands in its own way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import stripe

from interlock.effects import Facts, Own, Proposal
from interlock.errors import BadInput
from interlock.outcomes import Outcome
from interlock.rules.premises import equals, matches, unchanged
from interlock.targets.stripe._connection import Call, Calls, as_dict, listed, path_of
from interlock.targets.stripe._decision import came_later
from interlock.targets.stripe._duplicate import Duplicates, rule_of, shown_of
from interlock.targets.stripe._effect import AT_MOST, A, Common, Parts, StripeEffect, common_of
from interlock.targets.stripe._error import is_missing
from interlock.targets.stripe._mark import is_ours, marked, own_of
from interlock.targets.stripe._money import checked_amount, checked_currency, fits_currency
from interlock.targets.stripe._plan import Moved, Plan
from interlock.targets.stripe.settlement import ids_in, settlement_calls

if TYPE_CHECKING:
    from interlock.decorator import Interlock
    from interlock.targets.stripe._effect import Decider, Options

Reason = Literal["duplicate", "fraudulent", "requested_by_customer"]
REASONS = ("duplicate", "fraudulent", "requested_by_customer")
FIELDS = ("payment_intent", "charge", "payment")
UNDONE = frozenset({"failed", "canceled"})
"""docs.stripe.com/refunds: a refund in one of these states moved nothing in the end."""


class StripeRefund(StripeEffect[A]):
    """A gated refund: `refund(case, amount=2000)`."""

    def __init__(
        self, gate: Interlock, client: Any, plan: Plan, common: Common, *, payment: Any, currency: str | None
    ) -> None:
        super().__init__(gate, client, plan, common)
        self._payment = None if payment is None else self._callback(payment, "payment", may_wait=False)
        self._currency = currency

    def __call__(
        self,
        case: Any,
        *,
        amount: int,
        reason: Reason | None = None,
        metadata: Mapping[str, str] | None = None,
        **decider: Unpack[Decider],
    ) -> A:
        """Refund it once.

        Args:
            case: what it is about; `key=` and the other callbacks get it.
            amount: in the currency's smallest unit: 2000 for $20.00.
            reason: Stripe's word for why. May differ between tries; what was recorded first is sent.
            metadata: further metadata of the refund.
            **decider: `decision=` names a decision that is taken now; by default it is the approval's, named by its id. `seen=` the
                facts as the decider saw them; by default as they are read now, or as they were at the approval's `at`. `wait=` seconds
                to wait while another live sender has it.

        Returns:
            An `Outcome`; of an asynchronous effect an awaitable of one.

        Raises:
            BadInput: an argument is not acceptable; nothing was sent.
            CallbackFailed: the facts or the approval could not be read; nothing was sent.

        **Durable when** this returns: what was sent and what came back, or why nothing was.
        **If the process dies** before that: `gate.recover()`, or the next call with the same key, settles it.
        """
        return self.submit_call(case, self._parts(case, amount=amount, reason=reason, metadata=metadata), decider)

    def proposal(
        self,
        case: Any,
        *,
        amount: int,
        reason: Reason | None = None,
        metadata: Mapping[str, str] | None = None,
        **decider: Unpack[Decider],
    ) -> Proposal:
        """Decide now, and make it into a `Proposal` for `gate.submit`; takes what a call takes."""
        return self.propose_call(case, self._parts(case, amount=amount, reason=reason, metadata=metadata), decider)

    def _parts(self, case: Any, *, amount: Any, reason: Any = None, metadata: Any = None) -> Parts:
        if reason is not None and reason not in REASONS:
            raise BadInput(
                f"effect {self.name!r}: reason= is {reason!r}; Stripe knows {', '.join(REASONS)}. Nothing was sent."
            )
        payment = self.named_by(self._payment, case, FIELDS)
        if not isinstance(payment, str) or not payment.startswith(("pi_", "ch_", "py_")):
            raise BadInput(
                f"effect {self.name!r}: no payment is named ({payment!r}). Give the case a field payment_intent or charge, or say "
                "where it is: payment=lambda case: case.paid_with. Nothing was sent."
            )
        return Parts(
            payment,
            checked_amount(amount, currency=self._currency),
            self._currency,
            notes={} if reason is None else {"reason": reason},
            metadata=metadata,
        )


@overload
def stripe_refund(
    gate: Interlock,
    client: stripe.StripeClient,
    *,
    key: Callable[..., str],
    payment: Callable[..., str] | None = None,
    currency: str | None = None,
    duplicates: Duplicates = "by_amount",
    asynchronous: Literal[False] = False,
    **options: Unpack[Options],
) -> StripeRefund[Outcome]: ...
@overload
def stripe_refund(
    gate: Interlock,
    client: stripe.StripeClient,
    *,
    key: Callable[..., str],
    payment: Callable[..., str] | None = None,
    currency: str | None = None,
    duplicates: Duplicates = "by_amount",
    asynchronous: Literal[True],
    **options: Unpack[Options],
) -> StripeRefund[Awaitable[Outcome]]: ...
def stripe_refund(
    gate: Interlock,
    client: stripe.StripeClient,
    *,
    key: Callable[..., str],
    payment: Callable[..., str] | None = None,
    currency: str | None = None,
    duplicates: Duplicates = "by_amount",
    asynchronous: bool = False,
    **options: Unpack[Options],
) -> StripeRefund[Any]:
    """Refunds that are made once, while they are approved and nobody else has made them.

    Args:
        gate: the gate.
        client: a `stripe.StripeClient`. It is not changed: the target derives one of its own, with no retries and a deadline.
        key: names the approved request, e.g. `lambda case: f"refund:{case.order}"`.
        payment: names the `pi_...` or `ch_...`; by default the case's `payment_intent` or `charge`, or the case itself if it is a text.
        currency: the currency that the amounts are in. Another one at Stripe is refused.
        duplicates: which refunds by others, made since the decision, may be this very one made by hand. `"by_amount"`: any, once they
            come to this amount or more. `"strict"`: any at all. Or a function `(refund, amount) -> bool`, asked for each: True stops.
            docs/refund-premises.md shows when each is right and wrong.
        asynchronous: whether calls are awaited; then callbacks may be async, too.
        **options: `Options`: approval, premises, expect, budget, case, metadata, timeout, settle_after, wait, watch_for, name.

    Raises:
        ConfigurationError: something of this cannot be kept.
    """
    expected = None if currency is None else checked_currency(currency)
    plan = Plan(
        create=_create,
        find=_find,
        facts=_facts,
        expect={
            "charge_status": equals("succeeded"),
            "captured": equals(True),
            "disputes": matches(no_chargeback, why="no chargeback"),
            "currency": unchanged() if expected is None else equals(expected),
            "left": matches(is_enough, why="enough is left for this refund"),
            "amount_fits": equals(True),
            "others": rule_of(duplicates, options.get("name") or "stripe_refund"),
        },
        moves=_moves,
        settlement=lambda given, made: settlement_calls(made),
        references=ids_in,
    )
    return StripeRefund(
        gate, client, plan, common_of("stripe_refund", key, asynchronous, options), payment=payment, currency=expected
    )


def no_chargeback(disputes: list[str]) -> bool:
    """Whether no dispute has the money, or may get it. docs.stripe.com/disputes/how-disputes-work: a refund resolves an inquiry."""
    return all(status.startswith("warning_") or status in ("won", "prevented") for status in disputes)


def is_enough(left: int, amount: int) -> bool:
    """Whether the payment has enough left."""
    return left >= amount


def _create(given: Mapping[str, Any], key: str) -> Call:
    params = {**_of(given["subject"]), "amount": given["amount"], "metadata": marked(given["metadata"], key)}
    return Call("/v1/refunds", {**params, **given["notes"]}, key)


def _find(given: Mapping[str, Any], key: str) -> Calls[Own | None]:
    refunds = yield from _refunds(given["subject"])
    return own_of(refunds, key, given["amount"], given["currency"])


def _facts(given: Mapping[str, Any], key: str) -> Calls[Facts]:
    charge = yield from _charge(given["subject"])
    if charge is None:
        return Facts(
            {
                "charge_status": "no such payment",
                "captured": False,
                "disputes": [],
                "currency": "",
                "left": 0,
                "amount_fits": False,
                "others": [],
            }
        )
    shown = charge.get("refunds") or {"data": [], "has_more": bool(charge["id"])}
    refunds = shown["data"] if not shown["has_more"] else (yield from _refunds(given["subject"]))
    others = [refund for refund in refunds if not is_ours(refund, key) and refund.get("status") not in UNDONE]
    disputes: list[dict[str, Any]] = []
    if charge.get("disputed"):
        disputes = yield from listed("/v1/disputes", {"charge": charge["id"]}, at_most=AT_MOST)
    paid = charge.get("amount_captured")
    facts = {
        "charge_status": charge["status"],
        "captured": bool(charge["captured"]),
        "disputes": sorted(str(dispute["status"]) for dispute in disputes),
        "currency": charge["currency"],
        "left": (charge["amount"] if paid is None else paid) - sum(refund["amount"] for refund in others),
        "amount_fits": fits_currency(given["amount"], charge["currency"]),
        "others": [shown_of(refund) for refund in reversed(others)],
    }
    later = came_later(others, given)
    before = {
        "left": facts["left"] + sum(refund["amount"] for refund in later),
        "others": [shown_of(refund) for refund in reversed(others) if refund not in later],
    }
    return Facts(facts, own_of(refunds, key, given["amount"], given["currency"]), before if later else None)


def _moves(given: Mapping[str, Any], key: str) -> Calls[Moved]:
    charge = yield from _charge(given["subject"])
    return Moved(given["amount"], "" if charge is None else charge["currency"])


def _charge(subject: str) -> Calls[dict[str, Any] | None]:
    """The charge behind a payment, with its newest refunds; None if Stripe has no such payment, a stub if it was never charged.

    docs.stripe.com/api/charges/object: `refunds` is the list of them, newest first, with `has_more` once there are more than it shows.
    A payment that has refunds succeeded, and what succeeded is its last charge (docs.stripe.com/payments/paymentintents/lifecycle).
    """
    try:
        if not subject.startswith("pi_"):
            return as_dict((yield Call(path_of("/v1/charges", subject), {"expand": ["refunds"]})))
        asked = {"expand": ["latest_charge.refunds"]}
        intent = as_dict((yield Call(path_of("/v1/payment_intents", subject), asked)))
    except stripe.InvalidRequestError as error:
        if is_missing(error):
            return None
        raise
    charge = intent.get("latest_charge")
    if isinstance(charge, dict):
        return charge
    return {"id": "", "status": intent["status"], "captured": False, "currency": intent["currency"], "amount": 0}


def _refunds(subject: str) -> Calls[list[dict[str, Any]]]:
    return listed("/v1/refunds", _of(subject), at_most=AT_MOST)


def _of(subject: str) -> dict[str, str]:
    return {"payment_intent" if subject.startswith("pi_") else "charge": subject}
