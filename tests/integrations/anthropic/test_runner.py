"""Anthropic's tool runner keeps the contract, also with tools that run while the model's reply is still streaming."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from pathlib import Path
from typing import ClassVar

import pytest
from anthropic import Anthropic

from interlock.testing.integration import IntegrationContract, IntegrationDriver, ModelCall, Place

_spec = importlib.util.spec_from_file_location("anthropic_driver", Path(__file__).with_name("driver.py"))
assert _spec is not None
assert _spec.loader is not None
drivers = importlib.util.module_from_spec(_spec)
sys.modules.setdefault(_spec.name, drivers)
_spec.loader.exec_module(drivers)

has_eager_runs = "run_tools_eagerly" in inspect.signature(Anthropic(api_key="x").beta.messages.tool_runner).parameters


class TestToolRunner(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = drivers.RunnerDriver


@pytest.mark.skipif(not has_eager_runs, reason="this release of the SDK has no eager runs")
class TestEager(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = drivers.EagerDriver


@pytest.mark.skipif(not has_eager_runs, reason="this release of the SDK has no eager runs")
def test_eager_call_happens_before_the_reply_ends_and_once(tmp_path: Path) -> None:
    """An eager run has sent the refund while the reply is still streaming; the end of the reply does not send it again."""
    place = Place(tmp_path)
    driver = drivers.EagerDriver(place)
    driver.recover()
    seen: list[int] = []

    def before_the_end() -> None:
        if not seen:
            place.service.wait_for_arrival("881")
            seen.append(place.service.arrivals("881"))

    driver.server.before_the_end = before_the_end
    told = driver.run(
        [ModelCall({"order_id": "881", "amount": 20}), ModelCall({"order_id": "882", "amount": 30}, id="call_2")]
    )
    assert seen == [1]
    assert [answer.is_error for answer in told] == [False, False]
    assert [place.service.arrivals(order) for order in ("881", "882")] == [1, 1]
    driver.close()
