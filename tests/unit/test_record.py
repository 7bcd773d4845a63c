"""Records behave as the frozen dataclasses that a type checker takes them for."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from typing import Any

import pydantic
import pytest

from interlock import BadInput, Budget, Outcome, Settlement, Status
from interlock.authority import Approval
from interlock.record import record


@record(frozen=True)
class Record:
    """A record with every kind of field."""

    name: str
    number: int = 0
    parts: list[int] = field(default_factory=list)
    shown: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Twin:
    """The same as a dataclass."""

    name: str
    number: int = 0
    parts: list[int] = field(default_factory=list)
    shown: Any = field(default=None, repr=False, compare=False)


RECORDS = [
    Budget("customer:7", 3000, 2000),
    Settlement("settled", {"id": "re_1"}, "paid"),
    Approval(id="a1", by="Ann", amount_minor=2000),
    Outcome(Status.COMMITTED, "refund", "7", "id", value={"id": "re_1"}, changes={"left": {"now": 1}}),
]


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (("a",), {}),
        (("a", 1, [2], 3), {}),
        (("a",), {"shown": 4, "number": 2}),
        ((), {"name": "a", "parts": [1, 2]}),
    ],
)
def test_it_is_made_compared_and_shown_as_a_dataclass_is(values: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Whatever it is made of, its fields, its text and what it is equal to are those of the dataclass."""
    made, twin = Record(*values, **named), Twin(*values, **named)
    assert asdict(made) == asdict(twin)
    assert repr(made) == repr(twin).replace("Twin", "Record")
    assert made == Record(*values, **named)
    assert (made == Record("other")) is (twin == Twin("other")) is False
    assert (made == replace(made, shown="else")) is (twin == replace(twin, shown="else")) is True


@pytest.mark.parametrize(
    "call",
    [
        lambda kind: kind(),
        lambda kind: kind("a", 1, [], 2, 3),
        lambda kind: kind("a", name="b"),
        lambda kind: kind("a", colour="red"),
        lambda kind: hash(kind("a")),
    ],
)
def test_what_a_dataclass_refuses_it_refuses(call: Callable[[Any], Any]) -> None:
    """A call that a dataclass does not take, and a hash over what has none, is a TypeError."""
    for kind in (Record, Twin):
        with pytest.raises(TypeError):
            call(kind)


def test_each_one_has_a_default_of_its_own() -> None:
    """A default that is made anew for each is not shared."""
    assert Record("a").parts is not Record("a").parts


@pytest.mark.parametrize("one", RECORDS, ids=lambda one: type(one).__name__)
def test_it_cannot_be_changed(one: Any) -> None:
    """No field of it can be set or deleted, nor another be added."""
    for name in (fields(one)[0].name, "another"):
        with pytest.raises(FrozenInstanceError):
            setattr(one, name, "x")
        with pytest.raises(FrozenInstanceError):
            delattr(one, name)


@pytest.mark.parametrize("one", RECORDS, ids=lambda one: type(one).__name__)
def test_it_can_be_copied_and_carried_between_processes(one: Any) -> None:
    """A copy, a deep copy and what was pickled are equal to it."""
    assert copy.copy(one) == copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == replace(one) == one


def test_what_is_equal_has_one_hash() -> None:
    """Equal records are one key of a dict; another value is another one."""
    approvals = {Approval(id="a1"), Approval(id="a1"), Approval(id="a2")}
    assert len(approvals) == 2


def test_a_change_is_checked_as_a_new_one_is() -> None:
    """`dataclasses.replace` makes a new one, and what a class checks is checked again."""
    assert replace(Budget("k", 3, 2), amount=1) == Budget("k", 3, 1)
    with pytest.raises(BadInput, match="amount"):
        replace(Budget("k", 3, 2), amount=0)


def test_pydantic_reads_and_writes_it() -> None:
    """It may be a parameter's annotation: pydantic writes it, reads it back, and runs its checks."""
    adapter = pydantic.TypeAdapter(Budget)
    assert adapter.validate_json(adapter.dump_json(Budget("k", 3, 2))) == Budget("k", 3, 2)
    with pytest.raises(BadInput, match="key"):
        adapter.validate_python({"key": "", "limit": 3, "amount": 2})


def test_a_frozen_dataclass_may_add_fields_to_it() -> None:
    """A subclass that is a frozen dataclass has both its own fields and the record's."""

    @dataclass(frozen=True)
    class Named(Budget):
        note: str = ""

    assert Named("k", 3, 2, "n") == Named("k", 3, 2, "n") != Named("k", 3, 2)
    with pytest.raises(FrozenInstanceError):
        Named("k", 3, 2).note = "x"  # type: ignore[misc]
