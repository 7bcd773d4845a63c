"""What every test shares: hypothesis profiles and the checkout's root. Owns nothing that knows the gate."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

# `ci` repeats the same examples on every run, so a red run is red again on a laptop: HYPOTHESIS_PROFILE=ci.
# `dev` looks for new ones. `soak` looks long, by hand. A failing example becomes a named test.
_UNTIMED = [HealthCheck.too_slow]
settings.register_profile("dev", deadline=None, print_blob=True, suppress_health_check=_UNTIMED)
settings.register_profile("ci", parent=settings.get_profile("dev"), derandomize=True, database=None)
settings.register_profile("soak", parent=settings.get_profile("dev"), max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the checkout's top directory."""
    return ROOT
