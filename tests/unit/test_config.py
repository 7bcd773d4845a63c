"""The configuration: what is taken, what is refused at the door and how that is told, and the published schema."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from interlock import ConfigurationError
from interlock.config import json_schema, load
from interlock.extend import Effect
from interlock.tools import protect

REFUND: dict[str, Any] = {
    "tools": {
        "create_refund": {
            "key": ["order_id"],
            "premises": {"tool": "get_order", "arguments": {"order_id": "order_id"}, "fields": ["refunded_total"]},
            "lookup": {"tool": "find_refund", "arguments": {"reference": "$effect_id"}, "found": "found"},
            "idempotency_argument": "reference",
            "dedupes": False,
        }
    }
}
TOML = """
journal = "here"

[tools.create_refund]
key = ["order_id"]
idempotency_argument = "reference"
dedupes = true
window = "24h"

[tools.create_refund.premises]
tool = "get_order"
arguments = { order_id = "order_id" }
fields = { total = "refund.total" }

[tools.create_refund.expect]
total = { at_most = 100 }
"""


def changed(*path: str, **options: Any) -> dict[str, Any]:
    """The refund's configuration with some options set at a place below the tool."""
    config = copy.deepcopy(REFUND)
    place: Any = config["tools"]["create_refund"]
    for step in path:
        place = place[step]
    place.update(options)
    return config


def test_dict_json_and_toml_are_the_same(tmp_path: Path) -> None:
    """One configuration means the same as a dict, as JSON and as TOML, and times may be written with units."""
    toml = tmp_path / "gate.toml"
    toml.write_text(TOML)
    loaded = load(toml)
    written = tmp_path / "gate.json"
    written.write_text(loaded.model_dump_json(exclude_unset=True))
    assert load(written) == loaded == load(str(toml)) == load(loaded)
    tool = loaded.tools["create_refund"]
    assert tool.window == 86400
    assert tool.premises[0].fields == {"total": "refund.total"}
    assert loaded.journal == str(tmp_path / "here")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"tool": {}, **REFUND}, "tool is no option; did you mean 'tools'?"),
        (changed(premise={}), "tools.create_refund.premise is no option; did you mean 'premises'?"),
        (changed("premises", field=1), "tools.create_refund.premises.field is no option; did you mean 'fields'?"),
        (changed("lookup", finds="x"), "lookup.finds is no option; did you mean 'found'?"),
        (
            changed(expect={"refunded_total": {"at_lest": 5}}),
            "expect.refunded_total.at_lest is no option; did you mean 'at_least'?",
        ),
        (changed(expect={"premises": {"equls": 5}}), "expect.premises.equls is no option; did you mean 'equals'?"),
        (changed(expect={"refunded_total": {"at_least": 5, "at_most": 7}}), "give one condition"),
        (changed(expect={"x": {"tolerates": {"why": "grows"}}}), "says no change that is harmless"),
        (changed(allowed={"tool": "get_order", "fields": "ok"}), "allowed.fields is no option; did you mean 'field'?"),
        (
            changed(budget={"key": "refunds", "limit": 5, "ammount": 1}),
            "tools.create_refund.budget.ammount is no option; did you mean 'amount'?",
        ),
        (changed("premises", arguments={"a": "$effectid"}), "the one name with a $ is $effect_id"),
        (
            changed("premises", arguments={"a": {"literl": 1}}),
            "arguments.a.literl is no option; did you mean 'literal'?",
        ),
        (changed("premises", fields=["refund..total"]), "'refund..total' is no path"),
        (changed("premises", fields=[]), "fields: it is empty; name at least one"),
        (changed(key=[]), "key: it is empty; name at least one"),
        (changed(window="a week"), "is no time"),
        (changed(dedupes="yes"), "dedupes: give true or false, not 'yes'"),
        (changed(dedupes=1), "dedupes: give true or false, not 1"),
        (changed(idempotency_argument=5), "idempotency_argument: give a text, not 5"),
        (changed(lookup="find_refund"), "lookup: give an object, not 'find_refund'"),
        (changed(timeout=[3]), "timeout: give a number, not [3]"),
        (changed(binds=5), "binds: give a list, not 5"),
        (changed(budget={"key": 5, "limit": 1, "amount": 1}), "tools.create_refund.budget.key: give a text, not 5"),
        (changed(budget=[{"key": "k", "limit": "10", "amount": 1}]), "budget.0.limit: give a whole number, not '10'"),
        (changed(budget={"key": "k", "limit": True, "amount": 1}), "budget.limit: give a whole number, not True"),
        (changed(budget={"key": "k", "limit": 1, "amount": 1.5}), "budget.amount: give a whole number, not 1.5"),
        (changed(budget={"key": "k", "limit": {"argumnt": "x"}, "amount": 1}), "did you mean 'argument'?"),
        (changed(timeout=-1), "timeout: give a number of at least 0, not -1"),
        (changed(timeout=0), "timeout: give a number above 0, not 0"),
        (changed(timeout=True), "timeout: give a number, not True"),
        (changed(expect={"x": {"at_most": "100"}}), "expect.x.at_most: give a number, not '100'"),
        (changed(expect={"x": {"at_most": True}}), "expect.x.at_most: give a whole number, not True"),
        (changed(expect={"x": {"unchanged": False}}), "expect.x.unchanged: give true, not False"),
        (changed(expect={"x": {"matches": 1}}), "expect.x.matches is there in Python only: give the tool as an Effect"),
        (changed(rejected_on=1), "rejected_on is there in Python only"),
        (
            changed(expect={"x": {"equals": {"litral": 0}}}),
            "expect.x.equals: 'litral' is none of ours; did you mean 'literal'?",
        ),
        (changed(lookup={"tool": "find", "found": "x"}), 'lookup: it does not ask for "$effect_id"'),
        (
            changed("lookup", arguments={"reference": {"literal": "$effect_id"}}),
            'for the idempotency key write "$effect_id" itself',
        ),
        (changed("lookup", counts_as_ours=True), 'leave out "counts_as_ours"'),
        ({**REFUND, "journal": "sqlite:///a.db"}, "journal: 'sqlite:///a.db' is no path of a directory"),
        ({**REFUND, "journal": "~/shop"}, "journal: nothing is filled in here, so '~/shop' would be a directory"),
        ({**REFUND, "journal": "$HOME/shop"}, "so '$HOME/shop' would be a directory"),
        ({**REFUND, "journal": "/srv/${SHOP}"}, "write out the path"),
        ({**REFUND, "journal": "a\0b"}, "journal: 'a\\x00b' holds a character that no name can have"),
        ({**REFUND, "journal": "\ud800"}, "holds a character that no name can have"),
        (changed(name="\ud800"), "create_refund.name: '\\ud800' holds a character that no name can have"),
        (changed(**{"\ud800": 1}), "holds a character that no text can have"),
        ({}, "tools is missing"),
        ([], "it holds list"),
    ],
)
def test_mistakes_are_refused_with_their_place(config: Any, expected: str, tmp_path: Path) -> None:
    """A mistake in the configuration is refused at the door, with its place and what was probably meant, also from a file."""
    file = tmp_path / "gate.json"
    file.write_text(json.dumps(config))
    with pytest.raises(ConfigurationError) as raised:
        load(file)
    assert expected in str(raised.value)
    assert str(file) in str(raised.value)


def test_file_that_cannot_be_read_is_told_with_its_place(tmp_path: Path) -> None:
    """A missing, unreadable, malformed or doubly said file is refused, and the place of the mistake is told."""
    file = tmp_path / "gate.json"
    with pytest.raises(ConfigurationError, match="no such file"):
        load(file)
    file.write_text('{"tools": {\n  "a" 1}}')
    with pytest.raises(ConfigurationError, match=r"gate\.json:2:7: malformed JSON"):
        load(file)
    file.write_text('{"tools": {"a": {"key": ["x"]}, "a": {"key": ["y"]}}}')
    with pytest.raises(ConfigurationError, match="'a' stands twice"):
        load(file)
    file.write_bytes(b"\xff{}")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        load(file)
    toml = tmp_path / "gate.toml"
    toml.write_text("tools = [\n}")
    with pytest.raises(ConfigurationError, match=r"malformed TOML.*line 2"):
        load(toml)
    with pytest.raises(ConfigurationError, match=r"\.json or \.toml"):
        load(tmp_path / "gate.yaml")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load(_directory(tmp_path / "folder.json"))
    if os.geteuid() != 0:
        file.chmod(0)
        with pytest.raises(ConfigurationError, match="cannot be read"):
            load(file)


def test_published_schema_is_the_schema(root: Path) -> None:
    """`docs/config.schema.json` is what the model says; `python -m interlock.config` writes it anew."""
    published = (root / "docs" / "config.schema.json").read_text("utf-8")
    assert published == json.dumps(json_schema(), indent=2) + "\n"


def _directory(path: Path) -> Path:
    path.mkdir()
    return path


def test_a_single_argument_is_a_key_as_it_stands() -> None:
    """`"key": "order_id"` is the list of that one argument; it is no pattern, which the door of every wrapper then refuses."""
    tools: dict[str, Any] = {
        "create_refund": lambda order_id, reference: None,
        "get_order": lambda order_id: None,
        "find_refund": lambda reference: None,
    }
    assert load(changed(key="order_id")) == load(changed(key=["order_id"]))
    with pytest.raises(
        ConfigurationError, match=r"key names 'refund:\{order_id\}', which 'create_refund' does not take"
    ):
        protect(tools, changed(key="refund:{order_id}"))


# --- where the journal is --------------------------------------------------------------------------------------------------


def create_refund(order_id: str, reference: str = "") -> dict[str, Any]:
    return {"id": order_id}


def find_refund(reference: str) -> dict[str, Any]:
    return {"refund": None}


def a_file(directory: Path, journal: str = "", ending: str = "json") -> Path:
    """A configuration in a file of its own directory."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"gate.{ending}"
    config = {**({"journal": journal} if journal else {}), "tools": {"create_refund": {"key": ["order_id"]}}}
    said = f'journal = "{journal}"\n' if journal else ""
    file.write_text(
        json.dumps(config) if ending == "json" else f'{said}[tools.create_refund]\nkey = ["order_id"]\n', "utf-8"
    )
    return file


@pytest.mark.parametrize("ending", ["json", "toml"])
@pytest.mark.parametrize("journal", ["", "kept/here", "../here"])
def test_one_file_is_one_journal_from_wherever_it_is_started(
    ending: str, journal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative journal in a file starts at the file's directory, so that one order is done once from two working directories."""
    file = a_file(tmp_path / "etc", journal, ending)
    statuses = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        with protect([create_refund], os.path.relpath(file)) as tools:
            assert tools.gate.place == os.path.normpath(tmp_path / "etc" / (journal or ".interlock"))
            statuses.append(tools["create_refund"]("881")["status"])
        assert os.listdir() == []
    assert statuses == ["COMMITTED", "DUPLICATE_IGNORED"]


def test_a_dict_keeps_the_working_directory_and_a_journal_of_ones_own_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dict has no directory of its own; what is handed over beside a file is what counts; an absolute path stays as it is."""
    monkeypatch.chdir(tmp_path)
    with protect([create_refund], {"journal": "mine", **gating_refunds()}) as tools:
        assert tools.gate.place == str(tmp_path / "mine")
    with protect([create_refund], a_file(tmp_path / "etc"), journal="other") as tools:
        assert tools.gate.place == str(tmp_path / "other")
    with protect([create_refund], a_file(tmp_path / "etc", str(tmp_path / "absolute"))) as tools:
        assert tools.gate.place == str(tmp_path / "absolute")
    assert sorted(os.listdir()) == ["absolute", "etc", "mine", "other"]


def gating_refunds() -> dict[str, Any]:
    return {"tools": {"create_refund": {"key": ["order_id"]}}}


def test_a_journal_at_the_old_place_is_not_left_behind_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A journal in the working directory, where an earlier version kept it, and none beside the file: refused, with what to do."""
    file = a_file(tmp_path / "etc")
    (tmp_path / "started").mkdir()
    monkeypatch.chdir(tmp_path / "started")
    with protect([create_refund], {**gating_refunds(), "journal": ".interlock"}) as tools:
        assert tools["create_refund"]("881")["status"] == "COMMITTED"
    with pytest.raises(ConfigurationError, match="nothing is started") as raised:
        protect([create_refund], file)
    new, old = tmp_path / "etc" / ".interlock", tmp_path / "started" / ".interlock"
    assert str(new) in str(raised.value)
    assert str(old) in str(raised.value)
    assert not new.exists(), "a refused start leaves nothing that makes the next one go through"
    old.rename(new)
    with protect([create_refund], file) as tools:
        assert tools["create_refund"]("881")["status"] == "DUPLICATE_IGNORED"
    protect([create_refund], {**gating_refunds(), "journal": ".interlock"}).close()
    caplog.clear()
    protect([create_refund], file).close()
    assert f"there is another one at {old}" in caplog.text
    caplog.clear()
    protect([create_refund], a_file(tmp_path / "etc", str(new))).close()
    assert "another one" not in caplog.text


def test_a_link_to_a_file_does_not_make_another_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under two names a file would have two journals; so a relative one is refused there, and an absolute one taken."""
    monkeypatch.chdir(tmp_path)
    file = a_file(tmp_path / "etc")
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "gate.json"
    link.symlink_to(file)
    with pytest.raises(ConfigurationError, match="Write the one that is meant as an absolute path") as raised:
        protect([create_refund], link)
    assert str(tmp_path / "links" / ".interlock") in str(raised.value)
    (tmp_path / "directory").symlink_to(tmp_path / "etc")
    with protect([create_refund], tmp_path / "directory" / "gate.json") as tools:
        tools["create_refund"]("881")
    with protect([create_refund], file) as tools:
        assert tools["create_refund"]("881")["status"] == "DUPLICATE_IGNORED"


def test_a_pause_that_is_not_said_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As in `@gate.effect`: without `settle_after` a look-up alone is warned of, in data and in Python, and not with it."""
    lookup = {"tool": "find_refund", "arguments": {"reference": "$effect_id"}, "found": "refund"}
    for n, how in enumerate(
        (
            {"key": ["order_id"], "lookup": lookup, "idempotency_argument": "reference"},
            Effect(
                key=lambda order_id: order_id, lookup=lambda idempotency_key: None, idempotency_argument="reference"
            ),
        )
    ):
        tools = [create_refund, find_refund]
        protect(tools, {"journal": str(tmp_path / str(n)), "tools": {"create_refund": how}}).close()
        assert caplog.text.count("settle_after= is not said") == 1
        caplog.clear()
        said = {**how, "settle_after": "1s"} if isinstance(how, dict) else dataclasses.replace(how, settle_after=1)
        protect(tools, {"journal": str(tmp_path / f"{n}s"), "tools": {"create_refund": said}}).close()
        assert "settle_after" not in caplog.text


def test_a_look_up_without_the_key_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A tool that is given in Python is warned of as `@gate.effect` is; one that carries the key is not."""
    for place, options in (("without", {}), ("with", {"idempotency_argument": "reference"})):
        how = Effect(key=lambda order_id: order_id, lookup=lambda order_id: None, settle_after=1, **options)
        protect([create_refund], {"journal": str(tmp_path / place), "tools": {"create_refund": how}}).close()
        assert caplog.text.count("neither lookup= nor the function takes") == (place == "without")
        caplog.clear()


def test_the_log_says_where_the_journal_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The absolute place of the journal is in the log when it is opened."""
    with caplog.at_level("INFO", logger="interlock"):
        protect([create_refund], a_file(tmp_path / "etc")).close()
    assert f"the journal is {tmp_path / 'etc' / '.interlock'}" in caplog.text
