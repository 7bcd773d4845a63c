"""An approved $20 refund on a $100 payment, with real kills: a hand-written check beside the gate, at a local Stripe service."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import by_hand
import gated
import stripe
from desk import Case, Desk, connect

ROOT = Path(__file__).resolve().parents[2]
ACCIDENTS = ("none", "killed before", "killed after", "same by hand", "other by hand", "revoked", "first by hand")


def work(arm: str, url: str, directory: str, payment: str, dies: str = "") -> str:
    """The worker: takes the case from the queue, and refunds it. It may be killed on the way."""
    client, desk, case = connect(url, dies=dies), Desk(Path(directory)), Case(payment[-8:], payment)
    if arm == "hand":
        return by_hand.refund_case(client, desk, case, amount=2000)
    return gated.refund_case(client, desk, case, amount=2000, directory=Path(directory))


def play(arm: str, accident: str, url: str, directory: Path) -> tuple[str, int]:
    """One accident: what the worker said in the end, and what was refunded, read from the service."""
    client, desk = connect(url), Desk(directory)
    payment = client.v1.payment_intents.create(
        {
            "amount": 10_000,
            "currency": "usd",
            "payment_method": "pm_card_visa",
            "confirm": True,
            "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
        }
    ).id
    desk.approve(id="ap_1", by="ann", amount_minor=2000, revoked=False)
    job = [arm, url, str(directory), payment]
    if accident not in ("none", "first by hand"):
        dies = "after" if accident == "killed after" else "before"
        killed = subprocess.run([sys.executable, __file__, *job, dies], check=False)
        assert killed.returncode < 0, "the worker was to be killed"
    if accident.endswith("by hand"):
        amount = 500 if accident.startswith("other") else 2000
        client.v1.refunds.create({"payment_intent": payment, "amount": amount})
    if accident == "revoked":
        desk.revoke()
    said = work(*job)
    refunds: list[stripe.Refund] = client.v1.refunds.list({"payment_intent": payment}).data
    return said, sum(refund.amount for refund in refunds)


def main() -> None:
    """Play every accident with both."""
    wanted = dict(zip(ACCIDENTS, (2000, 2000, 2000, 2000, 2500, 0, 2000), strict=True))
    held = 0
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "benchmarks.services.stripe", "--dir", f"{scratch}/stripe"]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as service:
            assert service.stdout is not None
            url = json.loads(service.stdout.readline())["url"]
            for accident in ACCIDENTS:
                for arm in ("hand", "gate"):
                    directory = Path(scratch, f"{arm} {accident}")
                    directory.mkdir()
                    said, money = play(arm, accident, url, directory)
                    held += money == wanted[accident]
                    print(f"{accident:14} {arm}  ${money / 100:>5.2f}  {said}")
            service.kill()
    print(f"as wanted: {held} of {2 * len(ACCIDENTS)}")


if __name__ == "__main__":
    work(*sys.argv[1:]) if sys.argv[1:] else main()
