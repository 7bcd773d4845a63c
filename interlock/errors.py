"""Errors: misuse and broken storage. Owns every exception type; knows nothing of the journal or of services.

A refusal is not an error: it is an `Outcome`. What is here means that the caller must change something (its code, its
configuration, its disk), or that the gate stopped because going on would not have been safe. Each message says what
happened, to which effect, and what to do now.
"""

from __future__ import annotations


class InterlockError(Exception):
    """The root of all errors that the gate raises on purpose."""


class ConfigurationError(InterlockError):
    """The gate or an effect was declared in a way that cannot be kept; raised when it is built, before anything runs."""


class BadInput(InterlockError):
    """A call was not acceptable as it stands; nothing was journalled and nothing was sent."""


class InvalidKey(BadInput):
    """The key callback gave something that does not name the request."""


class NotSerializable(BadInput):
    """An argument or a fact has no faithful JSON form, so it could not be rebuilt after a crash."""


class CallbackFailed(InterlockError):
    """A callback of the user raised or answered unclearly before anything was sent; nothing was sent."""


class PremiseUnreadable(CallbackFailed):
    """A premise could not be read, or what was read is not a fact; nothing was sent."""


class PremiseUnfit(PremiseUnreadable):
    """A condition cannot judge what `premises=` gives, or names what it does not: no later call helps until one of them is corrected."""


class AuthorityUnclear(CallbackFailed):
    """`allowed=` raised or answered with something other than True or False; nothing was sent."""


class BudgetUnclear(CallbackFailed):
    """`budget=` raised or gave something other than budgets; nothing was sent."""


class KeyDerivationFailed(CallbackFailed, InvalidKey):
    """The key callback raised; nothing was journalled and nothing was sent."""


class SettlementUnreadable(InterlockError):
    """`settlement=` raised or answered unclearly, so nothing new is known about an accepted effect; nothing was written."""


class JournalError(InterlockError):
    """The journal could not do its part. If this left `submit`, nothing was sent that is not on the journal."""


class JournalUnavailable(JournalError):
    """The journal cannot be read or written now (disk full, read-only, locked, failing); try again once it can."""


class JournalCorrupt(JournalError):
    """What is stored is not what was written: bytes, chain or order do not agree. Nothing is sent on such a record."""


class JournalTooNew(JournalError):
    """The journal was written by a newer version; this one would not understand all of it and refuses to act on it."""


class JournalUnsuitable(JournalError, ConfigurationError):
    """The place cannot hold a journal: no working file locks, a network file system, not a directory, not writable."""


class IllegalTransition(JournalError):
    """An entry was about to follow one that it may not follow. A defect of the caller or an edited journal."""


class OutcomeError(InterlockError):
    """Raised by `Outcome.raise_for_status()` for an effect that did not land or whose fate is not known.

    Attributes:
        outcome: the `Outcome` that was asked.
    """

    def __init__(self, outcome: object, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome


class NotSent(Exception):
    """Raise this inside an effect function: it is certain that nothing left this machine.

    The effect becomes FAILED and may be proposed again. Never raise it after the request may have left.

    Args:
        message: what happened.
        reason: a short code that follows `FAILED:`.
    """

    def __init__(self, message: str = "", *, reason: str = "not_sent") -> None:
        super().__init__(message)
        self.reason = reason


class Rejected(Exception):
    """Raise this inside an effect function: the service answered, and certainly did not do it.

    The effect becomes FAILED and may be proposed again, under an idempotency key of its own.

    Args:
        message: what the service said.
        reason: a short code that follows `FAILED:`.
    """

    def __init__(self, message: str = "", *, reason: str = "rejected") -> None:
        super().__init__(message)
        self.reason = reason


class Unanswered(Exception):
    """Raise this inside an effect function: it was sent, and the answer does not tell whether it happened.

    The gate finds out what it can, as for any exception that it does not know, and without advice on how to declare it.
    """


class SimulatedCrash(BaseException):
    """The death of this worker, played: raised at a named crash point, and not an `Exception`, so that nothing swallows it.

    The gate that raised it is dead from then on, with nothing in flight; make a new `Interlock` on the same directory.
    """
