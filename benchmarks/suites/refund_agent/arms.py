"""The columns of the table, and how an arm is made.

The gate is imported only for the gate's own arm, so that no other arm's process pays for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.suites.refund_agent.arm import Arm, Place


@dataclass(frozen=True)
class Column:
    """An arm at a tier."""

    arm: str
    tier: int | None = None

    def __str__(self) -> str:
        return self.arm if self.tier is None else f"{self.arm}@tier{self.tier}"


NAIVE = Column("naive")
IDEMPOTENCY = Column("idempotency", 1)
DURABLE = Column("durable", 1)
GATE = tuple(Column("gate", tier) for tier in (1, 2, 3))
HAND_CHECK = tuple(Column("hand_check", tier) for tier in (1, 2, 3))

COLUMNS = (NAIVE, IDEMPOTENCY, DURABLE, *HAND_CHECK, *GATE)


def open_arm(place: Place) -> Arm:
    """The arm of this place, as a worker starts with it."""
    match place.arm:
        case "naive":
            from benchmarks.suites.refund_agent.baselines import Naive

            return Naive(place)
        case "idempotency":
            from benchmarks.suites.refund_agent.baselines import Idempotency

            return Idempotency(place)
        case "durable":
            from benchmarks.suites.refund_agent.durable import Durable

            return Durable(place)
        case "hand_check":
            from benchmarks.suites.refund_agent.hand_check import HandCheck

            return HandCheck(place)
        case "gate":
            from benchmarks.suites.refund_agent.gated import Gated

            return Gated(place)
    raise ValueError(f"there is no arm {place.arm!r}")
