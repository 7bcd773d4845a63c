"""What stands beside the workflows: errors that survive DBOS's serializers, the retry hook, and what is refused at the door."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dbos import DBOS, DBOSConfig, Serializer, SetWorkflowID, WorkflowSerializationFormat
from pydantic import BaseModel

from interlock import ConfigurationError, Interlock, NotSent, Rejected
from interlock.dbos import (
    Ambiguous,
    EffectNotDone,
    Failed,
    InFlight,
    Refused,
    gated,
    launch,
    run_effect,
    run_effect_async,
    should_retry,
)
from interlock.integrations.dbos._adapter import LONGEST_PAUSE_S, SOON_TRIES, _pause_s


class Money(BaseModel):
    """A result with a type of its own."""

    minor: int


class Plain(Serializer):
    """JSON and nothing else, as a user's own serializer may be."""

    def serialize(self, data: Any) -> str:
        return json.dumps({"error": str(data)} if isinstance(data, BaseException) else data)

    def deserialize(self, serialized_data: str) -> Any:  # type: ignore[override] - DBOS's own signature has no self
        return json.loads(serialized_data)

    def name(self) -> str:
        return "plain"


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Interlock]:
    with Interlock(tmp_path / "journal") as made:
        yield made


@pytest.fixture
def desk(tmp_path: Path, gate: Interlock, request: pytest.FixtureRequest) -> Iterator[Interlock]:
    """DBOS in this process; an effect `pay` whose first calls fail as the gate's `failures` say."""
    config: DBOSConfig = {
        "name": "adapter",
        "system_database_url": f"sqlite:///{tmp_path}/dbos.db",
        "application_version": "v1",
        "log_level": "CRITICAL",
    }
    if hasattr(request, "param"):
        config["serializer"] = request.param
    DBOS.destroy(destroy_registry=True)
    DBOS(config=config)
    yield gate
    DBOS.destroy(destroy_registry=True)


def error(kind: type[EffectNotDone], **data: Any) -> EffectNotDone:
    return kind("said", {"status": "X", "retry_after": None, "can_ask_again": False, **data})


@pytest.mark.parametrize(
    ("given", "again"),
    [
        (error(Refused), False),
        (error(Ambiguous), False),
        (error(Failed), False),
        (error(Failed, can_ask_again=True), True),
        (error(InFlight), False),
        (error(InFlight, retry_after=1.0), True),
        (ConfigurationError("no"), False),
        (OSError("flaky"), True),
    ],
)
def test_should_retry(given: BaseException, again: bool) -> None:
    """What another attempt cannot change is not attempted again; anything else is DBOS's business, as without the hook."""
    assert should_retry(given) is again


def test_errors_survive_pickling() -> None:
    """DBOS's default serializer keeps class, words and outcome of an error."""
    kept = pickle.loads(pickle.dumps(error(Refused, status="REFUSED:lease")))
    assert (type(kept), str(kept), kept.status) == (Refused, "said", "REFUSED:lease")


def test_portable_format_keeps_the_outcome(desk: Interlock) -> None:
    """A workflow in DBOS's portable JSON format fails with the outcome under `data`, for readers in other languages."""

    @desk.effect(key=lambda order: order, allowed=lambda: False)
    def pay(order: str) -> str:
        return order

    @DBOS.workflow(serialization_type=WorkflowSerializationFormat.PORTABLE)
    def flow(order: str) -> str:
        return str(run_effect(pay, order))

    launch(desk)
    with SetWorkflowID("w1"):
        handle = DBOS.start_workflow(flow, "881")
    with pytest.raises(Refused):
        handle.get_result()
    kept: Any = DBOS.list_workflows(workflow_ids=["w1"])[0].error
    assert kept.name == "Refused"
    assert kept.data["status"] == "REFUSED:lease"


@pytest.mark.parametrize("desk", [Plain()], indirect=True)
def test_own_serializer_takes_every_step(desk: Interlock) -> None:
    """`run_effect` records plain data only, and gives the typed result back: now, and from the record."""

    @desk.effect(key=lambda order: order, premises=lambda: {"left": 3})
    def pay(order: str) -> Money:
        return Money(minor=20)

    seen: list[Any] = []

    @DBOS.workflow()
    def flow(order: str) -> int:
        seen.append(run_effect(pay, order))
        return int(seen[-1].minor)

    launch(desk)
    with SetWorkflowID("w1"):
        assert flow("881") == 20
    DBOS.fork_workflow("w1", 3).get_result()
    assert seen == [Money(minor=20)] * 2


def test_ready_made_effect(desk: Interlock) -> None:
    """An effect that wraps a declared one, as the ready-made ones do, is taken too, by the sync and by the async form."""

    class ReadyMade:
        """What `stripe_refund` gives: a name, a gate, and a way to propose."""

        def __init__(self) -> None:
            @desk.effect(key=lambda order: order, name="pay")
            def pay(order: str) -> Money:
                return Money(minor=20)

            self.gate, self.name, self.proposal = desk, "pay", pay.proposal

    pay = ReadyMade()

    @DBOS.workflow()
    def flow(order: str) -> int:
        return int(run_effect(pay, order).minor)

    @DBOS.workflow()
    async def aflow(order: str) -> int:
        return int((await run_effect_async(pay, order)).minor)

    launch(desk)
    assert flow("881") == 20
    assert DBOS.start_workflow(aflow, "882").get_result() == 20


def test_failure_before_the_send_is_tried_again_by_dbos(desk: Interlock) -> None:
    """What never left the machine is tried three times by the step's own retries, and lands in the third."""
    calls: list[str] = []

    @desk.effect(key=lambda order: order)
    def pay(order: str) -> str:
        calls.append(order)
        if len(calls) < 3:
            raise NotSent("offline")
        return "paid"

    @DBOS.workflow()
    def flow(order: str) -> str:
        return str(run_effect(pay, order, options={"interval_seconds": 0.01}))

    launch(desk)
    assert flow("881") == "paid"
    assert calls == ["881"] * 3


@pytest.mark.parametrize(("raised", "tries"), [(NotSent, 2), (Rejected, 1)])
def test_failure_ends_as_failed(desk: Interlock, raised: type[Exception], tries: int) -> None:
    """When DBOS's attempts are used up, and at once where the service said no, the workflow gets Failed with the outcome."""
    calls: list[str] = []

    @desk.effect(key=lambda order: order)
    def pay(order: str) -> str:
        calls.append(order)
        raise raised()

    @DBOS.workflow()
    def flow(order: str) -> str:
        return str(run_effect(pay, order, options={"interval_seconds": 0.01, "max_attempts": 2}))

    launch(desk)
    with pytest.raises(Failed) as failed:
        flow("881")
    assert failed.value.status == ("FAILED:not_sent" if raised is NotSent else "FAILED:rejected")
    assert len(calls) == tries


def test_run_effect_stands_in_a_workflow(desk: Interlock) -> None:
    """Outside a workflow, and inside a step, `run_effect` says where it belongs and sends nothing."""

    @desk.effect(key=lambda order: order)
    def pay(order: str) -> str:
        raise AssertionError("sent")

    @DBOS.step()
    def step(order: str) -> str:
        return str(run_effect(pay, order))

    @DBOS.workflow()
    def flow(order: str) -> str:
        return step(order)

    launch(desk)
    for call in (lambda: run_effect(pay, "881"), lambda: flow("881")):
        with pytest.raises(ConfigurationError, match="stands in a workflow"):
            call()


@pytest.mark.parametrize("wait", [-1, float("nan")])
def test_wait_is_a_time(desk: Interlock, wait: float) -> None:
    """A `wait=` that is no time is refused before anything is recorded."""

    @desk.effect(key=lambda order: order)
    def pay(order: str) -> str:
        raise AssertionError("sent")

    @DBOS.workflow()
    def flow(order: str) -> str:
        return str(run_effect(pay, order, wait=wait))

    launch(desk)
    with pytest.raises(ConfigurationError, match="number of seconds"):
        flow("881")


def test_gated_works_outside_a_workflow(gate: Interlock) -> None:
    """A step's body that is called as a plain function does its effect all the same, without ids of DBOS."""

    @gate.effect(key=lambda order: order)
    def pay(order: str) -> str:
        return "paid"

    assert gated(gate, pay.proposal("881")) == "paid"


def test_launch_takes_a_gate() -> None:
    """Anything but a gate is refused before DBOS is launched."""
    with pytest.raises(ConfigurationError, match="takes the gate"):
        launch("journal")  # type: ignore[arg-type]


def test_pauses_grow() -> None:
    """The first questions come when the gate advises; then the pause doubles up to a minute, and never exceeds what is left of `wait=`."""
    pauses = [_pause_s({"retry_after": 1.0}, tries, 0.0, None) for tries in range(SOON_TRIES + 9)]
    assert pauses[:SOON_TRIES] == [1.0] * SOON_TRIES
    assert pauses[SOON_TRIES] == 2.0
    assert pauses[-1] == LONGEST_PAUSE_S
    assert _pause_s({"retry_after": 90.0}, 20, 0.0, None) == 90.0
    assert _pause_s({"retry_after": 1.0}, 0, 4.5, 5.0) == 0.5
    assert _pause_s({"retry_after": 1.0}, 0, 5.0, 5.0) is None
    assert _pause_s({"retry_after": None}, 0, 0.0, None) is None
