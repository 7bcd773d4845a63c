"""Where and how a worker dies: the same two points for every arm.

    decide -> mark in flight -> | BEFORE_SEND | -> the request leaves -> the service commits -> | BEFORE_ACK | -> record

Owns the points and the ways to die there. `SIMULATED` raises, in process; `KILL` is SIGKILL to the own process, which no
handler sees and no `finally` survives; `STOP` is SIGSTOP: the worker stands until somebody sends SIGCONT.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from enum import StrEnum


class Point(StrEnum):
    """A moment in the send."""

    BEFORE_SEND = "before_send"
    BEFORE_ACK = "before_ack"


class Manner(StrEnum):
    """How the worker dies there."""

    SIMULATED = "simulated"
    KILL = "kill"
    STOP = "stop"


class Died(BaseException):
    """A simulated death: a BaseException, so that no arm can catch it by accident."""


@dataclass(frozen=True)
class Crash:
    """One planned crash, or none."""

    point: Point | None = None
    manner: Manner = Manner.SIMULATED

    def at(self, point: Point) -> None:
        """The worker has come to this point: die here, if this is the one."""
        if point is not self.point:
            return
        match self.manner:
            case Manner.SIMULATED:
                raise Died(point)
            case Manner.KILL:
                os.kill(os.getpid(), signal.SIGKILL)
            case Manner.STOP:
                os.kill(os.getpid(), signal.SIGSTOP)


NO_CRASH = Crash()
