"""What a suite is to the command line: a name, a line about it, its own options, and a run that returns a document.

A module under `benchmarks` that defines `SUITE` can be run by `python -m benchmarks NAME`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.harness.document import Document
from benchmarks.harness.progress import PlainProgress, Progress


class CannotRun(ValueError):
    """The command cannot run as it was asked to: a key, a package or a directory is missing. The message says what to do."""


def how_many(text: str) -> int:
    """A number of repetitions, or of whatever a run does: one at least. As `type=` of an argument.

    Raises:
        argparse.ArgumentTypeError: it is none, or less.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What every suite may be told.

    Attributes:
        quick: A shorter run of the same thing: fewer repetitions, the same checks, under 50 seconds.
        seed: What random choices are drawn from.
        command: The command line, for the result's meta.
        more: The suite's own options as parsed.
        progress: Where a scenario shows how far it is; suites are handed it beside the options.
    """

    quick: bool
    seed: int
    command: str
    more: argparse.Namespace
    progress: Progress = field(default_factory=lambda: PlainProgress(sys.stderr))


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A suite as the command line sees it.

    `command` is how it is called, where that is not its name. `pictures` draws what is to lie beside the page, from the result's JSON: by
    suffix, such as `.svg`.
    """

    name: str
    run: Callable[[Options, Progress], Document]
    add_arguments: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    command: str = ""
    pictures: Callable[[Mapping[str, Any]], Mapping[str, str]] = lambda content: {}
