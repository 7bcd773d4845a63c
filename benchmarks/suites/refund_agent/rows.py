"""The rows: what goes wrong, told as a short script, and what money the invariant allows then.

The invariant: exactly $20 refunded for the case, or $0 if the permission was revoked or the order became ineligible first.
A script returns the answers that were given, in order; the last one is what the case is left with.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.suites.refund_agent.answer import Answer, Claim, claim_of
from benchmarks.suites.refund_agent.case import APPROVED_MINOR, CASE, REDECIDED_MINOR, UNRELATED_MINOR
from benchmarks.suites.refund_agent.crash import Point
from benchmarks.suites.refund_agent.stage import LATE_BY_S, Stage

HOURS_25_S = 25 * 3600
OTHER_CASE = "4502"

NO_CRASH = ("none",)
BOTH = ("simulated", "kill")
KILL = ("kill",)
STOP = ("stop",)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One thing that goes wrong.

    Attributes:
        name: As the table heads it.
        what: What happens, for the report.
        play: The script.
        allowed_minor: The money that keeps the invariant.
        crashes: How the worker dies in it: `none`, or each of the manners it is played in.
        local_only: What of it only the local service has; the row is left out live.
        emulated: What of it is emulated live.
    """

    name: str
    what: str
    play: Callable[[Stage], list[Answer]]
    allowed_minor: tuple[int, ...] = (APPROVED_MINOR,)
    crashes: tuple[str, ...] = NO_CRASH
    local_only: str = ""
    emulated: str = ""


def happy_path(stage: Stage) -> list[Answer]:
    return [stage.deliver()]


def crash_before_send(stage: Stage) -> list[Answer]:
    stage.deliver(die=Point.BEFORE_SEND)
    return [stage.recover()]


def crash_before_ack(stage: Stage) -> list[Answer]:
    stage.deliver(die=Point.BEFORE_ACK)
    return [stage.recover()]


def duplicate_submit(stage: Stage) -> list[Answer]:
    stage.deliver()
    return [stage.deliver()]


def model_redecides(stage: Stage) -> list[Answer]:
    stage.request = stage.request.model_copy(update={"by_model": True})
    stage.deliver(die=Point.BEFORE_ACK)
    return [stage.redecide(REDECIDED_MINOR)]


def conflicting_payload(stage: Stage) -> list[Answer]:
    stage.deliver()
    stage.request = stage.request.with_amount(REDECIDED_MINOR)
    return [stage.deliver()]


def lease_revoked(stage: Stage) -> list[Answer]:
    return [stage.deliver(after_decision=lambda: stage.desk.change(may_refund=False))]


def stale_eligibility(stage: Stage) -> list[Answer]:
    return [stage.deliver(after_decision=lambda: stage.desk.change(is_eligible=False))]


def refund_during_outage(stage: Stage) -> list[Answer]:
    stage.deliver(die=Point.BEFORE_SEND)
    stage.support_refunds(APPROVED_MINOR, case=CASE)
    return [stage.recover()]


def refund_during_outage_tolerant(stage: Stage) -> list[Answer]:
    stage.request = stage.request.model_copy(update={"tolerant": True})
    stage.deliver(die=Point.BEFORE_SEND)
    stage.support_refunds(APPROVED_MINOR, case=None)
    return [stage.recover()]


def lease_revoked_during_outage(stage: Stage) -> list[Answer]:
    stage.deliver(die=Point.BEFORE_SEND)
    stage.desk.change(may_refund=False)
    return [stage.recover()]


def key_expired(stage: Stage) -> list[Answer]:
    stage.deliver(die=Point.BEFORE_ACK)
    stage.pass_time(HOURS_25_S)
    return [stage.recover()]


def late_landing(stage: Stage) -> list[Answer]:
    _die_right_after_the_request_left(stage)
    answer = stage.recover()
    _let_it_land()
    return [answer]


def late_landing_stale(stage: Stage) -> list[Answer]:
    _die_right_after_the_request_left(stage)
    stage.desk.change(may_refund=False)
    answer = stage.recover()
    _let_it_land()
    return [answer]


def paused_sender(stage: Stage) -> list[Answer]:
    timeout_s = stage.shorten_timeout()
    first = stage.ready(pause=Point.BEFORE_SEND)
    first.send({})
    first.wait_stopped()
    stopped = time.monotonic()
    second = stage.ready(waits=False)
    second.send({})
    answers = [stage.answer_of(second)]
    time.sleep(max(0.0, stopped + 1.5 * timeout_s - time.monotonic()))
    first.resume()
    return [*answers, stage.answer_of(first)]


def concurrent_delivery(stage: Stage) -> list[Answer]:
    workers = [stage.ready(), stage.ready()]
    # The service is slow enough that both have looked before either's refund can be seen.
    stage.service.fault(method="POST", path="/v1/refunds", kind="delay_before", delay_s=LATE_BY_S, times=2)
    for worker in workers:
        worker.send({})
    answers = [stage.answer_of(worker) for worker in workers]
    return sorted(answers, key=lambda answer: (claim_of(answer.status) is not Claim.LANDED, answer.status))


def unrelated_refund_during_outage(stage: Stage) -> list[Answer]:
    stage.request = stage.request.model_copy(update={"tolerant": True})
    return unrelated_refund_during_outage_strict(stage)


def unrelated_refund_during_outage_strict(stage: Stage) -> list[Answer]:
    stage.deliver(die=Point.BEFORE_SEND)
    stage.support_refunds(UNRELATED_MINOR, case=OTHER_CASE)
    return [stage.recover()]


def refund_500_after_acting(stage: Stage) -> list[Answer]:
    stage.service.fault(method="POST", path="/v1/refunds", kind="error_500_after", times=1)
    return [stage.deliver()]


def declined_then_approved(stage: Stage) -> list[Answer]:
    stage.service.fault(method="POST", path="/v1/refunds", kind="decline", times=1)
    stage.deliver()
    stage.request = stage.request.approved_again()
    return [stage.deliver()]


def premise_false_at_decision(stage: Stage) -> list[Answer]:
    stage.desk.change(is_eligible=False)
    return [stage.deliver()]


def clock_back_25h(stage: Stage) -> list[Answer]:
    stage.deliver(die=Point.BEFORE_ACK)
    stage.set_wall_clock(-HOURS_25_S)
    return [stage.recover()]


def clock_back_25h_after_25h(stage: Stage) -> list[Answer]:
    stage.deliver(die=Point.BEFORE_ACK)
    stage.pass_time(HOURS_25_S)
    stage.set_wall_clock(-HOURS_25_S)
    return [stage.recover()]


def _die_right_after_the_request_left(stage: Stage) -> None:
    stage.service.fault(method="POST", path="/v1/refunds", kind="delay_before", delay_s=LATE_BY_S, times=1)
    worker = stage.ready()
    worker.send({})
    stage.wait_for_request()
    worker.kill()
    stage.killed(worker)


def _let_it_land() -> None:
    time.sleep(LATE_BY_S)


NOTHING = (0,)
PRUNE = "every key is written differently on the wire after the crash, for every arm; the worker's clocks are moved"
"""How a service that forgot its keys is emulated live."""

WITH_UNRELATED = (APPROVED_MINOR + UNRELATED_MINOR,)

ROWS = (
    Row(name="happy_path", what="nothing goes wrong", play=happy_path),
    Row(
        name="crash_before_send",
        what="the in-flight marker is durable, the process dies before the request leaves",
        play=crash_before_send,
        crashes=BOTH,
    ),
    Row(
        name="crash_before_ack",
        what="the service commits, the process dies before the answer is recorded",
        play=crash_before_ack,
        crashes=BOTH,
    ),
    Row(name="duplicate_submit", what="the approved request arrives twice", play=duplicate_submit),
    Row(
        name="model_redecides",
        what="crash_before_ack, and the model, run again, says $30",
        play=model_redecides,
        crashes=BOTH,
    ),
    Row(
        name="conflicting_payload",
        what="the same approved request arrives with another amount, no crash",
        play=conflicting_payload,
    ),
    Row(
        name="lease_revoked",
        what="the permission is revoked after the decision, before it lands",
        play=lease_revoked,
        allowed_minor=NOTHING,
    ),
    Row(
        name="stale_eligibility",
        what="the order becomes ineligible after the decision, before it lands",
        play=stale_eligibility,
        allowed_minor=NOTHING,
    ),
    Row(
        name="refund_during_outage",
        what="crash before the send; while the agent is down a person refunds the order by hand",
        play=refund_during_outage,
        crashes=BOTH,
    ),
    Row(
        name="lease_revoked_during_outage",
        what="crash before the send; the permission is revoked before recovery",
        play=lease_revoked_during_outage,
        allowed_minor=NOTHING,
        crashes=BOTH,
    ),
    Row(
        name="key_expired",
        what="crash before the ack; recovery runs 25 hours later, after the service's 24-hour key window",
        play=key_expired,
        emulated=PRUNE,
        crashes=BOTH,
    ),
    Row(
        name="late_landing",
        what="the worker dies right after its request left; the slow service commits after the new worker has looked",
        play=late_landing,
        local_only="a slow service",
        crashes=KILL,
    ),
    Row(
        name="late_landing_stale",
        what="the same, and the permission was revoked meanwhile: it lands, so it must be reported as landed",
        play=late_landing_stale,
        local_only="a slow service",
        crashes=KILL,
    ),
    Row(
        name="paused_sender",
        what="the worker is stopped in its send for longer than any timeout, another gets the job, the first continues",
        play=paused_sender,
        crashes=STOP,
    ),
    Row(
        name="concurrent_delivery",
        what="two worker processes get the same job in the same moment, no crash",
        play=concurrent_delivery,
        local_only="a slow service",
    ),
    Row(
        name="unrelated_refund_during_outage",
        what="crash before the send; support refunds $5 for another case; the rule tolerates that",
        play=unrelated_refund_during_outage,
        allowed_minor=WITH_UNRELATED,
        crashes=BOTH,
    ),
    Row(
        name="unrelated_refund_during_outage_strict",
        what="the same under a rule that tolerates no other refund: the agent's must not be sent",
        play=unrelated_refund_during_outage_strict,
        allowed_minor=(UNRELATED_MINOR,),
        crashes=BOTH,
    ),
    Row(
        name="refund_during_outage_tolerant",
        what="crash before the send; support refunds $20 and names no case; under the tolerant rule it must still count",
        play=refund_during_outage_tolerant,
        crashes=BOTH,
    ),
    Row(
        name="refund_500_after_acting",
        what="the service commits, then answers 500 (and remembers the 500 under the key)",
        play=refund_500_after_acting,
        local_only="an answer of 500",
    ),
    Row(
        name="declined_then_approved",
        what="the service declines; the case is approved again after the cause is fixed",
        play=declined_then_approved,
        local_only="a decline on demand",
    ),
    Row(
        name="premise_false_at_decision",
        what="the order was not eligible when the agent decided, and still is not",
        play=premise_false_at_decision,
        allowed_minor=NOTHING,
    ),
    Row(
        name="clock_back_25h",
        what="crash before the ack; the machine's wall clock is set back by 25 hours",
        play=clock_back_25h,
        crashes=BOTH,
    ),
    Row(
        name="clock_back_25h_after_25h",
        what="the same after 25 hours have passed: the wall clock shows no time at all, the service forgot the key",
        play=clock_back_25h_after_25h,
        emulated=PRUNE,
        crashes=BOTH,
    ),
)
