"""Samples of a time and what is said of them: median, spread, p99. Pure.

Medians, because the machine has other things to do; and ratios of medians taken in turn within one run, because what the
machine does meanwhile then falls on both.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return statistics.median(values)


def quantile(values: Sequence[float], part: float) -> float:
    """The value that `part` of the values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def spread_us(values_s: Sequence[float]) -> str:
    """From the tenth to the ninetieth percentile, and p99, in microseconds."""
    low, high, p99 = (quantile(values_s, part) * 1e6 for part in (0.1, 0.9, 0.99))
    return f"{low:,.0f} to {high:,.0f}, p99 {p99:,.0f}"


def spread(values: Sequence[float], digits: int = 2) -> str:
    """From the least to the greatest, for a handful of values."""
    return f"{min(values):,.{digits}f} to {max(values):,.{digits}f}"


def in_us(seconds: float) -> float:
    """Seconds in microseconds, with one digit."""
    return round(seconds * 1e6, 1)
