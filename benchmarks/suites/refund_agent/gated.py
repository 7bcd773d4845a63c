"""The arm this project is about: the same refund behind Interlock, at three tiers.

The three functions differ only in what they declare about the service. The report prints the first beside the hand check.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import stripe

from benchmarks.suites.refund_agent.answer import Answer
from benchmarks.suites.refund_agent.arm import Hooks, Place
from benchmarks.suites.refund_agent.baselines import send
from benchmarks.suites.refund_agent.case import Request, is_harmless, own_refund, refunds_by_others, shown
from benchmarks.suites.refund_agent.client import connect
from benchmarks.suites.refund_agent.crash import Died, Manner, Point
from interlock import Interlock, Outcome, Status, Verdict, equals, tolerates, unchanged
from interlock.errors import SimulatedCrash
from interlock.ports import SystemClock, Uptime

WINDOW = timedelta(hours=24)
ASK_AGAIN = 20
HTTP_CONFLICT = 409
WAIT_S = 10.0


class ShiftedClock(SystemClock):
    """The machine's clocks, as if more time had passed or the wall clock had been set."""

    def __init__(self, *, wall_offset_s: float, passed_s: float) -> None:
        self._wall = timedelta(seconds=wall_offset_s + passed_s)
        self._passed_s = passed_s

    def now(self) -> datetime:
        """The wall clock."""
        return datetime.now(UTC) + self._wall

    def uptime(self) -> Uptime:
        """The clock nobody sets: it shows what passed, and never what the wall clock was set to."""
        real = super().uptime()
        return Uptime(real.boot, real.seconds + self._passed_s)


def verdict_of(error: BaseException) -> Verdict | None:
    """What Stripe's exceptions say about whether the refund landed; None where they say nothing."""
    if isinstance(error, stripe.CardError):
        return Verdict.REJECTED
    if isinstance(error, stripe.StripeError) and error.http_status == HTTP_CONFLICT:
        return Verdict.IN_USE
    return None


def declare(gate: Interlock, place: Place, request: Request, hooks: Hooks) -> Any:
    """The refund function behind the gate, at the tier of the place."""
    client = connect(place.door, sends_key=place.sends_key, timeout_s=place.timeout_s)
    desk, payment = place.desk, request.payment
    others = tolerates(is_harmless, why="refunds that name another case") if request.tolerant else unchanged()
    hold: dict[str, Any] = {"settle_after": place.settle_after_s, "timeout": place.timeout_s}

    def tier_1() -> Any:
        @gate.effect(
            key=lambda order: f"refund:{order}",
            premises=lambda idempotency_key: {
                "eligible": desk.is_eligible(),
                "by_others": refunds_by_others(client, payment, idempotency_key),
            },
            expect={"eligible": equals(True), "by_others": others},
            allowed=desk.may_refund,
            lookup=lambda idempotency_key: own_refund(client, payment, idempotency_key),
            dedupes=True,
            window=WINDOW,
            classify=verdict_of,
            **hold,
        )
        def refund_money(order: str, amount: int, idempotency_key: str) -> dict[str, Any]:
            return shown(send(client, request.with_amount(amount), idempotency_key, hooks))

        return refund_money

    def tier_2() -> Any:
        @gate.effect(
            key=lambda order: f"refund:{order}",
            premises=lambda idempotency_key: {
                "eligible": desk.is_eligible(),
                "by_others": refunds_by_others(client, payment, idempotency_key),
            },
            expect={"eligible": equals(True), "by_others": others},
            allowed=desk.may_refund,
            lookup=lambda idempotency_key: own_refund(client, payment, idempotency_key),
            classify=verdict_of,
            **hold,
        )
        def refund_money(order: str, amount: int, idempotency_key: str) -> dict[str, Any]:
            return shown(send(client, request.with_amount(amount), idempotency_key, hooks))

        return refund_money

    def tier_3() -> Any:
        @gate.effect(
            key=lambda order: f"refund:{order}",
            premises=lambda: {"eligible": desk.is_eligible()},
            expect={"eligible": equals(True)},
            allowed=desk.may_refund,
            classify=verdict_of,
            **hold,
        )
        def refund_money(order: str, amount: int, idempotency_key: str) -> dict[str, Any]:
            return shown(send(client, request.with_amount(amount), idempotency_key, hooks))

        return refund_money

    return {1: tier_1, 2: tier_2, 3: tier_3}[place.tier or 3]()


class Gated:
    """A worker with a gate. Each call opens the gate as a new process would."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._gates: list[Interlock] = []

    def run(self, request: Request, hooks: Hooks) -> Answer:
        """As the README says: `recover()` once, on startup; then decide now, and submit."""
        gate, refund_money = self._open(request, hooks)
        gate.recover()
        proposal = refund_money.propose((request.order, request.amount), decision=f"approval {request.approval}")
        hooks.after_decision()
        crash = hooks.crash
        simulated = crash.point if crash.manner is Manner.SIMULATED else None
        try:
            outcome = gate.submit(
                proposal,
                wait=WAIT_S if hooks.waits else 0.0,
                crash_before_effect=simulated is Point.BEFORE_SEND,
                crash_after_effect=simulated is Point.BEFORE_ACK,
            )
        except SimulatedCrash as crashed:
            raise Died from crashed
        return _answer(outcome)

    def recover(self, request: Request) -> Answer:
        """What the README says: `recover()` once, on startup; then the answer for this case."""
        gate, _ = self._open(request, Hooks())
        for _ in range(ASK_AGAIN):
            for outcome in gate.recover(wait=WAIT_S):
                if outcome.status is not Status.IN_FLIGHT:
                    return _answer(outcome)
                time.sleep(outcome.retry_after or 0.1)
        return Answer(status="UNCLEAR")

    def redecide(self, request: Request) -> Answer:
        """`recover()` on startup; then the model, asked again, calls the tool with what it says now."""
        gate, refund_money = self._open(request, Hooks())
        gate.recover(wait=WAIT_S)
        return _answer(refund_money(request.order, request.amount))

    def close(self) -> None:
        """Close every gate that was opened."""
        for gate in self._gates:
            gate.close()

    def _open(self, request: Request, hooks: Hooks) -> tuple[Interlock, Any]:
        place = self._place
        clock = ShiftedClock(wall_offset_s=place.wall_offset_s, passed_s=place.passed_s)
        gate = Interlock(place.directory / "interlock", clock=clock)
        self._gates.append(gate)
        # The gate's own crash flags end a simulated worker; a killed one ends itself inside the function.
        inside = hooks if hooks.crash.manner is not Manner.SIMULATED else Hooks()
        return gate, declare(gate, place, request, inside)


def _answer(outcome: Outcome) -> Answer:
    value = outcome.value if isinstance(outcome.value, dict) else {}
    entries = outcome.history.entries if outcome.history is not None else ()
    details = {
        "effect_id": outcome.effect_id,
        "changed": {name: dict(change) for name, change in outcome.changes.items()},
        "journal": [
            {"n": entry.n, "kind": str(entry.kind), "at": entry.at, "by": entry.by, "hash": entry.hash}
            for entry in entries
        ],
    }
    return Answer(status=str(outcome), refund=value.get("id"), details=details)
