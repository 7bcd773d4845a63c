"""ADK agents keep the contract, by each of the three ways in."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

from interlock.testing.integration import IntegrationContract, IntegrationDriver, Place, gating

# ADK says of what resuming and plugins need that it is experimental.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL:UserWarning")

_spec = importlib.util.spec_from_file_location("adk_driver", Path(__file__).with_name("driver.py"))
assert _spec is not None
assert _spec.loader is not None
drivers = sys.modules.setdefault("adk_driver", importlib.util.module_from_spec(_spec))
_spec.loader.exec_module(drivers)


class ADKContract(IntegrationContract):
    """The contract, with a wait where ADK needs one to be told anything.

    ADK's SQLite sessions refuse the later of two runs that write at once, and it is the run that sent whose answer they refuse. So the
    other one waits for the result. Without the wait it is told "still under way": test_traps.py.
    """

    __test__ = False

    def test_saved_approval_resumed_twice_at_the_same_time(self, place: Place, open_driver: Any) -> None:
        """One saved approval, resumed by two agents at the same moment: one refund."""
        place.config = gating(wait=10)
        super().test_saved_approval_resumed_twice_at_the_same_time(place, open_driver)


class TestGuard(ADKContract):
    __test__ = True
    driver: ClassVar[type[IntegrationDriver]] = drivers.GuardDriver


class TestPlugin(ADKContract):
    __test__ = True
    driver: ClassVar[type[IntegrationDriver]] = drivers.PluginDriver


class TestProtectTools(ADKContract):
    __test__ = True
    driver: ClassVar[type[IntegrationDriver]] = drivers.ToolDriver
