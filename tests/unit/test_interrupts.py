"""What ends a send from outside or says no on a later try: interrupts, exits, rejected resends, forks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from interlock import NotSent, Rejected
from interlock.effects import Kind
from interlock.testing import SimulatedCrash
from tests.unit.conftest import World

TIERS = pytest.mark.parametrize("tier", [1, 2, 3])


@TIERS
@pytest.mark.parametrize("landed", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("by", ["the same process", "another process"])
def test_interrupted_in_the_send(world: World, tier: int, landed: bool, error: type[BaseException], by: str) -> None:
    """An interrupt passes through; the effect stays open until it is recovered by the tier's means, here or elsewhere."""

    def interrupt() -> None:
        raise error

    if landed:
        world.service.after = interrupt
    else:
        world.service.before = interrupt
    gate = world.gate()
    refund = world.refund(gate, tier)
    with pytest.raises(error):
        refund("881", 2000)
    world.service.before = world.service.after = lambda: None
    if by == "another process":
        gate = world.gate()
        refund = world.refund(gate, tier)
    wanted = {
        1: "COMMITTED_BY_RETRY",
        2: "COMMITTED_ON_QUERY" if landed else "REAPPLIED_AFTER_QUERY",
        3: "AMBIGUOUS",
    }[tier]
    assert [str(outcome) for outcome in gate.recover()] == [wanted]
    assert len(world.service.ledger) == (landed if tier == 3 else 1)


@pytest.mark.parametrize("answer", [Rejected("already refunded"), NotSent("offline"), ConnectionRefusedError()])
@pytest.mark.parametrize("landed", [False, True])
@pytest.mark.parametrize("looks_up", [False, True])
def test_a_no_to_a_resend_speaks_for_the_resend_alone(
    world: World, answer: Exception, landed: bool, looks_up: bool
) -> None:
    """Tier 1, the first answer lost, the resend is refused: never said not to have happened where the first one landed."""
    answers: list[Exception] = [answer, TimeoutError()]

    def reply() -> None:
        if answers:
            raise answers.pop()

    # A request that landed may have lost its answer; one that did not land lost the request.
    if landed:
        world.service.after = reply
    else:
        world.service.before = reply
    options = {} if looks_up else {"lookup": None}
    gate = world.gate()
    refund = world.refund(gate, 1, **options)
    outcome = refund("881", 2000)
    if looks_up:
        rejected = "rejected" if isinstance(answer, Rejected) else "absent"
        assert str(outcome) == ("COMMITTED_ON_QUERY" if landed else f"FAILED:{rejected}")
        return
    assert str(outcome) == "IN_FLIGHT:unanswered"
    answers.extend([answer] * 10)
    assert {str(refund("881", 2000)) for _ in range(3)} == {"IN_FLIGHT:unanswered"}
    world.clock.advance(3600)
    assert str(refund("881", 2000)) == "AMBIGUOUS"
    assert len(world.service.ledger) == landed


SCRIPT = """
import json, os, sys, threading
from interlock import Interlock

sent, go_on, started = [], threading.Event(), threading.Event()

def declare(gate):
    def pay(order):
        started.set()
        go_on.wait(10)
        return "paid"
    return gate.effect(key=lambda order: order)(pay)

gate = Interlock(sys.argv[1])
pay = declare(gate)
sender = threading.Thread(target=lambda: sent.append(str(pay("1"))))
sender.start()
started.wait(10)
read, write = os.pipe()
child = os.fork()
if child == 0:
    go_on.set()  # the child's own
    told = []
    own = Interlock(sys.argv[1])
    for here, ask in ((gate, pay), (own, declare(own))):
        told += [str(ask("1")), *(str(outcome) for outcome in here.recover()), str(ask("2"))]
        told.append(here.journal.worker)
        here.close()
    os.write(write, json.dumps(told).encode())
    os._exit(0)
os.waitpid(child, 0)
told = json.loads(os.read(read, 65536))
print(json.dumps({"child": told, "owner": gate.journal.worker}))
go_on.set()
sender.join()
print(json.dumps({"sender": sent, "again": str(pay("1")), "ok": gate.journal.verify().ok}))
"""


def test_a_fork_owns_nothing(tmp_path: Path, root: Path) -> None:
    """A child that is forked while a send is open is a worker of its own: it neither sends nor ends what its parent sends."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        check=False,
    )
    assert run.returncode == 0, run.stderr
    first, last = (json.loads(line) for line in run.stdout.splitlines())
    *inherited, heir, in_flight, open_too, second, opener = first["child"]
    assert inherited == ["IN_FLIGHT:sender_alive", "IN_FLIGHT:sender_alive", "COMMITTED"]
    assert [in_flight, open_too, second] == ["IN_FLIGHT:sender_alive", "IN_FLIGHT:sender_alive", "DUPLICATE_IGNORED"]
    assert len({heir, opener, first["owner"]}) == 3
    assert last == {"sender": ["COMMITTED"], "again": "DUPLICATE_IGNORED", "ok": True}


FORKS = """
import json, os, sys
from interlock import Interlock, Rejected

gate, parent, how = Interlock(sys.argv[1]), os.getpid(), sys.argv[2]

@gate.effect(key=lambda order: order)
def pay(order):
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return "paid"
    if how == "returns":
        return "in the child"
    raise {"rejects": Rejected, "raises": TimeoutError, "exits": SystemExit}[how]

gate.recover()
try:
    outcome = pay("1")
    told = [str(outcome), outcome.value, [str(entry.kind) for entry in outcome.history.entries]]
except BaseException as error:
    told = [type(error).__name__]
print(json.dumps(told), flush=True)
if os.getpid() != parent:
    os._exit(0)
gate.close()
"""


@pytest.mark.parametrize("how", ["returns", "rejects", "raises", "exits"])
def test_a_function_that_forks_answers_in_its_parent_alone(tmp_path: Path, root: Path, how: str) -> None:
    """What the function comes to in a forked child is no answer: nothing of it is recorded, least of all that nothing was sent."""
    command = [sys.executable, "-W", "ignore", "-c", FORKS, str(tmp_path), how]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=root, check=False)
    assert run.returncode == 0, run.stderr
    child, parent = (json.loads(line) for line in run.stdout.splitlines())
    assert child == ["SystemExit" if how == "exits" else "JournalError"]
    assert parent == ["COMMITTED", "paid", ["PROPOSED", "AUTHORIZED", "DISPATCHED", "COMMITTED"]]


@pytest.mark.parametrize("answer", [Rejected("already refunded"), NotSent("offline")])
async def test_a_late_no_to_a_resend_speaks_for_the_resend_alone(world: World, answer: Exception) -> None:
    """The first request landed and its answer was lost; a resend times out, and is refused later: nothing is said to have failed."""
    options: dict[str, Any] = {"lookup": None, "timeout": 0.05}
    first = world.gate()
    with pytest.raises(SimulatedCrash):
        first.submit(world.refund(first, 1, **options).proposal("881", 2000), crash_at="after_send")
    gate = world.gate()
    refund = world.refund(gate, 1, **options)
    goes_on = threading.Event()

    def refuses() -> None:
        goes_on.wait(30)
        raise answer

    world.service.before = refuses
    assert [str(outcome) for outcome in await gate.arecover()] == ["IN_FLIGHT:sender_alive"]
    goes_on.set()
    assert await gate.adrain() == 0
    world.service.before = lambda: None
    assert str(await refund.asubmit(["881", 2000])) == "COMMITTED_BY_RETRY"
    assert len(world.service.ledger) == 1
    assert {entry.kind for entry, _ in world.journal.store.order}.isdisjoint({Kind.FAILED})


async def test_a_late_no_says_nothing_of_what_was_sent_since(world: World) -> None:
    """A sender out of sight is given up, another one sends again; what the first is told then does not end what that one sent."""
    options: dict[str, Any] = {"lookup": None, "timeout": 0.05}
    gate, other = world.gate(), world.gate()
    refund = world.refund(gate, 1, **options)
    world.refund(other, 1, **options)
    goes_on = threading.Event()

    def refuses() -> None:
        goes_on.wait(30)
        raise Rejected("late")

    world.service.before = refuses
    assert str(await refund.asubmit(["881", 2000])) == "IN_FLIGHT:sender_alive"
    world.journals[-2].cut_off()
    world.clock.advance(1)

    def dies() -> None:
        raise KeyboardInterrupt

    world.service.before, world.service.after = lambda: None, dies
    with pytest.raises(KeyboardInterrupt):
        other.recover()
    goes_on.set()
    assert await gate.adrain() == 0
    world.service.after = lambda: None
    ((effect_id, _),) = other.journal.open_effects()
    assert other.journal.load(effect_id).kind is Kind.DISPATCHED
    assert len(world.service.ledger) == 1


@pytest.mark.parametrize("by", ["this call", "another process"])
@pytest.mark.parametrize("error", [TimeoutError, KeyboardInterrupt])
def test_what_had_no_answer_may_still_be_on_its_way(world: World, by: str, error: type[BaseException]) -> None:
    """The send has ended and the request has not: it lands while an absence is waited for, and is found instead of sent again."""
    gate, other = world.gate(), world.gate()
    refund = world.refund(gate, 2)
    world.refund(other, 2)
    sleep = world.clock.sleep
    told: list[Any] = []

    def lost() -> None:
        raise error

    def lands(seconds: float) -> None:
        (key,) = world.service.sends
        world.service.ledger.setdefault(key, "paid")
        sleep(seconds)

    world.clock.sleep = lands  # type: ignore[method-assign]
    world.service.before = lost
    if error is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            refund("881", 2000)
        told += (gate if by == "this call" else other).recover()
    elif by == "this call":
        told.append(refund("881", 2000))
    else:

        def asked_meanwhile() -> None:
            assert [str(outcome) for outcome in other.recover()] == ["IN_FLIGHT:sender_alive"]
            lost()

        world.service.before = asked_meanwhile
        assert refund("881", 2000).ok
        told.append(refund("881", 2000))
    assert str(told[0]) in ("COMMITTED_ON_QUERY", "DUPLICATE_IGNORED")
    assert len(world.service.sends) == 1
