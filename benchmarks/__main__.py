"""`python -m benchmarks NAME`: run one suite, write its result, print the table, exit 1 if anything is not as wanted.

Owns the command line and where results go. Must not know what a suite measures.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.progress import choose
from benchmarks.harness.suite import CannotRun, Options, Suite
from benchmarks.harness.terminal import show
from benchmarks.report import replace, write

ROOT = Path(__file__).resolve().parent.parent

SUITES = {
    "refund-agent": ("benchmarks.suites.refund_agent.suite", "eleven faults and more, each guard beside the others"),
    "recovery": ("benchmarks.suites.recovery", "crash to settled, the gate beside the hand check; the stopped sender"),
    "e2e": (
        "benchmarks.suites.e2e.suite",
        "real crashes in the middle of a refund, with a durable engine or without one",
    ),
    "matrix": ("benchmarks.suites.matrix.suite", "the same crash suite in every agent framework and durable engine"),
    "performance": ("benchmarks.performance", "one gated call beside the floor, fsyncs counted"),
    "simulate": (
        "benchmarks.simulator.suite",
        "the real protocol against every order of events, exhaustively and by seed",
    ),
    "lines": ("benchmarks.suites.lines", "what a user writes with the gate, beside the hand check, counted"),
}
DEMO = "demo"
AUDIT = "audit"
SCENARIO = "scenario"
CANNOT_RUN = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] == DEMO:
        from benchmarks import demo

        return demo.main(given[1:])
    if given and given[0] == AUDIT:
        from benchmarks import audit

        return audit.main(given[1:])
    if given and given[0] == SCENARIO:
        from benchmarks.suites import scenarios

        return run(*scenarios.choose(given[1:]))
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    names = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    for name, (_, what) in SUITES.items():
        names.add_parser(name, help=what, add_help=False)
    names.add_parser(
        AUDIT, help="re-read the service for each cell of a result, and check what it records", add_help=False
    )
    names.add_parser(SCENARIO, help="the same agent step at other services and objects", add_help=False)
    names.add_parser(DEMO, help="half a minute: a killed agent, without and with the gate", add_help=False)
    chosen, rest = parser.parse_known_args(given)
    suite: Suite = importlib.import_module(SUITES[chosen.name][0]).SUITE
    return run(suite, rest)


def run(suite: Suite, arguments: Sequence[str]) -> int:
    """Run one suite with its arguments; returns the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {suite.command or suite.name}")
    parser.add_argument("--quick", action="store_true", help="a shorter run of the same checks, under 50 seconds")
    parser.add_argument("--out", type=Path, help="where to write the JSON (a .json file, or a directory)")
    parser.add_argument("--seed", type=int, default=0, help="repeats a run's random choices")
    suite.add_arguments(parser)
    options = parser.parse_args(arguments)
    command = " ".join(["python -m benchmarks", suite.command or suite.name, *_without_out(arguments)])
    asked = Options(quick=options.quick, seed=options.seed, command=command, more=options)
    try:
        _refuse_what_cannot_be_written(options.out)
        with choose() as progress:
            document = suite.run(asked, progress)
    except CannotRun as error:
        print(f"{suite.name}: {error}", file=sys.stderr)
        return CANNOT_RUN
    except KeyboardInterrupt:
        print(f"{suite.name}: interrupted; no result was written", file=sys.stderr)
        return INTERRUPTED
    file = _target(document.name, options.out, whole=document.is_whole and not options.quick)
    content = document.to_json()
    show(content)
    try:
        write(content, file)
        for suffix, drawn in suite.pictures(content).items():
            replace(file.with_suffix(suffix), drawn)
    except OSError as error:
        print(f"{suite.name}: the result cannot be written to {file} ({error.strerror})", file=sys.stderr)
        return CANNOT_RUN
    for failure in document.failures:
        print(f"NOT AS WANTED  {failure}")
    print(f"\n{document.sentence}  ({file.name} and {file.with_suffix('.md').name} in {_shown(file.parent)})")
    return 0 if document.holds else 1


def _target(name: str, out: Path | None, *, whole: bool) -> Path:
    file = f"{name.replace('-', '_')}.json"
    if out is None:
        # Only a whole run may replace what is committed.
        return (ROOT / "results" if whole else ROOT / ".scratch" / "results") / file
    return out if out.suffix == ".json" else out / file


def _refuse_what_cannot_be_written(out: Path | None) -> None:
    """A run may take an hour; it does not begin where its result cannot go.

    Raises:
        CannotRun: the directory cannot be made or written.
    """
    if out is None:
        return
    directory = out.parent if out.suffix == ".json" else out
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory) as probe:
            probe.write(b" ")
    except OSError as error:
        raise CannotRun(f"--out {out}: nothing can be written there ({error.strerror})") from error


def _shown(directory: Path) -> str:
    resolved = directory.resolve()
    return f"{resolved.relative_to(ROOT)}/" if resolved.is_relative_to(ROOT) else f"{directory}/"


def _without_out(arguments: Sequence[str]) -> list[str]:
    kept, skip = [], False
    for argument in arguments:
        if not skip and not argument.startswith("--out"):
            kept.append(argument)
        skip = argument == "--out" and not skip
    return kept


if __name__ == "__main__":
    sys.exit(main())
