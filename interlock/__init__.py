"""Interlock: the small gate that calls with outside effects go through.

from interlock import Interlock

gate = Interlock(".interlock")

@gate.effect(key=lambda order, amount: f"refund:{order}", ...)
def refund_money(order, amount, idempotency_key): ...

gate.recover()   # once, on startup
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.importing import uncollected

with uncollected():
    from interlock.decorator import Interlock, Recovery
    from interlock.effects import Entry, History, Kind, Own, Proposal
    from interlock.errors import (
        AuthorityUnclear,
        BadInput,
        BudgetUnclear,
        CallbackFailed,
        ConfigurationError,
        InterlockError,
        InvalidKey,
        JournalCorrupt,
        JournalError,
        JournalTooNew,
        JournalUnavailable,
        JournalUnsuitable,
        KeyDerivationFailed,
        NotSent,
        NotSerializable,
        OutcomeError,
        PremiseUnfit,
        PremiseUnreadable,
        Rejected,
        SettlementUnreadable,
    )
    from interlock.function import EffectFunction
    from interlock.outcomes import Outcome, Reason, Status, Via
    from interlock.ports import Verdict
    from interlock.rules.budgets import Budget
    from interlock.rules.premises import Condition, at_least, at_most, equals, matches, one_of, tolerates, unchanged
    from interlock.settlement import Settlement

if TYPE_CHECKING:
    from interlock.receipts import Receipt

    __version__: str

__all__ = [
    "AuthorityUnclear",
    "BadInput",
    "Budget",
    "BudgetUnclear",
    "CallbackFailed",
    "Condition",
    "ConfigurationError",
    "EffectFunction",
    "Entry",
    "History",
    "Interlock",
    "InterlockError",
    "InvalidKey",
    "JournalCorrupt",
    "JournalError",
    "JournalTooNew",
    "JournalUnavailable",
    "JournalUnsuitable",
    "KeyDerivationFailed",
    "Kind",
    "NotSent",
    "NotSerializable",
    "Outcome",
    "OutcomeError",
    "Own",
    "PremiseUnfit",
    "PremiseUnreadable",
    "Proposal",
    "Reason",
    "Receipt",
    "Recovery",
    "Rejected",
    "Settlement",
    "SettlementUnreadable",
    "Status",
    "Verdict",
    "Via",
    "at_least",
    "at_most",
    "equals",
    "matches",
    "one_of",
    "tolerates",
    "unchanged",
]


def __getattr__(name: str) -> Any:
    """What no call needs is imported when it is first asked for: how fast a crash is recovered from begins with the import."""
    if name == "Receipt":
        from interlock.receipts import Receipt

        return Receipt
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("interlock-gate")
        except PackageNotFoundError:
            raise AttributeError(
                "interlock is not installed, so it has no version; it only stands on the path"
            ) from None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
