"""Services the benchmarks run against, each a process of its own. They share no code with the gate they judge."""

from __future__ import annotations
