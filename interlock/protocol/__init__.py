"""The protocol, once: `submit` and `recover_one` as generators that yield the I/O they need.

    load -> [recover] -> read facts -> authorize -> DISPATCH -> send -> append the answer
                                                       |          |
                                                       |          +-- no clear answer: recover, in this call
                                                       +-- history moved: somebody else got in; look again

A generator here decides and a runner (`gate.py`) does, so every `yield` is a point where the process can die: `CRASH_POINTS` is
read off the step types, and a simulator can interleave any number of workers over this very code. Nothing here sends, reads or
waits by itself, and nothing but this package orders those things.

    _submit, _recover    the order: from a proposal, and from an effect that was left dispatched
    _answer              from the answer to a send to the record
    _outcome, _time      what a history stands for; what the clocks say
    _declared            what was declared of the service when an effect was sent, and what counts of it now
    _step                the words: steps, and what answers them
"""

from __future__ import annotations

from interlock.protocol._answer import late_answer
from interlock.protocol._outcome import outcome_of, settled_as
from interlock.protocol._recover import recover_one
from interlock.protocol._step import (
    CRASH_POINTS,
    STEP_NAMES,
    STEPS,
    Append,
    Authorize,
    Dispatch,
    Landed,
    Load,
    LookUp,
    NotLanded,
    OverLimit,
    Probe,
    ReadBudgets,
    ReadFacts,
    Run,
    Seen,
    Send,
    Sighting,
    Step,
    Unclear,
    Wait,
)
from interlock.protocol._submit import submit
from interlock.protocol._time import PAUSE_S, POLL_S, Patience, rfc3339, watched

__all__ = [
    "CRASH_POINTS",
    "PAUSE_S",
    "POLL_S",
    "STEPS",
    "STEP_NAMES",
    "Append",
    "Authorize",
    "Dispatch",
    "Landed",
    "Load",
    "LookUp",
    "NotLanded",
    "OverLimit",
    "Patience",
    "Probe",
    "ReadBudgets",
    "ReadFacts",
    "Run",
    "Seen",
    "Send",
    "Sighting",
    "Step",
    "Unclear",
    "Wait",
    "late_answer",
    "outcome_of",
    "recover_one",
    "rfc3339",
    "settled_as",
    "submit",
    "watched",
]
