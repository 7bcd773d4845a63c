"""Test cards: the `pm_card_...` names, and what becomes of a payment with each; docs.stripe.com/testing."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.services.stripe.errors import invalid, missing


@dataclass(frozen=True)
class Card:
    """A test card behind a `pm_card_...` name; declined with `code` and `decline` if those are set.

    Attributes:
        brand: As the API spells it.
        last4: Of the number.
        code: The error code of the refusal; None: it pays.
        decline: The decline code of the refusal.
        refund: What becomes of a refund: `pending`, then succeeded; or `fail`, succeeded first and failed later.
        dispute: The reason of the dispute that follows the payment.
        inquiry: True if that dispute is an inquiry.
        is_reported: True if the issuer reports fraud after the payment.
        is_available: True if the money is available at once.
    """

    brand: str
    last4: str
    code: str | None = None
    decline: str | None = None
    refund: str = ""
    dispute: str = ""
    inquiry: bool = False
    is_reported: bool = False
    is_available: bool = False


_DECLINES = {
    "": Card("visa", "0002", "card_declined", "generic_decline"),
    "InsufficientFunds": Card("visa", "9995", "card_declined", "insufficient_funds"),
    "LostCard": Card("visa", "9987", "card_declined", "lost_card"),
    "StolenCard": Card("visa", "9979", "card_declined", "stolen_card"),
    "ExpiredCard": Card("visa", "0069", "expired_card", None),
    "IncorrectCvc": Card("visa", "0127", "incorrect_cvc", None),
    "ProcessingError": Card("visa", "0119", "processing_error", None),
    "VelocityLimitExceeded": Card("visa", "6975", "card_declined", "card_velocity_exceeded"),
}

CARDS = {
    "pm_card_visa": Card("visa", "4242"),
    "pm_card_visa_debit": Card("visa", "5556"),
    "pm_card_mastercard": Card("mastercard", "4444"),
    "pm_card_mastercard_debit": Card("mastercard", "8210"),
    "pm_card_amex": Card("amex", "8431"),
    "pm_card_discover": Card("discover", "1117"),
    **{f"pm_card_visa_chargeDeclined{name}": card for name, card in _DECLINES.items()},
    **{f"pm_card_chargeDeclined{name}": card for name, card in _DECLINES.items()},
    "pm_card_bypassPending": Card("visa", "0077", is_available=True),
    "pm_card_pendingRefund": Card("visa", "7726", refund="pending"),
    "pm_card_refundFail": Card("visa", "5126", refund="fail"),
    "pm_card_createDispute": Card("visa", "0259", dispute="fraudulent"),
    "pm_card_createDisputeProductNotReceived": Card("visa", "2685", dispute="product_not_received"),
    "pm_card_createDisputeInquiry": Card("visa", "1976", dispute="fraudulent", inquiry=True),
    "pm_card_createIssuerFraudRecord": Card("visa", "5423", is_reported=True),
}
"""The payment methods the service knows. The decline cards go by both of the names that clients use."""

_UNMODELLED = frozenset(
    {
        "pm_card_authenticationRequired",
        "pm_card_authenticationRequiredOnSetup",
        "pm_card_threeDSecure2Required",
        "pm_card_threeDSecureRequired",
        "pm_card_threeDSecureOptional",
        "pm_card_chargeCustomerFail",
        "pm_card_createCe3EligibleDispute",
        "pm_card_createComplianceDispute",
        "pm_card_createMultipleDisputes",
        "pm_card_radarBlock",
        "pm_card_riskLevelElevated",
        "pm_card_riskLevelHighest",
    }
)


def card_of(name: str) -> Card:
    """The card behind a payment method.

    Raises:
        ApiError: Stripe's testing page has no such one, or this service does not model it.
    """
    if name in _UNMODELLED:
        raise invalid(
            f"Stripe knows the test payment method {name}, but this local service does not model what it does.",
            param="payment_method",
        )
    if name not in CARDS:
        raise missing("PaymentMethod", name, param="payment_method", status=400)
    return CARDS[name]
