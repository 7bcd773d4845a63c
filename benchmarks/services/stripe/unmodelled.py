"""Parameters that Stripe takes and this service does not: refused by name, so that no client believes they did something."""

from __future__ import annotations

PAYMENT_INTENT = frozenset(
    {
        "amount_details",
        "application_fee_amount",
        "confirmation_method",
        "confirmation_token",
        "customer_account",
        "error_on_requires_action",
        "excluded_payment_method_types",
        "hooks",
        "mandate",
        "mandate_data",
        "off_session",
        "on_behalf_of",
        "payment_details",
        "payment_method_configuration",
        "payment_method_data",
        "payment_method_options",
        "radar_options",
        "receipt_email",
        "setup_future_usage",
        "shipping",
        "statement_descriptor",
        "statement_descriptor_suffix",
        "transfer_data",
        "use_stripe_sdk",
    }
)
"""Of payment intents: create, confirm, capture and update."""
