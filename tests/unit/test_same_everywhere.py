"""The same on the first call, on a replay and after a restart: what the function gets, and what the caller gets."""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock import Interlock
from interlock.journal import MemoryJournal
from interlock.rules.canonical import derive_id
from interlock.rules.recovery import surely_elapsed_s
from interlock.testing import SimulatedCrash
from tests.unit.test_values import PLAIN


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Line:
    name: str
    price: Decimal
    tags: tuple[str, ...] = ()


class Order(pydantic.BaseModel):
    number: int
    lines: list[Line]
    due: date | None = None


class Charge:
    """As an SDK's object."""

    def to_dict(self) -> dict[str, Any]:
        return {"id": "ch_1", "amount": 2000, "nested": [Line("a", Decimal("1.10"))]}


VALUES: list[tuple[Any, Any]] = [
    (Decimal, Decimal("20.00")),
    (datetime, datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)),
    (timedelta, timedelta(days=-1, microseconds=1)),
    (UUID, UUID(int=7)),
    (Line, Line("a", Decimal("1.10"), ("x", "y"))),
    (Order, Order(number=1, lines=[Line("a", Decimal(1))], due=date(2026, 1, 1))),
    (list[Line], [Line("a", Decimal(1))]),
    (dict[str, Colour], {"c": Colour.RED}),
    (Line | None, None),
    (Colour, Colour.RED),
]


def echo_on(gate: Interlock, hint: Any, made: Callable[[Any], Any], got: list[Any]) -> Any:
    """An effect whose parameter and result have this type."""

    def echo(value, idempotency_key):  # type: ignore[no-untyped-def]
        got.append(value)
        return made(value)

    if hint is not None:
        echo.__annotations__ = {"value": hint, "return": hint}
    return gate.effect(key=lambda: "k", dedupes=True, window=3600)(echo)


@pytest.mark.parametrize(("hint", "value"), VALUES)
def test_a_typed_value_is_the_same_everywhere(tmp_path: Path, hint: Any, value: Any) -> None:
    """First call, replay, a new process, and a resend after a crash: equal arguments and equal results, of the declared type."""
    got: list[Any] = []
    values: list[Any] = []
    with Interlock(tmp_path / "a") as gate:
        echo = echo_on(gate, hint, lambda value: value, got)
        values += [echo(value).value, echo(value).value]
    with Interlock(tmp_path / "a") as gate:
        values.append(echo_on(gate, hint, lambda value: value, got)(value).value)
    gate = Interlock(tmp_path / "b")
    echo = echo_on(gate, hint, lambda value: value, got)
    with pytest.raises(SimulatedCrash):
        gate.submit(echo.proposal(value), crash_after_effect=True)
    with Interlock(tmp_path / "b") as gate:
        echo_on(gate, hint, lambda value: value, got)
        values += [outcome.value for outcome in gate.recover()]
    assert got == [value] * 3
    assert values == [value] * 4
    assert {type(each) for each in (*got, *values)} == {type(value)}


@pytest.mark.parametrize(
    "raw",
    [
        Charge(),
        Line("a", Decimal("1.10")),
        {"a": float("nan")},
        b"\xff\x00",
        "\ud800",
        {1, 2},
        object(),
        2**70,
        iter([]),
    ],
)
def test_an_untyped_result_is_the_same_everywhere(tmp_path: Path, raw: Any) -> None:
    """Whatever came back: what the first call answers is what a replay and a new process answer."""
    texts: list[str] = []
    for again in (False, True):
        with Interlock(tmp_path) as gate:
            echo = echo_on(gate, None, lambda value: raw, [])
            outcomes = [echo(1), echo(1)]
            assert all(outcome.ok for outcome in outcomes)
            assert (outcomes[0].raw is raw) is not again
            texts += [json.dumps(outcome.value, allow_nan=False) for outcome in outcomes]
    assert len(set(texts)) == 1


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(PLAIN)
def test_any_plain_argument_reaches_the_function_as_it_was(value: Any) -> None:
    """An argument of JSON's and Python's plain types reaches the function as the same value of the same type, and replays."""
    got: list[Any] = []
    gate = Interlock(journal=MemoryJournal())
    echo = gate.effect(key=lambda: "k", name="echo")(lambda value: got.append(value))
    assert echo(value).ok
    assert (got, type(got[0])) == ([value], type(value))
    assert str(echo(value)) == "DUPLICATE_IGNORED"


@given(st.text('abc:/"[],\\é', max_size=8), st.text('abc:/"[],\\é', max_size=8))
def test_no_two_splits_of_one_text_share_an_identity(effect: str, key: str) -> None:
    """Wherever the border between effect and key is, another border is another identity; so is another attempt."""
    text = effect + key
    identities = [derive_id(text[:place], text[place:]) for place in range(len(text) + 1)]
    identities += [derive_id(effect, key, attempt) for attempt in (2, 3)]
    assert len(set(identities)) == len(identities)


ARGUMENTS = ("order", "amount", "idempotency_key")


@pytest.mark.parametrize("wanted", [c for n in range(4) for c in itertools.combinations(ARGUMENTS, n)])
@pytest.mark.parametrize("is_async", [False, True])
def test_callbacks_take_any_subset(wanted: tuple[str, ...], is_async: bool) -> None:
    """Each callback, sync or async, gets those arguments that it names, and the idempotency key if it names that."""
    got: list[dict[str, Any]] = []

    def callback(answer: Any) -> Callable[..., Any]:
        def plain(**given: Any) -> Any:
            got.append(given)
            return answer

        async def later(**given: Any) -> Any:
            return plain(**given)

        chosen: Any = later if is_async else plain
        parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in wanted]
        chosen.__signature__ = inspect.Signature(parameters)
        return chosen

    gate = Interlock(journal=MemoryJournal())
    lost = [TimeoutError()]

    @gate.effect(
        key=lambda order: order,
        premises=callback({"n": 1}),
        allowed=callback(True),
        lookup=callback(None),
        settle_after=0,
    )
    def pay(order: str, amount: int = 5, *, idempotency_key: str) -> str:
        if lost:
            raise lost.pop()
        return idempotency_key

    outcome = pay("1")
    every = {"order": "1", "amount": 5, "idempotency_key": outcome.effect_id}
    assert str(outcome) == "REAPPLIED_AFTER_QUERY"
    assert got == [{name: every[name] for name in wanted}] * 5  # twice premises, twice allowed, one look-up


NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("wall_s", "same_boot", "uptime_s", "expected"),
    [
        (60, True, 60, 60),
        (3600, True, 60, 60),  # the wall clock was set forward: only a minute has surely passed
        (-3600, True, 60, 60),  # set back: the boot's own clock tells
        (60, False, 5, 60),  # another boot: only the wall clock is left
        (-0.5, False, 5, -0.5),  # within the skew that is tolerated
        (-3600, False, 5, None),  # another boot and a clock that went back: nobody knows
        (-10, True, -5, None),  # a boot id that repeats with a smaller uptime is not the same boot
    ],
)
def test_time_that_has_surely_passed(wall_s: float, same_boot: bool, uptime_s: float, expected: float | None) -> None:
    """What must not be over too early is measured by the clock that nobody sets, and not at all where none can be believed."""
    elapsed = surely_elapsed_s(
        at=NOON,
        boot="a",
        uptime_s=1000.0,
        now=NOON + timedelta(seconds=wall_s),
        now_boot="a" if same_boot else "b",
        now_uptime_s=1000.0 + uptime_s,
    )
    assert elapsed == expected
