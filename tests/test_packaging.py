"""What is built from a checkout: everything of the library, nothing else, by wheel and by sdist, on a link-less file system too.

The build backend is called directly in a process of its own, on a copy of the checkout, so nothing is downloaded and nothing here changes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

# Python 3.11.0 to 3.11.3 cannot name the extraction filter that later ones ask for; the archive is our own.
TRUSTED = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


def build(checkout: Path, kind: str, into: Path) -> Path:
    """Build a wheel or an sdist with the project's backend and return the file."""
    code = f"import sys; from setuptools import build_meta; print(build_meta.build_{kind}(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(into)], cwd=checkout, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return into / done.stdout.splitlines()[-1]


def library_files(checkout: Path) -> set[str]:
    """Every file of the library, by its path once installed."""
    own = {p.relative_to(checkout).as_posix() for p in (checkout / "interlock").rglob("*") if p.is_file()}
    linked = {
        f"interlock/{p.relative_to(checkout).as_posix()}" for p in (checkout / "integrations").rglob("*") if p.is_file()
    }
    pages = {
        name for name in linked if name.endswith("README.md")
    }  # setuptools takes them along as a wrapper's own page
    return {name for name in own | linked if name.endswith((".py", ".typed"))} | pages


def wheel_files(wheel: Path) -> set[str]:
    """What a wheel installs, its metadata aside."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def checkout(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the build reads, beside packages it must leave out, with one integration in the shape of later ones."""
    copy = tmp_path_factory.mktemp("checkout") / "interlock"
    copy.mkdir()
    leave = shutil.ignore_patterns("__pycache__", "*.egg-info", ".interlock", ".scratch")
    for name in ("interlock", "integrations"):
        shutil.copytree(root / name, copy / name, symlinks=True, ignore=leave)
    for name in ("benchmarks", "tests", "examples"):
        (copy / name).mkdir()
        (copy / name / "__init__.py").write_text("")
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(root / name, copy / name)
    (copy / "integrations" / "planted").mkdir()
    (copy / "integrations" / "planted" / "__init__.py").write_text("")
    return copy


def test_every_folder_of_the_library_is_a_package(root: Path) -> None:
    """A folder with code but without `__init__.py` would be left out of the wheel without a word, so there is none."""
    folders = {path.parent for top in ("interlock", "integrations") for path in (root / top).rglob("*.py")}
    assert [folder.as_posix() for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_wheel_holds_the_library_and_nothing_else(checkout: Path, tmp_path: Path) -> None:
    """A wheel holds every module of `interlock` and, through the mapping, of `integrations`; no tests, no benchmarks."""
    files = wheel_files(build(checkout, "wheel", tmp_path))
    assert "interlock/integrations/planted/__init__.py" in files
    assert files == library_files(checkout)


def test_wheel_from_sdist_is_the_same(checkout: Path, tmp_path: Path) -> None:
    """An sdist keeps no link, and the wheel built from it still holds the integrations."""
    sdist = build(checkout, "sdist", tmp_path)
    shutil.unpack_archive(sdist, tmp_path / "unpacked", **TRUSTED)
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert not (unpacked / "interlock" / "integrations").is_symlink()
    assert wheel_files(build(unpacked, "wheel", tmp_path)) == library_files(checkout)


def test_installed_wheel_imports_without_extras(checkout: Path, tmp_path: Path) -> None:
    """The unpacked wheel imports, integrations too, where none of the optional dependencies can be found."""
    with zipfile.ZipFile(build(checkout, "wheel", tmp_path)) as archive:
        archive.extractall(tmp_path / "site")
    optional = (
        "stripe starlette uvicorn httptools httpx rich hypothesis pytest benchmarks tests anthropic openai langchain langchain_core "
        "langgraph agents google mcp fastmcp pydantic_ai temporalio restate dbos"
    )
    code = f"""
import importlib, pkgutil, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {optional.split()!r}:
            raise ModuleNotFoundError(f"{{name}} is not part of a bare install", name=name)
sys.meta_path.insert(0, Absent())
import interlock, interlock.integrations, interlock.integrations.planted
assert interlock.__file__.startswith({str(tmp_path)!r}), interlock.__file__
assert interlock.integrations.planted.__file__.startswith({str(tmp_path)!r})
for module in pkgutil.walk_packages(interlock.__path__, "interlock.", onerror=lambda name: None):
    # A program is no module to import, and a wrapper's private module stands behind the door that names the extra.
    behind = module.name.startswith("interlock.integrations.") and "._" in module.name
    if not module.name.startswith("interlock.testing") and not module.name.endswith(".__main__") and not behind:
        try:
            importlib.import_module(module.name)
        except interlock.ConfigurationError as missing:  # what needs an extra says which
            assert 'pip install "interlock-gate[' in str(missing), missing
"""
    env = {"PYTHONPATH": str(tmp_path / "site"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_core_install_stays_small(root: Path) -> None:
    """A bare install brings two dependencies; everything else is an extra."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["name"] == "interlock-gate"
    assert project["dependencies"] == ["pydantic>=2.7,<3", "rfc8785>=0.1.4,<1"]
    assert project["requires-python"] == ">=3.11"
