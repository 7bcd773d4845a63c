"""The command line: `interlock init [PATH]`. Owns arguments, printing and exit codes; it never imports or runs the project it looks at.

Exit codes of `init`: 0 nothing ungated was found, 1 there are findings, 2 bad usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from interlock.cli.proposal import Finding
from interlock.cli.survey import Survey, survey

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(prog="interlock", description="Outward effects of an agent, behind a gate.")
    commands = parser.add_subparsers(dest="command", required=True)
    init = commands.add_parser(
        "init", help="name what has outside effects and is not gated yet, and propose how to gate it"
    )
    init.add_argument("path", nargs="?", default=".", help="a directory or a Python file; by default this directory")
    init.add_argument("--tests", action="store_true", help="look at the project's tests, too")
    init.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    given = parser.parse_args(arguments)
    place = Path(given.path)
    if not place.exists():
        print(f"interlock: {place}: there is no such file or directory", file=sys.stderr)
        return 2
    found = survey(place, tests=given.tests)
    print(json.dumps(found.as_dict(), indent=2) if given.json else _text(found))
    return 1 if found.findings else 0


def _text(found: Survey) -> str:
    lines = [
        f"Looked at {found.files} Python files; stack: {', '.join(found.stack) or 'none that has a wrapper here'}."
    ]
    lines += [f"Gated already: {', '.join(found.gated)}."] if found.gated else []
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
    lines += [f"  key: {', '.join(finding.key)}"] if finding.key else []
    lines.append(f"  tier: {finding.tier}")
    lines += [f"  ready-made: {finding.ready_made}"] if finding.ready_made else []
    lines += [f"  could be premises: {', '.join(finding.premises)}"] if finding.premises else []
    lines += [f"  could be the look-up: {', '.join(finding.lookups)}"] if finding.lookups else []
    lines += [f"  to do: {said}" for said in finding.to_do]
    if finding.is_tool:
        return lines
    return [*lines, "  proposal:", *("    " + line if line else "" for line in finding.proposal.splitlines())]
