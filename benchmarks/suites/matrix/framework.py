"""What a framework says of itself, and where its file is found.

A framework is a module `benchmarks/frameworks/NAME.py` with `FRAMEWORK`, and three functions that a worker calls:

    start(job)     take the case up; the model asks for the refund; stop where a person must approve it; nothing is returned
    approve(job)   deliver the approval to what was saved there, run on, and return what the run was told of the refund
    resume(job)    go on after the worker died, as the framework's documentation says; returns the same

and `open_beside(directory)` if it needs a server: a context manager that gives what workers must know of it (`job.beside`).
The module imports its framework inside of these functions, so that its facts can be read where it is not installed.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import benchmarks.frameworks
from benchmarks.suites.matrix.case import Job


@dataclass(frozen=True, kw_only=True)
class Framework:
    """The facts.

    Attributes:
        name: of its module, and of `--framework`.
        title: as the report heads it.
        packages: distributions that it needs, for the versions and for "is it installed".
        extra: of `pip install "interlock-gate[EXTRA]"`; empty if the gate's wrapper needs none.
        docs: the page of its documentation that the durable set-up follows.
        starts: how a case is started, in a few words.
        approves: how a person's approval reaches the run.
        persists: what it keeps over a death.
        resumes: how it goes on after one.
        default: what key the default arm sends, and by which advice.
        wrapper: the name of the gate's wrapper that is used, as a user imports it.
        impossible: rows that cannot exist in it, with the reason for each.
        skip: why it cannot be run here at all; empty if it can.
        example: the folder under `examples/` whose marked regions count the user's lines; empty if there is none.
        order: place in the report.
    """

    name: str
    title: str
    packages: Sequence[str] = ()
    extra: str = ""
    docs: str
    starts: str
    approves: str
    persists: str
    resumes: str
    default: str = "the business key of the approved request"
    wrapper: str
    impossible: Mapping[str, str] = field(default_factory=dict)
    skip: str = ""
    example: str = ""
    order: int = 50

    @property
    def versions(self) -> dict[str, str]:
        """Of its packages, those that are installed."""
        found = {}
        for package in self.packages:
            try:
                found[package] = metadata.version(package)
            except metadata.PackageNotFoundError:
                continue
        return found

    @property
    def why_not(self) -> str:
        """Why it is skipped; empty if it can be run."""
        if self.skip:
            return self.skip
        missing = [package for package in self.packages if package not in self.versions]
        if not missing:
            return ""
        how = f'pip install "interlock-gate[{self.extra}]"' if self.extra else f"pip install {' '.join(missing)}"
        return f"not installed: {', '.join(missing)} ({how})"


def module_of(name: str) -> ModuleType:
    """A framework's module."""
    return importlib.import_module(f"benchmarks.frameworks.{name}")


def frameworks() -> dict[str, Framework]:
    """All of them by name, in the order of the report."""
    folder = Path(benchmarks.frameworks.__path__[0])
    names = [one.name for one in pkgutil.iter_modules([str(folder)]) if not one.name.startswith("_")]
    found = [cast("Framework", module_of(name).FRAMEWORK) for name in names]
    wrong = [one.name for one, name in zip(found, names, strict=True) if one.name != name]
    if wrong:
        raise ValueError(f"benchmarks/frameworks: FRAMEWORK.name is not the module's name in {', '.join(wrong)}")
    return {one.name: one for one in sorted(found, key=lambda one: (one.order, one.name))}


def open_beside(name: str, directory: Path) -> AbstractContextManager[Mapping[str, str]]:
    """What a framework needs beside its workers, for as long as it is played."""
    opened: Callable[[Path], AbstractContextManager[Mapping[str, str]]] | None = getattr(
        module_of(name), "open_beside", None
    )
    return nullcontext({}) if opened is None else opened(directory)


def call(job: Job) -> Any:
    """Do what the job's moment asks for."""
    return getattr(module_of(job.framework), job.moment)(job)
