"""Effects in Temporal activities, on Temporal's own development server, with workers that are really killed."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.util
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, Worker

from interlock import ConfigurationError, Interlock, NotSent, Outcome, Rejected, Status
from interlock.errors import SimulatedCrash
from interlock.integrations.temporal import AMBIGUOUS, BAD_INPUT, FAILED, IN_FLIGHT, REFUSED
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
SHORT_TASK = timedelta(seconds=1)
"""Until the server takes a workflow task, and the local activity in it, from a dead worker."""


class QUEUE:
    """The task queue of the test that runs: what an earlier one left behind is not this one's work."""

    name = ""


@pytest.fixture(autouse=True)
def queue() -> None:
    """A new one for each test."""
    QUEUE.name = f"refunds-{uuid.uuid4()}"


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


def wait_for(done: Callable[[], bool]) -> None:
    until = time.monotonic() + WITHIN_S
    while not done():
        assert time.monotonic() < until, "not in time"
        time.sleep(0.02)


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
        command = [sys.executable, str(HERE / "desk.py"), self.address, str(self.directory), QUEUE.name]
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
        process.kill()  # a stopped one, too
        process.wait()


@pytest.fixture
def service(tmp_path: Path) -> RefundService:
    return RefundService(tmp_path / "service")


async def start(client: Client, order: str, activity: str = "refund", *, times: int = 1) -> WorkflowHandle[Any, Any]:
    return await client.start_workflow(
        desk.Refund.run, args=[order, activity, times], id=f"refund-{order}-{uuid.uuid4()}", task_queue=QUEUE.name
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


@pytest.mark.parametrize("activity", ["refund", "arefund", "returned", "sync_gate", "async_gate"])
async def test_it_lands_once(client: Client, workers: Workers, service: RefundService, activity: str) -> None:
    """Sync or async activity, sync or async effect, or a returned Outcome: the effect's value; so does another workflow of one key."""
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


@pytest.mark.parametrize("activity", ["refund", "arefund", "refund_slowly"])
async def test_stopped_worker(client: Client, workers: Workers, service: RefundService, activity: str) -> None:
    """A worker stopped in its send past the activity's time-out keeps the claim: the other one sends nothing, and gets its result."""
    service.lay("slow", order_id="881", delay_s=0.5)
    first = await workers.start()
    handle = await start(client, "881", activity)
    await asyncio.to_thread(service.wait_for_arrival, "881")
    first.send_signal(signal.SIGSTOP)
    await workers.start()
    until = time.monotonic() + WITHIN_S
    while (await handle.describe()).raw_description.pending_activities[0].attempt < 3:
        assert time.monotonic() < until, "nobody tried again"
        await asyncio.sleep(0.05)
    assert service.refunds("881") == []
    first.send_signal(signal.SIGCONT)
    assert await handle.result() == service.refunds("881")[0]
    assert service.arrivals("881") == 1


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


@pytest.mark.parametrize("activity", ["refund", "arefund", "sync_gate", "blind", "returned"])
async def test_cancelled_workflow_that_waits_is_told_what_landed(
    client: Client, workers: Workers, service: RefundService, activity: str
) -> None:
    """A workflow that waits for its cancelled activity gets the refund that landed meanwhile, where "cancelled" would say it did not."""
    service.lay("slow", order_id="881", delay_s=1.2)
    await workers.start()
    handle = await client.start_workflow(
        desk.PatientRefund.run, args=["881", activity], id=f"patient-{uuid.uuid4()}", task_queue=QUEUE.name
    )
    await asyncio.to_thread(service.wait_for_arrival, "881")
    await handle.cancel()
    assert await handle.result() == service.refunds("881")[0]
    assert service.arrivals("881") == 1


async def test_cancelled_before_the_send_sends_nothing(
    client: Client, workers: Workers, service: RefundService
) -> None:
    """An async activity that is cancelled while it still asks for permission sends nothing, and says that it was cancelled."""
    await workers.start()
    handle = await client.start_workflow(
        desk.PatientRefund.run, args=["881", "refund_if_asked"], id=f"patient-{uuid.uuid4()}", task_queue=QUEUE.name
    )
    asked = workers.directory / "asked"
    await asyncio.to_thread(wait_for, asked.exists)
    await handle.cancel()
    assert await handle.result() == "Cancelled"
    assert service.arrivals("881") == 0


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


@pytest.mark.parametrize("activity", ["typed", "typed_returned"])
async def test_a_typed_value_travels_as_json(
    client: Client, workers: Workers, service: RefundService, activity: str
) -> None:
    """A model with types that Temporal's own converter does not know is its JSON form, the first time and when it is told again."""
    await workers.start()
    results = [await (await start(client, "881", activity)).result() for _ in range(2)]
    made = {"id": service.refunds("881")[0]["id"], "at": "2026-01-01T00:00:00Z", "amount": "0.20"}
    assert results == [made, made]


async def test_arguments_that_are_not_acceptable_are_not_tried_again(
    client: Client, workers: Workers, service: RefundService
) -> None:
    """A call that the gate cannot take fails its workflow at once, where Temporal would try for ever."""
    await workers.start()
    handle = await start(client, "881", "unacceptable")
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert cause_of(failed.value).type == BAD_INPUT
    assert "amount" in str(cause_of(failed.value))
    assert service.refunds() == []


@pytest.mark.parametrize("activity", ["refund", "arefund", "returned"])
async def test_shut_down_in_the_middle_of_a_send(
    client: Client, workers: Workers, service: RefundService, tmp_path: Path, activity: str
) -> None:
    """A worker asked to end during a send outlasts its grace until the answer is on the record; the next worker sends nothing."""
    service.lay("slow", order_id="881", delay_s=1.2)
    first = await workers.start()
    handle = await start(client, "881", activity)
    await asyncio.to_thread(service.wait_for_arrival, "881")
    first.terminate()
    assert await workers.ended(first) == 0
    with Interlock(tmp_path / "journal") as gate:
        assert list(gate.journal.open_effects()) == []
    await workers.start()
    assert await handle.result() == service.refunds("881")[0]
    assert service.arrivals("881") == 1
    assert await attempts(handle) == 1


async def test_a_signal_that_revokes_while_the_activity_waits(
    client: Client, workers: Workers, service: RefundService
) -> None:
    """A Signal sent while the refund waits for a worker counts at its next attempt, where `allowed=` asks the workflow."""
    service.lay("kill_before", order_id="881")
    first = await workers.start()
    handle = await client.start_workflow(desk.RevocableRefund.run, "881", id="revocable-881", task_queue=QUEUE.name)
    await workers.ended(first)
    await handle.signal(desk.RevocableRefund.revoke)
    await workers.start()
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert cause_of(failed.value).type == REFUSED
    assert service.refunds() == []
    assert service.arrivals("881") == 1


async def test_a_signal_that_revokes_between_approval_and_send(
    client: Client, workers: Workers, service: RefundService
) -> None:
    """A Signal that comes before any worker has taken the approved refund counts: nothing is sent."""
    handle = await client.start_workflow(desk.RevocableRefund.run, "881", id="revocable-881", task_queue=QUEUE.name)
    await handle.signal(desk.RevocableRefund.revoke)
    await workers.start()
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert cause_of(failed.value).details[0]["status"] == "REFUSED:lease"
    assert service.arrivals("881") == 0


@pytest.mark.parametrize("at", ["", "kill_after", "kill_before"])
async def test_local_activity(client: Client, workers: Workers, service: RefundService, at: Any) -> None:
    """A local activity, which is run again with its whole workflow task after a crash, lands once too."""
    if at:
        service.lay(at, order_id="881")
    first = await workers.start()
    handle = await client.start_workflow(
        desk.LocalRefund.run, "881", id=f"local-{at}-{uuid.uuid4()}", task_queue=QUEUE.name, task_timeout=SHORT_TASK
    )
    if at:
        await workers.ended(first)
        await workers.start()
    assert await handle.result() == service.refunds("881")[0]
    assert len(service.refunds("881")) == 1


async def test_a_replay_settles_nothing(
    client: Client, workers: Workers, service: RefundService, tmp_path: Path
) -> None:
    """A replayer with the plugin, which a client hands on to it, leaves what is open alone: it is no worker."""
    process = await workers.start()
    handle = await start(client, "881")
    await handle.result()
    history = await handle.fetch_history()
    process.kill()
    process.wait()
    other = RefundService(tmp_path / "other")
    gate = interrupted(tmp_path, other)
    replayer = Replayer(
        workflows=[desk.Refund], plugins=[InterlockPlugin(gate)], workflow_runner=UnsandboxedWorkflowRunner()
    )
    await replayer.replay_workflow(history)
    assert len(list(gate.journal.open_effects())) == 1
    assert other.refunds() == []
    gate.close()


def interrupted(directory: Path, service: RefundService) -> Interlock:
    """A gate that finds one refund open, whose sender is dead and has sent nothing."""

    def declared(name: str = "journal-2") -> tuple[Interlock, Any]:
        gate = Interlock(directory / name)

        @gate.effect(
            key=lambda order: order,
            lookup=lambda idempotency_key: service.find_refund(idempotency_key)["refund"],
            settle_after=0.01,
        )
        def refund(order: str, idempotency_key: str) -> dict[str, Any]:
            return service.create_refund(order, 20, idempotency_key)

        return gate, refund

    gate, refund = declared()
    with pytest.raises(SimulatedCrash):
        gate.submit(refund.proposal("882"), crash_before_effect=True)
    return declared()[0]


@pytest.mark.parametrize("recovers", [True, False])
async def test_the_plugin_recovers_before_the_worker_works(tmp_path: Path, recovers: bool) -> None:
    """With recovery what is open is settled before the worker takes work; without, it waits for whoever asks."""
    service = RefundService(tmp_path / "service")
    gate = interrupted(tmp_path, service)
    before: list[int] = []

    async def works(_: Any) -> None:
        before.append(len(service.refunds("882")))

    worker: Any = None
    await InterlockPlugin(gate, recover=recovers).run_worker(worker, works)
    assert before == [int(recovers)]
    gate.close()


async def test_the_plugin_waits_at_the_worker_s_end(tmp_path: Path) -> None:
    """A send that outlasted its `timeout=` is on the record when the worker has ended."""
    service = RefundService(tmp_path / "service")
    service.lay("slow", order_id="881", delay_s=0.9)
    with Interlock(tmp_path / "journal") as gate:

        @gate.effect(key=lambda order: order, timeout=0.6)
        async def refund(order: str) -> dict[str, Any]:
            return await service.acreate_refund(order, 20)

        async def works(_: Any) -> None:
            assert (await refund("881")).status is Status.IN_FLIGHT

        worker: Any = None
        await InterlockPlugin(gate).run_worker(worker, works)
        assert list(gate.journal.open_effects()) == []
        assert (await refund("881")).value == service.refunds("881")[0]
    assert service.arrivals("881") == 1


async def test_two_gates_in_one_worker(client: Client, tmp_path: Path) -> None:
    """Two plugins in one worker recover both gates, and outcomes of either become results and errors."""
    gates = [interrupted(tmp_path / name, RefundService(tmp_path / name / "service")) for name in ("one", "two")]

    @activity.defn
    def first() -> Outcome:
        outcome: Outcome = gates[0].effects["refund"]("883")
        return outcome

    @activity.defn
    def second() -> Outcome:
        outcome: Outcome = gates[1].effects["refund"]("884", decision="x", seen=None)
        return outcome

    async with Worker(
        client,
        task_queue=QUEUE.name,
        activities=[first, second],
        activity_executor=ThreadPoolExecutor(2),
        plugins=[InterlockPlugin(gate) for gate in gates],
    ):
        made = [
            await client.execute_activity(
                name, id=f"{name}-{uuid.uuid4()}", task_queue=QUEUE.name, start_to_close_timeout=timedelta(seconds=5)
            )
            for name in ("first", "second")
        ]
    assert [one["order_id"] for one in made] == ["883", "884"]
    assert [list(gate.journal.open_effects()) for gate in gates] == [[], []]
    for gate in gates:
        gate.close()


@pytest.mark.parametrize("is_async", [False, True])
async def test_heartbeats_keep_the_details(tmp_path: Path, is_async: bool) -> None:
    """A heartbeat of the gate says again what the last attempt had recorded: progress is not lost by it."""
    beats: list[tuple[Any, ...]] = []
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(
        environment.info, heartbeat_timeout=timedelta(seconds=0.3), heartbeat_details=["page 7"]
    )
    environment.on_heartbeat = lambda *details: beats.append(details)
    with Interlock(tmp_path / "journal") as gate:

        @gate.effect(key=lambda order: order)
        def refund(order: str) -> None:
            time.sleep(0.4)

        async def asynchronous() -> Any:
            return await gated(gate, await refund.aproposal("881"))

        if is_async:
            await environment.run(asynchronous)
        else:
            await asyncio.to_thread(environment.run, lambda: gated(gate, refund.proposal("881")))
    assert beats
    assert set(beats) == {("page 7",)}


async def test_in_flight_comes_again_when_the_gate_says(tmp_path: Path) -> None:
    """While another sender has it, Temporal is asked to come again after what the gate advises; with `wait=` the attempt waits itself."""
    service = RefundService(tmp_path / "service")
    service.lay("slow", order_id="881", delay_s=1.0)
    with Interlock(tmp_path / "journal") as gate, Interlock(tmp_path / "journal") as other:

        def declare(on: Interlock) -> Any:
            @on.effect(key=lambda order: order, name="refund")
            def refund(order: str, idempotency_key: str) -> dict[str, Any]:
                return service.create_refund(order, 20, idempotency_key)

            return refund

        first, second = declare(gate), declare(other)

        def attempt(effect: Any, wait: float | None = None) -> Any:
            return ActivityEnvironment().run(lambda: gated(effect.gate, effect.proposal("881"), wait=wait))

        sending = asyncio.create_task(asyncio.to_thread(attempt, first))
        await asyncio.to_thread(service.wait_for_arrival, "881")
        with pytest.raises(ApplicationError) as later:
            await asyncio.to_thread(attempt, second)
        assert (later.value.type, later.value.non_retryable) == (IN_FLIGHT, False)
        assert later.value.next_retry_delay == timedelta(seconds=later.value.details[0]["retry_after"])
        assert later.value.next_retry_delay > timedelta(0)
        assert await asyncio.to_thread(attempt, second, 10.0) == await sending
    assert service.arrivals("881") == 1


def test_a_long_story_is_cut(tmp_path: Path) -> None:
    """An error says what changed within the bounds of what Temporal keeps, however large the facts are."""
    with Interlock(tmp_path / "journal") as gate:
        seen = {"orders": ["x" * 1000] * 100}

        @gate.effect(key=lambda order: order, premises=lambda order: {"orders": []})
        def refund(order: str) -> None: ...

        with pytest.raises(ApplicationError) as failed:
            ActivityEnvironment().run(lambda: gated(gate, refund.proposal("881", seen=seen)))
    assert failed.value.type == REFUSED
    assert len(failed.value.message) <= 2000


@pytest.mark.parametrize(
    ("raised", "is_final"),
    [
        (Rejected("card_declined"), True),
        (Rejected("no", reason="not_sent"), True),
        (ConnectionRefusedError(), False),
        (NotSent("not_sent"), False),
        (NotSent("full", reason="queue_full"), False),
    ],
)
def test_a_failure_is_retried_only_if_nothing_left_the_machine(
    tmp_path: Path, raised: Exception, is_final: bool
) -> None:
    """What the service declined is the workflow's to decide; what was never sent Temporal may try again, whatever reason was given."""
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
