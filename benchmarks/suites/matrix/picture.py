"""The matrix as one picture: an SVG drawn from the result's JSON, readable on light and dark pages.

PURE: a result in, text out. Each framework is three lines, one an arm; each row is a column, with the money on the service's ledger. A cell
that did not hold says so by its sign and not by its colour alone. Beside them the
median time from crash to settled, as bars, and the user's lines.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from benchmarks.suites.matrix.case import ARMS
from benchmarks.suites.matrix.rows import BY_NAME, STANDING, STOPPED

LINE, HEAD, PAD = 22, 74, 12
NAME_W, ARM_W, CELL_W, BAR_W, LINES_W = 184, 86, 92, 128, 50
FITS = 8
"""So many characters stand in a cell at their full size; more are drawn smaller."""

HEADINGS = {
    "lost_reply": ("lost", "reply"),
    "hand_refund": ("hand", "refund"),
    "approval_revoked": ("approval", "revoked"),
    "shared_cap": ("shared", "cap"),
    "resumed_in_turn": ("resumed", "in turn"),
    "resumed_at_once": ("resumed", "at once"),
    "unrelated_refund": ("unrelated", "refund"),
}
TIMES = {"refund stands": STANDING, "must not be sent": STOPPED}
SIGNS = {"held": "✓", "violated": "✗", "unknown": "?"}

FOOT = (
    "✓ held in every repetition; ✗ violated (1/5: not held in one of five): too much or too little money, or an answer that the service "
    "contradicts; ? nobody can tell.",
    "Money: what was refunded where $20 were approved. Times: medians. User lines: of the examples, which are written for a smaller shop.",
)

STYLE = """
text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#1f2328}
.dim{fill:#59636e}.b{font-weight:600}.small{font-size:11px}.tiny{font-size:10.5px}.mid{text-anchor:middle}.end{text-anchor:end}
.page{fill:#ffffff}.rule{stroke:#d1d9e0}
.held{fill:#dafbe1}.violated{fill:#ffd8d3}.unknown{fill:#fff1c2}.none{fill:#f0f2f4}
.bar-default{fill:#8c959f}.bar-hand_check{fill:#bf8700}.bar-interlock{fill:#0969da}
@media (prefers-color-scheme:dark){
text{fill:#f0f6fc}.dim{fill:#9198a1}.page{fill:#0d1117}.rule{stroke:#3d444d}
.held{fill:#12452a}.violated{fill:#6b1a1a}.unknown{fill:#5a4310}.none{fill:#1c2128}
.bar-default{fill:#6e7681}.bar-hand_check{fill:#d29922}.bar-interlock{fill:#4493f8}
}"""


def draw(content: Mapping[str, Any]) -> str:
    """The picture of a result, as it is written to `matrix.svg`."""
    cells: Sequence[Mapping[str, Any]] = content["cells"]
    titles = {table["where"]["framework"][0]: table["title"] for table in content["report"]["tables"]}
    lines = _user_lines(content["measures"])
    names = list(dict.fromkeys(str(cell["framework"]) for cell in cells))
    left = PAD + NAME_W + ARM_W
    bars = left + CELL_W * len(BY_NAME) + 16
    ends = bars + BAR_W * len(TIMES) + LINES_W
    width, height = ends + 2 * PAD, HEAD + len(names) * (LINE * len(ARMS) + 10) + 62
    medians = {
        (name, arm, rows): _median(cells, name, arm, rows) for name in names for arm in ARMS for rows in TIMES.values()
    }
    most = max([*(median for median in medians.values() if median), 0.001])
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
        f"<title>{escape(str(content['report']['title']))}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{width}" height="{height}"/>',
        _text(
            PAD,
            24,
            "What the payment service holds after the same accidents, by framework and by who guards the refund",
            "b",
        ),
    ]
    for number, row in enumerate(BY_NAME):
        for line, word in enumerate(HEADINGS.get(row, (row,))):
            out.append(_text(left + CELL_W * number + CELL_W // 2, 48 + 15 * line, word, "dim mid"))
    for number, what in enumerate(TIMES):
        out.append(_text(bars + BAR_W * number, 48, "crash to settled", "dim"))
        out.append(_text(bars + BAR_W * number, 63, what, "dim"))
    out.append(_text(ends, 48, "user", "dim end"))
    out.append(_text(ends, 63, "lines", "dim end"))
    for place, name in enumerate(names):
        top = HEAD + place * (LINE * len(ARMS) + 10)
        out.append(f'<line class="rule" x1="{PAD}" x2="{width - PAD}" y1="{top}" y2="{top}"/>')
        out.append(_text(PAD, top + 22, titles.get(name, name), "b"))
        for line, arm in enumerate(ARMS):
            y = top + 5 + line * LINE
            out.append(_text(PAD + NAME_W, y + 15, arm.replace("_", " "), "dim"))
            for number, row in enumerate(BY_NAME):
                own = [one for one in cells if (one["framework"], one["arm"], one["row"]) == (name, arm, row)]
                out.extend(_cell(left + CELL_W * number, y, own))
            for number, rows in enumerate(TIMES.values()):
                out.extend(_bar(bars + BAR_W * number, y, arm, medians[name, arm, rows], most))
            if (name, arm) in lines:
                out.append(_text(ends, y + 15, str(lines[name, arm]), "end"))
    for line, told in enumerate(FOOT):
        out.append(_text(PAD, height - 32 + 16 * line, told, "dim small"))
    return "\n".join([*out, "</svg>", ""])


def _cell(x: int, y: int, own: Sequence[Mapping[str, Any]]) -> list[str]:
    verdict = _verdict(own)
    drawn = [
        f'<rect class="{verdict or "none"}" x="{x + 2}" y="{y + 1}" width="{CELL_W - 4}" height="{LINE - 2}" rx="3"/>'
    ]
    if verdict:
        told = f"{SIGNS[verdict]} {_money(own)}"
        drawn.append(_text(x + CELL_W // 2, y + 15, told, "mid" if len(told) <= FITS else "mid tiny"))
    return drawn


def _verdict(own: Iterable[Mapping[str, Any]]) -> str:
    """The worst of the repetitions; empty where there is none."""
    found = {str(cell["verdict"]) for cell in own}
    return next((one for one in ("violated", "unknown", "held") if one in found), "")


def _money(own: Sequence[Mapping[str, Any]]) -> str:
    """What was refunded; where repetitions differ, from least to most, and in how many the worst came."""
    amounts = sorted({int(cell["money_minor"]) for cell in own})
    bad = sum(cell["verdict"] != "held" for cell in own)
    told = "-".join(f"${amount // 100}" for amount in dict.fromkeys((amounts[0], amounts[-1])))
    return f"{told} {bad}/{len(own)}" if 0 < bad < len(own) else told


def _bar(x: int, y: int, arm: str, median: float | None, most: float) -> list[str]:
    if median is None:
        return []
    length = max(2, round((BAR_W - 54) * median / most))
    return [
        f'<rect class="bar-{arm}" x="{x}" y="{y + 6}" width="{length}" height="{LINE - 12}" rx="2"/>',
        _text(x + length + 5, y + 15, f"{median:.2f} s", "dim small"),
    ]


def _median(cells: Iterable[Mapping[str, Any]], name: str, arm: str, rows: Sequence[str]) -> float | None:
    taken = [
        float(one["settle_s"])
        for one in cells
        if (one["framework"], one["arm"]) == (name, arm) and one["row"] in rows and one["settle_s"] is not None
    ]
    return statistics.median(taken) if taken else None


def _user_lines(measures: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], int]:
    found = {}
    for measure in measures:
        name, _, what = str(measure["name"]).partition(": lines of the user, ")
        if what:
            found[name, what.replace(" ", "_")] = int(measure["value"])
    return found


def _text(x: int, y: int, text: str, kind: str = "") -> str:
    return f'<text x="{x}" y="{y}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}>{escape(text)}</text>'
