"""The support case: what a worker is handed, what it decided, what it answers, and the approval that stands behind it.

Owns the words that rows, arms and engines share. Knows no engine and no arm.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from benchmarks.harness.stripe_wire import SETTLE_AFTER_S, Death, Door, Service

APPROVED_MINOR = 2_000
UNRELATED_MINOR = 500

NO_DECISION = "STOPPED:no_decision"
"""The answer of a worker whose model decided nothing that could be carried out."""

JOURNAL = "interlock"
"""The gate's journal, below a cell's directory."""

ArmName = Literal["no_check", "hand_check", "interlock"]
ModelKind = Literal["scripted", "anthropic", "openai", "gemini", "local"]
Wire = Literal["anthropic", "openai-chat", "openai-responses", "gemini"]


class ModelDoor(BaseModel):
    """How a worker reaches its model. A real one's key stays in the environment."""

    model_config = ConfigDict(frozen=True)

    kind: ModelKind = "scripted"
    wire: Wire = "anthropic"
    name: str = "scripted"
    url: str | None = None


class Job(BaseModel):
    """One support case as a worker is handed it, validated as it is read.

    Attributes:
        door: The payment service.
        directory: Of this case alone: the approval, the arm's own records, the engine's.
        arm: Who guards the refund.
        case: Names the approved request.
        payment: What the customer paid.
        cap_minor: What the approval allows at most.
        model: Who decides.
        can_look_up: Whether the arm may ask the service for refunds.
        settle_after_s: How long a dead sender's request may still be on its way, as declared to the gate.
        passed_s: How much time is to have passed beyond what really did.
        die: Where this worker kills itself, if anywhere.
        attempt: Which worker of this case it is, from 1.
    """

    model_config = ConfigDict(frozen=True)

    door: Door
    directory: Path
    arm: ArmName
    case: str
    payment: str
    cap_minor: int = APPROVED_MINOR
    model: ModelDoor = ModelDoor()
    can_look_up: bool = True
    settle_after_s: float = SETTLE_AFTER_S[Service.LOCAL]
    passed_s: float = 0.0
    die: Death | None = None
    attempt: int = 1


class Decision(BaseModel):
    """What the model decided, and the refunds of the payment as it saw them."""

    model_config = ConfigDict(frozen=True)

    amount_minor: int
    seen: list[str] = []
    said: str = ""


class Answer(BaseModel):
    """What the workflow itself reports about the case.

    Attributes:
        status: The code: of the gate, or `SENT`, `FOUND`, `STOPPED:why`, `UNCLEAR`.
        refund: The refund it names.
        text: The sentence that a person gets.
        retry_after_s: Ask again then; only where it is still open.
        details: What else the arm left: the effect id, the recovery path.
    """

    status: str
    refund: str | None = None
    text: str = ""
    retry_after_s: float | None = None
    details: dict[str, Any] = {}


class Approvals:
    """The back office's record of who allowed the refund: one small file, as another team's system."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "approval.json"

    def give(self, cap_minor: int) -> None:
        """Somebody approves the refund, up to an amount."""
        self._write({"id": "approval-1", "by": "support-lead", "amount_minor": cap_minor, "revoked": False})

    def revoke(self) -> None:
        """Somebody takes it back; done when this returns."""
        self._write({**self.read(), "revoked": True})

    def allows(self, amount_minor: int) -> bool:
        """Whether it stands, for this amount."""
        told = self.read()
        return not told["revoked"] and amount_minor <= int(told["amount_minor"])

    def read(self) -> dict[str, Any]:
        """It as it stands now: `id`, `by`, `amount_minor`, `revoked`."""
        told: dict[str, Any] = json.loads(self._file.read_text(encoding="utf-8"))
        return told

    def _write(self, facts: dict[str, Any]) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(facts), encoding="utf-8")
        os.replace(fresh, self._file)
