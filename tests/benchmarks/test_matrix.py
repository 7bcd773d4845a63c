"""The matrix: how cells are planned, kept, judged and drawn."""

from __future__ import annotations

import errno
import importlib
import json
import re
import subprocess
import sys
import threading
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as command
from benchmarks.harness.document import Cell, Document, Verdict, Wanted
from benchmarks.harness.stripe_place import StripePlace
from benchmarks.harness.stripe_wire import Door
from benchmarks.harness.suite import CannotRun
from benchmarks.harness.supervisor import Supervisor, Worker
from benchmarks.report import render
from benchmarks.suites.matrix import arms, worker
from benchmarks.suites.matrix.case import ARMS, TOOL, Answer, Job
from benchmarks.suites.matrix.estimate import Estimate
from benchmarks.suites.matrix.framework import Framework, frameworks
from benchmarks.suites.matrix.kept import Kept, alone
from benchmarks.suites.matrix.page import findings, measures, report
from benchmarks.suites.matrix.picture import draw
from benchmarks.suites.matrix.rows import BY_NAME, ROWS
from benchmarks.suites.matrix.stage import Stage
from benchmarks.suites.matrix.suite import SUITE, cell_from, is_whole, judge, planned, readable, rows_of
from interlock import Interlock

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"


def framework(name: str, **more: Any) -> Framework:
    """A framework that is only named."""
    told = dict.fromkeys(("docs", "starts", "approves", "persists", "resumes", "wrapper"), "words")
    return Framework(name=name, title=name.title(), **{**told, **more})


def cell(row: str, arm: str, *, name: str = "one", verdict: Verdict = Verdict.HELD, **more: Any) -> Cell:
    """A cell as a run leaves it."""
    crash = BY_NAME[row].has_crash
    told = {
        "framework": name,
        "repetition": 0,
        "settle_s": 1.0 if crash else None,
        "versions": {},
        "source": "a-b",
        "receipt_verified": True if arm == "interlock" else None,
    }
    money = more.pop("money_minor", BY_NAME[row].wanted_minor)
    return Cell(
        row=row,
        arm=arm,
        outcome="SENT",
        money_minor=money,
        verdict=verdict,
        answer_true=verdict is Verdict.HELD,
        wanted=Wanted(money_minor=BY_NAME[row].wanted_minor, verdict=Verdict.HELD) if arm == "interlock" else None,
        details={**told, **more},
    )


def everything(**changed: Any) -> list[Cell]:
    """One repetition of every row and arm of one framework; `changed` names cells, as `row__arm`, and what is different there."""
    return [cell(row, arm, **changed.get(f"{row}__{arm}", {})) for row in BY_NAME for arm in ARMS]


LOST: Mapping[str, Any] = {"verdict": Verdict.VIOLATED, "money_minor": 4000}
KNOWN = {"one": framework("one")}


def content(cells: list[Cell]) -> dict[str, Any]:
    """The JSON of a result with these cells."""
    document = Document(
        name="matrix",
        meta={"command": "test", "service": "local"},
        report=report(cells, KNOWN, {"other": "not installed"}),
        cells=cells,
        measures=measures(cells, KNOWN),
    )
    told: dict[str, Any] = json.loads(json.dumps(document.to_json()))
    return told


def test_what_is_as_good_is_said_first() -> None:
    """Before anything about the gate stand: whose rows hold as well without it, and where the hand check is faster."""
    slow = {"hand_refund__interlock": {"settle_s": 2.0}, "approval_revoked__interlock": {"settle_s": 2.0}}
    told = list(findings(everything(hand_refund__default=LOST, **slow), KNOWN))
    assert told[0] == "hand_check holds every row that interlock holds in 1 of 1 frameworks: one."
    assert told[1].startswith("hand_check holds in every framework and repetition: lost_reply, hand_refund")
    assert told[2].startswith("default holds in every framework and repetition: lost_reply, approval_revoked")
    assert "hand_check settles faster after the crash where it must not be sent any more" in told[3]
    assert "one (1.00 s, interlock 2.00 s)" in told[3]


def test_an_arm_that_holds_more_than_the_gate_is_named_as_better() -> None:
    """A row that only the hand check holds is not told as a tie."""
    told = list(findings(everything(shared_cap__interlock=LOST), KNOWN))
    assert told[0] == "hand_check holds more than interlock in one."


def test_a_cell_of_ours_that_does_not_hold_fails_the_command() -> None:
    """One violated interlock cell, or one slow median, and the document does not hold; the others' cells decide nothing."""
    assert content(everything(hand_refund__default=LOST, shared_cap__hand_check=LOST))["holds"]
    assert not content(everything(hand_refund__interlock=LOST))["holds"]
    crashes = [row.name for row in ROWS if row.has_crash]
    three = [
        cell(row, arm, settle_s=2.0 if arm == "interlock" else 1.0) for row in crashes for arm in ARMS for _ in range(3)
    ]
    failed = [one.name for one in measures(three, KNOWN) if one.holds is False]
    assert failed == ["one: crash to settled over all rows, interlock to hand_check, ratio of the medians"]


def test_a_row_in_which_the_gate_is_slower_is_judged_with_the_others() -> None:
    """Where the gate waits before it says no, its time counts as it does in `e2e`."""
    slow = ("hand_refund", "approval_revoked", "unrelated_refund")
    cells = [
        cell(row.name, arm, settle_s=1.5 if arm == "interlock" and row.name in slow else 1.0)
        for row in ROWS
        if row.has_crash
        for arm in ARMS
        for _ in range(3)
    ]
    ratios = {one.name.split(", ")[0]: one.holds for one in measures(cells, KNOWN) if one.unit == "ratio"}
    assert ratios == {
        "one: crash to settled over all rows": False,
        "one: crash to settled where the refund stands": None,
        "one: crash to settled where it must not be sent": None,
    }


def test_the_lines_of_the_arms_that_ran_are_told() -> None:
    """The lines of the examples, which are another shop's, do not stand alone: beside them those of what was played and is printed."""
    told = next(one for one in findings(everything(), KNOWN) if one.startswith("Lines of the arms as they ran"))
    printed = {one.title: one.lines for one in report(everything(), KNOWN, {}).listings}
    assert f"hand_check {printed['The hand check']}, and {printed['Its lock']} of its lock" in told
    assert f"{printed['Interlock, where a framework takes a declared effect']} with the ready-made" in told


@pytest.mark.parametrize(
    ("row", "money", "count", "statuses", "true", "verdict"),
    [
        ("lost_reply", 2000, 1, ["COMMITTED"], True, Verdict.HELD),
        ("lost_reply", 4000, 2, ["SENT"], True, Verdict.VIOLATED),
        ("lost_reply", 2000, 1, ["REFUSED:lease"], False, Verdict.VIOLATED),
        ("lost_reply", 2000, 1, ["AMBIGUOUS"], True, Verdict.UNKNOWN),
        ("hand_refund", 2000, 2, ["SENT"], True, Verdict.VIOLATED),
        ("approval_revoked", 0, 0, ["REFUSED:lease"], True, Verdict.HELD),
        ("unrelated_refund", 500, 1, ["STOPPED:refunded_by_others"], True, Verdict.VIOLATED),
        ("resumed_at_once", 2000, 1, ["COMMITTED", "UNCLEAR"], True, Verdict.UNKNOWN),
    ],
)
def test_a_cell_is_judged_by_the_services_list(
    row: str, money: int, count: int, statuses: list[str], true: bool, verdict: Verdict
) -> None:
    """Held is the wanted money in the wanted number of refunds with true answers; who cannot tell is not held."""
    assert judge(BY_NAME[row], money, count, statuses, true) is verdict


def test_arms_take_turns_and_impossible_rows_are_left_out() -> None:
    """In one run the arms of a row follow each other, in another order in each repetition; a row that cannot exist is not planned."""
    one = framework("one", impossible={"shared_cap": "it has one case"})
    plan = list(planned([one], ROWS, ARMS, 2))
    assert len(plan) == 2 * (len(ROWS) - 1) * len(ARMS)
    assert [arm for _, row, arm, repetition in plan if (row, repetition) == ("lost_reply", 0)] == list(ARMS)
    assert not any(row == "shared_cap" for _, row, _, _ in plan)


def test_no_arm_follows_another_more_often() -> None:
    """Over six repetitions each arm is in each place as often, and before each other one as often as after it."""
    plan = list(planned([framework("one")], rows_of(["lost_reply"]), ARMS, 6))
    orders = [[arm for _, _, arm, repetition in plan if repetition == number] for number in range(6)]
    assert all(sum(order[place] == arm for order in orders) == 2 for place in range(3) for arm in ARMS)
    assert all(
        sum(order.index(one) < order.index(other) for order in orders) == 3
        for one in ARMS
        for other in ARMS
        if one != other
    )


def test_one_name_stands_for_both_ways_to_resume_twice() -> None:
    """`--row duplicate_resume` plays it in turn and at the same time."""
    assert [row.name for row in rows_of(["duplicate_resume"])] == ["resumed_in_turn", "resumed_at_once"]
    assert rows_of(None) == list(ROWS)


def test_finished_cells_outlive_a_harness_that_dies(tmp_path: Path) -> None:
    """What was added is there again, the last of two of one place; a half-written line is dropped and its cell is missing."""
    kept = Kept(tmp_path / "cells.jsonl")
    kept.begin({"run": "run-1", "service": "local"})
    first, second = cell("lost_reply", "default"), cell("lost_reply", "default", outcome_note="again")
    kept.add(first.to_json())
    kept.add(second.to_json())
    with kept.file.open("a") as out:
        out.write('{"framework": "one", "row": "hand_re')
    again = Kept(kept.file)
    assert again.head["run"] == "run-1"
    assert [cell_from(one) for one in again.cells] == [second]
    again.add(cell("hand_refund", "default").to_json())
    assert len(Kept(kept.file).cells) == 2


def test_cells_of_another_service_are_refused(tmp_path: Path) -> None:
    """Cells of local and live are never mixed in one report; a file that is none of ours is refused with what to do."""
    kept = Kept(tmp_path / "cells.jsonl")
    kept.begin({"run": "run-1", "service": "local"})
    with pytest.raises(CannotRun, match="of the local service"):
        Kept(kept.file, service="live")
    (tmp_path / "other").write_text("no json\n")
    with pytest.raises(CannotRun, match="--fresh"):
        Kept(tmp_path / "other")
    assert Kept(kept.file, fresh=True, service="live").cells == []
    assert (tmp_path / "cells.before.jsonl").exists()


def test_a_full_disk_is_told_and_costs_the_cell_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be kept ends the run with what to do; the half-written line is dropped by the next one."""
    kept = Kept(tmp_path / "cells.jsonl")
    kept.begin({"run": "run-1", "service": "local"})
    kept.add(cell("lost_reply", "default").to_json())

    def full(_: int) -> None:
        with kept.file.open("r+b") as out:
            out.truncate(kept.file.stat().st_size - 20)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(CannotRun, match=r"No space left on device.*goes on from there"):
            kept.add(cell("hand_refund", "default").to_json())
    assert [one["row"] for one in Kept(kept.file).cells] == ["lost_reply"]


def test_two_runs_do_not_work_on_the_same_cells(tmp_path: Path) -> None:
    """The second one is refused before it reads or plays; what cannot be a file of cells is refused, too."""
    file = tmp_path / "cells.jsonl"
    with alone(file):
        assert command.run(SUITE, ["--framework", "plain", "--cells", str(file)]) == command.CANNOT_RUN
        with pytest.raises(CannotRun, match="another run is at work"), alone(file):
            pass
    with alone(file):
        pass
    assert command.run(SUITE, ["--framework", "plain", "--cells", str(tmp_path)]) == command.CANNOT_RUN


@pytest.mark.parametrize("wrong", ["0", "-1", "some", "1.5"])
def test_a_number_of_repetitions_is_one_at_least(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    """None is not taken for the default, and less than none not for nothing to do."""
    with pytest.raises(SystemExit):
        command.run(SUITE, ["--reps", wrong])
    assert "not a whole number from 1 on" in capsys.readouterr().err


def test_a_part_is_not_whole() -> None:
    """Only five repetitions of every row and arm of every framework that can be run replace what is committed."""
    whole = [cell(row, arm, repetition=number) for row in BY_NAME for arm in ARMS for number in range(5)]
    assert is_whole(whole, KNOWN, {})
    assert not is_whole(whole[:-1], KNOWN, {})
    assert not is_whole(whole, {**KNOWN, "two": framework("two")}, {})
    assert is_whole(whole, {**KNOWN, "two": framework("two")}, {"two": "not installed"})


def test_the_estimate_goes_by_what_cells_of_the_same_framework_took() -> None:
    """What is left is told by framework, and before anything was played by a guess."""
    estimate = Estimate(["one", "one", "two"])
    assert estimate.left_s(0) == 15.0
    estimate._took = {"one": [1.0], "two": [61.0]}
    assert estimate.left_s(1) == 62.0
    assert estimate.left(1) == "about 1 min 2 s left"


def test_every_framework_says_what_the_report_prints() -> None:
    """Facts can be read where a framework is not installed; each names its page and its wrapper, and knows only real rows."""
    for one in frameworks().values():
        assert all((one.title, one.starts, one.approves, one.persists, one.resumes, one.wrapper)), one.name
        assert "https://" in one.docs or "`" in one.docs, f"{one.name}: a page, or the module whose docstring says it"
        assert set(one.impossible) <= set(BY_NAME), one.name
        assert not one.example or (ROOT / "examples" / one.example).is_dir(), one.name


def test_the_one_to_copy_is_a_framework() -> None:
    """The smallest framework of the README declares its facts without its SDK, and has the three moments and the tool in every arm."""
    page = (ROOT / "benchmarks" / "frameworks" / "README.md").read_text(encoding="utf-8")
    source = page.partition("```python\n")[2].partition("```")[0]
    named: dict[str, Any] = {}
    exec(compile(source, "README.md", "exec"), named)
    assert isinstance(named["FRAMEWORK"], Framework)
    assert all(callable(named[moment]) for moment in ("start", "approve", "resume"))
    for name in re.findall(r"`arms\.(\w+)\(", page) + re.findall(r"arms\.(\w+)", source):
        assert hasattr(arms, name), name
    for name in re.findall(r"`job\.(\w+)", page) + re.findall(r"job\.(\w+)", source):
        assert hasattr(Job, name) or name in Job.model_fields, name


def test_the_committed_picture_is_drawn_from_the_committed_result() -> None:
    """`results/matrix.svg` is, byte for byte, what the JSON beside it gives."""
    file = ROOT / "results" / "matrix.json"
    if not file.exists():
        pytest.skip("no whole run is committed yet")
    told = json.loads(file.read_text(encoding="utf-8"))
    assert file.with_suffix(".svg").read_text(encoding="utf-8") == draw(told)


def test_a_missing_package_is_a_reason() -> None:
    """A framework that is not installed says what to install, and asking for it alone is refused with that."""
    missing = framework("one", packages=("no-such-distribution",), extra="one")
    assert missing.why_not == 'not installed: no-such-distribution (pip install "interlock-gate[one]")'
    assert command.run(SUITE, ["--framework", "open_multi_agent"]) == command.CANNOT_RUN


@pytest.mark.parametrize(
    ("told", "status", "refund"),
    [
        ('{"status":"SENT","refund":"re_1"}', "SENT", "re_1"),
        ({"status": "STOPPED:approval"}, "STOPPED:approval", None),
        (Answer(status="FOUND", refund="re_1"), "FOUND", "re_1"),
        ("the tool failed", "UNCLEAR", None),
        ("", "UNCLEAR", None),
    ],
)
def test_an_answer_is_what_the_run_was_told(tmp_path: Path, told: Any, status: str, refund: str | None) -> None:
    """The tool's answer is read as the framework holds it; what is none of the arm's forms claims nothing."""
    answer = arms.answer_of(job(tmp_path, "hand_check"), told)
    assert (answer.status, answer.refund) == (status, refund)


@pytest.mark.parametrize("moment", ["start", "approve", "resume"])
def test_what_a_framework_raises_is_its_answer(tmp_path: Path, moment: str) -> None:
    """An exception is told as one, with its text and after the end of the run was said once; it neither ends the worker nor hides."""
    said: list[Answer] = []
    broken = job(tmp_path, "default").model_copy(update={"framework": "no_such_framework", "moment": moment})
    answer = worker.serve(broken, said.append)
    assert answer.status in ("ERROR:ModuleNotFoundError", "ERROR:APIConnectionError")
    assert answer.text
    assert [one.status for one in said] == ([] if moment == "start" else [worker.TOLD])


@pytest.mark.parametrize("name", [one.name for one in frameworks().values() if not one.skip])
def test_a_wrapper_is_named_as_it_is_imported(name: str) -> None:
    """A worker that is loaded for a race has the wrapper's module; loading takes its name from the facts."""
    module, _, wrapper = frameworks()[name].wrapper.rpartition(".")
    if frameworks()[name].why_not:
        pytest.skip(frameworks()[name].why_not)
    assert hasattr(importlib.import_module(module), wrapper)


def test_a_worker_loads_what_another_one_has(tmp_path: Path) -> None:
    """Every name that can be imported is; one that cannot, and the worker's own main module, are passed over. It tells what it has then."""
    with Supervisor() as supervisor:
        told: list[list[str]] = []
        for _ in range(2):
            one = supervisor.start(worker.MODULE)
            asked = [*(told[0] if told else ["wave", "no.such.module"]), "__main__"]
            one.send(job(tmp_path, "default").model_copy(update={"modules": asked}).model_dump(mode="json"))
            told.append(Answer.model_validate(one.receive()).details["modules"])
    first, second = told
    assert "wave" in first
    assert "no.such.module" not in first
    assert set(first) <= set(second)


def test_who_is_resumed_at_once_begins_loaded_and_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two new workers get the modules of the one that ran `start` before either is asked for more; both tools begin, and that is noted."""
    sent: dict[int, list[dict[str, Any]]] = {}
    send = Worker.send

    def noted(one: Worker, message: Mapping[str, Any]) -> None:
        sent.setdefault(one.pid, []).append(dict(message))
        send(one, message)

    monkeypatch.setattr(Worker, "send", noted)
    at = {"directory": tmp_path / "cell", "framework": "plain", "arm": "default", "cell": "cell-1", "cases": ["case-1"]}
    with StripePlace(directory=tmp_path / "ledger") as place, Stage(place=place, **at) as stage:  # type: ignore[arg-type]
        stage.approve_at_once(("case-1", "case-1"))
    first, *racing = sent.values()
    assert [one["moment"] for one in first] == ["start", "load"]
    assert [[one["moment"] for one in each] for each in racing] == [["load", "approve"]] * 2
    assert all("benchmarks.frameworks.plain" in each[0]["modules"] for each in racing)
    assert [answer.status for _, answer in stage.answers] == ["SENT", "SENT"]
    assert set(stage.apart_ms) == {"approve", "tool"}


def test_two_that_save_at_once_do_not_hinder_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process saves the same name while this one is between writing and renaming: neither fails, the last one is kept."""
    one = job(tmp_path, "default")
    program = "import sys; from benchmarks.suites.matrix.case import Job; Job.model_validate_json(sys.argv[1]).save('run', 'other')"
    replace = Path.replace

    def meanwhile(file: Path, target: Path) -> Path:
        subprocess.run([sys.executable, "-c", program, one.model_dump_json()], cwd=ROOT, check=True)
        assert one.saved("run") == "other"
        return replace(file, target)

    monkeypatch.setattr(Path, "replace", meanwhile)
    one.save("run", "own")
    assert one.saved("run") == "own"


def test_who_loses_adks_session_is_told_what_the_other_run_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the tool runs, the same confirmation is delivered again and run to its end: ADK refuses the first run's result as stale."""
    adk = pytest.importorskip("google.adk") and importlib.import_module("benchmarks.frameworks.adk")
    one = job(tmp_path, "default").model_copy(update={"framework": "adk"})
    begun: list[str] = []

    def act(_: Job, reference: str = "") -> str:
        begun.append(reference)
        if len(begun) == 2:
            return Answer(status="SENT", refund="re_2").model_dump_json()
        other = threading.Thread(target=adk.approve, args=(one,))
        other.start()
        other.join(30)
        return Answer(status="SENT", refund="re_1").model_dump_json()

    monkeypatch.setattr(arms, "act", act)
    adk.start(one)
    assert arms.answer_of(one, adk.approve(one)).refund == "re_2"
    assert len(begun) == 2


def test_two_cases_that_start_at_restate_at_once_do_not_get_each_others_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another case registers its worker between this one's registration and its call: the call still comes to this one's handler."""
    restate = importlib.import_module("benchmarks.frameworks.restate")
    if restate.FRAMEWORK.why_not:
        pytest.skip(restate.FRAMEWORK.why_not)
    register = restate.RestateDoors.register
    with restate.open_beside(tmp_path / "server") as beside:
        one, other = (
            job(tmp_path / name, "default").model_copy(
                update={"framework": "restate", "case": f"case-{name}", "beside": beside}
            )
            for name in ("one", "other")
        )
        for each in (one, other):
            each.directory.mkdir()
        begun: list[threading.Thread] = []

        def registered(doors: Any, url: str) -> None:
            register(doors, url)
            if not begun:
                begun.append(threading.Thread(target=restate.start, args=(other,), daemon=True))
                begun[0].start()
                begun[0].join(10)

        monkeypatch.setattr(restate.RestateDoors, "register", registered)
        first = threading.Thread(target=restate.start, args=(one,), daemon=True)
        first.start()
        first.join(10)
        assert one.saved("awakeable") != other.saved("awakeable")


def test_the_page_says_how_far_apart_tools_began_or_that_one_never_did() -> None:
    """A reader sees of every framework whether two that were resumed at once raced; cells of before that was measured say nothing."""
    name = "one, default: resumed at once, apart when the tools began, median"
    both, single = {"approve": 0.1, "tool": 3.0}, {"approve": 0.1}
    apart = enumerate((both, both, single))
    cells = [cell("resumed_at_once", "default", repetition=at, apart_ms=each) for at, each in apart]
    (found,) = [one for one in measures(cells, KNOWN) if one.name == name]
    assert (found.value, found.unit, found.details["count"]) == (3.0, "ms", 2)
    assert any("keeps the second one out" in one and "one (1 of 3)" in one for one in findings(cells, KNOWN))
    before = everything()
    assert name not in [one.name for one in measures(before, KNOWN)]
    assert not any("keeps the second one out" in one for one in findings(before, KNOWN))


def test_a_word_that_nobody_knows_claims_nothing() -> None:
    """A framework's own status neither ends the run nor passes for a claim; it stands in the text."""
    odd = readable(Answer(status="finished", text="ok"))
    assert (odd.status, odd.text) == ("UNCLEAR", "finished: ok")
    assert readable(Answer(status="REFUSED:lease")).status == "REFUSED:lease"


def test_a_gated_answer_that_is_not_there_claims_nothing(tmp_path: Path) -> None:
    """Where the journal knows nothing and the run was told nothing, nobody is said to know: it is not taken for a refusal."""
    assert arms.answer_of(job(tmp_path, "interlock"), "").status == "UNCLEAR"


@pytest.mark.parametrize(
    ("told", "status"),
    [
        ("", "UNCLEAR"),
        ("Done.", "UNCLEAR"),
        ("Refused: it is not permitted. Calling again will not help until a person allows it.", "REFUSED:lease"),
        ({"error": "the tool failed"}, "UNCLEAR"),
    ],
)
def test_a_refusal_counts_only_if_the_run_was_told_of_it(tmp_path: Path, told: Any, status: str) -> None:
    """What the journal knows is no answer: a wrapper that swallows the refusal, or tells another sentence, claims nothing."""
    one = job(tmp_path, "interlock")
    with Interlock(one.journal) as gate:
        refund = gate.effect(key=lambda order: f"refund:{order}", allowed=lambda: False, name=TOOL)(lambda order: None)
        assert str(refund(one.case)) == "REFUSED:lease"
    assert arms.answer_of(one, told).status == status


def job(directory: Path, arm: str) -> Job:
    """A job as a worker gets it."""
    return Job.model_validate(
        {
            "framework": "plain",
            "arm": arm,
            "door": Door(url="http://127.0.0.1:9"),
            "directory": directory,
            "shared": directory,
            "case": "case-1",
            "payment": "pi_1",
        }
    )


def test_the_picture_shows_every_cell_in_both_schemes() -> None:
    """The SVG is well-formed, has a line for each arm and a box for each row, says by a sign what its colour says, and knows dark pages."""
    drawn = draw(content(everything(hand_refund__default=LOST)))
    root = ET.fromstring(drawn)
    boxes = [one.get("class") for one in root.iter(f"{SVG}rect")]
    texts = ["".join(one.itertext()) for one in root.iter(f"{SVG}text")]
    assert boxes.count("violated") == 1
    assert boxes.count("held") == len(ROWS) * len(ARMS) - 1
    assert texts.count("✗ $40") == 1
    assert "✓ $25" in texts
    assert "prefers-color-scheme:dark" in drawn
    assert {"default", "hand check", "interlock", "One"} <= set(texts)


def test_the_picture_shows_how_often_it_did_not_hold() -> None:
    """Repetitions that differ are not averaged away: from least to most, and in how many it was not held."""
    cells = [*everything(), cell("lost_reply", "default", verdict=Verdict.VIOLATED, money_minor=4000, repetition=1)]
    assert "✗ $20-$40 1/2" in draw(content(cells))


def test_the_page_prints_the_hand_check_and_the_picture() -> None:
    """The page is drawn from the JSON alone: findings, a table for each framework with its set-up, the code that is compared."""
    page = render(content(everything()))
    assert "![The matrix" in page
    assert "## One" in page
    assert "Set-up after: words" in page
    assert re.search(r"## The hand check \(\d+ lines\)", page)
    assert "STOPPED:refunded_by_others" in page
    assert "Not run: other: not installed." in page
