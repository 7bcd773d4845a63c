"""A LangGraph of one's own, with `ToolNode`, keeps the contract."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import ClassVar

from interlock.testing.integration import IntegrationContract, IntegrationDriver

_spec = importlib.util.spec_from_file_location("langgraph_driver", Path(__file__).with_name("driver.py"))
assert _spec is not None
assert _spec.loader is not None
drivers = importlib.util.module_from_spec(_spec)
sys.modules.setdefault(_spec.name, drivers)
_spec.loader.exec_module(drivers)


class TestToolNode(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = drivers.LangGraphDriver
