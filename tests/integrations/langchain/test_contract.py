"""LangChain agents keep the contract, by each of the two ways in; and where LangChain's settings matter, under each of them."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from pathlib import Path
from typing import ClassVar

import pytest
from langchain.agents.middleware import HumanInTheLoopMiddleware

from interlock.testing.integration import IntegrationContract, IntegrationDriver

_spec = importlib.util.spec_from_file_location("langchain_driver", Path(__file__).with_name("driver.py"))
assert _spec is not None
assert _spec.loader is not None
drivers = importlib.util.module_from_spec(_spec)
sys.modules.setdefault(_spec.name, drivers)
_spec.loader.exec_module(drivers)

MOVED_BY_DURABILITY = (
    "killed_after_the_send_then_resumed",
    "killed_before_the_send_then_resumed",
    "resumed_without_recovery_first",
    "asked_again_after_a_kill_under_a_new_call_id",
    "two_calls_with_a_kill_between",
    "approved_then_killed_then_resumed",
)
MOVED_BY_REVIEW = (
    "nothing_is_sent_before_approval",
    "declined_is_never_sent",
    "saved_approval_resumed_twice_in_turn",
    "saved_approval_resumed_twice_at_the_same_time",
    "approved_then_killed_then_resumed",
    "reviewers_edit_is_what_is_judged_and_sent",
)


def only(*names: str) -> dict[str, None]:
    """Leave out every test of the contract but these."""
    kept = {f"test_{name}" for name in names}
    every = {name for name in vars(IntegrationContract) if name.startswith("test_")}
    assert kept <= every, kept - every
    return dict.fromkeys(every - kept)


class TestProtectTools(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = drivers.LangChainDriver


class TestMiddleware(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = drivers.MiddlewareDriver


class TestDurabilityExit(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = drivers.ExitDriver
    vars().update(only(*MOVED_BY_DURABILITY, "driver_says_what_is_not_applicable"))


class TestDurabilityAsync(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = drivers.AsyncDurabilityDriver
    vars().update(only(*MOVED_BY_DURABILITY))


@pytest.mark.skipif(
    "interrupt_mode" not in inspect.signature(HumanInTheLoopMiddleware).parameters,
    reason="this release of langchain asks for all approvals of a turn at once",
)
class TestReviewPerCall(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = drivers.PerCallDriver
    vars().update(only(*MOVED_BY_REVIEW))
