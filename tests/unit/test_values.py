"""Values: faithful or refused as arguments, never an error as results; canonical bytes and identities."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pydantic
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import NotSerializable
from interlock.rules.canonical import derive_id, digest
from interlock.rules.values import Annotation, by_value, decode, decode_result, encode, encode_result, fingerprint

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.datetimes(timezones=st.just(UTC))
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.uuids()
    | st.binary(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), inner, max_size=4)
        | st.tuples(inner, inner)
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_plain_values_come_back_as_they_were(value: Any) -> None:
    """What is decoded from the record is the value that was given: same type, same content."""
    stored = json.loads(json.dumps(encode(value)))
    assert decode(stored) == value
    assert type(decode(stored)) is type(value)
    fingerprint(encode(value))


@pytest.mark.parametrize("value", [datetime.fromisoformat("2026-10-25T02:30"), time(2, 30)])
def test_the_second_of_two_like_moments_stays_the_second(value: datetime | time) -> None:
    """Without a zone `fold` alone tells which one it is, on the night when clocks are put back: it is kept, and part of the request."""
    second = value.replace(fold=1)
    stored = json.loads(json.dumps(encode(second)))
    assert (decode(stored), decode(stored).fold) == (second, 1)
    assert decode(encode(value)).fold == 0
    assert fingerprint(encode(second)) != fingerprint(encode(value))
    zoned = datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))
    assert decode(encode(zoned)).utcoffset() == zoned.utcoffset()


@pytest.mark.parametrize("name", ["$decimal", "$typed", "$map", "$x"])
def test_a_dict_that_looks_like_a_tag_is_no_tag(name: str) -> None:
    """A dict of the user's whose key looks like one of our tags comes back as it was."""
    value = {name: "20.00"}
    assert decode(encode(value)) == value


@dataclass
class Item:
    name: str
    price: Decimal


class Order(pydantic.BaseModel):
    number: int
    items: list[Item]


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Item, Item("a", Decimal("1.10"))),
        (Order, Order(number=1, items=[Item("a", Decimal("1.10"))])),
        (Colour, Colour.RED),
        (list[Item], [Item("a", Decimal(1)), Item("b", Decimal("2.5"))]),
        (dict[str, Colour], {"c": Colour.RED}),
        (Item | None, Item("a", Decimal(1))),
    ],
)
def test_annotated_types_come_back_through_their_annotation(hint: Any, value: Any) -> None:
    """Dataclasses, pydantic models, enums, and containers of them, come back as they were if the parameter is annotated."""
    annotation = Annotation(hint)
    stored = json.loads(json.dumps(encode(value, annotation)))
    assert decode(stored, annotation) == value


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (Item("a", Decimal(1)), "Annotate the parameter"),
        (Colour.RED, "Annotate the parameter"),
        (object(), "ignore="),
        ({1: 2}, "Pass plain values"),
        ({1, 2}, "Pass plain values"),
        ([1, {"deep": object()}], "object"),
        (time(2, 30, tzinfo=ZoneInfo("Europe/Berlin")), "Pass plain values"),
    ],
)
def test_what_cannot_be_rebuilt_is_refused(value: Any, told: str) -> None:
    """An argument that could not be rebuilt after a restart is refused at the door, and the error says what to do."""
    with pytest.raises(NotSerializable, match=told):
        encode(value, what="argument 'x'")


def test_an_annotation_that_changes_the_value_is_refused() -> None:
    """A value that would come back as another one through its annotation is refused: a resend would differ."""
    with pytest.raises(NotSerializable, match="annotation"):
        encode(Item("a", Decimal(1)), Annotation(dict[str, Any]))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**53, -(2**53), [1, {"a": 2**60}], "\ud800"])
def test_what_json_would_change_has_no_fingerprint(value: Any) -> None:
    """NaN, infinities, integers of 2^53 and more, and broken Unicode are refused, never rounded."""
    with pytest.raises(NotSerializable):
        fingerprint(encode(value))


@pytest.mark.parametrize(
    ("left", "right", "is_same"),
    [
        (Decimal("20.0"), Decimal("20.00"), True),
        (Decimal("20"), "20", False),
        (1, True, False),
        (1, 1.0, True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ((1, 2), [1, 2], False),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00+00:00", False),
    ],
)
def test_what_counts_as_the_same_payload(left: Any, right: Any, is_same: bool) -> None:
    """Two payloads are one if their values are: numbers by value, types apart."""
    assert (digest(by_value(encode(left))) == digest(by_value(encode(right)))) is is_same


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Refund:
    """As an SDK's result: no dict, but it can become one."""

    def to_dict(self) -> dict[str, Any]:
        return {"id": "re_1", "amount": Decimal("20.00")}


class LyingRefund:
    def to_dict(self) -> dict[str, Any]:
        raise RuntimeError("no")


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        ({"id": "re_1"}, {"id": "re_1"}),
        (Decimal("20.00"), "20.00"),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"),
        (Refund(), {"id": "re_1", "amount": "20.00"}),
        (Item("a", Decimal("1.10")), {"name": "a", "price": "1.10"}),
        (Order(number=1, items=[]), {"number": 1, "items": []}),
        ([Colour.RED, (1, 2)], ["red", [1, 2]]),
        (float("nan"), "NaN"),
        (2**70, 2**70),
        (UUID(int=1), str(UUID(int=1))),
    ],
)
def test_results_have_a_json_form(raw: Any, kept: Any) -> None:
    """A result is kept in its JSON form, and reading the record gives the same."""
    assert encode_result(raw) == kept
    assert json.loads(json.dumps(encode_result(raw), allow_nan=False)) == kept


@pytest.mark.parametrize("raw", [Broken(), LyingRefund(), LOOP, "\ud800", {"a": object()}, lambda: 1, b"\xff\x00"])
def test_a_result_is_never_an_error(raw: Any) -> None:
    """The effect has landed: whatever the function returned, something storable is kept and nothing is raised."""
    json.dumps(encode_result(raw), allow_nan=False, ensure_ascii=False).encode("utf-8")


@pytest.mark.parametrize(
    ("hint", "raw"),
    [
        (Decimal, Decimal("20.00")),
        (Item, Item("a", Decimal("1.10"))),
        (Order, Order(number=1, items=[Item("a", Decimal(1))])),
        (list[date], [date(2026, 1, 1)]),
        (timedelta, timedelta(seconds=90)),
        (time, time(12, 30)),
    ],
)
def test_an_annotated_result_comes_back_in_its_type(hint: Any, raw: Any) -> None:
    """Through the return annotation a result is the same on the first call, on a replay and after a restart."""
    annotation = Annotation(hint)
    written = encode_result(raw, annotation)
    assert decode_result(written, annotation) == raw
    assert decode_result(json.loads(json.dumps(written)), annotation) == raw


def test_a_stored_result_that_no_longer_fits_is_given_as_json() -> None:
    """A return annotation that changed since does not turn a landed effect into an error."""
    assert decode_result({"old": 1}, Annotation(int)) == {"old": 1}


class Aliased(pydantic.BaseModel):
    """A model whose fields have other names outside, and that keeps what it does not know."""

    model_config = pydantic.ConfigDict(extra="allow")

    order_id: str = pydantic.Field(alias="order")
    at: date | None = None


class Amounts(pydantic.RootModel[list[Decimal]]):
    """A model that is a list."""


@pytest.mark.parametrize(
    ("hint", "raw", "again"),
    [
        (Aliased, Aliased(order="4471", at=date(2026, 3, 1)), {"order": "4471", "at": "2026-03-01", "more": 1}),
        (Amounts, Amounts([Decimal("20.00")]), ["20.00"]),
        (Order, {"not": "an order"}, {"number": 1, "items": [{"name": "a", "price": "20.00"}]}),
    ],
)
def test_a_model_is_written_and_read_as_its_type_adapter_does(hint: Any, raw: Any, again: Any) -> None:
    """What a model gives and takes by itself is what pydantic's adapter of it would have given and taken."""
    adapter = pydantic.TypeAdapter[Any](hint)
    assert encode_result(raw, Annotation(hint)) == adapter.dump_python(raw, mode="json", warnings=False)
    assert decode_result(again, Annotation(hint)) == adapter.validate_python(again)


def test_identities_are_pinned() -> None:
    """Effect ids and later attempts' keys are what they always were: an open effect must be found after an upgrade."""
    assert derive_id("refund_money", "refund:881") == "0pe094m482db624h7ego7lgp"
    assert derive_id("refund_money", "refund:881", 2) == "daa6jlhijk28kjf3q8hspqba"


@given(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.integers(1, 99),
)
def test_an_identity_is_legal_everywhere(effect: str, key: str, attempt: int) -> None:
    """24 characters out of 0-9 and a-v, which every service we know takes."""
    identity = derive_id(effect, key, attempt)
    assert len(identity) == 24
    assert set(identity) <= set("0123456789abcdefghijklmnopqrstuv")


def test_effect_and_key_are_not_just_joined() -> None:
    """Two different pairs of effect and key never share an identity because their texts run together."""
    identities = {
        derive_id(*pair)
        for pair in [("a", "bc"), ("ab", "c"), ("abc", ""), ("", "abc"), ('a","b', "c"), ("a", 'b","c')]
    }
    assert len(identities) == 6


def test_the_digest_is_over_rfc_8785_bytes() -> None:
    """The fingerprint can be computed by anybody from the standard alone."""
    assert fingerprint({"b": 1.0, "a": "é"}) == rfc8785.dumps({"b": 1, "a": "é"}) == '{"a":"é","b":1}'.encode()
