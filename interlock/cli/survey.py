"""Surveying a project for outside effects that are not gated: the whole tree, its Python read with `ast`, its JSON and TOML configurations.

Nothing of the project is run. What is found is a hint from names and calls, not a proof: a call that is hidden behind another package is
not seen.
"""

from __future__ import annotations

import dataclasses
import json
import os
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from interlock.cli import known
from interlock.cli.nesting import Ways, place_gates
from interlock.cli.proposal import Finding, propose
from interlock.cli.source import Function, Source, read
from interlock.config import ToolConfig, load
from interlock.errors import ConfigurationError

_SKIPPED = {"node_modules", "site-packages", "__pycache__", "build", "dist", "venv", "env"}
_TESTS = {"tests", "test", "testing"}
_LARGEST_BYTES = 1_000_000
_MOST_FILES = 5_000


@dataclasses.dataclass
class Survey:
    """What was found.

    Attributes:
        files: how many Python files were read; those that could not be read are in `unclear`.
        stack: the frameworks that have a wrapper here.
        gated: what is gated already.
        configuration: that of all tools that were found, to start from; it loads as it is. None if no tool was found.
        remarks: what is gated and could be kept better.
        unclear: what could not be judged, with its place.
    """

    files: int
    stack: list[str]
    gated: list[str]
    findings: list[Finding]
    configuration: dict[str, Any] | None
    remarks: list[str]
    unclear: list[str]

    def as_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return dataclasses.asdict(self)


def survey(place: Path, *, tests: bool = False) -> Survey:
    """Look at a directory, with all below it, or at a file.

    Args:
        place: a directory or a Python file.
        tests: whether to look at tests, too.
    """
    sources: list[Source] = []
    gated: set[str] = set()
    weak: dict[str, str] = {}
    unclear: list[str] = []
    for path in _files(place, tests=tests):
        where = str(path.relative_to(place)) if place.is_dir() else path.name
        if len(sources) >= _MOST_FILES:
            unclear.append(f"more than {_MOST_FILES} Python files; the rest was left out")
            break
        try:
            about = path.stat()
            if not stat.S_ISREG(about.st_mode):
                continue  # a pipe or a socket: to read it could wait for ever
            if about.st_size > _LARGEST_BYTES:
                unclear += [f"{where}: larger than {_LARGEST_BYTES} bytes"] if path.suffix == ".py" else []
            elif path.suffix == ".py":
                sources.append(read(path.read_bytes(), where=where))
            else:
                tools = _configured(path, where, unclear)
                gated |= tools.keys()
                weak |= {name: where for name, how in tools.items() if how.lookup is None and not how.dedupes}
        except (SyntaxError, ValueError, RecursionError, OSError) as error:
            said = error.msg if isinstance(error, SyntaxError) else str(error)  # the text of which names no file
            unclear.append(f"{where}:{getattr(error, 'lineno', None) or 1}: cannot be read: {said}")
    return _judge(sources, gated, weak, unclear, root=(place if place.is_dir() else place.parent).resolve().name)


def _files(place: Path, *, tests: bool) -> Iterator[Path]:
    if place.is_file():
        yield place
        return
    skipped = _SKIPPED if tests else _SKIPPED | _TESTS
    for directory, inner, files in os.walk(place):
        inner[:] = sorted(
            name
            for name in inner
            if name not in skipped and not name.startswith(".") and not Path(directory, name, "pyvenv.cfg").exists()
        )
        for name in sorted(files):
            is_test = name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
            if name.endswith((".py", ".json", ".toml")) and not name.startswith(".") and (tests or not is_test):
                yield Path(directory, name)


def _configured(path: Path, where: str, unclear: list[str]) -> dict[str, ToolConfig]:
    """The tools that a configuration file gates, and how.

    Raises:
        ValueError: it is no JSON or TOML.
    """
    text = path.read_text("utf-8")
    if "tools" not in text:
        return {}
    try:
        said = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError):
        return {}  # some other tool's file, in a dialect of its own
    tools = said.get("tools") if isinstance(said, dict) else None
    if not isinstance(tools, dict) or not any(isinstance(how, dict) and "key" in how for how in tools.values()):
        return {}
    try:
        return dict(load(path).tools)
    except ConfigurationError as error:
        unclear.append(f"{where}: looks like a configuration of the gate, which would refuse it: {error}")
        return {}


def _judge(sources: list[Source], gated: set[str], weak: dict[str, str], unclear: list[str], *, root: str) -> Survey:
    functions = [function for source in sources for function in source.functions]
    tools: dict[str, str] = {}
    says: dict[str, str] = {}
    for source in sources:
        gated |= source.gated
        tools |= source.tools
        says |= source.says
        weak |= source.weak
        unclear += source.unclear
    for function in functions:
        if function.name in tools and not function.is_tool:
            function.is_tool, function.tool = True, tools[function.name]
        function.says = function.says or says.get(function.tool, says.get(function.name, ""))
        if function.is_gated:
            gated.add(function.tool)
    for function in functions:
        function.is_gated = function.is_gated or function.tool in gated or function.name in gated
    ways = Ways(sources, functions, root=root)
    placed = place_gates(functions, ways)
    gated |= placed.served
    finders = [function for function in functions if _reads(function) and known.finds(function.name)]
    readers = [function for function in functions if function.is_tool and _reads(function)]
    records = set().union(*(source.records for source in sources))
    findings = [
        propose(
            function,
            [reader for reader in readers if reader.tool != function.tool],
            finders=[
                finder for finder in finders if finder is not function and (finder.is_tool or not function.is_tool)
            ],
            records=records,
            notes=placed.notes.get(id(function), []),
        )
        for function in functions
        if _acts(function) and id(function) not in placed.elsewhere
    ]
    findings.sort(key=lambda finding: (finding.file, finding.line))
    judged = {finding.name for finding in findings} | gated | {reader.tool for reader in readers}
    judged |= {function.tool for function in functions if id(function) in placed.elsewhere}
    for function in functions:
        if function.is_tool and function.tool not in judged and not function.is_gated:
            unclear.append(
                f"{function.file}:{function.line}: tool {function.tool}: nothing tells whether it writes or reads"
            )
    named = [function.name for function in functions] + [function.tool for function in functions]
    for name in sorted({*tools, *tools.values()} - {*named, *gated, *known.PLURALS}):
        unclear.append(f"tool {name}: its function was not found in the source")
    for name in sorted(gated):
        places = [function for function in functions if name in (function.name, function.tool) and function.why]
        if len(places) > 1:
            said = ", ".join(f"{function.file}:{function.line}" for function in places)
            unclear.append(
                f"{name} is gated, and stands in several places ({said}): look whether each goes through the gate"
            )
    stack = sorted(set().union(*(source.stack for source in sources)))
    remarks = [
        f"{where}: {name} is gated with neither a look-up nor a dedupe key (lookup, dedupes): a crash in the middle of its send ends "
        "AMBIGUOUS, for a person"
        for name, where in weak.items()
    ]
    return Survey(
        len(sources),
        stack,
        sorted(gated),
        findings,
        _configuration(findings),
        sorted(remarks),
        sorted(set(unclear)),
    )


def _configuration(findings: list[Finding]) -> dict[str, Any] | None:
    tools: dict[str, Any] = {}
    for finding in findings:
        if finding.is_tool and not finding.ready_made:
            tools |= json.loads(finding.proposal)["tools"]
    return {"journal": ".interlock", "tools": tools} if tools else None


def _reads(function: Function) -> bool:
    return not function.why and (function.says == "reads" or (function.says != "writes" and known.reads(function.name)))


def _acts(function: Function) -> bool:
    if function.is_gated or (function.says == "reads" and not function.why):
        return False
    if function.why:
        return True
    return function.is_tool and not _reads(function) and (function.says == "writes" or known.changes(function.name))
