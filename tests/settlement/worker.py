"""A process that watches one refund and hangs at a named moment, to be killed: `python -m tests.settlement.worker DIRECTORY MOMENT`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from interlock import Interlock, Outcome, Settlement


def build(directory: Path, *, moment: str = "") -> Interlock:
    """The gate, with its one effect; it hangs at the moment named, and says so."""
    gate = Interlock(directory)

    def hang() -> None:
        print(moment, flush=True)
        time.sleep(60)

    def settlement(value: str) -> Settlement:
        if moment == "reading":
            hang()
        return Settlement("reversed", {"id": value}, "failed")

    @gate.effect(
        key=lambda order: f"refund:{order}",
        lookup=lambda: None,
        settlement=settlement,
        references=lambda value: [value],
        name="refund",
    )
    def refund(order: str) -> str:
        return f"re_{order}"

    def on_change(outcome: Outcome) -> None:
        if moment == "telling":
            hang()

    gate.recover()
    if moment:
        assert refund("881").ok
        gate.watch(on_change=on_change)
    return gate


if __name__ == "__main__":
    build(Path(sys.argv[1]), moment=sys.argv[2])
