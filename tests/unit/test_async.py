"""On an event loop: time-outs, cancellation and late answers; sync and async mixed."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from interlock import ConfigurationError, EffectFunction, Interlock, NotSent
from interlock.journal import MemoryJournal


class Mail:
    """An async effect whose answer comes when the test says so."""

    def __init__(self, **options: Any) -> None:
        self.journal = MemoryJournal()
        self.gate = Interlock(journal=self.journal)
        self.started = asyncio.Event()
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.sent: list[str] = []

        async def mail(to: str) -> str:
            self.sent.append(to)
            self.started.set()
            return await asyncio.shield(self.answer)

        self.effect: EffectFunction[Any] = self.gate.effect(key=lambda to: to, **options)(mail)

    async def settle(self) -> None:
        """Let the loop do what is due."""
        for _ in range(10):
            await asyncio.sleep(0)


async def test_a_time_out_leaves_the_claim_with_the_send() -> None:
    """After `timeout` the call returns, nobody may send again, and the late answer settles the effect."""
    mail = Mail(timeout=0.01)
    outcome = await mail.effect("ada")
    assert str(outcome) == "IN_FLIGHT:sender_alive"
    assert "0.01 s" in outcome.detail
    assert str(await mail.effect("ada")) == "IN_FLIGHT:sender_alive"
    assert [str(o) for o in await mail.gate.arecover()] == ["IN_FLIGHT:sender_alive"]
    mail.answer.set_result("queued")
    await mail.settle()
    again = await mail.effect("ada")
    assert (str(again), again.value, mail.sent) == ("DUPLICATE_IGNORED", "queued", ["ada"])


async def test_cancelling_the_caller_does_not_call_back_the_send() -> None:
    """The caller is cancelled in the middle: the claim stays, and what the send comes to is recorded."""
    mail = Mail()
    task = asyncio.ensure_future(mail.effect("ada"))
    await mail.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert str(await mail.effect("ada")) == "IN_FLIGHT:sender_alive"
    mail.answer.set_result("queued")
    await mail.settle()
    assert str(await mail.effect("ada")) == "DUPLICATE_IGNORED"
    assert mail.sent == ["ada"]


async def test_a_late_no_is_recorded_too() -> None:
    """The late answer is that nothing left: FAILED, and it may be tried again."""
    mail = Mail(timeout=0.01)
    await mail.effect("ada")
    mail.answer.set_exception(NotSent("offline"))
    await mail.settle()
    assert mail.gate.journal.open_effects() == []
    mail.answer = asyncio.get_running_loop().create_future()
    mail.answer.set_result("queued")
    assert str(await mail.effect("ada")) == "COMMITTED"


async def test_a_late_error_frees_the_claim() -> None:
    """The late answer is an error that says nothing: the effect can be recovered, here AMBIGUOUS."""
    mail = Mail(timeout=0.01)
    await mail.effect("ada")
    mail.answer.set_exception(TimeoutError())
    await mail.settle()
    assert str(await mail.effect("ada")) == "AMBIGUOUS"


async def test_a_send_cancelled_from_inside_is_unknown() -> None:
    """A function that raises CancelledError by itself has not cancelled the call: the fate is unknown."""
    mail = Mail()
    mail.answer.cancel()
    assert str(await mail.effect("ada")) == "AMBIGUOUS"


def test_a_loop_that_ends_in_the_middle_of_a_send() -> None:
    """The event loop is shut down while a send runs: the send is known to be over, and the next process recovers."""
    journal = MemoryJournal()
    gate = Interlock(journal=journal)

    @gate.effect(key=lambda to: to, timeout=0.01)
    async def mail(to: str) -> None:
        await asyncio.sleep(3600)

    async def main() -> str:
        return str(await mail("ada"))

    assert asyncio.run(main()) == "IN_FLIGHT:sender_alive"
    other = Interlock(journal=MemoryJournal(journal.store))
    other.effect(key=lambda to: to, name="mail")(lambda to: None)
    assert [str(outcome) for outcome in other.recover()] == ["AMBIGUOUS"]


async def test_parallel_calls_of_one_key_are_one_send() -> None:
    """Ten tasks ask at the same moment: one sends, and with wait= all get its result."""
    mail = Mail(wait=5)
    tasks = [asyncio.ensure_future(mail.effect("ada")) for _ in range(10)]
    await mail.started.wait()
    mail.answer.set_result("queued")
    outcomes = await asyncio.gather(*tasks)
    assert sorted(str(outcome) for outcome in outcomes) == ["COMMITTED"] + ["DUPLICATE_IGNORED"] * 9
    assert mail.sent == ["ada"]


async def test_cancellation_at_every_moment_loses_nothing() -> None:
    """Cancelled after any number of turns of the loop: never sent twice, and settled when asked again."""
    for turns in range(25):
        mail = Mail()
        mail.answer.set_result("queued")
        task = asyncio.ensure_future(mail.effect("ada"))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await mail.settle()
        again = await mail.effect("ada")
        assert len(mail.sent) <= 1
        assert again.ok if mail.sent else str(again) in ("COMMITTED", "AMBIGUOUS"), turns


async def test_sync_callbacks_of_an_async_effect_do_not_block_the_loop() -> None:
    """Plain callbacks of an async effect run beside the loop; async ones on it."""
    import threading

    gate = Interlock(journal=MemoryJournal())
    where: list[bool] = []
    loop_thread = threading.get_ident()

    async def allowed() -> bool:
        where.append(threading.get_ident() == loop_thread)
        return True

    def premises() -> dict[str, int]:
        where.append(threading.get_ident() == loop_thread)
        return {"n": 1}

    @gate.effect(key=lambda to: to, premises=premises, allowed=allowed)
    async def mail(to: str) -> str:
        return to

    assert str(await mail("ada")) == "COMMITTED"
    assert where == [False, True]


@pytest.mark.parametrize("which", ["function", "callback"])
def test_recover_inside_a_loop_that_it_would_stop_is_refused(which: str) -> None:
    """Where something is to be awaited, `recover()` in a running loop says what to await; plain effects, and plain code, are recovered."""
    gate = Interlock(journal=MemoryJournal())

    async def pay(order: str, idempotency_key: str) -> None: ...
    async def find(idempotency_key: str) -> None: ...
    def plainly(order: str, idempotency_key: str) -> None: ...

    async def inside() -> int:
        return len(gate.recover())

    gate.effect(key=lambda order: order)(plainly)
    assert asyncio.run(inside()) == 0
    if which == "function":
        gate.effect(key=lambda order: order, name="pay")(pay)
    else:
        gate.effect(key=lambda order: order, name="pay", lookup=find, settle_after=0)(plainly)
    with pytest.raises(ConfigurationError, match=r"effect 'pay'.*Await gate\.arecover\(\)"):
        asyncio.run(inside())
    assert len(gate.recover()) == 0
    assert len(asyncio.run(gate.arecover())) == 0


def test_async_callbacks_of_a_sync_effect() -> None:
    """A plain function may have async callbacks, called with or without an event loop around it."""
    gate = Interlock(journal=MemoryJournal())

    async def facts() -> dict[str, int]:
        await asyncio.sleep(0)
        return {"n": 1}

    async def allowed() -> bool:
        return True

    async def find(idempotency_key: str) -> None:
        return None

    @gate.effect(key=lambda to: to, premises=facts, allowed=allowed, lookup=find, settle_after=0)
    def mail(to: str, idempotency_key: str) -> str:
        return to

    assert str(mail("ada")) == "COMMITTED"

    async def inside() -> list[str]:
        return [str(mail("bob")), str(await gate.asubmit(mail.proposal("eve")))]

    assert asyncio.run(inside()) == ["COMMITTED", "COMMITTED"]


def test_an_async_effect_submitted_from_plain_code() -> None:
    """`gate.submit` takes a proposal of an async effect without an event loop."""
    gate = Interlock(journal=MemoryJournal())

    @gate.effect(key=lambda to: to)
    async def mail(to: str) -> str:
        await asyncio.sleep(0)
        return to

    assert gate.submit(mail.proposal("ada")).value == "ada"


@pytest.mark.parametrize("ending", ["cancelled", "loop ended", "timed out"])
def test_a_plain_send_in_a_thread_is_not_over_because_its_loop_is(ending: str) -> None:
    """A thread cannot be cancelled: while it sends, nobody takes the effect over, and its answer is recorded."""
    journal = MemoryJournal()
    gate = Interlock(journal=journal)
    started, answer = threading.Event(), threading.Event()
    landed: list[str] = []
    meanwhile: list[str] = []
    options: dict[str, Any] = {"lookup": lambda: landed[0] if landed else None, "settle_after": 0, "name": "pay"}

    def elsewhere() -> None:
        other = Interlock(journal=MemoryJournal(journal.store))
        pay = other.effect(key=lambda order: order, **options)(lambda order: landed.append("elsewhere"))
        meanwhile.extend([str(pay("1")), *(str(outcome) for outcome in other.recover())])
        answer.set()

    @gate.effect(key=lambda order: order, timeout=0.05 if ending == "timed out" else 30, **options)
    def pay(order: str) -> str:
        started.set()
        answer.wait(10)
        landed.append(order)
        return "paid"

    async def main() -> None:
        task = asyncio.ensure_future(gate.asubmit(pay.proposal("1")))
        assert await asyncio.to_thread(started.wait, 10)
        if ending == "timed out":
            assert str(await task) == "IN_FLIGHT:sender_alive"
        elif ending == "cancelled":
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        other = threading.Timer(0.1, elsewhere)
        other.start()
        if ending != "loop ended":
            await asyncio.to_thread(answer.wait)

    asyncio.run(main())
    assert meanwhile == ["IN_FLIGHT:sender_alive"] * 2
    assert landed == ["1"]
    again = pay("1")
    assert (str(again), again.value) == ("DUPLICATE_IGNORED", "paid")


@pytest.mark.parametrize("ending", ["cancelled", "timed out"])
def test_a_plain_send_that_never_got_a_thread_has_not_been_sent(ending: str) -> None:
    """Every thread is taken until the call is over: the send is withdrawn for good, and the effect can be tried again."""
    journal = MemoryJournal()
    gate = Interlock(journal=journal)
    landed: list[str] = []

    @gate.effect(key=lambda order: order, timeout=0.05 if ending == "timed out" else 30)
    def pay(order: str) -> None:
        landed.append(order)

    async def main() -> Any:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        free = threading.Event()
        busy = loop.run_in_executor(None, free.wait)
        task = asyncio.ensure_future(gate.asubmit(pay.proposal("1")))
        await asyncio.sleep(0.1)
        if ending == "cancelled":
            task.cancel()
        outcome = (await asyncio.gather(task, return_exceptions=True))[0]
        free.set()
        await busy
        await asyncio.sleep(0.05)
        return outcome

    outcome = asyncio.run(main())
    assert landed == []
    if ending == "timed out":
        assert str(outcome) == "FAILED:not_started"
        assert str(pay("1")) == "COMMITTED"
    else:
        assert isinstance(outcome, asyncio.CancelledError)
        assert str(pay("1")) == "COMMITTED"  # that nothing was sent is on the record


async def test_deciding_does_not_block_the_loop() -> None:
    """`aproposal` reads the facts beside the loop if their reader is plain, and on it if it is async."""
    gate = Interlock(journal=MemoryJournal())
    where: list[int] = []

    def plain() -> dict[str, int]:
        where.append(threading.get_ident())
        return {"n": 1}

    async def later() -> dict[str, int]:
        return plain()

    for name, reader in (("plain", plain), ("later", later)):
        effect = gate.effect(key=lambda to: to, premises=reader, name=name)(lambda to: None)
        assert (await effect.aproposal("ada")).seen == {"n": 1}
    assert [thread == threading.get_ident() for thread in where] == [False, True]


def test_the_same_call_from_many_threads_is_one_send() -> None:
    """One response of a model holds the same call many times, and each runs in a thread: one send, and all get its result."""
    gate = Interlock(journal=MemoryJournal())
    sent: list[str] = []

    @gate.effect(key=lambda order: order, wait=10)
    def pay(order: str) -> int:
        sent.append(order)
        time.sleep(0.02)
        return len(sent)

    orders = ["1", "2", "3"] * 8
    with ThreadPoolExecutor(12) as pool:
        outcomes = list(pool.map(pay, orders))
    assert sorted(sent) == ["1", "2", "3"]
    assert sorted(str(outcome) for outcome in outcomes) == ["COMMITTED"] * 3 + ["DUPLICATE_IGNORED"] * 21
    for order in ("1", "2", "3"):
        assert len({outcome.value for outcome in outcomes if outcome.key == order}) == 1


@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_event_loop_that_is_dropped_in_a_send_loses_no_answer(
    tmp_path: Path, is_closed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The loop is given up without ending its tasks while a thread sends: the effect is the thread's, and its answer is recorded."""
    gate = Interlock(tmp_path)
    goes_on, sends = threading.Event(), threading.Event()

    @gate.effect(key=lambda order: order)
    def pay(order: str) -> str:
        sends.set()
        goes_on.wait(30)
        return "paid"

    gate.recover()

    async def call() -> None:
        await pay.asubmit(["881"])

    def run() -> ThreadPoolExecutor:
        loop = asyncio.new_event_loop()
        threads = ThreadPoolExecutor(1)
        loop.set_default_executor(threads)
        loop.set_exception_handler(lambda *_: None)
        task = loop.create_task(call())
        loop.run_until_complete(loop.run_in_executor(ThreadPoolExecutor(1), sends.wait, 30))
        assert not task.done()
        if is_closed:
            loop._default_executor = None  # type: ignore[attr-defined]  # which closing would end
            loop.close()
        return threads

    threads = run()
    gc.collect()
    with caplog.at_level("INFO", logger="interlock"):
        assert [str(outcome) for outcome in gate.recover()] == ["IN_FLIGHT:sender_alive"]
    (told,) = [record for record in caplog.records if "'881'" in record.getMessage()]
    assert (told.levelname, told.getMessage()) == ("INFO", "pay '881' is left to its live sender")
    goes_on.set()
    threads.shutdown()
    gc.collect()
    assert str(pay("881")) == "DUPLICATE_IGNORED"
    gate.close()
