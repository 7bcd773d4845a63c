"""`python -m benchmarks demo`: half a minute that shows what the gate is for. Plain text, no colour, no terminal needed.

The same accident happens to two agents: one refunds directly, one through the gate. Both are real processes that are really
killed, every amount is read from the service's own ledger, and the demo exits 1 if it does not turn out as it is told.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.stripe_place import StripePlace
from benchmarks.report import money
from benchmarks.suites.refund_agent.answer import Answer
from benchmarks.suites.refund_agent.arms import GATE, NAIVE, Column
from benchmarks.suites.refund_agent.case import APPROVED_MINOR, CASE
from benchmarks.suites.refund_agent.crash import Point
from benchmarks.suites.refund_agent.stage import Stage

WIDTH = 96

STORY = f"""
A customer paid $100 for order 881. Case {CASE} approves ONE refund of $20, and an agent carries it out.
In the middle of it the agent's process is killed. Support sees that nothing arrived and refunds the $20 by hand.
Then the agent is started again. This runs twice now, with real processes and a local payment service.
"""

NEXT = """
What to try next
  .venv/bin/python -m benchmarks refund-agent --quick --out /tmp/refund_agent.json
                     every other accident, beside a hand-written check (under a minute)
  examples/          short stories to copy from
  README.md          gate a function of your own, and test that it survives a crash
"""


@dataclass(frozen=True)
class Ending:
    """How it went for one agent."""

    answer: Answer
    before_minor: int
    by_hand_minor: int
    after_minor: int
    refunds: int


def main(arguments: Sequence[str] = ()) -> int:
    """Play the story for both agents and tell it; returns the exit code."""
    argparse.ArgumentParser(prog="python -m benchmarks demo", description=STORY).parse_args(arguments)
    print(STORY)
    with tempfile.TemporaryDirectory(prefix="demo-") as scratch, _place(scratch) as service:
        without = _play(service, Path(scratch) / "without", NAIVE)
        gated = _play(service, Path(scratch) / "gated", GATE[0])
    _tell_beside(without, gated)
    _tell_changes(gated.answer.details.get("changed", {}))
    _tell_journal(gated.answer.details.get("journal", []))
    print(NEXT)
    return _judge(without, gated)


def _place(scratch: str) -> StripePlace:
    return StripePlace(directory=Path(scratch) / "service")


def _play(service: StripePlace, directory: Path, column: Column) -> Ending:
    stage = Stage(service, directory, column, order="881" if column is NAIVE else "881-gated", real=True)
    try:
        stage.deliver(die=Point.BEFORE_SEND)
        before, _ = service.local.refunded(stage.request.payment)
        stage.support_refunds(APPROVED_MINOR, case=CASE)
        by_hand, _ = service.local.refunded(stage.request.payment)
        answer = stage.recover()
        after, refunds = service.local.refunded(stage.request.payment)
    finally:
        stage.close()
    return Ending(answer, before, by_hand, after, refunds)


def _tell_beside(without: Ending, gated: Ending) -> None:
    lines = [
        ("", "without a gate", "with Interlock"),
        ("the agent begins to refund $20", "killed (SIGKILL)", "killed (SIGKILL)"),
        ("refunded so far", money(without.before_minor), money(gated.before_minor)),
        ("support refunds by hand", money(without.by_hand_minor), money(gated.by_hand_minor)),
        ("the agent starts again and", "sends the refund again", "checks again first, and refuses"),
        ("it answers", without.answer.status, gated.answer.status),
        ("the customer has got back", _total(without), _total(gated)),
        ("approved was $20, so this is", _verdict(without), _verdict(gated)),
    ]
    print("\n".join(f"  {what:<30}  {left:<24}  {right}" for what, left, right in lines))


def _total(ending: Ending) -> str:
    return f"{money(ending.after_minor)} in {ending.refunds} refund{'s' if ending.refunds != 1 else ''}"


def _verdict(ending: Ending) -> str:
    return "right" if ending.after_minor == APPROVED_MINOR else f"WRONG by {money(ending.after_minor - APPROVED_MINOR)}"


def _tell_changes(changed: Mapping[str, Mapping[str, Any]]) -> None:
    print("\nWhy it refused: a fact that the decision relied on is not what it was.")
    for name, change in changed.items():
        print(f"  {name.replace('_', ' ')} (rule: {change.get('rule')})")
        print(f"    when the agent decided   {_fact(change.get('seen'))}")
        print(f"    when it started again    {_fact(change.get('now'))}")


def _fact(value: Any) -> str:
    if isinstance(value, Mapping) and all(isinstance(refund, list) for refund in value.values()):
        amounts = [f"{money(amount)} for case {case or 'unknown'}" for amount, case in value.values()]
        return "refunds by others: " + (", ".join(amounts) or "none")
    return str(value)


WHAT_HAPPENED = {
    "PROPOSED": "The agent decided. The call and the facts it relied on are on disk.",
    "AUTHORIZED": "Permission and facts were checked right before the send, and held.",
    "DISPATCHED": "On disk before anything leaves: from here on, silence does not mean that nothing happened.",
    "COMMITTED": "It landed, and the service's answer is kept.",
    "REFUSED": "Checked again before anything could be sent a second time, and refused. Nothing was sent.",
    "FAILED": "It certainly did not happen.",
    "AMBIGUOUS": "Nobody can know without asking the service; a person gets it.",
}


def _tell_journal(entries: Iterable[Mapping[str, Any]]) -> None:
    print("\nThe journal of the case, as it stands on disk (each line's hash covers the one before)")
    worker = None
    for entry in entries:
        if worker not in (None, entry["by"]):
            print("    -- the process was killed here; another one took over --")
        worker = entry["by"]
        print(f"  {entry['n']}  {entry['at'][11:23]}  {entry['kind']:<10}  {entry['hash'][:8]}")
        print(textwrap.indent(textwrap.fill(WHAT_HAPPENED.get(entry["kind"], ""), WIDTH - 6), "      "))


def _judge(without: Ending, gated: Ending) -> int:
    told = (
        (without.after_minor, 2 * APPROVED_MINOR, "the agent without a gate was to pay $40"),
        (gated.after_minor, APPROVED_MINOR, "the agent with the gate was to leave $20"),
        (gated.answer.status, "REFUSED:stale_premise_at_recovery", "the gate was to refuse and say why"),
    )
    differing = [what for measured, expected, what in told if measured != expected]
    for what in differing:
        print(f"NOT AS TOLD: {what}", file=sys.stderr)
    return 1 if differing else 0
