"""Receipts: what the gate observed about one effect, as a plain hash chain. Owns building and verifying one.

A receipt proves that its entries belong together in this order and were not changed by accident or by somebody careless. Not signed, it
does not prove who wrote it: whoever can write the journal can write another chain.
"""

from __future__ import annotations

from interlock.receipts._receipt import Receipt, ReceiptCheck

__all__ = ["Receipt", "ReceiptCheck"]
