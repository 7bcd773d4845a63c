"""Run the wrappers' tests with the oldest releases that the extras declare: `python tests/integrations/floors.py [folder ...]`.

Makes one environment for each section of oldest.txt under .floors, and runs the tests of its folders in it. Not part of `make test`:
it installs packages.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOOLS = [
    "pydantic>=2.7",
    "rfc8785",
    "pytest>=8.3",
    "pytest-asyncio>=1.0",
    "pytest-timeout",
    "pytest-xdist",
    "hypothesis",
]


def sections(text: str) -> dict[tuple[str, ...], list[str]]:
    """The requirements of each section, by the folders of tests that it is for."""
    found: dict[tuple[str, ...], list[str]] = {}
    folders: tuple[str, ...] = ()
    for line in text.splitlines():
        said = line.strip()
        if said.startswith("["):
            folders = tuple(said.strip("[]").split())
            found[folders] = []
        elif said and not said.startswith("#"):
            found[folders].append(said)
    return found


def run(folders: tuple[str, ...], requirements: list[str]) -> bool:
    """Whether the tests of these folders pass in an environment with these requirements."""
    place = ROOT / ".floors" / "-".join(folders)
    python = place / "bin" / "python"
    if not python.exists():
        venv.create(place, with_pip=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *TOOLS, *requirements]
    tests = [HERE / folder for folder in folders]
    # An old release may warn of what has changed since; that is no fault of ours.
    test = [python, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "-o", "filterwarnings=", *tests]
    for command in (install, test):
        print("$", *(str(word) for word in command[1:]), flush=True)
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            return False
    return True


def main(wanted: list[str]) -> int:
    """Run all sections, or those that have one of these folders."""
    failed = []
    for folders, requirements in sections((HERE / "oldest.txt").read_text("utf-8")).items():
        if (not wanted or set(wanted) & set(folders)) and not run(folders, requirements):
            failed.append(" ".join(folders))
    print("failed: " + ", ".join(failed) if failed else "every floor holds")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
