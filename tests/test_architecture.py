"""The dependency direction of the house, read from the source with `ast`: nothing is imported to check it.

    words <- pure rules <- contracts <- storage <- protocol <- gate <- doors <- integrations <- examples, benchmarks

A module may import its own layer and the layers before it. An import counts wherever it stands: at the top, inside a
function, and under `TYPE_CHECKING`. `violations` takes source text by path, so each rule is also shown a planted violation
that it must find.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

# From the bottom up. A name stands for the module and, but for the root package itself, for everything below it.
LAYERS: tuple[tuple[str, frozenset[str]], ...] = (
    ("loading", frozenset({"interlock.importing"})),
    (
        "words",
        frozenset(
            {
                "interlock.errors",
                "interlock.record",
                "interlock.effects",
                "interlock.outcomes",
                "interlock.settlement",
            }
        ),
    ),
    ("rules", frozenset({"interlock.rules"})),
    ("contracts", frozenset({"interlock.ports", "interlock.authority"})),
    ("storage", frozenset({"interlock.journal", "interlock.receipts"})),
    ("protocol", frozenset({"interlock.protocol"})),
    ("gate", frozenset({"interlock.gate", "interlock.watch"})),
    (
        "doors",
        frozenset(
            {
                "interlock",
                "interlock.decorator",
                "interlock.declaration",
                "interlock.function",
                "interlock.binding",
                "interlock.callbacks",
                "interlock.calling",
                "interlock.config",
                "interlock.naming",
                "interlock.tools",
                "interlock.extend",
                "interlock.testing",
                "interlock.approvals",
                "interlock.cli",
                "interlock.console",
            }
        ),
    ),
    ("targets", frozenset({"interlock.targets"})),
    (
        "integrations",
        # Beside the folder, the forwarders: names of a dozen lines under which people import a wrapper.
        frozenset(
            {
                "interlock.integrations",
                "interlock.langchain_tools",
                "interlock.mcp_proxy",
                "interlock.restate",
                "interlock.temporal",
                "interlock.dbos",
            }
        ),
    ),
    ("examples", frozenset({"examples"})),
    ("benchmarks", frozenset({"benchmarks"})),
)
RANK = {name: rank for rank, (name, _) in enumerate(LAYERS)}
CORE = frozenset({"loading", "words", "rules", "contracts", "storage", "protocol", "gate", "doors"})
CORE_DEPENDENCIES = frozenset({"pydantic", "rfc8785"})
CORE_IMPORTS = CORE_DEPENDENCIES | {"pydantic_core"}  # pydantic's own other half; comes with it, at the version it pins

# What a pure module may import from the standard library: nothing that reads a clock, a disk, a network, chance or the process.
PURE_LAYERS = frozenset({"words", "rules"})
# fmt: off
PURE_STDLIB = frozenset({
    "__future__", "abc", "base64", "bisect", "collections", "copy", "dataclasses", "datetime", "decimal", "enum", "fractions",
    "functools", "hashlib", "inspect", "itertools", "json", "math", "numbers", "operator", "re", "reprlib", "string", "struct",
    "textwrap", "types", "typing", "uuid",
})
# fmt: on
IMPURE_CALLS = frozenset({"open", "print", "input", "exec", "eval", "compile", "__import__", "breakpoint"})
IMPURE_METHODS = frozenset({"now", "utcnow", "today", "uuid1", "uuid4"})

# The one way upwards: taken when called, never at load. Each needs a reason, and goes when it is no longer used.
ASKS_UPWARD = {
    ("interlock.outcomes", "interlock.receipts"): "Outcome.receipt() builds the receipt from the history it carries",
}

# A module that nobody imports but who runs it anyway: not even the package that it stands in. Each needs a reason.
RUN_BY = {
    (
        "interlock.testing.integration",
        "pytest",
    ): "IntegrationContract is a class of pytest tests, imported by tests alone"
}

FORBIDDEN_NAMES = frozenset({"util", "utils", "common", "helper", "helpers", "misc"})


@dataclass(frozen=True)
class Import:
    """One imported name: `from module import name`, or `import module` with an empty name."""

    module: str
    name: str
    line: int

    def target(self, known: frozenset[str]) -> str:
        """The module that is depended on: `from package import submodule` depends on the submodule."""
        return deeper if self.name and (deeper := f"{self.module}.{self.name}") in known else self.module


@dataclass(frozen=True)
class Module:
    """A parsed source file."""

    path: str
    name: str
    tree: ast.Module
    is_package: bool

    @classmethod
    def parse(cls, path: str, source: str) -> Module:
        """Read the source of the file at `path`, which is relative to the checkout."""
        parts = list(PurePosixPath(path).with_suffix("").parts)
        if parts[0] == "integrations":
            parts.insert(0, "interlock")
        is_package = parts[-1] == "__init__"
        return cls(path, ".".join(parts[:-1] if is_package else parts), ast.parse(source, path), is_package)

    @property
    def layer(self) -> str | None:
        """The layer that this module belongs to, or None if the table has no place for it."""
        return layer_of(self.name)

    def imports(self, within: ast.AST | None = None) -> Iterator[Import]:
        """Every import in the file, relative ones made absolute."""
        for node in ast.walk(within or self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield Import(alias.name, "", node.lineno)
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    parts = self.name.split(".")
                    package = parts[: len(parts) - node.level + self.is_package]
                    base = ".".join([*package, *([base] if base else [])])
                for alias in node.names:
                    yield Import(base, alias.name, node.lineno)

    def imports_at_load(self) -> Iterator[Import]:
        """The imports that run when the module is loaded: not those inside functions, not those under TYPE_CHECKING."""
        todo: list[ast.stmt] = list(self.tree.body)
        while todo:
            node = todo.pop()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                todo.extend(node.orelse)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                yield from self.imports(node)
            else:
                todo.extend(child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt))
                todo.extend(
                    stmt
                    for handler in ast.iter_child_nodes(node)
                    if isinstance(handler, ast.ExceptHandler | ast.match_case)
                    for stmt in handler.body
                )


def layer_of(module: str) -> str | None:
    """The layer of a dotted name: the longest matching entry of the table; the root package stands for itself only."""
    best: tuple[int, str] | None = None
    for layer, members in LAYERS:
        for member in members:
            below = member != "interlock" and module.startswith(member + ".")
            if (module == member or below) and (best is None or len(member) > best[0]):
                best = (len(member), layer)
    return best[1] if best else None


def public_names(modules: Iterable[Module]) -> frozenset[str] | None:
    """What the root package lists in `__all__`, or None while it lists nothing."""
    for module in modules:
        if module.name != "interlock":
            continue
        for node in module.tree.body:
            targets = (
                node.targets
                if isinstance(node, ast.Assign)
                else [node.target]
                if isinstance(node, ast.AnnAssign)
                else []
            )
            named_all = any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)
            if (
                named_all
                and isinstance(node, ast.Assign | ast.AnnAssign)
                and isinstance(node.value, ast.List | ast.Tuple)
            ):
                return frozenset(str(item.value) for item in node.value.elts if isinstance(item, ast.Constant))
    return None


def violations(sources: Mapping[str, str]) -> list[str]:
    """Every breach of the house rules in the given files, one line each, in the order of the files."""
    modules = [Module.parse(path, source) for path, source in sources.items()]
    known = frozenset(module.name for module in modules)
    public = public_names(modules)
    found: list[str] = []
    for module in modules:
        found += _naming(module)
        found += _direction(module, known)
        if module.layer in PURE_LAYERS:
            found += _purity(module)
        if module.layer in ("integrations", "examples"):
            found += _public_only(module, known, public)
        if module.layer == "benchmarks":
            found += _service_independence(module)
    found += _cycles(modules, known)
    return found


def _naming(module: Module) -> Iterator[str]:
    if module.layer is None:
        yield f"{module.path}: has no place in LAYERS; decide which layer {module.name} belongs to"
    for part in module.name.split("."):
        if part.strip("_") in FORBIDDEN_NAMES:
            yield f"{module.path}: '{part}' says nothing about what it owns; name it after that"


def _direction(module: Module, known: frozenset[str]) -> Iterator[str]:
    if module.layer is None:
        return
    at_load = set(module.imports_at_load())
    for item in module.imports():
        target = item.target(known)
        if (module.name, target) in ASKS_UPWARD and item not in at_load:
            continue
        top = target.split(".")[0]
        where = f"{module.path}:{item.line}: {module.layer} may not import"
        if top == "integrations":
            yield f"{where} {target}; its name is interlock.integrations"
        elif top == "tests":
            yield f"{where} {target}"
        elif top in ("interlock", "benchmarks", "examples"):
            layer = layer_of(target)
            if layer is None:
                yield f"{where} {target}, which has no place in LAYERS"
            elif RANK[layer] > RANK[module.layer] or {layer, module.layer} == {"examples", "benchmarks"}:
                yield f"{where} {target} ({layer})"
        elif (
            module.layer in CORE
            and top not in sys.stdlib_module_names
            and top not in CORE_IMPORTS
            and (module.name, top) not in RUN_BY
        ):
            yield f"{where} {target}; the core depends on {', '.join(sorted(CORE_DEPENDENCIES))} and nothing else"


def _purity(module: Module) -> Iterator[str]:
    where = f"{module.path}:{{}}: {module.layer} are pure and may not"
    for item in module.imports():
        top = item.module.split(".")[0]
        if top in sys.stdlib_module_names and top not in PURE_STDLIB:
            yield f"{where.format(item.line)} import {item.module}"
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS | IMPURE_METHODS:
            yield f"{where.format(node.lineno)} call {node.func.id}()"
        elif isinstance(node.func, ast.Attribute) and node.func.attr in IMPURE_METHODS:
            yield f"{where.format(node.lineno)} call {ast.unparse(node.func)}()"


def _public_only(module: Module, known: frozenset[str], public: frozenset[str] | None) -> Iterator[str]:
    allowed = {"interlock", "interlock.extend"}
    if module.layer == "examples":
        allowed |= {"interlock.testing", "interlock.integrations", "interlock.targets", "interlock.tools"}
    where = f"{module.path}:{{}}: {module.layer} use public names only, not"
    for item in module.imports():
        target = item.target(known)
        own = target.startswith("interlock.integrations") and module.layer == "integrations"
        nested = any(target.startswith(f"{name}.") for name in allowed - {"interlock"}) and "._" not in target
        if target.split(".")[0] != "interlock" or own or (nested and module.layer == "examples"):
            continue
        if target not in allowed or (item.name.startswith("_") and target in allowed):
            yield f"{where.format(item.line)} {target}{'.' + item.name if target == item.module and item.name else ''}"
        elif target == "interlock" and item.name and public is not None and item.name not in public:
            yield f"{where.format(item.line)} interlock.{item.name}, which is not in interlock.__all__"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "interlock":
            name = node.attr
            if f"interlock.{name}" not in allowed and (
                name.startswith("_") or (public is not None and name not in public)
            ):
                yield f"{where.format(node.lineno)} interlock.{name}"


def _service_independence(module: Module) -> Iterator[str]:
    if not module.name.startswith("benchmarks.services"):
        return
    for item in module.imports():
        if item.module.split(".")[0] == "interlock":
            yield f"{module.path}:{item.line}: a service is the ground truth and shares no code with the gate it judges"


def _cycles(modules: Iterable[Module], known: frozenset[str]) -> list[str]:
    graph = {
        module.name: sorted(
            {target for item in module.imports_at_load() if (target := item.target(known)) in known} - {module.name}
        )
        for module in modules
    }
    found: set[tuple[str, ...]] = set()
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        if name in trail:
            ring = trail[trail.index(name) :]
            first = ring.index(min(ring))
            found.add(ring[first:] + ring[:first])
        elif name not in done:
            for target in graph.get(name, ()):
                visit(target, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())
    return [f"import cycle: {' -> '.join((*ring, ring[0]))}" for ring in sorted(found)]


def read_sources(root: Path) -> dict[str, str]:
    """The house's own Python files by path; `interlock/integrations` is a link and is read once, under `integrations/`."""
    paths = sorted(
        path for top in ("interlock", "integrations", "examples", "benchmarks") for path in (root / top).rglob("*.py")
    )
    names = {path.relative_to(root).as_posix(): path for path in paths}
    return {
        name: path.read_text("utf-8") for name, path in names.items() if not name.startswith("interlock/integrations/")
    }


def test_house_keeps_its_dependency_direction(root: Path) -> None:
    """Every module imports only its own layer and those before it, and the pure layers touch nothing outside themselves."""
    sources = read_sources(root)
    assert {"interlock/__init__.py", "interlock/errors.py", "integrations/__init__.py"} <= sources.keys()
    assert violations(sources) == []


def test_exceptions_are_still_needed(root: Path) -> None:
    """Each way upwards that is allowed is one that the source still takes."""
    modules = [Module.parse(path, source) for path, source in read_sources(root).items()]
    known = frozenset(module.name for module in modules)
    taken = {(module.name, item.target(known)) for module in modules for item in module.imports()}
    assert ASKS_UPWARD.keys() <= taken


def test_integrations_link_leads_to_the_folder(root: Path) -> None:
    """`interlock/integrations` is a relative link to `integrations/`, so that type checkers and a checkout see one package."""
    link = root / "interlock" / "integrations"
    assert link.is_symlink()
    assert link.readlink() == Path("../integrations")


def test_core_dependencies_are_those_of_the_package(root: Path) -> None:
    """What the core may import from outside is exactly what a bare `pip install` brings."""
    import tomllib

    declared = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    assert {re.split(r"[^a-z0-9_-]", line)[0] for line in declared} == CORE_DEPENDENCIES


ROOT_WITH_NAMES = "__all__ = ['Interlock']\nfrom interlock.decorator import Interlock\n"
CLEAN = {
    "interlock/__init__.py": ROOT_WITH_NAMES,
    "interlock/errors.py": "import enum\n",
    "interlock/rules/__init__.py": "",
    "interlock/rules/recovery.py": "from datetime import datetime\nfrom interlock.errors import X\nimport rfc8785\n",
    "interlock/ports.py": "import time\nfrom interlock.rules import recovery\n",
    "interlock/journal/__init__.py": "from interlock.journal._sqlite import Y\n",
    "interlock/journal/_sqlite.py": "import sqlite3\nfrom interlock.ports import Z\nfrom .. import errors\n",
    "interlock/gate.py": "from .journal import Y\n",
    "interlock/decorator.py": "from interlock.gate import G\n",
    "interlock/extend/__init__.py": "from interlock.gate import G\n",
    "integrations/__init__.py": "",
    "integrations/adk/__init__.py": "import google.adk\nfrom interlock.extend import A\nfrom ._adapter import B\n",
    "integrations/adk/_adapter.py": "import interlock\nx = interlock.Interlock\n",
    "examples/refund.py": "from interlock import Interlock\nimport interlock.testing\nimport interlock.integrations.adk\n",
    "benchmarks/services/stripe/ledger.py": "import starlette\n",
    "benchmarks/suites/refund.py": "from interlock.journal import Y\nfrom benchmarks.services.stripe import ledger\n",
    "interlock/testing/__init__.py": "",
}


def test_checker_accepts_a_clean_house() -> None:
    """A house that keeps the rules gives no violation, so a finding means something."""
    assert violations(CLEAN) == []


@pytest.mark.parametrize(
    ("path", "line", "expected"),
    [
        ("interlock/rules/planted.py", "from interlock.gate import G", "rules may not import interlock.gate (gate)"),
        (
            "interlock/rules/planted.py",
            "from interlock import errors, gate",
            "rules may not import interlock.gate (gate)",
        ),
        ("interlock/rules/planted.py", "from ..journal import Y", "rules may not import interlock.journal (storage)"),
        ("interlock/rules/planted.py", "from .. import gate", "rules may not import interlock.gate (gate)"),
        ("interlock/rules/planted.py", "import time", "may not import time"),
        ("interlock/rules/planted.py", "import os.path", "may not import os.path"),
        ("interlock/rules/planted.py", "def f():\n    import sqlite3", "may not import sqlite3"),
        ("interlock/rules/planted.py", "from socket import socket", "may not import socket"),
        ("interlock/rules/planted.py", "from random import random", "may not import random"),
        ("interlock/rules/planted.py", "import datetime\nx = datetime.datetime.now()", "datetime.datetime.now()"),
        ("interlock/rules/planted.py", "from datetime import date\nx = date.today()", "date.today()"),
        ("interlock/rules/planted.py", "x = open('f')", "call open()"),
        ("interlock/rules/planted.py", "import uuid\nx = uuid.uuid4()", "call uuid.uuid4()"),
        (
            "interlock/outcomes.py",
            "from interlock.receipts import Receipt",
            "words may not import interlock.receipts (storage)",
        ),
        ("interlock/outcomes.py", "def f():\n    from interlock.receipts import Receipt", None),
        ("interlock/effects.py", "import pathlib", "may not import pathlib"),
        (
            "interlock/errors.py",
            "from interlock.rules import recovery",
            "words may not import interlock.rules.recovery (rules)",
        ),
        (
            "interlock/journal/_planted.py",
            "from interlock.protocol import submit",
            "storage may not import interlock.protocol",
        ),
        (
            "interlock/journal/_planted.py",
            "from interlock import Interlock",
            "storage may not import interlock (doors)",
        ),
        (
            "interlock/gate.py",
            "def f():\n    from interlock.testing import S",
            "gate may not import interlock.testing (doors)",
        ),
        (
            "interlock/ports.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from interlock.gate import G",
            "contracts may not import interlock.gate (gate)",
        ),
        (
            "interlock/decorator.py",
            "from interlock.integrations import adk",
            "doors may not import interlock.integrations",
        ),
        ("interlock/decorator.py", "import stripe", "doors may not import stripe"),
        ("interlock/gate.py", "from benchmarks.services import stripe", "gate may not import benchmarks.services"),
        ("interlock/gate.py", "from tests import conftest", "gate may not import tests"),
        ("interlock/decorator.py", "import integrations.adk", "its name is interlock.integrations"),
        (
            "integrations/adk/planted.py",
            "from interlock.gate import G",
            "integrations use public names only, not interlock.gate.G",
        ),
        (
            "integrations/adk/planted.py",
            "import interlock.journal",
            "integrations use public names only, not interlock.journal",
        ),
        (
            "integrations/adk/planted.py",
            "from interlock import gate",
            "integrations use public names only, not interlock.gate",
        ),
        ("integrations/adk/planted.py", "from interlock import Hidden", "not in interlock.__all__"),
        ("integrations/adk/planted.py", "from interlock.extend import _private", "not interlock.extend._private"),
        (
            "integrations/adk/planted.py",
            "import interlock\nx = interlock.gate",
            "integrations use public names only, not interlock.gate",
        ),
        (
            "examples/planted.py",
            "from interlock.journal import Y",
            "examples use public names only, not interlock.journal.Y",
        ),
        (
            "examples/planted.py",
            "from benchmarks.services import stripe",
            "examples may not import benchmarks.services",
        ),
        ("benchmarks/services/planted.py", "from interlock.errors import X", "shares no code with the gate"),
        ("interlock/surprise.py", "", "has no place in LAYERS"),
        ("interlock/journal/utils.py", "", "'utils' says nothing"),
        ("interlock/journal/_planted.py", "from interlock.journal import Y", None),
    ],
)
def test_checker_finds_what_is_planted(path: str, line: str, expected: str | None) -> None:
    """Each rule finds a violation planted in an otherwise clean house, and says where it stands."""
    found = violations({**CLEAN, path: line + "\n"})
    if expected is None:
        assert found == []
    else:
        assert any(expected in text and text.startswith(path) for text in found), found


def test_checker_finds_a_cycle() -> None:
    """Modules that need each other at load are found; a cycle broken inside a function is not one."""
    one, two = "interlock/journal/_one.py", "interlock/journal/_two.py"
    back = "from interlock.journal import _one\n"
    found = violations({**CLEAN, one: "from interlock.journal._two import Y\n", two: back})
    assert found == ["import cycle: interlock.journal._one -> interlock.journal._two -> interlock.journal._one"]
    lazy = {**CLEAN, one: "from interlock.journal._two import Y\n", two: f"def f():\n    {back}"}
    assert violations(lazy) == []
