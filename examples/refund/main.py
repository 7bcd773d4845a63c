"""A refund is killed in the middle; support refunds by hand; the agent restarts. Nothing is paid twice, and the record says why.

The "payment service" is a list in this process and dedupes on a key, as real ones do. For real kills of real processes against a real HTTP
service see `make demo`.
"""

from __future__ import annotations

import logging
import tempfile

from interlock import EffectFunction, Interlock, Outcome
from interlock.testing import SimulatedCrash

logging.disable(logging.WARNING)
refunds: list[dict[str, object]] = []


def create_refund(order: str, amount: int, key: str) -> dict[str, object]:
    """The service: the same key gives the same refund."""
    for refund in refunds:
        if refund["key"] == key:
            return refund
    refunds.append({"order": order, "amount": amount, "key": key})
    return refunds[-1]


def open_gate(directory: str) -> tuple[Interlock, EffectFunction[Outcome]]:
    """What the agent's process does when it starts."""
    gate = Interlock(directory)

    @gate.effect(
        key=lambda order: f"refund:{order}",
        premises=lambda order, idempotency_key: {
            "refunded_by_others": sum(
                int(str(r["amount"])) for r in refunds if r["order"] == order and r["key"] != idempotency_key
            )
        },
        lookup=lambda idempotency_key: next((r for r in refunds if r["key"] == idempotency_key), None),
        dedupes=True,
        window=24 * 3600,
    )
    def refund_money(order: str, amount: int, idempotency_key: str) -> dict[str, object]:
        return create_refund(order, amount, idempotency_key)

    return gate, refund_money


def main() -> None:
    """Play it."""
    with tempfile.TemporaryDirectory() as directory:
        gate, refund_money = open_gate(directory)
        try:
            gate.submit(refund_money.proposal("881", 2000), crash_before_effect=True)
        except SimulatedCrash:
            print("the agent died after it had written down the refund, before it sent it")
        create_refund("881", 2000, "by hand")
        print("support refunded $20 by hand")

        gate, refund_money = open_gate(directory)
        for outcome in gate.recover():
            print(f"after the restart: {outcome}")
            print(outcome.for_person)
            print("the receipt holds together:", outcome.receipt().verify().ok)
        print(f"refunded in all: ${sum(int(str(r['amount'])) for r in refunds) / 100:.0f}")
        gate.close()


if __name__ == "__main__":
    main()
