"""A DBOS process that dies right after the refund, and DBOS's own recovery. Run it: `python examples/dbos/main.py`.

DBOS keeps its workflows in a SQLite file. The second process launches it, which runs the dead one's workflow again; then it starts one with
another amount.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from pathlib import Path
from typing import Any

from dbos import DBOS, DBOSConfig, SetWorkflowID
from desk import behind_the_gate, by_hand
from shop import Shop


def run(arm: Any, place: Path, dies: bool) -> None:
    """A process of the application."""
    config: DBOSConfig = {
        "name": "refund-desk",
        "system_database_url": f"sqlite:///{place}/dbos.db",
        "application_version": "1",
        "log_level": "CRITICAL",
    }
    DBOS(config=config)
    shop = Shop(place)
    shop.dies = dies
    refund_case = arm(shop, place)
    if dies:
        start(refund_case, "first", 20).get_result()  # dies in it
    tell(DBOS.retrieve_workflow("first"))
    tell(start(refund_case, "second", 25))
    DBOS.destroy()


def start(refund_case: Any, name: str, amount: int) -> Any:
    """Start a workflow of this name."""
    with SetWorkflowID(name):
        return DBOS.start_workflow(refund_case, "881", amount)


def tell(handle: Any) -> None:
    """How the workflow ends."""
    try:
        print(f"  the workflow gets: {handle.get_result(polling_interval_sec=0.1)}", flush=True)
    except Exception as error:  # noqa: BLE001 - a story tells any end
        print(f"  the workflow is told: {error}", flush=True)


if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    held = 0
    for arm in (by_hand, behind_the_gate):
        with tempfile.TemporaryDirectory() as directory:
            place = Path(directory)
            print(arm.__name__)
            for dies in (True, False):
                process = spawn.Process(target=run, args=(arm, place, dies))
                process.start()
                process.join()
            held += len(Shop(place).refunds()) == 1
    print(f"refunded exactly once: {held} of 2")
