"""What is measured: a gate whose effects do nothing, so that what a call costs is the gate's own.

The declaration is the one that issue and README assume of a careful user: a key, two arguments, a service that dedupes for a day.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from interlock import Interlock
from interlock.function import EffectFunction

SERVICE_S = 0.001
"""How long the effects that stand for a real service take, in seconds."""

_orders = itertools.count()


@dataclass(frozen=True)
class Subject:
    """A gate on a directory, and its effects."""

    gate: Interlock
    null: EffectFunction[Any]
    null_async: EffectFunction[Any]
    slow: EffectFunction[Any]
    slow_async: EffectFunction[Any]
    dying: EffectFunction[Any]


class Died(BaseException):
    """The sender ends in the middle of its send."""


def new_order() -> str:
    """An order that no effect of this process has had."""
    return f"order-{next(_orders)}"


@contextmanager
def opened(directory: Path) -> Iterator[Subject]:
    """A gate on that directory, recovered, and closed afterwards."""
    subject = declared(Interlock(directory))
    try:
        subject.gate.recover()
        yield subject
    finally:
        subject.gate.close()


def declared(gate: Interlock, *, dies: bool = True) -> Subject:
    """The effects of this suite, declared on a gate. `dies`: whether the one that is to be interrupted is."""
    effect = gate.effect(key=lambda order, amount: f"refund:{order}", dedupes=True, window=timedelta(hours=24))

    @effect
    def refund(order: str, amount: int, idempotency_key: str) -> None:
        return None

    @effect
    async def refund_async(order: str, amount: int, idempotency_key: str) -> None:
        return None

    @effect
    def refund_1ms(order: str, amount: int, idempotency_key: str) -> None:
        time.sleep(SERVICE_S)

    @effect
    async def refund_1ms_async(order: str, amount: int, idempotency_key: str) -> None:
        await asyncio.sleep(SERVICE_S)

    @effect
    def refund_interrupted(order: str, amount: int, idempotency_key: str) -> None:
        if dies:
            raise Died

    return Subject(gate, refund, refund_async, refund_1ms, refund_1ms_async, refund_interrupted)
