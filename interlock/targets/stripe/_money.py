"""Money as Stripe counts it: whole numbers of a currency's smallest unit, and what each currency adds to that.

docs.stripe.com/currencies: most currencies have two decimals; zero-decimal ones none; in three-decimal ones the last digit must be 0;
ISK and UGX are written with two decimals that must be 00. Does no I/O.
"""

from __future__ import annotations

from typing import Any

from interlock.errors import BadInput

# fmt: off
ZERO_DECIMAL = frozenset({
    "bif", "clp", "djf", "gnf", "jpy", "kmf", "krw", "mga", "pyg", "rwf", "vnd", "vuv", "xaf", "xof", "xpf",
})
# fmt: on
THREE_DECIMAL = frozenset({"bhd", "jod", "kwd", "omr", "tnd"})
WHOLE_ONLY = frozenset({"isk", "ugx"})
MOST_MINOR = 999_999_999_999
"""docs.stripe.com/currencies: an amount has at most twelve digits."""


def checked_amount(value: Any, *, currency: str | None = None, name: str = "amount", signed: bool = False) -> int:
    """An amount that Stripe can take.

    Args:
        value: what the caller gave.
        currency: the currency if it is known.
        name: what it is called in the error.
        signed: whether it may be negative (a customer balance).

    Raises:
        BadInput: it is no whole number of the smallest unit, nothing or less, too large, or does not fit the currency.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInput(
            f"{name}= is {value!r}, a {type(value).__name__}. Give a whole number of the currency's smallest unit: 2000 for $20.00 and "
            "for \u00a52000. Nothing was sent."
        )
    if value == 0 or (value < 0 and not signed):
        raise BadInput(f"{name}= is {value}; it must be more than nothing. Nothing was sent.")
    if abs(value) > MOST_MINOR:
        raise BadInput(f"{name}= is {value}; Stripe takes at most twelve digits. Nothing was sent.")
    if currency is not None and not fits_currency(value, currency):
        raise BadInput(f"{name}= is {value} {currency}: {rule_of(currency)}. Nothing was sent.")
    return value


def checked_currency(value: Any) -> str:
    """A currency code in Stripe's spelling.

    Raises:
        BadInput: it is not three letters.
    """
    if not isinstance(value, str) or len(value) != 3 or not value.isascii() or not value.isalpha():
        raise BadInput(f"currency= is {value!r}; give a three-letter code such as 'usd'. Nothing was sent.")
    return value.lower()


def fits_currency(amount_minor: int, currency: str) -> bool:
    """Whether an amount can be paid in a currency."""
    if currency in THREE_DECIMAL:
        return amount_minor % 10 == 0
    if currency in WHOLE_ONLY:
        return amount_minor % 100 == 0
    return True


def rule_of(currency: str) -> str:
    """What an amount in this currency must be, in words."""
    if currency in THREE_DECIMAL:
        return f"{currency} has three decimals, and the last digit must be 0"
    if currency in WHOLE_ONLY:
        return f"{currency} is written with two decimals, and both must be 0"
    return f"{currency} takes any whole number of its smallest unit"


def shown(amount_minor: int, currency: str) -> str:
    """An amount for a person: `20.00 USD`, `2000 JPY`."""
    if currency in ZERO_DECIMAL:
        return f"{amount_minor} {currency.upper()}"
    digits = 3 if currency in THREE_DECIMAL else 2
    sign, amount = ("-" if amount_minor < 0 else ""), abs(amount_minor)
    return f"{sign}{amount // 10**digits}.{amount % 10**digits:0{digits}d} {currency.upper()}"
