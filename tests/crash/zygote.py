"""Dies at every crash point for real: forks a child for each life of a worker, which opens a gate of its own and is killed by SIGKILL.

    python zygote.py DIRECTORY

For each tier, place of the first death and place of the death of the recovery it prints one JSON line. Forked children start in a few
milliseconds, where new interpreters would take a quarter of a second each; each is a process with a journal that it has opened itself.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import interlock.gate
from interlock import Interlock
from interlock.protocol import CRASH_POINTS, STEP_NAMES
from tests.crash.worker import Service

FIRST = ("before_send", "after_send")
# A recovery pauses between its steps, not within one (`gate.recover` works on other effects meanwhile), so there is no dying in a wait;
# and it asks for no budget, since it sends under the reservation that stands.
POINTS = tuple(point for point in CRASH_POINTS if not point.endswith(("_wait", "_read_budgets")))
CHECKS = {"load", "probe", "read_facts", "authorize"}
PASSES = {
    1: CHECKS | {"dispatch", "send", "append"},
    2: CHECKS | {"look_up", "dispatch", "send", "append"},
    3: {"probe", "append"},
}
"""The steps that a recovery passes at each tier, as far as dying there is a story of its own."""


def declare(gate: Interlock, service: Service, tier: int) -> Any:
    """The effect of these tests; every kind of step occurs in it."""
    options: dict[str, Any] = {"premises": lambda: {"others": 0}, "allowed": lambda: True, "settle_after": 0.01}
    if tier == 1:
        options |= {"dedupes": True, "window": 3600}
    if tier == 2:
        options["lookup"] = lambda idempotency_key: next(
            (entry for entry in service.entries() if entry["key"] == idempotency_key), None
        )

    @gate.effect(key=lambda order: f"refund:{order}", **options)
    def refund(order: str, idempotency_key: str) -> dict[str, Any]:
        return service.refund(order, idempotency_key, dedupes=tier == 1)

    return refund


def live(act: Callable[[], str], out: Path, *, point: str = "") -> bool:
    """One life of a worker, killed at `point` if it gets there; what it says goes to `out`. Tells whether it was killed."""
    child = os.fork()
    if child == 0:
        try:
            perform = interlock.gate._Call.perform

            def dying(call: Any, step: Any) -> Any:
                name = STEP_NAMES[type(step)]
                if point == f"before_{name}":
                    os.kill(os.getpid(), signal.SIGKILL)
                answer = perform(call, step)
                if point == f"after_{name}":
                    os.kill(os.getpid(), signal.SIGKILL)
                return answer

            interlock.gate._Call.perform = dying  # type: ignore[method-assign]
            out.write_text(act())
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
        raise SystemExit(f"a worker failed: {out}")
    return os.WIFSIGNALED(status)


def story(directory: Path, tier: int, first: str, deaths: tuple[str, ...]) -> dict[str, Any]:
    """A worker is killed, its recoveries are killed, the last one is not, and the same is asked for again."""
    directory.mkdir()
    out, service = directory / "out", Service(directory / "ledger")

    def submit() -> str:
        gate = Interlock(directory / "journal")
        return str(declare(gate, service, tier)("881"))

    def recover() -> str:
        gate = Interlock(directory / "journal")
        refund = declare(gate, service, tier)
        recovered = " ".join(str(outcome) for outcome in gate.recover(wait=5))
        return json.dumps([recovered, str(refund("881")), gate.journal.verify().problems])

    assert live(submit, out, point=first), first
    killed = [point for point in deaths if live(recover, out, point=point)]
    live(recover, out)
    recovered, again, problems = json.loads(out.read_text())
    cell = {"tier": tier, "first": first, "deaths": deaths, "killed": killed, "recovered": recovered, "again": again}
    return cell | {"landed": len(service.entries()), "problems": problems}


def main() -> None:
    """Tell every story."""
    logging.disable(logging.CRITICAL)
    directory = Path(sys.argv[1])
    numbers = itertools.count()
    again_and_again = ("before_dispatch", "after_dispatch", "before_send", "after_send", "before_append") * 2
    for tier, first in itertools.product((1, 2, 3), FIRST):
        passed = [point for point in POINTS if point.partition("_")[2] in PASSES[tier]]
        for deaths in [(), again_and_again, *((point,) for point in passed)]:
            print(json.dumps(story(directory / str(next(numbers)), tier, first, deaths)), flush=True)


if __name__ == "__main__":
    main()
