"""The public door as a type checker sees it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def problems(*arguments: str) -> list[str]:
    """What pyright finds: one line for each problem."""
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100)
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] > 0, done.stderr
    return [
        f"{Path(found['file']).name}:{found['range']['start']['line'] + 1}: {found['message']}"
        for found in report["generalDiagnostics"]
    ]


def test_public_api_is_typed() -> None:
    """The sample of the public door has no error in strict mode, and each planted misuse in it is one."""
    assert problems() == []


def test_checker_finds_a_wrong_type(tmp_path: Path) -> None:
    """Pyright reports a wrong type here, so a clean report says something; and it reads the library's own types."""
    page = tmp_path / "wrong.py"
    page.write_text("from interlock import Interlock\nwrong: int = Interlock('.interlock')\n")
    found = problems(str(page))
    assert len(found) == 1
    assert found[0].startswith("wrong.py:2:")
    assert '"Interlock" is not assignable to "int"' in found[0]
