"""Pydantic AI agents keep the contract, by each of the two ways in, and where the toolset itself asks for approval."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import ClassVar

from interlock.testing.integration import IntegrationContract, IntegrationDriver

_spec = importlib.util.spec_from_file_location("pydantic_ai_driver", Path(__file__).with_name("driver.py"))
assert _spec is not None
assert _spec.loader is not None
drivers = importlib.util.module_from_spec(_spec)
sys.modules.setdefault(_spec.name, drivers)
_spec.loader.exec_module(drivers)

MOVED_BY_ASKING = (
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


class TestCapability(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = drivers.CapabilityDriver


class TestToolset(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = drivers.ToolsetDriver


class TestCapabilityAroundAskingToolset(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = drivers.AskingToolsetDriver
    vars().update(only(*MOVED_BY_ASKING))
