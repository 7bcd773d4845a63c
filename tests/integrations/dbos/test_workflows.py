"""Effects in DBOS workflows, on SQLite and on PostgreSQL, with processes that are really killed and DBOS's own recovery."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock
from interlock.testing.ledger import RefundService

DAYS_S = str(5 * 24 * 3600)
SHAPES = ["by_step", "by_astep", "by_run_step", "by_effect", "by_aeffect"]
BOTH = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)

Start = Callable[..., Any]


def origin_of(directory: Path) -> dict[str, Any]:
    """The evidence beside the only proposal on the journal."""
    with Interlock(directory / "journal") as gate:
        (effect_id,) = {row[0] for row in gate.journal._scan()}
        return next(entry.data["origin"] for entry in gate.journal.load(effect_id).entries if entry.data.get("origin"))


@BOTH
@pytest.mark.parametrize("shape", SHAPES)
def test_it_lands_once(worker: Start, service: RefundService, shape: str) -> None:
    """A step, `DBOS.run_step` and `run_effect`, sync and async, give the effect's value; so does another workflow of one key."""
    desk = worker()
    for name in ("w1", "w2"):
        desk.ask("start", shape, name, "881")
        assert desk.ask("result", name) == {"value": service.refunds("881")[0]}
    assert service.arrivals("881") == 1


@BOTH
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("at", ["kill_after", "kill_before"])
def test_killed_around_the_send(worker: Start, service: RefundService, shape: str, at: Any) -> None:
    """A process killed around the send leaves one refund: DBOS runs the step again in the second process, which settles it."""
    service.lay(at, order_id="881")
    first = worker()
    first.tell("start", shape, "w1", "881")
    first.wait_killed()
    second = worker()
    assert second.ask("result", "w1") == {"value": service.refunds("881")[0]}
    assert len(service.refunds("881")) == 1
    assert second.ask("status", "w1") == {"status": "SUCCESS"}


@pytest.mark.parametrize("at", ["kill_after", "kill_before"])
def test_two_attempts(
    worker: Start, service: RefundService, attempts: Callable[[], int], tmp_path: Path, at: Any
) -> None:
    """The second run of the step is the last: it meets a settled effect, because `launch` recovers before DBOS does."""
    service.lay(at, order_id="881")
    first = worker()
    first.tell("start", "by_step", "w1", "881")
    first.wait_killed()
    second = worker(settle="3")  # longer than DBOS takes to run the workflow again
    assert len(second.recovered) == 1
    second.ask("result", "w1")
    assert attempts() == 2
    assert [json.loads(row)["open"] for row in (tmp_path / "attempts").read_text().splitlines()] == [0, 0]


@BOTH
@pytest.mark.parametrize("shape", ["by_step", "by_effect"])
def test_revoked_during_the_outage(
    worker: Start, service: RefundService, shape: str, attempts: Callable[[], int]
) -> None:
    """What was revoked while no process ran is refused, not retried, and the workflow's error carries the outcome through DBOS."""
    service.lay("kill_before", order_id="881")
    first = worker()
    first.tell("start", shape, "w1", "881")
    first.wait_killed()
    service.forbid("881")
    told = worker().ask("result", "w1")
    assert told["error"] == "Refused"
    assert told["status"].startswith("REFUSED:lease")
    assert told["data"]["key"] == "refund:881"
    assert service.refunds() == []
    assert shape != "by_step" or attempts() == 2


def test_nobody_can_know(worker: Start, service: RefundService, attempts: Callable[[], int]) -> None:
    """Where the service can neither drop nor show it, AMBIGUOUS ends the step although thirty attempts are allowed."""
    service.lay("kill_after", order_id="881")
    first = worker()
    first.tell("start", "by_blind", "w1", "881")
    first.wait_killed()
    told = worker().ask("result", "w1")
    assert (told["error"], told["status"]) == ("Ambiguous", "AMBIGUOUS")
    assert len(service.refunds("881")) == 1
    assert attempts() == 2


@BOTH
@pytest.mark.parametrize("shape", ["by_step", "by_astep", "by_effect", "by_aeffect"])
def test_two_live_processes_with_one_executor_id(worker: Start, service: RefundService, shape: str) -> None:
    """A second process recovers the workflow that the first one is running, and both run the step: one refund, one result."""
    service.lay("slow", order_id="881", delay_s=3.0)
    first, second = worker(), worker(hold="yes")
    first.ask("start", shape, "w1", "881")
    service.wait_for_arrival("881")
    second.launch()
    assert second.recovered[0].startswith("IN_FLIGHT:sender_alive")
    results = [first.ask("result", "w1"), second.ask("result", "w1")]
    assert results == [{"value": service.refunds("881")[0]}] * 2
    assert service.arrivals("881") == 1


@BOTH
def test_second_process_asks_while_the_first_one_sends(
    worker: Start, service: RefundService, attempts: Callable[[], int]
) -> None:
    """The two processes of that accident really run the step at the same time, and the second one comes again until it is settled."""
    service.lay("slow", order_id="881", delay_s=3.0)
    first, second = worker(), worker(hold="yes")
    first.ask("start", "by_step", "w1", "881")
    service.wait_for_arrival("881")
    second.launch()
    second.ask("result", "w1")
    assert attempts() > 2
    assert service.arrivals("881") == 1


@pytest.mark.parametrize("shape", ["by_step", "by_effect"])
@pytest.mark.parametrize("settles", ["version 2", "version 1"])
def test_old_version_wakes_up_days_later(worker: Start, service: RefundService, shape: str, settles: str) -> None:
    """A workflow of an old version that is picked up days later is judged by today's facts, not sent: somebody has refunded it since."""
    service.lay("kill_before", order_id="881")
    first = worker(version="v1")
    first.tell("start", shape, "w1", "881")
    first.wait_killed()
    service.refund_by_hand("881", 20)
    if settles == "version 2":
        other = worker(version="v2", later_s=DAYS_S)
        assert [code.split(":")[0] for code in other.recovered] == ["REFUSED"]
        assert other.ask("status", "w1") == {"status": "PENDING"}
        other.kill()
    told = worker(version="v1", later_s=DAYS_S).ask("result", "w1")
    # Where the other version's recovery has refused it, that stands, and is told without "at recovery".
    assert told["status"].startswith("REFUSED:stale_premise")
    assert [refund["id"][:8] for refund in service.refunds("881")] == ["re_hand_"]


def test_decision_outlives_the_process(worker: Start, service: RefundService) -> None:
    """`run_effect` judges by the facts of its decision, also where the process died before anything reached the gate's journal."""
    first = worker(version="v1", die="before the send")
    first.tell("start", "by_effect", "w1", "881")
    first.wait_killed()
    service.refund_by_hand("881", 20)
    second = worker(version="v1", later_s=DAYS_S)
    assert second.recovered == []
    told = second.ask("result", "w1")
    assert told["status"] == "REFUSED:stale_premise"
    assert len(service.refunds("881")) == 1


@BOTH
@pytest.mark.parametrize("shape", ["by_step", "by_effect"])
def test_fork(worker: Start, service: RefundService, shape: str) -> None:
    """A fork is a new workflow that runs the steps again; the key is the request's, so nothing is sent again, under no version."""
    desk = worker(version="v1")
    desk.ask("start", shape, "w1", "881")
    landed = desk.ask("result", "w1")
    desk.kill()
    desk = worker(version="v2")
    desk.ask("fork", "w1", "1", "w2")
    assert desk.ask("result", "w2") == landed
    assert service.arrivals("881") == 1


@BOTH
def test_fork_of_one_that_died_in_the_send(worker: Start, service: RefundService) -> None:
    """The fork of a workflow whose process died settles the old one's effect, and gets its result."""
    service.lay("kill_after", order_id="881")
    first = worker(version="v1")
    first.tell("start", "by_step", "w1", "881")
    first.wait_killed()
    desk = worker(version="v2")
    desk.ask("fork", "w1", "1", "w2")
    assert desk.ask("result", "w2") == {"value": service.refunds("881")[0]}
    assert service.arrivals("881") == 1


def test_fork_under_a_new_version_days_later(worker: Start, service: RefundService) -> None:
    """A fork of a workflow that died days ago before its send is judged by today's permission, which is gone, and sends nothing."""
    service.lay("kill_before", order_id="881")
    first = worker(version="v1")
    first.tell("start", "by_effect", "w1", "881")
    first.wait_killed()
    service.forbid("881")
    desk = worker(version="v2", later_s=DAYS_S)
    desk.ask("fork", "w1", "2", "w2")
    assert desk.ask("result", "w2")["status"].startswith("REFUSED:lease")
    assert service.refunds() == []


@pytest.mark.parametrize("shape", ["by_step", "by_astep", "by_preempted", "by_effect", "by_aeffect"])
def test_cancelled_in_the_middle_of_a_send(worker: Start, service: RefundService, shape: str) -> None:
    """A workflow cancelled during the send does not lose the effect: it lands once, and a later workflow gets its result."""
    service.lay("slow", order_id="881", delay_s=1.5)
    desk = worker()
    desk.ask("start", shape, "w1", "881")
    service.wait_for_arrival("881")
    desk.ask("cancel", "w1")
    assert "error" in desk.ask("result", "w1")
    desk.ask("start", shape, "w2", "881")
    assert desk.ask("result", "w2") == {"value": service.refunds("881")[0]}
    assert service.arrivals("881") == 1


@pytest.mark.parametrize("shape", ["by_step", "by_astep", "by_effect", "by_aeffect"])
def test_cancelled_and_resumed(worker: Start, service: RefundService, shape: str) -> None:
    """A workflow that is resumed while the send of its cancelled run still goes on gets that send's result."""
    service.lay("slow", order_id="881", delay_s=1.5)
    desk = worker()
    desk.ask("start", shape, "w1", "881")
    service.wait_for_arrival("881")
    desk.ask("cancel", "w1")
    desk.ask("resume", "w1")
    assert desk.ask("result", "w1") == {"value": service.refunds("881")[0]}
    assert service.arrivals("881") == 1


@pytest.mark.parametrize("shape", ["by_step", "by_astep", "by_effect", "by_aeffect"])
def test_ended_in_the_middle_of_a_send(worker: Start, service: RefundService, shape: str) -> None:
    """A process whose end waits for its workflows leaves nothing open, and the next one has the result."""
    service.lay("slow", order_id="881", delay_s=1.5)
    first = worker()
    first.ask("start", shape, "w1", "881")
    service.wait_for_arrival("881")
    first.ask("end", "10")
    first.kill()
    second = worker()
    assert second.recovered == []
    assert second.ask("result", "w1") == {"value": service.refunds("881")[0]}
    assert service.arrivals("881") == 1


@pytest.mark.parametrize("shape", ["by_astep", "by_aeffect"])
def test_ended_without_waiting(worker: Start, service: RefundService, shape: str) -> None:
    """DBOS's end cuts an async send off and records its workflow as failed: the next launch settles the effect, once."""
    service.lay("slow", order_id="881", delay_s=1.5)
    first = worker()
    first.ask("start", shape, "w1", "881")
    service.wait_for_arrival("881")
    first.ask("end", "0")
    first.kill()
    second = worker()
    assert second.recovered == ["REAPPLIED_AFTER_QUERY"]
    second.ask("start", shape, "w2", "881")
    assert second.ask("result", "w2") == {"value": service.refunds("881")[0]}
    assert len(service.refunds("881")) == 1


@pytest.mark.parametrize("shape", ["by_step", "by_effect", "by_aeffect"])
def test_stopped_process(worker: Start, service: RefundService, shape: str) -> None:
    """A process that is stopped in its send keeps the claim: another one waits, and gets the result once it goes on."""
    service.lay("slow", order_id="881", delay_s=1.0)
    first, second = worker(), worker(hold="yes")
    first.ask("start", shape, "w1", "881")
    service.wait_for_arrival("881")
    first.process.send_signal(signal.SIGSTOP)
    second.launch()
    second.ask("sleep", "2")
    assert service.refunds("881") == []
    first.process.send_signal(signal.SIGCONT)
    results = [second.ask("result", "w1"), first.ask("result", "w1")]
    assert results == [{"value": service.refunds("881")[0]}] * 2
    assert service.arrivals("881") == 1


def test_step_that_timed_out_still_sends(worker: Start, service: RefundService) -> None:
    """DBOS's next attempt of a step that timed out waits for the send that goes on, and gets its result."""
    service.lay("slow", order_id="881", delay_s=1.5)
    desk = worker()
    desk.ask("start", "by_hurried", "w1", "881")
    assert desk.ask("result", "w1") == {"value": service.refunds("881")[0]}
    assert service.arrivals("881") == 1


@pytest.mark.parametrize("shape", ["by_step", "by_effect"])
@pytest.mark.parametrize("at", ["raise_before", "raise_after"])
def test_retried_by_dbos_after_a_lost_answer(worker: Start, service: RefundService, shape: str, at: Any) -> None:
    """A send whose answer is lost is settled by the next attempts of the same step, with one refund in the end."""
    service.lay(at, order_id="881")
    desk = worker()
    desk.ask("start", shape, "w1", "881")
    assert desk.ask("result", "w1") == {"value": service.refunds("881")[0]}
    assert len(service.refunds("881")) == 1


def test_sleep_between_questions_is_durable(worker: Start, service: RefundService) -> None:
    """`run_effect` waits with DBOS's sleep, which stands in the workflow's steps, and gives up after `wait=` with InFlight."""
    service.lay("slow", order_id="881", delay_s=4.0)
    first, second = worker(executor="one"), worker(executor="two")
    first.ask("start", "by_effect", "w1", "881")
    service.wait_for_arrival("881")
    second.ask("start", "by_effect", "w2", "881")
    second.ask("start", "by_patience", "w3", "881")
    told = second.ask("result", "w3")
    assert (told["error"], told["status"]) == ("InFlight", "IN_FLIGHT:sender_alive")
    assert second.ask("result", "w2") == {"value": service.refunds("881")[0]}
    steps = [name for _, name in second.ask("steps", "w2")["steps"]]
    assert steps[:4] == ["refund_money.decide", "refund_money", "DBOS.sleep", "refund_money"]
    assert service.arrivals("881") == 1


@pytest.mark.parametrize("shape", ["by_step", "by_effect"])
def test_ids_are_on_the_record(worker: Start, service: RefundService, tmp_path: Path, shape: str) -> None:
    """The workflow, its step, the version and the executor stand on the record; the key is the request's."""
    desk = worker(version="v7", executor="blue")
    desk.ask("start", shape, "w1", "881")
    desk.ask("result", "w1")
    desk.kill()
    told = origin_of(tmp_path)
    assert (told["workflow_id"], told["application_version"], told["executor_id"]) == ("w1", "v7", "blue")
    assert told["step_id"] == (1 if shape == "by_step" else 2)
