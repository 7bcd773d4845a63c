"""Effects in Temporal activities, on Temporal's own development server, with workers that are really killed."""

from __future__ import annotations

import asyncio
import importlib.util
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from interlock import ConfigurationError, Interlock, NotSent, Rejected
from interlock.integrations.temporal import AMBIGUOUS, FAILED, REFUSED
from interlock.temporal import InterlockPlugin, gated
from interlock.testing.ledger import RefundService

HERE = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("refund_desk", HERE / "desk.py")
assert _spec is not None
assert _spec.loader is not None
desk: Any = importlib.util.module_from_spec(_spec)
sys.modules.setdefault("refund_desk", desk)
_spec.loader.exec_module(desk)

WITHIN_S = 30.0


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Temporal's development server, on a port of its own."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [
        str(Path(sysconfig.get_path("scripts")) / "temporal"), "server", "start-dev", "--headless", "--ip", "127.0.0.1",
        "--port", str(port), "--db-filename", str(tmp_path_factory.mktemp("temporal") / "server.db"), "--log-level", "error",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            yield f"127.0.0.1:{port}"
        finally:
            server.terminate()


async def connect(address: str) -> Client:
    until = time.monotonic() + 20
    while True:
        try:
            return await Client.connect(address)
        except RuntimeError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.1)


class Workers:
    """Worker processes of one test."""

    def __init__(self, address: str, directory: Path) -> None:
        self.address = address
        self.directory = directory
        self.running: list[subprocess.Popen[bytes]] = []

    async def start(self) -> subprocess.Popen[bytes]:
        ready = self.directory / "ready"
        ready.unlink(missing_ok=True)
        command = [sys.executable, str(HERE / "desk.py"), self.address, str(self.directory)]
        process = await asyncio.to_thread(subprocess.Popen, command)
        self.running.append(process)
        until = time.monotonic() + WITHIN_S
        while not ready.exists():
            assert process.poll() is None, "the worker ended"
            assert time.monotonic() < until, "the worker did not come up"
            await asyncio.sleep(0.05)
        return process

    async def ended(self, process: subprocess.Popen[bytes]) -> int:
        return await asyncio.wait_for(asyncio.to_thread(process.wait), WITHIN_S)


@pytest.fixture
async def client(address: str) -> Client:
    return await connect(address)


@pytest.fixture
def workers(address: str, tmp_path: Path) -> Iterator[Workers]:
    made = Workers(address, tmp_path)
    yield made
    for process in made.running:
        process.kill()
        process.wait()


@pytest.fixture
def service(tmp_path: Path) -> RefundService:
    return RefundService(tmp_path / "service")


async def start(client: Client, order: str, activity: str = "refund", *, times: int = 1) -> WorkflowHandle[Any, Any]:
    return await client.start_workflow(
        desk.Refund.run, args=[order, activity, times], id=f"refund-{order}-{uuid.uuid4()}", task_queue=desk.QUEUE
    )


async def attempts(handle: WorkflowHandle[Any, Any]) -> int:
    """The attempts of the last activity, by the workflow's history."""
    started = [
        event.activity_task_started_event_attributes.attempt
        async for event in handle.fetch_history_events()
        if event.HasField("activity_task_started_event_attributes")
    ]
    return started[-1]


def cause_of(error: WorkflowFailureError) -> ApplicationError:
    """Why the activity failed."""
    activity: Any = error.cause
    cause = activity.cause
    assert isinstance(cause, ApplicationError)
    return cause


@pytest.mark.parametrize("activity", ["refund", "arefund", "returned"])
async def test_it_lands_once(client: Client, workers: Workers, service: RefundService, activity: str) -> None:
    """A sync activity, an async one, and one that returns its Outcome give the effect's value; so does another workflow of one key."""
    await workers.start()
    results = [await (await start(client, "881", activity)).result() for _ in range(2)]
    assert results == [service.refunds("881")[0]] * 2
    assert len(service.refunds("881")) == 1


@pytest.mark.parametrize("activity", ["refund", "arefund"])
@pytest.mark.parametrize("at", ["kill_after", "kill_before"])
async def test_killed_worker(client: Client, workers: Workers, service: RefundService, activity: str, at: Any) -> None:
    """A worker killed around the send leaves one refund: Temporal's second attempt settles it (dust#4272, temporal sdk-python#368)."""
    service.lay(at, order_id="881")
    first = await workers.start()
    handle = await start(client, "881", activity)
    assert await workers.ended(first) == -signal.SIGKILL
    await workers.start()
    assert await handle.result() == service.refunds("881")[0]
    assert len(service.refunds("881")) == 1
    assert await attempts(handle) == 2


async def test_revoked_during_the_outage(client: Client, workers: Workers, service: RefundService) -> None:
    """What was revoked while no worker ran is refused, not retried, and the workflow is told with the outcome as detail."""
    service.lay("kill_before", order_id="881")
    first = await workers.start()
    handle = await start(client, "881")
    await workers.ended(first)
    service.forbid("881")
    await workers.start()
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    cause = cause_of(failed.value)
    assert (cause.type, cause.non_retryable) == (REFUSED, True)
    assert cause.details[0]["status"].startswith("REFUSED:lease")
    assert service.refunds() == []
    assert await attempts(handle) == 2


async def test_nobody_can_know(client: Client, workers: Workers, service: RefundService) -> None:
    """Where the service can neither drop nor show it, AMBIGUOUS ends Temporal's unlimited retries (OpenCompany#131)."""
    service.lay("kill_after", order_id="881")
    first = await workers.start()
    handle = await start(client, "881", "blind")
    await workers.ended(first)
    await workers.start()
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert cause_of(failed.value).type == AMBIGUOUS
    assert len(service.refunds("881")) == 1
    assert await attempts(handle) == 2


async def test_timed_out_attempt_that_still_sends(client: Client, workers: Workers, service: RefundService) -> None:
    """While a timed-out attempt still sends beside its retry, the retry waits its turn and gets that send's result (dust#4272)."""
    service.lay("slow", order_id="881", delay_s=2.5)
    await workers.start()
    handle = await start(client, "881")
    assert await handle.result() == service.refunds("881")[0]
    assert len(service.refunds("881")) == 1
    assert service.arrivals("881") == 1
    assert await attempts(handle) > 1


async def test_heartbeats_while_it_sends(client: Client, workers: Workers, service: RefundService) -> None:
    """A send longer than the heartbeat timeout is not taken for a dead worker."""
    service.lay("slow", order_id="881", delay_s=1.0)
    await workers.start()
    handle = await start(client, "881", "refund_slowly")
    await handle.result()
    assert await attempts(handle) == 1
    assert service.arrivals("881") == 1


@pytest.mark.parametrize("activity", ["refund", "arefund"])
async def test_cancelled_in_the_middle_of_a_send(
    client: Client, workers: Workers, service: RefundService, activity: str
) -> None:
    """A workflow cancelled during a send does not lose the effect: it lands once, and a later workflow gets its result."""
    service.lay("slow", order_id="881", delay_s=0.6)
    await workers.start()
    handle = await start(client, "881", activity)
    await asyncio.to_thread(service.wait_for_arrival, "881")
    await handle.cancel()
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    assert await (await start(client, "881", activity)).result() == service.refunds("881")[0]
    assert service.arrivals("881") == 1


async def test_new_runs_of_one_request(client: Client, workers: Workers, service: RefundService) -> None:
    """Continue-as-new and a reset have new run ids and the same key, so nothing is sent again."""
    await workers.start()
    handle = await start(client, "881", times=3)
    await handle.result()
    described = await handle.describe()
    await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace="default",
            workflow_execution=WorkflowExecution(workflow_id=handle.id, run_id=described.run_id),
            reason="test",
            workflow_task_finish_event_id=4,
            request_id=str(uuid.uuid4()),
        )
    )
    assert await client.get_workflow_handle(handle.id).result() == service.refunds("881")[0]
    assert service.arrivals("881") == 1


async def test_two_workers_on_one_journal(client: Client, workers: Workers, service: RefundService) -> None:
    """Two live worker processes that get one request at the same time send it once."""
    await workers.start()
    await workers.start()
    service.lay("slow", order_id="881", delay_s=0.3)
    handles = [await start(client, "881") for _ in range(4)]
    results = await asyncio.gather(*(handle.result() for handle in handles))
    assert results == [service.refunds("881")[0]] * 4
    assert service.arrivals("881") == 1


async def test_ids_are_on_the_record(client: Client, workers: Workers, tmp_path: Path) -> None:
    """The workflow, its run, the activity and the attempt stand on the record; the key is the request's."""
    process = await workers.start()
    handle = await start(client, "881")
    await handle.result()
    process.kill()
    process.wait()
    with Interlock(tmp_path / "journal") as gate:
        (entry,) = [gate.journal.load(effect_id).entries[0] for effect_id in {row[0] for row in gate.journal._scan()}]
    assert entry.data["key"] == "refund:881"
    assert entry.data["origin"]["workflow_id"] == handle.id
    assert entry.data["origin"]["attempt"] == 1


@pytest.mark.parametrize(
    ("raised", "is_final"),
    [(Rejected("card_declined"), True), (ConnectionRefusedError(), False), (NotSent("not_sent"), False)],
)
def test_a_failure_is_retried_only_if_nothing_left_the_machine(
    tmp_path: Path, raised: Exception, is_final: bool
) -> None:
    """What the service declined is the workflow's to decide; what was never sent Temporal may try again."""
    with Interlock(tmp_path / "journal") as gate:

        @gate.effect(key=lambda order: order)
        def refund(order: str) -> None:
            raise raised

        with pytest.raises(ApplicationError) as failed:
            ActivityEnvironment().run(lambda: gated(gate, refund.proposal("881")))
    assert (failed.value.type, failed.value.non_retryable) == (FAILED, is_final)


def test_plugin_takes_a_gate() -> None:
    """Something else than a gate is refused at the door."""
    with pytest.raises(ConfigurationError, match="Interlock"):
        InterlockPlugin("journal")  # type: ignore[arg-type]
