"""A request that was looked for and not found, and lands after that: before anything is sent again it is looked for once more."""

from __future__ import annotations

from typing import Any

import pytest

from interlock import Interlock, Rejected
from interlock.effects import Draft, Entry, History, Kind
from interlock.ports import Liveness
from interlock.rules.lifecycle import uncertain
from interlock.testing import SimulatedCrash
from tests.unit.conftest import World


class Declined(Exception):
    """The service's own no."""


class Network:
    """A service behind a network: each request is answered as `script` says, and may land when the test wants it to."""

    def __init__(self, *script: str, allowed: Any = True) -> None:
        self.script = list(script)
        self.world = World()
        self.sent: list[str] = []
        self.landed: list[str] = []
        self.allowed = True

    def declare(self, gate: Interlock, **options: Any) -> Any:
        """The refund of these tests: tier 1 with a look-up."""

        @gate.effect(
            key=lambda order: f"refund:{order}",
            name="refund",
            allowed=lambda: self.allowed,
            lookup=lambda idempotency_key: idempotency_key in self.landed,
            rejected_on=Declined,
            settle_after=0.05,
            binds=options.pop("binds", None),
            **({"dedupes": True, "window": 3600} | options),
        )
        def refund(order: str, idempotency_key: str, amount: int = 20) -> str:
            self.sent.append(idempotency_key)
            answer = self.script.pop(0) if self.script else "lands"
            if answer == "lost":
                raise TimeoutError("no answer")
            if answer == "rejected":
                raise Declined("rate limit")
            if idempotency_key not in self.landed:
                self.landed.append(idempotency_key)
            return "done"

        return refund


@pytest.mark.parametrize(
    "between", [(), ("refused",), ("refused", "refused"), ("lost", "refused"), ("lost", "lost", "refused")]
)
def test_it_is_looked_for_whatever_stands_in_between(between: tuple[str, ...]) -> None:
    """A refusal, or further tries under keys of their own, do not make the first request certain."""
    network = Network("lost", "lost", *[answer for step in between if step == "lost" for answer in ("lost", "lost")])
    refund = network.declare(network.world.gate())
    assert str(refund("881")) == "FAILED:absent"
    for step in between:
        network.allowed = step != "refused"
        assert str(refund("881")) == ("REFUSED:lease" if step == "refused" else "FAILED:absent")
    network.allowed = True
    network.landed.append(network.sent[0])
    sent = len(network.sent)
    assert str(refund("881")) == "COMMITTED_ON_QUERY"
    assert (len(network.sent), len(network.landed)) == (sent, 1)


def test_an_earlier_request_is_told_by_what_counts_now() -> None:
    """Between two tries of one request `binds=` was named: the first try, which lands late, is no request with other arguments."""
    network = Network("lost", "lost")
    assert str(network.declare(network.world.gate())("881")) == "FAILED:absent"
    gate = network.world.gate()
    refund = network.declare(gate, binds=("order",))
    with pytest.raises(SimulatedCrash):
        gate.submit(refund.proposal("881"), crash_at="after_dispatch")
    network.landed.append(network.sent[0])
    network.allowed = False
    gate = network.world.gate()
    network.declare(gate, binds=("order",))
    assert [str(outcome) for outcome in gate.recover()] == ["COMMITTED_ON_QUERY"]
    assert len(network.landed) == 1


def test_a_rejected_resend_is_no_answer_to_the_first_request() -> None:
    """The service said no to the second request alone; the first one lands later, and is found."""
    network = Network("lost", "rejected")
    refund = network.declare(network.world.gate())
    assert str(refund("881")) == "FAILED:rejected"
    network.landed.append(network.sent[0])
    assert str(refund("881")) == "COMMITTED_ON_QUERY"
    assert (len(network.sent), len(network.landed)) == (2, 1)


def test_one_request_that_was_rejected_is_certain() -> None:
    """Its answer speaks for it, so nothing is looked for: a look-up that fails stops nobody."""
    world = World()
    world.service.before = lambda: (_ for _ in ()).throw(Rejected("no"))
    refund = world.refund(world.gate(), 1, lookup=lambda: 1 / 0)
    assert str(refund("881", 2000)) == "FAILED:rejected"
    world.service.before = lambda: None
    assert str(refund("881", 2000)) == "COMMITTED"


@pytest.mark.parametrize("point", ["after_dispatch", "after_send"])
@pytest.mark.parametrize("dedupes", [True, False])
def test_recovery_looks_for_earlier_requests_too(point: str, dedupes: bool) -> None:
    """Killed in the second try, whose key is another one: the first request has landed meanwhile, and nothing is sent."""
    network = Network("lost", "lost") if dedupes else Network("lost", "rejected")
    options: dict[str, Any] = {} if dedupes else {"dedupes": False, "window": None}
    gate = network.world.gate()
    refund = network.declare(gate, **options)
    first = str(refund("881"))
    assert first == ("FAILED:absent" if dedupes else "FAILED:rejected")
    network.script = ["lost"]
    with pytest.raises(SimulatedCrash):
        gate.submit(refund.proposal("881"), crash_at=point)
    network.landed.append(network.sent[0])
    sent = len(network.sent)
    gate = network.world.gate()
    network.declare(gate, **options)
    (outcome,) = gate.recover()
    assert str(outcome) == "COMMITTED_ON_QUERY"
    assert len(network.sent) == sent


def test_recovery_finds_an_earlier_request_with_other_arguments() -> None:
    """What landed is not what was decided last: nobody can make one of the two, and a person is told."""
    network = Network("lost", "lost")
    gate = network.world.gate()
    refund = network.declare(gate)
    assert str(refund("881", amount=20)) == "FAILED:absent"
    with pytest.raises(SimulatedCrash):
        gate.submit(refund.proposal("881", amount=15, decision="another"), crash_at="after_dispatch")
    network.landed.append(network.sent[0])
    gate = network.world.gate()
    network.declare(gate)
    (outcome,) = gate.recover()
    assert str(outcome) == "AMBIGUOUS"
    assert "An earlier request of this effect, with other arguments, has landed" in outcome.detail
    assert len(network.landed) == 1


def test_what_landed_late_is_told_to_a_decision_on_other_arguments() -> None:
    """The first request landed after a second decision was refused: the difference that is told is from what landed."""
    network = Network("lost", "lost")
    refund = network.declare(network.world.gate())
    assert str(refund("881", amount=20)) == "FAILED:absent"
    network.allowed = False
    assert str(refund("881", amount=15, decision="another")) == "REFUSED:lease"
    network.landed.append(network.sent[0])
    network.allowed = True
    outcome = refund("881", amount=15, decision="another")
    assert str(outcome) == "REFUSED:conflicting_payload"
    assert outcome.changes == {"amount": {"rule": "as recorded first", "seen": 20, "now": 15}}
    assert outcome.history.kind is Kind.COMMITTED
    assert str(refund("881", amount=15, decision="another")) == "REFUSED:conflicting_payload"
    assert str(refund("881", amount=20)) == "DUPLICATE_IGNORED"
    assert len(network.sent) == 2


def test_a_lookup_of_an_earlier_request_that_fails_is_not_absence() -> None:
    """The service cannot be asked for the first key: nothing is sent until it can."""
    network = Network("lost", "lost", "lost", "lost")
    broken: set[str] = set()

    def lookup(idempotency_key: str) -> bool:
        if idempotency_key in broken:
            raise ConnectionError("not now")
        return idempotency_key in network.landed

    gate = network.world.gate()
    refund = gate.effect(
        key=lambda order: order, dedupes=True, window=3600, lookup=lookup, settle_after=0.05, name="r"
    )(network.declare(network.world.gate()).__wrapped__)
    assert str(refund("881")) == "FAILED:absent"
    assert str(refund("881")) == "FAILED:absent"
    broken.add(network.sent[0])
    assert str(refund("881")) == "IN_FLIGHT:lookup_failed"
    assert len(network.sent) == 4
    broken.clear()
    assert str(refund("881")) == "COMMITTED"


# --- the fold ---------------------------------------------------------------------------------------------------------


def history(*steps: str) -> History:
    """A history of letters: `P` proposed under the digest that follows, `D` dispatched under the key, `F` failed so, `R` refused."""
    entries: list[Entry] = []
    for step in steps:
        kind, _, word = step.partition(":")
        what = {"P": Kind.PROPOSED, "D": Kind.DISPATCHED, "F": Kind.FAILED, "R": Kind.REFUSED}[kind]
        said: dict[str, dict[str, Any]] = {
            "P": {"payload": {"amount": word}, "digest": word},
            "D": {"key": word},
            "F": {"reason": word, **({} if word in ("old", "absent") else {"verdict": word})},
            "R": {},
        }
        draft = Draft(what, "", said[kind])
        entries.append(Entry("e", len(entries), draft.kind, draft.at, "w", draft.data, b"", ""))
    return History("e", tuple(entries))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("P:a", []),
        ("P:a R", []),
        ("P:a D:1", ["1a"]),
        ("P:a D:1 F:rejected", []),
        ("P:a D:1 F:not_sent", []),
        ("P:a D:1 F:old", []),
        ("P:a D:1 F:absent", ["1a"]),
        ("P:a D:1 D:1 F:rejected", ["1a"]),
        ("P:a D:1 D:1 F:absent P:a R", ["1a"]),
        ("P:a D:1 R P:b D:1 F:rejected", ["1a"]),
        ("P:a D:1 R P:b D:1 R", ["1b", "1a"]),
        ("P:a D:1 D:1 F:absent P:a D:2 F:rejected P:a D:3 D:3 F:absent", ["3a", "1a"]),
    ],
)
def test_what_may_land_yet(steps: str, expected: list[str]) -> None:
    """Only an answer to a decision's one request makes it certain; the last one comes first, and each key and digest once."""
    assert [request.key + request.digest for request in uncertain(history(*steps.split()))] == expected


def test_an_earlier_sender_that_lives_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its deadline was, its request may still land: absent is not believed, and the caller is told that somebody sends."""
    world = World()
    gate = world.gate()
    with pytest.raises(SimulatedCrash):
        gate.submit(world.refund(gate, 2).proposal("881", 2000), crash_at="after_dispatch")
    ((effect_id, _),) = world.journal.open_effects()
    sender = world.gate().journal
    first = sender.load(effect_id).entries[-1]
    assert sender.append(sender.load(effect_id), [Draft(Kind.DISPATCHED, first.at, {**first.data, "attempt": 2})])
    sender.abandon()
    world.clock.advance(3600)

    class WithoutEnd(BaseException):
        """What would have waited for ever."""

    gate, pauses = world.gate(), list[float]()
    world.refund(gate, 2)
    proven = gate.journal._liveness
    monkeypatch.setattr(
        gate.journal, "_liveness", lambda by, one, n: Liveness.ALIVE if n == first.n else proven(by, one, n)
    )

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        world.clock.advance(seconds)
        if len(pauses) > 50:
            raise WithoutEnd

    monkeypatch.setattr(world.clock, "sleep", sleep)
    assert [str(outcome) for outcome in gate.recover()] == ["IN_FLIGHT:sender_alive"]
    assert world.service.sends == []
    monkeypatch.undo()
    assert [str(outcome) for outcome in gate.recover()] == ["REAPPLIED_AFTER_QUERY"]
