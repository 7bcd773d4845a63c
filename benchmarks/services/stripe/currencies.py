"""Currencies: which there are, how many decimals an amount has, and its bounds; docs.stripe.com/currencies.

Owns what may be an amount. Must not know what is paid with it.
"""

from __future__ import annotations

from benchmarks.services.stripe.errors import invalid

_WORDS = """
    aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bmd bnd bob brl bsd bwp byn bzd cad cdf chf cny cop
    crc cve czk dkk dop dzd egp etb eur fjd fkp gbp gel gip gmd gtq gyd hkd hnl htg huf idr ils inr isk jmd kes
    kgs khr kyd kzt lak lbp lkr lrd lsl mad mdl mkd mmk mnt mop mur mvr mwk mxn myr mzn nad ngn nio nok npr nzd
    pab pen pgk php pkr pln qar ron rsd rub sar sbd scr sek sgd shp sle sos srd std szl thb tjs top try ttd twd
    tzs uah ugx usd uyu uzs wst xcd yer zar zmw
"""
_TWO_DECIMALS = frozenset(_WORDS.split())
_WITHOUT_DECIMALS = frozenset(
    ["bif", "clp", "djf", "gnf", "jpy", "kmf", "krw", "mga", "pyg", "rwf", "vnd", "vuv", "xaf", "xof", "xpf"]
)
_THREE_DECIMALS = frozenset(["bhd", "jod", "kwd", "omr", "tnd"])
_WHOLE_UNITS = frozenset({"isk", "ugx"})
"""Written with two decimals for the sake of old clients, but the decimals must be zeros."""

CURRENCIES = tuple(sorted(_TWO_DECIMALS | _WITHOUT_DECIMALS | _THREE_DECIMALS))

_SYMBOLS = {"usd": "$", "eur": "€", "gbp": "£", "jpy": "¥", "cad": "CA$", "aud": "A$", "chf": "CHF "}

_MINIMUM_MINOR = {
    **dict.fromkeys(("usd", "aud", "brl", "cad", "chf", "eur", "inr", "nzd", "sgd", "jpy"), 50),
    "aed": 200,
    "bgn": 100,
    "czk": 1500,
    "dkk": 250,
    "gbp": 30,
    "hkd": 400,
    "huf": 17_500,
    "mxn": 1000,
    "myr": 200,
    "nok": 300,
    "pln": 200,
    "ron": 200,
    "sek": 300,
    "thb": 1000,
}
"""For currencies that the page does not list, the minimum follows the exchange rate, which is not modelled: there is none."""

MAXIMUM_MINOR = 99_999_999
LARGEST_MINOR = 999_999_999_999
"""Eight digits, and twelve where the page allows more."""
_LARGEST = {
    "idr": LARGEST_MINOR,
    "jpy": LARGEST_MINOR,
    "lbp": LARGEST_MINOR,
    "cop": 9_999_999_999,
    "huf": 9_999_999_999,
}


def money(amount_minor: int, currency: str) -> str:
    """An amount as Stripe's messages show it: `$20.00`, `¥500`, `KWD 1.250`."""
    symbol = _SYMBOLS.get(currency, f"{currency.upper()} ")
    decimals = decimals_of(currency)
    return f"{symbol}{amount_minor / 10**decimals:,.{decimals}f}"


def decimals_of(currency: str) -> int:
    """How many decimals the minor unit stands for."""
    return 0 if currency in _WITHOUT_DECIMALS else 3 if currency in _THREE_DECIMALS else 2


def check_amount(amount: int, currency: str, *, param: str = "amount") -> None:
    """Refuse an amount that no payment in this currency can have.

    Raises:
        ApiError: Too small, too large, or not in the steps that the currency has.
    """
    least, most = _MINIMUM_MINOR.get(currency, 1), _LARGEST.get(currency, MAXIMUM_MINOR)
    if amount < least:
        raise invalid(
            f"Amount must be at least {money(least, currency)} {currency}", code="amount_too_small", param=param
        )
    if amount > most:
        raise invalid(
            f"Amount must be no more than {money(most, currency)} {currency}", code="amount_too_large", param=param
        )
    check_step(amount, currency, param=param)


def check_step(amount: int, currency: str, *, param: str = "amount") -> None:
    """Refuse decimals that the currency does not have on the wire.

    Raises:
        ApiError: Three decimals and the last is no zero, or a currency of whole units with decimals.
    """
    if currency in _THREE_DECIMALS and amount % 10:
        raise invalid(
            f"Invalid amount: {amount}. Amounts in the three-decimal currency {currency} must be rounded to the nearest ten.",
            code="invalid_amount",
            param=param,
        )
    if currency in _WHOLE_UNITS and amount % 100:
        raise invalid(
            f"Invalid amount: {amount}. Amounts in {currency} have no fractions: they must be divisible by 100.",
            code="invalid_amount",
            param=param,
        )
