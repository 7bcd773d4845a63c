"""Code that changed between a crash and the recovery: what was sent by the old one is never taken for what the new one would send."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from interlock import BadInput, Interlock, NotSent
from interlock.effects import History
from interlock.extend import Parameters, ToolGate
from interlock.journal import MemoryJournal
from interlock.outcomes import Outcome
from interlock.ports import Capabilities
from interlock.protocol._declared import as_declared, in_force
from interlock.testing import SimulatedCrash
from tests.unit.conftest import World

SENT_WITHOUT_KEY = "It was sent by code that passed no key on."
NO_LOOKUP = "It was sent by code that declared no lookup=, so that the present one does not find it says nothing."


class Shop:
    """A service that knows what it did by key, if it got one, and by order."""

    def __init__(self) -> None:
        self.world = World()
        self.done: list[tuple[str, str]] = []

    def declare(
        self, gate: Interlock, *, passes_key: bool, dedupes: bool = False, lookup: str = "", **options: Any
    ) -> Any:
        """The refund of one release: what its function passes on, and what it declares."""
        lookups: dict[str, Callable[..., Any]] = {
            "by key": lambda idempotency_key: next((one for one in self.done if one[1] == idempotency_key), None),
            "by order": lambda order: next((one for one in self.done if one[0] == order), None),
        }
        if lookup:
            options["lookup"] = lookups[lookup]
        if dedupes:
            options.setdefault("window", 3600)
        declared = gate.effect(
            key=lambda order: f"refund:{order}", name="refund", dedupes=dedupes, settle_after=0.05, **options
        )

        def book(order: str, key: str) -> str:
            if not (dedupes and key in [known for _, known in self.done]):
                self.done.append((order, key))
            return "done"

        if passes_key:

            def refund(order: str, idempotency_key: str) -> str:
                return book(order, idempotency_key)

            return declared(refund)

        def refund_plainly(order: str) -> str:
            return book(order, "")

        return declared(refund_plainly)

    def crash(self, point: str, **release: Any) -> None:
        """The old release begins it and dies."""
        gate = self.world.gate()
        refund = self.declare(gate, **release)
        with pytest.raises(SimulatedCrash):
            gate.submit(refund.proposal("881"), crash_at=point)

    def recover(self, **release: Any) -> Outcome:
        """The new release recovers it."""
        gate = self.world.gate()
        self.declare(gate, **release)
        (outcome,) = gate.recover()
        return outcome


@pytest.mark.parametrize("point", ["after_dispatch", "after_send"])
@pytest.mark.parametrize(
    ("old", "new", "unsent", "landed", "why"),
    [
        pytest.param(
            {"passes_key": False},
            {"passes_key": True, "dedupes": True},
            "AMBIGUOUS",
            "AMBIGUOUS",
            SENT_WITHOUT_KEY,
            id="3 to 1",
        ),
        pytest.param(
            {"passes_key": True},
            {"passes_key": True, "dedupes": True},
            "AMBIGUOUS",
            "AMBIGUOUS",
            "declared no dedupes=",
            id="3 to 1, by declaration",
        ),
        pytest.param(
            {"passes_key": False},
            {"passes_key": True, "lookup": "by key"},
            "AMBIGUOUS",
            "AMBIGUOUS",
            NO_LOOKUP,
            id="3 to 2",
        ),
        pytest.param(
            {"passes_key": False},
            {"passes_key": False, "lookup": "by order"},
            "AMBIGUOUS",
            "COMMITTED_ON_QUERY",
            NO_LOOKUP,
            id="3 to 2, found",
        ),
        pytest.param(
            {"passes_key": False, "lookup": "by order"},
            {"passes_key": True, "lookup": "by key"},
            "AMBIGUOUS",
            "AMBIGUOUS",
            "passed no key on, so that a look-up by the key",
            id="2 to 2, by the key that it went without",
        ),
        pytest.param(
            {"passes_key": False, "lookup": "by order"},
            {"passes_key": True, "dedupes": True, "lookup": "by order"},
            "REAPPLIED_AFTER_QUERY",
            "COMMITTED_ON_QUERY",
            "",
            id="2 to 1, found as before",
        ),
        pytest.param(
            {"passes_key": True, "dedupes": True},
            {"passes_key": True, "dedupes": True, "lookup": "by key"},
            "COMMITTED_BY_RETRY",
            "COMMITTED_BY_RETRY",
            "",
            id="1 gets a look-up",
        ),
        pytest.param(
            {"passes_key": True, "dedupes": True}, {"passes_key": True}, "AMBIGUOUS", "AMBIGUOUS", "", id="1 to 3"
        ),
    ],
)
def test_the_weaker_of_then_and_now(
    point: str, old: dict[str, Any], new: dict[str, Any], unsent: str, landed: str, why: str
) -> None:
    """It is never sent on the strength of what the first request went without; what is found counts, and a person is told why."""
    shop = Shop()
    shop.crash(point, **old)
    outcome = shop.recover(**new)
    assert str(outcome) == (unsent if point == "after_dispatch" else landed)
    assert len(shop.done) == (0 if point == "after_dispatch" and unsent == "AMBIGUOUS" else 1)
    if str(outcome) == "AMBIGUOUS":
        assert why in outcome.detail


@pytest.mark.parametrize(("then", "now"), [(3600, 86400), (86400, 3600)])
def test_the_shorter_window_counts(then: int, now: int) -> None:
    """Two hours after the crash one of the releases says that the key may be forgotten: nothing is sent."""
    shop = Shop()
    shop.crash("after_send", passes_key=True, dedupes=True, window=then)
    shop.world.clock.advance(7200)
    assert str(shop.recover(passes_key=True, dedupes=True, window=now)) == "AMBIGUOUS"
    assert len(shop.done) == 1


def test_it_stays_so_over_a_recovery_that_dies() -> None:
    """A recovery by the new code that dies in its resend does not make the first request one of the new code."""
    shop = Shop()
    shop.crash("after_dispatch", passes_key=True, dedupes=True, window=3600)
    gate = shop.world.gate()
    refund = shop.declare(gate, passes_key=True, dedupes=True, window=86400)
    with pytest.raises(SimulatedCrash):
        gate.submit(refund.proposal("881"), crash_at="after_send")
    shop.world.clock.advance(7200)
    assert str(shop.recover(passes_key=True, dedupes=True, window=86400)) == "AMBIGUOUS"
    assert len(shop.done) == 1


def test_an_entry_of_an_earlier_version_counts_as_declared_now() -> None:
    """An entry that does not say what was declared is no reason to call it AMBIGUOUS."""
    shop = Shop()
    gate = shop.world.gate()
    outcome = shop.declare(gate, passes_key=True, dedupes=True)("881")
    history = outcome.history
    dispatch = history.entries[2]
    assert (dispatch.data["declared"], dispatch.data["window_s"]) == ("key dedupes", 3600.0)
    old = {name: value for name, value in dispatch.data.items() if name not in ("declared", "window_s")}
    before = History(history.effect_id, (*history.entries[:2], dispatch._replace(data=old)))
    declared = Capabilities(True, 60.0, True, 0.0, 1.0, 5.0)
    assert in_force(before, dispatch.data["key"], declared) == (declared, "", "")
    now = in_force(history, dispatch.data["key"], declared._replace(window_s=9e9))
    assert now.capabilities.window_s == 3600.0


@pytest.mark.parametrize(
    ("changed", "declared"),
    [
        ({}, "key lookup"),
        ({"passes_key": False}, "lookup"),
        ({"can_look_up": False, "passes_key": False}, ""),
        ({"dedupes": True}, "key dedupes lookup"),
    ],
)
def test_the_words_on_the_record(changed: dict[str, Any], declared: str) -> None:
    """Stored words are API; the window stands beside them only where there is one."""
    said = as_declared(Capabilities(False, 60.0, True, 0.0, 1.0, 5.0)._replace(**changed))
    assert dict(said) == {"declared": declared, **({"window_s": 60.0} if changed.get("dedupes") else {})}


def test_a_tool_that_gets_no_key_passes_none_on() -> None:
    """A gated tool takes the key only where its configuration, or its own signature, carries it to the service."""
    config = {"tools": {"plain": {"key": ["order"]}, "keyed": {"key": ["order"], "idempotency_argument": "ref"}}}

    def tool(arguments: Any, context: Any) -> str:
        return "done"

    with ToolGate(config, tools={"plain": tool, "keyed": tool}, journal=MemoryJournal()) as gate:
        passes = {name: gate.effects[name].capabilities.passes_key for name in ("plain", "keyed")}
    assert passes == {"plain": False, "keyed": True}


# --- arguments --------------------------------------------------------------------------------------------------------


def renamed(gate: Interlock, sent: list[Any], options: dict[str, Any]) -> Any:
    """The release in which `amount` has become `amount_minor`."""

    @gate.effect(key=lambda order: order, name="refund", **options)
    def refund(order: str, idempotency_key: str, amount_minor: int | None = None) -> str:
        sent.append(amount_minor)
        return "done"

    return refund


@pytest.mark.parametrize("tier", [1, 2])
def test_a_recorded_argument_that_the_function_no_longer_takes(tier: int, caplog: pytest.LogCaptureFixture) -> None:
    """It is not left out, which would refund all instead of 20: the effect stays open, and recovery says what to do."""
    world, sent = World(), list[Any]()
    options: dict[str, Any] = (
        {"dedupes": True, "window": 3600}
        if tier == 1
        else {"lookup": lambda idempotency_key: None, "settle_after": 0.0}
    )

    def before(gate: Interlock) -> Any:
        @gate.effect(key=lambda order: order, name="refund", **options)
        def refund(order: str, idempotency_key: str, amount: int | None = None) -> str:
            sent.append(amount)
            return "done"

        return refund

    gate = world.gate()
    refund = before(gate)
    with pytest.raises(SimulatedCrash):
        gate.submit(refund.proposal("881", amount=20), crash_at="after_dispatch")
    for _ in range(2):
        gate = world.gate()
        renamed(gate, sent, options)
        (outcome,) = gate.recover()
        assert outcome.status == "IN_FLIGHT"
        assert "the record holds 'amount'" in outcome.detail
        assert "Let it take that again" in outcome.detail
        if tier == 2:
            assert outcome.for_person.startswith("It could not be looked up, or")
            assert outcome.detail.startswith("effect 'refund': the record holds")
            (told,) = (line for line in caplog.messages if "it could not be looked up" in line)
            assert f"effect 'refund', idempotency key {outcome.effect_id}" in told
            assert "the record holds 'amount'" in told
            assert any(
                line.startswith("refund '881' is still open: IN_FLIGHT:lookup_failed: ") for line in caplog.messages
            )
        caplog.clear()
    assert sent == []
    gate = world.gate()
    before(gate)
    assert [outcome.ok for outcome in gate.recover()] == [True]
    assert sent == [20]


def test_a_kept_proposal_with_an_argument_that_the_function_no_longer_takes() -> None:
    """It is refused at the door, also where the argument does not count for the identity."""
    sent: list[Any] = []
    gate = World().gate()

    @gate.effect(key=lambda order: order, name="refund", binds=("order",))
    def refund(order: str, amount: int | None = None) -> str:
        return "done"

    proposal = refund.proposal("881", amount=20)
    gate = World().gate()
    renamed(gate, sent, {"binds": ("order",)})
    with pytest.raises(BadInput, match=r"the record holds 'amount'.*Make a new proposal"):
        gate.submit(proposal)
    assert sent == []


def test_what_was_recorded_is_sent_though_it_is_ignored_now() -> None:
    """An argument that the new code names in ignore= is sent as it was recorded, not as context= has it."""
    world, sent = World(), list[Any]()

    def declare(gate: Interlock, **options: Any) -> Any:
        @gate.effect(key=lambda order: order, name="refund", dedupes=True, window=3600, **options)
        def refund(order: str, amount: int, idempotency_key: str) -> str:
            sent.append(amount)
            return "done"

        return refund

    gate = world.gate()
    with pytest.raises(SimulatedCrash):
        gate.submit(declare(gate).proposal("881", 20), crash_at="after_dispatch")
    gate = world.gate()
    declare(gate, ignore=("amount",), context={"amount": 9999})
    assert [outcome.ok for outcome in gate.recover()] == [True]
    assert sent == [20]


def test_what_has_landed_is_still_watched_when_an_argument_is_gone() -> None:
    """Nothing is sent any more: what an effect was asked for is only looked at, and an argument less does not stop that."""
    world = World()
    asked: list[str] = []

    def settlement(order: str) -> None:
        asked.append(order)

    gate = world.gate()

    @gate.effect(key=lambda order: order, name="pay", settlement=settlement)
    def pay(order: str, note: str = "") -> str:
        return "done"

    paid = pay("1")
    assert paid.ok
    gate = world.gate()

    @gate.effect(key=lambda order: order, name="pay", settlement=settlement)
    def pay_now(order: str) -> str:
        return "done"

    gate.resettle(paid.effect_id)
    assert asked == ["1"]


# --- premises ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "expect", "wanted"),
    [
        ({"eligible": False}, {"eligible": True}, "REFUSED:stale_premise_at_recovery"),
        ({"eligible": True}, {"eligible": True}, "REAPPLIED_AFTER_QUERY"),
        ({"total": 5}, None, "REAPPLIED_AFTER_QUERY"),
    ],
)
def test_a_premise_that_is_new(facts: dict[str, Any], expect: dict[str, Any] | None, wanted: str) -> None:
    """There are no facts on the record: what the new code asks of the present counts, as in a new call; unchanged it is by nature."""
    world = World()
    gate = world.gate()
    refund = world.refund(gate, 2, premises=None)
    with pytest.raises(SimulatedCrash):
        gate.submit(refund.proposal("881", 2000), crash_at="after_dispatch")
    gate = world.gate()
    world.refund(gate, 2, premises=lambda: facts, expect=expect)
    (outcome,) = gate.recover()
    assert str(outcome) == wanted
    assert len(world.service.sends) == (0 if wanted.startswith("REFUSED") else 1)


def test_a_tool_s_recorded_argument_that_it_no_longer_takes() -> None:
    """A tool that leaves out what its schema does not list is not sent another request after a crash; it stays open, and says why."""
    refunds: list[Any] = []
    journal = MemoryJournal()
    config = {"tools": {"refund": {"key": ["order"], "dedupes": True, "window": 3600, "idempotency_argument": "ref"}}}

    def start(*names: str) -> ToolGate:
        def refund(arguments: Any, context: Any) -> str:
            refunds.append({name: value for name, value in arguments.items() if name in names})
            return "done"

        own = MemoryJournal(journal.store)
        return ToolGate(
            config, tools={"refund": refund}, journal=own, parameters={"refund": Parameters((*names, "ref"))}
        )

    gate = start("order", "amount")
    proposal = gate.effects["refund"].proposal(arguments={"order": "881", "amount": 20})
    with pytest.raises(SimulatedCrash):
        gate.interlock.submit(proposal, crash_at="after_dispatch")
    gate = start("order", "amount_minor")
    (outcome,) = gate.recover()
    assert outcome.status == "IN_FLIGHT"
    assert "the record holds 'amount'" in outcome.detail
    assert refunds == []
    gate = start("order", "amount_minor", "amount")
    assert [outcome.ok for outcome in gate.recover()] == [True]
    assert [refund["amount"] for refund in refunds] == [20]


FIRST, REWORDED, OTHER = ("881", 20, "broken"), ("881", 20, "damaged"), ("881", 25, "broken")


@pytest.mark.parametrize("how", ["landed", "refused", "failed", "in flight"])
@pytest.mark.parametrize(
    ("then", "now", "call", "is_same"),
    [
        pytest.param(None, ("order", "amount"), FIRST, True, id="named"),
        pytest.param(None, ("order", "amount"), REWORDED, True, id="named, reworded"),
        pytest.param(None, ("order", "amount"), OTHER, False, id="named, other"),
        pytest.param(("order",), ("order", "amount"), REWORDED, True, id="one more"),
        pytest.param(("order",), ("order", "amount"), OTHER, False, id="one more, other"),
        pytest.param(("order", "amount"), ("order",), OTHER, True, id="one less"),
        pytest.param(("order", "amount"), None, FIRST, True, id="gone"),
        pytest.param(("order", "amount"), None, REWORDED, False, id="gone, reworded"),
    ],
)
def test_what_counts_is_what_binds_names_now(
    how: str, then: tuple[str, ...] | None, now: tuple[str, ...] | None, call: tuple[Any, ...], is_same: bool
) -> None:
    """A request recorded under another `binds=` is the same one if what counts now is the same, and else is told by what differs."""
    world, sent = World(), list[tuple[Any, ...]]()
    allowed = how != "refused"
    broken = how == "failed"

    def start(binds: tuple[str, ...] | None) -> Any:
        @(gate := world.gate()).effect(
            key=lambda order: order,
            name="refund",
            dedupes=True,
            window=3600,
            lookup=lambda: None,
            allowed=lambda: allowed,
            binds=binds,
        )
        def refund(order: str, amount: int, note: str, idempotency_key: str) -> str:
            if broken:
                raise NotSent("no network")
            sent.append((order, amount, note))
            return "done"

        return gate, refund

    gate, refund = start(then)
    if how == "in flight":
        with pytest.raises(SimulatedCrash):
            gate.submit(refund.proposal(*FIRST), crash_at="after_dispatch")
    else:
        refund(*FIRST)
    allowed, broken = True, False
    _, refund = start(now)
    outcome = refund(*call)
    if is_same:
        assert outcome.ok, outcome.for_person
    else:
        assert (str(outcome), "seen" in str(outcome.changes)) == ("REFUSED:conflicting_payload", True)
    assert sent == ([] if how in ("refused", "failed") and not is_same else [FIRST])


@pytest.mark.parametrize(("default", "same"), [(None, True), ("usd", True), (object(), False)])
def test_an_argument_that_came_with_a_default(default: Any, same: bool) -> None:
    """A call that leaves it out is the one on record; a default without a JSON form tells nothing, and breaks nothing."""
    world, sent = World(), list[str]()
    options: dict[str, Any] = {"key": lambda order: order, "name": "refund"}

    @world.gate().effect(**options)
    def before(order: str) -> None:
        sent.append(order)

    before("881")

    @world.gate().effect(**options)
    def since(order: str, currency: Any = default) -> None:
        sent.append(order)

    assert str(since("881")) == "DUPLICATE_IGNORED" if same else str(since("881", "usd")).startswith("REFUSED")
    assert str(since("881", "eur")) == "REFUSED:conflicting_payload"
    assert sent == ["881"]
