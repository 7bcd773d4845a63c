"""The Stripe part of docs/settlement.md, run as it stands against the local service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.services.stripe import LocalStripe
from interlock import Interlock
from tests.docs.page import blocks
from tests.settlement.endpoint import serving

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settlement.md"


def test_the_stripe_lines_of_the_page_work(tmp_path: Path) -> None:
    """What the page shows: a refund gated by hand, an endpoint, and a failed refund that is told by a webhook."""
    (block,) = [block for block in blocks(PAGE.name, PAGE.read_text("utf-8")) if block.language == "python-stripe"]
    told: list[Any] = []
    with LocalStripe(tmp_path / "stripe") as service, Interlock(tmp_path / "journal") as gate:
        client = service.client()
        served: list[Any] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await served[0](scope, receive, send)

        with serving(app) as url:
            asked: Any = {"url": url, "enabled_events": ["*"]}
            secret = client.v1.webhook_endpoints.create(asked).secret
            names: dict[str, Any] = {
                "gate": gate,
                "client": client,
                "signing_secret": secret,
                "tell_somebody": told.append,
            }
            exec(compile(block.source, PAGE.name, "exec"), names)
            served.append(names["app"])
            gate.recover()
            asked = {
                "amount": 10_000,
                "currency": "usd",
                "payment_method": "pm_card_visa",
                "confirm": True,
                "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
            }
            payment = client.v1.payment_intents.create(asked).id
            outcome = names["refund_payment"](payment, 2000)
            assert outcome.settlement == "accepted"
            service.settle_refund(outcome.value["id"], "failed", failure_reason="expired_or_canceled_card")
            from tests.settlement.test_stripe_money import eventually

            eventually(lambda: bool(told) and told[-1].settlement == "reversed", "the failed refund")
    assert told[-1].detail == "expired_or_canceled_card"
