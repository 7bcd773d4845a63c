"""Effects in Restate runs, on Restate's own server, with workers and servers that are really killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness.server import listens
from benchmarks.services.restate import MISSING, RestateServer, find_server, free_ports
from interlock import Interlock
from interlock.testing.ledger import RefundService

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
WITHIN_S = 30.0

pytestmark = pytest.mark.skipif(find_server() is None, reason=MISSING)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestateServer]:
    """Restate's own server."""
    with RestateServer(tmp_path_factory.mktemp("restate")) as made:
        yield made


class Workers:
    """Worker processes of one test, each a single process that serves the desk."""

    def __init__(self, server: RestateServer, directory: Path) -> None:
        self.server = server
        self.directory = directory
        self.port = free_ports(1)[0]
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, port: int = 0) -> subprocess.Popen[bytes]:
        """A worker, known to the server; on the port of the one before, unless one is named."""
        first = port != 0 or not self.running
        port = port or self.port
        ready = self.directory / f"ready-{port}"
        ready.unlink(missing_ok=True)
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen([sys.executable, str(HERE / "desk.py"), str(port), str(self.directory)], env=env)
        self.running.append(process)
        wait_for(lambda: ready.exists() or process.poll() is not None)
        assert process.poll() is None, "the worker ended"
        if first:
            self.server.register(f"http://127.0.0.1:{port}")
        return process

    def attempts(self, order: str) -> int:
        """How often the handler was entered for this order, in all workers."""
        return len((self.directory / f"attempts-{order}").read_text().split())


def wait_for(done: Callable[[], bool]) -> None:
    until = time.monotonic() + WITHIN_S
    while not done():
        assert time.monotonic() < until, "not in time"
        time.sleep(0.02)


@pytest.fixture
def workers(server: RestateServer, tmp_path: Path) -> Iterator[Workers]:
    made = Workers(server, tmp_path)
    yield made
    for process in made.running:
        process.kill()
        process.wait()


@pytest.fixture
def service(tmp_path: Path) -> RefundService:
    return RefundService(tmp_path / "service")


@pytest.mark.parametrize("by", ["refund", "arefund"])
def test_it_lands_once(server: RestateServer, workers: Workers, service: RefundService, by: str) -> None:
    """A sync effect and an async one give the effect's value; so does another invocation of the same request."""
    workers.start()
    results = [server.call("Desk/refund", {"order": "881", "by": by}) for _ in range(2)]
    assert results == [(200, service.refunds("881")[0])] * 2
    assert service.arrivals("881") == 1


@pytest.mark.parametrize("by", ["refund", "arefund"])
@pytest.mark.parametrize("at", ["kill_after", "kill_before"])
def test_killed_worker(server: RestateServer, workers: Workers, service: RefundService, by: str, at: Any) -> None:
    """A worker killed around the send leaves one refund: Restate's second attempt settles it."""
    service.lay(at, order_id="881")
    first = workers.start()
    invocation = server.send("Desk/refund", {"order": "881", "by": by})
    assert first.wait(WITHIN_S) == -signal.SIGKILL
    workers.start()
    assert server.attach(invocation) == (200, service.refunds("881")[0])
    assert len(service.refunds("881")) == 1
    assert workers.attempts("881") == 2


def test_revoked_during_the_outage(server: RestateServer, workers: Workers, service: RefundService) -> None:
    """What was revoked while no worker ran is refused, not retried, and the caller is told why."""
    service.lay("kill_before", order_id="881")
    first = workers.start()
    invocation = server.send("Desk/refund", {"order": "881"})
    first.wait(WITHIN_S)
    service.forbid("881")
    workers.start()
    status, told = server.attach(invocation)
    assert (status, told["message"].partition(":")[0]) == (412, "REFUSED")
    assert told["metadata"]["interlock.status"].startswith("REFUSED:lease")
    assert service.refunds() == []
    assert workers.attempts("881") == 2


def test_nobody_can_know(server: RestateServer, workers: Workers, service: RefundService) -> None:
    """Where the service can neither drop nor show it, AMBIGUOUS ends Restate's unlimited retries."""
    service.lay("kill_after", order_id="881")
    first = workers.start()
    invocation = server.send("Desk/refund", {"order": "881", "by": "blind"})
    first.wait(WITHIN_S)
    workers.start()
    status, told = server.attach(invocation)
    assert (status, told["metadata"]["interlock.status"]) == (409, "AMBIGUOUS")
    assert len(service.refunds("881")) == 1
    assert workers.attempts("881") == 2


def test_a_calling_handler_gets_the_outcome(server: RestateServer, workers: Workers, service: RefundService) -> None:
    """A handler that calls another gets the refusal as a terminal error with the outcome as its metadata."""
    workers.start()
    service.forbid("881")
    status, told = server.call("Desk/caught", {"order": "881"})
    assert (status, told["code"]) == (200, 412)
    assert told["metadata"]["interlock.status"] == "REFUSED:lease"
    assert told["metadata"]["interlock.key"] == "refund:881"


@pytest.mark.parametrize("by", ["refund", "arefund"])
def test_aborted_attempt_that_still_sends(
    server: RestateServer, workers: Workers, service: RefundService, by: str
) -> None:
    """While an attempt that Restate gave up on still sends, the next ones wait their turn and get that send's result."""
    service.lay("slow", order_id="881", delay_s=2.5)
    workers.start()
    assert server.call("Desk/impatient", {"order": "881", "by": by}) == (200, service.refunds("881")[0])
    assert service.arrivals("881") == 1
    assert workers.attempts("881") > 1


def test_a_run_that_may_not_try_again(server: RestateServer, workers: Workers, service: RefundService) -> None:
    """A run with one attempt gives up while another sender has the effect; the next invocation gets that send's result."""
    service.lay("slow", order_id="881", delay_s=1.0)
    workers.start()
    first = server.send("Desk/refund", {"order": "881"})
    service.wait_for_arrival("881")
    status, told = server.call("Desk/refund", {"order": "881", "max_attempts": 1})
    assert (status, "IN_FLIGHT" in told["message"], told.get("metadata")) == (500, True, None)
    assert server.attach(first) == server.call("Desk/refund", {"order": "881"}) == (200, service.refunds("881")[0])
    assert service.arrivals("881") == 1


@pytest.mark.parametrize("by", ["refund", "arefund"])
def test_cancelled_in_the_middle_of_a_send(
    server: RestateServer, workers: Workers, service: RefundService, by: str
) -> None:
    """An invocation cancelled during a send does not lose the effect: it lands once, and a later one gets its result."""
    service.lay("slow", order_id="881", delay_s=0.8)
    workers.start()
    invocation = server.send("Desk/refund", {"order": "881", "by": by})
    service.wait_for_arrival("881")
    server.cancel(invocation)
    assert server.attach(invocation)[0] == 409
    assert server.call("Desk/refund", {"order": "881", "by": by}) == (200, service.refunds("881")[0])
    assert service.arrivals("881") == 1


@pytest.mark.parametrize("by", ["refund", "arefund"])
def test_killed_invocation(server: RestateServer, workers: Workers, service: RefundService, by: str) -> None:
    """An invocation killed during a send does not lose the effect: it lands once, and a later one gets its result."""
    service.lay("slow", order_id="881", delay_s=0.8)
    workers.start()
    invocation = server.send("Desk/refund", {"order": "881", "by": by})
    service.wait_for_arrival("881")
    server.steer(invocation, "kill")
    assert server.attach(invocation)[0] == 409
    assert server.call("Desk/refund", {"order": "881", "by": by}) == (200, service.refunds("881")[0])
    assert service.arrivals("881") == 1


@pytest.mark.parametrize("by", ["refund", "arefund"])
def test_paused_and_resumed(server: RestateServer, workers: Workers, service: RefundService, by: str) -> None:
    """An invocation that was paused during a send goes on with that send's result."""
    service.lay("slow", order_id="881", delay_s=0.8)
    workers.start()
    invocation = server.send("Desk/refund", {"order": "881", "by": by})
    service.wait_for_arrival("881")
    server.steer(invocation, "pause")
    wait_for(lambda: server.status(invocation) == "paused")
    server.steer(invocation, "resume")
    assert server.attach(invocation) == (200, service.refunds("881")[0])
    assert service.arrivals("881") == 1


@pytest.mark.parametrize("by", ["refund", "arefund"])
def test_stopped_worker(server: RestateServer, workers: Workers, service: RefundService, by: str) -> None:
    """A worker stopped in its send keeps the claim: another one waits its turn, and gets that send's result once it goes on."""
    service.lay("slow", order_id="881", delay_s=0.5)
    stopped = workers.start()
    first = server.send("Desk/refund", {"order": "881", "by": by})
    service.wait_for_arrival("881")
    stopped.send_signal(signal.SIGSTOP)
    workers.start(free_ports(1)[0])  # it gets the new invocations
    second = server.send("Desk/refund", {"order": "881", "by": by})
    wait_for(lambda: workers.attempts("881") > 2)
    assert service.refunds("881") == []
    stopped.send_signal(signal.SIGCONT)
    assert [server.attach(one) for one in (first, second)] == [(200, service.refunds("881")[0])] * 2
    assert service.arrivals("881") == 1


@pytest.mark.parametrize("both", [False, True])
def test_killed_server(server: RestateServer, workers: Workers, service: RefundService, both: bool) -> None:
    """A server killed during the send, alone or with its worker, goes on with its invocation: one refund."""
    service.lay("slow", order_id="881", delay_s=0.8)
    first = workers.start()
    invocation = server.send("Desk/refund", {"order": "881"})
    service.wait_for_arrival("881")
    server.kill()
    if both:
        first.kill()
        first.wait(WITHIN_S)
    server.start()
    if both:
        workers.start()
    assert server.attach(invocation) == (200, service.refunds("881")[0])
    assert len(service.refunds("881")) == 1
    assert workers.attempts("881") >= 2


def test_the_ingress_key_is_not_the_request(server: RestateServer, workers: Workers, service: RefundService) -> None:
    """Restate answers a known idempotency key with the old result whatever the body; the gate's key judges the payload."""
    workers.start()
    asked = {"order": "881", "amount": 20}
    status, made = server.call("Desk/refund", asked, idempotency_key="one")
    assert (status, made["amount"]) == (200, 20)
    # Restate alone: another amount, even another order, and nobody is told.
    assert server.call("Desk/refund", {"order": "882", "amount": 90}, idempotency_key="one") == (200, made)
    # A fresh ingress key for the same request, and another amount under the same request.
    assert server.call("Desk/refund", asked, idempotency_key="two") == (200, made)
    status, told = server.call("Desk/refund", {"order": "881", "amount": 90}, idempotency_key="three")
    assert (status, told["metadata"]["interlock.status"]) == (412, "REFUSED:conflicting_payload")
    assert service.refunds() == [made]


def test_an_object_s_key_names_the_request(server: RestateServer, workers: Workers, service: RefundService) -> None:
    """Calls of one virtual object at the same time are one refund, and another amount is refused."""
    service.lay("slow", order_id="881", delay_s=0.2)
    workers.start()
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda amount: server.call("Order/881/refund", amount), [20] * 4))
    assert results == [(200, service.refunds("881")[0])] * 4
    assert server.call("Order/881/refund", 30)[0] == 412
    assert service.arrivals("881") == 1


def test_a_sync_send_does_not_hold_the_loop(server: RestateServer, workers: Workers, service: RefundService) -> None:
    """While a plain function sends for long, the same process serves other invocations."""
    service.lay("slow", order_id="881", delay_s=3.0)
    workers.start()
    invocation = server.send("Desk/refund", {"order": "881"})
    service.wait_for_arrival("881")
    assert server.call("Desk/ping")[1] == "pong"
    assert service.refunds("881") == [], "the ping came after the send"
    assert server.attach(invocation)[0] == 200


def test_new_invocations_of_one_request(server: RestateServer, workers: Workers, service: RefundService) -> None:
    """A handler that fails after the run, and an invocation restarted as a new one, do not send again."""
    workers.start()
    invocation = server.send("Desk/refund", {"order": "881", "fails_once": True})
    assert server.attach(invocation) == (200, service.refunds("881")[0])
    assert workers.attempts("881") == 2
    again = server.restart(invocation)
    assert again != invocation
    assert server.attach(again) == (200, service.refunds("881")[0])
    assert service.arrivals("881") == 1


def test_two_workers_on_one_journal(server: RestateServer, workers: Workers, service: RefundService) -> None:
    """Two live worker processes that get one request at the same time send it once."""
    service.lay("slow", order_id="881", delay_s=1.0)
    workers.start()
    first = server.send("Desk/refund", {"order": "881"})
    service.wait_for_arrival("881")
    workers.start(free_ports(1)[0])  # from now on it gets the new invocations; the first one stays where it is
    second = server.send("Desk/refund", {"order": "881"})
    assert [server.attach(one) for one in (first, second)] == [(200, service.refunds("881")[0])] * 2
    assert service.arrivals("881") == 1
    assert len(set((workers.directory / "attempts-881").read_text().split())) == 2


def test_ids_are_on_the_record(server: RestateServer, workers: Workers, tmp_path: Path) -> None:
    """The invocation, its service, handler and run stand on the record; the key is the request's."""
    process = workers.start()
    invocation = server.send("Desk/refund", {"order": "881"})
    server.attach(invocation)
    process.kill()
    process.wait()
    with Interlock(tmp_path / "journal") as gate:
        (effect_id,) = {row[0] for row in gate.journal._scan()}
        entry = gate.journal.load(effect_id).entries[0]
    assert entry.data["origin"] == {
        "run": "refund",
        "invocation_id": invocation,
        "service": "Desk",
        "handler": "refund",
    }


def test_a_worker_that_starts_recovers(workers: Workers, service: RefundService, tmp_path: Path) -> None:
    """What a dead worker left is settled when the application starts, before any invocation asks for it."""
    service.lay("kill_after", order_id="881")
    code = (
        "import pathlib, sys\n"
        "from interlock import Interlock\n"
        "from interlock.testing.ledger import RefundService\n"
        "here = pathlib.Path(sys.argv[1])\n"
        "gate, service = Interlock(here / 'journal'), RefundService(here / 'service')\n"
        "@gate.effect(key=lambda order: f'refund:{order}')\n"
        "def refund_money(order: str, amount: int, idempotency_key: str) -> dict:\n"
        "    return service.create_refund(order, amount, idempotency_key)\n"
        "refund_money('881', 20)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == -signal.SIGKILL
    workers.start().kill()
    with Interlock(tmp_path / "journal") as gate:
        assert list(gate.journal.open_effects()) == []
    assert len(service.refunds("881")) == 1


def test_the_server_ends_with_its_starter(tmp_path: Path) -> None:
    """A process that dies leaves no server behind."""
    code = (
        "import os, pathlib, sys\n"
        "from benchmarks.services.restate import RestateServer\n"
        "server = RestateServer(pathlib.Path(sys.argv[1]))\n"
        "server.start()\n"
        "print(server.admin.rpartition(':')[2], flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT, check=False)
    port = int(done.stdout)
    wait_for(lambda: not listens(port))
