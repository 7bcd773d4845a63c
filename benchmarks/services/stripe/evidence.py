"""What can be said in answer to a dispute: docs.stripe.com/api/disputes/evidence_object."""

from __future__ import annotations

from typing import Any

from benchmarks.services.stripe.errors import invalid
from benchmarks.services.stripe.params import Group

FIELDS = (
    "access_activity_log",
    "billing_address",
    "cancellation_policy",
    "cancellation_policy_disclosure",
    "cancellation_rebuttal",
    "customer_communication",
    "customer_email_address",
    "customer_name",
    "customer_purchase_ip",
    "customer_signature",
    "duplicate_charge_documentation",
    "duplicate_charge_explanation",
    "duplicate_charge_id",
    "product_description",
    "receipt",
    "refund_policy",
    "refund_policy_disclosure",
    "refund_refusal_explanation",
    "service_date",
    "service_documentation",
    "shipping_address",
    "shipping_carrier",
    "shipping_date",
    "shipping_documentation",
    "shipping_tracking_number",
    "uncategorized_file",
    "uncategorized_text",
)

_FILES = frozenset(
    {
        "cancellation_policy",
        "customer_communication",
        "customer_signature",
        "duplicate_charge_documentation",
        "receipt",
        "refund_policy",
        "service_documentation",
        "shipping_documentation",
        "uncategorized_file",
    }
)
MOST_CHARACTERS = 20_000


def _words(raw: Any, name: str) -> str:
    """Up to 20,000 characters; an empty text takes it back."""
    if not isinstance(raw, str):
        raise invalid("Invalid string: expected text, not a group.", param=name)
    if len(raw) > MOST_CHARACTERS:
        raise invalid(f"Evidence can have at most {MOST_CHARACTERS} characters in a field.", param=name)
    return raw


def _file(raw: Any, name: str) -> str:
    if raw == "":
        return ""
    raise invalid("This local service has no files; say it in a field of text.", param=name)


EVIDENCE = Group({name: _file if name in _FILES else _words for name in FIELDS})
"""The `evidence` parameter. Files are not modelled and refused."""
