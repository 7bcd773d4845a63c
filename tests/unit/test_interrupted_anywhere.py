"""A signal at every place where one can be handled in a call: nobody waits for a sender that has gone, and nothing is sent twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_SCRIPT = """
import dis, faulthandler, itertools, logging, sys
from collections import Counter
from interlock import Interlock
from interlock.errors import JournalError
from interlock.journal import MemoryJournal

faulthandler.dump_traceback_later(200, exit=True)
logging.disable(logging.CRITICAL)
place, answer, handler = sys.argv[1:]
looks = {"RESUME", "CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD"}  # after these the interpreter looks for signals
gate = Interlock(journal=MemoryJournal()) if place == "memory" else Interlock(place)
sent = Counter()

@gate.effect(key=lambda order: order, premises=lambda: {}, lookup=lambda idempotency_key: sent[idempotency_key] or None, settle_after=0)
def pay(order, idempotency_key):
    sent[idempotency_key] += 1
    if answer == "lost":
        raise TimeoutError
    return order

gate.recover()

def handle(point):
    if handler == "raises":
        raise KeyboardInterrupt
    for order in (f"{point}", f"in the handler {point}"):
        try:
            pay(order)
        except JournalError:  # in the middle of a write
            pass

def run(point):
    left, before = point, {}

    def trace(frame, event, arg):
        nonlocal left
        module = frame.f_globals.get("__name__", "")
        if left < 0 or not module.startswith("interlock.") or (handler == "raises" and module == "interlock.journal._memory"):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            last, before[frame] = before.get(frame), dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if last in looks:
                left -= 1
                if left < 0:
                    handle(point)
        return trace

    sys.settrace(trace)
    try:
        pay(f"{point}")
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    told = [str(outcome) for outcome in gate.recover()]
    assert not any(outcome.startswith("IN_FLIGHT") for outcome in told), (point, told)
    journal = gate.journal
    assert not (journal._sending if place == "memory" else journal._me.sending), point
    assert pay(f"{point}").ok, point
    return left < 0

points = next(point for point in itertools.count() if not run(point))
assert points > 200, points
twice = [key for key, times in sent.items() if times > 1]
assert not twice, twice[:3]
assert place == "memory" or gate.journal.verify().ok  # a write to memory has no transaction
gate.close()
print("all")
"""


@pytest.mark.parametrize("journal", ["sqlite", "memory"])
@pytest.mark.parametrize("answer", ["kept", "lost"])
@pytest.mark.parametrize("handler", ["raises", "calls"])
def test_a_signal_in_a_call_leaves_nothing_in_flight(
    tmp_path: Path, root: Path, journal: str, answer: str, handler: str
) -> None:
    """The handler raises, or makes a call: what was sent is settled by the next recovery in the process, was sent once, and is done."""
    place = "memory" if journal == "memory" else str(tmp_path)
    command = [sys.executable, "-W", "error", "-c", _SCRIPT, place, answer, handler]
    run = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=root, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "all\n"
