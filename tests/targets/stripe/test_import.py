"""The extra: what is there without it, and what is said."""

from __future__ import annotations

import subprocess
import sys


def said(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_missing_sdk_is_told_at_the_door() -> None:
    """Without the SDK the import fails with the command that installs it."""
    told = said("import sys; sys.modules['stripe'] = None; import interlock.targets.stripe")
    assert "ConfigurationError" in told
    assert 'pip install "interlock-gate[stripe]"' in told


def test_root_does_not_import_the_targets() -> None:
    """`import interlock` loads no target, and no SDK."""
    program = "import sys, interlock; print([name for name in sys.modules if 'targets' in name or name == 'stripe'])"
    assert said(program).strip() == "[]"
