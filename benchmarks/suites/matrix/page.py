"""What the report of the matrix says: computed from the cells. What is as good as the gate or better, it says first."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness.document import Cell, Listing, Measure, Report, Table, Verdict
from benchmarks.harness.listing import cut
from benchmarks.harness.stripe_wire import SETTLE_AFTER_S, Service
from benchmarks.suites import lines
from benchmarks.suites.matrix.case import ARMS
from benchmarks.suites.matrix.framework import Framework
from benchmarks.suites.matrix.rows import BY_NAME, ROWS, STANDING, STOPPED

HERE = Path(__file__).parent
MOST_RATIO = 1.1
FEWEST_TO_JUDGE = 3
PICTURE = "![The matrix: rows by frameworks, three arms each](matrix.svg)"


class Lines(NamedTuple):
    """How many lines a user writes, by hand and with the gate."""

    hand: int
    gate: int


def report(cells: Sequence[Cell], known: Mapping[str, Framework], skipped: Mapping[str, str]) -> Report:
    """The page around the cells."""
    played = [known[name] for name in _names(cells)]
    return Report(
        title="The same crash suite in every framework",
        intro=(
            "A $100 payment, an approved refund of $20, an agent that is stopped for the approval, and a worker process that is killed by "
            "SIGKILL inside of its tool. People act in the outage; a new worker process goes on as the framework's documentation says. "
            "Every framework is used in its documented durable set-up, with the same three ways to carry the refund out. Money and counts "
            f"are read from the payment service's own list of refunds.\n\n{PICTURE}"
        ),
        findings=[*findings(cells, known), *(f"Not run: {name}: {why}." for name, why in skipped.items())],
        tables=[Table(title=one.title, where={"framework": [one.name]}, text=_facts(one)) for one in played],
        glossary={row.name: f"{row.what}. Wanted: {_money(row.wanted_minor)} in {row.wanted_count}." for row in ROWS},
        listings=_listings(),
        notes=[
            "settle_s counts from the kernel's report of the worker's death to the moment at which the new worker's run was over: "
            "what people do in the outage, the new process's start and its imports are in it, for every arm.",
            f"Where a check fails at recovery (hand_refund, approval_revoked) the gate waits out its declared pause "
            f"({SETTLE_AFTER_S[Service.LOCAL] * 1000:g} ms at the local service, {SETTLE_AFTER_S[Service.LIVE]:g} s at Stripe) before "
            "it trusts that the dead worker's request will not land any more; the hand check trusts the first look, which is faster and "
            "may be wrong at a service that is slower than its client's death. No row here lands late.",
            "What is resumed at once is handed to two new workers that have loaded what the one which stopped for the approval has. "
            "How far apart their tools began is taken where the tool's body begins; the cells (`apart_ms`) have it for both arms without "
            "a gate, and for every arm how far apart the workers took the approval up.",
            "default and hand_check send with the SDK's own two retries. The key is the approved request's in all arms.",
            "The hand check takes a lock of the machine; over several machines it would need another one.",
            "User lines are counted from the examples' marked regions (`python -m benchmarks lines`), which are written against a "
            "smaller shop.",
        ],
    )


DEFAULT = "The default"


def _listings() -> list[Listing]:
    """The code that is compared."""
    return [
        cut(HERE / "arms.py", "hand_check", title="The hand check", text=HAND_CHECK),
        cut(HERE / "arms.py", "one_at_a_time", title="Its lock"),
        cut(HERE / "arms.py", "default", title=DEFAULT),
        cut(HERE / "arms.py", "refund_of", title="Interlock, where a framework takes a declared effect"),
        cut(HERE / "arms.py", "effect_of", title="Interlock, for the wrappers that protect a framework's own tools"),
    ]


HAND_CHECK = (
    "Looks for its own refund first, by the approval in the metadata; then asks for the permission; then compares what others "
    "refunded since the decision, by amount; then the cap, under a lock; then sends under a stable key. In `unrelated_refund` the $5 come "
    "to less than the $20, so it sends, which is right; two separate refunds of $20 it could not tell from one paid twice, and neither can "
    "the gate."
)


def findings(cells: Sequence[Cell], known: Mapping[str, Framework]) -> Iterator[str]:
    """What is as good as the gate or better comes first."""
    names = _names(cells)
    for arm in ("hand_check", "default"):
        yield from _as_good(cells, names, arm)
    yield from _faster(cells, names)
    yield from _shorter(names, known)
    yield _as_it_ran()
    yield from _kept_out(cells, names)
    for arm in ARMS:
        own = [cell for cell in cells if cell.arm == arm]
        if own:
            held = sum(cell.verdict is Verdict.HELD for cell in own)
            lost = sorted({cell.row for cell in own if cell.verdict is not Verdict.HELD}, key=list(BY_NAME).index)
            where = f"; not held somewhere: {', '.join(lost)}" if lost else ""
            by_name = ", ".join(f"{name} {len(held_rows(own, name, arm))} of {rows_of(own, name)}" for name in names)
            yield f"{arm}: {held} of {len(own)} cells held{where}. Rows held in every repetition: {by_name}."
    for name in names:
        for row, why in known[name].impossible.items():
            yield f"{known[name].title} has no {row}: {why}."


def _as_good(cells: Sequence[Cell], names: Sequence[str], arm: str) -> Iterator[str]:
    better, equal, rows = [], [], []
    for name in names:
        ours, theirs = held_rows(cells, name, "interlock"), held_rows(cells, name, arm)
        if theirs > ours:
            better.append(name)
        elif theirs == ours:
            equal.append(name)
    for row in BY_NAME:
        own = [cell for cell in cells if cell.row == row and cell.arm == arm]
        if own and all(cell.verdict is Verdict.HELD for cell in own):
            rows.append(row)
    if better:
        yield f"{arm} holds more than interlock in {', '.join(better)}."
    if equal:
        yield f"{arm} holds every row that interlock holds in {len(equal)} of {len(names)} frameworks: {', '.join(equal)}."
    if rows:
        yield f"{arm} holds in every framework and repetition: {', '.join(rows)}."


def _faster(cells: Sequence[Cell], names: Sequence[str]) -> Iterator[str]:
    for what, rows in (("where it must not be sent any more", STOPPED), ("where the refund stands", STANDING)):
        told = []
        for name in names:
            own = [cell for cell in cells if cell.row in rows]
            hand, gate = settle_s(own, name, "hand_check"), settle_s(own, name, "interlock")
            if hand and gate and statistics.median(gate) > statistics.median(hand):
                told.append(f"{name} ({statistics.median(hand):.2f} s, interlock {statistics.median(gate):.2f} s)")
        if told:
            yield f"hand_check settles faster after the crash {what}, by the median, in: {', '.join(told)}."


def _shorter(names: Sequence[str], known: Mapping[str, Framework]) -> Iterator[str]:
    counted = user_lines(known)
    told = [f"{name} ({counted[name].hand}, interlock {counted[name].gate})" for name in names if name in counted]
    shorter = [
        text
        for text, name in zip(told, [one for one in names if one in counted], strict=True)
        if counted[name].hand <= counted[name].gate
    ]
    if shorter:
        yield f"hand_check takes no more lines of the user in: {', '.join(shorter)}."


def _as_it_ran() -> str:
    """The lines of the arms that were played, beside those of the examples."""
    hand, lock, ready, declared = (one.lines for one in _listings() if one.title != DEFAULT)
    return (
        f"Lines of the arms as they ran here (printed below): hand_check {hand}, and {lock} of its lock; interlock {ready} with the "
        f"ready-made refund, {declared} where a framework's own tool is declared. The user's lines that are measured are those of the "
        "examples, which are written for another shop, with other checks."
    )


def _kept_out(cells: Sequence[Cell], names: Sequence[str]) -> Iterator[str]:
    told = []
    for name in names:
        played, apart = _resumed_at_once(cells, name), tools_apart_ms(cells, name)
        if len(apart) < len(played):
            told.append(f"{name} ({len(played) - len(apart)} of {len(played)})")
    if told:
        yield f"resumed_at_once, default: the framework itself keeps the second one out, its tool never began, in: {', '.join(told)}."


def measures(cells: Sequence[Cell], known: Mapping[str, Framework]) -> list[Measure]:
    """What is wanted of the gate, and the same of the others beside it."""
    return [one for name in _names(cells) for one in _measured(cells, known, name)]


def _measured(cells: Sequence[Cell], known: Mapping[str, Framework], name: str) -> Iterator[Measure]:
    for arm in ARMS:
        rows = {cell.row for cell in cells if cell.details["framework"] == name and cell.arm == arm}
        if rows:
            held, ours = len(held_rows(cells, name, arm)), arm == "interlock"
            yield Measure(
                name=f"{name}, {arm}: rows held in every repetition",
                value=held,
                unit=f"of {len(rows)}",
                wanted=str(len(rows)) if ours else None,
                holds=held == len(rows) if ours else None,
            )
    for arm in ARMS:
        taken = settle_s(cells, name, arm)
        if taken:
            yield Measure(
                name=f"{name}, {arm}: crash to settled, median",
                value=round(statistics.median(taken), 3),
                unit="s",
                details={"spread": f"{taken[0]:.3f} to {taken[-1]:.3f}", "count": len(taken)},
            )
    yield from _ratios(cells, name)
    apart = tools_apart_ms(cells, name)
    if apart:
        yield Measure(
            name=f"{name}, default: resumed at once, apart when the tools began, median",
            value=round(statistics.median(apart), 1),
            unit="ms",
            details={"spread": f"{apart[0]:.1f} to {apart[-1]:.1f}", "count": len(apart)},
        )
    own = [cell for cell in cells if cell.details["framework"] == name and cell.arm == "interlock"]
    if own:
        good = sum(cell.details.get("receipt_verified") is True for cell in own)
        yield Measure(
            name=f"{name}, interlock: receipts that verify from the JSON alone",
            value=good,
            unit=f"of {len(own)}",
            wanted=str(len(own)),
            holds=good == len(own),
        )
    counted = user_lines(known).get(name)
    if counted:
        yield Measure(name=f"{name}: lines of the user, hand check", value=counted.hand, unit="lines")
        yield Measure(
            name=f"{name}: lines of the user, interlock",
            value=counted.gate,
            unit="lines",
            wanted=f"at most {counted.hand}",
            holds=counted.gate <= counted.hand,
        )


def _ratios(cells: Sequence[Cell], name: str) -> Iterator[Measure]:
    """The gate beside the hand check: over all rows, where the refund stands in the end, and where it must not be sent any more."""
    enough = fewest(cells, name) >= FEWEST_TO_JUDGE
    # Judged is every row with a crash, as in `e2e`: one in which the gate is slower is not left out.
    for what, rows, is_judged in (
        ("over all rows", (*STANDING, *STOPPED), enough),
        ("where the refund stands", STANDING, False),
        ("where it must not be sent", STOPPED, False),
    ):
        own = [cell for cell in cells if cell.row in rows]
        hand, gate = settle_s(own, name, "hand_check"), settle_s(own, name, "interlock")
        if hand and gate:
            ratio = statistics.median(gate) / statistics.median(hand)
            yield Measure(
                name=f"{name}: crash to settled {what}, interlock to hand_check, ratio of the medians",
                value=round(ratio, 3),
                unit="ratio",
                wanted=f"at most {MOST_RATIO}" if is_judged else None,
                holds=ratio <= MOST_RATIO if is_judged else None,
                details={"spread": f"{statistics.median(gate):.3f} s to {statistics.median(hand):.3f} s"},
            )


def held_rows(cells: Iterable[Cell], framework: str, arm: str) -> set[str]:
    """The rows that this arm holds in every repetition."""
    own = [cell for cell in cells if cell.details["framework"] == framework and cell.arm == arm]
    lost = {cell.row for cell in own if cell.verdict is not Verdict.HELD}
    return {cell.row for cell in own} - lost


def rows_of(cells: Iterable[Cell], framework: str) -> int:
    """How many rows were played in this framework."""
    return len({cell.row for cell in cells if cell.details["framework"] == framework})


def tools_apart_ms(cells: Iterable[Cell], framework: str) -> list[float]:
    """How far apart the tools of two that were resumed at once began with the default, in order; without those of which one never began."""
    return sorted(one["tool"] for one in _resumed_at_once(cells, framework) if "tool" in one)


def _resumed_at_once(cells: Iterable[Cell], framework: str) -> list[dict[str, float]]:
    own = [cell for cell in cells if cell.details["framework"] == framework and cell.arm == "default"]
    return [one.details["apart_ms"] for one in own if one.row == "resumed_at_once" and one.details.get("apart_ms")]


def settle_s(cells: Iterable[Cell], framework: str, arm: str) -> list[float]:
    """Every time from a crash to a settled case, in order."""
    return sorted(
        float(cell.details["settle_s"])
        for cell in cells
        if cell.details["framework"] == framework and cell.arm == arm and cell.details["settle_s"] is not None
    )


def fewest(cells: Iterable[Cell], framework: str) -> int:
    """The fewest repetitions that a row and arm of this framework has."""
    count: dict[tuple[str, str], int] = {}
    for cell in cells:
        if cell.details["framework"] == framework:
            count[cell.row, cell.arm] = count.get((cell.row, cell.arm), 0) + 1
    return min(count.values(), default=0)


def user_lines(known: Mapping[str, Framework]) -> dict[str, Lines]:
    """Lines of the user by framework, where its example marks both regions."""
    counted = lines.pairs(lines.EXAMPLES) if lines.EXAMPLES.is_dir() else {}
    return {
        one.name: Lines(counted[one.example][0].lines, counted[one.example][1].lines)
        for one in known.values()
        if one.example in counted
    }


def _names(cells: Iterable[Cell]) -> list[str]:
    return list(dict.fromkeys(str(cell.details["framework"]) for cell in cells))


def _facts(one: Framework) -> str:
    told = {
        "Set-up after": one.docs,
        "Starts": one.starts,
        "Approval": one.approves,
        "Keeps over a death": one.persists,
        "Goes on": one.resumes,
        "Key of the default arm": one.default,
        "Wrapper": f"`{one.wrapper}`",
        **{f"No {row}": why for row, why in one.impossible.items()},
    }
    return "\n".join(f"- {name}: {text}" for name, text in told.items())


def _money(minor: int) -> str:
    return f"${minor // 100}"
