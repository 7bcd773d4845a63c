from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.harness.document import Cell, Document, Measure, Report, Verdict, Wanted, dump, load
from benchmarks.report import render, write

RESULTS = Path(__file__).parents[2] / "results"


def cell(**changes: object) -> Cell:
    fields: dict[str, object] = {
        "row": "happy_path",
        "arm": "gate",
        "tier": 1,
        "outcome": "COMMITTED",
        "money_minor": 2000,
        "verdict": Verdict.HELD,
        "wanted": Wanted(outcome="COMMITTED", money_minor=2000, verdict=Verdict.HELD),
    }
    return Cell(**{**fields, **changes})  # type: ignore[arg-type]


def document(*cells: Cell, measures: tuple[Measure, ...] = ()) -> Document:
    return Document(
        name="sample",
        meta={"command": "python -m benchmarks sample", "versions": {"python": "3.11"}},
        report=Report(title="A sample"),
        cells=cells,
        measures=measures,
    )


@pytest.mark.parametrize(
    "changes",
    [{"outcome": "FAILED:declined"}, {"money_minor": 4000}, {"verdict": Verdict.VIOLATED}],
    ids=["outcome", "money", "verdict"],
)
def test_one_differing_field_fails_the_cell(changes: dict[str, object]) -> None:
    """A cell that differs from what is wanted in a single field is not as wanted, and neither is its document."""
    assert cell().as_wanted
    assert cell(**changes).as_wanted is False
    assert not document(cell(), cell(**changes)).holds


def test_a_cell_of_which_nothing_is_wanted_is_not_counted() -> None:
    """A cell without a wanted value neither passes nor fails."""
    free = cell(wanted=None, money_minor=4000)
    assert free.as_wanted is None
    assert document(cell(), free).holds
    assert document(cell(), free).checked == 1


def test_a_measure_that_does_not_hold_fails_the_document() -> None:
    """A measure that misses its wanted value fails the document, one without a wanted value does not."""
    missed = Measure(name="ratio", value=1.2, unit="", wanted="at most 1.1", holds=False)
    assert not document(cell(), measures=(missed,)).holds
    assert document(cell(), measures=(Measure(name="seen", value=1, unit="s"),)).holds


def test_a_document_that_checked_nothing_does_not_hold() -> None:
    """A run in which nothing was wanted of anything must not look like a pass."""
    assert not document().holds
    assert not document(cell(wanted=None)).holds


def test_a_result_reads_back_as_it_was_written(tmp_path: Path) -> None:
    """What is written is valid JSON with the same content, and writing it again gives the same bytes."""
    content = document(cell(), cell(money_minor=4000)).to_json()
    write(content, tmp_path / "sample.json")
    text = (tmp_path / "sample.json").read_text(encoding="utf-8")
    assert json.loads(text) == content
    assert dump(load(tmp_path / "sample.json")) == text


def test_a_page_says_what_was_wanted_where_it_differs(tmp_path: Path) -> None:
    """A cell that is not as wanted shows in the page, with what was wanted."""
    content = document(cell(money_minor=4000, verdict=Verdict.VIOLATED)).to_json()
    content["report"]["tables"] = [{"title": "All", "text": "", "where": {}}]
    page = render(content)
    assert "COMMITTED $40 X (WANTED COMMITTED $20 ok)" in page
    assert "1 of 1 checked results differ" in page


@pytest.mark.parametrize(
    "file",
    [file for file in sorted(RESULTS.glob("*.json")) if "format" in json.loads(file.read_text(encoding="utf-8"))],
    ids=lambda file: file.stem,
)
def test_committed_pages_are_rendered_from_their_json(file: Path) -> None:
    """Every page under results/ is, byte for byte, what its JSON renders to: nothing there is typed by hand."""
    assert file.with_suffix(".md").read_bytes() == render(load(file)).encode("utf-8")
    assert dump(load(file)) == file.read_text(encoding="utf-8")


def test_a_committed_result_that_does_not_hold_is_told_in_the_readme() -> None:
    """A result that did not come out as wanted is named, measure by measure, where a reader looks first."""
    readme = (RESULTS.parent / "README.md").read_text(encoding="utf-8")
    for file in RESULTS.glob("*.json"):
        content = json.loads(file.read_text(encoding="utf-8"))
        missed = [measure["name"] for measure in content["measures"] if measure["holds"] is False]
        assert content["holds"] or missed, f"{file.name}: a cell is not as wanted; that is not committed"
        assert all(name in readme for name in missed), (file.name, missed)
