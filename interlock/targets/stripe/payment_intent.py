"""`stripe_payment_intent`: a payment, created, confirmed, captured or canceled once (docs.stripe.com/payments/paymentintents/lifecycle).

    create    makes a new one, marked by metadata; with `params={"confirm": True, ...}` it is paid at once
    confirm   of one that waits for it; told apart by its state, since confirming takes no metadata
    capture   of one that is authorized (`requires_capture`), marked by metadata of its own, since the payment may carry the mark of
              the effect that made it; docs.stripe.com/payments/place-a-hold-on-a-payment-method
    cancel    of one that has not succeeded; told apart by its state, since canceling takes no metadata

Where the state alone tells, a look-up says that it was done, not by whom: a payment that a person canceled meanwhile is canceled.
A created payment that was declined is no payment: Stripe answers 402 (FAILED), and a look-up does not count it. One that was confirmed
and that somebody canceled afterwards did land, and is not made again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import stripe

from interlock.effects import Facts, Own, Proposal
from interlock.errors import BadInput, ConfigurationError
from interlock.outcomes import Outcome
from interlock.rules.premises import equals, matches, one_of, unchanged
from interlock.targets.stripe._connection import Call, Calls, as_dict, listed, path_of, require_past
from interlock.targets.stripe._effect import AT_MOST, A, Common, Parts, StripeEffect, common_of, refuse_own
from interlock.targets.stripe._error import is_missing
from interlock.targets.stripe._mark import CAPTURE_MARK, is_ours, marked, own_of
from interlock.targets.stripe._money import checked_amount, checked_currency
from interlock.targets.stripe._move import existing
from interlock.targets.stripe._plan import Moved, Plan
from interlock.targets.stripe.settlement import ids_in, settlement_calls

if TYPE_CHECKING:
    from interlock.decorator import Interlock
    from interlock.targets.stripe._effect import Decider, Options

Action = Literal["create", "confirm", "capture", "cancel"]
ACTIONS = ("create", "confirm", "capture", "cancel")
FIELDS = ("payment_intent", "payment")
PAYMENTS = "/v1/payment_intents"
OWN = frozenset({"amount", "currency", "metadata", "amount_to_capture"})
"""What a call says by its own arguments."""
CONFIRMED = frozenset({"succeeded", "processing", "requires_capture", "requires_action"})
"""docs.stripe.com/payments/paymentintents/lifecycle: where a confirmed payment can stand; a declined one requires_payment_method."""
WAITING = ("requires_payment_method", "requires_confirmation")
CANCELABLE = (*WAITING, "requires_action", "requires_capture", "processing")

Given = Mapping[str, Any]


class StripePaymentIntent(StripeEffect[A]):
    """A gated payment: `pay(case, amount=2000, currency="usd", params={...})`, `capture(case)`."""

    def __init__(
        self,
        gate: Interlock,
        client: Any,
        action: Action,
        common: Common,
        *,
        payment: Any,
        currency: str | None,
    ) -> None:
        self._action = action
        self._currency = None if currency is None else checked_currency(currency)
        super().__init__(gate, client, _PLANS[action], common)
        self._payment = None if payment is None else self._callback(payment, "payment", may_wait=False)

    def __call__(
        self,
        case: Any,
        *,
        amount: int | None = None,
        currency: str | None = None,
        params: Mapping[str, Any] | None = None,
        metadata: Mapping[str, str] | None = None,
        **decider: Unpack[Decider],
    ) -> A:
        """Do it once.

        Args:
            case: what it is about; `key=` and the other callbacks get it.
            amount: in the currency's smallest unit. Needed to create; for a capture the part that is taken, by default all of it.
            currency: three letters; needed to create unless it was declared.
            params: further parameters of Stripe's (`customer`, `payment_method`, `confirm`, ...), which make it this very request.
            metadata: further metadata, where Stripe takes any.
            **decider: `decision=`, `seen=`, `wait=`, as for a refund.

        Returns:
            An `Outcome`; of an asynchronous effect an awaitable of one.

        Raises:
            BadInput: an argument is not acceptable; nothing was sent.
            CallbackFailed: the facts or the approval could not be read; nothing was sent.

        **Durable when** this returns: what was sent and what came back, or why nothing was.
        **If the process dies** before that: `gate.recover()`, or the next call with the same key, settles it.
        """
        return self.submit_call(
            case, self._parts(case, amount=amount, currency=currency, params=params, metadata=metadata), decider
        )

    def proposal(
        self,
        case: Any,
        *,
        amount: int | None = None,
        currency: str | None = None,
        params: Mapping[str, Any] | None = None,
        metadata: Mapping[str, str] | None = None,
        **decider: Unpack[Decider],
    ) -> Proposal:
        """Decide now, and make it into a `Proposal` for `gate.submit`; takes what a call takes."""
        return self.propose_call(
            case, self._parts(case, amount=amount, currency=currency, params=params, metadata=metadata), decider
        )

    def _parts(
        self, case: Any, *, amount: Any = None, currency: Any = None, params: Any = None, metadata: Any = None
    ) -> Parts:
        code = checked_currency(currency) if currency is not None else self._currency
        refuse_own(params, OWN, self.name)
        if self._action == "create":
            if code is None:
                raise BadInput(f"effect {self.name!r}: no currency is named. Give currency='usd'. Nothing was sent.")
            return Parts(None, checked_amount(amount, currency=code), code, params=params, metadata=metadata)
        if amount is not None and self._action != "capture":
            raise BadInput(f"effect {self.name!r}: amount= is of no use to {self._action}. Nothing was sent.")
        if metadata and self._action != "capture":
            raise BadInput(f"effect {self.name!r}: Stripe takes no metadata to {self._action}. Nothing was sent.")
        payment = self.named_by(self._payment, case, FIELDS)
        if not isinstance(payment, str) or not payment.startswith("pi_"):
            raise BadInput(
                f"effect {self.name!r}: no payment is named ({payment!r}). Give the case a field payment_intent, or say where it is: "
                "payment=lambda case: case.paid_with. Nothing was sent."
            )
        checked = None if amount is None else checked_amount(amount, currency=code)
        return Parts(payment, checked, code, params=params, metadata=metadata)


@overload
def stripe_payment_intent(
    gate: Interlock,
    client: stripe.StripeClient,
    *,
    key: Callable[..., str],
    action: Action = "create",
    payment: Callable[..., str] | None = None,
    currency: str | None = None,
    asynchronous: Literal[False] = False,
    **options: Unpack[Options],
) -> StripePaymentIntent[Outcome]: ...
@overload
def stripe_payment_intent(
    gate: Interlock,
    client: stripe.StripeClient,
    *,
    key: Callable[..., str],
    action: Action = "create",
    payment: Callable[..., str] | None = None,
    currency: str | None = None,
    asynchronous: Literal[True],
    **options: Unpack[Options],
) -> StripePaymentIntent[Awaitable[Outcome]]: ...
def stripe_payment_intent(
    gate: Interlock,
    client: stripe.StripeClient,
    *,
    key: Callable[..., str],
    action: Action = "create",
    payment: Callable[..., str] | None = None,
    currency: str | None = None,
    asynchronous: bool = False,
    **options: Unpack[Options],
) -> StripePaymentIntent[Any]:
    """Payments that are created, confirmed, captured or canceled once.

    Args:
        gate: the gate.
        client: a `stripe.StripeClient`. It is not changed; see `stripe_refund`.
        key: names the approved request.
        action: what is done: `"create"`, `"confirm"`, `"capture"` or `"cancel"`; the effect's name says it, too.
        payment: names the `pi_...`, for all but create; by default the case's `payment_intent`, or the case itself if it is a text.
        currency: the currency of every call.
        asynchronous: whether calls are awaited.
        **options: `Options`: approval, premises, expect, budget, case, metadata, timeout, settle_after, wait, watch_for, name.

    Raises:
        ConfigurationError: something of this cannot be kept.
    """
    if action not in ACTIONS:
        raise ConfigurationError(f"stripe_payment_intent: action= is {action!r}; it is one of {', '.join(ACTIONS)}.")
    common = common_of(f"stripe_payment_intent_{action}", key, asynchronous, options)
    return StripePaymentIntent(gate, client, action, common, payment=payment, currency=currency)


def _create(given: Given, key: str) -> Call:
    params = {"amount": given["amount"], "currency": given["currency"], **given["params"]}
    return Call(PAYMENTS, {**params, "metadata": marked(given["metadata"], key)}, key)


def _find_created(given: Given, key: str) -> Calls[Own | None]:
    customer = given["params"].get("customer")
    narrowed = {"created": {"gte": given["since"]}, **({"customer": customer} if customer else {})}
    payments = yield from listed(PAYMENTS, narrowed, at_most=AT_MOST)
    if given["params"].get("confirm"):
        payments = [
            payment for payment in payments if _was_confirmed(payment)
        ]  # declined: it was made, and nothing was paid
    return own_of(payments, key, given["amount"], given["currency"])


def _was_confirmed(payment: Mapping[str, Any]) -> bool:
    """Whether it was confirmed. docs.stripe.com/api/payment_intents/object: the last error of one that was declined stays on it."""
    if payment["status"] == "canceled":
        return not payment.get("last_payment_error")
    return payment["status"] in CONFIRMED


def _customer(given: Given, key: str) -> Calls[Facts]:
    newest = yield Call(PAYMENTS, {"created": {"gte": given["since"]}, "limit": 1})
    require_past(newest, given["since"])
    customer = given["params"].get("customer")
    return Facts({"customer": (yield from existing(customer)) if customer else "none named"})


def _payment(given: Given) -> Calls[dict[str, Any] | None]:
    try:
        return as_dict((yield Call(path_of(PAYMENTS, given["subject"]))))
    except stripe.InvalidRequestError as error:
        if is_missing(error):
            return None
        raise


def _state(given: Given, key: str) -> Calls[Facts]:
    payment = yield from _payment(given)
    if payment is None:
        return Facts({"status": "no such payment", "currency": ""})
    return Facts({"status": payment["status"], "currency": payment["currency"]})


def _capturable(given: Given, key: str) -> Calls[Facts]:
    payment = yield from _payment(given)
    if payment is None:
        return Facts({"status": "no such payment", "currency": "", "capturable": 0})
    ours = is_ours(payment, key, mark=CAPTURE_MARK)  # what we captured is left out: it was capturable
    facts = {
        "status": "requires_capture" if ours else payment["status"],
        "currency": payment["currency"],
        "capturable": payment["amount"] if ours else payment["amount_capturable"],
    }
    return Facts(facts, _captured(payment, given, key))


def _verb(verb: str) -> Callable[[Given, str], Call]:
    def create(given: Given, key: str) -> Call:
        params = dict(given["params"])
        if verb == "capture":
            params["metadata"] = marked(given["metadata"], key, mark=CAPTURE_MARK)
            if given["amount"] is not None:
                params["amount_to_capture"] = given["amount"]
        return Call(path_of(PAYMENTS, given["subject"], verb), params, key)

    return create


def _find_confirmed(given: Given, key: str) -> Calls[Own | None]:
    payment = yield from _payment(given)
    if payment is None or not _was_confirmed(payment):
        return None
    # One that was canceled while it waited has no charge: nobody confirmed it.
    return Own(payment) if payment["status"] != "canceled" or payment.get("latest_charge") else None


def _find_canceled(given: Given, key: str) -> Calls[Own | None]:
    payment = yield from _payment(given)
    return Own(payment) if payment is not None and payment["status"] == "canceled" else None


def _find_captured(given: Given, key: str) -> Calls[Own | None]:
    payment = yield from _payment(given)
    return None if payment is None else _captured(payment, given, key)


def _captured(payment: Given, given: Given, key: str) -> Own | None:
    """Our own capture of a payment, whose amount is what was received."""
    if payment["status"] != "succeeded":
        return None
    taken = {**payment, "amount": payment["amount_received"]}
    found = own_of([taken], key, given["amount"], given["currency"], mark=CAPTURE_MARK)
    return found and found._replace(evidence=dict(payment))


def _is_enough(capturable: int, amount: int | None) -> bool:
    return capturable >= (amount or 1)


def _as_expected(now: str, currency: str | None) -> bool:
    return currency is None or now == currency


_CURRENCY = matches(_as_expected, why="the expected currency")


def _of_payment(given: Given, key: str) -> Calls[Moved]:
    """What a confirmation moves: all of the payment."""
    payment = yield from _payment(given)
    return Moved(None, "") if payment is None else Moved(payment["amount"], payment["currency"])


def _of_capture(given: Given, key: str) -> Calls[Moved]:
    """What a capture moves: what it names, else all that is capturable; what it took, if it is done."""
    payment = yield from _payment(given)
    if payment is None:
        return Moved(given["amount"], "")
    ours = is_ours(payment, key, mark=CAPTURE_MARK)
    all_of_it = payment["amount_received"] if ours else payment["amount_capturable"]
    return Moved(all_of_it if given["amount"] is None else given["amount"], payment["currency"])


def _nothing(given: Given, key: str) -> Calls[Moved]:
    """A cancellation moves nothing."""
    yield from ()
    return Moved(0, "")


def _settlement(given: Given, made: Given) -> Calls[Any]:
    return settlement_calls(made)


_PLANS: Mapping[str, Plan] = {
    "create": Plan(
        _create,
        _find_created,
        _customer,
        {"customer": one_of("exists", "none named")},
        settlement=_settlement,
        references=ids_in,
    ),
    "confirm": Plan(
        _verb("confirm"),
        _find_confirmed,
        _state,
        {"status": one_of(*WAITING), "currency": _CURRENCY},
        _of_payment,
        _settlement,
        ids_in,
    ),
    "capture": Plan(
        _verb("capture"),
        _find_captured,
        _capturable,
        {
            "status": equals("requires_capture"),
            "currency": _CURRENCY,
            "capturable": matches(_is_enough, why="enough is left to capture"),
        },
        _of_capture,
        _settlement,
        ids_in,
    ),
    "cancel": Plan(
        _verb("cancel"), _find_canceled, _state, {"status": one_of(*CANCELABLE), "currency": unchanged()}, _nothing
    ),
}
