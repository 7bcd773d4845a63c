"""The command line: `interlock init [PATH]`. Owns arguments, printing and exit codes; it never imports or runs the project it looks at."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import interlock
from interlock.cli.proposal import Finding
from interlock.cli.survey import Survey, survey

__all__ = ["main"]

_EXIT_CODES = """exit codes:
  0  every Python file that could be read was looked at, and nothing ungated was found
  1  there are findings
  2  bad usage, or nothing was looked at: no such path, or no Python file there that can be read"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns:
        The exit code; `interlock init --help` says what each means.

    Raises:
        SystemExit: the arguments are none, or help or the version was asked for.
    """
    parser = argparse.ArgumentParser(prog="interlock", description="Outward effects of an agent, behind a gate.")
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version, and end")
    commands = parser.add_subparsers(dest="command", required=True)
    said = "name what has outside effects and is not gated yet, and propose how to gate it"
    init = commands.add_parser(
        "init",
        help=said,
        description=f"{said[0].upper()}{said[1:]}. The source is read and never run.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    init.add_argument("path", nargs="?", default=".", help="a directory or a Python file; by default this directory")
    init.add_argument("--tests", action="store_true", help="look at the project's tests, too")
    init.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    try:
        given = parser.parse_args(arguments)
    except SystemExit:
        _print("")
        raise
    place = Path(given.path)
    if not place.exists():
        return _refuse(f"{place}: there is no such file or directory")
    found = survey(place, tests=given.tests)
    if not found.files:
        left_out = "Hidden folders, installed packages" + (" were" if given.tests else " and tests were") + " left out"
        hint = "" if given.tests else "; --tests looks at tests, too"
        return _refuse(
            f"{place}: no Python file could be read there, so nothing was looked at. {left_out}{hint}.", *found.unclear
        )
    _print((json.dumps(found.as_dict(), indent=2) if given.json else _text(found)) + "\n")
    return 1 if found.findings else 0


class _Version(argparse.Action):
    """Asks for the version only when it is to be printed."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"interlock {interlock.__version__}")
        parser.exit()


def _refuse(*lines: str) -> int:
    print("interlock: " + "\n  ".join(lines), file=sys.stderr)
    return 2


def _print(text: str) -> None:
    """Print, to a reader that may have read enough (`| head`): then the rest is nobody's, also when Python flushes at its end."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _text(found: Survey) -> str:
    stack = ", ".join(found.stack) or "none that has a wrapper here"
    lines = [f"Looked at {found.files} Python file{'' if found.files == 1 else 's'}; stack: {stack}."]
    lines += [f"Gated already: {', '.join(found.gated)}."] if found.gated else []
    lines += ["To be looked at:", *(f"  {said}" for said in found.remarks)] if found.remarks else []
    for finding in found.findings:
        lines += ["", *_of(finding)]
    if not found.findings:
        lines.append("Nothing with outside effects was found that is not gated.")
    if found.configuration is not None:
        lines += [
            "",
            "All tools in one configuration, to start from (interlock.json; docs/config.md says what each option means). The journal's "
            "directory starts at that file's own:",
        ]
        lines += json.dumps(found.configuration, indent=2).splitlines()
    if found.unclear:
        lines += ["", "Could not be judged; look at these yourself:", *(f"  {said}" for said in found.unclear)]
    return "\n".join(lines)


def _of(finding: Finding) -> list[str]:
    lines = [f"{finding.file}:{finding.line} {finding.name}: {'; '.join(finding.why)}"]
    lines += [f"  note: {said}" for said in finding.notes]
    lines += [f"  key: {', '.join(finding.key)}"] if finding.key else []
    if finding.ready_made:
        lines.append(f"  ready-made: {finding.ready_made}; key, window, look-up, facts and error classes are filled in")
    else:
        lines.append(f"  tier: {finding.tier}")
        lines += [f"  could be premises: {', '.join(finding.premises)}"] if finding.premises else []
        lines.append(f"  {_look_up(finding)}")
    lines += [f"  to do: {said}" for said in finding.to_do]
    if finding.is_tool and not finding.ready_made:
        return lines
    return [*lines, "  proposal:", *("    " + line if line else "" for line in finding.proposal.splitlines())]


def _look_up(finding: Finding) -> str:
    if finding.lookups:
        return f"could be the look-up: {', '.join(finding.lookups)}"
    return "look-up: none was found; what finds this effect at the service by a reference of ours would be one"
