"""Records behave as the frozen dataclasses that a type checker takes them for."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from typing import Any

import pydantic
import pytest

from interlock import BadInput, Budget, Outcome, Proposal, Settlement, Status
from interlock.authority import Approval
from interlock.effects import Draft, Kind
from interlock.record import NamedTuple, record


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


class Pair(NamedTuple):
    """A named tuple with all that one may have."""

    name: str
    numbers: Mapping[str, int] | None
    left: float = 1.5
    more: tuple[str, ...] = ()

    @property
    def twice(self) -> float:
        """A property of its own."""
        return 2 * self.left

    @classmethod
    def of(cls, name: str) -> Pair:
        """One by name."""
        return cls(name, None)


class Double(typing.NamedTuple):
    """The same, of the standard library's."""

    name: str
    numbers: Mapping[str, int] | None
    left: float = 1.5
    more: tuple[str, ...] = ()


class Longer(Pair):
    """One that inherits its fields."""

    __slots__ = ()


def test_a_named_tuple_is_the_standard_librarys_to_whoever_looks() -> None:
    """Fields, defaults, annotations, signature, text, place and doc are as `typing.NamedTuple` has them."""
    assert Pair._fields == Double._fields == Pair.__match_args__
    assert Pair._field_defaults == Double._field_defaults
    assert typing.get_type_hints(Pair) == typing.get_type_hints(Double)
    assert list(inspect.signature(Pair).parameters) == list(inspect.signature(Double).parameters)
    assert repr(Pair("a", {})) == repr(Double("a", {})).replace("Double", "Pair")
    assert (Pair.__module__, Pair.__qualname__) == (__name__, "Pair")
    assert Pair.__doc__ == "A named tuple with all that one may have."
    assert tuple(Pair("a", {"b": 1})) == tuple(Double("a", {"b": 1})) == ("a", {"b": 1}, 1.5, ())


@pytest.mark.parametrize("kind", [Pair, Longer])
def test_a_named_tuple_is_copied_carried_and_taken_apart(kind: type[Pair]) -> None:
    """Copies, pickles and `_replace` keep the type; methods are its own; patterns and unpacking see the fields."""
    one = kind.of("a")
    for other in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one)), one._replace(name="a")):
        assert type(other) is kind
        assert other == one
    assert one._replace(left=2.0).twice == 4.0
    assert one._asdict() == {"name": "a", "numbers": None, "left": 1.5, "more": ()}
    assert not hasattr(one, "__dict__")
    match one:
        case Pair(name, numbers, left=1.5):
            assert (name, numbers) == ("a", None)
        case _:
            pytest.fail("the pattern does not match")
    with pytest.raises(AttributeError):
        one.name = "b"  # type: ignore[misc]


@pytest.mark.parametrize("call", [lambda kind: kind(), lambda kind: kind("a", None, colour=1)])
def test_what_a_named_tuple_refuses(call: Callable[[Any], Any]) -> None:
    """A missing and an unknown field are TypeErrors, as of the standard library's."""
    for kind in (Pair, Double, Longer):
        with pytest.raises(TypeError):
            call(kind)


def test_pydantic_takes_a_named_tuple_for_one() -> None:
    """As a field or by itself: read, checked and written by its annotations."""
    adapter = pydantic.TypeAdapter(Pair)
    assert adapter.validate_json(adapter.dump_json(Pair("a", {"b": 1}))) == Pair("a", {"b": 1})
    with pytest.raises(pydantic.ValidationError):
        adapter.validate_python(("a", {"b": "no number"}))
    proposal = Proposal("pay", "7", "id", {"order": "7"}, "digest")
    assert pydantic.TypeAdapter(Proposal).validate_python(proposal) == proposal
    assert pydantic.TypeAdapter(Draft).validate_python(("PROPOSED", "", {})).kind is Kind.PROPOSED


def test_a_named_tuple_that_could_not_be_one_is_not_defined() -> None:
    """What would be lost or land at another field is an error where the class stands."""
    base: Any = NamedTuple
    with pytest.raises(TypeError, match="Two"):

        class Two(base, typing.Generic[typing.TypeVar("T")]):  # type: ignore[misc]
            name: str

    with pytest.raises(TypeError, match="Wrong"):

        class Wrong(base):  # type: ignore[misc]
            name: str = ""
            number: int
