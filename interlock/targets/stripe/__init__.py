"""Stripe, gated: effects on the official SDK's `StripeClient`, with key, window, look-up, facts and error classes filled in.

Needs `pip install "interlock-gate[stripe]"`. docs/refund-premises.md tells what the refund's facts can tell apart.
"""

from __future__ import annotations

from interlock.errors import ConfigurationError

try:
    import stripe  # noqa: F401 - asked for here, so that a missing extra is told at the door
except ImportError as missing:
    raise ConfigurationError(
        'interlock.targets.stripe drives the official Stripe SDK, which is not installed. Run: pip install "interlock-gate[stripe]"'
    ) from missing

from interlock.authority import Approval
from interlock.targets.stripe._effect import StripeEffect, StripeObject
from interlock.targets.stripe._move import StripeMove
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
