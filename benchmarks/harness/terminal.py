"""A result on a terminal: the tables turned so that they fit, and the measures. No colour, no tty needed."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.report import grid, number

WIDTH = 110


def show(document: Mapping[str, Any]) -> None:
    """Print what the page says in short: findings, measures, and each table with one line a cell."""
    report = document["report"]
    print(f"\n{report['title']}\n")
    for finding in report["findings"]:
        print(textwrap.fill(finding, WIDTH, initial_indent="  ", subsequent_indent="    "))
    for table in report["tables"]:
        lines = grid(table, document["cells"])
        if lines:
            print(f"\n{table['title']}")
            _print_table(lines)
    if document["measures"]:
        print()
        _print_measures(document["measures"])


def _print_table(lines: Sequence[Sequence[str]]) -> None:
    heading, *rows = lines
    width = max(len(name) for name in heading)
    for row, *cells in rows:
        print(f"\n  {row}")
        for name, cell in zip(heading[1:], cells, strict=True):
            if cell:
                print(f"    {name:<{width}}  {cell}")


def _print_measures(measures: Sequence[Mapping[str, Any]]) -> None:
    width = max(len(str(measure["name"])) for measure in measures)
    for measure in measures:
        holds = {True: "holds", False: "DOES NOT HOLD", None: ""}[measure["holds"]]
        wanted = f"wanted {measure['wanted']}" if measure["wanted"] else ""
        print(f"  {measure['name']:<{width}}  {number(measure['value'])} {measure['unit']}  {wanted}  {holds}".rstrip())
