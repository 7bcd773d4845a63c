"""What a run and an application get from the gate; without Restate's server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import stripe
from restate import TerminalError
from restate.exceptions import RetryableError

from benchmarks.services.stripe import LocalStripe
from interlock import ConfigurationError, Interlock, JournalError, NotSent, OutcomeError, Rejected
from interlock.integrations.restate import AMBIGUOUS, BAD_INPUT, FAILED
from interlock.restate import gated, recovering
from interlock.rules.canonical import derive_id
from interlock.targets.stripe import stripe_refund
from interlock.testing.ledger import RefundService


async def answered(*_: Any) -> None:
    """Stands where Restate's application would."""


@pytest.mark.parametrize("raised", [Rejected("card_declined"), TimeoutError()])
async def test_what_another_attempt_cannot_change_is_terminal(tmp_path: Path, raised: Exception) -> None:
    """What the service declined, and what nobody can know, ends Restate's retries."""
    with Interlock(tmp_path / "journal") as gate:

        @gate.effect(key=lambda order: order)
        def refund(order: str) -> None:
            raise raised

        with pytest.raises(TerminalError) as failed:
            await gated(refund)(order="881")
    assert failed.value.status_code == (FAILED if isinstance(raised, Rejected) else AMBIGUOUS)
    assert failed.value.metadata is not None
    assert failed.value.message.startswith(failed.value.metadata["interlock.status"])


@pytest.mark.parametrize("raised", [ConnectionRefusedError(), NotSent("not_sent")])
async def test_what_was_never_sent_is_retried_as_the_run_says(tmp_path: Path, raised: Exception) -> None:
    """What never left the machine is an ordinary exception, so that the intervals of the run's own options apply."""
    with Interlock(tmp_path / "journal") as gate:

        @gate.effect(key=lambda order: order)
        def refund(order: str) -> None:
            raise raised

        with pytest.raises(OutcomeError, match="FAILED:not_sent"):
            await gated(refund)(order="881")


async def test_in_flight_comes_again_when_the_gate_says(tmp_path: Path) -> None:
    """While another sender has it, Restate is asked to come again after what the gate advises."""
    service = RefundService(tmp_path / "service")
    service.lay("slow", order_id="881", delay_s=0.5)
    with Interlock(tmp_path / "journal") as gate, Interlock(tmp_path / "journal") as other:

        def declare(on: Interlock) -> Any:
            @on.effect(key=lambda order: order, name="refund")
            def refund(order: str, idempotency_key: str) -> dict[str, Any]:
                return service.create_refund(order, 20, idempotency_key)

            return refund

        first, second = declare(gate), declare(other)
        sending = asyncio.create_task(gated(first)(order="881"))
        await asyncio.to_thread(service.wait_for_arrival, "881")
        with pytest.raises(RetryableError) as later:
            await gated(second)(order="881")
        assert later.value.retry_after is not None
        assert later.value.retry_after.total_seconds() > 0
        assert await gated(second, wait=5)(order="881") == await sending


async def test_it_is_judged_by_what_the_decider_saw(tmp_path: Path) -> None:
    """Facts that an earlier run read are compared with today's; changed ones refuse that decision for good, and another is judged anew."""
    service = RefundService(tmp_path / "service")
    with Interlock(tmp_path / "journal") as gate:

        @gate.effect(key=lambda order: order, premises=lambda order: service.get_order(order))
        def refund(order: str) -> dict[str, Any]:
            return service.create_refund(order, 20)

        seen = service.get_order("881")
        service.refund_by_hand("881", 5)
        for facts in (seen, None):
            with pytest.raises(TerminalError, match="REFUSED:stale_premise"):
                await gated(refund, decision="one", seen=facts)(order="881")
        assert len(service.refunds()) == 1
        assert await gated(refund, decision="two")(order="881") == service.refunds()[1]


async def test_arguments_that_cannot_be_taken_are_terminal(tmp_path: Path) -> None:
    """The same arguments come again with every attempt, so what is wrong with them ends the retries."""
    with Interlock(tmp_path / "journal") as gate:

        @gate.effect(key=lambda order: order)
        def refund(order: str) -> None: ...

        with pytest.raises(TerminalError) as failed:
            await gated(refund)(order="")
    assert failed.value.status_code == BAD_INPUT


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # the SDK's own way of posting through httpx
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_ready_made_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asynchronous: bool) -> None:
    """A refund at Stripe that was declared ready-made is taken as it is, sync or async, and what is refused is terminal."""
    with LocalStripe(tmp_path / "stripe") as service, Interlock(tmp_path / "journal") as gate:
        payment = service.client().v1.payment_intents.create(
            {
                "amount": 10_000,
                "currency": "usd",
                "payment_method": "pm_card_visa",
                "confirm": True,
                "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
            }
        )
        client: Any = service.client()
        if asynchronous:
            client = stripe.StripeClient(
                "sk_test_local", base_addresses={"api": service.url}, http_client=stripe.HTTPXClient(timeout=5)
            )
        refund = stripe_refund(gate, client, key=lambda case: f"refund:{case.order}", asynchronous=asynchronous)
        case = {"order": "881", "payment_intent": payment.id}
        made = await gated(refund, run="refund")(case, amount=2000)
        assert made["object"] == "refund"
        (proposed, *_) = gate.journal.load(derive_id(refund.name, "refund:881")).entries
        assert proposed.data["origin"] == {"run": "refund"}
        monkeypatch.setattr(
            refund.connection, "run", None
        )  # what has landed is answered from the record, and nothing is asked
        monkeypatch.setattr(refund.connection, "arun", None)
        assert await gated(refund)(case, amount=2000) == made
        monkeypatch.undo()
        assert await gated(refund, decision="another")(case, amount=2000) == made
        with pytest.raises(TerminalError, match="conflicting_payload"):
            await gated(refund)(case, amount=500)
        assert service.refunded(payment.id) == (2000, 1)
        if asynchronous:
            await client._requestor._client._client_async.aclose()


def test_gated_takes_an_effect(tmp_path: Path) -> None:
    """A plain function is refused where the handler is written, not when it runs."""
    with pytest.raises(ConfigurationError, match=r"@gate\.effect"):
        gated(print)  # type: ignore[arg-type]


def test_recovering_takes_an_application_and_a_gate(tmp_path: Path) -> None:
    """Something else is refused before anything is served."""
    with pytest.raises(ConfigurationError, match="Interlock"):
        recovering(answered, "journal")  # type: ignore[arg-type]
    with Interlock(tmp_path / "journal") as gate, pytest.raises(ConfigurationError, match=r"restate\.app"):
        recovering("app", gate)  # type: ignore[arg-type]


LIFESPAN = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]


class Server:
    """An ASGI server as far as an application can tell: what it says, and what it was told."""

    def __init__(self, gate: Interlock) -> None:
        self.served: list[str] = []
        self.told: list[str] = []
        self.ends = asyncio.Event()
        self.app = recovering(self.serve, gate)

    async def serve(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        self.served.append(scope["path"])

    async def live(self) -> None:
        """The lifespan."""
        said = iter(LIFESPAN)

        async def receive() -> dict[str, Any]:
            message = next(said)
            if message["type"] == "lifespan.shutdown":
                await self.ends.wait()
            return message

        async def send(message: dict[str, Any]) -> None:
            self.told.append(message["type"])

        await self.app({"type": "lifespan"}, receive, send)

    async def request(self, path: str) -> None:
        await self.app({"type": "http", "path": path}, None, None)


async def test_while_it_recovers_the_application_listens_and_serves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server starts at once; requests wait for recovery; one that is given up ends it for nobody; shutdown waits for it, too."""
    with Interlock(tmp_path / "journal") as gate:
        settled, begun = asyncio.Event(), 0

        async def arecover() -> None:
            nonlocal begun
            begun += 1
            await settled.wait()

        monkeypatch.setattr(gate, "arecover", arecover)
        server = Server(gate)
        living = asyncio.create_task(server.live())
        first, second = (asyncio.create_task(server.request(path)) for path in ("/first", "/second"))
        await asyncio.sleep(0.01)
        assert server.told == ["lifespan.startup.complete"]
        first.cancel()
        server.ends.set()
        await asyncio.sleep(0.01)
        assert (server.served, living.done()) == ([], False)
        settled.set()
        await second
        await living
        assert (server.served, begun) == (["/second"], 1)
        assert server.told == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_without_a_lifespan_the_first_request_recovers(tmp_path: Path) -> None:
    """A server that knows no lifespan: what a crash left open is settled all the same before the application sees a request."""
    with Interlock(tmp_path / "journal") as gate:
        recovered: list[str] = []
        server = Server(gate)
        again = gate.arecover

        async def arecover() -> Any:
            assert server.served == []
            recovered.append("")
            return await again()

        gate.arecover = arecover  # type: ignore[method-assign]
        await asyncio.gather(server.request("/first"), server.request("/second"))
        await server.request("/third")
        assert (len(recovered), sorted(server.served)) == (1, ["/first", "/second", "/third"])


async def test_while_the_journal_cannot_be_read_no_request_is_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each request asks anew, fails, and reaches no handler."""
    gate = Interlock(tmp_path / "journal")
    gate.close()
    server = Server(gate)
    living = asyncio.create_task(server.live())
    for _ in range(2):
        with pytest.raises(JournalError):
            await server.request("/first")
    server.ends.set()
    await living
    assert server.served == []
    assert "nothing is served" in caplog.text


async def test_the_end_waits_for_a_recovery_that_began_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one failed, and a request has begun another: it is this one that the end of the application waits for."""
    with Interlock(tmp_path / "journal") as gate:
        settled, begun = asyncio.Event(), 0

        async def arecover() -> None:
            nonlocal begun
            begun += 1
            if begun == 1:
                raise JournalError("not now")
            await settled.wait()

        monkeypatch.setattr(gate, "arecover", arecover)
        server = Server(gate)
        living = asyncio.create_task(server.live())
        await asyncio.sleep(0.01)
        asked = asyncio.create_task(server.request("/first"))
        await asyncio.sleep(0.01)
        server.ends.set()
        await asyncio.sleep(0.01)
        assert not living.done()
        settled.set()
        await asked
        await living
        assert (server.served, begun) == (["/first"], 2)
