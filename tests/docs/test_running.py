"""docs/running.md: what it says of a new release, and of another journal, is what happens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock
from interlock.testing import SettableClock, SimulatedCrash

PAGE = (Path(__file__).resolve().parents[2] / "docs/running.md").read_text("utf-8")


class Service:
    """A service that dedupes, and is found by the key."""

    def __init__(self) -> None:
        self.done: dict[str, dict[str, Any]] = {}
        self.sent: list[dict[str, Any]] = []

    def send(self, idempotency_key: str, **what: Any) -> dict[str, Any]:
        self.sent.append(what)
        return self.done.setdefault(idempotency_key, what)


def first(service: Service) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The release that was there before."""

    def pay(order: str, amount: int, idempotency_key: str) -> Any:
        return service.send(idempotency_key, order=order, amount=amount)

    return pay, {"name": "pay", "premises": lambda: {"total": 0}}


def renamed(service: Service) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The function has another name, and nothing keeps the old one."""
    return first(service)[0], {**first(service)[1], "name": "pay_order"}


def keyed_otherwise(service: Service) -> tuple[Callable[..., Any], dict[str, Any]]:
    """`key` makes another text of the same request."""
    return first(service)[0], {**first(service)[1], "key": lambda order: f"v2:{order}"}


def argument_renamed(service: Service) -> tuple[Callable[..., Any], dict[str, Any]]:
    """An argument has another name."""

    def pay(order: str, amount_minor: int, idempotency_key: str) -> Any:
        return service.send(idempotency_key, order=order, amount=amount_minor)

    return pay, first(service)[1]


def argument_more(service: Service) -> tuple[Callable[..., Any], dict[str, Any]]:
    """An argument came, with a default."""

    def pay(order: str, amount: int, idempotency_key: str, currency: str = "usd") -> Any:
        return service.send(idempotency_key, order=order, amount=amount, currency=currency)

    return pay, first(service)[1]


def argument_more_unbound(service: Service) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The same, and `binds=` leaves it out."""
    pay, options = argument_more(service)
    return pay, {**options, "binds": ["order", "amount"]}


def bound_otherwise(service: Service) -> tuple[Callable[..., Any], dict[str, Any]]:
    """`binds=` came."""
    return first(service)[0], {**first(service)[1], "binds": ["order"]}


def premise_more(service: Service) -> tuple[Callable[..., Any], dict[str, Any]]:
    """A premise came, which must not have changed since a decision that did not see it."""
    return first(service)[0], {**first(service)[1], "premises": lambda: {"total": 0, "status": "open"}}


def premise_more_expected(service: Service) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The same, and `expect=` says what it must be."""
    pay, options = premise_more(service)
    return pay, {**options, "expect": {"status": "open"}}


def premise_less(service: Service) -> tuple[Callable[..., Any], dict[str, Any]]:
    """A premise went."""
    return first(service)[0], {
        **first(service)[1],
        "premises": lambda: {"status": "open"},
        "expect": {"status": "open"},
    }


Release = Callable[[Service], tuple[Callable[..., Any], dict[str, Any]]]


def deploy(directory: Path, service: Service, release: Release) -> tuple[Interlock, Any]:
    """A process of that release."""
    gate = Interlock(directory, clock=SettableClock(frozen=True))
    function, options = release(service)
    declared: dict[str, Any] = {"key": lambda order: order, "dedupes": True, "window": 3600}
    declared["lookup"] = lambda idempotency_key: service.done.get(idempotency_key)
    return gate, gate.effect(**{**declared, **options})(function)


@pytest.mark.parametrize(
    ("release", "done_before", "sent", "left_open"),
    [
        (first, "DUPLICATE_IGNORED", 1, "COMMITTED_BY_RETRY"),
        (renamed, "COMMITTED", 2, "IN_FLIGHT:no_function"),
        (keyed_otherwise, "COMMITTED", 2, "COMMITTED_BY_RETRY"),
        (argument_renamed, "REFUSED:conflicting_payload", 1, "IN_FLIGHT:recovery_error"),
        (argument_more, "DUPLICATE_IGNORED", 1, "COMMITTED_BY_RETRY"),
        (bound_otherwise, "DUPLICATE_IGNORED", 1, "COMMITTED_BY_RETRY"),
        (premise_more, "DUPLICATE_IGNORED", 1, "IN_FLIGHT:check_unreadable"),
        (premise_more_expected, "DUPLICATE_IGNORED", 1, "COMMITTED_BY_RETRY"),
        (premise_less, "DUPLICATE_IGNORED", 1, "REFUSED:stale_premise_at_recovery"),
    ],
)
def test_what_a_release_may_change(
    tmp_path: Path, release: Release, done_before: str, sent: int, left_open: str
) -> None:
    """What was done before is recognised or not, and what a crash left open is settled or waits, as the table says."""
    service = Service()
    gate, pay = deploy(tmp_path, service, first)
    with gate:
        pay("881", 20)
    gate, pay = deploy(tmp_path, service, release)
    with gate:
        assert (str(pay("881", 20)), len(service.sent)) == (done_before, sent)

    crashed, service = tmp_path / "crashed", Service()
    gate, pay = deploy(crashed, service, first)
    with pytest.raises(SimulatedCrash):
        gate.submit(pay.proposal("881", 20), crash_before_effect=True)
    gate, _ = deploy(crashed, service, release)
    with gate:
        (outcome,) = gate.recover()
        assert str(outcome) == left_open
        assert bool(service.sent) == outcome.ok
        assert bool(gate.journal.open_effects()) == left_open.startswith("IN_FLIGHT")


@pytest.mark.parametrize(
    ("release", "code"), [(argument_more, "REFUSED:conflicting_payload"), (argument_more_unbound, "DUPLICATE_IGNORED")]
)
def test_another_value_than_the_default(tmp_path: Path, release: Release, code: str) -> None:
    """Of an argument that came: it makes another request, told from what would have been sent, unless `binds=` leaves it out."""
    service = Service()
    gate, pay = deploy(tmp_path, service, first)
    with gate:
        pay("881", 20)
    gate, pay = deploy(tmp_path, service, release)
    with gate:
        outcome = pay("881", 20, currency="eur")
        assert str(outcome) == code
        assert [(change["seen"], change["now"]) for change in outcome.changes.values()] == (
            [] if outcome.ok else [("usd", "eur")]
        )
    assert len(service.sent) == 1


@pytest.mark.parametrize("looks_first", [True, False])
def test_another_journal_knows_nothing(tmp_path: Path, looks_first: bool) -> None:
    """An effect that can only be looked up is sent again on a journal that does not know it, unless its function looks first."""
    bookings: list[str] = []
    for place in ("here", "elsewhere"):
        with Interlock(tmp_path / place) as gate:

            @gate.effect(key=lambda slot: slot, lookup=lambda idempotency_key: idempotency_key in bookings)
            def book_slot(slot: str, idempotency_key: str) -> str:
                if not (looks_first and idempotency_key in bookings):
                    bookings.append(idempotency_key)
                return slot

            gate.recover()
            assert str(book_slot("10:00")) == "COMMITTED"
    assert len(bookings) == (1 if looks_first else 2)


def test_the_page_is_found() -> None:
    """The README leads to the page, and the page shows what it says of a release."""
    assert "(docs/running.md" in (Path(__file__).resolve().parents[2] / "README.md").read_text("utf-8")
    assert "## A new release" in PAGE
