"""What users and services hand over that is not what it seems: errors without words, empty answers, iterators, broken types."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

import pytest

from interlock import EffectFunction, Interlock, NotSent, Outcome, Rejected, at_least, at_most
from interlock.errors import AuthorityUnclear, BadInput, NotSerializable, PremiseUnreadable
from interlock.journal import MemoryJournal
from interlock.receipts import Receipt
from interlock.rules.premises import judge
from interlock.rules.values import encode, fingerprint, text_of
from interlock.testing import SimulatedCrash
from tests.unit.conftest import World

TIERS = pytest.mark.parametrize("tier", [1, 2, 3])


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """The log shows the errors as they are, and halves of emoji cannot be handed from one test process to another."""
    caplog.set_level(logging.CRITICAL + 1, logger="interlock")


class Wordless(Exception):
    """An error whose own text fails."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class WordlessRejected(Rejected):
    """The same of an error that says what it means, and lacks the code that a `Rejected` has."""

    def __init__(self) -> None:
        Exception.__init__(self)

    __str__ = Wordless.__str__


class WordlessNotSent(NotSent):
    """A code that is no text, and no text either."""

    def __init__(self) -> None:
        super().__init__(reason=Wordless())  # type: ignore[arg-type] - the point

    __str__ = Wordless.__str__


@TIERS
@pytest.mark.parametrize(
    ("error", "code"), [(WordlessRejected(), "FAILED:rejected"), (WordlessNotSent(), "FAILED:not_sent")]
)
def test_a_clear_error_that_cannot_be_told_is_clear(world: World, tier: int, error: Exception, code: str) -> None:
    """It does not leave the call that has sent, and it means what its class says; the detail is at least its name."""
    errors = [error]

    def fail() -> None:
        if errors:
            raise errors.pop()

    world.service.before = fail
    refund = world.refund(world.gate(), tier)
    outcome = refund("881", 2000)
    assert (str(outcome), outcome.detail) == (code, f"{type(error).__name__}, whose own text cannot be read")
    assert refund("881", 2000).ok


@pytest.mark.parametrize("role", ["premises", "allowed"])
def test_a_check_s_error_that_cannot_be_told(world: World, role: str) -> None:
    """Also of the kind that the gate itself raises: before the send it is told as one, after a crash it leaves the effect open."""
    kind = {"premises": PremiseUnreadable, "allowed": AuthorityUnclear}[role]
    error = type("Mute", (kind,), {"__str__": Wordless.__str__})()

    def fail() -> None:
        raise error

    gate = world.gate()
    with pytest.raises(kind, match="Mute, whose own text cannot be read"):
        world.refund(gate, 2, **{role: fail})("881", 2000)
    gate = world.gate()
    refund = world.refund(gate, 2)
    with pytest.raises(SimulatedCrash):
        gate.submit(refund.proposal("881", 2000), crash_at="after_dispatch")
    gate = world.gate()
    world.refund(gate, 2, **{role: fail})
    (outcome,) = gate.recover()
    assert str(outcome) == "IN_FLIGHT:check_unreadable"
    assert "Mute" in outcome.detail


def broken_classify(error: BaseException) -> None:
    raise ZeroDivisionError


@TIERS
@pytest.mark.parametrize(
    ("error", "options"),
    [
        (ValueError("half an emoji: \ud83d"), {}),
        (Wordless(), {}),
        (KeyError("bug"), {"classify": broken_classify}),
    ],
)
def test_an_error_that_cannot_be_told_is_unknown(
    world: World, tier: int, error: Exception, options: dict[str, Any]
) -> None:
    """An error after the effect landed settles it by the tier's means, whatever its text is and whatever `classify=` does with it."""
    lost = [error]

    def lose() -> None:
        if lost:
            raise lost.pop()

    world.service.after = lose
    outcome = world.refund(world.gate(), tier, **options)("881", 2000)
    assert str(outcome) == {1: "COMMITTED_BY_RETRY", 2: "COMMITTED_ON_QUERY", 3: "AMBIGUOUS"}[tier]
    assert len(world.service.ledger) == 1


@TIERS
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Rejected("half an emoji: \ud83d"), "FAILED:rejected"),
        (Rejected("no", reason=""), "FAILED:rejected"),
        (NotSent("no", reason=""), "FAILED:not_sent"),
        (Rejected("no", reason=402), "FAILED:402"),  # type: ignore[arg-type]
        (Rejected("no", reason="\ud83d"), "FAILED:\\ud83d"),
    ],
)
def test_a_certain_no_is_recorded_whatever_its_words(world: World, tier: int, error: Exception, code: str) -> None:
    """A certain failure is recorded as one even if its words or its reason cannot be stored as they are."""

    def fail() -> None:
        raise error

    world.service.before = fail
    gate = world.gate()
    assert str(world.refund(gate, tier)("881", 2000)) == code
    assert gate.journal.open_effects() == []


def test_checks_that_fail_without_words_do_not_hold_up_what_landed(world: World) -> None:
    """It landed, and the re-check raises an error that cannot be stored as it is: recovery records both."""
    gate = world.gate()
    refund = world.refund(gate, 2)
    world.service.after = lambda: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        refund("881", 2000)
    other = world.gate()

    def allowed() -> bool:
        raise RuntimeError("\ud83d")

    world.refund(other, 2, allowed=allowed)
    assert [str(outcome) for outcome in other.recover()] == ["COMMITTED_ON_QUERY"]


class Response:
    """As an HTTP client's answer of status 404: an object, and false."""

    def __bool__(self) -> bool:
        return False


class Column:
    """As an array: whether it is true cannot be said."""

    def __bool__(self) -> bool:
        raise ValueError("ambiguous")


class Page:
    """As a service's list of results, empty."""

    data: tuple[str, ...] = ()

    def __len__(self) -> int:
        return 0


@dataclass
class Search:
    """As a tool's answer that says in a field of its own that nothing is there."""

    found: bool = False
    refund: None = None


async def pages() -> Any:
    yield 1


@pytest.mark.parametrize(
    "answer",
    [
        Response,
        Column,
        Page,
        lambda: Decimal(0),
        lambda: iter([]),
        lambda: iter([1]),
        pages,
        lambda: {"found": False, "refund": None},
        Search,
    ],
)
def test_an_answer_that_says_nothing_is_not_found(world: World, answer: Any) -> None:
    """A false or empty object, one that says so, or an iterator nobody looked into, is neither found nor absent; it stays open."""
    lost = [TimeoutError()]

    def lose() -> None:
        if lost:
            raise lost.pop()

    world.service.before = lose
    world.service.lookup = lambda key: answer()
    outcome = world.refund(world.gate(), 2, settle_after=0)("881", 2000)
    assert str(outcome) == "IN_FLIGHT:lookup_failed"
    assert "Return None or False for absent" in outcome.detail
    assert len(world.service.sends) == 1


@dataclass
class Picky:
    """A type that raises an error of its own."""

    amount: int

    def __post_init__(self) -> None:
        if self.amount < 0:
            raise KeyError("amount")


def test_a_result_type_that_raises_hides_nothing() -> None:
    """The return type's own code fails on what came back: the effect has landed, and its JSON form is the value, every time."""
    gate = Interlock(journal=MemoryJournal())

    @gate.effect(key=lambda order: order)
    def pay(order: str) -> Picky:
        return {"amount": -1}  # type: ignore[return-value]

    first, again = pay("1"), pay("1")
    assert (str(first), str(again)) == ("COMMITTED", "DUPLICATE_IGNORED")
    assert first.value == again.value == {"amount": -1}


def test_arguments_that_hold_themselves_are_refused() -> None:
    """A list that holds itself is refused at the door, in words."""
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(NotSerializable, match="argument 'x' holds itself"):
        encode(loop, what="argument 'x'")


@pytest.mark.parametrize("depth", [99, 120, 250, 253, 300, 5000])
@pytest.mark.parametrize("where", ["argument", "fact", "result"])
def test_what_is_nested_deeply(world: World, depth: int, where: str) -> None:
    """An argument or a fact that the journal could not hold is refused at the door; a result is kept as well as it can be."""
    nested: Any = 1
    for _ in range(depth):
        nested = [nested]
    gate = Interlock(journal=MemoryJournal())
    sends: list[int] = []

    @gate.effect(key=lambda: "k", premises=lambda: {"n": nested if where == "fact" else 1})
    def pay(value: Any) -> Any:
        sends.append(1)
        return nested if where == "result" else None

    if where != "result" and depth > 100:
        with pytest.raises((NotSerializable, PremiseUnreadable), match="nested too deeply"):
            pay(nested if where == "argument" else 1)
        assert sends == []
    else:
        outcomes = [pay(nested if where == "argument" else 1) for _ in range(2)]
        assert [str(outcome) for outcome in outcomes] == ["COMMITTED", "DUPLICATE_IGNORED"]
        assert outcomes[0].value == outcomes[1].value


@pytest.mark.parametrize("rule", [at_least(0), at_most(1)])
def test_true_is_no_amount(rule: Any) -> None:
    """A reader that gives True for a number does not pass as 1."""
    with pytest.raises(PremiseUnreadable, match="no amounts"):
        judge({"left": rule}, {"left": True}, {"left": True})


def test_amounts_are_compared_exactly_in_any_decimal_context() -> None:
    """Two amounts never count as one because the program's decimal context rounds, nor because they are long."""
    long = "123456789012345678901234567890"
    with localcontext() as context:
        context.prec = 4
        assert fingerprint(encode(Decimal("12345.67"))) != fingerprint(encode(Decimal("12345.68")))
        rounded = fingerprint(encode(Decimal("12345.670")))
    assert rounded == fingerprint(encode(Decimal("12345.67")))
    assert fingerprint(encode(Decimal(f"{long}.1"))) != fingerprint(encode(Decimal(f"{long}.2")))


@pytest.mark.parametrize("decision", ["\ud800", 7, None, b"x"])
def test_a_decision_is_named_by_a_text(world: World, decision: Any) -> None:
    """A decision whose name could not be stored is refused at the door; nothing is sent."""
    with pytest.raises(BadInput, match="decision="):
        world.refund(world.gate(), 1)("881", 2000, decision=decision)
    assert world.service.sends == []


def test_a_fact_is_named_by_a_text(world: World) -> None:
    """A fact whose name could not be stored stops the call in words; nothing is sent."""
    with pytest.raises(PremiseUnreadable, match="names are text"):
        world.refund(world.gate(), 1, premises=lambda: {"\ud800": 1})("881", 2000)
    assert world.service.sends == []


@TIERS
def test_a_context_that_fails_has_sent_nothing(tier: int) -> None:
    """The client cannot be made, so the function is not called: that is certain at every tier, and it may be tried again."""
    gate = Interlock(journal=MemoryJournal())
    down = [True]
    sends: list[str] = []

    def context() -> dict[str, Any]:
        if down:
            raise OSError(down.pop())
        return {"client": sends}

    options: dict[str, Any] = {"dedupes": True, "window": 3600} if tier == 1 else {}
    if tier == 2:
        options["lookup"] = lambda idempotency_key: None

    @gate.effect(key=lambda order: order, ignore=["client"], context=context, **options)
    def pay(order: str, client: Any, idempotency_key: str) -> None:
        client.append(order)

    first = pay("1")
    assert str(first) == "FAILED:no_arguments"
    assert "OSError" in first.detail
    assert str(pay("1")) == "COMMITTED"
    assert sends == ["1"]


def test_one_annotation_that_cannot_be_resolved_costs_the_others_nothing() -> None:
    """A return annotation that exists for type checkers only does not take the parameters' annotations away."""
    gate = Interlock(journal=MemoryJournal())

    def pay(item: Picky, note: str) -> stripe.Refund:  # type: ignore[name-defined]  # noqa: F821
        return item.amount

    outcome = gate.effect(key=lambda item: str(item.amount))(pay)(Picky(5), "x")
    assert (str(outcome), outcome.value) == ("COMMITTED", 5)


@pytest.mark.parametrize("data", [[], "text", None, {"effect": 1, "key": None}, {}])
def test_a_forged_receipt_is_a_finding(data: Any) -> None:
    """A receipt whose hashes are right and whose content is not a receipt's is found, and verify() does not raise."""
    fields = {"v": 1, "id": "e", "n": 0, "kind": "PROPOSED", "at": "", "by": "", "prev": "", "data": data}
    body = json.dumps(fields)
    assert not Receipt("e", (body,), (hashlib.sha256(body.encode()).hexdigest(),)).verify().ok


@pytest.mark.parametrize(("body", "stored"), [(5, "x"), (None, None), ("{}", 1), ("[" * 10**5, "x")])
def test_a_receipt_of_anything_does_not_raise(body: Any, stored: Any) -> None:
    """verify() answers for whatever JSON a document held."""
    document = {"interlock_receipt": 1, "effect_id": "e", "entries": [{"body": body, "hash": stored}]}
    assert not Receipt.from_dict(document).verify().ok


def test_every_single_edited_byte_of_a_receipt_shows(world: World) -> None:
    """Any byte of any entry or hash that is changed, and any entry removed, doubled or swapped, is found."""
    receipt = world.refund(world.gate(), 1)("881", 2000).receipt()
    assert receipt.verify().ok
    for field in ("bodies", "hashes"):
        texts: tuple[str, ...] = getattr(receipt, field)
        for number, text in enumerate(texts):
            for place in range(len(text)):
                edited = text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]
                parts = {"bodies": receipt.bodies, "hashes": receipt.hashes}
                parts[field] = (*texts[:number], edited, *texts[number + 1 :])
                assert not Receipt(receipt.effect_id, **parts).verify().ok, (field, number, place)
    pairs = list(zip(receipt.bodies, receipt.hashes, strict=True))
    for number in range(len(pairs)):
        # The last one alone may be missing unseen: a cut-off tail is what an unsigned chain cannot show.
        doubled = [*pairs[: number + 1], *pairs[number:]]
        swapped = [*pairs[:number], *reversed(pairs[number : number + 2]), *pairs[number + 2 :]]
        removed = [*pairs[:number], *pairs[number + 1 :]]
        for others in [doubled] + ([swapped, removed] if number < len(pairs) - 1 else []):
            bodies, hashes = zip(*others, strict=True)
            assert not Receipt(receipt.effect_id, bodies, hashes).verify().ok
    assert not Receipt("0" * 24, receipt.bodies, receipt.hashes).verify().ok


@pytest.mark.parametrize("error", [Wordless(), ValueError("\ud83d"), ValueError("x" * 10**6), ValueError()])
def test_the_words_of_an_error_can_be_stored(error: Exception) -> None:
    """An error in words is short and valid Unicode, whatever it says."""
    words = text_of(error)
    assert type(error).__name__ in words
    assert len(words.encode("utf-8")) < 10_000


@pytest.mark.parametrize("way", ["generator", "map", "async generator"])
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_a_result_whose_code_has_not_run_yet_is_part_of_the_send(
    world: World, way: str, is_async: bool, fails: bool
) -> None:
    """A function may hand back what only sends once it is looked into: that is done in the send, and what it raises is the function's."""
    gate = world.gate()
    sent: list[str] = []

    def send(order: str) -> str:
        if fails:
            raise NotSent("offline")
        sent.append(order)
        return "paid"

    async def later(order: str) -> AsyncIterator[str]:
        yield send(order)

    def result(order: str) -> Any:
        if way == "async generator":
            return later(order)
        return map(send, [order]) if way == "map" else (send(each) for each in [order])

    async def aresult(order: str) -> Any:
        return result(order)

    pay: EffectFunction[Any] = gate.effect(key=lambda order: order, name="pay")(aresult if is_async else result)

    async def call() -> Outcome:
        return await pay.asubmit(["881"])

    outcome = asyncio.run(call()) if is_async else pay("881")
    assert str(outcome) == ("FAILED:not_sent" if fails else "COMMITTED")
    assert sent == ([] if fails else ["881"])
    if not fails:
        assert outcome.raw == outcome.value == ["paid"]
        assert str(pay.submit_blocking(["881"])) == "DUPLICATE_IGNORED"
        assert sent == ["881"]
