"""A signal handler closes the gate, wherever its own thread is: it comes back, and the journal is closed soon after."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_SCRIPT = """
import dis, faulthandler, itertools, os, sys, threading
from interlock import Interlock
from interlock.errors import JournalError

faulthandler.dump_traceback_later(100, exit=True)
modules = {f"interlock.journal.{name}" for name in ("_group", "_sqlite", "_base", "liveness")}
looks = {"RESUME", "CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD"}  # after these the interpreter looks for signals

def run(directory, point, exits):
    gate = Interlock(directory)
    gate.recover()

    @gate.effect(key=lambda order: order, lookup=lambda idempotency_key: None, settle_after=0)
    def refund(order, idempotency_key):
        return order

    refund("again")
    left, before = point, {}

    def trace(frame, event, arg):
        nonlocal left
        if frame.f_globals.get("__name__") not in modules or left < 0:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            last, before[frame] = before.get(frame), dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if last in looks:
                left -= 1
                if left < 0:
                    gate.close()
                    if exits:
                        raise SystemExit
        return trace

    sys.settrace(trace)
    try:
        refund("again")
        refund(f"{point}")
        with gate.journal._snapshot():
            gate.journal.open_effects()
        gate.journal.begin_send("other", 2)
        gate.journal.end_send("other", 2, answered=False)
    except (JournalError, SystemExit):
        pass
    finally:
        sys.settrace(None)
    for thread in threading.enumerate():
        if thread.name == "interlock-close":
            thread.join(30)
    gate.close()
    if exits and gate.journal._me.sending:  # interrupted as it began: taken for alive until the process ends, which it is about to
        return left < 0
    assert gate.journal._writer is None, point
    assert not gate.journal._opened, point
    assert gate.journal._me.fd == -1, point
    return left < 0

for exits in (False, True):
    directory = os.path.join(sys.argv[1], str(exits))
    points = next(point for point in itertools.count(int(sys.argv[2]), int(sys.argv[3])) if not run(directory, point, exits))
    assert points > 100, points
    gate = Interlock(directory)
    assert gate.journal.verify().ok
    gate.close()
print("all")
"""


def test_a_handler_that_closes_the_gate_does_not_wait_for_its_own_thread(tmp_path: Path, root: Path) -> None:
    """At every place where a signal can be handled in a read, a write and a list, and whether or not the handler exits."""
    command = [sys.executable, "-c", _SCRIPT, str(tmp_path), "0", "3"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=root, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "all\n"
