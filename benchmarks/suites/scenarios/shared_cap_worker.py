"""One worker of `shared_cap`, and the arms: it carries out one approval, and dies around the POST if it is the first to get there.

    python -m benchmarks.suites.scenarios.shared_cap_worker      one job as a JSON line in, the answer as a JSON line out

Owns the arms. Every arm sends through `Job.send`, so each meets the same death at the same place.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import sys
import time
import traceback
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stripe
from pydantic import BaseModel

if TYPE_CHECKING:
    from interlock import Interlock

from benchmarks.harness import log
from benchmarks.harness.stripe_wire import Death, Door, connect
from benchmarks.harness.supervisor import live_with_supervisor

MODULE = "benchmarks.suites.scenarios.shared_cap_worker"
PATIENCE_S = 20.0
APPROVAL = "approval"


class Job(BaseModel):
    """What a worker is handed.

    Attributes:
        arm: which.
        door: the way to the service.
        directory: shared by the workers of one case, and kept over a crash.
        payment: the payment that is refunded.
        approval: names the approved refund.
        amount_minor: what was approved.
        limit_minor: the most that may be refunded on the payment.
        die: where the first worker of the case that gets there kills itself.
    """

    arm: str
    door: Door
    directory: Path
    payment: str
    approval: str
    amount_minor: int
    limit_minor: int
    die: Death | None = None

    def send(self, client: stripe.StripeClient, key: str) -> dict[str, Any]:
        """The POST, under an idempotency key, marked with the approval."""
        is_doomed = self.die is not None and self._is_first()
        if is_doomed and self.die is Death.BEFORE_SEND:
            os.kill(os.getpid(), signal.SIGKILL)
        asked: Any = {
            "payment_intent": self.payment,
            "amount": self.amount_minor,
            "metadata": {APPROVAL: self.approval, **self.door.tags},
        }
        made = client.v1.refunds.create(asked, {"idempotency_key": key})
        if is_doomed:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"id": made.id, "amount": made.amount}

    def _is_first(self) -> bool:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self.directory / "died", os.O_CREAT | os.O_EXCL))
            return True
        return False


def no_check(job: Job, client: stripe.StripeClient) -> dict[str, Any]:
    """Send it, under a stable key."""
    return {"status": "SENT", "refund": job.send(client, f"refund:{job.approval}")["id"]}


def file_lock(job: Job, client: stripe.StripeClient) -> dict[str, Any]:
    """One at a time for this cap, by a lock that the kernel gives back at death; and under it the service's own list counts."""
    with (job.directory / "cap.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refunds = client.v1.refunds.list({"payment_intent": job.payment, "limit": 100}).data
        for refund in refunds:
            if refund.metadata is not None and refund.metadata.to_dict().get(APPROVAL) == job.approval:
                return {"status": "FOUND", "refund": refund.id}
        if sum(refund.amount for refund in refunds) + job.amount_minor > job.limit_minor:
            return {"status": "STOPPED", "text": "over the cap"}
        return {"status": "SENT", "refund": job.send(client, f"refund:{job.approval}")["id"]}


def declare(gate: Interlock, job: Job, client: stripe.StripeClient) -> Any:
    """The refund behind the gate, under a budget of its payment."""
    from interlock import Budget

    @gate.effect(
        key=lambda approval: f"refund:{approval}",
        budget=lambda payment, amount: Budget(f"refunds:{payment}", job.limit_minor, amount),
        dedupes=True,
        window=timedelta(hours=24),
        timeout=5,
    )
    def refund(approval: str, payment: str, amount: int, idempotency_key: str) -> dict[str, Any]:
        return job.send(client, idempotency_key)

    return refund


def interlock(job: Job, client: stripe.StripeClient) -> dict[str, Any]:
    """The gate; after a crash the same call settles what the dead worker left."""
    from interlock import Interlock

    with Interlock(job.directory / "interlock") as gate:
        refund = declare(gate, job, client)
        deadline = time.monotonic() + PATIENCE_S
        outcome = refund(job.approval, job.payment, job.amount_minor)
        while outcome.retry_after is not None and time.monotonic() < deadline:
            time.sleep(min(outcome.retry_after, 0.05))
            outcome = refund(job.approval, job.payment, job.amount_minor)
        value = outcome.value if isinstance(outcome.value, dict) else {}
        return {
            "status": str(outcome),
            "refund": value.get("id"),
            "text": outcome.for_person,
            "effect_id": outcome.effect_id,
            "receipt": outcome.receipt().to_dict(),
        }


ARMS = {"no_check": no_check, "file_lock": file_lock, "interlock": interlock}


def main() -> None:
    """Read the job, get ready, begin when told, answer."""
    live_with_supervisor()
    log.mute()
    line = sys.stdin.readline()
    if not line:
        return
    job = Job.model_validate_json(line)
    client = connect(job.door)
    if job.die is not None:
        if job.arm == "interlock":
            import interlock as _loaded  # noqa: F401 - the race begins with both workers loaded
        print(json.dumps({"ready": True}), flush=True)
        if not sys.stdin.readline():
            return
    try:
        answer = ARMS[job.arm](job, client)
    except Exception as error:  # noqa: BLE001 - whatever an arm raises is its answer
        traceback.print_exc()
        answer = {"status": f"ERROR:{type(error).__name__}", "text": str(error)}
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
