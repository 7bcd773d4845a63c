"""The truth of a recorded cell, read again from the service: what each kind of cell must agree with.

Owns the readers by name. A cell names its reader (`reader`; a cell with a `payment` and no reader is read as `refunds`) and carries the
ids that it needs. A reader gives back the fields that the service says now; the audit compares them with the recorded ones. A suite
whose truth is another one registers its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.harness.stripe_place import StripePlace, money_of

Json = Mapping[str, Any]
Reader = Callable[[StripePlace, Json], dict[str, Any]]


def read_refunds(place: StripePlace, cell: Json) -> dict[str, Any]:
    """The refunds of the cell's payment: what they come to, how many moved money, and which they are."""
    refunds = place.refunds(str(cell["payment"]))
    money_minor, count = money_of(refunds)
    return {"money_minor": money_minor, "refunds": count, "refund_ids": [str(refund["id"]) for refund in refunds]}


def read_refunds_by_approval(place: StripePlace, cell: Json) -> dict[str, Any]:
    """As `read_refunds`, and the approval that each refund names in its metadata: which of several approved ones were made."""
    refunds = place.refunds(str(cell["payment"]))
    approvals = sorted(str((refund.get("metadata") or {}).get("approval")) for refund in refunds)
    return {**read_refunds(place, cell), "approvals": approvals}


READERS: dict[str, Reader] = {"refunds": read_refunds, "refunds_by_approval": read_refunds_by_approval}


def reader_of(cell: Json) -> str | None:
    """Which reader a cell is for; None if it carries no ids at all."""
    if cell.get("reader"):
        return str(cell["reader"])
    return "refunds" if cell.get("payment") else None
