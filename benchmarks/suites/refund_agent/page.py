"""What the report of the refund agent says in words: computed from the cells, never typed beside them.

Where the hand check ties with the gate, the report says so, first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.harness.document import Cell, Listing, Measure, Report, Table, Verdict
from benchmarks.harness.listing import cut
from benchmarks.suites.refund_agent.arms import GATE
from benchmarks.suites.refund_agent.rows import ROWS
from benchmarks.suites.refund_agent.wanted import FURTHER_ROWS, HANDED_ROWS

HERE = Path(__file__).parent

INTRO = (
    "A customer paid $100. Case 4471 approves one $20 partial refund. Exactly $20 must be refunded for the case, or $0 if the "
    "permission was revoked or the order became ineligible first. Every cell is a payment of its own at the local "
    "Stripe-compatible service, over HTTP through the official SDK; its money is read from the service's own ledger. At tier 1 "
    "the Idempotency-Key is sent; at tiers 2 and 3 it is taken off every request; at tier 3 nothing is looked up."
)

_ORDER = {Verdict.HELD: 2, Verdict.UNKNOWN: 1, Verdict.VIOLATED: 0}


def report(cells: Sequence[Cell]) -> Report:
    """The page around the cells."""
    handed, further = list(HANDED_ROWS), list(FURTHER_ROWS)
    return Report(
        title="The refund agent",
        intro=INTRO,
        findings=findings(cells),
        tables=[
            *_tables("The handed table", handed, cells),
            *_tables("Further rows (nothing is wanted of the baselines here)", further, cells),
        ],
        glossary={row.name: f"{row.what}." for row in ROWS},
        listings=listings(),
        notes=[
            "The hand check trusts an `absent` at once, as hand checks do. A line that waits before it trusts one would hold "
            "late_landing at tier 2, at the price of that wait on every send.",
            "Every arm but the gate is carried by a patient queue that hands its job out again after an unclear error.",
            "25 hours pass by advancing the service's clock and the worker's clocks by the same amount, for every arm.",
        ],
    )


def _tables(title: str, rows: list[str], cells: Sequence[Cell]) -> list[Table]:
    """One table for real deaths, with the rows in which nobody dies, and one for simulated deaths, where both were played."""
    played = {cell.crash for cell in cells}
    real = Table(
        title=f"{title}: workers really killed (SIGKILL), or stopped (SIGSTOP)",
        text="Rows in which nobody dies stand here too; they are played once.",
        where={"row": rows, "crash": ["kill", "stop", "none"]},
    )
    alone = [] if played & {"kill", "stop"} else ["none"]
    simulated = Table(
        title=f"{title}: crashes simulated in process", where={"row": rows, "crash": ["simulated", *alone]}
    )
    return [simulated] if alone else [real, simulated]


def measures(cells: Sequence[Cell]) -> list[Measure]:
    """That a tier is emulated as it is declared: which requests carried an Idempotency-Key, by the service's own log."""
    with_key = [cell for cell in cells if cell.tier == 1]
    without = [cell for cell in cells if cell.tier != 1]
    return [
        _keys("refund requests at tier 1 that carried an Idempotency-Key", with_key, all_of_them=True),
        _keys("refund requests without tier 1 that carried an Idempotency-Key", without, all_of_them=False),
    ]


def _keys(name: str, cells: Sequence[Cell], *, all_of_them: bool) -> Measure:
    # Only the local service shows its requests.
    cells = [cell for cell in cells if cell.details["requests"] is not None]
    requests = sum(int(cell.details["requests"]) for cell in cells)
    sent = sum(int(cell.details["keys_sent"]) for cell in cells)
    wanted = requests if all_of_them else 0
    return Measure(name=name, value=sent, unit=f"of {requests}", wanted=str(wanted), holds=sent == wanted)


def listings() -> list[Listing]:
    """The code that the table compares, as it ran."""
    return [
        cut(
            HERE / "hand_check.py",
            "refund_checked",
            title="The hand check at tiers 1 and 2",
            text="Beside it stand its own durable record of what was begun, and the queue that hands a failed job out again.",
        ),
        cut(HERE / "hand_check.py", "refund_blind", title="The hand check at tier 3"),
        cut(
            HERE / "gated.py",
            "tier_1.refund_money",
            title="The gate at tier 1",
            text="Tier 2 leaves out `dedupes` and `window`; tier 3 leaves out `lookup` and the fact that is read from the service, too.",
        ),
    ]


def findings(cells: Sequence[Cell]) -> list[str]:
    """Gate beside hand check, ties first."""
    ties: list[str] = []
    ahead: list[str] = []
    behind: list[str] = []
    for gate, hand in _pairs(cells):
        rank = _ORDER[gate.verdict] - _ORDER[hand.verdict]
        (ahead if rank > 0 else behind if rank < 0 else ties).append(f"{gate.row} at tier {gate.tier}")
    total = len(ties) + len(ahead) + len(behind)
    if not total:
        return []
    lines = [
        f"The hand check ties with the gate (same verdict) in {len(set(ties))} of {len({*ties, *ahead, *behind})} pairs, "
        f"at every tier unless one is named: {_grouped(ties)}."
    ]
    if behind:
        lines.append(f"The hand check does better in: {_grouped(behind)}.")
    lines.append(f"The gate does better in: {_grouped(ahead)}." if ahead else "The gate does better nowhere.")
    for arm in dict.fromkeys(cell.arm for cell in cells):
        own = [cell for cell in cells if cell.arm == arm]
        counts = {verdict: sum(cell.verdict is verdict for cell in own) for verdict in Verdict}
        lines.append(
            f"{arm}: {counts[Verdict.HELD]} held, {counts[Verdict.VIOLATED]} violated, "
            f"{counts[Verdict.UNKNOWN]} held but nobody can tell, of {len(own)} cells."
        )
    return lines


def _pairs(cells: Sequence[Cell]) -> Iterable[tuple[Cell, Cell]]:
    hands = {(cell.row, cell.tier, cell.crash): cell for cell in cells if cell.arm == "hand_check"}
    for cell in cells:
        if cell.arm == "gate" and (cell.row, cell.tier, cell.crash) in hands:
            yield cell, hands[cell.row, cell.tier, cell.crash]


def _grouped(pairs: Sequence[str]) -> str:
    """Rows with the tiers in which they are meant; all three are not spelt out."""
    tiers: dict[str, list[str]] = {}
    for pair in dict.fromkeys(pairs):
        row, _, tier = pair.partition(" at tier ")
        tiers.setdefault(row, []).append(tier)
    named = [row if len(found) == len(GATE) else f"{row} (tier {', '.join(found)})" for row, found in tiers.items()]
    return ", ".join(named) or "none"
