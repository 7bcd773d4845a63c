"""The shop's own side, which both arms use: the case, the approval where a person keeps it, and a client whose process may die."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import stripe


@dataclass(frozen=True)
class Case:
    """One refund to make, as the queue hands it out, with the ids of the refunds that were there when it was decided."""

    order: str
    payment_intent: str
    seen: tuple[str, ...] = ()


class Desk:
    """Where approvals are kept: one file, as another team's system."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "approval.json"

    def approve(self, **approval: Any) -> None:
        """Give an approval; the desk notes when."""
        self._file.write_text(json.dumps({"at": datetime.now(UTC).isoformat(), **approval}), "utf-8")

    def revoke(self) -> None:
        """Take it back."""
        self._file.write_text(json.dumps({**json.loads(self._file.read_text("utf-8")), "revoked": True}), "utf-8")

    def approval(self, order: str) -> dict[str, Any] | None:
        """The approval as it stands now; None if there is none."""
        if not self._file.exists():
            return None
        found = json.loads(self._file.read_text("utf-8"))
        return {**found, "at": datetime.fromisoformat(found["at"])}


class MortalClient(stripe.RequestsClient):
    """Stripe's HTTP client, in a process that is killed `before` or `after` the request that refunds."""

    dies = ""

    def request(self, method: str, url: str, *more: Any, **named: Any) -> Any:
        """Send it, or die."""
        is_refund = method == "post" and url.endswith("/v1/refunds")
        if is_refund and self.dies == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = super().request(method, url, *more, **named)
        if is_refund and self.dies == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return answer


def connect(url: str, *, dies: str = "") -> stripe.StripeClient:
    """The official SDK, talking to the service at `url`."""
    transport = MortalClient(timeout=10)
    transport.dies = dies
    return stripe.StripeClient("sk_test_local", base_addresses={"api": url}, http_client=transport)
