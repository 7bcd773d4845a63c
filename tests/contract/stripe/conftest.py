"""Which places a contract test runs in. The local service always; live test mode with a test key; doubles where marked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
import stripe

from benchmarks.harness.stripe_wire import KEY_VARIABLE, Door, Service, connect, read_key
from benchmarks.services.stripe import LocalStripe
from tests.contract.stripe import doubles
from tests.contract.stripe.place import Place

WRONG = (AssertionError, AttributeError, KeyError, stripe.StripeError, pytest.fail.Exception)
"""How a disagreement shows. A double that does not start, or a broken test, is no disagreement."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One variant of a test for each place.

    Raises:
        KeyRefused: The environment holds a live key, or one that is no test key. Nothing has been sent.
    """
    if "place" not in metafunc.fixturenames:
        return
    marks = list(metafunc.definition.iter_markers())
    places: list[object] = ["local"]
    if os.environ.get(KEY_VARIABLE, "").strip():
        read_key()
        if not any(mark.name == "local_only" for mark in marks):
            places.append("live")
    asked = {mark.args[0]: mark.kwargs.get("disagrees") for mark in marks if mark.name == "double"}
    for name in doubles.chosen():
        if name in asked:
            wrong = asked[name]
            expected = (
                []
                if wrong is None
                else [pytest.mark.xfail(reason=f"DISAGREEMENTS.md {wrong}", strict=True, raises=WRONG)]
            )
            places.append(pytest.param(name, marks=expected))
    metafunc.parametrize("place", places, indirect=True, scope="session")


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Place]]:
    """Starts a place when it is first asked for; ends what was started."""
    started: dict[str, Place] = {}
    own: list[LocalStripe | doubles.Double] = []

    def start(name: str) -> Place:
        if name not in started:
            directory = tmp_path_factory.mktemp(name)
            if name == "live":
                started[name] = Place(name, connect(Door(service=Service.LIVE), retries=2))
            elif name == "local":
                service = LocalStripe(directory)
                own.append(service)
                service.start()
                started[name] = Place(name, service.client(), service)
            else:
                double = doubles.Double(name, directory)
                own.append(double)
                started[name] = Place(name, LocalStripe.attach(double.url).client())
        return started[name]

    yield start
    for one in own:
        one.kill()


@pytest.fixture(scope="session")
def place(request: pytest.FixtureRequest, running: Callable[[str], Place]) -> Place:
    """The place of this variant."""
    return running(str(request.param))


@pytest.fixture
def client(place: Place) -> stripe.StripeClient:
    """The official SDK towards it."""
    return place.client


@pytest.fixture(autouse=True)
def _quiet(request: pytest.FixtureRequest) -> None:
    """No fault or moved clock of one test reaches the next."""
    if "place" in request.fixturenames:
        local = request.getfixturevalue("place").local
        if local is not None:
            local.clear_faults()
            local.reset_clock()
