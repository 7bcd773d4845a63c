"""Stripe, gated: effects on the official SDK's `StripeClient`, with key, window, look-up, facts and error classes filled in.

Needs `pip install "interlock-gate[stripe]"`. docs/refund-premises.md tells what the refund's facts can tell apart.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from interlock.errors import ConfigurationError
from interlock.importing import uncollected

try:
    import stripe  # noqa: F401 - asked for here, so that a missing extra is told at the door
except ImportError as missing:
    raise ConfigurationError(
        'interlock.targets.stripe drives the official Stripe SDK, which is not installed. Run: pip install "interlock-gate[stripe]"'
    ) from missing

if TYPE_CHECKING:
    from interlock.authority import Approval
    from interlock.targets.stripe._effect import StripeEffect
    from interlock.targets.stripe._move import StripeMove
    from interlock.targets.stripe._plan import StripeObject
    from interlock.targets.stripe.credit_grant import stripe_credit_grant
    from interlock.targets.stripe.customer_balance import stripe_customer_balance
    from interlock.targets.stripe.payment_intent import StripePaymentIntent, stripe_payment_intent
    from interlock.targets.stripe.payout import stripe_payout
    from interlock.targets.stripe.refund import StripeRefund, stripe_refund
    from interlock.targets.stripe.settlement import stripe_references, stripe_settlement
    from interlock.targets.stripe.transfer import stripe_transfer
    from interlock.targets.stripe.webhooks import webhook_app

__all__ = [
    "Approval",
    "StripeEffect",
    "StripeMove",
    "StripeObject",
    "StripePaymentIntent",
    "StripeRefund",
    "stripe_credit_grant",
    "stripe_customer_balance",
    "stripe_payment_intent",
    "stripe_payout",
    "stripe_references",
    "stripe_refund",
    "stripe_settlement",
    "stripe_transfer",
    "webhook_app",
]

_HOMES = {
    "Approval": "interlock.authority",
    "StripeEffect": "interlock.targets.stripe._effect",
    "StripeMove": "interlock.targets.stripe._move",
    "StripeObject": "interlock.targets.stripe._plan",
    "StripePaymentIntent": "interlock.targets.stripe.payment_intent",
    "StripeRefund": "interlock.targets.stripe.refund",
    "stripe_credit_grant": "interlock.targets.stripe.credit_grant",
    "stripe_customer_balance": "interlock.targets.stripe.customer_balance",
    "stripe_payment_intent": "interlock.targets.stripe.payment_intent",
    "stripe_payout": "interlock.targets.stripe.payout",
    "stripe_references": "interlock.targets.stripe.settlement",
    "stripe_refund": "interlock.targets.stripe.refund",
    "stripe_settlement": "interlock.targets.stripe.settlement",
    "stripe_transfer": "interlock.targets.stripe.transfer",
    "webhook_app": "interlock.targets.stripe.webhooks",
}


def __getattr__(name: str) -> Any:
    """One effect is imported when it is asked for, so that a process that refunds does not load the payouts at its start."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with uncollected():
        found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    """What there is."""
    return sorted({*globals(), *__all__})
