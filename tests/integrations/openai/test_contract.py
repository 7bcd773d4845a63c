"""OpenAI's tool runners keep the contract: with a ledger, and eagerly with and without one."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import ClassVar

from interlock.testing.integration import IntegrationContract, IntegrationDriver

_spec = importlib.util.spec_from_file_location("openai_driver", Path(__file__).with_name("driver.py"))
assert _spec is not None
assert _spec.loader is not None
drivers = importlib.util.module_from_spec(_spec)
sys.modules.setdefault(_spec.name, drivers)
_spec.loader.exec_module(drivers)

MOVED_BY_EAGERNESS = (
    "first_call_lands",
    "killed_after_the_send_then_resumed",
    "killed_before_the_send_then_resumed",
    "resumed_without_recovery_first",
    "two_calls_with_a_kill_between",
    "parallel_calls_of_one_key",
    "parallel_calls_of_two_keys",
)


def only(*names: str) -> dict[str, None]:
    """Leave out every test of the contract but these."""
    kept = {f"test_{name}" for name in names}
    every = {name for name in vars(IntegrationContract) if name.startswith("test_")}
    assert kept <= every, kept - every
    return dict.fromkeys(every - kept)


class TestLedger(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = drivers.ResponsesDriver


class TestEager(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = drivers.EagerDriver


class TestEagerWithLedger(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = drivers.EagerLedgerDriver
    vars().update(only(*MOVED_BY_EAGERNESS))
