"""Agents of the OpenAI Agents SDK keep the contract, by each way in."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import ClassVar

from interlock.testing.integration import IntegrationContract, IntegrationDriver

_spec = importlib.util.spec_from_file_location("openai_agents_driver", Path(__file__).with_name("driver.py"))
assert _spec is not None
assert _spec.loader is not None
drivers = sys.modules.setdefault("openai_agents_driver", importlib.util.module_from_spec(_spec))
_spec.loader.exec_module(drivers)


class TestProtectTools(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = drivers.ToolsDriver


class TestProtectAgentWithRunState(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = drivers.RunStateDriver


class TestProtectTool(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = drivers.ToolDriver
