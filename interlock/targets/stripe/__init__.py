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
from interlock.targets.stripe.refund import StripeRefund, stripe_refund

__all__ = [
    "Approval",
    "StripeEffect",
    "StripeObject",
    "StripeRefund",
    "stripe_refund",
]
