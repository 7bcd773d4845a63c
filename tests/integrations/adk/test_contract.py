"""ADK agents keep the contract, by each of the three ways in."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from interlock.testing.integration import IntegrationContract, IntegrationDriver

# ADK says of what resuming and plugins need that it is experimental.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL:UserWarning")

_spec = importlib.util.spec_from_file_location("adk_driver", Path(__file__).with_name("driver.py"))
assert _spec is not None
assert _spec.loader is not None
drivers = sys.modules.setdefault("adk_driver", importlib.util.module_from_spec(_spec))
_spec.loader.exec_module(drivers)


class TestGuard(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = drivers.GuardDriver


class TestPlugin(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = drivers.PluginDriver


class TestProtectTools(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = drivers.ToolDriver
