"""The extra: what is there without it, and what is said."""

from __future__ import annotations

import subprocess
import sys

import pytest


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


def test_a_refund_loads_no_other_effect() -> None:
    """`from interlock.targets.stripe import stripe_refund` leaves webhooks, payouts and the SDK's object classes out."""
    program = (
        "import sys; from interlock.targets.stripe import stripe_refund, Approval; "
        "print([name for name in sys.modules if name.endswith(('.webhooks', '.payout', '._move', 'stripe._payment_intent'))])"
    )
    assert said(program).strip() == "[]"


def test_every_export_is_there_and_no_other() -> None:
    """What `__all__` names can be imported, and a wrong name is told as one."""
    from interlock.targets import stripe as target

    assert all(getattr(target, name).__module__.startswith("interlock.") for name in target.__all__)
    assert set(target.__all__) <= set(dir(target))
    with pytest.raises(AttributeError, match="stripe_refunds"):
        target.stripe_refunds  # noqa: B018 - asking for it is the test
