"""The driver module, shared by the tests of this folder and by the child processes that load it by its path."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("openai_agents_driver", Path(__file__).with_name("driver.py"))
assert _spec is not None
assert _spec.loader is not None
if "openai_agents_driver" not in sys.modules:
    _module = importlib.util.module_from_spec(_spec)
    sys.modules["openai_agents_driver"] = _module
    _spec.loader.exec_module(_module)


@pytest.fixture
def place(tmp_path: Path) -> object:
    """A journal and a refund service of this test's own."""
    from interlock.testing.driver import Place

    return Place(tmp_path)
