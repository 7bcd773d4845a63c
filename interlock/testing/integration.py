"""`IntegrationContract`: what every wrapper of a framework must keep, as tests that a wrapper's own test class inherits.

    class TestMine(IntegrationContract):
        driver = MyDriver

Each test runs the framework itself with a scripted model, and judges by the ledger of the refund service: what was refunded, and how often.
What a framework does not have, its driver declares with a reason, and the test is reported as skipped with that reason.
Needs pytest.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from interlock.decorator import Interlock
from interlock.effects import History, Kind
from interlock.rules.canonical import derive_id
from interlock.testing.driver import CAPABILITIES, IntegrationDriver, ModelCall, Place, Told, gating, run_and_die
from interlock.testing.ledger import RefundService

__all__ = [
    "CAPABILITIES",
    "IntegrationContract",
    "IntegrationDriver",
    "ModelCall",
    "Place",
    "RefundService",
    "Told",
    "gating",
    "run_and_die",
]

REFUND = ModelCall({"order_id": "881", "amount": 20})
AGAIN = ModelCall({"order_id": "881", "amount": 20}, id="call_2")
SECOND = ModelCall({"order_id": "882", "amount": 30}, id="call_2")
OTHER_AMOUNT = ModelCall({"order_id": "881", "amount": 99}, id="call_2")


class IntegrationContract:
    """The contract. Subclass it with `driver` set to the wrapper's driver, defined at the top level of its file."""

    driver: ClassVar[type[IntegrationDriver]]

    # --- what the tests stand on ------------------------------------------------------------------------------------------

    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        """A journal, a refund service and saved state of this test's own."""
        return Place(tmp_path, is_async="sync" in self.driver.not_applicable)

    @pytest.fixture
    def drivers(self) -> Iterator[list[IntegrationDriver]]:
        """Closes what a test has opened."""
        opened: list[IntegrationDriver] = []
        yield opened
        for driver in opened:
            driver.close()

    @pytest.fixture
    def open_driver(self, drivers: list[IntegrationDriver]) -> Any:
        """Makes a driver on a place, recovered, as a process that starts."""

        def make(place: Place, *, recover: bool = True) -> IntegrationDriver:
            driver = self.driver(place)
            drivers.append(driver)
            if recover:
                driver.recover()
            return driver

        return make

    def needs(self, *capabilities: str) -> None:
        """Report the test as not applicable if the driver declares so."""
        for capability in capabilities:
            if capability in self.driver.not_applicable:
                pytest.skip(f"not applicable: {capability}: {self.driver.not_applicable[capability]}")

    # --- the driver -------------------------------------------------------------------------------------------------------

    def test_driver_says_what_is_not_applicable(self) -> None:
        """What is declared not applicable is a thing that the contract knows, with a reason, and the driver has no method for it."""
        for capability, reason in self.driver.not_applicable.items():
            assert capability in CAPABILITIES, f"{capability!r} is none of: {', '.join(CAPABILITIES)}"
            assert len(reason.split()) >= 3, f"say why {capability!r} is not applicable"
            for method in CAPABILITIES[capability]:
                own = getattr(self.driver, method) is not getattr(IntegrationDriver, method)
                assert method == "run" or not own, f"the driver has {method}(), so {capability!r} is applicable"
        for capability, methods in CAPABILITIES.items():
            for method in methods:
                if capability not in self.driver.not_applicable:
                    assert getattr(self.driver, method) is not getattr(IntegrationDriver, method), (
                        f"{method}() is not written"
                    )

    # --- one call ---------------------------------------------------------------------------------------------------------

    def test_first_call_lands(self, place: Place, open_driver: Any) -> None:
        """A first call is sent once, and the model is told the tool's own result."""
        told = open_driver(place).run([REFUND])
        refund = self.only(place, "881")
        assert refund["amount"] == 20
        self.told_result(told, refund)

    def test_same_call_again_gets_the_first_result(self, place: Place, open_driver: Any) -> None:
        """A second call for the same request, in another run and under another id, is not sent, and is told the first result."""
        driver = open_driver(place)
        driver.run([REFUND])
        told = driver.run([AGAIN], thread="thread-2")
        self.told_result(told, self.only(place, "881"))

    def test_same_call_in_another_process_gets_the_first_result(self, place: Place, open_driver: Any) -> None:
        """What was recorded is told by a new process, too."""
        first = open_driver(place)
        first.run([REFUND])
        first.close()
        told = open_driver(place).run([AGAIN], thread="thread-2")
        self.told_result(told, self.only(place, "881"))

    def test_other_payload_under_one_key_is_refused(self, place: Place, open_driver: Any) -> None:
        """Another amount for the same request is refused, and the model is told not to try with other arguments."""
        driver = open_driver(place)
        driver.run([REFUND])
        told = driver.run([OTHER_AMOUNT], thread="thread-2")
        assert self.only(place, "881")["amount"] == 20
        self.told_no(told, "Do not call again with changed arguments")

    def test_refusal_is_told_to_the_model(self, place: Place, open_driver: Any) -> None:
        """A call that is not permitted is not sent; the model is told so, and that asking again does not help; the run goes on."""
        place.service.forbid("881")
        told = open_driver(place).run([REFUND])
        assert place.service.arrivals("881") == 0
        self.told_no(told, "Calling again will not help")

    def test_ambiguous_is_told_to_the_model(self, place: Place, open_driver: Any) -> None:
        """When nobody can know, the model is told so and not to try again, and a further call is not sent either."""
        place.config = gating(lookup=None)
        place.service.lay("raise_after", order_id="881")
        driver = open_driver(place)
        self.told_no(driver.run([REFUND]), "unknown whether this happened", "Do not try again")
        self.told_no(driver.run([AGAIN], thread="thread-2"), "Do not try again")
        assert place.service.arrivals("881") == 1

    def test_missing_argument_is_told_to_the_model(self, place: Place, open_driver: Any) -> None:
        """A call without the argument that names the request is not sent, and does not end the run; a correct one then lands."""
        driver = open_driver(place)
        told = driver.run([ModelCall({"amount": 20})])
        assert "order_id" in self.one(told).text
        assert place.service.refunds() == []
        driver.run([AGAIN], thread="thread-2")
        self.only(place, "881")

    def test_invented_argument_makes_no_other_request(self, place: Place, open_driver: Any) -> None:
        """An argument that the tool does not have is left out, or told to the model; the same call with and without it is one request."""
        driver = open_driver(place)
        invented = {**REFUND.arguments, "urgency": "high"}
        driver.run([ModelCall(invented)])
        told = driver.run([AGAIN], thread="thread-2")
        self.told_result(told, self.only(place, "881"))
        text = self.one(driver.run([ModelCall(invented, id="call_3")], thread="thread-3")).text
        assert "other arguments" not in text, text
        assert "urgency" in text or self.only(place, "881")["id"] in text, text

    def test_a_default_that_is_spelled_out_makes_no_other_request(self, place: Place, open_driver: Any) -> None:
        """The same call with an argument's default left out and written is one request, in either order, and told the first result."""
        self.needs("defaults")
        driver = open_driver(place)
        spelled_out = {**REFUND.arguments, "note": ""}
        driver.run([REFUND])
        told = driver.run([ModelCall(spelled_out, id="call_2")], thread="thread-2")
        self.told_result(told, self.only(place, "881"))
        driver.run([ModelCall({**spelled_out, "order_id": "882"}, id="call_3")], thread="thread-3")
        told = driver.run([ModelCall({**REFUND.arguments, "order_id": "882"}, id="call_4")], thread="thread-4")
        self.told_result(told, self.only(place, "882"))
        told = driver.run([ModelCall({**spelled_out, "note": "broken"}, id="call_5")], thread="thread-5")
        self.told_no(told, "Do not call again with changed arguments")

    def test_argument_of_the_wrong_type_can_be_corrected(self, place: Place, open_driver: Any) -> None:
        """Arguments that the tool itself would not take never reach it: the model is told so, and a correct call then lands."""
        self.needs("types")
        place.config = gating(lookup=None)
        driver = open_driver(place)
        wrong: dict[str, Any] = {"amount": "twenty", "note": ["broken"]}
        for name, value in wrong.items():
            call = ModelCall({**REFUND.arguments, name: value}, id=f"wrong_{name}")
            text = self.one(driver.run([call], thread=f"wrong-{name}")).text
            assert name in text, text
        assert place.service.arrivals("881") == 0
        driver.run([AGAIN], thread="thread-2")
        self.only(place, "881")

    def test_ids_are_on_the_record_and_never_the_key(self, place: Place, open_driver: Any) -> None:
        """The framework's ids stand in the journal beside the proposal; the effect's identity comes from the request alone."""
        open_driver(place).run([REFUND])
        history = self.history(place, "881")
        assert history.effect_id == derive_id("create_refund", "881")
        origin = history.entries[0].data.get("origin", {})
        missing = [name for name in self.driver.evidence if name not in origin]
        assert not missing, f"not recorded: {missing}; recorded: {origin}"
        assert self.driver.evidence or "call_id" in self.driver.not_applicable, (
            "say in `evidence` which ids are recorded"
        )

    def test_a_constant_call_id_is_no_key(self, place: Place, open_driver: Any) -> None:
        """Two requests under one tool-call id are two effects."""
        driver = open_driver(place)
        driver.run([REFUND])
        driver.run([ModelCall(SECOND.arguments, id=REFUND.id)], thread="thread-2")
        self.only(place, "881")
        self.only(place, "882")

    # --- crashes ----------------------------------------------------------------------------------------------------------

    def test_killed_after_the_send_then_resumed(self, place: Place, open_driver: Any) -> None:
        """The process dies right after the refund; the framework's own resume does not send it again and is told the result."""
        self.needs("resume")
        place.service.lay("kill_after", order_id="881")
        run_and_die(self.driver, place, "run", [REFUND])
        told = open_driver(place).resume([REFUND])
        self.told_result(told, self.only(place, "881"))

    def test_killed_before_the_send_then_resumed(self, place: Place, open_driver: Any) -> None:
        """The process dies right before the refund; the framework's own resume makes it happen, once."""
        self.needs("resume")
        place.service.lay("kill_before", order_id="881")
        run_and_die(self.driver, place, "run", [REFUND])
        assert place.service.refunds() == []
        told = open_driver(place).resume([REFUND])
        self.told_result(told, self.only(place, "881"))

    def test_resumed_without_recovery_first(self, place: Place, open_driver: Any) -> None:
        """Also where nobody calls recover(), a resume after a kill settles the open effect in its own call."""
        self.needs("resume")
        place.service.lay("kill_after", order_id="881")
        run_and_die(self.driver, place, "run", [REFUND])
        told = open_driver(place, recover=False).resume([REFUND])
        self.told_result(told, self.only(place, "881"))

    def test_recover_settles_without_a_model(self, place: Place, open_driver: Any) -> None:
        """After a kill, recover() alone settles the effect: no model and no resume is needed."""
        place.service.lay("kill_before", order_id="881")
        run_and_die(self.driver, place, "run", [REFUND])
        report = open_driver(place, recover=False).recover()
        assert [str(outcome) for outcome in report] == ["REAPPLIED_AFTER_QUERY"]
        self.only(place, "881")

    def test_asked_again_after_a_kill_under_a_new_call_id(self, place: Place, open_driver: Any) -> None:
        """After a kill the model is asked anew and calls under a new id, in a new run: still one refund, and its result."""
        place.service.lay("kill_after", order_id="881")
        run_and_die(self.driver, place, "run", [REFUND])
        told = open_driver(place).run([AGAIN], thread="thread-2")
        self.told_result(told, self.only(place, "881"))

    def test_two_calls_with_a_kill_between(self, place: Place, open_driver: Any) -> None:
        """Two calls in one answer of the model, and a kill in the second: after the resume each has happened once."""
        self.needs("parallel", "resume")
        place.service.lay("kill_after", order_id="882")
        run_and_die(self.driver, place, "run", [REFUND, SECOND])
        open_driver(place).resume([REFUND, SECOND])
        self.only(place, "881")
        self.only(place, "882")

    def test_lost_answer_after_it_landed(self, place: Place, open_driver: Any) -> None:
        """The tool times out after the refund stands: it is looked up, not sent again, and the model is told the result."""
        place.service.lay("raise_after", order_id="881")
        told = open_driver(place).run([REFUND])
        refund = self.only(place, "881")
        assert place.service.arrivals("881") == 1
        self.told_result(told, refund)

    def test_own_retry_sends_once(self, place: Place, open_driver: Any) -> None:
        """With the framework's own retry on, a tool that times out after the refund stands is not sent again."""
        self.needs("retry")
        place.service.lay("raise_after", order_id="881")
        open_driver(place).run_with_retry([REFUND])
        assert place.service.arrivals("881") == 1
        self.only(place, "881")

    def test_own_retry_does_not_hammer_what_nobody_can_know(self, place: Place, open_driver: Any) -> None:
        """With the framework's own retry on and no look-up, an unknown fate stays one request, and is told as such."""
        self.needs("retry")
        place.config = gating(lookup=None)
        place.service.lay("raise_after", order_id="881")
        told = open_driver(place).run_with_retry([REFUND])
        assert place.service.arrivals("881") == 1
        self.told_no(told, "Do not try again")

    # --- at the same time -------------------------------------------------------------------------------------------------

    def test_parallel_calls_of_one_key(self, place: Place, open_driver: Any) -> None:
        """The model makes the same call twice in one answer: one refund, and both calls are answered."""
        self.needs("parallel")
        place.service.lay("slow", order_id="881", delay_s=0.2)
        driver = open_driver(place)
        told = driver.run([REFUND, AGAIN])
        refund = self.only(place, "881")
        assert len(told) == 2, told
        answered = [answer for answer in told if refund["id"] in answer.text]
        assert answered, told
        for answer in told:
            assert answer in answered or "still under way" in answer.text, told
        self.told_result(driver.run([AGAIN], thread="thread-2"), refund)

    def test_parallel_calls_of_two_keys(self, place: Place, open_driver: Any) -> None:
        """Two requests in one answer of the model are two refunds, each told its own result."""
        self.needs("parallel")
        told = open_driver(place).run([REFUND, SECOND])
        assert len(told) == 2, told
        self.told_result(told[:1], self.only(place, "881"))
        self.told_result(told[1:], self.only(place, "882"))

    def test_two_processes_at_the_same_time(self, place: Place, open_driver: Any) -> None:
        """Two agents on one journal are asked for the same refund at the same moment: it happens once, and neither run fails."""
        place.service.lay("slow", order_id="881", delay_s=0.3)
        drivers = [open_driver(place), open_driver(place)]
        told = self.both([lambda: drivers[0].run([REFUND]), lambda: drivers[1].run([AGAIN], thread="thread-2")], place)
        refund = self.only(place, "881")
        assert any(refund["id"] in answer.text for answers in told for answer in answers), told

    # --- approvals and checkpoints ----------------------------------------------------------------------------------------

    def test_nothing_is_sent_before_approval(self, place: Place, open_driver: Any) -> None:
        """A call that waits for a person has not been sent; once approved it is, and the model is told the result."""
        self.needs("approval")
        open_driver(place).pause([REFUND])
        assert place.service.arrivals("881") == 0
        told = open_driver(place).approve([REFUND])
        self.told_result(told, self.only(place, "881"))

    def test_declined_is_never_sent(self, place: Place, open_driver: Any) -> None:
        """A declined call is not sent, and a recovery later does not send it either."""
        self.needs("approval")
        open_driver(place).pause([REFUND])
        open_driver(place).decline([REFUND])
        open_driver(place)
        assert place.service.arrivals("881") == 0

    def test_saved_approval_resumed_twice_in_turn(self, place: Place, open_driver: Any) -> None:
        """One saved approval, resumed twice: one refund."""
        self.needs("approval")
        open_driver(place).pause([REFUND])
        open_driver(place).approve([REFUND])
        open_driver(place).approve([REFUND])
        self.only(place, "881")

    def test_saved_approval_resumed_twice_at_the_same_time(self, place: Place, open_driver: Any) -> None:
        """One saved approval, resumed by two agents at the same moment: one refund."""
        self.needs("approval")
        open_driver(place).pause([REFUND])
        place.service.lay("slow", order_id="881", delay_s=0.3)
        drivers = [open_driver(place), open_driver(place)]
        told = self.both([lambda: drivers[0].approve([REFUND]), lambda: drivers[1].approve([REFUND])], place)
        refund = self.only(place, "881")
        assert any(refund["id"] in answer.text for answers in told for answer in answers), told

    def test_approved_then_killed_then_resumed(self, place: Place, open_driver: Any) -> None:
        """The process dies after an approved refund; the saved approval, resumed, does not send it again."""
        self.needs("approval")
        open_driver(place).pause([REFUND])
        place.service.lay("kill_after", order_id="881")
        run_and_die(self.driver, place, "approve", [REFUND])
        open_driver(place).approve([REFUND])
        self.only(place, "881")

    def test_reviewers_edit_is_what_is_judged_and_sent(self, place: Place, open_driver: Any) -> None:
        """A reviewer lowers the amount: that amount is on the record and is sent, and nothing of the model's own was."""
        self.needs("approval", "edit")
        open_driver(place).pause([REFUND])
        open_driver(place).approve([REFUND], edited={"order_id": "881", "amount": 15})
        assert self.only(place, "881")["amount"] == 15
        recorded = self.history(place, "881").entries[0].data["payload"]
        assert recorded["arguments"]["amount"] == 15

    def test_what_the_approver_saw_must_still_hold(self, place: Place, open_driver: Any) -> None:
        """Somebody refunds the order by hand between the question and the approval: the approved call is refused, and the model told so."""
        self.needs("approval", "seen")
        open_driver(place).pause([REFUND])
        place.service.refund_by_hand("881", 5)
        told = open_driver(place).approve([REFUND])
        assert place.service.arrivals("881") == 0
        self.told_no(told, "needs a new decision")

    # --- async, cancellation, streaming -----------------------------------------------------------------------------------

    def test_async_lands_once(self, place: Place, open_driver: Any) -> None:
        """By the framework's async entry, with async tools, a call lands once and a second one is told the first result."""
        self.needs("async")
        place.is_async = True
        driver = open_driver(place)

        async def twice() -> tuple[list[Told], list[Told]]:
            return await driver.arun([REFUND]), await driver.arun([AGAIN], thread="thread-2")

        first, second = asyncio.run(twice())
        refund = self.only(place, "881")
        self.told_result(first, refund)
        self.told_result(second, refund)

    def test_async_entry_with_sync_tools(self, place: Place, open_driver: Any) -> None:
        """By the framework's async entry a sync tool is gated, too, and does not stop the event loop while it is slow."""
        self.needs("async", "sync")
        place.service.lay("slow", order_id="881", delay_s=0.3)
        driver = open_driver(place)
        ticks = 0

        async def beside() -> list[Told]:
            nonlocal ticks
            run = asyncio.ensure_future(driver.arun([REFUND]))
            while not run.done():
                await asyncio.sleep(0.02)
                ticks += 1
            told: list[Told] = await run
            return told

        told = asyncio.run(beside())
        self.told_result(told, self.only(place, "881"))
        assert ticks >= 5, "the event loop stood still while the tool ran"

    def test_async_refusal_is_told_to_the_model(self, place: Place, open_driver: Any) -> None:
        """A refusal reaches the model by the async entry as by the sync one."""
        self.needs("async")
        place.is_async = True
        place.service.forbid("881")
        self.told_no(asyncio.run(open_driver(place).arun([REFUND])), "Calling again will not help")
        assert place.service.arrivals("881") == 0

    def test_no_answer_in_time_and_it_lands_later(self, place: Place, open_driver: Any) -> None:
        """An async tool is slower than its time-out: the run goes on, is told that it is under way, and the late answer counts."""
        self.needs("async")
        place.is_async = True
        place.config = gating(timeout=0.2)
        place.service.lay("slow", order_id="881", delay_s=0.8)
        driver = open_driver(place)

        async def late() -> tuple[list[Told], list[Told]]:
            first = await driver.arun([REFUND])
            await asyncio.to_thread(place.service.wait_for_refund, "881")
            await asyncio.sleep(0.3)
            return first, await driver.arun([AGAIN], thread="thread-2")

        first, second = asyncio.run(late())
        self.told_no(first, "still under way")
        self.told_result(second, self.only(place, "881"))
        assert place.service.arrivals("881") == 1

    def test_cancelled_in_the_middle_of_a_send(self, place: Place, open_driver: Any) -> None:
        """A run is cancelled while the refund is on its way: what has left counts, and nobody sends it again."""
        self.needs("async", "cancel")
        place.is_async = True
        place.service.lay("slow", order_id="881", delay_s=0.5)
        driver = open_driver(place)

        async def cancel() -> list[Told]:
            run = asyncio.ensure_future(driver.arun([REFUND]))
            await asyncio.to_thread(place.service.wait_for_arrival, "881")
            run.cancel()
            await asyncio.wait({run})
            await asyncio.to_thread(place.service.wait_for_refund, "881")
            await asyncio.sleep(0.3)
            told: list[Told] = await driver.arun([AGAIN], thread="thread-2")
            return told

        told = asyncio.run(cancel())
        self.told_result(told, self.only(place, "881"))
        assert place.service.arrivals("881") == 1

    def test_streaming_lands_once(self, place: Place, open_driver: Any) -> None:
        """By the framework's streaming entry a call lands once, and is told its result."""
        self.needs("streaming")
        driver = open_driver(place)
        self.told_result(driver.stream([REFUND]), self.only(place, "881"))
        self.told_result(driver.stream([AGAIN], thread="thread-2"), self.only(place, "881"))

    # --- what is asserted -------------------------------------------------------------------------------------------------

    @staticmethod
    def only(place: Place, order_id: str) -> dict[str, Any]:
        """The one refund of an order."""
        refunds = place.service.refunds(order_id)
        assert len(refunds) == 1, f"order {order_id} was refunded {len(refunds)} times: {refunds}"
        return refunds[0]

    @staticmethod
    def one(told: Sequence[Told]) -> Told:
        """The one answer that the model was told."""
        assert len(told) == 1, told
        return told[0]

    def told_result(self, told: Sequence[Told], refund: dict[str, Any]) -> None:
        """The model was told the refund itself, not as an error."""
        answer = self.one(told)
        assert refund["id"] in answer.text, answer
        assert refund["reference"], f"it was sent without the effect's id: {refund}"
        assert refund["reference"] in answer.text, answer
        assert answer.is_error is not True, answer

    def told_no(self, told: Sequence[Told], *sentences: str) -> None:
        """The model was told, in the framework's error form, why not, and whether asking again helps."""
        answer = self.one(told)
        for sentence in sentences:
            assert sentence in answer.text, answer
        assert answer.is_error is not False, answer

    @staticmethod
    def history(place: Place, key: str) -> History:
        """What the journal holds about a refund."""
        with Interlock(place.journal) as gate:
            history = gate.journal.load(derive_id("create_refund", key))
        assert history.entries, f"nothing is on the journal about {key!r}"
        assert history.entries[0].kind is Kind.PROPOSED
        return history

    @staticmethod
    def both(runs: Sequence[Any], place: Place) -> list[list[Told]]:
        """Run them at the same time: the second starts once the first one's request has come in at the service."""
        told: list[Any] = [None] * len(runs)

        def run(number: int) -> None:
            try:
                told[number] = runs[number]()
            except BaseException as error:  # noqa: BLE001 - shown by the assertion below
                told[number] = error

        threads = [threading.Thread(target=run, args=(number,)) for number in range(len(runs))]
        threads[0].start()
        place.service.wait_for_arrival("881", within_s=20.0)
        for thread in threads[1:]:
            thread.start()
        for thread in threads:
            thread.join(60)
        failed = [error for error in told if isinstance(error, BaseException)]
        if failed:
            raise failed[0]
        return told
