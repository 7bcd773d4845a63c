"""What cannot be kept is refused when it is declared, with the effect, the option and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock import Interlock, at_least, errors, tolerates
from interlock.errors import ConfigurationError
from interlock.journal import MemoryJournal


def refund(order: str, amount: int, idempotency_key: str) -> None:
    """A function to gate."""


KEY: dict[str, Any] = {"key": lambda order: order}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"key": "refund"}, r"key= must be a function"),
        ({"key": lambda order, idempotency_key: order}, r"key= asks for 'idempotency_key'"),
        ({"premises": lambda ordre: {}}, r"premises= asks for 'ordre'.*order, amount, idempotency_key"),
        ({"lookup": lambda key: None}, r"lookup= asks for 'key'.*idempotency_key \(what it is sent under\)"),
        ({"allowed": lambda *args: True}, r"allowed= takes \*args by position"),
        ({"lookup": "find"}, r"lookup= is 'find'"),
        ({"expect": {"eligible": True}}, r"expect= without premises="),
        ({"premises": lambda: {"x": 1}, "expect": [True]}, r"expect= is a dict"),
        (
            {"premises": lambda: {"x": 1}, "expect": {"x": tolerates(lambda seen, now, price: True, why="it may")}},
            r"asks for 'price'",
        ),
        ({"dedupes": "yes"}, r"dedupes= is 'yes'"),
        ({"window": 3600}, r"window= .* needs dedupes=True"),
        ({"dedupes": True, "window": 20, "timeout": 30}, r"window= \(20 s\) is not longer than timeout="),
        ({"dedupes": True, "window": timedelta(0)}, r"window= is"),
        ({"timeout": 0}, r"timeout= is 0"),
        ({"settle_after": -1}, r"settle_after= is -1"),
        ({"lookup_lag": "1s"}, r"lookup_lag= is '1s'"),
        ({"wait": True}, r"wait= is True"),
        ({"binds": "order"}, r"binds= is one text"),
        ({"binds": []}, r"binds= is empty"),
        ({"binds": ["price"]}, r"binds= names 'price'"),
        ({"ignore": ["amount"]}, r"recovery after a crash could not supply"),
        ({"ignore": ["amount"], "context": {"other": 1}}, r"recovery after a crash could not supply"),
        ({"context": 7}, r"context= is 7"),
        ({"rejected_on": "CardError"}, r"rejected_on= holds 'CardError'"),
        ({"not_sent_on": (Exception,)}, r"not_sent_on= holds Exception"),
        ({"in_use_on": BaseException}, r"in_use_on= holds BaseException"),
    ],
)
def test_options_that_cannot_be_kept(options: dict[str, Any], told: str) -> None:
    """A wrong option is an error at once that names the effect and says what to do."""
    gate = Interlock(journal=MemoryJournal())
    with pytest.raises(ConfigurationError, match=told) as refused:
        gate.effect(**(KEY | options))(refund)
    assert "refund" in str(refused.value)
    assert not gate.effects


def variadic(*orders: str) -> None: ...
def keywords(order: str, **more: Any) -> None: ...
def positional(order: str, /) -> None: ...
def generator(order: str) -> Any:
    yield order


class Agent:
    """A class with a method."""

    def refund(self, order: str) -> None:
        """A method."""


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (variadic, "no name that the record could keep"),
        (keywords, "no name that the record could keep"),
        (positional, "no name that the record could keep"),
        (generator, "a generator has no one moment"),
        (Agent.refund, "the bound method"),
        (lambda order: None, "give name="),
        (7, "give name=|goes on a function"),
    ],
)
def test_functions_that_cannot_be_gated(function: Callable[..., Any], told: str) -> None:
    """A function whose call could not be put on record and made again is refused where it is declared."""
    with pytest.raises(ConfigurationError, match=told):
        Interlock(journal=MemoryJournal()).effect(**KEY)(function)


def test_a_misspelt_option_is_no_option() -> None:
    """An option that does not exist is an error, never passed over."""
    gate: Any = Interlock(journal=MemoryJournal())
    for wrong, meant in (("premise", "premises"), ("look_up", "lookup"), ("keys", "key")):
        with pytest.raises(TypeError, match=f"has no option '{wrong}'; did you mean '{meant}'?"):
            gate.effect(**KEY, **{wrong: dict})
    with pytest.raises(TypeError, match=r"has no option 'zzz'; there are: key, premises, .*name\."):
        gate.effect(zzz=1)
    with pytest.raises(TypeError, match=r"effect\(\) missing 1 required keyword-only argument: 'key'"):
        gate.effect()


def test_every_error_that_a_caller_meets_has_a_public_name() -> None:
    """What the gate raises on purpose can be caught by a name of the root module."""
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.InterlockError)
    ]
    assert {kind.__name__ for kind in kinds} - set(interlock.__all__) == {"IllegalTransition"}  # a defect, not a case
    assert all(getattr(interlock, kind.__name__) is kind for kind in kinds if kind is not errors.IllegalTransition)


def test_what_is_given_without_a_name_is_told() -> None:
    """`@gate.effect` without parentheses, or with a text for the key, is told what to write."""
    gate: Any = Interlock(journal=MemoryJournal())
    for given in (refund, "refund"):
        with pytest.raises(
            ConfigurationError, match=r"@gate\.effect is given .*by name, in parentheses.*@gate\.effect\(key="
        ):
            gate.effect(given)
    with pytest.raises(ConfigurationError, match="by name"):
        gate.effect("refund", **KEY)


def test_dedupes_needs_the_key_to_be_passed_on() -> None:
    """A function that never gets the key cannot make a service dedupe on it."""
    with pytest.raises(ConfigurationError, match="takes no idempotency_key"):
        Interlock(journal=MemoryJournal()).effect(**KEY, dedupes=True, name="pay")(lambda order: None)


def test_a_look_up_by_the_key_needs_the_key_to_be_passed_on() -> None:
    """A look-up that goes by the key could never find what was sent without it; one that takes whatever there is may not go by it."""
    gate = Interlock(journal=MemoryJournal())

    def by_key_or_not(order: str, idempotency_key: str = "") -> None: ...

    for lookup in (lambda idempotency_key: None, by_key_or_not):
        with pytest.raises(ConfigurationError, match=r"effect 'pay': lookup= takes idempotency_key.*pass it on"):
            gate.effect(**KEY, lookup=lookup, name="pay")(lambda order: None)
    gate.effect(**KEY, lookup=lambda **given: None, name="pay")(lambda order: None)
    gate.effect(**KEY, lookup=by_key_or_not, name="refund")(refund)


def warned(caplog: pytest.LogCaptureFixture, **options: Any) -> list[str]:
    """The warnings of a declaration."""
    caplog.clear()
    Interlock(journal=MemoryJournal()).effect(**KEY, **options)(refund)
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_a_pause_that_is_not_said_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Where a look-up alone keeps a late request from being sent twice, how late it may land is to be said, and its absence is told."""

    def find(idempotency_key: str) -> Any:
        return None

    (told,) = warned(caplog, lookup=find)
    assert "'refund': settle_after= is not said" in told
    for text in ("1 s after", "sent again", "settle_after=timedelta(minutes=1)"):
        assert text in told
    assert "3.5 s after" in warned(caplog, lookup=find, lookup_lag=2.5)[0]
    for said in (0, 1, 1.0, timedelta(seconds=90)):
        assert not warned(caplog, lookup=find, settle_after=said)
    assert not warned(caplog, lookup=find, dedupes=True, window=3600)
    assert not warned(caplog)


def test_a_look_up_without_the_key_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Where neither function nor look-up takes the key, what anybody did with these arguments counts as ours, and that is told."""
    gate = Interlock(journal=MemoryJournal())

    def told(name: str, function: Callable[..., Any], lookup: Callable[..., Any]) -> int:
        caplog.clear()
        gate.effect(**KEY, lookup=lookup, settle_after=1, name=name)(function)
        return caplog.text.count(f"effect '{name}': neither lookup= nor the function takes idempotency_key")

    assert told("one", lambda order: None, lambda order: None) == 1
    assert told("two", lambda order: None, lambda: None) == 1
    assert told("three", lambda order: None, lambda **given: None) == 0
    assert told("four", refund, lambda order: None) == 0
    assert told("five", refund, lambda idempotency_key: None) == 0


def test_two_functions_of_one_name() -> None:
    """Two functions of one name are refused: recovery could not tell which to call."""
    gate = Interlock(journal=MemoryJournal())
    gate.effect(**KEY)(refund)
    with pytest.raises(ConfigurationError, match="another name="):
        gate.effect(**KEY)(refund)
    gate.effect(**KEY, name="refund_again")(refund)


def test_a_gate_needs_one_journal() -> None:
    """Neither a directory nor a journal, or both, is refused."""
    for options in ({}, {"directory": ".interlock", "journal": MemoryJournal()}):
        with pytest.raises(ConfigurationError, match="where the journal lives"):
            Interlock(**options)


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("", r"'' is no name of a directory"),
        (" ", r"is no name of a directory"),
        ("a\0b", r"is no name of a directory"),
        ("sqlite:///a.db", r"'sqlite:///a.db' is no path of a directory.*Interlock\(journal=...\)"),
        (Path("postgres://host/a"), r"is no path of a directory"),
        (":memory:", r"MemoryJournal"),
        (123, r"which 123 does not name"),
        (b"journal", r"which b'journal' does not name"),
        ("~/x", r"nothing is filled in in '~/x'.*os\.path\.expanduser\('~/x'\)"),
        (Path("~/x"), r"os\.path\.expanduser"),
        ("$HOME/x", r"os\.path\.expandvars"),
        ("/srv/${SHOP}", r"os\.path\.expandvars"),
    ],
)
def test_a_place_that_is_no_directory(place: Any, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal is never made in a place that nobody meant: where the next start looks elsewhere, all is done again."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=told):
        Interlock(place)
    assert not list(tmp_path.iterdir())


def test_what_is_no_journal() -> None:
    """Something else in a journal's place is refused with the way to name a directory."""
    for options in ({"journal": "y"}, {"journal": Path("y")}, {"journal": 7}):
        with pytest.raises(ConfigurationError, match=r"which is no journal.*Interlock\(\"\.interlock\"\)"):
            Interlock(**options)
    with pytest.raises(ConfigurationError, match="where the journal lives"):
        Interlock(".", journal="y")  # type: ignore[arg-type]


def test_the_log_says_where_the_journal_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The absolute place of the journal is in the log when it is opened, and nothing else is."""
    monkeypatch.chdir(tmp_path)
    caplog.set_level("INFO", logger="interlock")
    Interlock("here").close()
    Interlock(journal=MemoryJournal()).close()
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert said == [("INFO", f"the journal is {tmp_path / 'here'}"), ("INFO", "the journal is MemoryJournal")]


def test_a_bound_method_can_be_gated() -> None:
    """The bound method of an object that the program makes again on start is fine."""
    gate = Interlock(journal=MemoryJournal())
    assert str(gate.effect(**KEY)(Agent().refund)("1")) == "COMMITTED"


def test_what_is_sent_carries_the_declared_tier() -> None:
    """The tier is derived from what is declared."""
    gate = Interlock(journal=MemoryJournal())
    one = gate.effect(**KEY, dedupes=True, window=60, name="one")(refund)
    two = gate.effect(**KEY, lookup=lambda: None, name="two")(refund)
    three = gate.effect(**KEY, premises=lambda: {"n": 1}, expect={"n": at_least(1)}, name="three")(refund)
    assert [effect.capabilities.tier for effect in (one, two, three)] == [1, 2, 3]
