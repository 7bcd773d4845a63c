"""`python -m benchmarks scenario NAME`: the agent's step at other objects and with other invariants.

Owns the registry and the command line. A scenario is a module with

    NAME = "shared_cap"                      # also its file and its result: results/shared_cap.json
    def run(options: Options) -> Document    # options.progress shows; options.more has reps, stripe, service_dir

and, if it likes, `add_arguments(parser)`. `harness.stripe_place.open_place(options.more)` opens the service that was asked for.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from typing import Any

from benchmarks.harness import stripe_place
from benchmarks.harness.document import Document
from benchmarks.harness.progress import Progress
from benchmarks.harness.suite import Options, Suite, how_many

SCENARIOS = {
    "shared_cap": "two approvals of $20 race one cap of $30",
    "stripe_dispute": "no refund on a charge once charged back; one sent before, once; what became of it on the record",
    "billing_credit": "one goodwill credit per incident, none once it is closed or credited by hand",
    "connect_payout": "one payout per approved case",
}
"""By name; the module is benchmarks.suites.scenarios.NAME."""


def suite_of(name: str) -> Suite:
    """A scenario as the command line runs it."""
    module: Any = importlib.import_module(f"benchmarks.suites.scenarios.{name}")

    def run(options: Options, progress: Progress) -> Document:
        document: Document = module.run(
            Options(
                quick=options.quick, seed=options.seed, command=options.command, more=options.more, progress=progress
            )
        )
        return document

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--reps", type=how_many, help="repetitions of each cell")
        stripe_place.add_arguments(parser)
        if hasattr(module, "add_arguments"):
            module.add_arguments(parser)

    return Suite(name=str(module.NAME), run=run, add_arguments=add_arguments, command=f"scenario {name}")


def choose(arguments: Sequence[str]) -> tuple[Suite, Sequence[str]]:
    """The scenario that the command line names, and its own arguments."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks scenario", description=(__doc__ or "").splitlines()[0])
    names = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    for name, what in SCENARIOS.items():
        names.add_parser(name, help=what, add_help=False)
    chosen, rest = parser.parse_known_args(arguments)
    return suite_of(chosen.name), rest
