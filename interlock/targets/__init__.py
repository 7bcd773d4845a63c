"""Ready-made targets: services whose keys, windows, look-ups and errors are known. Each needs its own extra, and is imported by name."""

from __future__ import annotations
