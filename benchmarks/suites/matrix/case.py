"""One support case as a worker is handed it, and what it keeps on disk beside what its framework keeps.

Owns the words that rows, arms, frameworks and workers share. Knows no framework, and imports no more than a worker needs.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from benchmarks.harness.stripe_wire import SETTLE_AFTER_S, Death, Door, Service
from benchmarks.suites.e2e.case import Answer, Approvals

__all__ = [
    "AMOUNT_MINOR",
    "ARMS",
    "BEGUN",
    "CAP_MINOR",
    "TOOL",
    "UNRELATED_MINOR",
    "Answer",
    "Approvals",
    "ArmName",
    "Begun",
    "Job",
    "Moment",
]

ArmName = Literal["default", "hand_check", "interlock"]
ARMS: tuple[ArmName, ...] = ("default", "hand_check", "interlock")

Moment = Literal["load", "start", "approve", "resume"]
"""What a worker is asked for next.

load       import `modules`, and tell what is loaded now: what begins at the same time begins with everybody loaded alike
start      take the case up, let the model ask for the refund, and stop where a person must approve it
approve    the approval is delivered to what was saved at that stop, and the run goes on; may be asked for twice, that is a row
resume     the documented way to go on after the worker died
"""

AMOUNT_MINOR = 2_000
UNRELATED_MINOR = 500
CAP_MINOR = 3_000
TOOL = "create_refund"

Begun = Literal["approve", "tool"]
"""What a process notes that it begins: a worker the approval, and an arm without a gate the tool's body."""

BEGUN = "begun.jsonl"


class Job(BaseModel):
    """A case.

    Attributes:
        framework: its module's name.
        arm: how the refund is carried out.
        moment: what is asked for now.
        modules: names of what is to be imported, where `load` is asked for.
        door: the payment service.
        directory: of this case alone: the approval, and whatever the framework keeps.
        shared: of all cases of the cell: the journal, and the lock of a cap.
        case: names the approved request. Letters, digits and dashes.
        payment: what the customer paid.
        amount_minor: what was approved.
        cap_minor: the most that may be refunded on the payment by agents, or None.
        settle_after_s: how long a dead sender's request may still be on its way, as declared to the gate.
        die: where this worker kills itself, if anywhere.
        beside: what the framework's server told of itself (its `open_beside`), e.g. an address.
    """

    model_config = ConfigDict(frozen=True)

    framework: str
    arm: ArmName
    moment: Moment = "load"
    modules: list[str] = []
    door: Door
    directory: Path
    shared: Path
    case: str
    payment: str
    amount_minor: int = AMOUNT_MINOR
    cap_minor: int | None = None
    settle_after_s: float = SETTLE_AFTER_S[Service.LOCAL]
    die: Death | None = None
    beside: dict[str, str] = {}

    @property
    def approvals(self) -> Approvals:
        """The back office's record of who allowed it: where a person can still take it back."""
        return Approvals(self.directory)

    @property
    def journal(self) -> Path:
        """Where the gate's journal lies: one for each cell."""
        return self.shared / "interlock"

    @property
    def arguments(self) -> dict[str, Any]:
        """What the model calls `create_refund` with."""
        return {"order_id": self.case, "amount": self.amount_minor}

    def save(self, name: str, value: Any) -> None:
        """Keep something for the next worker, as an application keeps a thread's id or a saved run. Of two at once the last one stays."""
        file = self.directory / f"{name}.json"
        fresh = file.with_suffix(f".{os.getpid()}.new")
        fresh.write_text(json.dumps(value), encoding="utf-8")
        fresh.replace(file)

    def note_begun(self, what: Begun) -> None:
        """Note that this process begins it now. The clock is one for all processes of the machine."""
        line = json.dumps({"what": what, "pid": os.getpid(), "at": time.monotonic()})
        with (self.shared / BEGUN).open("a", encoding="utf-8") as notes:
            notes.write(line + "\n")

    def saved(self, name: str) -> Any:
        """What was kept under this name."""
        return json.loads((self.directory / f"{name}.json").read_text(encoding="utf-8"))
