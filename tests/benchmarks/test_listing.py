from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.harness.listing import code_lines, cut
from benchmarks.suites.lines import regions
from benchmarks.suites.refund_agent.page import listings


def test_only_code_is_counted() -> None:
    """Blank lines, comments and docstrings are not lines of code; a statement over three lines is three."""
    assert code_lines("# why\nx = 1\n\ny = [\n    2,\n]\n") == 4


def test_a_function_is_cut_out_without_its_docstring(tmp_path: Path) -> None:
    """The report prints what runs: decorators included, the docstring left out, nested functions found."""
    file = tmp_path / "some.py"
    file.write_text(
        'def outer():\n    @mark\n    def inner(a):\n        """Say."""\n        return a\n', encoding="utf-8"
    )
    listing = cut(file, "inner", title="inner")
    assert listing.source == "@mark\ndef inner(a):\n    return a"
    assert listing.lines == 3
    with pytest.raises(LookupError):
        cut(file, "absent", title="absent")


def test_the_hand_check_is_no_longer_than_was_promised() -> None:
    """Each hand check is at most fifteen lines, not counting its signature; a shorter one that holds would be as welcome."""
    signature = 1
    for listing in listings():
        if "hand check" in listing.title:
            assert listing.lines <= 15 + signature, listing.title


def test_a_printed_arm_is_counted_as_a_region_of_an_example_is(tmp_path: Path) -> None:
    """One rule for every count: the docstring of a function inside counts in neither, as the one of the function itself does not."""
    source = 'def arm():\n    """What it does."""\n\n    def refund():\n        """Refund it."""\n        return 1\n\n    return refund\n'
    (tmp_path / "arm.py").write_text(source, encoding="utf-8")
    (region,) = regions("arm.py", f"# region: interlock\n{source}# endregion\n")
    assert cut(tmp_path / "arm.py", "arm", title="x").lines == region.lines == 4
