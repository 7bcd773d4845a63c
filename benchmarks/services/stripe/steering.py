"""What banks, card holders and networks do to a payment, and what becomes of webhooks on their way: as Python methods.

Owns the client side of `verbs.py`. `RemoteStripe` and `LocalStripe` have these methods.
"""

from __future__ import annotations

from typing import Any

PREFIX = "/_control"
"""Under which the service is steered. It stands here so that a client loads nothing of the service's own side."""


class Steering:
    """Control verbs about money and webhooks. Whoever inherits says how a control request is sent, and reads the books."""

    def _control(self, method: str, path: str, fields: dict[str, Any] | None = None) -> Any:
        raise NotImplementedError

    def ledger(self) -> dict[str, list[dict[str, Any]]]:
        """The books."""
        raise NotImplementedError

    def settle_refund(
        self, refund: str, status: str, *, failure_reason: str | None = None, pending_reason: str | None = None
    ) -> dict[str, Any]:
        """Let the bank's word about a refund arrive; returns the refund as it is now.

        Args:
            refund: Its id.
            status: `succeeded`, `failed`, `pending` or `requires_action`. A refund that succeeded may still fail, and may be
                put back to `pending` to have one that is under way; failed and canceled ones stay so.
            failure_reason: Why it failed (`refunds.FAILURE_REASONS`); default `unknown`.
            pending_reason: Why it waits (`refunds.PENDING_REASONS`); default `processing`.

        Raises:
            ServiceError: There is no such refund, or it cannot become that.
        """
        told: dict[str, Any] = self._control(
            "POST",
            f"/refunds/{refund}/settle",
            {"status": status, "failure_reason": failure_reason, "pending_reason": pending_reason},
        )
        return told

    def dispute(
        self,
        charge: str,
        reason: str = "fraudulent",
        inquiry: bool = False,
        *,
        amount: int | None = None,
        fails_refunds: bool = False,
    ) -> str:
        """Let the card holder dispute a charge; returns the dispute's id.

        A chargeback takes the money at once, makes pending refunds fail, and leaves those that succeeded: $20 refunded and
        $100 charged back are $120 out.

        Args:
            charge: Its id.
            reason: One of `disputes.REASONS`.
            inquiry: True for an inquiry, which takes nothing yet and leaves the charge refundable.
            amount: What is disputed, in minor units; None: all that was captured.
            fails_refunds: True if refunds that succeeded fail too, because the bank had not booked them yet.

        Raises:
            ServiceError: There is no such charge, or nothing to dispute.
        """
        asked = {"reason": reason, "is_inquiry": inquiry, "amount": amount, "fails_refunds": fails_refunds}
        return str(self._control("POST", f"/charges/{charge}/dispute", asked)["id"])

    def escalate(self, dispute: str, *, fails_refunds: bool = False) -> dict[str, Any]:
        """Let an inquiry become a chargeback; returns the dispute. For refunds, see `dispute`.

        Raises:
            ServiceError: It is no open inquiry.
        """
        told: dict[str, Any] = self._control("POST", f"/disputes/{dispute}/escalate", {"fails_refunds": fails_refunds})
        return told

    def close_dispute(self, dispute: str, outcome: str) -> dict[str, Any]:
        """Let the bank decide; returns the dispute.

        Args:
            dispute: Its id.
            outcome: `won` or `lost` for a chargeback, `warning_closed` for an inquiry.

        Raises:
            ServiceError: The outcome does not fit what it is.
        """
        told: dict[str, Any] = self._control("POST", f"/disputes/{dispute}/close", {"outcome": outcome})
        return told

    def revoke_key(self, key: str) -> None:
        """Refuse a test key from now on, with the 401 of an expired one. It stays refused over a restart.

        Raises:
            ValueError: It is no test key, so it is sent nowhere.
        """
        if not key.startswith(("sk_test_", "rk_test_")):
            raise ValueError("only a test key can be revoked here; it starts with sk_test_ or rk_test_")
        self._control("POST", "/keys/revoke", {"key": key})

    def events(self) -> list[dict[str, Any]]:
        """Every event so far, oldest first, from the books."""
        return self.ledger()["events"]

    def webhook_fault(self, *, kind: str, only: str = "*", delay_s: float = 0.5, times: int = 1) -> None:
        """Let something happen to the next `times` webhook deliveries of a type; `delivery.WebhookFaultKind` says what.

        Args:
            kind: `duplicate`, `delay`, `hold`, `drop` or `lose_answer`.
            only: The event type; `*` and `?` are wildcards.
            delay_s: How long `delay` waits; what comes after may overtake it.
            times: How many deliveries it strikes.

        Raises:
            ServiceError: There is no such kind.
        """
        self._control("POST", "/webhooks/faults", {"type": only, "kind": kind, "delay_s": delay_s, "times": times})

    def clear_webhook_faults(self) -> None:
        """Take back every webhook fault that has not struck. What is held stays held until it is released."""
        self._control("DELETE", "/webhooks/faults")

    def hold_webhooks(self, only: str = "*") -> None:
        """Hold every delivery of a type from now on, until `clear_webhook_faults` and `release_webhooks`."""
        self.webhook_fault(kind="hold", only=only, times=10**9)

    def release_webhooks(self, *, newest_first: bool = False) -> int:
        """Send what is held, in the order it happened or in the reverse; returns how many deliveries that are."""
        return int(self._control("POST", "/webhooks/release", {"newest_first": newest_first})["released"])

    def resend(self, event: str) -> int:
        """Send an event again to every endpoint that it went to, as `stripe events resend` does; returns to how many."""
        return int(self._control("POST", f"/webhooks/resend/{event}")["queued"])

    def deliveries(self) -> list[dict[str, Any]]:
        """Every webhook delivery, oldest first: `event`, `type`, `endpoint`, `state`, `attempts`, `told`."""
        told: list[dict[str, Any]] = self._control("GET", "/webhooks/deliveries")
        return told
