"""`python -m benchmarks lines`: what counts as a line, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.harness.listing import code_lines
from benchmarks.suites import lines

HAND = "# region: hand check\nx = 1\ny = 2\n# endregion\n"
GATE = "# region: interlock\nx = 1\n# endregion\n"


def test_only_code_counts() -> None:
    """Blank lines, comments and docstrings do not count; every physical line of a statement does."""
    source = 'def f():\n    """Says\n    so."""\n\n    # why\n    return (\n        1\n    )  # because'
    assert code_lines(source) == 4
    assert code_lines("return 1") == 1
    assert code_lines('text = """\n# no comment\n"""') == 3


def test_regions_are_outdented_and_numbered() -> None:
    """A region inside a function is read as it stands, without its indent."""
    (region,) = lines.regions("a.py", "def f():\n    # region: interlock\n    return 1\n    # endregion\n")
    assert (region.name, region.source, region.lines) == ("interlock", "return 1", 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HAND, "is alone"),
        (HAND + HAND, "is there twice"),
        (HAND + "# region: interlock\nx = 1\n", "never closed"),
        ("# endregion\n", "no region is open"),
        ("# region: interlock\n# region: hand check\n# endregion\n", "begins inside"),
        ("# region: other\n# endregion\n", "is named"),
    ],
)
def test_wrong_marks_are_refused(tmp_path: Path, text: str, message: str) -> None:
    """A mark that does not pair stops the count, with the file; it never counts less."""
    (tmp_path / "story").mkdir()
    (tmp_path / "story" / "main.py").write_text(text)
    with pytest.raises(lines.WrongMark, match=message):
        lines.pairs(tmp_path)


def test_more_lines_than_by_hand_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command's result does not hold when the gate takes as many lines as the hand check, or more, and no README says why."""
    from benchmarks.__main__ import main

    (tmp_path / "story").mkdir()
    monkeypatch.setattr(lines, "EXAMPLES", tmp_path)
    for gate, code in ((GATE, 0), (GATE.replace("x = 1\n", "x = 1\ny = 2\n"), 1)):
        (tmp_path / "story" / "main.py").write_text(HAND + gate)
        assert main(["lines", "--out", str(tmp_path / "out" / "lines.json")]) == code
    (tmp_path / "story" / "README.md").write_text(f"# A story\n\n{lines.WHY_NOT}\n\nBecause.\n")
    assert main(["lines", "--out", str(tmp_path / "out" / "lines.json")]) == 0


def test_committed_count_is_that_of_the_examples() -> None:
    """`results/lines.json` says what the examples say now."""
    import json

    committed = json.loads((lines.EXAMPLES.parent / "results" / "lines.json").read_text("utf-8"))
    counted = {name: (hand.lines, gate.lines) for name, (hand, gate) in lines.pairs(lines.EXAMPLES).items()}
    measured = {measure["name"]: measure["value"] for measure in committed["measures"]}
    assert measured == {
        f"{name}: {arm}": value
        for name, (hand, gate) in counted.items()
        for arm, value in (("hand check", hand), ("interlock", gate))
    }
